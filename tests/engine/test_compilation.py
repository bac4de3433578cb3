"""What is compiled, where it is kept, and what is said about it."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from unskew.engine import compilation
from unskew.engine.compilation import compile_loop, compiled

_LOOP = """
from unskew.engine.compilation import compile_loop
loop = compile_loop(__import__("unskew.solve.kernels_sweep").solve.kernels_sweep.sweep_few.py_func)
from numba.core import config
config.reload_config()  # as every compilation does
print(repr(config.CACHE_DIR), repr(getattr(loop._cache, "cache_path", None)))
"""


def sum_of(value_n):
    total = 0.0
    for i in range(value_n.size):
        total += value_n[i]
    return total


@pytest.fixture(scope="module")
def compiled_sum():
    return compiled(sum_of)


def _cache_of_a_process(folder: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}\n{_LOOP}"],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_reordered_sums_are_sums(compiled_sum) -> None:
    value_n = np.random.default_rng(0).normal(size=1001)
    assert compiled_sum(value_n) == pytest.approx(math.fsum(value_n), abs=1e-11)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_keep_their_meaning(compiled_sum, odd: float) -> None:
    value_n = np.ones(100)
    value_n[37] = odd
    assert compiled_sum(value_n) == pytest.approx(odd, nan_ok=True)


def test_loops_release_the_gil(compiled_sum) -> None:
    assert isinstance(compiled_sum, Dispatcher)
    assert compiled_sum.py_func is sum_of
    assert compiled_sum.targetoptions["nogil"]
    assert compiled_sum.targetoptions["error_model"] == "numpy"


@pytest.mark.parametrize("settings", ["cache_dir: pickles\n", "damaged: ["])
def test_a_stranger_cannot_name_the_folder_of_numbas_pickles(settings: str, tmp_path: Path) -> None:
    """Neither by a file in the working directory, which is not read, nor by a relative folder."""
    (tmp_path / ".numba_config.yaml").write_text(settings)
    assert _cache_of_a_process(tmp_path, XDG_CACHE_HOME="here") == "'' None"
    assert {path.name for path in tmp_path.iterdir()} == {".numba_config.yaml"}


def test_the_code_is_kept_in_the_users_cache_and_never_in_the_package(tmp_path: Path) -> None:
    named, path = _cache_of_a_process(tmp_path, XDG_CACHE_HOME=str(tmp_path)).split()
    assert named == "''"
    assert path.startswith(f"'{tmp_path / 'unskew'}")


@pytest.mark.parametrize("name", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_without_a_folder_to_keep_it_a_loop_is_compiled_all_the_same(monkeypatch, name) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv(name, "/dev/null/cache")
    if name == "NUMBA_CACHE_DIR":
        monkeypatch.setattr("numba.core.config.CACHE_DIR", "/dev/null/cache")
    loop = compile_loop(sum_of)
    assert not hasattr(loop._cache, "_cache_path")
    assert loop(np.ones(3)) == 3.0


def test_compiling_is_announced_once(monkeypatch, caplog) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr(sum_of, "__module__", "unskew.example")
    monkeypatch.setattr(compilation, "_announced", False)
    with caplog.at_level(logging.INFO, logger="unskew.engine.compilation"):
        for _ in range(2):
            compile_loop(sum_of)(np.ones(3))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("compiling once,")
    assert "not kept" in line  # it said that later runs find it
