"""The door of `Target`: every name is the function of its home."""

import importlib
import subprocess
import sys

import pytest

from unskew.target import methods

HOMES = {
    "building": [
        "margins_target",
        "sample_target",
        "source_target",
        "table_target",
        "uniform_target",
    ],
    "predictions": ["predictions_target"],
    "resolution": ["find_reference", "stratify_pool"],
    "settings": ["read_target", "target_sentences", "written_target"],
}


def test_no_name_is_without_a_home_here() -> None:
    here = [name for name in vars(methods) if not name.startswith("_")]
    assert sorted(here) == sorted(name for names in HOMES.values() for name in names)


@pytest.mark.parametrize(
    ("home", "name"), [(home, name) for home, names in HOMES.items() for name in names]
)
def test_every_name_is_the_function_of_its_home(home: str, name: str) -> None:
    function = getattr(importlib.import_module(f"unskew.target.{home}"), name)
    assert getattr(methods, name) is function
    assert function.__module__ == f"unskew.target.{home}"


def test_importing_it_loads_neither_pandas_nor_numba() -> None:
    code = (
        "import sys, unskew.target.methods; "
        "print(*[name for name in ('numba', 'pandas', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
