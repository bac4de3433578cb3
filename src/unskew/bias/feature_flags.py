"""Features that deserve a warning.

They identify the source, are codes of classes, or have levels of the target that no source has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.features import (
    FEW_LEVELS,
    FeatureMap,
    flagged,
    is_numeric,
    learn_features,
    read_numbers,
)
from unskew.errors import first_few
from unskew.records import Ints
from unskew.records.arrays import count_pairs
from unskew.records.levels import text_levels

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import BiasData

# The share of images whose source a feature tells, above which it identifies the source.
IDENTIFIES = 0.99
_FAR_FROM_IT = 0.95
_ENOUGH_ROWS = 10_000


def learn_flagged_features(
    data: BiasData, features: Sequence[str], degree: int = 1
) -> tuple[FeatureMap, tuple[str, ...]]:
    """Learn features as `learn_features` does, and flag what deserves a warning."""
    feature_map, notes = learn_features(data.frame, features, degree)
    names = [column.name for column in feature_map.columns]
    flagged = flag_identifiers(data.frame, names, data.source, data.names) + flag_class_codes(
        data.frame, names
    )
    return feature_map, notes + flagged + _flag_uncovered(data, names)


def flag_identifiers(
    frame: pd.DataFrame, names: Sequence[str], source_n: Ints, source_names: Sequence[str]
) -> tuple[str, ...]:
    """Warn of every feature that alone identifies the source of almost every image.

    Numeric features are cut at quantiles, and in the widest gaps. In each bin (or level) the guess
    is the source with most other images there (the image itself left out); a feature is flagged
    when that is right for 99% of the images and no source has that share to begin with.
    """
    size_k = np.bincount(source_n, minlength=len(source_names))
    if not can_be_identified(size_k):
        return ()
    notes: list[str] = []
    stride = max(1, source_n.size // _ENOUGH_ROWS)
    for name in names:
        column = frame[name]
        # Numbers that are far from it on some images are not read on all; rare levels of a category
        # would look like single ones.
        if (
            stride > 1
            and is_numeric(column)
            and _share_identified(column[::stride], source_n[::stride], size_k.size) < _FAR_FROM_IT
        ):
            continue
        right = _share_identified(column, source_n, size_k.size)
        if right >= IDENTIFIES:
            notes += flagged(
                f"{name} identifies the source of {right:.1%} of the images: where it matters for "
                "selection the sources do not overlap, and where it does not (a watermark, a file "
                "format) it must not be a feature of the bias model"
            )
    return tuple(notes)


def can_be_identified(size_k: Ints) -> bool:
    """Tell whether guessing the source can mean anything."""
    return bool(
        np.count_nonzero(size_k) > 1 and size_k.max() <= 0.95 * size_k.sum() and size_k.sum() >= 50
    )


def share_guessed(count_lk: Ints) -> float:
    """Return the share of images whose source has most of the other images of their level."""
    return float(
        sum(_guessed_rightly(count_lk, k) for k in range(count_lk.shape[1])) / count_lk.sum()
    )


def _guessed_rightly(count_lk: Ints, own: int) -> int:
    """Count the images of the source ``own`` in bins where it has most of the other images."""
    other_lk = count_lk - (np.arange(count_lk.shape[1]) == own)
    is_right_l = (other_lk.argmax(axis=1) == own) & (other_lk[:, own] > 0)
    return int(count_lk[is_right_l, own].sum())


def _share_identified(column: pd.Series[Any], source_n: Ints, n_sources: int) -> float:
    code_n = (
        _cut(column, n_sources) if is_numeric(column) else text_levels(column, str(column.name))[1]
    )
    count_lk = count_pairs(code_n, source_n, (int(code_n.max()) + 1, n_sources))
    return share_guessed(count_lk)


def _cut(column: pd.Series[Any], n_sources: int) -> Ints:
    """Cut at quantiles (64 bins for each source, of 10 images or more) and in the widest gaps."""
    value_n = read_numbers(column, str(column.name))
    some_m = np.sort(value_n[:: max(1, value_n.size // _ENOUGH_ROWS)])
    n_bins = min(64 * n_sources, some_m.size // 10)
    at = np.linspace(0, some_m.size, n_bins + 1)[1:-1].astype(np.int64)
    gaps = 10 + np.argsort(np.diff(some_m[9:-9]))[1 - n_sources :]  # not of single images far out
    at = np.concatenate([at, gaps])
    edges = np.unique(0.5 * (some_m[at - 1] + some_m[at]))
    return np.searchsorted(edges, value_n, side="right").astype(np.int64)


def flag_class_codes(frame: pd.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """Warn of a label of a few whole numbers: classes more often than measurements."""
    if "label" not in names or not is_numeric(frame["label"]):
        return ()
    value = np.unique(read_numbers(frame["label"], "label"))
    # Two classes are the same as indicator and as number.
    if not 2 < value.size <= FEW_LEVELS or (value != np.floor(value)).any():
        return ()
    return flagged(
        f"label holds {value.size} whole numbers, which are read as measurements: selection is "
        "taken to depend on how large they are",
        " If they are classes, make them text: frame['label'].astype(str).",
    )


def uncovered_levels(data: BiasData, names: Sequence[str]) -> tuple[float, list[str]]:
    """(share of the target's sample with levels that no image of the pool has, these levels)."""
    if data.sample is None:
        return 0.0, []
    is_sample_r, shown = data.source == data.sample, []
    unlike_r = np.zeros(data.source.size, dtype=np.bool_)
    for name in names:
        if not is_numeric(data.frame[name]):
            levels, code_r = text_levels(data.frame[name], name)
            absent = np.setdiff1d(code_r[is_sample_r], code_r[~is_sample_r])
            unlike_r |= np.isin(code_r, absent)
            shown += [f"{name} = {levels[at]}" for at in absent]
    return float(unlike_r[is_sample_r].mean()), shown


def _flag_uncovered(data: BiasData, names: Sequence[str]) -> tuple[str, ...]:
    share, shown = uncovered_levels(data, names)
    if not shown:
        return ()
    return flagged(
        f"{share:.1%} of the target's images have {first_few(shown)}, which no source has: "
        "results describe the rest of the target"
    )
