"""The door of `Weights`: every name is that of its home, and importing it costs nothing."""

import importlib
import subprocess
import sys

import pytest

from unskew.weigh import methods

HOMES = {
    "agreement": ["compare_sources"],
    "bootstrap": ["Bootstrap", "bootstrap_weights"],
    "doubly_robust": ["doubly_robust_mean"],
    "effective_size": ["Diagnosis", "diagnose_weights"],
    "new_images": ["weigh_new_images"],
    "sensitivity": ["Sensitivity", "bound_weights_mean"],
    "solved_weights": ["align_weights"],
    "uncertainty": ["log_normalizer_covariance", "weighted_mean"],
    "weights_table": ["make_weights_frame", "write_weights"],
}


def test_no_name_is_without_a_home_here() -> None:
    here = [name for name in vars(methods) if not name.startswith("_")]
    assert sorted(here) == sorted(name for names in HOMES.values() for name in names)


@pytest.mark.parametrize(
    ("home", "name"), [(home, name) for home, names in HOMES.items() for name in names]
)
def test_every_name_is_that_of_its_home(home: str, name: str) -> None:
    thing = getattr(importlib.import_module(f"unskew.weigh.{home}"), name)
    assert getattr(methods, name) is thing
    assert thing.__module__ == f"unskew.weigh.{home}"


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        methods.nothing_of_the_kind  # noqa: B018


def test_importing_the_methods_of_weights_loads_numpy_and_scipy_only() -> None:
    code = (
        "import sys, unskew.weigh.methods; "
        "heavy = ('numba', 'pandas', 'pyarrow', 'sklearn'); "
        "print(*[name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
