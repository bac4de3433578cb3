"""`debias` over parts: learn on a subsample, stream to apply.

Exact where a sum over rows suffices: counts of strata, minima and maxima, normalizers, coefficients
of `Tilt` and of logistic `Propensity`, weights, ESS and means. From a subsample, stratified by
source and stratum and counted by the inverse of the chance of inclusion: where the iteration
starts, how features are scaled, the verdict, and every other model, whose fit is then held while
the normalizers are solved over all rows. A pool that is no larger than the subsample is weighed in
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.part_descent import weigh_by_descent
from unskew.debiasing.part_run import PartFit, PartRun
from unskew.debiasing.part_strata import weigh_strata
from unskew.debiasing.part_weighers import InMemoryWeigher
from unskew.debiasing.part_weights import PartWeights
from unskew.engine.block_engines import open_engine
from unskew.errors import ConfigError
from unskew.records import Pool, Target, Weights
from unskew.sources.part_pool import PartPool

if TYPE_CHECKING:
    from unskew.bias.base import Bias

SUBSAMPLE = 1_000_000


def debias_parts(
    pool: PartPool,
    bias: Bias,
    target: Target | None,
    *,
    engine: Any = None,
    subsample: int = SUBSAMPLE,
    settings: Mapping[str, Any],
    start: PartFit | None = None,
) -> PartWeights:
    """Weigh a pool over parts; ``settings`` are those of `unskew.debias` in memory.

    ``start``: what an earlier fit of the same model ended with, to begin from.
    """
    engine = pool.engine if engine is None else engine
    opened = open_engine(engine)

    def again(other: Pool, earlier: PartFit) -> Weights:
        from unskew.debiasing.pool_weights import debias

        if isinstance(other, PartPool):
            options = {"engine": engine, "subsample": subsample, "settings": settings}
            return debias_parts(other, bias, target, start=earlier, **options)
        return debias(other, bias, target, engine=engine, subsample=subsample, **settings)

    try:
        by, bins = strata_columns(bias, target)
        pool.require(by)
        columns = columns_read(pool, bias, by)
        run = PartRun(
            pool, bias, target, opened, settings, subsample, columns, by, bins, again, start
        )
        weights = _weigh(run)
    except BaseException:
        if opened is not engine:
            opened.close()
        raise
    if opened is not engine:
        weights.own_engine()
    return weights


def _weigh(run: PartRun) -> PartWeights:
    from unskew.bias.class_shift import ClassShift
    from unskew.bias.strata import Strata

    if len(run.pool) <= run.subsample:
        return _weigh_in_memory(run)
    check_streamed(run.pool, run.bias, run.target, run.subsample)
    if any(isinstance(part, ClassShift) for part in run.bias.parts):
        run = _resolve_class_shift(run)
    if isinstance(run.bias, Strata):
        return weigh_strata(run, run.bias)
    return weigh_by_descent(run)


def _resolve_class_shift(run: PartRun) -> PartRun:
    """Estimate the shares of the classes on the subsample: strata of known masses are left."""
    from unskew.bias.class_shift import resolve_class_shift

    few = run.draw(columns_read(run.pool, run.bias, ()))
    bias, target = resolve_class_shift(run.bias, few, run.target, run.settings["rng"])
    check_streamed(run.pool, bias, target, run.subsample)
    by, bins = strata_columns(bias, target)
    columns = columns_read(run.pool, bias, by)
    return replace(run, bias=bias, target=target, columns=columns, by=by, bins=bins)


def strata_columns(
    bias: Bias, target: Target | None
) -> tuple[tuple[str, ...], Mapping[str, Sequence[float]]]:
    """Return the attributes that strata, and the subsample, are made of, and their bins."""
    from unskew.bias.strata import Strata

    if target is None or not target.by or not any(isinstance(p, Strata) for p in bias.parts):
        return (), {}
    return tuple(target.by), {name: tuple(edges) for name, edges in target.bins.items()}


def columns_read(pool: PartPool, bias: Bias, by: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that the model may read; all where it calls functions of a table."""
    import pandas as pd

    from unskew.bias.features import expand_features
    from unskew.bias.known import Known
    from unskew.bias.subpopulation import Subpopulation

    named = [*by]
    for part in bias.parts:
        calls = isinstance(part, Subpopulation)
        if isinstance(part, Known):
            entries = part.omega.values() if isinstance(part.omega, Mapping) else [part.omega]
            calls = any(not isinstance(e, int | float) and e not in part.columns for e in entries)
        if calls:
            return tuple(name for name in pool.columns if name not in ("id", "source", "content"))
        empty = pd.DataFrame(columns=list(pool.columns))
        read = {*part.columns, *getattr(part, "features", ())}
        named += expand_features(empty, list(read)) if read else []
        named += ["label"] if part.shifts_classes else []
    return tuple(name for name in dict.fromkeys(named) if name in pool.columns)


def check_streamed(pool: PartPool, bias: Bias, target: Target | None, subsample: int) -> None:
    """Refuse what cannot be streamed, with the reason and the way out."""
    from unskew.bias.class_shift import ClassShift
    from unskew.bias.known import Known
    from unskew.bias.strata import Strata

    counted = target is not None and target.kind not in ("sample", "source")
    if any(isinstance(part, Strata) for part in bias.parts) and (
        target is None or not counted or target.unit == "group"
    ):
        raise ConfigError(
            "over parts Strata takes the target's distribution, counted in images: "
            "Target.margins, Target.table or Target.uniform. Count a sample or source first: "
            "Target.table(counts, n=…).",
            option="target",
            value=None if target is None else target.kind,
        )
    if any(isinstance(part, Known) and _is_matrix(part.omega) for part in bias.parts):
        raise ConfigError(
            f"a matrix omega belongs to images in memory, and this pool has {len(pool):,} images, "
            f"more than the subsample of {subsample:,}. Name columns of the parts, or functions. "
            "Or, where the images fit into memory, let subsample ([engine] subsample) be at least "
            "their number.",
            option="bias",
            value=bias.family,
        )
    if any(isinstance(part, ClassShift) for part in bias.parts):
        return
    if target is not None and target.kind == "source" and target.holdout:
        raise ConfigError(
            "images of a source that is the target cannot be held out of parts; give holdout = 0, "
            "or a sample of the target.",
            option="holdout",
            value=target.holdout,
        )


def _is_matrix(omega: Any) -> bool:
    return not isinstance(omega, Mapping | str) and not callable(omega)


def _weigh_in_memory(run: PartRun) -> PartWeights:
    """Weigh a pool that is no larger than the subsample: the result in memory, whatever it is."""
    assert run.survey is not None
    few = run.weigh_sample()
    assert few.estimation is not None
    share_k = np.bincount(few.source, weights=few.weight, minlength=len(few.names))
    return run.finished(
        reader=replace(run.block_reader(cached=False), columns=()),
        weigher=InMemoryWeigher(few.weight),
        solution=few.solution,
        overlap=few.overlap,
        squares=np.bincount(few.source, weights=few.weight**2, minlength=len(few.names)),
        largest=float(few.weight.max()),
        source_share=share_k,
        left_out=dict(few.estimation.fitted.left_out),
        passes=2,
        n_sampled=len(few.weight),
        sampled=lambda: few,
    )


def check_part_options(options: Mapping[str, Any]) -> None:
    """Refuse options of a solve in memory that a solve over parts cannot follow."""
    method = options.get("method", "newton")
    if method != "newton":
        raise ConfigError(
            f"over parts the normalizers are found by 'newton'; got {method!r}.",
            option="method",
            value=method,
            allowed=["newton"],
        )
