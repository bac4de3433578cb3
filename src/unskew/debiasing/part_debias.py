"""`debias` over parts: learn on a subsample, stream to apply.

Exact where a sum over rows suffices: counts of strata, minima and maxima, normalizers, coefficients
of `Tilt` and of logistic `Propensity`, weights, ESS and means. From a subsample, stratified by
source and stratum and counted by the inverse of the chance of inclusion: where the iteration
starts, how features are scaled, the verdict, and every other model, whose fit is then held while
the normalizers are solved over all rows. A pool that is no larger than the subsample is weighed in
memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.part_run import PartRun, make_solution
from unskew.debiasing.part_strata import weigh_strata
from unskew.debiasing.part_sums import (
    PassState,
    RangeState,
    StreamedProblem,
    excluded_block,
    range_block,
    total_parts,
)
from unskew.debiasing.part_weighers import (
    BlockReader,
    InMemoryWeigher,
    LogLinearWeigher,
    RowsOfBlock,
)
from unskew.debiasing.part_weights import PartWeights
from unskew.engine.block_engines import open_engine
from unskew.errors import ConfigError, OverlapError
from unskew.records import Floats, Pool, Target, Weights
from unskew.records.design_weights import add_design
from unskew.sources.part_pool import PartPool

if TYPE_CHECKING:
    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias
    from unskew.sources.part_survey import Survey

SUBSAMPLE = 1_000_000


def debias_parts(
    pool: PartPool,
    bias: Bias,
    target: Target | None,
    *,
    engine: Any = None,
    subsample: int = SUBSAMPLE,
    settings: Mapping[str, Any],
) -> PartWeights:
    """Weigh a pool over parts; ``settings`` are those of `unskew.debias` in memory."""
    engine = pool.engine if engine is None else engine
    opened = open_engine(engine)

    def again(other: Pool) -> Weights:
        from unskew.debiasing.pool_weights import debias

        return debias(other, bias, target, engine=engine, subsample=subsample, **settings)

    try:
        by, bins = strata_columns(bias, target)
        pool.require(by)
        columns = columns_read(pool, bias, by)
        run = PartRun(pool, bias, target, opened, settings, subsample, columns, by, bins, again)
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
    if isinstance(run.bias.parts[0], ClassShift):
        return _weigh_class_shift(run)
    if isinstance(run.bias.parts[0], Strata):
        return weigh_strata(run, run.bias.parts[0])
    return _weigh_by_descent(run)


def _weigh_class_shift(run: PartRun) -> PartWeights:
    """Estimate the shares of the classes on the subsample, and weigh all strata of them."""
    from unskew.bias.class_shift import resolve_class_shift

    few = run.draw(columns_read(run.pool, run.bias, ()))
    bias, target = resolve_class_shift(run.bias, few, run.target, run.settings["rng"])
    check_streamed(run.pool, bias, target, run.subsample)
    by, bins = strata_columns(bias, target)
    columns = columns_read(run.pool, bias, by)
    again = replace(run, bias=bias, target=target, columns=columns, by=by, bins=bins)
    return weigh_strata(again, bias.parts[0])


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

    by_strata = [part for part in bias.parts if isinstance(part, Strata | ClassShift)]
    if by_strata and len(bias.parts) == 1:
        counted = target is not None and target.kind not in ("sample", "source")
        if isinstance(by_strata[0], Strata) and (
            target is None or not counted or target.unit == "group"
        ):
            raise ConfigError(
                "over parts Strata takes the target's distribution, counted in images: "
                "Target.margins, Target.table or Target.uniform. Count a sample or source first: "
                "Target.table(counts, n=…).",
                option="target",
                value=None if target is None else target.kind,
            )
        return
    wrong = ""
    if by_strata:
        name = type(by_strata[0]).__name__
        wrong = f"{name} times another factor is solved stratum by stratum"
    elif any(isinstance(part, Known) and _is_matrix(part.omega) for part in bias.parts):
        wrong = "a matrix omega belongs to images in memory"
    if wrong:
        raise ConfigError(
            f"{wrong}, and this pool has {len(pool):,} images, more than the subsample of "
            f"{subsample:,}. Over parts work Strata or ClassShift alone, and every product of "
            "others. Where the images fit into memory, let subsample ([engine] subsample) be at "
            "least their number. Or weigh pool.sample(n) in memory, and each part by "
            "weights.weigh(table).",
            option="bias",
            value=bias.family,
        )
    if target is not None and target.kind == "source" and target.holdout:
        raise ConfigError(
            "images of a source that is the target cannot be held out of parts; give holdout = 0, "
            "or a sample of the target.",
            option="holdout",
            value=target.holdout,
        )


def _is_streamed(bias: Bias) -> bool:
    """Tell whether sums, minima and maxima over all rows are enough for the fit."""
    from unskew.bias.box import Box
    from unskew.bias.known import Known
    from unskew.bias.propensity import Propensity
    from unskew.bias.subpopulation import Subpopulation
    from unskew.bias.tilt import Tilt

    learned = [part for part in bias.parts if isinstance(part, Tilt | Propensity)]
    others = [part for part in bias.parts if part not in learned]
    return (
        all(
            isinstance(part, Known | Subpopulation)
            or (isinstance(part, Box) and part.quantile == 0)
            for part in others
        )
        and len(learned) <= 1
        and all(part.has_offset for part in learned)
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


def _weigh_by_descent(run: PartRun) -> PartWeights:
    """Fit on the subsample, then descend over all rows to the same minimum as in memory."""
    survey = run.survey
    try:
        few = run.weigh_sample()
    except OverlapError as error:
        raise OverlapError(
            f"in the subsample of about {run.subsample:,} images: {error} If all images have such "
            "a link, it is rarer than the subsample shows: give a larger subsample.",
            error.overlap,
            **error.facts | {"option": "subsample", "limit": run.subsample},
        ) from error
    assert few.estimation is not None
    fitted = few.estimation.fitted
    is_held = not _is_streamed(run.bias)
    reader, present_k = run.block_reader(cached=True), _present(survey, fitted)
    n_left = int(survey.cells["count"].sum() - survey.cells["weighed"].sum())
    left_out = {"design weight 0": n_left} if n_left else {}
    fitted = _widen_boxes(run, reader, fitted)
    reader, lost_k = _exclude(run, reader, fitted, left_out)
    present_k[: lost_k.size] -= lost_k
    weigher, reference, ridge = _start_weigher(fitted, is_held)
    problem = StreamedProblem(
        run.engine,
        run.pool.blocks,
        reader,
        weigher,
        _sample_rows(fitted),
        present_k[None, :],
        reference,
        ridge,
    )
    weigher = _descend(problem, weigher, fitted)
    totals = total_parts(problem, weigher)
    weigher = replace(weigher, log_total=totals.log_total)
    size_k, k = problem.present_ck[0], len(survey.names)
    share_k = size_k / size_k.sum()
    u_k = weigher.u_k + totals.log_all - math.log(size_k.sum())
    assert problem.last is not None
    passes = problem.n_passes + 2
    # As in memory: seen from the pool, without the target's sample.
    solution = make_solution(
        survey.names,
        share_k[:k],
        u_k[:k],
        (np.log(share_k) - u_k)[:k],
        method="newton",
        gradient_norm=float(np.abs(problem.last.gradient[0, :, 0]).max() / size_k.sum()),
        n_steps=problem.n_passes - 1,
        n_passes=passes,
    )
    sum_k = totals.by_source[:k]
    return run.finished(
        reader=problem.reader,
        weigher=weigher,
        solution=solution,
        overlap=few.overlap,
        squares=totals.squares[:k] / float(sum_k.sum()) ** 2,
        largest=totals.largest / float(sum_k.sum()),
        source_share=sum_k / sum_k.sum(),
        left_out=left_out,
        passes=passes,
        n_sampled=len(few.weight),
        sampled=lambda: few,
        problem=problem,
        is_held=is_held,
    )


def _widen_boxes(run: PartRun, reader: BlockReader, fitted: FittedBias) -> FittedBias:
    """Let min–max boxes hold all images of their sources, by one pass; other factors stay."""
    from unskew.bias.box import FittedBox

    factors = list(fitted.factors)
    for at, factor in enumerate(factors):
        if isinstance(factor, FittedBox) and factor.quantile == 0:
            state = RangeState(reader, factor)
            for wider in run.engine.each_block(range_block, run.pool.blocks, state):
                factor = factor.joined(wider)
            factors[at] = factor
    return replace(fitted, factors=tuple(factors))


def _exclude(
    run: PartRun, reader: BlockReader, fitted: FittedBias, left_out: dict[str, int]
) -> tuple[BlockReader, Floats]:
    """Return a reader without the images that a factor leaves out, and their (K,) numbers."""
    from unskew.bias.box import FittedBox

    pairs = zip(run.bias.parts, fitted.factors, strict=True)
    # All images are in their min–max boxes.
    excluding = {
        part.family: factor
        for part, factor in pairs
        if part.may_exclude and not (isinstance(factor, FittedBox) and factor.quantile == 0)
    }
    reader = replace(reader, excluding=tuple(excluding.values()))
    lost_k = np.zeros(len(reader.names))
    if not excluding:
        return reader, lost_k
    n_lost, state = 0, PassState(reader, None)
    for count, mass_k in run.engine.each_block(excluded_block, run.pool.blocks, state):
        n_lost, lost_k = n_lost + count, lost_k + mass_k
    if n_lost:
        left_out[f"outside their own source's {' or '.join(excluding)}"] = n_lost
    return reader, lost_k


def _start_weigher(fitted: FittedBias, is_held: bool) -> tuple[LogLinearWeigher, int, float]:
    """Return where the descent begins, the reference and the ridge; held factors are known."""
    from unskew.bias.propensity import FittedPropensity
    from unskew.bias.tilt import FittedTilt

    kinds = () if is_held else (FittedTilt, FittedPropensity)
    known = [f for f in fitted.factors if not isinstance(f, kinds)]
    learned = [f for f in fitted.factors if isinstance(f, kinds)]
    names = fitted.data.names
    theta_kd, feature_map, reference, ridge = np.zeros((len(names), 0)), None, 0, 0.0
    if learned:
        tilt = learned[0] if isinstance(learned[0], FittedTilt) else learned[0].tilt
        theta_kd, feature_map = tilt.theta, tilt.feature_map
        reference, ridge = tilt.reference, tilt.ridge
    weigher = LogLinearWeigher(
        names, len(fitted.names), tuple(known), feature_map, theta_kd, fitted.profile.u[0]
    )
    return weigher, reference, ridge


def _sample_rows(fitted: FittedBias) -> RowsOfBlock | None:
    """Return the rows of the target's sample; None without one."""
    data = fitted.data
    if data.sample is None:
        return None
    design_m = None if data.design is None else data.design[data.n_pool :]
    frame = data.frame.iloc[data.n_pool :].reset_index(drop=True)
    return RowsOfBlock(frame, data.source[data.n_pool :], design_m)


def _present(survey: Survey, fitted: FittedBias) -> Floats:
    """(K,) images of each source, those of design weight 0 left out; also of the sample."""
    weighed_j = survey.cells["weighed"].to_numpy(dtype=np.float64)
    weighed_k = add_design(survey.source, weighed_j, len(survey.names))
    sample = _sample_rows(fitted)
    if sample is None:
        return weighed_k
    own = add_design(sample.source, sample.design, len(fitted.data.names))
    return np.append(weighed_k, own[-1])


def _descend(
    problem: StreamedProblem, weigher: LogLinearWeigher, fitted: FittedBias
) -> LogLinearWeigher:
    """Descend to the maximum of the likelihood of all rows, from that of the subsample."""
    from unskew.bias.likelihood import descend_from

    data = fitted.data
    # The subsample's shares of the sources are not quite those of all images.
    start_k = weigher.u_k + np.log(problem.present_ck[0]) - np.log(data.size_k)
    fit = descend_from(problem, weigher.theta_kd, start_k[None, :])
    return replace(weigher, theta_kd=fit.theta, u_k=fit.u[0])


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
