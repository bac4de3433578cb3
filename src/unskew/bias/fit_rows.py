"""The rows that a bias model is fitted on.

Which rows of the pool and of the target's sample take part, in which stratum and in which fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.base import Bias, BiasData, Factor
from unskew.bias.fitted import SAMPLE
from unskew.bias.strata import Strata, find_cells, stratify_for
from unskew.errors import ConfigError, DataError, first_few, impossible_origin
from unskew.records import Bools, Floats, Ints, Pool, Target
from unskew.records.content_keys import Keys, content_keys
from unskew.records.design_weights import DESIGN_WEIGHT, scale_design_weights
from unskew.records.levels import codes_or_alone
from unskew.splits.folds import FOLD_GROUP, deal_source_folds, join_units, tell_copies, unit_codes
from unskew.splits.holdout import held_out_rows

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetReference, TargetStrata


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows of a fit, before anything is estimated.

    data : what the factors are fitted to.
    row : the index in the pool of every row of the pool that takes part.
    judge : images of the target that are held out; None without any.
    left_out : number of images of the pool that do not take part, by reason.
    strata, bins : the strata and the edges of their attributes; None without a `Strata` part.
    """

    data: BiasData
    row: Ints
    judge: pd.DataFrame | None
    left_out: dict[str, int]
    strata: TargetStrata | None = None
    bins: Any = None


def gather_rows(pool: Pool, target: Target | None, parts: Sequence[Bias], seed: int) -> FitRows:
    """Gather the rows of the pool and those of a target sample; held-out images judge.

    Three cases: no reference, a sample of the target, a source of the pool.
    """
    reference = _find_reference(pool, target, parts)
    if reference is None:
        rows = _rows_of_pool(pool, None, 0.0, seed)
    elif reference.sample is not None:
        rows = _rows_with_sample(pool, reference.sample, reference.holdout, parts, seed)
    else:
        rows = _rows_of_pool(pool, reference.source, reference.holdout, seed)
    columns = _columns_read(rows.data.frame, parts, target)
    return replace(rows, data=replace(rows.data, columns=columns))


def _columns_read(
    frame: pd.DataFrame, parts: Sequence[Bias], target: Target | None
) -> tuple[str, ...]:
    """Name the columns that the parts and the target's attributes are read from."""
    named = {column for part in parts for column in part.columns}
    named |= set() if target is None else set(target.by)
    begins = tuple(f"{name}_" for name in named)
    return tuple(
        str(name) for name in frame.columns if name in named or str(name).startswith(begins)
    )


def _find_reference(
    pool: Pool, target: Target | None, parts: Sequence[Bias]
) -> TargetReference | None:
    """Find the target's reference, if it has one; refuse parts that name another."""
    if target is None or target.kind not in ("sample", "source"):
        return None
    reference = target.compare(pool)
    named = [part.reference_source for part in parts if part.reference_source is not None]
    if reference.sample is not None and named:
        raise ConfigError(
            f"the target is a sample, and the bias model names {named[0]!r} as its reference; only "
            "one can be the reference.",
            option="reference",
            value=named[0],
        )
    if reference.source is not None and any(name != reference.source for name in named):
        raise ConfigError(
            f"the target is the source {reference.source!r}, but the bias model names "
            f"{named[0]!r} as its reference; name one.",
            option="reference",
            value=named[0],
            source=reference.source,
        )
    return reference


def _rows_of_pool(pool: Pool, reference: str | None, holdout: float, seed: int) -> FitRows:
    """Take the rows of the pool, without those of the source ``reference`` that are held out."""
    frame, source_n = pool.frame, pool.source.astype(np.int64)
    counts_n, left_out = _counting(pool)
    judge = None
    at = None if reference is None else pool.names.index(reference)
    if holdout:
        held_n = np.zeros(len(pool), dtype=np.bool_)
        of_reference = np.flatnonzero((source_n == at) & counts_n)
        held_n[of_reference] = held_out_rows(
            frame.iloc[of_reference], holdout, np.random.default_rng(seed)
        )
        if held_n.any():
            judge, counts_n = frame[held_n], counts_n & ~held_n
            left_out[f"held out of {reference} to judge"] = int(held_n.sum())
    row = np.flatnonzero(counts_n)
    if row.size < len(pool):
        frame = frame.iloc[row].reset_index(drop=True)
    design_r = None if pool.design_weight is None else pool.design_weight[row]
    data = _bias_data(pool, frame, source_n[row], row.size, seed, design_r, reference=at)
    return FitRows(data, row, judge, left_out)


def _counting(pool: Pool) -> tuple[Bools, dict[str, int]]:
    """Tell (n,) which images count, and how many their design weight leaves out."""
    if pool.design_weight is None:
        return np.ones(len(pool), dtype=np.bool_), {}
    counts_n = pool.design_weight > 0
    n_lost = int((~counts_n).sum())
    return counts_n, {"design weight 0": n_lost} if n_lost else {}


def _rows_with_sample(
    pool: Pool, reference: Pool, holdout: float, parts: Sequence[Bias], seed: int
) -> FitRows:
    """Take all rows of the pool, then those of the target's sample that are not held out."""
    counts_n, left_out = _counting(pool)
    row = np.flatnonzero(counts_n)
    frame = pool.frame if row.size == len(pool) else pool.frame.iloc[row]
    sample, design_m = _counted_sample(reference)
    held_m = held_out_rows(sample, holdout, np.random.default_rng(seed))
    fitting = sample[~held_m]
    _check_sample(frame, fitting, pool.names, parts)
    at = len(pool.names)
    source_r = np.concatenate([pool.source[row].astype(np.int64), np.full(len(fitting), at)])
    design_r = None
    if pool.design_weight is not None or design_m is not None:
        design_n = np.ones(row.size) if pool.design_weight is None else pool.design_weight[row]
        own_m = np.ones(len(fitting)) if design_m is None else design_m[~held_m]
        design_r = np.concatenate([design_n, own_m])
    stacked = _stacked(frame, fitting)
    data = _bias_data(pool, stacked, source_r, row.size, seed, design_r, sample=at, reference=at)
    return FitRows(data, row, sample[held_m] if held_m.any() else None, left_out)


def _counted_sample(sample: Pool) -> tuple[pd.DataFrame, Floats | None]:
    """Return the sample's images that count, and their design weights (mean 1; None: equal)."""
    # A sample of the target is one source, whatever its images say.
    design_n = sample.frame.get(DESIGN_WEIGHT)
    if design_n is None:
        return sample.frame, None
    one_source = np.zeros(len(sample), dtype=np.int64)
    scaled_n = scale_design_weights(design_n.to_numpy(), one_source, ("the target's sample",))
    if scaled_n is None:
        return sample.frame, None
    return sample.frame[scaled_n > 0], scaled_n[scaled_n > 0]


def _bias_data(
    pool: Pool,
    frame: pd.DataFrame,
    source_r: Ints,
    n_pool: int,
    seed: int,
    design_r: Floats | None,
    *,
    sample: int | None = None,
    reference: int | None = None,
) -> BiasData:
    return BiasData(
        frame=frame,
        source=source_r,
        names=pool.names if sample is None else (*pool.names, SAMPLE),
        n_pool=n_pool,
        sample=sample,
        reference=reference,
        cell=np.zeros(len(frame), dtype=np.int64),
        n_cells=1,
        unit=_units(frame),
        seed=seed,
        image_id=pool.frame["id"].array,
        design=design_r,
    )


def _stacked(frame: pd.DataFrame, sample: pd.DataFrame) -> pd.DataFrame:
    """Put the sample under the pool; categories of the pool stay categories."""
    import pandas as pd

    categories = [
        name
        for name in frame.columns
        if name != "source" and isinstance(frame[name].dtype, pd.CategoricalDtype)
    ]
    stacked = pd.concat(
        [table.assign(source=table["source"].astype(object)) for table in (frame, sample)],
        ignore_index=True,
    )
    return stacked.astype(dict.fromkeys(categories, "category")) if categories else stacked


def _units(frame: pd.DataFrame) -> Ints | None:
    """(R,) unit of each row (`unit_codes`), or in a replicate that of the row it was drawn from."""
    if FOLD_GROUP in frame.columns:
        return codes_or_alone(frame[FOLD_GROUP])
    return unit_codes(frame)


def _check_sample(
    frame: pd.DataFrame, sample: pd.DataFrame, names: Sequence[str], parts: Sequence[Bias]
) -> None:
    if len(sample) < 2:
        raise DataError(
            f"the target's sample has {len(sample)} images left to fit with; give a larger one, or "
            "hold out less of it.",
            count=len(sample),
            limit=2,
        )
    if SAMPLE in names:
        raise DataError(
            f"a source is called {SAMPLE!r}, which is the name of the target's sample; rename it.",
            source=SAMPLE,
        )
    for column in dict.fromkeys(column for part in parts for column in part.columns):
        _check_shared(column, frame, sample)


def _check_shared(column: str, frame: pd.DataFrame, sample: pd.DataFrame) -> None:
    """Refuse a column that one of pool and sample lacks: it would look like missing values."""
    matching = {
        which: {name for name in table.columns if name == column or name.startswith(f"{column}_")}
        for which, table in (("the pool", frame), ("the target's sample", sample))
    }
    for which, other in (("the pool", "the target's sample"), ("the target's sample", "the pool")):
        if column in matching[which]:
            continue
        wanted = {column} & matching[other] or matching[other]
        lacking = sorted(wanted - matching[which])
        if lacking:
            hint = (
                " Without labels it cannot give their distribution: use Tilt or Propensity on "
                "features."
                if lacking == ["label"] and which != "the pool"
                else ""
            )
            raise DataError(
                f"{which} has no column {first_few([repr(name) for name in lacking])}, which the "
                f"bias model reads and {other} has.{hint}",
                columns=lacking,
            )


def place_in_strata(rows: FitRows, part: Strata, pool: Pool, target: Target | None) -> FitRows:
    """Find the stratum of every row, and drop rows outside the target or in strata without mass."""
    data = rows.data
    reference = None if data.reference is None else data.frame[data.source == data.reference]
    design_m = None if data.design is None else data.design[data.source == data.reference]
    strata, over = stratify_for(part, pool, target, reference, design_m)
    if strata.counted is not None:
        strata = replace(strata, counted=replace(strata.counted, unit=_units(pool.frame)))
    find_cell = partial(find_cells, target=strata, bins=over.bins)
    code_r = strata.code[rows.row]
    if data.sample is not None:
        code_r = np.concatenate([code_r, find_cell(data.frame.iloc[data.n_pool :])])
    outside_r = code_r < 0
    empty_r = ~outside_r & (strata.mass[code_r] <= 0)
    reasons = {
        f"their {' × '.join(strata.by)} has no mass in the target": empty_r,
        "outside the target": outside_r,
    }
    counts = {reason: int(lost_r[: data.n_pool].sum()) for reason, lost_r in reasons.items()}
    keep_r = ~(outside_r | empty_r)
    data = replace(
        data, cell=np.where(keep_r, code_r, 0), n_cells=len(strata.strata), find_cell=find_cell
    )
    placed = replace(
        rows,
        data=data,
        strata=strata,
        bins=over.bins,
        left_out=rows.left_out | {reason: count for reason, count in counts.items() if count},
    )
    return _kept(placed, keep_r)


def exclude_rows(rows: FitRows, factor: Factor, part: Bias) -> FitRows:
    """Drop images that their own source's ω excludes: they get weight 0 and count in no share."""
    data = rows.data
    own_r = factor.log_omega(data.frame)[np.arange(data.source.size), data.source]
    keep_r = ~np.isneginf(own_r)
    if keep_r.all():
        return rows
    reason = f"outside their own source's {part.family}"
    left_out = rows.left_out | {reason: int((~keep_r).sum())}
    return _kept(replace(rows, left_out=left_out), keep_r)


def _kept(rows: FitRows, keep_r: Bools) -> FitRows:
    if keep_r.all():
        return rows
    data = rows.data
    kept = data.kept(keep_r)
    lost = [name for k, name in enumerate(data.names) if not np.any(kept.source == k)]
    if kept.n_pool == 0:
        raise DataError(
            "no image of the pool is left: the bias model and the target leave every one out.",
            sources=lost,
        )
    if lost:
        raise DataError(
            f"no image of {first_few(lost)} is left, because the bias model and the target leave "
            "them out. Drop the source.",
            sources=lost,
        )
    return replace(rows, data=kept, row=rows.row[keep_r[: data.n_pool]])


def check_origin(rows: FitRows, log_rk: Floats) -> None:
    """Refuse an image that its own source could not have produced: the likelihood would be 0."""
    data = rows.data
    impossible = np.flatnonzero(np.isneginf(log_rk[np.arange(data.source.size), data.source]))
    if impossible.size:
        row = int(impossible[0])
        raise impossible_origin(
            int(rows.row[row]) if row < data.n_pool else row, data.names[data.source[row]]
        )


def row_keys(data: BiasData) -> Keys:
    """(R,) numbers for the source of every row and what the model reads of it."""
    names_r = np.array(data.names, dtype=object)[data.source]
    return content_keys(data.frame.assign(source=names_r), ("source", *data.columns))


def name_ranks(data: BiasData) -> Ints:
    """(K,) the place of every source in the order of the names."""
    return np.argsort(np.argsort(data.names))


def agree_on_copies(data: BiasData, log_rk: Floats) -> Floats:
    """Give rows of the same content the mean of what their folds say."""
    _, code_r, count = np.unique(row_keys(data), return_inverse=True, return_counts=True)
    if count.size == code_r.size:
        return log_rk
    mean_ck = [np.bincount(code_r, weights=log_r) / count for log_r in log_rk.T]
    return np.column_stack(mean_ck)[code_r]


def split_folds(data: BiasData, n_folds: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield (train, test) rows of each fold; groups and copies of an image are on one side.

    Every source is in every training part. Folds, and the order of the training rows, follow from
    the content of the rows and the seed: the order of the rows has no say.
    """
    key_r = row_keys(data)
    unit_r = join_units(data.source.size, data.fold_group, tell_copies(data.frame))
    fold_r, n_folds = deal_source_folds(
        unit_r, data.source, data.names, n_folds, data.seed, key_r, name_ranks(data)
    )
    order_r = np.argsort(key_r, kind="stable")
    for fold in range(n_folds):
        yield order_r[fold_r[order_r] != fold], np.flatnonzero(fold_r == fold)
