"""Random biased-sampling problems for the tests, and the ways in which the same problem can be
handed to the solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import assume
from hypothesis import strategies as st

from unskew.engine.row_blocks import open_reader
from unskew.solve.inspection import inspect_rows
from unskew.solve.omega_rows import Rows
from unskew.solve.overlap import is_strongly_connected


@dataclass(frozen=True)
class Problem:
    omega: np.ndarray
    source: np.ndarray

    @property
    def share(self) -> np.ndarray:
        return np.bincount(self.source, minlength=self.omega.shape[1]) / self.source.size


def random_problem(
    seed: int, n: int, n_sources: int, zeros: float = 0.3, spread: float = 1.0
) -> Problem:
    """Log-normal ω with a share of zeros; every image has a positive ω in its own source, every
    source an image.
    """
    rng = np.random.default_rng(seed)
    source = np.concatenate([np.arange(n_sources), rng.integers(0, n_sources, n - n_sources)])
    omega = np.exp(spread * rng.normal(size=(n, n_sources)))
    keep = rng.uniform(size=omega.shape) >= zeros
    keep[np.arange(n), source] = True
    return Problem(omega * keep, source)


def rows_of(problem: Problem) -> Rows:
    return Rows(
        reader=open_reader(problem.omega),
        source_n=problem.source.astype(np.int32),
        n_sources=problem.omega.shape[1],
    )


def is_connected(problem: Problem) -> bool:
    names = [str(k) for k in range(problem.omega.shape[1])]
    return is_strongly_connected(inspect_rows(rows_of(problem), names).link_kl)


@st.composite
def connected_problems(draw: Any, max_sources: int = 5) -> Problem:
    n_sources = draw(st.integers(1, max_sources))
    n = draw(st.integers(max(6, 4 * n_sources), 60))
    zeros = draw(st.sampled_from([0.0, 0.3, 0.6]))
    spread = draw(st.sampled_from([0.3, 1.0, 2.0]))
    problem = random_problem(draw(st.integers(0, 10**6)), n, n_sources, zeros, spread)
    if draw(st.booleans()):  # few distinct rows: what collapsing is for
        levels = np.array([0.5, 1.0, 2.0])
        problem = Problem(
            np.where(problem.omega > 0, levels[(problem.omega * 97).astype(int) % 3], 0.0),
            problem.source,
        )
        problem = Problem(np.tile(problem.omega, (3, 1)), np.tile(problem.source, 3))
    assume(is_connected(problem))
    return problem


class Blocks:
    """Row blocks that can be iterated again; nothing else."""

    def __init__(self, omega: Any, rows: int = 7) -> None:
        self.omega, self.rows = omega, rows

    def __iter__(self) -> Any:
        for start in range(0, self.omega.shape[0], self.rows):
            yield self.omega[start : start + self.rows]


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": lambda omega: omega,
    "csr": sp.csr_array,
    "streamed": Blocks,
    "streamed csr": lambda omega: Blocks(sp.csr_array(omega)),
    "fortran": np.asfortranarray,
    "logarithms": np.log,
}


def in_form(form: str, omega: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """(ω in that form, keyword arguments that go with it)."""
    with np.errstate(divide="ignore"):
        return FORMS[form](omega), {"log": True} if form == "logarithms" else {}
