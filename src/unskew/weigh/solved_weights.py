"""The door of the stage, ``debias_weights``; weights joined by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import AnyTable, AnyValues, checked
from unskew.errors import ConvergenceError, DataError
from unskew.records import Floats, Ints, Weights
from unskew.records.arrays import check_length, is_missing
from unskew.records.levels import find_positions, list_ids
from unskew.solve.methods import Solved, solve_prepared, with_exact_hessian
from unskew.solve.omega_rows import Rows
from unskew.solve.options import OmegaOptions, read_options, shows_options
from unskew.solve.overlap import overlap_at_solution, warn_if_weak
from unskew.solve.prepared_rows import prepare, prepare_design
from unskew.solve.source_codes import check_same_order
from unskew.weigh.tail_verdict import judge_tail
from unskew.weigh.uncertainty import log_normalizer_covariance


@checked
@shows_options(OmegaOptions)
def debias_weights(
    omega: AnyTable,
    source: npt.ArrayLike,
    *,
    group: npt.ArrayLike | None = None,
    id: npt.ArrayLike | None = None,
    design_weight: npt.ArrayLike | None = None,
    **options: Unpack[OmegaOptions],
) -> Weights:
    """Give every image one weight, with the normalizers Ω of ``solve_normalizers``.

    π_i = 1/(n Σ_k λ_k ω_ik/Ω_k). The weighted pool estimates the target: Σ_i π_i h(z_i) → ∫ h dp.
    Facts: Σ_i π_i = 1, Σ_i π_i ω_ik = Ω_k; a constant factor in ω_k changes no weight; with all ω
    equal π_i = 1/n; with one source π_i ∝ 1/ω_i.

    Parameters
    ----------
    omega, source : as for ``solve_normalizers``.
    group : (n,) the group of every image (patient, burst): images of one group are not independent,
        and standard errors account for it.
    id : (n,) an id for every image (default: the index of ``omega`` if it is a DataFrame, else the
        row number).
    design_weight : (n,) d_i > 0, the inverse of the chance with which its source drew image i from
        its own frame, up to a factor of the source. Then π_i ∝ d_i/Σ_k e^{u_k} ω_ik, u minimising
        Σ_i d_i log Σ_k e^{u_k} ω_ik − Σ_k n_k u_k, d scaled to mean 1 within each source.
    **options

    Examples
    --------
    >>> import numpy as np, unskew
    >>> omega = np.repeat([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], 20, axis=0)
    >>> weights = unskew.debias_weights(omega, np.repeat(["all", "half"], 40))
    >>> weights.sample_weight[[0, 20, 40]].round(4).tolist(), weights.names
    ([0.6667, 2.0, 0.6667], ('all', 'half'))
    """
    weights = solve_weights(
        omega, source, group=group, id=id, design_weight=design_weight, **options
    )
    overlap = judge_tail(weights.overlap, weights.weight, weights.unit)
    warn_if_weak(overlap)
    return replace(weights, overlap=overlap)


def solve_weights(
    omega: AnyTable,
    source: Any,
    *,
    group: Any = None,
    id: AnyValues = None,
    design_weight: Any = None,
    is_scaled: bool = False,
    **options: Unpack[OmegaOptions],
) -> Weights:
    """Do what `debias_weights` does; only the links are judged, and nothing is warned of."""
    checked = read_options(options)
    if is_scaled:
        prepared, design_n = prepare(omega, source, checked, design_weight), design_weight
    else:
        prepared, design_n = prepare_design(omega, source, checked, design_weight)
    ids = _ids(omega, id, prepared.rows.n_rows)
    check_same_order(group, "group", omega)
    groups = None if group is None else group_codes(group, prepared.rows.n_rows)
    return weigh_solved(solve_prepared(prepared, checked), ids, groups, design_n)


def weigh_solved(
    solved: Solved,
    ids: npt.NDArray[Any],
    groups: tuple[Ints, npt.NDArray[Any]] | None = None,
    design_n: Floats | None = None,
) -> Weights:
    """Compute the weights of a solve with the verdict on its links, without a warning."""
    solved = with_exact_hessian(solved)
    rows, solution = solved.rows, solved.solution
    source_n = rows.source_n if rows.inverse_n is None else rows.source_n[rows.inverse_n]
    weights = Weights(
        weight=_weights(rows, solution.u, design_n),
        id=ids,
        source=source_n.copy(),
        names=solution.names,
        solution=solution,
        overlap=solved.overlap,
        group=None if groups is None else groups[0],
        group_names=None if groups is None else groups[1],
        rows=rows,
        design_weight=design_n,
    )
    is_solved = solution.hessian is not None and np.all(np.isfinite(solution.hessian.data))
    if not solved.overlap.connected or not is_solved:
        return weights
    overlap = overlap_at_solution(
        solved.overlap, rows, weights.weight, solution, _grouped_root(weights)
    )
    return replace(weights, overlap=overlap)


# Beyond so many sources the covariance of groups costs more than the solve.
_MOST_GROUPED = 64


def _grouped_root(weights: Weights) -> Floats | None:
    """Return (K, K) L with L Lᵀ the covariance of log Ω̂ where groups, not images, vary."""
    is_plain = weights.group is None and weights.design_weight is None
    if is_plain or not 1 < len(weights.names) <= _MOST_GROUPED:
        return None
    try:
        covariance_kk = log_normalizer_covariance(weights)
    except ConvergenceError:
        return None
    if not np.isfinite(covariance_kk).all():
        return None
    value_j, vector_kj = np.linalg.eigh(covariance_kk)
    return np.asarray(vector_kj * np.sqrt(np.maximum(value_j, 0.0)))


def _weights(rows: Rows, u_k: Floats, design_n: Floats | None) -> Floats:
    """Compute (n,) d_i/Σ_k e^{u_k} ω_ik over all images, normalised to sum 1."""
    weight_n = rows.inverse_sums(u_k)
    if rows.inverse_n is not None:
        weight_n = weight_n[rows.inverse_n]
    if design_n is not None:
        weight_n = weight_n * design_n
    # Weights of a failed solution are NaN.
    with np.errstate(invalid="ignore"):
        return np.asarray(weight_n / weight_n.sum())


def _ids(omega: Any, id: Any, n: int) -> npt.NDArray[Any]:
    if id is None:
        id = omega.index if hasattr(omega, "columns") and hasattr(omega, "index") else np.arange(n)
    ids = np.array(id)
    check_length(ids, n, "id")
    return ids


def group_codes(group: Any, n: int, name: str = "group") -> tuple[Ints, npt.NDArray[Any]]:
    """Return the code of every image's group, and the names of the groups; ``name``: the option."""
    array = np.asarray(group)
    check_length(array, n, name)
    if array.dtype.kind in "Of":
        missing = [row for row, value in enumerate(array.tolist()) if is_missing(value)]
        if missing:
            raise DataError(
                f"{name} is missing (None or NaN) for {len(missing)} images (the first is image "
                f"{missing[0]}); give such images a {name} of their own.",
                option=name,
                row=missing[0],
                count=len(missing),
            )
    if array.dtype.kind != "O":
        names, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.int64), names
    import pandas as pd

    # Hashing a million texts is an order of magnitude faster than sorting them.
    codes, names = pd.factorize(array)
    try:
        order = np.argsort(names, kind="stable")
    except TypeError:
        order = np.argsort(names.astype(str), kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return rank[codes], names[order]


def align_weights(weights: Weights, ids: Sequence[object] | npt.NDArray[Any]) -> Floats:
    """Return the weights of ``ids`` in that order."""
    wanted = list_ids(ids)
    return weights.weight[
        find_positions(wanted, weights.id.tolist(), of="these images", among="the weights")
    ]
