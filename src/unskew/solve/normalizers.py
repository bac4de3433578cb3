"""The doors of the stage: ``check_overlap`` and ``solve_normalizers``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy.typing as npt

from unskew.engine.arguments import AnyTable, Jobs, checked
from unskew.records import Floats, Ints, Overlap, Solution
from unskew.solve.inspection import inspect_cells
from unskew.solve.link_error import (
    LINK_ERROR_LIMIT,
    LinkError,
    link_error_bound,
    link_error_of_rows,
    stored_weights,
)
from unskew.solve.methods import Solved, solve_prepared, with_exact_hessian
from unskew.solve.options import OmegaOptions, Options, read_options, shows_options
from unskew.solve.overlap import (
    is_strongly_connected,
    judge_links,
    judge_overlap,
    spectral_gap,
    warn_if_weak,
)
from unskew.solve.prepared_rows import Prepared, prepare, prepare_design
from unskew.solve.starting_point import subsample

# Up to this many sources the eigenvalues for the verdict cost little compared with the solve.
_CHEAP_EIGENVALUES = 64
# `check_overlap` solves a subsample where ω has more entries than this; where that finds a link
# error beyond a third of its limit, it solves all.
_MOST_ENTRIES = 1 << 20
_CLOSE = 1 / 3


@checked
def check_overlap(
    omega: AnyTable,
    source: npt.ArrayLike,
    *,
    log: bool = False,
    names: Sequence[object] | None = None,
    jobs: Jobs | None = None,
) -> Overlap:
    """Decide whether the normalizers are identifiable, and how well the sources are linked.

    The overlap graph has an edge k→l iff some image of source l has ω_k > 0; the normalizers are
    identifiable iff it is strongly connected. That takes one pass over ω. How well they are known
    takes a solve (of a subsample, where ω is large): the verdict is "weak" where their error is
    expected to move more than a tenth of the target's mass (``link_error``). Whether the weights
    are too uneven is judged with the weights, by ``debias_weights``.

    Parameters
    ----------
    omega : (n, K) array, SciPy sparse matrix, DataFrame, path to .npy or .parquet, or an iterable
        of row blocks.
    source : (n,) integers 0…K−1 or names.
    log : ω is given by its logarithm.
    names : names of the sources in the order of ω's columns (default: the columns of a DataFrame,
        else the sorted names in ``source``).
    jobs : threads (default: all cores).

    Returns
    -------
    Overlap

    Examples
    --------
    >>> import unskew
    >>> overlap = unskew.check_overlap([[1, 0], [1, 1], [0, 1]], ["day", "day", "night"])
    >>> overlap.connected, overlap.components
    (False, (('day',), ('night',)))
    """
    options = Options(log=log, names=names, jobs=jobs, throw=False)
    prepared = prepare(omega, source, options)
    if not prepared.overlap.connected or len(prepared.names) == 1:
        return prepared.overlap
    overlap, few = prepared.overlap, _few_rows(prepared)
    judged = overlap
    if few is not None:
        judged = _judge_solved(overlap, solve_prepared(few, options))
    # A subsample may miss what is rare, so that it is not asked where it matters.
    if few is None or judged.link_error is None or judged.link_error > _CLOSE * LINK_ERROR_LIMIT:
        judged = _judge_solved(overlap, solve_prepared(prepared, options))
    # The weakest link stays that of the graph.
    return replace(judged, weakest_link=overlap.weakest_link, weakest_count=overlap.weakest_count)


def _few_rows(prepared: Prepared) -> Prepared | None:
    """Take a subsample of large ω, if that leaves its sources linked; None otherwise."""
    rows = prepared.rows
    if rows.n_stored * rows.n_sources <= _MOST_ENTRIES:
        return None
    few = subsample(rows, _MOST_ENTRIES // (4 * rows.n_sources))
    return replace(prepared, rows=few) if is_strongly_connected(few.link_count()) else None


def _judge_solved(overlap: Overlap, solved: Solved) -> Overlap:
    """Add link error and verdict of a solve; one that failed is weak."""
    solution = with_exact_hessian(solved).solution
    if not solution.converged:
        return judge_links(overlap, LinkError(math.inf, None), None)
    if solution.hessian is None:
        return overlap
    weight_n = stored_weights(solved.rows, solution.u)
    error = link_error_of_rows(solved.rows, solution.u, solution.hessian, weight_n)
    return judge_links(overlap, error, solution.hessian)


def overlap_of_cells(log_omega_ck: Floats, count_ck: Ints, names: tuple[str, ...]) -> Overlap:
    """Check the overlap where all images of a cell have the same ω, from the counts of each source.

    ``count_ck`` holds how many images each source has in each cell, ``names`` those of the sources.
    """
    return judge_overlap(inspect_cells(log_omega_ck, count_ck), names)


@checked
@shows_options(OmegaOptions)
def solve_normalizers(
    omega: AnyTable,
    source: npt.ArrayLike,
    *,
    design_weight: npt.ArrayLike | None = None,
    **options: Unpack[OmegaOptions],
) -> Solution:
    """Solve the biased-sampling equations for the normalizers Ω.

    Minimises D(u) = (1/n) Σ_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k. At the minimum Ω_k = λ_k e^{−u_k}
    = Σ_i π_i ω_ik with the weights π_i = 1/(n Σ_k λ_k ω_ik/Ω_k), Σ_i π_i = 1 (Vardi
    1985; Gill, Vardi & Wellner 1988).

    Parameters
    ----------
    omega : (n, K) array, SciPy sparse matrix, DataFrame, path to .npy or .parquet, or an iterable
        of row blocks: ω_ik ≥ 0, how likely (up to a constant per source) source k is to select an
        image like i.
    source : (n,) integers 0…K−1 or names.
    design_weight : (n,) d_i > 0, scaled to mean 1 within each source: image i counts d_i times. See
        `debias_weights`.
    **options

    Raises
    ------
    DataError : ω or ``source`` makes no sense; the message names the image and the source.
    OverlapError : the sources lack a link, so there is no unique solution.
    ConvergenceError : the tolerance was not met.

    Examples
    --------
    Source "all" sees everything, source "half" only half of the population: Ω = 1 and ½.

    >>> import numpy as np, unskew
    >>> omega = np.repeat([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], 20, axis=0)
    >>> solution = unskew.solve_normalizers(omega, np.repeat(["all", "half"], 40))
    >>> solution.normalizer.round(6).tolist(), solution.converged
    ([1.0, 0.5], True)
    """
    checked = read_options(options)
    prepared, _ = prepare_design(omega, source, checked, design_weight)
    solved = solve_prepared(prepared, checked)
    solution = solved.solution
    if solution.converged and 1 < len(prepared.names) <= _CHEAP_EIGENVALUES:
        gap = spectral_gap(solution.hessian, solution.share)
        if link_error_bound(gap, solved.rows.size_k) > LINK_ERROR_LIMIT:
            warn_if_weak(_judge_solved(prepared.overlap, solved))
    return solution
