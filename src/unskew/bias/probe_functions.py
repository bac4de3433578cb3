"""Functions of an image by which sources are compared: of one column, of pairs, of all at once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.bias.features import check_columns, is_numeric, read_numbers
from unskew.records import Floats, Ints
from unskew.records.levels import holds_lists, level_text, text_levels

if TYPE_CHECKING:
    import pandas as pd

Singles = npt.NDArray[np.float32]

# Thresholds at which the distribution of a numeric feature is compared, and the most levels of a
# categorical one.
_THRESHOLDS = 15
_MOST_LEVELS = 30
# Levels of a categorical feature in products and random functions.
_MOST_PAIRED_LEVELS = 8
# With more products than this each counts for little: first squares of ranks are left out, then the
# features are replaced by their principal directions.
_MOST_PRODUCTS_OF_CURVES = 60
_MOST_PRODUCTS = 2000
_DIRECTIONS = 20
# Random functions of all columns: so many frequencies at each of two widths of the kernel, every
# fourth of them times the label's first functions.
_FREQUENCIES = 40
_WIDTHS = (1.0, 0.5)
_LABEL_FUNCTIONS = 4


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the rows: indicators for a test by itself, functions g for products.

    name : of the column.
    places : what each indicator says.
    value : (R,) numbers, or None.
    cuts : (T,) thresholds of numbers.
    levels : (R, L) whether the row has each of the largest levels; None for numbers.
    rank : (R,) mid-ranks of numbers from −1 to 1, NaN where missing.
    """

    name: str
    places: tuple[str, ...]
    value: Floats | None = field(repr=False, default=None)
    cuts: Floats | None = field(repr=False, default=None)
    levels: npt.NDArray[np.bool_] | None = field(repr=False, default=None)
    rank: Singles | None = field(repr=False, default=None)

    def indicators(self, at: Ints) -> Singles:
        """(b, T) of being below each threshold, or of having each level."""
        if self.value is not None:
            assert self.cuts is not None
            return (self.value[at][:, None] <= self.cuts).astype(np.float32)
        assert self.levels is not None
        return self.levels[at].astype(np.float32)

    def values(self) -> Iterator[npt.NDArray[Any]]:
        """Yield (R,) all that is known of the rows: their numbers, or each of the levels."""
        if self.value is not None:
            yield self.value
        elif self.levels is not None:
            yield from self.levels.T

    def factors(self, curved: bool) -> tuple[tuple[str, ...], Singles]:
        """Names, and (R, m) functions of mean about 0 and total variance about 1."""
        if self.rank is not None:
            parts = [np.sqrt(np.float32(3)) * self.rank]
            names = [self.name]
            if curved and np.unique(self.rank[:1000]).size > 2:
                parts.append(np.sqrt(np.float32(5)) * (1.5 * self.rank**2 - 0.5))
                names.append(f"{self.name} (middle or ends)")
            return tuple(names), np.column_stack(parts).astype(np.float32)
        assert self.levels is not None
        share_l = self.levels.mean(axis=0)
        some = np.flatnonzero((share_l > 0) & (share_l < 1))[:_MOST_PAIRED_LEVELS]
        if some.size == 2 and share_l[some].sum() > 1 - 1e-9:
            some = some[:1]  # the other level says the same
        total = max(float((share_l[some] * (1 - share_l[some])).sum()), 1e-12)
        part_rl = (self.levels[:, some] - share_l[some]) / np.sqrt(total)
        return tuple(self.places[at] for at in some), part_rl.astype(np.float32)


def read_column(frame: pd.DataFrame, name: str, has_r: npt.NDArray[np.bool_]) -> Column:
    """Read a column that has a value in the rows ``has_r``."""
    check_columns(frame, [name])
    column = frame[name] if bool(has_r.all()) else frame[name][has_r]
    if is_numeric(column):
        own_r = read_numbers(column, name)
        cut_t = np.unique(np.quantile(own_r, np.arange(1, _THRESHOLDS + 1) / (_THRESHOLDS + 1)))
        cut_t = cut_t[cut_t < own_r.max()]
        return Column(
            name,
            tuple(f"{name} ≤ {cut:.4g}" for cut in cut_t),
            value=_spread_out(own_r, has_r, np.nan),
            cuts=cut_t,
            rank=_spread_out(_mid_ranks(own_r), has_r, np.nan).astype(np.float32),
        )
    if holds_lists(column):
        places, has_rl = _list_levels(column, name)
    else:
        levels, code_r = text_levels(column, name)
        largest = np.argsort(-np.bincount(code_r), kind="stable")[:_MOST_LEVELS]
        places = [f"{name} = {levels[at]}" for at in largest]
        has_rl = code_r[:, None] == largest
    if has_rl.shape[1] == 1 and has_rl.all():
        places, has_rl = [], has_rl[:, :0]
    return Column(name, tuple(places), levels=_spread_out(has_rl, has_r, False))


def _spread_out(own: Any, has_r: npt.NDArray[np.bool_], filler: Any) -> Any:
    """Put values of the rows ``has_r`` where they belong among all rows."""
    if bool(has_r.all()):
        return own
    every = np.full((has_r.size, *own.shape[1:]), filler, dtype=own.dtype)
    every[has_r] = own
    return every


def _mid_ranks(value_r: Floats) -> Floats:
    """Compute (F(x) + F(x−)) − 1, F the distribution function: from −1 to 1, ties alike."""
    _, code_r, count = np.unique(value_r, return_inverse=True, return_counts=True)
    below = np.cumsum(count) - count
    return np.asarray((2 * below + count)[code_r] / value_r.size - 1.0)


def _list_levels(column: pd.Series[Any], name: str) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Tell for a column of lists which images have each of the levels."""
    own_r = [{level_text(item) for item in value} for value in column]
    count = Counter(level for own in own_r for level in sorted(own))
    largest = [level for level, _ in count.most_common(_MOST_LEVELS)]
    has_rl = np.array([[level in own for level in largest] for own in own_r], dtype=np.bool_)
    return [f"{name} has {level}" for level in largest], has_rl.reshape(len(own_r), len(largest))


@dataclass(frozen=True, eq=False)
class Family:
    """Functions that make one statistic: ``part`` are their positions among all functions.

    ``pairs``: parts of it, one for each pair of columns.
    """

    part: slice
    pairs: tuple[slice, ...] = ()


@dataclass(frozen=True, eq=False)
class JointFunctions:
    """Products of functions of two columns, and random functions of all columns at once.

    places : names of the products.
    families : products of features; of a feature and the label; random functions; and these times
        the label. Those that exist.
    """

    places: tuple[str, ...]
    families: tuple[Family, ...]
    factor: Singles = field(repr=False)
    left: Ints = field(repr=False)
    right: Ints = field(repr=False)
    frequency: Singles = field(repr=False)
    label: Ints = field(repr=False)

    def __call__(self, at: Ints) -> Singles:
        """(b, T)."""
        factor_bm = self.factor[at]
        phase_bj = factor_bm @ self.frequency
        parts = [factor_bm[:, self.left] * factor_bm[:, self.right]]
        parts += [np.cos(phase_bj), np.sin(phase_bj)]
        if self.label.size:
            some = np.concatenate([parts[1][:, ::4], parts[2][:, ::4]], axis=1)
            parts += [some * factor_bm[:, [m]] for m in self.label]
        return np.concatenate(parts, axis=1)


def make_joint(columns: Sequence[Column], label: str, seed: int) -> JointFunctions | None:
    """Make the functions of two or more columns; None where there are fewer that vary."""
    varying = [column for column in columns if column.places]
    if len(varying) < 2:
        return None
    blocks = _factor_blocks(varying, label)
    factor_rm = np.nan_to_num(np.concatenate([block.values for block in blocks], axis=1))
    begin_c = np.cumsum([0, *[len(block.texts) for block in blocks]])
    own_c = [np.arange(begin_c[c], begin_c[c + 1]) for c in range(len(blocks))]
    texts = [text for block in blocks for text in block.texts]
    left: list[int] = []
    right: list[int] = []
    families = []
    for with_label in (False, True):
        pairs = []
        for b, a in itertools.combinations(range(len(blocks)), 2):
            if (label in (blocks[a].column, blocks[b].column)) is with_label:
                start = len(left)
                products = list(itertools.product(own_c[b], own_c[a]))
                left += [int(m) for m, _ in products]
                right += [int(m) for _, m in products]
                pairs.append(slice(start, len(left)))
        if pairs:
            families.append(Family(slice(pairs[0].start, pairs[-1].stop), tuple(pairs)))
    n_products, n_random = len(left), 2 * _FREQUENCIES * len(_WIDTHS)
    families.append(Family(slice(n_products, n_products + n_random)))
    label_m = [m for c, block in enumerate(blocks) if block.column == label for m in own_c[c]]
    # Of two columns, random functions of both say what those of one times the label say.
    label_m = label_m[:_LABEL_FUNCTIONS] if len(blocks) > 2 else []
    if label_m:
        start = families[-1].part.stop
        families.append(Family(slice(start, start + len(label_m) * n_random // 4)))
    return JointFunctions(
        tuple(f"{texts[a]} × {texts[b]}" for a, b in zip(left, right, strict=True)),
        tuple(families),
        factor_rm,
        np.array(left),
        np.array(right),
        _draw_frequencies(factor_rm.shape[1], len(blocks), seed),
        np.array(label_m, dtype=np.int64),
    )


def _draw_frequencies(n_factors: int, n_columns: int, seed: int) -> Singles:
    """Draw (m, J) frequencies w of cos(w·g), which make a Gaussian kernel of width h (Rahimi 2007).

    Columns have variance 1 each, so that |g − g'|² is about twice their number: h² is that number
    times a squared width.
    """
    rng = np.random.default_rng([seed, n_factors])
    width_j = np.sqrt(n_columns) * np.repeat(_WIDTHS, _FREQUENCIES)
    frequency_mj = rng.normal(size=(n_factors, width_j.size)) / width_j
    return np.asarray(frequency_mj, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class _Block:
    """(R, m) functions of one column."""

    column: str
    texts: tuple[str, ...]
    values: Singles = field(repr=False)


def _factor_blocks(columns: Sequence[Column], label: str) -> list[_Block]:
    """Choose functions of every column, few enough for their products."""
    for curved, most in ((True, _MOST_PRODUCTS_OF_CURVES), (False, _MOST_PRODUCTS)):
        blocks = [_Block(column.name, *column.factors(curved)) for column in columns]
        size_c = np.array([len(block.texts) for block in blocks])
        if (size_c.sum() ** 2 - np.square(size_c).sum()) / 2 <= most:
            return blocks
    is_label = [block.column == label for block in blocks]
    features_rm = np.concatenate(
        [block.values for block, own in zip(blocks, is_label, strict=True) if not own], axis=1
    )
    directions = [
        _Block(name, (name,), values_r[:, None])
        for name, values_r in _principal_directions(np.nan_to_num(features_rm))
    ]
    return [*directions, *(block for block, own in zip(blocks, is_label, strict=True) if own)]


def _principal_directions(value_rm: Singles) -> Iterator[tuple[str, Singles]]:
    some = np.random.default_rng(0).permutation(len(value_rm))[:20_000]
    _, vector_md = np.linalg.eigh(np.cov(value_rm[some], rowvar=False))
    score_rd = value_rm @ vector_md[:, ::-1][:, :_DIRECTIONS].astype(np.float32)
    score_rd /= np.maximum(score_rd.std(axis=0), 1e-6)
    for d in range(score_rd.shape[1]):
        yield f"direction {d + 1} of the features", np.clip(score_rd[:, d], -3, 3)
