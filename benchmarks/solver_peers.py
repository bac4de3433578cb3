"""The solvers under comparison, each as a function (problem, seed) -> callable that solves it once
and returns log Ω up to a constant.

What a peer needs in another form (u_kn = −log ω, transposed) is made before the clock starts. Heavy
packages are imported by the function that needs them, because every peer runs in a process of its
own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from solver_inputs import Problem

Solver = Callable[[], np.ndarray]


def _energies(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """u_kn = −log ω (K × n, +inf where ω = 0) and N_k, as the MBAR packages want them."""
    omega = problem.omega
    counts = np.bincount(problem.source, minlength=omega.shape[1])
    if sp.issparse(omega):
        u_kn = np.full(omega.shape[::-1], np.inf)
        u_kn[omega.indices, np.repeat(np.arange(omega.shape[0]), np.diff(omega.indptr))] = -np.log(
            omega.data
        )
        return u_kn, counts
    with np.errstate(divide="ignore"):
        return np.ascontiguousarray(-np.log(omega).T), counts


def _pymbar(problem: Problem, protocol: str | None) -> Solver:
    from pymbar import MBAR

    u_kn, counts = _energies(problem)
    options: dict[str, Any] = {"solver_protocol": protocol}
    if problem.start is not None:
        # pymbar's f_k is −log Ω_k, and u_k = log(λ_k/Ω_k).
        options["initial_f_k"] = problem.start - np.log(problem.share)
    return lambda: -np.asarray(MBAR(u_kn, counts, **options).f_k)


def pymbar_numpy(problem: Problem, seed: int) -> Solver:
    """pymbar's MBAR on NumPy and SciPy, default options."""
    # pymbar takes JAX whenever it can be imported, so hide JAX while pymbar is being imported.
    sys.modules["jax"] = None  # type: ignore[assignment]
    importlib.import_module("pymbar")
    del sys.modules["jax"]
    return _pymbar(problem, None)


def pymbar_jax(problem: Problem, seed: int) -> Solver:
    """pymbar's MBAR on JAX, with the protocol it recommends there."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return _pymbar(problem, "jax")


def fastmbar_newton(problem: Problem, seed: int) -> Solver:
    """FastMBAR, Newton, float64."""
    return _fastmbar(problem, "Newton")


def fastmbar_lbfgs(problem: Problem, seed: int) -> Solver:
    """FastMBAR, L-BFGS, float64."""
    return _fastmbar(problem, "L-BFGS-B")


def _fastmbar(problem: Problem, method: str) -> Solver:
    from FastMBAR import FastMBAR

    u_kn, counts = _energies(problem)
    return lambda: -np.asarray(FastMBAR(u_kn, counts, cuda=False, method=method).F)


def article_sgd(problem: Problem, seed: int) -> Solver:
    """The article's step 3: torch SGD on D̂, 4000 iterations, batch 100, learning rate 1e-2,
    momentum 0.9, from a random start.
    """
    import torch

    sparse = sp.issparse(problem.omega)
    omega = (
        problem.omega
        if sparse
        else torch.from_numpy(np.ascontiguousarray(problem.omega, dtype=np.float64))
    )
    n = omega.shape[0]
    share = torch.from_numpy(problem.share)
    start = (
        np.random.default_rng(seed).normal(size=share.numel())
        if problem.start is None or seed
        else problem.start
    )

    def solve() -> np.ndarray:
        draw = torch.Generator().manual_seed(seed)
        u = torch.tensor(start, requires_grad=True)
        optimizer = torch.optim.SGD([u], lr=1e-2, momentum=0.9)
        for _ in range(4000):
            rows = torch.randint(n, (100,), generator=draw)
            batch = torch.from_numpy(omega[rows.numpy()].toarray()) if sparse else omega[rows]
            loss = torch.log(batch @ u.exp()).mean() - share @ u
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return np.asarray((share.log() - u).detach())

    return solve


def unskew(problem: Problem, seed: int, jobs: int = 1, method: str = "newton") -> Solver:
    """The public call of unskew, checks and scaling included."""
    from unskew import solve_normalizers

    start = (
        problem.start
        if method == "newton" or not seed
        else np.random.default_rng(seed).normal(size=problem.omega.shape[1])
    )
    options: dict[str, Any] = {
        "method": method,
        "jobs": jobs,
        "start": start,
        "throw": method != "sgd",
        "seed": seed,
    }
    return lambda: solve_normalizers(problem.omega, problem.source, **options).log_normalizer


PEERS: dict[str, Callable[[Problem, int], Solver]] = {
    "pymbar_numpy": pymbar_numpy,
    "pymbar_jax": pymbar_jax,
    "fastmbar_newton": fastmbar_newton,
    "fastmbar_lbfgs": fastmbar_lbfgs,
    "article_sgd": article_sgd,
    "unskew": unskew,
    "unskew_two_threads": partial(unskew, jobs=2),
    "unskew_sgd": partial(unskew, method="sgd"),
}
