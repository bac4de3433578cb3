"""A test of the bias model on your data: each source in turn is the target, and what is predicted
there is compared with the truth.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.pool_weights import debias
from unskew.engine.arguments import Folds, NotNegative, ShareAboveZero, checked
from unskew.engine.progress import show_progress
from unskew.errors import (
    ConfigError,
    ConvergenceError,
    CoverageError,
    DataError,
    OverlapError,
    UnskewWarning,
    first_few,
)
from unskew.forecasting.arms import make_ways
from unskew.forecasting.cross_fitting import (
    ProbeArm,
    count_fits,
    cross_fit_arms,
    deal_halves,
    extrapolate,
)
from unskew.forecasting.gain import target_mean
from unskew.forecasting.learners import Learner, find_learner
from unskew.forecasting.probe_data import ProbeData, gather_probe_data
from unskew.forecasting.record import HitJudge, TargetMean, share_mean
from unskew.forecasting.rehearsal_record import Rehearsal, SourceRehearsal, judge_rehearsal
from unskew.forecasting.tuning import ridges_to_try, ways_to_try
from unskew.learn.presets import Way
from unskew.learn.probe import Scaling
from unskew.learn.ways import DEFAULT_RIDGE
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.arrays import Randomness, log_sums, seed_of
from unskew.records.clustered_mean import effective_size, plain_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from unskew.bias.base import Bias

_ARMS = ("naive", "debiased")


@checked
def rehearse(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    features: Any,
    learner: Any = None,
    folds: Folds = 5,
    way: Way = "auto",
    ridge: NotNegative | None = None,
    scaling: Scaling | None = None,
    keep_copies_together: bool | None = None,
    max_uncovered: ShareAboveZero = 0.2,
    rng: Randomness = 0,
    progress: bool | None = None,
) -> Rehearsal:
    """Test the bias model: weight the others to each source, and compare prediction with truth.

    Of the source that plays the target only that is used which one would know of a target: with
    `Strata` how often each level occurs in it, with `Tilt` and `Propensity` its images without
    their labels (`Target.sample`). Families that describe selection alone (`Known`,
    `Subpopulation`, `Box`, `SoftBox`) are fitted to all sources, and the others get the weights
    ω_k(z)/Σ_{l≠k} n_l ω_l(z)/Ω_l that make them look like source k. Naive and debiased models are
    then trained on the others; their accuracy is predicted as by `unskew.forecast_gain`, and
    compared with that on the source's own images.

    A source is a harder target than most: it is at the edge of what the others show. One that
    cannot be reached is reported with the reason, and does not count against the model.

    Parameters
    ----------
    pool : the images of at least two sources, with labels.
    bias : the bias model. A source that it names as reference plays no such part here.
    target : your target, where `Strata` takes its attributes and bins from it.
    features : what the probe learns from, as for `unskew.forecast_gain`.
    learner : a scikit-learn classifier that takes weights; None: the linear probe.
    way : how debiased models learn from the weights: "weights", "half" or "logit". "auto" is
        "half", where `unskew.forecast_gain` starts from: nothing is chosen or calibrated here. A
        learner without ``predict_proba`` has "weights" alone.
    ridge : of the probe; None: 0.01.
    folds, scaling, keep_copies_together, max_uncovered, rng, progress : as for
        `unskew.forecast_gain`.

    Returns
    -------
    Rehearsal
        ``print`` shows verdict and table; ``to_dict()`` is for files.

    Examples
    --------
    >>> import numpy as np, unskew
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1, 0, 1], [600, 100, 200, 500])
    >>> source = np.repeat(["day", "night"], 700)
    >>> pool = unskew.Pool.from_arrays(source, label=y, x=2 * y + rng.standard_normal(y.size))
    >>> unskew.rehearse(pool, unskew.bias.Strata("label"), features=["x"]).verdict
    'transfers'
    """
    seed = seed_of(rng)
    if len(pool.names) < 2:
        raise DataError(
            "a rehearsal takes each source as the target of the others, but there is one source "
            f"only ({pool.names[0]}).",
            source=pool.names[0],
        )
    trained, called = find_learner(learner)
    tried = ways_to_try(way, trained, called)
    own_way: Way = "half" if "half" in tried else tried[0]
    data = gather_probe_data(
        pool,
        features,
        scaling=scaling,
        keep_copies_together=keep_copies_together,
        scaled=learner is None,
    )
    if data.has_label_sets:
        raise DataError(
            "a rehearsal compares one class of each image, and these have any number of labels. "
            "Take one label at a time, as present or absent; `forecast_gain` takes all of them.",
            column="label",
        )
    stage = _Stage(
        pool,
        _without_reference(bias, target),
        data,
        trained,
        own_way,
        max(ridges_to_try(DEFAULT_RIDGE if ridge is None else ridge)),
        folds,
        max_uncovered,
        seed,
    )
    with show_progress(
        "training probes", len(pool.names) * count_fits(len(_ARMS), folds), progress
    ) as advance:
        played = [stage.play(k, advance) for k in range(len(pool.names))]
    looks = max(sum(source.reached for source in played), 1)
    sources = tuple(replace(source, looks=looks) for source in played)
    family = " × ".join(type(part).__name__ for part in bias.parts)
    verdict, message = judge_rehearsal(sources, family)
    return Rehearsal(verdict, message, sources, family, called, folds, seed)


def _without_reference(bias: Bias, target: Target | None) -> Bias:
    """Return the model without a reference source, and with attributes and bins of its own."""
    from unskew.bias.base import Bias as AnyBias
    from unskew.bias.product import Product
    from unskew.bias.strata import Strata

    if not isinstance(bias, AnyBias):
        raise ConfigError(
            f"bias is a bias model such as unskew.bias.Strata('label'); got {bias!r}.",
            option="bias",
            value=repr(bias),
        )
    parts: list[Any] = []
    for part in bias.parts:
        if part.reference_source is not None:
            part = replace(part, reference=None)  # type: ignore[type-var]
        if isinstance(part, Strata) and target is not None and target.by:
            by = target.by if part.by is None else tuple(part.by)
            bins = {name: edges for name, edges in target.bins.items() if name in by}
            part = replace(part, by=by, bins=part.bins or bins or None)
        if isinstance(part, Strata) and part.by is None:
            raise ConfigError(
                "name the attributes of the strata, Strata(by=[…]), or pass the target that names "
                "them.",
                option="by",
            )
        parts.append(part)
    return parts[0] if len(parts) == 1 else Product(*parts)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """The others, weighted to one source: (n,) weights, and means under them with errors."""

    weight: Floats = field(repr=False)
    mean: TargetMean = field(repr=False)
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Stage:
    """What is the same for every source."""

    pool: Pool
    bias: Bias
    data: ProbeData
    learner: Learner
    way: Way
    ridge: float
    folds: int
    max_uncovered: float
    seed: int

    def play(self, k: int, advance: Callable[[int], None]) -> SourceRehearsal:
        """Rehearse with source k as the target."""
        own, others = np.flatnonzero(self.pool.source == k), np.flatnonzero(self.pool.source != k)
        name = self.pool.names[k]
        # What the models will have seen cannot judge them.
        judges = own[~np.isin(self.data.unit[own], self.data.unit[others])]
        try:
            if judges.size < 2:
                raise CoverageError(
                    f"{own.size - judges.size} of its {own.size} images have copies, or belong to "
                    "groups, in other sources.",
                    source=name,
                    count=int(own.size - judges.size),
                )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UnskewWarning)
                weighted = self._weigh(k, own, others)
        except (CoverageError, OverlapError, ConvergenceError, DataError) as error:
            advance(count_fits(len(_ARMS), self.folds))
            return SourceRehearsal(name, own.size, obstacle=str(error))
        messages = dict.fromkeys(
            str(warning.message)
            for warning in caught
            if issubclass(warning.category, UnskewWarning)
        )
        weighted = replace(weighted, notes=(*weighted.notes, *messages))
        return self._compare(name, own, judges, others, weighted, advance)

    def _weigh(self, k: int, own: Ints, others: Ints) -> _Weighted:
        if not _reads_a_target(self.bias):
            return self._select(k, own, others)
        rest, sample = self.pool.take(others), self.pool.take(own)
        reads_label = any("label" in part.columns for part in self.bias.parts)
        sample = Pool(sample.frame if reads_label else sample.frame.drop(columns="label"))
        weights = debias(
            rest, self.bias, Target.sample(sample), max_uncovered=self.max_uncovered, rng=self.seed
        )
        mean, cautions = target_mean(weights, self.data.take(others).unit)
        return _Weighted(weights.weight, mean, tuple(cautions))

    def _select(self, k: int, own: Ints, others: Ints) -> _Weighted:
        """Weight the others by ω_k/Σ_{l≠k} n_l ω_l/Ω_l, from the model fitted to all.

        Errors take the weights as given.
        """
        weights = self._all
        log_nk, size_k = self._log_omega, np.bincount(self.pool.source)
        with np.errstate(divide="ignore"):
            log_share_k = (
                np.log(np.where(np.arange(size_k.size) == k, 0.0, size_k))
                - weights.solution.log_normalizer
            )
        density_n = log_sums(log_nk + log_share_k)
        unlike = float(np.mean(np.isneginf(density_n[own])))
        if unlike > self.max_uncovered:
            raise CoverageError(
                f"{unlike:.1%} of its images are where no other source selects anything, more than "
                f"max_uncovered = {self.max_uncovered:g}.",
                value=unlike,
                limit=self.max_uncovered,
            )
        log_m = np.where(
            np.isneginf(density_n),
            -np.inf,
            log_nk[:, k] - np.where(np.isneginf(density_n), 0.0, density_n),
        )[others]
        if np.isneginf(log_m).all():
            raise CoverageError(
                "according to the model it selects nothing of what the other sources show."
            )
        weight_m = np.exp(log_m - log_m.max())
        if self.pool.design_weight is not None:
            weight_m = weight_m * self.pool.design_weight[others]
        weight_m /= weight_m.sum()
        unit_m = self.data.take(others).unit
        return _Weighted(weight_m, lambda value_m: plain_mean(weight_m, value_m, unit_m), ())

    @cached_property
    def _all(self) -> Weights:
        """The model fitted to all sources, for families that need nothing but them."""
        return debias(self.pool, self.bias, None, max_uncovered=self.max_uncovered, rng=self.seed)

    @cached_property
    def _log_omega(self) -> Floats:
        """(n, K) log ω; −inf in every column for images that the model leaves out."""
        estimation = self._all.estimation
        assert estimation is not None
        fitted = estimation.fitted
        log_nk = np.full((len(self.pool), len(self.pool.names)), -np.inf)
        log_nk[fitted.row] = fitted.profile.log_omega[: fitted.row.size, : len(self.pool.names)]
        return log_nk

    def _compare(
        self,
        name: str,
        own: Ints,
        judges: Ints,
        others: Ints,
        weighted: _Weighted,
        advance: Callable[[int], None],
    ) -> SourceRehearsal:
        """Train on the others, predict for the source, look at the source."""
        rest, here = self.data.take(others), self.data.take(judges)
        n_classes = len(self.data.classes)
        (debiased,) = make_ways(
            [self.way], weighted.weight, rest.label, n_classes, calibrated=False
        )
        arms = (
            ProbeArm("naive", np.full(others.size, 1.0 / others.size), ridge=self.ridge),
            replace(debiased, name="debiased", ridge=self.ridge),
        )
        source_m = self.pool.source[others].astype(np.int64)
        deal = deal_halves(
            rest.unit, source_m * n_classes + rest.label, self.folds, self.seed, rest.order
        )
        hits = cross_fit_arms(
            arms, rest.X, rest.label, rest.unit, n_classes, deal, self.learner, advance
        )
        right = {}
        for arm in arms:
            whole = self.learner.train(rest.X, rest.label, arm.weight, n_classes, arm.ridge)
            right[arm.name] = (whole.predict(here.X, arm.logit_offset) == here.label) * 1.0
        even_j = np.ones(judges.size)
        if self.pool.design_weight is not None:
            even_j = self.pool.design_weight[judges]
        even_j = even_j / even_j.sum()
        judge = HitJudge(weighted.weight, weighted.mean, rest.label, rest.classes, rest.unit, deal)
        forecast = {arm.name: judge.forecast(arm, hits[arm.name], hits["naive"]) for arm in arms}
        return SourceRehearsal(
            source=name,
            images=own.size,
            judged=judges.size,
            ess=effective_size(weighted.weight),
            predicted={arm: forecast[arm].accuracy for arm in _ARMS},
            true={arm: share_mean(even_j, right[arm], here.unit) for arm in _ARMS},
            predicted_gain=forecast["debiased"].gain,
            true_gain=plain_mean(even_j, right["debiased"] - right["naive"], here.unit),
            usual=float(np.clip(extrapolate(hits["naive"], self.folds).mean(), 0.0, 1.0)),
            notes=(*weighted.notes, *self._notes(own, judges, rest.label)),
        )

    def _notes(self, own: Ints, judges: Ints, label_m: Ints) -> list[str]:
        notes = []
        if judges.size < own.size:
            notes.append(
                f"{own.size - judges.size} of its {own.size} images have copies, or belong to "
                "groups, in other sources and are not used to test the models."
            )
        unseen = np.setdiff1d(self.data.label[judges], label_m)
        if unseen.size:
            share = float(np.isin(self.data.label[judges], unseen).mean())
            names = first_few([self.data.classes[code] for code in unseen], 8)
            notes.append(
                f"{share:.1%} of its images are of classes that no other source has ({names}): no "
                "model can be right there."
            )
        return notes


def _reads_a_target(bias: Bias) -> bool:
    """Tell whether the family takes c(z) from a target (strata, tilts, propensities).

    The others describe selection alone.
    """
    from unskew.bias.propensity import Propensity
    from unskew.bias.strata import Strata
    from unskew.bias.tilt import Tilt

    return any(isinstance(part, Strata | Tilt | Propensity) for part in bias.parts)
