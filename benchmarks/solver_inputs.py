"""The inputs of the solver benchmarks, written to files so that every peer, each in a process of
its own, reads the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

GAMMAS = (0.001, 0.01, 0.1, 0.2)
N_CLASSES = 10
BLOCK = 250_000


@dataclass(frozen=True)
class Problem:
    """ω (n × K), the source of every row, and the point from which a solver is asked to start
    (None: wherever it likes).
    """

    omega: Any
    source: np.ndarray
    start: np.ndarray | None

    @property
    def share(self) -> np.ndarray:
        """(K,) λ_k = n_k/n."""
        return np.bincount(self.source, minlength=self.omega.shape[1]) / self.source.size


def save_problem(
    folder: Path, omega: Any, source: np.ndarray, start: np.ndarray | None = None
) -> None:
    """Write a problem; ω = None where ``omega.npy`` has been written blockwise already."""
    if sp.issparse(omega):
        sp.save_npz(folder / "omega.npz", omega, compressed=False)
    elif omega is not None:
        np.save(folder / "omega.npy", omega)
    np.save(folder / "source.npy", source.astype(np.int32))
    if start is not None:
        np.save(folder / "start.npy", start)


def load_problem(folder: Path, on_disk: bool = False) -> Problem:
    """Read a problem; with ``on_disk``, ω is a read-only memory map."""
    dense, start = folder / "omega.npy", folder / "start.npy"
    omega = (
        np.load(dense, mmap_mode="r" if on_disk else None)
        if dense.exists()
        else sp.load_npz(folder / "omega.npz")
    )
    return Problem(
        omega, np.load(folder / "source.npy"), np.load(start) if start.exists() else None
    )


def make_classes(folder: Path, n: int, gamma: float, estimated: bool) -> None:
    """The article's 4.2: K = 5 sources of n/K images, 10 classes, two in each meta-class.

    Source k draws its own meta-class with probability 1 − γ and the next one (cyclic) with γ.
    ``estimated``: ω̂_k(y) = n_k^(y), the number of images of class y in source k; otherwise the
    true ω_k(y), the probability of class y in source k. The start is random.
    """
    rng = np.random.default_rng(0)
    n_sources = 5
    probability_ky = np.zeros((n_sources, N_CLASSES))
    for k in range(n_sources):
        probability_ky[k, [2 * k, 2 * k + 1]] = (1 - gamma) / 2
        following = (k + 1) % n_sources
        probability_ky[k, [2 * following, 2 * following + 1]] = gamma / 2
    label = np.concatenate(
        [rng.choice(N_CLASSES, size=n // n_sources, p=p_y) for p_y in probability_ky]
    )
    source = np.repeat(np.arange(n_sources), n // n_sources)
    count_ky = np.zeros((n_sources, N_CLASSES))
    np.add.at(count_ky, (source, label), 1.0)
    omega_ky = count_ky if estimated else probability_ky
    save_problem(
        folder, np.ascontiguousarray(omega_ky.T[label]), source, rng.normal(size=n_sources)
    )


def _tilt_blocks(n: int, n_sources: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks (ω, source) of Gaussian tilts: target N(0, I) in three dimensions, ω_k(z) =
    exp(θ_k·z), so that source k is N(θ_k, I).
    """
    rng = np.random.default_rng(seed)
    theta_kd = rng.normal(size=(n_sources, 3))
    for first in range(0, n, BLOCK):
        source = rng.integers(n_sources, size=min(BLOCK, n - first))
        z_nd = rng.normal(size=(source.size, 3)) + theta_kd[source]
        yield np.exp(z_nd @ theta_kd.T), source


def make_tilts(folder: Path, n: int, n_sources: int) -> None:
    """Dense row-major float64: Gaussian tilts."""
    blocks = list(_tilt_blocks(n, n_sources, seed=1))
    save_problem(
        folder,
        np.concatenate([omega for omega, _ in blocks]),
        np.concatenate([source for _, source in blocks]),
    )


def make_disk(folder: Path, n: int, n_sources: int) -> None:
    """Gaussian tilts as float32 in ``omega.npy``, written block by block."""
    omega = np.lib.format.open_memmap(
        folder / "omega.npy", mode="w+", dtype=np.float32, shape=(n, n_sources)
    )
    source = np.empty(n, dtype=np.int32)
    first = 0
    for block, block_source in _tilt_blocks(n, n_sources, seed=1):
        stop = first + block_source.size
        omega[first:stop], source[first:stop] = block, block_source
        first = stop
    omega.flush()
    save_problem(folder, None, source)


def make_chain(folder: Path, n: int, n_sources: int) -> None:
    """Sparse CSR, five non-zeros in every row, in neighbouring columns: source k overlaps with k ±
    1 … 4 and with nobody else.

    The source of a row is drawn from q_ik ∝ e^{u_k} ω_ik with u a random walk, so that the data fit
    the model.
    """
    rng = np.random.default_rng(2)
    width = 5
    u = np.cumsum(rng.normal(scale=0.3, size=n_sources))
    column = rng.integers(n_sources - width + 1, size=n)[:, None] + np.arange(width)
    value = rng.uniform(0.1, 1.0, size=(n, width))
    # Exponential race: the largest of log(e^u ω) + Gumbel noise is a draw from q.
    score = u[column] + np.log(value) + rng.gumbel(size=(n, width))
    source = column[np.arange(n), score.argmax(axis=1)]
    first = np.arange(0, n * width + 1, width, dtype=np.int32)
    omega = sp.csr_array(
        (value.ravel(), column.astype(np.int32).ravel(), first), shape=(n, n_sources)
    )
    save_problem(folder, omega, source)


def _weak_link(omega: np.ndarray, group: np.ndarray, mass: float) -> np.ndarray:
    """Shrink ω across the two groups of two sources to a mass of about ``mass`` at the solution.

    The factor is 10 one way and 1/10 the other, so that the solution, e^{2d} = 0.1/10 between the
    groups, is far from the even start.
    """
    across = group[:, None] != np.array([0, 0, 1, 1])
    return np.where(across, omega * mass * np.where(group == 0, 10.0, 0.1)[:, None], omega)


def make_weak_patterns(folder: Path, n: int, mass: float) -> None:
    """Two groups of two sources, eight distinct rows: good overlap within a group, ω of relative
    size ``mass`` across.
    """
    rng = np.random.default_rng(3)
    pattern = _weak_link(rng.uniform(0.2, 1.0, size=(8, 4)), np.arange(8) // 4, mass)
    row = rng.integers(8, size=n)
    save_problem(folder, pattern[row], row // 4 * 2 + rng.integers(2, size=n))


def make_weak_random(folder: Path, n: int, mass: float, seed: int) -> None:
    """As ``make_weak_patterns``, every row different."""
    rng = np.random.default_rng([4, seed])
    group = rng.integers(2, size=n)
    omega = _weak_link(rng.uniform(0.2, 1.0, size=(n, 4)), group, mass)
    save_problem(folder, omega, 2 * group + rng.integers(2, size=n))


def make_bad(folder: Path, kind: str) -> None:
    """A small problem that has no solution, or one that naive arithmetic does not find."""
    rng = np.random.default_rng(5)
    n, n_sources = 2_000, 4
    omega = rng.uniform(0.1, 1.0, size=(n, n_sources))
    source = rng.integers(n_sources, size=n)
    in_first = source < 2
    if kind == "disconnected":
        omega[np.ix_(in_first, [2, 3])] = 0.0
    if kind in ("disconnected", "one-way"):
        omega[np.ix_(~in_first, [0, 1])] = 0.0
    if kind == "zero-row":
        omega[17] = 0.0
    if kind == "rows":
        omega *= 10.0 ** rng.choice([-300, 0, 300], size=n)[:, None]
    if kind == "columns":
        omega *= np.array([1e300, 1e-300, 1.0, 1e300])
    save_problem(folder, omega, source)


MAKERS: dict[str, Callable[..., None]] = {
    "classes": make_classes,
    "tilts": make_tilts,
    "disk": make_disk,
    "chain": make_chain,
    "weak_patterns": make_weak_patterns,
    "weak_random": make_weak_random,
    "bad": make_bad,
}
