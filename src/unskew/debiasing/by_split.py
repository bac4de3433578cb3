"""Weights for every split: the bias model is fitted on train, and each split is weighed to the
target by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.debiasing.pool_weights import debias
from unskew.errors import CoverageError, DataError, UnskewError, first_few
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.arrays import count_pairs
from unskew.records.levels import level_text
from unskew.solve.logarithms import log_sums
from unskew.splits.assignment import check_splits
from unskew.target.facts import cell_text

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias
    from unskew.target.strata import TargetStrata

# The name of the only split of a pool that has none.
ALL = "all"

# In the words on a split: it speaks of a part of the target only.
LACKING = "without what this split has no image of"


@dataclass(frozen=True, eq=False)
class SplitPart:
    """The weights of one split.

    Attributes
    ----------
    name : the split.
    row : (n_s,) where its images stand in the pool.
    weight : (n_s,) sums to 1 within the split.
    groups : number of groups; None without groups.
    ess, ess_groups : Kish's effective number of images, 1/Σ_i π_i², and of groups.
    zero : number of images that get weight 0, by reason.
    uncovered : strata of the target that have images in train and none here, and their mass.
    population : which population the weighted split speaks of.
    """

    name: str
    row: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    groups: int | None
    ess: float
    ess_groups: float | None
    zero: Mapping[str, int]
    uncovered: Mapping[str, float]
    population: str

    @property
    def images(self) -> int:
        """n_s."""
        return int(self.row.size)

    @property
    def sample_weight(self) -> Floats:
        """(n_s,) n_s π_i: mean 1 within the split."""
        return self.weight * self.weight.size

    @property
    def note(self) -> str:
        """What a reader of a result on this split should know, in sentences."""
        said = [f"{count} images get weight 0: {reason}." for reason, count in self.zero.items()]
        return " ".join([*said, f"Speaks of {self.population}."])


@dataclass(frozen=True, eq=False)
class SplitWeights:
    """One weight for every image of every split.

    Attributes
    ----------
    weights : the weights of ``train``, with the fitted model, verdict and errors.
    train : the split that the bias model was fitted on.
    parts : one `SplitPart` for each split, train first.
    id : (n,) ids of the images, in the order of the pool.
    """

    weights: Weights
    train: str
    parts: tuple[SplitPart, ...]
    id: npt.NDArray[Any] = field(repr=False)

    @property
    def weight(self) -> Floats:
        """(n,) sums to 1 within each split."""
        return self._joined([part.weight for part in self.parts])

    @property
    def sample_weight(self) -> Floats:
        """(n,) mean 1 within each split."""
        return self._joined([part.sample_weight for part in self.parts])

    def _joined(self, values: list[Floats]) -> Floats:
        joined_n = np.empty(self.id.size)
        for part, value_m in zip(self.parts, values, strict=True):
            joined_n[part.row] = value_m
        return joined_n

    def part(self, name: str) -> SplitPart:
        """The split of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise DataError(
            f"there is no split {name!r}; the splits are "
            f"{first_few([part.name for part in self.parts])}."
        )

    def frame(self) -> pd.DataFrame:
        """One row for each image of the pool, in its order: id, weight (sum 1 within the split),
        sample_weight (mean 1 within it).
        """
        import pandas as pd

        return pd.DataFrame(
            {"id": self.id, "weight": self.weight, "sample_weight": self.sample_weight}
        )


def weigh_splits(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    seed: int = 0,
    max_unlike: float = 0.2,
    judge: bool = True,
    solve: Mapping[str, Any] | None = None,
) -> SplitWeights:
    """Fit the bias model on train by `unskew.debias`, and weigh every other split to the same
    target.

    In split s, π_i ∝ 1/Σ_k λ_k^s ω_k(z_i)/Ω_k: ω and Ω as fitted on train, λ_k^s the share of
    source k in the split itself. With a `Strata` part λ and Ω are those within the stratum of the
    image, and weights are scaled so that each stratum has the target's mass; strata without images
    in the split are named with their mass, and the rest of the target is taken for 1. Facts: a
    split that is equal to train gets train's weights (except that `Propensity` judges the images it
    was fitted on by models that did not see them, and that images of train may be held out to
    judge); without splits these are the weights of `unskew.debias`.

    Images that the model leaves out (beyond what their own source selects; outside the target; in a
    stratum of no mass, or one that train has no image of) get weight 0 and are counted.

    Parameters
    ----------
    pool : the images; train is the split called train, else the largest. Without a column ``split``
        the pool is one split.
    bias, target, seed, max_unlike, judge, solve : as for `unskew.debias`.
    """
    if "split" not in pool.frame.columns:
        weights = debias(
            pool, bias, target, seed=seed, max_unlike=max_unlike, judge=judge, solve=solve
        )
        return SplitWeights(
            weights,
            ALL,
            (_train_part(ALL, np.arange(len(pool)), pool, weights),),
            pool.frame["id"].to_numpy(),
        )
    check_splits(pool)
    row_of = {
        name: np.flatnonzero(code) for name, code in _split_masks(pool.frame["split"]).items()
    }
    train = _find_train(row_of)
    _check_sources(pool, row_of, train)
    train_pool = pool.take(row_of[train])
    with _said_of(train):
        weights = debias(
            train_pool, bias, target, seed=seed, max_unlike=max_unlike, judge=judge, solve=solve
        )
    parts = [_train_part(train, row_of[train], train_pool, weights)]
    others = [name for name in row_of if name != train]
    if others:
        assert weights.estimation is not None
        fitted = weights.estimation.fitted
        whole = _whole_strata(pool, fitted)
        with _said_of(train):
            lost = _check_uniform(fitted.target, whole, row_of[train])
        fit = _TrainFit(train, fitted, weights, whole)
        for name in others:
            with _said_of(name):
                parts.append(fit.weigh(name, row_of[name], pool.take(row_of[name])))
        if lost:
            without = f", without what {train} has no image of: {_masses(lost)}"
            parts = [replace(part, population=part.population + without) for part in parts]
    return SplitWeights(weights, train, tuple(parts), pool.frame["id"].to_numpy())


def _split_masks(split_n: pd.Series[Any]) -> dict[str, npt.NDArray[np.bool_]]:
    """{split: which images}, in the order of first appearance."""
    text_n = split_n.map(level_text).to_numpy(dtype=object)
    return {name: np.asarray(text_n == name) for name in dict.fromkeys(text_n.tolist())}


def _find_train(row_of: Mapping[str, Ints]) -> str:
    called = [name for name in row_of if name.strip().lower() in ("train", "training")]
    return called[0] if called else min(row_of, key=lambda name: (-row_of[name].size, name))


def _check_sources(pool: Pool, row_of: Mapping[str, Ints], train: str) -> None:
    """A source without images in train has no fitted ω."""
    seen = set(pool.source[row_of[train]].tolist())
    lacking = [
        f"{name} ({size} images)"
        for k, (name, size) in enumerate(zip(pool.names, pool.sizes, strict=True))
        if k not in seen
    ]
    if lacking:
        raise DataError(
            f"the bias model is fitted on the split {train!r}, which has no image of "
            f"{first_few(lacking)}: how that source selects cannot "
            "be learned. Split so that every source is in it (`unskew split` does), or leave the "
            "source out."
        )


@contextmanager
def _said_of(split: str) -> Iterator[None]:
    """Errors say in which split."""
    try:
        yield
    except UnskewError as error:
        error.args = (f"in the split {split!r}: {error}", *error.args[1:])
        raise


def _train_part(name: str, row: Ints, pool: Pool, weights: Weights) -> SplitPart:
    assert weights.estimation is not None
    fitted = weights.estimation.fitted
    return _part(
        name, row, pool, weights.weight, dict(fitted.left_out), {}, fitted.describe().population
    )


def _part(
    name: str,
    row: Ints,
    pool: Pool,
    weight_n: Floats,
    zero: dict[str, int],
    uncovered: dict[str, float],
    population: str,
) -> SplitPart:
    from unskew.weigh.effective_size import add_by_code, effective_size
    from unskew.weigh.solved_weights import group_codes

    groups = ess_groups = None
    if "group" in pool.frame.columns:
        code_n, found = group_codes(pool.frame["group"], len(pool))
        groups, ess_groups = found.size, effective_size(add_by_code(code_n, weight_n, found.size))
    return SplitPart(
        name,
        row,
        weight_n,
        groups,
        effective_size(weight_n),
        ess_groups,
        zero,
        uncovered,
        population,
    )


def _whole_strata(pool: Pool, fitted: FittedBias) -> TargetStrata | None:
    """The strata of all splits together, by the target's rules for levels outside its scope and
    missing ones; None without strata.

    Groups do not cross splits, so that each image's part of a unit is the same in the pool and in
    its split.
    """
    from unskew.bias.strata import Strata, stratify_for

    part = next((part for part in fitted.model.parts if isinstance(part, Strata)), None)
    if part is None:
        return None
    data = fitted.data
    reference = None if data.reference is None else data.frame[data.source == data.reference]
    return stratify_for(part, pool, fitted.target, reference)[0]


def _check_uniform(
    target: Target | None, whole: TargetStrata | None, train: Ints
) -> dict[str, float]:
    """A uniform target is uniform over the levels of all splits: {what train has no image of: its
    mass}, an error unless allowed.
    """
    from unskew.target.cell_masses import allow_uncovered

    if target is None or target.kind != "uniform" or whole is None:
        return {}
    seen_c = np.bincount(whole.code[train][whole.code[train] >= 0], minlength=len(whole.strata)) > 0
    empty_c = ~seen_c & whole.in_scope & (whole.mass > 0)
    empty = {
        cell_text(whole.by, whole.strata[c]): float(whole.mass[c]) for c in np.flatnonzero(empty_c)
    }
    if empty:
        allow_uncovered(target, empty, float(whole.mass[~empty_c].sum()))
    return empty


def _masses(uncovered: Mapping[str, float]) -> str:
    """``label = owl (0.2); 0.2 of it in all``, the largest first."""
    shown = first_few(
        [
            f"{cell} ({mass:.4g})"
            for cell, mass in sorted(uncovered.items(), key=lambda item: -item[1])
        ]
    )
    return f"{shown}; {sum(uncovered.values()):.4g} of it in all"


@dataclass(frozen=True, eq=False)
class _TrainFit:
    """The model as fitted on train, for the images of other splits; ``whole``: the strata of all
    splits together.
    """

    train: str
    fitted: FittedBias
    weights: Weights
    whole: TargetStrata | None

    def weigh(self, name: str, row: Ints, pool: Pool) -> SplitPart:
        """The weights of one split."""
        fitted, n = self.fitted, len(pool)
        source_n = np.array([fitted.names.index(each) for each in pool.names])[pool.source]
        log_nk = self._factors(pool.frame)
        zero: dict[str, int] = {}
        cell_n, unit_n = self._cells(row, zero)
        self._leave_out(pool, log_nk, source_n, cell_n, zero)
        kept = np.flatnonzero(cell_n >= 0)
        if not kept.size:
            reasons = first_few([f"{count} images: {reason}" for reason, count in zero.items()])
            raise CoverageError(
                f"no image is left to weigh ({reasons}). Split so that it resembles "
                f"{self.train!r}, or drop it."
            )
        part_m = unit_n[kept]
        if fitted.factors:
            part_m = part_m * self._inverse_density(log_nk[kept], source_n[kept], cell_n[kept])
        weight_n, uncovered = np.zeros(n), {}
        if fitted.strata is None:
            weight_n[kept] = part_m / part_m.sum()
        else:
            target = fitted.strata.target
            total_c = np.bincount(cell_n[kept], weights=part_m, minlength=len(target.strata))
            weight_m = target.mass[cell_n[kept]] * part_m / total_c[cell_n[kept]]
            weight_n[kept] = weight_m / weight_m.sum()
            empty = np.flatnonzero((total_c <= 0) & (target.mass > 0))
            uncovered = {
                cell_text(target.by, target.strata[c]): float(target.mass[c]) for c in empty
            }
        return _part(
            name, row, pool, weight_n, zero, uncovered, self._population(uncovered, source_n[kept])
        )

    def _factors(self, frame: pd.DataFrame) -> Floats:
        """(n, K) log of the product of all factors but strata."""
        log_nk = np.zeros((len(frame), self.fitted.data.n_sources))
        for factor in self.fitted.factors:
            log_nk = log_nk + factor.log_omega(frame)
        return log_nk[:, : len(self.fitted.names)]

    def _cells(self, row: Ints, zero: dict[str, int]) -> tuple[Ints, Floats]:
        """(stratum of every image among those of train, −1 without one; its part of a unit); what
        has none is counted.
        """
        if self.whole is None or self.fitted.strata is None:
            return np.zeros(row.size, dtype=np.int64), np.ones(row.size)
        target = self.fitted.strata.target
        place = {cell: at for at, cell in enumerate(target.strata)}
        # The last entry is that of images outside the target, whose code is −1.
        at_c = np.array([place.get(cell, -1) for cell in self.whole.strata] + [-1], dtype=np.int64)
        code_n = self.whole.code[row]
        cell_n = at_c[code_n]
        massless_n = (cell_n >= 0) & (target.mass[cell_n] <= 0)
        by = " × ".join(target.by)
        _count(zero, "outside the target", code_n < 0)
        _count(zero, f"{self.train} has no image of their {by}", (code_n >= 0) & (cell_n < 0))
        _count(zero, f"their {by} has no mass in the target", massless_n)
        cell_n[massless_n] = -1
        return cell_n, self.whole.unit[row]

    def _leave_out(
        self, pool: Pool, log_nk: Floats, source_n: Ints, cell_n: Ints, zero: dict[str, int]
    ) -> None:
        """Images that their own source cannot select by the fitted model lose their place in
        ``cell_n``; given ω must allow them.
        """
        from unskew.bias.strata import Strata

        parts = [part for part in self.fitted.model.parts if not isinstance(part, Strata)]
        impossible_n = np.isneginf(log_nk[np.arange(source_n.size), source_n]) & (cell_n >= 0)
        given = [
            factor
            for part, factor in zip(parts, self.fitted.factors, strict=True)
            if not (part.by_likelihood or part.may_exclude)
        ]
        for factor in given:
            own_n = factor.log_omega(pool.frame)[np.arange(source_n.size), source_n]
            wrong = np.flatnonzero(np.isneginf(own_n) & (cell_n >= 0))
            if wrong.size:
                raise DataError(
                    f"the model says source `{self.fitted.names[source_n[wrong[0]]]}` could not "
                    "have produced the image "
                    f"{pool.frame['id'].iloc[wrong[0]]}, yet it did ({wrong.size} such images): "
                    "omega is zero in its own source's column."
                )
        # A source with images in a stratum where train has none of it: nothing in train's stratum
        # may look like what it selects.
        unlike_ck = np.isneginf(self._log_normalizer_ck)
        impossible_n |= (cell_n >= 0) & unlike_ck[cell_n, source_n]
        _count(
            zero, f"beyond what their own source selects, as fitted on {self.train}", impossible_n
        )
        cell_n[impossible_n] = -1

    def _inverse_density(self, log_mk: Floats, source_m: Ints, cell_m: Ints) -> Floats:
        """(m,) 1/Σ_k n_ck ω_k(z_i)/Ω_ck with the split's own counts n_ck, the largest of each
        stratum 1 (a factor that cancels).
        """
        log_omega_ck = self._log_normalizer_ck
        n_cells = self.fitted.data.n_cells
        size_ck = count_pairs(cell_m, source_m, (n_cells, len(self.fitted.names)))
        with np.errstate(divide="ignore"):
            share_ck = np.where(size_ck > 0, np.log(size_ck) - log_omega_ck, -np.inf)
        log_v_m = -log_sums(log_mk + share_ck[cell_m])
        largest_c = np.full(n_cells, -np.inf)
        np.maximum.at(largest_c, cell_m, log_v_m)
        return np.asarray(np.exp(log_v_m - largest_c[cell_m]))

    @cached_property
    def _log_normalizer_ck(self) -> Floats:
        """(C, K) log of Σ_i v_i ω_ik over the images i of train (and of the target's sample) in
        stratum c, v_i = 1/Σ_l e^{u_cl} ω_il.

        That is Ω_ck up to a factor of the stratum. By the equations of the solution it is n_ck
        e^{−u_ck} where source k has images.
        """
        fitted, data = self.fitted, self.fitted.data
        n_sources = len(fitted.names)
        size_ck = count_pairs(data.cell, data.source, (data.n_cells, data.n_sources))
        u_ck = (
            fitted.profile.u
            if fitted.strata is None
            else fitted.strata.log_factor + np.log(np.bincount(data.source))
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ck = (np.log(size_ck) - u_ck)[:, :n_sources]
        unseen_ck = size_ck[:, :n_sources] == 0
        if not fitted.factors:
            return np.where(unseen_ck, 0.0, log_ck)
        if unseen_ck.any():
            log_v_r = -log_sums(fitted.profile.log_omega + fitted.profile.u[data.cell])
            log_rk = self._factors(data.frame) + log_v_r[:, None]
            sum_ck = np.full(log_ck.shape, -np.inf)
            np.logaddexp.at(sum_ck, data.cell, log_rk)
            log_ck = np.where(unseen_ck, sum_ck, log_ck)
        return np.asarray(log_ck)

    def _population(self, uncovered: Mapping[str, float], source_m: Ints) -> str:
        population = self.fitted.describe().population
        if uncovered:
            population += f", {LACKING}: {_masses(uncovered)}"
        present = np.unique(source_m)
        absent = [name for k, name in enumerate(self.fitted.names) if k not in present]
        if absent and self.fitted.factors:
            log_rk = self._factors(self.fitted.data.frame)[: self.fitted.data.n_pool]
            lost_r = np.isneginf(log_rk[:, present]).all(axis=1)
            lost = float(self.weights.weight[self.fitted.row] @ lost_r)
            if lost > 0:
                population += (
                    f", without what only {first_few(absent)} selects, of which this "
                    f"split has no image ({lost:.4g} of it)"
                )
        return population


def _count(zero: dict[str, int], reason: str, is_zero_n: npt.NDArray[np.bool_]) -> None:
    if is_zero_n.any():
        zero[reason] = zero.get(reason, 0) + int(is_zero_n.sum())
