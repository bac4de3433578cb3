"""Compiled loops keep NaN and infinity, run without the GIL, and work where nothing can be kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from unskew.solve import kernels_compiler
from unskew.solve.kernels_compiler import compiled


def sum_of(value_n):
    total = 0.0
    for i in range(value_n.size):
        total += value_n[i]
    return total


@pytest.fixture(scope="module")
def compiled_sum():
    return kernels_compiler.njit(fastmath=kernels_compiler._FAST, error_model="numpy")(sum_of)


def test_reordered_sums_are_sums(compiled_sum) -> None:
    value_n = np.random.default_rng(0).normal(size=1001)
    assert compiled_sum(value_n) == pytest.approx(math.fsum(value_n), abs=1e-11)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_keep_their_meaning(compiled_sum, odd: float) -> None:
    value_n = np.ones(100)
    value_n[37] = odd
    assert compiled_sum(value_n) == pytest.approx(odd, nan_ok=True)


def test_loops_release_the_gil_and_are_kept_on_disk() -> None:
    kernel = compiled(sum_of)
    assert isinstance(kernel, Dispatcher)
    assert kernel.py_func is sum_of
    assert kernel.targetoptions["nogil"]
    assert kernel.targetoptions["error_model"] == "numpy"
    assert kernel._cache.cache_path


def test_without_a_folder_to_keep_it_a_loop_is_compiled_all_the_same(monkeypatch) -> None:
    plain = kernels_compiler.njit
    asked = []

    def njit(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(kernels_compiler, "njit", njit)
    kernel = compiled(sum_of)
    assert isinstance(kernel, Dispatcher)
    first, second = asked
    assert second == {name: value for name, value in first.items() if name != "cache"}
