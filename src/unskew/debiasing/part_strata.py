"""Strata over parts: one pass that counts, one that writes; nothing is sampled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.fitted_weights import strata_message
from unskew.debiasing.part_run import PartRun, make_solution
from unskew.debiasing.part_weighers import StrataLookup, StrataWeigher
from unskew.errors import DataError, first_few
from unskew.records import Bools, Floats, Ints, Overlap, Target
from unskew.solve.normalizers import overlap_of_cells
from unskew.solve.overlap import warn_if_weak
from unskew.target.facts import column_levels
from unskew.target.resolution import stratify_pool
from unskew.weigh.count_covariance import counted_error_of_cells
from unskew.weigh.tail_verdict import judge_lone_stratum

if TYPE_CHECKING:
    from unskew.debiasing.part_weights import PartWeights
    from unskew.target.strata import TargetStrata


@dataclass(frozen=True, eq=False)
class CountedStrata:
    """The target's strata over the counted cells of all images.

    over : the target over the attributes of the model.
    strata : the strata; their codes are those of the cells.
    source_j, image_j, unit_j : source, images and design weights of every cell.
    kept_j : whether its images have weight.
    lookup : finds the stratum of an image.
    """

    over: Target
    strata: TargetStrata
    source_j: Ints
    image_j: Floats
    unit_j: Floats
    kept_j: Bools
    lookup: StrataLookup

    def sums(self, value_j: Floats) -> Floats:
        """(C, K) the sums of a value over the cells that are kept."""
        n_sources = int(self.source_j.max()) + 1
        sum_ck = np.zeros((len(self.strata.strata), n_sources))
        kept = self.kept_j
        np.add.at(sum_ck, (self.strata.code[kept], self.source_j[kept]), value_j[kept])
        return sum_ck

    @property
    def left_out(self) -> dict[str, int]:
        """Images of weight 0, by reason."""
        outside_j = self.strata.code < 0
        counts = {
            f"their {' × '.join(self.strata.by)} has no mass in the target": ~self.kept_j
            & ~outside_j,
            "outside the target": outside_j,
        }
        lost = {reason: int(self.image_j[at].sum()) for reason, at in counts.items()}
        return {reason: count for reason, count in lost.items() if count}


def count_strata(run: PartRun, model: Any) -> CountedStrata:
    """Place all images in the target's strata, by one pass that counts."""
    from unskew.bias.strata import flag_disagreement, restrict_target

    target = run.target
    assert target is not None
    over = restrict_target(model, target)
    survey, names = run.survey, run.survey.names
    cells, source_j = survey.cells, survey.source
    scale_j = _design_scale(run)
    unit_j = cells["design"].to_numpy() * scale_j
    image_j = cells["count"].to_numpy()
    frame = cells[["source", *over.by]]
    strata = stratify_pool(over, frame, unit_j, image_j)
    flag_disagreement(strata)
    if strata.counted is not None:
        error = counted_error_of_cells(
            strata.counted, cells["weighed"].to_numpy(), cells["square"].to_numpy() * scale_j**2
        )
        strata = replace(strata, errors=(*strata.errors, error), counted=None)
    kept_j = (strata.code >= 0) & (strata.mass[strata.code] > 0)
    lost = sorted(set(names) - set(cells["source"][kept_j]))
    if lost:
        raise DataError(
            f"no image of {first_few(lost)} is left, because the bias model and the target leave "
            "them out. Drop the source.",
            sources=lost,
        )
    levels = [column_levels(frame[name], name, over.bins.get(name)) for name in over.by]
    texts = zip(*([read[at] for at in code_j] for read, code_j in levels), strict=True)
    code_of = dict(zip(texts, np.where(kept_j, strata.code, -1).tolist(), strict=True))
    lookup = StrataLookup(over.by, dict(over.bins), code_of)
    return CountedStrata(over, strata, source_j, image_j, unit_j, kept_j, lookup)


def _design_scale(run: PartRun) -> Floats:
    scale_k = run.survey.design_scale
    return np.ones(len(run.survey.cells)) if scale_k is None else scale_k[run.survey.source]


def weigh_strata(run: PartRun, model: Any) -> PartWeights:
    """Weigh by counts: one pass that counts, and none until the weights are written."""
    from unskew.bias.strata import (
        FittedStrata,
        describe_strata,
        flag_identifying,
        strata_of_one_source,
    )

    counted = count_strata(run, model)
    strata, source_j, cells = counted.strata, counted.source_j, run.survey.cells
    names = run.survey.names
    scale_j = _design_scale(run)
    weight_c = np.where(strata.mass > 0, strata.mass / strata.size, 0.0)
    weight_j = np.append(weight_c, 0.0)[strata.code]
    largest_j = weight_j * cells["largest"].to_numpy() * scale_j
    square_j = cells["square"].to_numpy() * (weight_j * scale_j) ** 2
    count_ck = counted.sums(counted.image_j)
    overlap = _judge_counts(strata, count_ck, weight_c, names)
    warn_if_weak(overlap)
    share_k = count_ck.sum(axis=0) / count_ck.sum()
    fitted = FittedStrata(
        strata,
        counted.over.bins,
        _log_factors(strata, count_ck),
        strata_of_one_source(strata, count_ck.astype(np.int64), names) if len(names) > 1 else {},
        flag_identifying(strata, count_ck.astype(np.int64)) if len(names) > 1 else (),
    )
    mass_j = weight_j * counted.unit_j
    return run.finished(
        reader=replace(run.block_reader(cached=False), columns=counted.over.by),
        weigher=StrataWeigher(counted.lookup, weight_c),
        solution=make_solution(names, share_k, np.log(share_k), np.zeros(len(names))),
        overlap=overlap,
        squares=np.bincount(source_j, weights=square_j, minlength=len(names)),
        largest=float(largest_j.max()),
        source_share=np.bincount(source_j, weights=mass_j, minlength=len(names)),
        left_out=counted.left_out,
        passes=1,
        n_sampled=0,
        sampled=run.weigh_sample,
        describe=lambda: describe_strata(fitted, alone=True),
        strata=strata,
        by_stratum=_by_stratum(strata, counted.image_j, mass_j, square_j, largest_j),
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
