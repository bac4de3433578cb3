"""Ranges cover the rows, results come in their order, and BLAS gets its threads back."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from unskew.engine.threads import available_jobs, one_blas_thread, row_ranges, run_ranges


@given(st.integers(0, 5_000_000), st.integers(1, 200), st.integers(1, 9))
def test_ranges_follow_one_another_and_cover_every_row_once(n: int, width: int, jobs: int) -> None:
    ranges = row_ranges(n, width, jobs)
    edges = [0] + [stop for _, stop in ranges]
    assert [start for start, _ in ranges] == edges[:-1]
    assert edges[-1] == n
    assert all(start < stop <= start + (1 << 19) for start, stop in ranges)


def test_few_entries_are_not_worth_a_thread_and_many_are_shared_evenly() -> None:
    assert row_ranges(1000, 2, jobs=8) == [(0, 1000)]
    assert row_ranges(1_000_000, 2, jobs=1) == [(0, 500_000), (500_000, 1_000_000)]
    size = [stop - start for start, stop in row_ranges(1_000_003, 2, jobs=8)]
    assert len(size) == 8
    assert max(size) - min(size) <= 1


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_come_in_the_order_of_the_ranges(jobs: int) -> None:
    ranges = [(i, i + 1) for i in range(6)]

    def work(start: int, stop: int) -> tuple[int, int]:
        time.sleep(0.002 * (6 - start))  # the first takes longest
        return start, stop

    assert run_ranges(work, ranges, jobs) == ranges


def test_ranges_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)  # each waits for the other
    assert sorted(run_ranges(lambda start, stop: both.wait(), [(0, 1), (1, 2)], 2)) == [0, 1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_range_comes_through(jobs: int) -> None:
    with pytest.raises(ZeroDivisionError):
        run_ranges(lambda start, stop: 1 // (stop - 2), [(0, 1), (1, 2)], jobs)


def test_jobs_are_the_cores_of_this_process() -> None:
    assert 1 <= available_jobs() <= (os.cpu_count() or 1)


def blas_threads() -> list[int]:
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_its_own_number_after_the_last_leaves() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    with one_blas_thread():
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 // 0  # noqa: B018
    assert blas_threads() == before
