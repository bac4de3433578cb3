"""Whether the normalizers are identifiable, and how well.

The first is decided before any solve, from which ω are positive, the second once the solution is
known. The overlap graph has an edge k→l iff some image of source l has ω_k > 0. A solution exists
and is unique (up to one constant) iff the graph is strongly connected (Vardi 1985; Gill, Vardi &
Wellner 1988).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unskew.errors import OverlapError, WeakOverlapWarning, first_few, warn_caller
from unskew.records import Bools, Floats, Overlap, Solution, Verdict
from unskew.solve.inspection import Inspection, common_positive
from unskew.solve.link_error import LINK_ERROR_LIMIT, LinkError, link_error_of_rows
from unskew.solve.omega_rows import Rows


def judge_overlap(inspection: Inspection, names: tuple[str, ...]) -> Overlap:
    """Build the overlap graph, before the solve: the verdict is "ok" or "disconnected"."""
    n = float(inspection.size_k.sum())
    common_mass = inspection.common_kk
    if common_mass is not None:
        common_mass /= n  # in place: of thousands of sources the table is large
    link_kl, link, count = inspection.link_kl, None, None
    components = _components(link_kl, names) if sp.issparse(link_kl) else (names,)
    if len(components) == 1:
        link, count = _weakest_link(link_kl, names)
    if count == 0:
        components = _components(link_kl, names)
    verdict: Verdict = "disconnected" if len(components) > 1 else "ok"
    overlap = Overlap(
        names=names,
        verdict=verdict,
        components=components,
        message="",
        link_count=inspection.link_kl,
        common_mass=common_mass,
        bottleneck=float("nan") if common_mass is None else _bottleneck(common_mass),
        weakest_link=link,
        weakest_count=count,
        epsilon=inspection.epsilon,
        thresholds={"link_error": LINK_ERROR_LIMIT},
    )
    return replace(overlap, message=_message(overlap))


def overlap_at_solution(
    overlap: Overlap, rows: Rows, weight_n: Floats, solution: Solution, root_kj: Floats | None
) -> Overlap:
    """Add κ, overlap matrix, spectral gap, σ₂ and link error at the solution.

    The verdict may turn from ok to weak. ``weight_n`` are the weights of the images, ``root_kj`` is
    a root of the covariance of log Ω̂ where it is not that of independent images.
    """
    if len(overlap.names) == 1:
        return replace(overlap, kappa=1.0)
    weighted = rows.with_counts(weight_n)
    overlap = replace(overlap, kappa=_bottleneck(common_positive(rows, weight_n)))
    overlap = with_curvature(overlap, solution.hessian, solution.share)
    error = link_error_of_rows(rows, solution.u, solution.hessian, weighted.count_n)
    if root_kj is not None:
        grouped = link_error_of_rows(rows, solution.u, solution.hessian, weighted.count_n, root_kj)
        error = max(error, grouped, key=lambda each: each.moved)
    return judge_links(overlap, error, solution.hessian)


def with_curvature(overlap: Overlap, hessian_kk: Any, share_k: Floats) -> Overlap:
    """Add overlap matrix Λ⁻¹QᵀQ/n = I − Λ⁻¹H, spectral gap and σ₂."""
    n_sources = share_k.size
    if sp.issparse(hessian_kk):
        matrix = sp.csr_array(sp.eye_array(n_sources) - sp.diags_array(1 / share_k) @ hessian_kk)
    else:
        matrix = np.eye(n_sources) - hessian_kk / share_k[:, None]
    return replace(
        overlap,
        matrix=matrix,
        spectral_gap=spectral_gap(hessian_kk, share_k),
        sigma2=_second_smallest(hessian_kk),
    )


def spectral_gap(hessian_kk: Any, share_k: Floats) -> float:
    """Compute the second smallest eigenvalue of Λ^(−½) H Λ^(−½)."""
    root_k = 1 / np.sqrt(share_k)
    scaled = (
        sp.diags_array(root_k) @ hessian_kk @ sp.diags_array(root_k)
        if sp.issparse(hessian_kk)
        else hessian_kk * np.outer(root_k, root_k)
    )
    return _second_smallest(scaled, null_k=np.sqrt(share_k))


def judge_links(overlap: Overlap, error: LinkError, hessian_kk: Any, place: str = "") -> Overlap:
    """Add the link error, and turn the verdict to "weak" where it is large.

    ``place`` says where the links are, at the beginning of a sentence.
    """
    moved = min(error.moved, 1.0)
    overlap = replace(overlap, link_error=moved)
    if not moved > LINK_ERROR_LIMIT:
        return overlap
    if error.direction_k is not None:
        link = _link_across(hessian_kk, error.direction_k, overlap.names)
        k, other = (overlap.names.index(name) for name in link)
        links = overlap.link_count
        # A sample of the target may be among the names, and is no source of the graph.
        is_counted = max(k, other) < links.shape[0]
        if is_counted and links[other, k] < links[k, other]:
            link, k, other = link[::-1], other, k
        count = float(links[k, other]) if is_counted else None
        overlap = replace(overlap, weakest_link=link, weakest_count=count)
    first, second = overlap.weakest_link or overlap.names[:2]
    sources = "the sources" if place else "The sources"
    return weaken(
        overlap,
        f"{place}{sources} are linked, but weakly: how much `{first}` and the sources on its side "
        f"count relative to `{second}` and those on its side is so uncertain that about "
        f"{moved:.0%} of the target's mass may belong elsewhere (limit {LINK_ERROR_LIMIT:.0%}). "
        "Collect images that both sides could have taken, or use the sides separately.",
    )


def weaken(overlap: Overlap, sentence: str) -> Overlap:
    """Turn the verdict to "weak" for the reason given; reasons add up."""
    if overlap.verdict == "disconnected":
        return overlap
    message = sentence if overlap.verdict == "ok" else f"{overlap.message} {sentence}"
    return replace(overlap, verdict="weak", message=message)


def require_connected(overlap: Overlap) -> None:
    """Raise ``OverlapError`` if the sources lack a link."""
    if not overlap.connected:
        raise OverlapError(overlap.message, overlap, sources=list(overlap.names))


def warn_if_weak(overlap: Overlap) -> None:
    """Warn if the verdict is "weak", naming the weakest link."""
    if overlap.verdict == "weak":
        warn_caller(overlap.message, WeakOverlapWarning)  # the line that called the public function


def is_strongly_connected(link_kl: Any) -> bool:
    """Tell whether the directed graph of positive links is strongly connected."""
    from scipy.sparse.csgraph import connected_components

    return bool(
        connected_components(_graph(link_kl > 0), directed=True, connection="strong")[0] == 1
    )


def _graph(adjacency: Any) -> sp.csr_array:
    return sp.csr_array(adjacency, dtype=np.int8)


def _components(link_kl: Any, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Find the groups of sources linked in both directions, each in the order of the sources."""
    from scipy.sparse.csgraph import connected_components

    _, label_k = connected_components(_graph(link_kl > 0), directed=True, connection="strong")
    order = list(dict.fromkeys(label_k.tolist()))
    return tuple(
        tuple(name for name, label in zip(names, label_k, strict=True) if label == group)
        for group in order
    )


def _bottleneck(mass_kk: Any) -> float:
    """Find the largest t such that the undirected graph of ``mass >= t`` is connected."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    n_sources = mass_kk.shape[0]
    if n_sources == 1:
        return 1.0
    if not sp.issparse(mass_kk):
        return widest_path(mass_kk)[0]
    mass = mass_kk.tocoo()
    keep = (mass.row != mass.col) & (mass.data > 0)
    top = float(mass.data.max(initial=1.0))
    cost = sp.csr_array(
        (2 * top - mass.data[keep], (mass.row[keep], mass.col[keep])), shape=mass.shape
    )
    tree = minimum_spanning_tree(cost)  # the heaviest tree: its lightest edge is the bottleneck
    return float(2 * top - tree.data.max()) if tree.nnz == n_sources - 1 else 0.0


def _weakest_link(
    link_kl: Any, names: Sequence[str]
) -> tuple[tuple[str, str] | None, float | None]:
    """Find the link k→l at which the directed graph would first come apart, and its image count."""
    if len(names) == 1:
        return None, None
    if sp.issparse(link_kl):
        return _weakest_sparse_link(link_kl, names)
    # Strongly connected = node 0 reaches all and all reach node 0; so the bottleneck is the
    # narrower of the two directions.
    forward, backward = widest_path(link_kl), widest_path(link_kl.T)
    if forward[0] <= backward[0]:
        return (names[forward[1]], names[forward[2]]), forward[0]
    return (names[backward[2]], names[backward[1]]), backward[0]


def widest_path(capacity_kl: Floats) -> tuple[float, int, int]:
    """Find the widest path from node 0 to the node that is hardest to reach.

    Returns (width, from, to), its narrowest edge. Dijkstra's algorithm with the minimum along a
    path in place of the sum; the width is 0 if some node cannot be reached.
    """
    n_nodes = capacity_kl.shape[0]
    width_k, waits_k = np.zeros(n_nodes), np.ones(n_nodes, dtype=np.bool_)
    narrow_k2 = np.zeros((n_nodes, 2), dtype=np.int64)
    width_k[0] = least = np.inf
    worst = 0
    for _ in range(n_nodes):
        node = int(np.argmax(np.where(waits_k, width_k, -1.0)))
        waits_k[node] = False
        own = width_k[node]
        if own < least:
            least, worst = own, node
        edge_k = capacity_kl[node]
        wider = np.flatnonzero(waits_k & (np.minimum(own, edge_k) > width_k))
        is_edge = edge_k[wider] < own
        narrow_k2[wider] = np.where(
            is_edge[:, None], np.column_stack([np.full(wider.size, node), wider]), narrow_k2[node]
        )
        width_k[wider] = np.where(is_edge, edge_k[wider], own)
    return float(least), int(narrow_k2[worst, 0]), int(narrow_k2[worst, 1])


def _weakest_sparse_link(
    link_kl: sp.csr_array, names: Sequence[str]
) -> tuple[tuple[str, str], float]:
    """Find the weakest link of thousands of sources, by bisection over the counts that occur."""
    from scipy.sparse.csgraph import connected_components

    links = link_kl.tocoo()
    keep = (links.row != links.col) & (links.data > 0)
    row, column, count = links.row[keep], links.col[keep], links.data[keep]

    def labels(strong: Bools) -> tuple[int, npt.NDArray[Any]]:
        graph = sp.csr_array(
            (np.ones(strong.sum(), dtype=np.int8), (row[strong], column[strong])), shape=links.shape
        )
        return connected_components(graph, directed=True, connection="strong")  # type: ignore[no-any-return]

    levels = np.unique(count)
    low, high = 0, levels.size - 1
    while low < high:  # invariant: connected at levels[low]
        middle = (low + high + 1) // 2
        low, high = (middle, high) if labels(count >= levels[middle])[0] == 1 else (low, middle - 1)
    _, label_k = labels(count > levels[low])
    edge = np.flatnonzero((count == levels[low]) & (label_k[row] != label_k[column]))[0]
    return (names[row[edge]], names[column[edge]]), float(levels[low])


def _second_smallest(matrix_kk: Any, null_k: Floats | None = None) -> float:
    """Compute the second smallest eigenvalue of a positive semi-definite matrix."""
    n_sources = matrix_kk.shape[0]
    if sp.issparse(matrix_kk) and n_sources > 500:
        from scipy.sparse.linalg import lobpcg

        null_k = np.ones(n_sources) if null_k is None else null_k
        start = np.random.default_rng(0).normal(size=(n_sources, 1))
        diagonal = sp.diags_array(1 / matrix_kk.diagonal())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a loose eigenvalue is enough for a verdict
            values, _ = lobpcg(
                matrix_kk,
                start,
                M=diagonal,
                Y=null_k[:, None],
                largest=False,
                maxiter=200,
                tol=1e-8,
            )
        return max(0.0, float(values[0]))
    dense = matrix_kk.toarray() if sp.issparse(matrix_kk) else matrix_kk
    null_k = np.ones(n_sources) if null_k is None else null_k
    null_k = null_k / np.linalg.norm(null_k)
    # Lifting the known null vector leaves the second smallest as the smallest.
    lifted = dense + 2 * np.trace(dense) * np.outer(null_k, null_k)
    return max(0.0, float(np.linalg.eigvalsh(lifted)[0]))


def _link_across(hessian_kk: Any, error_k: Floats, names: Sequence[str]) -> tuple[str, str]:
    """Find the strongest pair across the cut that an error of the normalizers makes."""
    order = np.argsort(error_k, kind="stable")
    at = int(np.argmax(np.diff(error_k[order]))) + 1
    left, right = np.sort(order[:at]), np.sort(order[at:])
    cross = -(
        sp.csr_array(hessian_kk)[left][:, right].toarray()
        if sp.issparse(hessian_kk)
        else hessian_kk[np.ix_(left, right)]
    )
    k, other = np.unravel_index(int(np.argmax(cross)), cross.shape)
    return names[left[k]], names[right[other]]


def _message(overlap: Overlap) -> str:
    if overlap.verdict == "disconnected":
        return _message_disconnected(overlap)
    if len(overlap.names) == 1:
        return (
            "A single source: there is no other to compare it with; the weights are proportional "
            "to 1/omega."
        )
    return f"All {len(overlap.names)} sources are linked to one another."


def _message_disconnected(overlap: Overlap) -> str:
    position = {name: k for k, name in enumerate(overlap.names)}
    links = sp.csr_array(overlap.link_count)
    groups = [[position[name] for name in group] for group in overlap.components]
    missing = []
    for a, left in enumerate(groups[:6]):
        for b, right in enumerate(groups[:6]):
            if a != b and links[left][:, right].nnz == 0:
                missing.append(
                    f"no image of {_group_name(overlap, b)} could have come from "
                    f"{_group_name(overlap, a)}"
                )
    return (
        f"The sources fall into {len(groups)} groups that are not linked in both directions, so "
        "their relative weight cannot be known from the data: "
        f"{first_few(['[' + first_few(group) + ']' for group in overlap.components])}. Missing: "
        f"{first_few(missing, 4)}. Ways out: a source that overlaps both, biasing functions on "
        "fewer dimensions, a known target margin, or each group on its own."
    )


def _group_name(overlap: Overlap, group: int) -> str:
    return f"[{first_few(overlap.components[group], 3)}]"
