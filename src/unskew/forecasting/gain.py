"""The gain of reweighting, predicted before training: `forecast_gain`.

Bias model → weights → cross-fitted probes → accuracy on the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from unskew.debiasing.pool_weights import debias
from unskew.engine.arguments import Folds, NotNegative, ShareAboveZero, checked
from unskew.errors import DataError, first_few
from unskew.forecasting.arms import check_probe_arms, make_arms, make_ways
from unskew.forecasting.cross_fitting import ProbeArm, curve_factor, deal_halves
from unskew.forecasting.label_arms import train_label_arms
from unskew.forecasting.learners import find_learner
from unskew.forecasting.probe_data import (
    ProbeData,
    class_sizes,
    fitting_scale,
    gather_probe_data,
    named_columns,
    per_unit,
)
from unskew.forecasting.record import (
    ArmForecast,
    Forecast,
    HitJudge,
    TargetMean,
    heavy_share,
)
from unskew.forecasting.sentences import (
    compare_arms,
    describe_features,
    points,
    poor_words,
    recommend,
)
from unskew.forecasting.tuning import ridges_to_try, train_arms, ways_to_try
from unskew.learn.presets import Way
from unskew.learn.probe import Scaling, scale_features
from unskew.learn.ways import WayChoice
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.records.clustered_mean import effective_size, plain_mean
from unskew.records.holm import OBJECTION
from unskew.records.levels import INDICATOR, holds_lists
from unskew.weigh.uncertainty import weighted_mean

if TYPE_CHECKING:
    from unskew.bias.base import Bias
    from unskew.bias.fit_check import FitCheck
    from unskew.solve.options import SolverOptions

# Of check_fit: enough to fall below `OBJECTION` where several tests are made.
_REPLICATES = 399
# Leading directions of the features in which the sources are compared, in addition to what the
# model itself reads.
_DIRECTIONS = 3
# Fewer effective images than this behind a class: its accuracy is hardly known, and a note says so.
_FEW_IN_CLASS = 30.0


@checked
def forecast_gain(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    features: Any,
    learner: Any = None,
    arms: str | Sequence[str] = ("naive", "debiased"),
    own: Mapping[str, npt.ArrayLike] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    folds: Folds = 5,
    way: Way = "auto",
    ridge: NotNegative | None = None,
    scaling: Scaling | None = None,
    keep_copies_together: bool | None = None,
    check: bool = True,
    max_uncovered: ShareAboveZero = 0.2,
    rng: Randomness = 0,
    progress: bool | None = None,
    **solver: Unpack[SolverOptions],
) -> Forecast:
    """Predict what reweighting will gain: the accuracy of each arm on the target, before training.

    Debiasing weights π come from `unskew.debias`. For each arm a probe is trained with the arm's
    weights on all folds but one; h_i says whether it is right on the held-out image i, and the
    arm's accuracy on the target is Σ_i π_i h_i, extrapolated to models trained on all images
    (`unskew.forecasting.cross_fitting`). Arms are compared image by image, so that the error of a
    gain is that of Σ_i π_i (h_i − h'_i). Errors account for the estimation of ω, for groups and for
    copies of an image (which stay on one side of every fold), for the extrapolation, for the
    images that a model happens to be trained on, as far as two models trained on halves tell, and
    for choosing ridge and way on the same images.

    The arm "debiased" is learned in the best of the ways (`unskew.learn.ways.choose_way`), which
    are listed as arms of their own, too. Their probes are calibrated to the target, as in
    ``unskew train`` with the preset "probe"; held-out images are judged by a calibration that has
    not seen them.

    Facts: the order of the rows does not matter; where all ω are equal all weights are, and the
    gain is 0.

    Everything is conditional on the bias model. ``objection`` is set if `unskew.check_fit` finds
    that the sources differ from what the model expects, in the columns it reads, the label, and the
    three leading directions of the features.

    Parameters
    ----------
    pool : the images, with labels. Where they are lists, an image has any number of labels: each is
        learned as present or absent, and accuracies are means over the labels.
    bias, target, max_uncovered, and the options of the solver : as for `unskew.debias`.
    features : what the probe learns from: names (or beginnings) of columns, or an (n, d) matrix in
        the order of the pool (an embedding, pixels).
    learner : a scikit-learn classifier that takes weights, instead of the linear probe; it sees the
        features unscaled.
    arms : "naive" and "debiased" (always there), and baselines (`unskew.learn.BASELINES`); "all"
        means all that can be made.
    own : arms of your own, a name and one weight for each image.
    options : of baselines, by name.
    folds : k; a model is trained on k−1 of k parts, and twice on half of those.
    way : how "debiased" learns from the weights: "weights", "half", "logit", or "auto": the best of
        these. A learner without ``predict_proba`` has "weights" alone.
    ridge : of the probe (`fit_probe`), for all arms; None: chosen for each from one grid, by
        accuracy on held-out images weighted as the target (naive: by its own weights).
    scaling : of the probe's features (`scale_features`). None: "fourth_root" for a matrix and for
        the numbered columns of one representation (embedding_0, …), "standard" for columns of
        different kinds.
    keep_copies_together : images whose features are identical are copies of one image; None: where
        there are at least eight features.
    check : let `unskew.check_fit` object.
    rng : an int or a NumPy Generator, of folds and fits.
    progress : None shows a bar on terminals.

    Returns
    -------
    Forecast
        ``print`` shows recommendation and table; ``to_dict()`` is for files.

    Examples
    --------
    >>> import numpy as np, unskew
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1, 0, 1], [1150, 50, 300, 100])
    >>> source = np.repeat(["day", "night"], [1200, 400])
    >>> pool = unskew.Pool.from_arrays(source, label=y, x=y + rng.standard_normal(y.size))
    >>> target = unskew.Target.uniform("label")
    >>> forecast = unskew.forecast_gain(pool, unskew.bias.Strata("label"), target, features=["x"])
    >>> forecast.verdict, forecast.gain.value > 0.1
    ('reweight', True)
    """
    seed = seed_of(rng)
    asked = check_probe_arms(arms, own or {})
    # Of "all", those that lack something are left out; one that is named must be made.
    lenient = "all" in arms
    trained, called = find_learner(learner)
    ways, ridges = ways_to_try(way, trained, called), ridges_to_try(ridge)
    data = gather_probe_data(
        pool,
        features,
        scaling=scaling,
        keep_copies_together=keep_copies_together,
        scaled=learner is None,
    )
    # What `check_fit` looks at does not depend on the learner.
    X_nd = (
        data.X
        if learner is None or not check
        else scale_features(data.X, scaling or fitting_scale(pool, features))
    )
    weights, fit = _weigh(
        pool,
        bias,
        target,
        data,
        X_nd,
        check=check,
        max_uncovered=max_uncovered,
        solver=solver,
        seed=seed,
    )
    calibrated, weight_n = learner is None, weights.weight
    own_ways = (
        []
        if data.has_label_sets
        else make_ways(ways, weight_n, data.label, len(data.classes), calibrated=calibrated)
    )
    made, unavailable = make_arms(
        pool, target, own_ways, data.classes, asked, own or {}, options or {}, lenient=lenient
    )
    stratum_n = weights.source.astype(np.int64) * (data.stratum.max() + 1) + data.stratum
    deal = deal_halves(data.unit, stratum_n, folds, seed, data.order)
    if data.has_label_sets:
        made, hits, choice = train_label_arms(
            *(made, ways, data, weight_n, deal, trained, ridges, seed, progress),
            calibrated=calibrated,
        )
    else:
        made, hits, choice = train_arms(made, data, weight_n, deal, trained, ridges, seed, progress)
    mean, cautions = target_mean(weights, data.unit)
    judge = HitJudge(weight_n, mean, data.label, data.classes, data.unit, deal)
    others = [arm for arm in made[1:] if arm.way is None]
    debiased = _debiased_arm(made, choice)
    listed = [made[0], replace(debiased, name="debiased")]
    if len(ways) > 1:
        listed += [arm for arm in made if arm.way is not None]
    forecasts = [
        judge.forecast(arm, hits[arm.name], None if arm.name == "naive" else hits["naive"])
        for arm in [*listed, *others]
    ]
    differences = [
        (arm.name, judge.accuracy(hits[arm.name].minus(hits["debiased"]))) for arm in others
    ]
    notes = [*cautions, *compare_arms(differences), *_notes(data, weights), *unavailable]
    if way == "auto" and len(ways) == 1:
        notes.append(f"{called} has no predict_proba, so that weights are the only way tried.")
    if way == "auto":
        notes.append("The way head is for networks: a forecast trains none, and leaves it out.")
    learned = describe_features(named_columns(pool, features), data.X.shape[1])
    return _assemble(weights, data, forecasts, choice, fit, called, folds, seed, notes, learned)


def _debiased_arm(made: Sequence[ProbeArm], choice: WayChoice) -> ProbeArm:
    """Return the arm of the way that was chosen; where labels differ in it, one without a way."""
    own = [arm for arm in made if arm.way == choice.way]
    if own:
        return replace(own[0], ridge=choice.ridge if choice.labels else own[0].ridge)
    return replace(next(arm for arm in made if arm.way is not None), way=None, ridge=choice.ridge)


def _weigh(
    pool: Pool,
    bias: Bias,
    target: Target | None,
    data: ProbeData,
    X_nd: npt.NDArray[Any],
    *,
    check: bool,
    max_uncovered: float,
    solver: SolverOptions,
    seed: int,
) -> tuple[Weights, FitCheck | None]:
    """Return the debiasing weights, whose errors account for copies, and the test of the model."""
    grouped = _with_units(pool, target, data.unit)
    directions = _directions(X_nd, seed) | _known_labels(data) if check else {}
    weights = debias(
        grouped.with_columns(directions),
        bias,
        target,
        max_uncovered=max_uncovered,
        rng=seed,
        **solver,
    )
    if not check:
        return weights, None
    return weights, _check_model(
        grouped.with_columns(directions), bias, weights, list(directions), seed
    )


def _with_units(pool: Pool, target: Target | None, unit_n: Ints) -> Pool:
    """Make units (groups, copies) the groups of the pool, if there are any.

    Not where the target itself counts groups.
    """
    if int(unit_n.max()) + 1 == unit_n.size or (target is not None and target.unit == "group"):
        return pool
    _, first_u = np.unique(unit_n, return_index=True)
    if "group" in pool.frame.columns:
        return pool.with_columns({"group": pool.frame["group"].to_numpy()[first_u][unit_n]})
    return pool.with_columns(
        {
            "group": np.array(
                [f"copies of {name}" for name in pool.frame["id"].to_numpy()[first_u]], dtype=object
            )[unit_n]
        }
    )


def _directions(X_nd: npt.NDArray[Any], seed: int) -> dict[str, Floats]:
    """Compute the leading principal components of the features, as columns."""
    from sklearn.utils.extmath import randomized_svd

    centred_nd = X_nd - X_nd.mean(axis=0, dtype=np.float64).astype(X_nd.dtype)
    count = min(_DIRECTIONS, *X_nd.shape)
    score_nc, size_c, _ = randomized_svd(centred_nd, count, n_iter=2, random_state=seed)
    # Rounding is no direction.
    kept = np.flatnonzero(size_c > max(1e-6 * size_c[0], 0.0))
    return {
        f"(direction {c + 1} of the features)": np.asarray(score_nc[:, c], dtype=np.float64)
        for c in kept
    }


def _known_labels(data: ProbeData) -> dict[str, Floats]:
    """Return the labels that are known of all images as columns of 0 and 1; none of classes."""
    if not data.has_label_sets:
        return {}
    pairs = zip(data.classes, data.label.T, strict=True)
    return {f"{INDICATOR}{name}": own for name, own in pairs if not np.isnan(own).any()}


def _check_model(
    pool: Pool, bias: Bias, weights: Weights, directions: Sequence[str], seed: int
) -> FitCheck | None:
    """Run `check_fit` on what the model reads, the label and the directions; None if it cannot."""
    from unskew.bias.features import expand_features
    from unskew.bias.fit_check import check_fit

    assert weights.estimation is not None
    frame = weights.estimation.fitted.data.frame
    read = [name for part in bias.parts for name in part.columns]
    names = dict.fromkeys(
        [*(expand_features(frame, list(dict.fromkeys(read))) if read else []), "label", *directions]
    )
    # What an unlabelled sample of the target lacks is compared between the sources. Lists of labels
    # are compared label by label.
    lists = "label" in frame.columns and holds_lists(frame["label"])
    known = [name for name in names if name in frame.columns and not (lists and name == "label")]
    fitted = weights.estimation.fitted
    try:
        return check_fit(
            pool, fitted, weights=weights, features=known, replicates=_REPLICATES, rng=seed
        )
    except DataError:
        return None


def target_mean(weights: Weights, unit_n: Ints) -> tuple[TargetMean, list[str]]:
    """Return the mean on the target with its error, and sentences on what the error leaves out.

    A family without derivatives (a box, trees) would have to be refitted a hundred times for its
    errors; here they are conditional on the weights.
    """
    estimation = weights.estimation
    if (
        estimation is None
        or estimation.omega_is_known
        or all(factor.is_smooth for factor in estimation.fitted.factors)
    ):
        return partial(weighted_mean, weights), []
    caution = (
        "Errors are conditional on the weights: they leave out that the biasing functions are "
        "estimated (weights.bootstrap accounts for it)."
    )
    return lambda value_n: plain_mean(weights.weight, value_n, unit_n), [caution]


def _notes(data: ProbeData, weights: Weights) -> list[str]:
    share, ess = class_sizes(data, weights.weight)
    few = [
        f"{name} ({ess[name]:.0f})"
        for name in data.classes
        if share[name] > 0 and ess[name] < _FEW_IN_CLASS
    ]
    notes = []
    if few:
        notes.append(
            f"Few effective images for {first_few(few, 12)}: the accuracies there are very "
            "uncertain."
        )
    absent = [name for name in data.classes if share[name] <= 0]
    if absent:
        notes.append(f"The target has none of {first_few(absent, 12)}.")
    if weights.overlap.verdict != "ok":
        notes.append(weights.overlap.message)
    assumed = () if weights.estimation is None else weights.estimation.fitted.assumed_labels
    return [*notes, *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in assumed)]


def _assemble(
    weights: Weights,
    data: ProbeData,
    forecasts: Sequence[ArmForecast],
    choice: WayChoice,
    fit: FitCheck | None,
    called: str,
    folds: int,
    seed: int,
    notes: Sequence[str],
    features: str,
) -> Forecast:
    naive, debiased = forecasts[0], forecasts[1]
    assert debiased.gain is not None
    share, class_ess = class_sizes(data, weights.weight)
    n, ess, heavy = weights.weight.size, weights.ess, heavy_share(weights.weight)
    ess_units = effective_size(per_unit(data.unit, weights.weight)) if data.n_units < n else None
    verdict, recommendation = recommend(
        *(naive, debiased, heavy, n / ess, ess if ess_units is None else ess_units),
        f"{called} on {features}",
    )
    if data.has_label_sets:
        recommendation = recommendation.replace("worst class", "worst label")
    elif poor := poor_words(debiased.accuracy.value, share, features):
        recommendation += f"; {poor}"
    objects = fit is not None and fit.p_value < OBJECTION
    if objects:
        recommendation += "; if the bias model holds, to which the test of its fit objects"
    described = weights.describe()
    return Forecast(
        verdict=verdict,
        recommendation=recommendation,
        gain=debiased.gain,
        arms=tuple(forecasts),
        choice=choice,
        class_share=share,
        class_ess=class_ess,
        images=n,
        ess=ess,
        design_effect=n / ess,
        ess_units=ess_units,
        heavy_share=heavy,
        pareto_k=weights.diagnosis.pareto_k,
        condition=f"All of this is conditional on the bias model ({described.family}, for "
        f"{described.population}): held-out images are weighted by it, and where it is wrong so is "
        "the forecast.",
        objection=fit.message if fit is not None and objects else None,
        fit_p_value=None if fit is None or not np.isfinite(fit.p_value) else fit.p_value,
        method=_method(forecasts, choice, folds),
        notes=tuple(notes),
        learner=called,
        n_folds=folds,
        seed=seed,
        labels=len(data.classes) if data.has_label_sets else None,
        features=features,
    )


def _method(forecasts: Sequence[ArmForecast], choice: WayChoice, folds: int) -> str:
    less = ", less what the choice of ridge and way flatters" if choice.optimism > 0 else ""
    added = ", ".join(
        f"{arm.name} {points(arm.accuracy.value - arm.held_out, signed=True)}" for arm in forecasts
    )
    return (
        f"Trained on {folds - 1} of {folds} folds (groups and copies stay together), scored on the "
        "one left out by the debiasing weights, and extrapolated to all images along a learning "
        f"curve through models trained on half as many (factor {curve_factor(folds):.2f}){less}; "
        f"that adds, in points: {added}. ± is one standard error."
    )
