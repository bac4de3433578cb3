"""The fit to all rows of a pool over parts, by Newton's method from that of the subsample."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.part_run import PartFit, PartRun, make_solution
from unskew.debiasing.part_strata import CountedStrata, count_strata
from unskew.debiasing.part_sums import (
    PassState,
    RangeState,
    StreamedProblem,
    Totals,
    excluded_block,
    range_block,
    total_parts,
)
from unskew.debiasing.part_weighers import BlockReader, LogLinearWeigher, RowsOfBlock
from unskew.debiasing.part_weights import PartWeights
from unskew.errors import OverlapError
from unskew.records import Floats, Solution, Weights
from unskew.records.design_weights import add_design

if TYPE_CHECKING:
    from unskew.bias.base import Bias, Factor
    from unskew.bias.fitted import FittedBias


def weigh_by_descent(run: PartRun) -> PartWeights:
    """Fit on the subsample, then descend over all rows to the same minimum as in memory."""
    survey, few = run.survey, _learn_on_sample(run)
    assert few.estimation is not None
    fitted = few.estimation.fitted
    is_held = not _is_streamed(run.bias)
    counted = _counted_strata(run)
    reader, present_ck, left_out = _read_counted(run, fitted, counted)
    fitted = _widen_boxes(run, reader, fitted)
    reader, present_ck = _exclude(run, reader, fitted, present_ck, left_out)
    weigher, reference, ridge = _start_weigher(fitted, is_held, counted)
    problem = StreamedProblem(
        run.engine,
        run.pool.blocks,
        reader,
        weigher,
        _sample_rows(fitted),
        present_ck,
        reference,
        ridge,
    )
    problem.weigher = weigher = _begin(run.start, problem, fitted)
    weigher = _descend(problem, weigher)
    totals = total_parts(problem, weigher)
    weigher = replace(weigher, log_scale_c=_log_scales(totals, counted))
    scale_c = np.exp(totals.top_c + weigher.log_scale_c)
    assert problem.last is not None
    facts = {
        "method": "newton",
        "gradient_norm": float(np.abs(problem.last.gradient[:, :, 0]).max() / present_ck.sum()),
        "n_steps": problem.n_passes - 1,
        "n_passes": problem.n_passes + 2,
    }
    k = len(survey.names)
    share_k = scale_c @ totals.mass_ck[:, :k]
    return run.finished(
        reader=problem.reader,
        weigher=weigher,
        solution=_solution(survey.names, problem, weigher, totals, **facts),
        overlap=few.overlap,
        squares=scale_c**2 @ totals.square_ck[:, :k],
        largest=float((scale_c * totals.largest_c).max()),
        source_share=share_k,
        left_out=left_out,
        passes=problem.n_passes + 2,
        n_sampled=len(few.weight),
        sampled=lambda: few,
        problem=problem,
        is_held=is_held,
        strata=None if counted is None else counted.strata,
    )


def _learn_on_sample(run: PartRun) -> Weights:
    try:
        return run.weigh_sample()
    except OverlapError as error:
        raise OverlapError(
            f"in the subsample of about {run.subsample:,} images: {error} If all images have such "
            "a link, it is rarer than the subsample shows: give a larger subsample.",
            error.overlap,
            **error.facts | {"option": "subsample", "limit": run.subsample},
        ) from error


def _counted_strata(run: PartRun) -> CountedStrata | None:
    from unskew.bias.strata import Strata

    model = next((part for part in run.bias.parts if isinstance(part, Strata)), None)
    return None if model is None else count_strata(run, model)


def _read_counted(
    run: PartRun, fitted: FittedBias, counted: CountedStrata | None
) -> tuple[BlockReader, Floats, dict[str, int]]:
    """Return the reader, (C, K) images that count, also of the sample, and those left out."""
    survey, reader = run.survey, run.block_reader(cached=True)
    n_lost = int(survey.cells["count"].sum() - survey.cells["weighed"].sum())
    left_out = {"design weight 0": n_lost} if n_lost else {}
    if counted is not None:
        reader = replace(reader, lookup=counted.lookup)
        return reader, counted.sums(counted.unit_j), left_out | counted.left_out
    weighed_j = survey.cells["weighed"].to_numpy(dtype=np.float64)
    present_k = add_design(survey.source, weighed_j, len(survey.names))
    sample = _sample_rows(fitted)
    if sample is not None:
        own = add_design(sample.source, sample.design, len(fitted.data.names))
        present_k = np.append(present_k, own[-1])
    return reader, present_k[None, :], left_out


def _log_scales(totals: Totals, counted: CountedStrata | None) -> Floats:
    """(C,) log s: weights sum to the target's mass in every stratum, and to 1 in all."""
    if counted is None:
        return -totals.log_total_c
    seen_c = totals.mass_ck.sum(axis=1) > 0
    mass_c = np.where(seen_c, counted.strata.mass, 0.0)
    with np.errstate(divide="ignore"):
        log_mass_c = np.log(mass_c / mass_c.sum())
    return np.where(mass_c > 0, log_mass_c - np.where(seen_c, totals.log_total_c, 0.0), -np.inf)


def _solution(
    names: tuple[str, ...],
    problem: StreamedProblem,
    weigher: LogLinearWeigher,
    totals: Totals,
    **facts: Any,
) -> Solution:
    """Return the normalizers as in memory: seen from the pool, without the target's sample."""
    size_k, k = problem.present_ck.sum(axis=0), len(names)
    share_k = size_k / size_k.sum()
    if weigher.lookup is not None:
        return make_solution(names, share_k[:k], np.log(share_k[:k]), np.zeros(k), **facts)
    u_k = weigher.u_ck[0] + totals.log_all - math.log(size_k.sum())
    return make_solution(names, share_k[:k], u_k[:k], (np.log(share_k) - u_k)[:k], **facts)


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
    run: PartRun,
    reader: BlockReader,
    fitted: FittedBias,
    present_ck: Floats,
    left_out: dict[str, int],
) -> tuple[BlockReader, Floats]:
    """Return a reader without the images that a factor leaves out, and the (C, K) others."""
    from unskew.bias.box import FittedBox

    # All images are in their min–max boxes.
    excluding = {
        part.family: factor
        for part, factor in _parts_of(run.bias, fitted)
        if part.may_exclude and not (isinstance(factor, FittedBox) and factor.quantile == 0)
    }
    if not excluding:
        return reader, present_ck
    reader = replace(reader, excluding=tuple(excluding.values()))
    n_lost, present_ck = 0, present_ck.copy()
    state = PassState(reader, len(present_ck))
    for count, mass_ck in run.engine.each_block(excluded_block, run.pool.blocks, state):
        n_lost += count
        present_ck[:, : len(reader.names)] -= mass_ck
    if n_lost:
        left_out[f"outside their own source's {' or '.join(excluding)}"] = n_lost
    return reader, present_ck


def _parts_of(bias: Bias, fitted: FittedBias) -> list[tuple[Bias, Factor]]:
    """Return the fitted factors with their parts; strata are none of them."""
    from unskew.bias.strata import Strata

    parts = [part for part in bias.parts if not isinstance(part, Strata)]
    return list(zip(parts, fitted.factors, strict=True))


def _start_weigher(
    fitted: FittedBias, is_held: bool, counted: CountedStrata | None
) -> tuple[LogLinearWeigher, int, float]:
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
    u_ck = fitted.profile.u
    if counted is not None and fitted.strata is not None:
        # There the factors of strata are within ω; a subsample has all strata of the pool.
        index = {cell: at for at, cell in enumerate(fitted.strata.target.strata)}
        at_c = [index[cell] for cell in counted.strata.strata]
        u_ck = (u_ck + fitted.strata.log_factor)[at_c]
    lookup = None if counted is None else counted.lookup
    weigher = LogLinearWeigher(
        names,
        len(fitted.names),
        tuple(known),
        feature_map,
        theta_kd,
        u_ck,
        np.zeros(len(u_ck)),
        lookup,
    )
    return weigher, reference, ridge


def _begin(
    earlier: PartFit | None, problem: StreamedProblem, fitted: FittedBias
) -> LogLinearWeigher:
    """Begin where the subsample's fit ended, or an earlier one to as many images and features."""
    weigher, before = problem.weigher, None if earlier is None else earlier.weigher
    is_alike = (
        isinstance(before, LogLinearWeigher)
        and before.names == weigher.names
        and before.u_ck.shape == weigher.u_ck.shape
        and before.feature_map is not None
        and weigher.feature_map is not None
        and before.feature_map.labels == weigher.feature_map.labels
    )
    if is_alike and earlier is not None and earlier.problem is not None:
        assert isinstance(before, LogLinearWeigher)
        weigher = replace(
            weigher, feature_map=before.feature_map, theta_kd=before.theta_kd, u_ck=before.u_ck
        )
        size_ck = earlier.problem.present_ck
    elif weigher.lookup is None:
        size_ck = np.asarray(fitted.data.size_k)[None, :]
    else:
        return weigher  # strata are counted, not sampled
    # There the shares of the sources were not quite those of all images.
    seen_ck = (problem.present_ck > 0) & (size_ck > 0)
    grown_ck = np.divide(problem.present_ck, size_ck, out=np.ones(size_ck.shape), where=seen_ck)
    return replace(weigher, u_ck=weigher.u_ck + np.log(grown_ck))


def _sample_rows(fitted: FittedBias) -> RowsOfBlock | None:
    """Return the rows of the target's sample; None without one."""
    data = fitted.data
    if data.sample is None:
        return None
    design_m = None if data.design is None else data.design[data.n_pool :]
    frame = data.frame.iloc[data.n_pool :].reset_index(drop=True)
    return RowsOfBlock(frame, data.source[data.n_pool :], design_m)


def _descend(problem: StreamedProblem, weigher: LogLinearWeigher) -> LogLinearWeigher:
    """Descend to the maximum of the likelihood of all rows."""
    from unskew.bias.likelihood import descend_from

    fit = descend_from(problem, weigher.theta_kd, weigher.u_ck)
    return replace(weigher, theta_kd=fit.theta, u_ck=fit.u)


def _is_streamed(bias: Bias) -> bool:
    """Tell whether sums, minima and maxima over all rows are enough for the fit."""
    from unskew.bias.box import Box
    from unskew.bias.known import Known
    from unskew.bias.propensity import Propensity
    from unskew.bias.strata import Strata
    from unskew.bias.subpopulation import Subpopulation
    from unskew.bias.tilt import Tilt

    learned = [part for part in bias.parts if isinstance(part, Tilt | Propensity)]
    others = [part for part in bias.parts if part not in learned]
    return (
        all(
            isinstance(part, Known | Subpopulation | Strata)
            or (isinstance(part, Box) and part.quantile == 0)
            for part in others
        )
        and len(learned) <= 1
        and all(part.has_offset for part in learned)
    )
