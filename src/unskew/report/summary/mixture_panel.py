"""In which ratio to mix the sources, and what one number per source misses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unskew.records import Floats, Ints
from unskew.report.summary.mixture_record import MixturePanel, MixtureRow
from unskew.report.summary.plain import rounded
from unskew.report.summary.record import SourceRow
from unskew.report.summary.weighted_pool import Described, WeightedPool

_MOST_ROWS = 300
_MOST_COLUMNS = 5


def even_weights(weight_n: Floats, cell_n: Ints) -> Floats:
    """(n,) the weights if every cell keeps its share and its images are drawn alike.

    Images with the code −1 are never drawn.
    """
    used_n = cell_n >= 0
    n_cells = int(cell_n.max(initial=-1)) + 1
    share_c = np.bincount(cell_n[used_n], weights=weight_n[used_n], minlength=n_cells)
    size_c = np.bincount(cell_n[used_n], minlength=n_cells)
    even_n = np.zeros(weight_n.size)
    even_n[used_n] = (share_c / np.maximum(size_c, 1))[cell_n[used_n]]
    return even_n


def share_error(weight_n: Floats, other_n: Floats, level_n: Ints | None = None) -> float:
    """½ Σ_y |Σ_{i in y} (w_i − v_i)|, the total variation over levels, or over the images.

    Images without a level (−1) count as one.
    """
    change_n = weight_n - other_n
    if level_n is None:
        return float(np.abs(change_n).sum() / 2)
    return float(np.abs(np.bincount(level_n + 1, weights=change_n)).sum() / 2)


def show_mixture(
    weighed: WeightedPool, sources: Sequence[SourceRow], described: Sequence[Described]
) -> MixturePanel:
    """Make the panel; what privacy hides of a source is hidden here, too."""
    rows = [MixtureRow(row.name, None, row.share, row.weight_share) for row in sources]
    even_n = even_weights(weighed.weight_n, weighed.source_n)
    known = {
        f"the distribution of {each.column.name}": _levels(weighed, each)
        for each in described
        if each.target is not None and not each.column.multiple
    }
    if weighed.strata is not None:
        known = {"the strata of the target": weighed.strata.code, **known}
    left: list[tuple[str, float | None]] = [
        (what, share_error(weighed.weight_n, even_n, level_n)) for what, level_n in known.items()
    ]
    left = sorted(left, key=lambda each: -(each[1] or 0.0))[:_MOST_COLUMNS]
    left.append(("any group of images", share_error(weighed.weight_n, even_n)))
    if weighed.private:
        left = [(what, rounded(bias, 2)) for what, bias in left]
    classes = () if weighed.private else _class_rows(weighed, described)
    return MixturePanel(tuple(rows), classes, tuple(left))


def _levels(weighed: WeightedPool, described: Described) -> Ints:
    """(n,) the level or bin of every image; −1 without a value."""
    level_n = np.full(weighed.n, -1, dtype=np.int64)
    level_n[described.column.row] = described.column.code
    return level_n


def _class_rows(weighed: WeightedPool, described: Sequence[Described]) -> tuple[MixtureRow, ...]:
    label = next((each for each in described if each.role == "label"), None)
    if label is None or label.column.multiple or label.column.is_number:
        return ()
    level_n, n_levels = _levels(weighed, label), label.column.size
    present_n = level_n >= 0
    code_n = weighed.source_n[present_n] * n_levels + level_n[present_n]
    # Cells that have images: there may be as many levels as images.
    cell_c, cell_n, size_c = np.unique(code_n, return_inverse=True, return_counts=True)
    share_c = np.bincount(cell_n, weights=weighed.weight_n[present_n], minlength=len(cell_c))
    pool_c = size_c / weighed.n
    order = np.argsort(-np.abs(share_c - pool_c), kind="stable")[:_MOST_ROWS]
    return tuple(
        MixtureRow(
            weighed.names[cell_c[at] // n_levels],
            label.column.levels[cell_c[at] % n_levels],
            float(pool_c[at]),
            float(share_c[at]),
        )
        for at in order.tolist()
    )
