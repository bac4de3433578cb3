"""What one would do without the biased-sampling equations, behind one call: `make_baseline`, or
`make_baselines` for all side by side.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import (
    ConfigError,
    CoverageError,
    DataError,
    UnskewError,
    did_you_mean,
    first_few,
)
from unskew.learn.sklearn_fit import AdjustedClassifier, fit_positive_rows
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.levels import MISSING, level_text, text_levels
from unskew.records.target import THE_TARGET
from unskew.target.holdout import held_out_rows
from unskew.target.levels import cells_of
from unskew.target.strata import TargetStrata

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Baseline:
    """One baseline, made for one pool: a weight for every image, and for logit adjustment an offset
    for every class.

    Attributes
    ----------
    name : one of `BASELINES`.
    weight : (n,) in the order of the pool, not negative, sums to 1; 0 for images that are left out.
    id : (n,) ids of the images.
    sentences : what it computes and assumes.
    classes : the M classes as text, where the baseline speaks of classes.
    logit_offset : (M,) τ log(π_y/p_target(y)) of logit adjustment, else None.
    form : "loss" (train with logits + offset, predict with the logits) or "posthoc" (train as ever,
        predict with logits − offset).
    """

    name: str
    weight: Floats = field(repr=False)
    id: npt.NDArray[Any] = field(repr=False)
    sentences: tuple[str, ...] = field(repr=False)
    classes: tuple[str, ...] | None = field(repr=False, default=None)
    logit_offset: Floats | None = field(repr=False, default=None)
    form: str | None = None

    @property
    def sample_weight(self) -> Floats:
        """(n,) n × weight: mean 1, as scikit-learn's ``sample_weight`` expects."""
        return self.weight * self.weight.size

    @property
    def rows(self) -> Ints:
        """Rows of the pool that take part, those of positive weight."""
        return np.flatnonzero(self.weight > 0)

    @property
    def ess(self) -> float:
        """Kish's effective number of images, 1/Σ weight²."""
        return 1.0 / float(self.weight @ self.weight)

    def describe(self) -> tuple[str, ...]:
        """What it computes and assumes, and how many images it uses, in plain sentences."""
        return (
            *self.sentences,
            f"It uses {self.rows.size} of {self.weight.size} images, worth {self.ess:.4g} equally "
            "weighted ones.",
        )

    def align(self, ids: Sequence[object] | npt.NDArray[Any]) -> Floats:
        """(len(ids),) the weights of the images ``ids``, joined by id; an unknown id is an
        error.
        """
        position = {value: row for row, value in enumerate(self.id.tolist())}
        wanted = np.asarray(ids).tolist()
        unknown = [value for value in wanted if value not in position]
        if unknown:
            raise DataError(
                f"{len(unknown)} of {len(wanted)} ids are not in the pool of this baseline: "
                f"{first_few(unknown)}."
            )
        return self.weight[np.array([position[value] for value in wanted], dtype=np.int64)]

    def fit(self, estimator: Any, X: Any, y: Any) -> Any:
        """A fitted copy of a scikit-learn ``estimator``; ``X`` and ``y`` have a row for each image
        of the pool, in its order.

        Images of weight 0 are left out, and equal weights are not passed, so that an estimator
        without ``sample_weight`` can learn from all or a subsample; where weights differ it is
        refused. After logit adjustment the result adjusts its ``predict_proba``.
        """
        if self.form == "loss":
            raise ConfigError(
                "the loss form of logit adjustment needs a loss that adds logit_offset to the "
                "logits, which scikit-learn's estimators "
                "do not offer; use form='posthoc', or train with such a loss."
            )
        fitted = fit_positive_rows(estimator, X, y, self.weight)
        if self.logit_offset is None or self.classes is None:
            return fitted
        return AdjustedClassifier(fitted, self.classes, self.logit_offset)


@dataclass(frozen=True)
class Baselines:
    """The baselines that could be made, by name, and why the others could not."""

    made: Mapping[str, Baseline]
    unavailable: Mapping[str, str]

    def table(self) -> pd.DataFrame:
        """One row for each: images used, what they are worth, and the description or what is
        lacking.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = [
            {
                "baseline": name,
                "images": each.rows.size,
                "ess": each.ess,
                "description": " ".join(each.sentences),
            }
            for name, each in self.made.items()
        ]
        rows += [
            {"baseline": name, "images": 0, "ess": math.nan, "description": why}
            for name, why in self.unavailable.items()
        ]
        return pd.DataFrame(rows, columns=["baseline", "images", "ess", "description"])


def make_baseline(name: str, pool: Pool, target: Target | None = None, **options: Any) -> Baseline:
    """The baseline ``name`` for ``pool``: one weight for every image, or an offset for every class.

    =================  ==========================================================================
    =================================== name               what it does (n images, n_y of class y, M
    classes)                          options =================
    ==========================================================================
    =================================== naive              1/n for every image one_source
    p_target(c)/n_kc for the images of stratum c in one source k, 0 elsewhere   source (default: the
    one worth most)
                       (weighted ERM; Vogel et al. 2020); needs a target
    subsample          images drawn without replacement until every stratum has its target share,
    by, seed
                       as many as possible; without a target, or with ``by``, all the same
    class_balanced     1/(M n_y); with ``beta`` ∝ (1 − β)/(1 − β^{n_y}) (Cui et al. 2019)
    beta logit_adjustment   1/n, and an offset τ log(π_y/p_target(y)) on the logits, π_y = n_y/n;
    tau, form ("posthoc" or "loss")
                       τ log π_y without a target (Menon et al. 2021)
    density_ratio      ∝ P(target | x)/P(pool | x) from a classifier of a target sample against
    features, C
                       the pool; needs a target sample or source
    =================  ==========================================================================
    ===================================

    A target that is a sample or a source gives one_source, subsample and logit_adjustment the class
    shares of its labels.

    Parameters
    ----------
    name : one of `BASELINES`.
    pool : the images.
    target : the population that shall be learned, where the baseline knows what to do with it.
    **options : of that baseline, as above.

    Examples
    --------
    >>> import unskew
    >>> pool = unskew.Pool.from_arrays(source=["a", "a", "a", "b"], label=["cat", "cat", "dog", "cat"])
    >>> make_baseline("class_balanced", pool).sample_weight.round(3).tolist()
    [0.667, 0.667, 2.0, 0.667]
    >>> make_baseline("one_source", pool, unskew.Target.uniform("label"), source="a").weight.tolist()
    [0.25, 0.25, 0.5, 0.0]
    """
    if name not in _MAKERS:
        raise ConfigError(
            f"there is no baseline {name!r}; the baselines are "
            f"{', '.join(BASELINES)}.{did_you_mean(name, BASELINES)}"
        )
    _check_kinds(pool, target)
    known = [
        key for key in inspect.signature(_MAKERS[name]).parameters if key not in ("pool", "target")
    ]
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(
                f"the baseline {name!r} has no option {option!r}; "
                f"{has}.{did_you_mean(option, known)}"
            )
    return _MAKERS[name](pool, target, **options)


def make_baselines(
    pool: Pool,
    target: Target | None = None,
    names: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Baselines:
    """Several baselines side by side, ``options`` by name; those that lack something (a target,
    labels …) say what.

    A name or an option that does not exist is an error; so is a baseline named in ``names`` or
    ``options`` that cannot be made.
    """
    options = options or {}
    asked = (*(names or ()), *options)
    made: dict[str, Baseline] = {}
    unavailable: dict[str, str] = {}
    for name in dict.fromkeys((*(names or BASELINES), *options)):
        try:
            made[name] = make_baseline(name, pool, target, **options.get(name, {}))
        except UnskewError as error:
            if name in asked:
                raise
            logger.info("baseline %s cannot be made: %s", name, error)
            unavailable[name] = str(error)
    return Baselines(made, unavailable)


def _naive(pool: Pool, target: Target | None) -> Baseline:
    said = "Naive pooling: every image counts the same, as if the pool were a sample of the target."
    return Baseline("naive", np.full(len(pool), 1 / len(pool)), _ids(pool), (said,))


def _one_source(pool: Pool, target: Target | None, source: str | None = None) -> Baseline:
    strata = _target_strata("one_source", pool, target)
    names = pool.names if source is None else (level_text(source),)
    if names[0] not in pool.names:
        raise DataError(
            f"there is no source {source!r}; the sources are "
            f"{first_few(pool.names, 12)}.{did_you_mean(source, pool.names)}"
        )
    weighed = {name: _weigh_within(strata, pool.source == pool.names.index(name)) for name in names}
    restrict = target is not None and target.uncovered == "restrict"
    found = {
        name: weight_n
        for name, (weight_n, empty) in weighed.items()
        if weight_n.any() and (restrict or not empty)
    }
    if not found:
        raise CoverageError(
            "importance weighting of one source needs images of every stratum of the target in "
            "that source; "
            + "; ".join(
                f"source `{name}` has none of {first_few(list(empty))}"
                for name, (_, empty) in list(weighed.items())[:5]
            )
            + ". Name a source that has them, or say uncovered='restrict' in the target: results "
            "then speak of the rest of it."
        )
    # First what a source covers of the target (all of it, unless the target may be restricted),
    # then what its images are worth.
    best = max(
        found,
        key=lambda name: (
            -round(sum(weighed[name][1].values()), 12),
            1.0 / float(found[name] @ found[name]),
        ),
    )
    chosen = "" if source is not None else " (the source whose weighted images are worth most)"
    said = [
        f"Importance weighting of source {best}{chosen}: an image counts the target mass of its "
        f"stratum ({' × '.join(strata.by)}) over "
        "the stratum's size in that source; other sources are not used. That images of a stratum "
        "are alike in source and target is assumed."
    ]
    said += _said_population(strata)
    if weighed[best][1]:
        said.append(
            f"The source has none of {first_few(list(weighed[best][1]))}: results speak of the "
            "rest of the target."
        )
    return Baseline("one_source", found[best], _ids(pool), tuple(said))


def _weigh_within(
    strata: TargetStrata, within_n: npt.NDArray[np.bool_]
) -> tuple[Floats, dict[str, float]]:
    """(weights ∝ p_c/N_c on the rows ``within_n``, all 0 if none has mass; strata with target mass
    and no such row).
    """
    used_n = within_n & (strata.code >= 0)
    size_c = np.bincount(
        strata.code[used_n], weights=strata.unit[used_n], minlength=len(strata.strata)
    )
    empty = {
        f"{' × '.join(cell)} ({mass:.3g})": mass
        for cell, mass, size in zip(strata.strata, strata.mass.tolist(), size_c, strict=True)
        if mass > 0 and size == 0
    }
    per_unit_c = np.divide(strata.mass, size_c, out=np.zeros_like(strata.mass), where=size_c > 0)
    weight_n = np.where(used_n, per_unit_c[strata.code] * strata.unit, 0.0)
    return weight_n / (weight_n.sum() or 1.0), empty


def _subsample(
    pool: Pool, target: Target | None, by: str | Sequence[str] | None = None, seed: int = 0
) -> Baseline:
    if by is None and target is not None:
        strata = _target_strata("subsample", pool, target)
        if target.unit == "group":
            raise ConfigError(
                "subsampling draws images, but the target counts groups (unit = 'group'); use "
                "weights, or a target of images."
            )
        cell_n, mass_c, what = (
            strata.code,
            strata.mass,
            f"{' × '.join(strata.by)} has its target share",
        )
        population = _said_population(strata)
    else:
        names = ["label"] if by is None else [by] if isinstance(by, str) else list(by)
        cell_n = _cells(pool, names)
        mass_c = np.full(int(cell_n.max()) + 1, 1 / (int(cell_n.max()) + 1))
        what, population = f"{' × '.join(names)} has as many images as the smallest", ()
    weight_n = np.zeros(len(pool))
    kept = _draw(cell_n, mass_c, np.random.default_rng(seed))
    weight_n[kept] = 1 / kept.size
    said = (
        f"Subsampling: {kept.size} of {len(pool)} images, drawn at random (seed {seed}) so "
        "that "
        f"every level of {what}; no other is used."
    )
    return Baseline("subsample", weight_n, _ids(pool), (said, *population))


def _draw(cell_n: Ints, mass_c: Floats, rng: np.random.Generator) -> Ints:
    """Rows drawn without replacement, as many as possible, with ``mass_c`` of them in each cell;
    cell −1 is left out.
    """
    size_c = np.bincount(cell_n[cell_n >= 0], minlength=mass_c.size)
    wanted_c = mass_c > 0
    total = float((size_c[wanted_c] / mass_c[wanted_c]).min())
    # 1e-9, so that rounding does not take an image from the stratum that is used up; and none
    # vanishes by rounding down.
    take_c = np.where(wanted_c, np.maximum(np.floor(total * mass_c + 1e-9), 1), 0)
    order_n = rng.permutation(cell_n.size)
    order_m = order_n[cell_n[order_n] >= 0]
    order_m = order_m[np.argsort(cell_n[order_m], kind="stable")]
    rank_m = np.arange(order_m.size) - np.repeat(np.cumsum(size_c) - size_c, size_c)
    return np.sort(order_m[rank_m < take_c[cell_n[order_m]]])


def _class_balanced(pool: Pool, target: Target | None, beta: float | None = None) -> Baseline:
    classes, code_n = _labels("class_balanced", pool)
    size_m = np.bincount(code_n, minlength=len(classes)).astype(np.float64)
    if beta is None:
        per_image_m = 1 / size_m
        said = (
            "Class-balanced weights: every class has the same total weight, n/(M n_y) for each "
            "image of class y."
        )
    else:
        if not 0 <= beta < 1:
            raise ConfigError(
                "beta is at least 0 (equal weights) and below 1 (towards class balance), such as "
                f"0.999; got {beta!r}."
            )
        # (1 − β)/(1 − β^n) without cancellation for β next to 1.
        per_image_m = (
            (1 - beta) / -np.expm1(size_m * math.log(beta)) if beta > 0 else np.ones_like(size_m)
        )
        said = (
            "Class-balanced weights by the effective number of images (Cui et al. 2019): (1 − "
            f"β)/(1 − β^n_y) with β = {beta}."
        )
    weight_n = per_image_m[code_n]
    return Baseline(
        "class_balanced",
        weight_n / weight_n.sum(),
        _ids(pool),
        (f"{said} The target is not used.",),
        classes,
    )


def _logit_adjustment(
    pool: Pool, target: Target | None, tau: float = 1.0, form: str = "posthoc"
) -> Baseline:
    if form not in ("posthoc", "loss"):
        raise ConfigError(
            "form is 'posthoc' (adjust a trained model's logits) or 'loss' (adjust them in "
            f"training); got {form!r}."
        )
    given: Any = tau  # of any kind where it comes from a user
    if not isinstance(given, Real) or not math.isfinite(given):
        raise ConfigError(
            f"tau scales the offset of the logits, 1 for the exact correction; got {tau!r}."
        )
    classes, code_n = _labels("logit_adjustment", pool)
    used_n, mass_m = np.full(len(pool), True), np.ones(len(classes))
    population: tuple[str, ...] = ()
    if target is not None:
        strata = _target_strata("logit_adjustment", pool, target)
        mass_m, population = _class_masses(strata, classes), _said_population(strata)
        used_n = (strata.code >= 0) & (mass_m[code_n] > 0)
    size_m = np.bincount(code_n[used_n], minlength=len(classes))
    kept_m = size_m > 0
    offset_m = tau * (np.log(size_m[kept_m] / used_n.sum()) - np.log(mass_m[kept_m]))
    goal = "equal shares" if target is None else "their target shares"
    how = (
        "added to the logits in the loss"
        if form == "loss"
        else "subtracted from the logits of a model trained on the pool as it is"
    )
    said = (
        f"Logit adjustment (Menon et al. 2021) to {goal} of the classes: τ log(share in the "
        f"pool/share in the target), τ = {tau:g}, is "
        f"{how}. That images of a class are alike in pool and target is assumed."
    )
    kept = tuple(name for name, used in zip(classes, kept_m, strict=True) if used)
    return Baseline(
        "logit_adjustment",
        used_n / used_n.sum(),
        _ids(pool),
        (said, *population),
        kept,
        offset_m,
        form,
    )


def _density_ratio(
    pool: Pool, target: Target | None, features: str | Sequence[str] | None = None, C: float = 1.0
) -> Baseline:
    from unskew.learn.density_ratio import odds_of_target

    if target is None or target.kind not in ("sample", "source"):
        raise ConfigError(
            "a density ratio compares the pool with a sample of the target; give "
            "Target.sample(pool) or Target.source(name)."
        )
    if not features:
        raise ConfigError(
            "say which features to compare, features=[…]; the pool has "
            f"{first_few(list(pool.frame.columns), 12)}."
        )
    sample = _reference_frame(pool, target)
    names = [features] if isinstance(features, str) else list(features)
    weight_n = odds_of_target(pool.frame, sample, names, C)
    said = (
        "Density ratio: the odds of target against pool by logistic regression on "
        f"{first_few(names, 12)}, from {len(sample)} images "
        "of the target. That images with the same features are alike in pool and target is "
        "assumed; the source is not used."
    )
    return Baseline("density_ratio", weight_n, _ids(pool), (said,))


_MAKERS: dict[str, Callable[..., Baseline]] = {
    "naive": _naive,
    "one_source": _one_source,
    "subsample": _subsample,
    "class_balanced": _class_balanced,
    "logit_adjustment": _logit_adjustment,
    "density_ratio": _density_ratio,
}
BASELINES = tuple(_MAKERS)


def _check_kinds(pool: Any, target: Any) -> None:
    if not isinstance(pool, Pool):
        raise DataError(
            f"a baseline is made for a Pool; got {type(pool).__name__}. Pool.from_frame and "
            "Pool.from_arrays make one."
        )
    if target is not None and not isinstance(target, Target):
        raise ConfigError(
            f"target is a Target, such as Target.uniform('label'); got {type(target).__name__}."
        )


def _ids(pool: Pool) -> npt.NDArray[Any]:
    return pool.frame["id"].to_numpy()


def _reference_frame(pool: Pool, target: Target) -> pd.DataFrame:
    """The images of the target that may fit: those held out to judge are left to that, the same
    ones as `debias` leaves at seed 0.
    """
    reference = target.compare(pool)
    frame = (
        pool.frame[pool.frame["source"] == reference.source]
        if reference.sample is None
        else reference.sample.frame
    )
    return frame[~held_out_rows(frame, reference.holdout, np.random.default_rng(0))]


def _target_strata(name: str, pool: Pool, target: Target | None) -> TargetStrata:
    """The target's strata on the whole pool; of a labelled sample or source, its classes."""
    if target is None:
        raise ConfigError(
            f"the baseline {name!r} needs a target, such as Target.uniform('label') or "
            f"Target.margins({{'label': …}})."
        )
    if target.kind not in ("sample", "source"):
        return target.stratify(pool)
    sample = _reference_frame(pool, target)
    if "label" not in sample.columns or sample["label"].isna().all():
        raise ConfigError(
            f"the baseline {name!r} needs class shares, but the sample of the target has no "
            "labels; give a margin of label."
        )
    levels, code_n = text_levels(sample["label"].dropna(), "label")
    # A class that the sample happens not to show has mass 0 as far as it can tell.
    counts = dict.fromkeys(_labels(name, pool)[0], 0) | dict(
        zip(levels, np.bincount(code_n).tolist(), strict=True)
    )
    return Target.margins({"label": counts}, uncovered=target.uncovered).stratify(pool)


def _said_population(strata: TargetStrata) -> tuple[str, ...]:
    """Which population results speak of, where that is not the whole target and nothing else."""
    return () if strata.population == THE_TARGET else (f"Results speak of {strata.population}.",)


def _class_masses(strata: TargetStrata, classes: Sequence[str]) -> Floats:
    """(M,) target mass of every class, summed over the other attributes of the target."""
    if "label" not in strata.by:
        raise ConfigError(
            "logit adjustment moves classes to their target shares, but the target speaks of "
            f"{', '.join(strata.by)}, not of label. Give "
            "one with the margin of label, or none for equal classes."
        )
    at = strata.by.index("label")
    mass = dict.fromkeys(classes, 0.0)
    for cell, each in zip(strata.strata, strata.mass.tolist(), strict=True):
        mass[cell[at]] += each
    return np.array(list(mass.values()))


def _labels(name: str, pool: Pool) -> tuple[tuple[str, ...], Ints]:
    """(classes as text, code of every image)."""
    if "label" not in pool.frame.columns:
        raise DataError(
            f"the baseline {name!r} needs the label of every image, but the pool has none. Name "
            "the column in Pool.from_frame."
        )
    levels, code_n = text_levels(pool.frame["label"], "label")
    if MISSING in levels:
        count = int((code_n == levels.index(MISSING)).sum())
        raise DataError(
            f"the baseline {name!r} needs the label of every image; {count} of {len(pool)} have "
            "none. Leave those out."
        )
    return tuple(levels), code_n


def _cells(pool: Pool, by: Sequence[str]) -> Ints:
    """(n,) combination of the levels of ``by`` that each image has."""
    if not by:
        raise ConfigError(
            "by names one or more attributes, such as 'label' or ['source', 'label']; got none."
        )
    columns = list(pool.frame.columns)
    codes = []
    for each in by:
        if each != "label" and each not in columns:
            raise DataError(
                f"by names {each!r}, but the pool has no such column; it has "
                f"{first_few(columns, 12)}.{did_you_mean(each, columns)}"
            )
        codes.append(
            _labels("subsample", pool)[1]
            if each == "label"
            else text_levels(pool.frame[each], each)[1]
        )
    return cells_of(codes)[1]
