"""Strata over parts: one pass that counts, one that writes; nothing is sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.fitted_weights import strata_message
from unskew.debiasing.part_run import PartRun, make_solution
from unskew.debiasing.part_weighers import StrataWeigher
from unskew.errors import DataError, first_few
from unskew.records import Floats, Overlap
from unskew.solve.normalizers import overlap_of_cells
from unskew.solve.overlap import warn_if_weak
from unskew.target.facts import column_levels
from unskew.target.resolution import stratify_pool
from unskew.weigh.tail_verdict import judge_lone_stratum

if TYPE_CHECKING:
    from unskew.debiasing.part_weights import PartWeights
    from unskew.target.strata import TargetStrata


def weigh_strata(run: PartRun, model: Any) -> PartWeights:
    """Weigh by counts: one pass that counts, and none until the weights are written."""
    from unskew.bias.strata import (
        FittedStrata,
        describe_strata,
        flag_disagreement,
        flag_identifying,
        restrict_target,
        strata_of_one_source,
    )

    target = run.target
    assert target is not None
    over = restrict_target(model, target)
    survey, names = run.survey, run.survey.names
    cells = survey.cells
    scale_k, source_j = survey.design_scale, survey.source
    scale_j = np.ones(len(cells)) if scale_k is None else scale_k[source_j]
    unit_j = cells["design"].to_numpy() * scale_j
    image_j = cells["count"].to_numpy()
    frame = cells[["source", *over.by]]
    strata = stratify_pool(over, frame, unit_j, image_j)
    flag_disagreement(strata)
    kept_j = (strata.code >= 0) & (strata.mass[strata.code] > 0)
    left_out = _left_out(strata, image_j, kept_j)
    lost = sorted(set(names) - set(cells["source"][kept_j]))
    if lost:
        raise DataError(
            f"no image of {first_few(lost)} is left, because the bias model and the target leave "
            "them out. Drop the source.",
            sources=lost,
        )
    weight_c = np.where(strata.mass > 0, strata.mass / strata.size, 0.0)
    weight_j = np.append(weight_c, 0.0)[strata.code]
    largest_j = weight_j * cells["largest"].to_numpy() * scale_j
    square_j = cells["square"].to_numpy() * (weight_j * scale_j) ** 2
    bins = over.bins
    levels = [column_levels(frame[name], name, bins.get(name)) for name in over.by]
    texts = zip(*([read[at] for at in code_j] for read, code_j in levels), strict=True)
    code_of = dict(zip(texts, strata.code.tolist(), strict=True))
    weigher = StrataWeigher(over.by, dict(bins), code_of, weight_c)
    shape = len(strata.strata), len(names)
    count_ck = np.zeros(shape)
    np.add.at(count_ck, (strata.code[kept_j], source_j[kept_j]), image_j[kept_j])
    overlap = _judge_counts(strata, count_ck, weight_c, names)
    warn_if_weak(overlap)
    share_k = count_ck.sum(axis=0) / count_ck.sum()
    fitted = FittedStrata(
        strata,
        bins,
        _log_factors(strata, count_ck),
        strata_of_one_source(strata, count_ck.astype(np.int64), names) if len(names) > 1 else {},
        flag_identifying(strata, count_ck.astype(np.int64)) if len(names) > 1 else (),
    )
    return run.finished(
        reader=replace(run.block_reader(cached=False), columns=over.by),
        weigher=weigher,
        solution=make_solution(names, share_k, np.log(share_k), np.zeros(len(names))),
        overlap=overlap,
        squares=np.bincount(source_j, weights=square_j, minlength=len(names)),
        largest=float(largest_j.max()),
        source_share=np.bincount(source_j, weights=weight_j * unit_j, minlength=len(names)),
        left_out=left_out,
        passes=1,
        n_sampled=0,
        sampled=run.weigh_sample,
        describe=lambda: describe_strata(fitted, alone=True),
        strata=strata,
        by_stratum=_by_stratum(strata, image_j, weight_j * unit_j, square_j, largest_j),
    )


def _by_stratum(
    strata: TargetStrata, image_j: Floats, mass_j: Floats, square_j: Floats, largest_j: Floats
) -> dict[str, tuple[int, float, float]]:
    """Return {stratum: (images, effective size, largest π)}."""
    inside = strata.code >= 0
    code, size = strata.code[inside], len(strata.strata)
    image_c, mass_c, square_c = (
        np.bincount(code, weights=each[inside], minlength=size)
        for each in (image_j, mass_j, square_j)
    )
    ess_c = np.divide(mass_c**2, square_c, out=np.zeros(size), where=square_c > 0)
    largest_c = np.zeros(size)
    np.maximum.at(largest_c, code, largest_j[inside])
    rows = zip(image_c.astype(np.int64).tolist(), ess_c.tolist(), largest_c.tolist(), strict=True)
    return dict(zip(strata.names, rows, strict=True))


def _left_out(strata: TargetStrata, image_j: Floats, kept_j: Any) -> dict[str, int]:
    outside_j = strata.code < 0
    counts = {
        f"their {' × '.join(strata.by)} has no mass in the target": image_j[~kept_j & ~outside_j],
        "outside the target": image_j[outside_j],
    }
    return {reason: int(each.sum()) for reason, each in counts.items() if each.sum()}


def _log_factors(strata: TargetStrata, count_ck: Floats) -> Floats:
    """(C, K) log a_k(y), a_k(y) = (n_k^(y)/n_k)/p(y); −inf where a source has no images."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ck = np.log(count_ck) - np.log(count_ck.sum(axis=0)) - np.log(strata.mass)[:, None]
    log_ck[strata.mass <= 0] = -np.inf
    return np.asarray(log_ck)


def _judge_counts(
    strata: TargetStrata, count_ck: Floats, weight_c: Floats, names: tuple[str, ...]
) -> Overlap:
    """Judge links and single images from the counts of every stratum and source."""
    overlap = overlap_of_cells(_log_factors(strata, count_ck), count_ck.astype(np.int64), names)
    message = strata_message(strata, overlap, len(names), alone=True)
    overlap = replace(overlap, verdict="ok", message=message)
    count_c = count_ck.sum(axis=1)
    lone_c = np.where(count_c == 1, weight_c, 0.0)
    worst = int(lone_c.argmax())
    lone = float((lone_c**2).sum() / (weight_c**2 @ count_c))
    return judge_lone_stratum(
        overlap, lone, strata.names[worst], float(strata.mass[worst]), int(count_c[worst])
    )
