"""The door of the stage, ``debias_weights``; weights joined by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError
from unskew.records import Floats, Weights
from unskew.records.arrays import is_missing
from unskew.records.levels import find_positions, list_ids
from unskew.solve.methods import Solved, solve_prepared, with_exact_hessian
from unskew.solve.omega_rows import Rows
from unskew.solve.options import OmegaOptions, read_options, shows_options
from unskew.solve.overlap import overlap_at_solution, warn_if_weak
from unskew.solve.prepared_rows import prepare
from unskew.solve.source_codes import check_same_order
from unskew.weigh.effective_size import judge_weights


@shows_options(OmegaOptions)
def debias_weights(
    omega: Any, source: Any, *, group: Any = None, id: Any = None, **options: Unpack[OmegaOptions]
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
    **options

    Examples
    --------
    >>> import numpy as np, unskew
    >>> omega = np.repeat([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], 20, axis=0)
    >>> weights = unskew.debias_weights(omega, np.repeat(["all", "half"], 40))
    >>> weights.sample_weight[[0, 20, 40]].round(4).tolist(), weights.names
    ([0.6667, 2.0, 0.6667], ('all', 'half'))
    """
    checked = read_options(options)
    prepared = prepare(omega, source, checked)
    ids = _ids(omega, id, prepared.rows.n_rows)
    check_same_order(group, "group", omega)
    groups = None if group is None else group_codes(group, prepared.rows.n_rows)
    weights = weigh_solved(solve_prepared(prepared, checked), ids, groups)
    warn_if_weak(weights.overlap)
    return weights


def weigh_solved(
    solved: Solved,
    ids: npt.NDArray[Any],
    groups: tuple[npt.NDArray[np.int64], npt.NDArray[Any]] | None = None,
) -> Weights:
    """Compute the weights of a solve with their verdict, without a warning.

    ``groups``: the code of every image's group, and their names.
    """
    solved = with_exact_hessian(solved)
    weight_n = _weights(solved.rows, solved.solution.u)
    overlap = solved.overlap
    if (
        overlap.connected
        and solved.solution.hessian is not None
        and np.all(np.isfinite(solved.solution.hessian.data))
    ):
        overlap = overlap_at_solution(
            overlap, solved.rows, weight_n, solved.solution.hessian, solved.solution.share
        )
    overlap = judge_weights(overlap, weight_n)
    source_n = (
        solved.rows.source_n
        if solved.rows.inverse_n is None
        else solved.rows.source_n[solved.rows.inverse_n]
    )
    return Weights(
        weight=weight_n,
        id=ids,
        source=source_n.copy(),
        names=solved.solution.names,
        solution=solved.solution,
        overlap=overlap,
        group=None if groups is None else groups[0],
        group_names=None if groups is None else groups[1],
        rows=solved.rows,
    )


def _weights(rows: Rows, u_k: Floats) -> Floats:
    """Compute (n,) 1/Σ_k e^{u_k} ω_ik over all images, normalised to sum 1."""
    sum_n, scale_n = rows.row_sums(u_k)
    # Weights of a failed solution are NaN.
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        if scale_n is None:
            weight_n = np.divide(1.0, sum_n, out=sum_n)
        else:
            log_n = -np.log(sum_n) - scale_n
            weight_n = np.exp(log_n - log_n.max())
        if rows.inverse_n is not None:
            weight_n = weight_n[rows.inverse_n]
        weight_n /= weight_n.sum()
    return weight_n


def _ids(omega: Any, id: Any, n: int) -> npt.NDArray[Any]:
    if id is None:
        id = omega.index if hasattr(omega, "columns") and hasattr(omega, "index") else np.arange(n)
    ids = np.array(id)
    if ids.shape != (n,):
        raise DataError(
            f"id has one entry for each of the {n} images; got shape {ids.shape}.",
            option="id",
            count=n,
            value=list(ids.shape),
        )
    return ids


def group_codes(group: Any, n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the code of every image's group, and the names of the groups."""
    array = np.asarray(group)
    if array.shape != (n,):
        raise DataError(
            f"group has one entry for each of the {n} images; got shape {array.shape}.",
            option="group",
            count=n,
            value=list(array.shape),
        )
    if array.dtype.kind in "Of" and any(is_missing(value) for value in array.tolist()):
        raise DataError(
            "group is missing (None or NaN) for some images; give an image without a group one "
            "of its own.",
            option="group",
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
    """Return the weights of ``ids`` in that order.

    Ids that are unknown, or not unique among the weights, are an error.
    """
    wanted = list_ids(ids)
    return weights.weight[
        find_positions(wanted, weights.id.tolist(), of="these images", among="the weights")
    ]
