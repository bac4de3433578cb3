"""The bias model as fitted on train, applied to the images of another split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from unskew.errors import CoverageError, DataError, first_few
from unskew.records import Bools, Floats, Ints, Pool, Weights
from unskew.records.arrays import log_sums
from unskew.records.design_weights import add_design
from unskew.target.facts import cell_text

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.fitted import FittedBias
    from unskew.target.strata import TargetStrata

# In the population of a split that describes a part of the target only.
LACKING = "excluding strata with no images in this split"


class SplitOutcome(NamedTuple):
    """The weights of one split.

    weight : (n_s,) sums to 1.
    zero : number of images that get weight 0, by reason.
    uncovered : strata of the target that have images in train and none here, and their mass.
    population : which population the weighted split describes.
    membership : (n_s, K) q of every image, 0 where it has no weight; None of train.
    """

    weight: Floats
    zero: dict[str, int]
    uncovered: dict[str, float]
    population: str
    membership: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class TrainFit:
    """The model as fitted on train, for the images of other splits.

    train : the split that the model was fitted on.
    fitted, weights : the model, and the weights of train.
    whole : the strata of all splits together; None without strata.
    whole_design : (n,) the design weights in ``whole``; None without any.
    """

    train: str
    fitted: FittedBias
    weights: Weights
    whole: TargetStrata | None
    whole_design: Floats | None = None

    def weigh(self, row: Ints, pool: Pool) -> SplitOutcome:
        """Weigh one split: its images ``pool``, and their rows in the pool of all splits."""
        fitted = self.fitted
        code_of = {name: k for k, name in enumerate(fitted.names)}
        source_n = np.array([code_of[name] for name in pool.names])[pool.source]
        log_nk = self._factors(pool.frame)
        zero: dict[str, int] = {}
        cell_n, unit_n = self._cells(row, zero)
        design_n = pool.design_weight
        if design_n is not None:
            _count(zero, "design weight 0", design_n == 0)
            cell_n[design_n == 0] = -1
        self._leave_out(pool, log_nk, source_n, cell_n, zero)
        kept = np.flatnonzero(cell_n >= 0)
        if not kept.size:
            reasons = first_few([f"{count} images: {reason}" for reason, count in zero.items()])
            raise CoverageError(
                f"no image is left to weigh ({reasons}). Split so that it resembles "
                f"{self.train!r}, or drop it.",
                count=0,
            )
        design_m = None if design_n is None else design_n[kept]
        part_m = unit_n[kept] if design_m is None else unit_n[kept] * design_m
        log_mk = self._log_densities(log_nk[kept], source_n[kept], cell_n[kept], design_m)
        if fitted.factors:
            part_m = part_m * self._inverse_density(log_mk, cell_n[kept])
        q_nk = np.zeros(log_nk.shape, dtype=np.float32)
        q_nk[kept] = scipy.special.softmax(log_mk, axis=1)
        weight_n = np.zeros(len(pool))
        weight_n[kept], uncovered = self._scaled(part_m, cell_n[kept])
        population = self._population(uncovered, source_n[kept])
        return SplitOutcome(weight_n, zero, uncovered, population, q_nk)

    def _scaled(self, part_m: Floats, cell_m: Ints) -> tuple[Floats, dict[str, float]]:
        """Scale weights so that each stratum has the target's mass; also what has no images."""
        if self.fitted.strata is None:
            return part_m / part_m.sum(), {}
        target = self.fitted.strata.target
        total_c = np.bincount(cell_m, weights=part_m, minlength=len(target.strata))
        weight_m = target.mass[cell_m] * part_m / total_c[cell_m]
        empty = np.flatnonzero((total_c <= 0) & (target.mass > 0))
        uncovered = {cell_text(target.by, target.strata[c]): float(target.mass[c]) for c in empty}
        return weight_m / weight_m.sum(), uncovered

    def _factors(self, frame: pd.DataFrame) -> Floats:
        """Compute (n, K) log of the product of all factors but strata."""
        log_nk = np.zeros((len(frame), self.fitted.data.n_sources))
        for factor in self.fitted.factors:
            log_nk = log_nk + factor.log_omega(frame)
        return log_nk[:, : len(self.fitted.names)]

    def _cells(self, row: Ints, zero: dict[str, int]) -> tuple[Ints, Floats]:
        """Return every image's stratum among those of train (−1: none) and its part of a unit."""
        if self.whole is None or self.fitted.strata is None:
            return np.zeros(row.size, dtype=np.int64), np.ones(row.size)
        target = self.fitted.strata.target
        code_of = {cell: c for c, cell in enumerate(target.strata)}
        # The last entry is that of images outside the target, whose code is −1.
        codes = [code_of.get(cell, -1) for cell in self.whole.strata]
        at_c = np.array([*codes, -1], dtype=np.int64)
        code_n = self.whole.code[row]
        design_n = np.ones(row.size) if self.whole_design is None else self.whole_design[row]
        cell_n = at_c[code_n]
        massless_n = (cell_n >= 0) & (target.mass[cell_n] <= 0)
        by = " × ".join(target.by)
        _count(zero, "outside the target", (code_n < 0) & (design_n > 0))
        _count(zero, f"{self.train} has no image of their {by}", (code_n >= 0) & (cell_n < 0))
        _count(zero, f"their {by} has no mass in the target", massless_n)
        cell_n[massless_n] = -1
        return cell_n, np.divide(
            self.whole.unit[row], design_n, out=np.zeros(row.size), where=design_n > 0
        )

    def _leave_out(
        self, pool: Pool, log_nk: Floats, source_n: Ints, cell_n: Ints, zero: dict[str, int]
    ) -> None:
        """Take out of ``cell_n`` images that their own source cannot select by the fitted model."""
        from unskew.bias.strata import Strata

        parts = [part for part in self.fitted.model.parts if not isinstance(part, Strata)]
        impossible_n = np.isneginf(log_nk[np.arange(source_n.size), source_n]) & (cell_n >= 0)
        known = [
            factor
            for part, factor in zip(parts, self.fitted.factors, strict=True)
            if not (part.by_likelihood or part.may_exclude)
        ]
        for factor in known:
            own_n = factor.log_omega(pool.frame)[np.arange(source_n.size), source_n]
            wrong = np.flatnonzero(np.isneginf(own_n) & (cell_n >= 0))
            if wrong.size:
                raise DataError(
                    f"the model says source `{self.fitted.names[source_n[wrong[0]]]}` could not "
                    f"have produced the image {pool.frame['id'].iloc[wrong[0]]}, yet it did "
                    f"({wrong.size} such images): omega is zero in its own source's column.",
                    source=self.fitted.names[source_n[wrong[0]]],
                    id=pool.frame["id"].iloc[wrong[0]],
                    count=int(wrong.size),
                )
        # A source with images in a stratum where train has none of it: nothing in train's stratum
        # may look like what it selects.
        unlike_ck = np.isneginf(self._log_normalizer_ck)
        impossible_n |= (cell_n >= 0) & unlike_ck[cell_n, source_n]
        _count(
            zero, f"beyond what their own source selects, as fitted on {self.train}", impossible_n
        )
        cell_n[impossible_n] = -1

    def _log_densities(
        self, log_mk: Floats, source_m: Ints, cell_m: Ints, design_m: Floats | None
    ) -> Floats:
        """Compute (m, K) log of n_ck ω_k(z_i)/Ω_ck with the split's own counts n_ck."""
        log_omega_ck = self._log_normalizer_ck
        n_cells = self.fitted.data.n_cells
        n_sources = len(self.fitted.names)
        code_m = cell_m * n_sources + source_m
        size_ck = add_design(code_m, design_m, n_cells * n_sources).reshape(n_cells, n_sources)
        with np.errstate(divide="ignore"):
            share_ck = np.where(size_ck > 0, np.log(size_ck) - log_omega_ck, -np.inf)
        return np.asarray(log_mk + share_ck[cell_m])

    def _inverse_density(self, log_mk: Floats, cell_m: Ints) -> Floats:
        """Compute (m,) 1/Σ_k n_ck ω_k(z_i)/Ω_ck; the largest of each stratum is 1, it cancels."""
        log_v_m = -log_sums(log_mk)
        largest_c = np.full(self.fitted.data.n_cells, -np.inf)
        np.maximum.at(largest_c, cell_m, log_v_m)
        return np.asarray(np.exp(log_v_m - largest_c[cell_m]))

    @cached_property
    def _log_normalizer_ck(self) -> Floats:
        """(C, K) log Ω_ck up to a factor of the stratum.

        Ω_ck = Σ_i v_i ω_ik over the images i of train (and of the target's sample) in stratum c,
        v_i = 1/Σ_l e^{u_cl} ω_il. By the equations of the solution it is n_ck e^{−u_ck} where
        source k has images.
        """
        fitted, data = self.fitted, self.fitted.data
        n_sources = len(fitted.names)
        code_r = data.cell * data.n_sources + data.source
        size_ck = add_design(code_r, data.design, data.n_cells * data.n_sources).reshape(
            data.n_cells, data.n_sources
        )
        u_ck = (
            fitted.profile.u
            if fitted.strata is None
            else fitted.strata.log_factor + np.log(data.size_k)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ck = (np.log(size_ck) - u_ck)[:, :n_sources]
        unseen_ck = size_ck[:, :n_sources] == 0
        if not fitted.factors:
            return np.where(unseen_ck, 0.0, log_ck)
        if unseen_ck.any():
            log_v_r = -log_sums(fitted.profile.log_omega + fitted.profile.u[data.cell])
            if data.design is not None:
                log_v_r = log_v_r + np.log(data.design)
            log_rk = self._factors(data.frame) + log_v_r[:, None]
            sum_ck = np.full(log_ck.shape, -np.inf)
            np.logaddexp.at(sum_ck, data.cell, log_rk)
            log_ck = np.where(unseen_ck, sum_ck, log_ck)
        return np.asarray(log_ck)

    def _population(self, uncovered: Mapping[str, float], source_m: Ints) -> str:
        population = self.fitted.describe().population
        if uncovered:
            population += f", {LACKING}: {masses_text(uncovered)}"
        present = np.unique(source_m)
        absent = [name for k, name in enumerate(self.fitted.names) if k not in present]
        if absent and self.fitted.factors:
            log_rk = self._factors(self.fitted.data.frame)[: self.fitted.data.n_pool]
            lost_r = np.isneginf(log_rk[:, present]).all(axis=1)
            lost = float(self.weights.weight[self.fitted.row] @ lost_r)
            if lost > 0:
                population += (
                    f", excluding what only {first_few(absent)} selects, because this split has "
                    f"no images of it ({lost:.4g} of the target)"
                )
        return population


def _count(zero: dict[str, int], reason: str, is_zero_n: Bools) -> None:
    if is_zero_n.any():
        zero[reason] = zero.get(reason, 0) + int(is_zero_n.sum())


def masses_text(uncovered: Mapping[str, float]) -> str:
    """Write ``label = owl (0.2); 0.2 of it in all``, the largest first."""
    shown = first_few(
        [
            f"{cell} ({mass:.4g})"
            for cell, mass in sorted(uncovered.items(), key=lambda item: -item[1])
        ]
    )
    return f"{shown}; {sum(uncovered.values()):.4g} of it in all"
