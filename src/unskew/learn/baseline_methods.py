"""The baselines: how each turns a pool, and mostly a target, into weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, CoverageError, DataError, did_you_mean, first_few
from unskew.learn.baseline_record import Baseline
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.levels import MISSING, holds_lists, level_text, text_levels
from unskew.records.target import THE_TARGET
from unskew.splits.holdout import held_out_rows
from unskew.target.facts import cells_of
from unskew.target.strata import TargetStrata

if TYPE_CHECKING:
    import pandas as pd


def make_naive(pool: Pool, target: Target | None) -> Baseline:
    """Weight every image the same."""
    sentence = (
        "Naive pooling: every image counts the same, as if the pool were a sample of the target."
    )
    return Baseline("naive", np.full(len(pool), 1 / len(pool)), _ids(pool), (sentence,))


def make_one_source(pool: Pool, target: Target | None, source: str | None = None) -> Baseline:
    """Weight the images of one source to the target, stratum by stratum."""
    strata = _target_strata("one_source", pool, target)
    names = pool.names if source is None else (level_text(source),)
    if names[0] not in pool.names:
        raise DataError(
            f"there is no source {source!r}; the sources are "
            f"{first_few(pool.names, 12)}.{did_you_mean(source, pool.names)}",
            source=names[0],
            sources=list(pool.names),
        )
    weighed = {name: _weigh_within(strata, pool.source == pool.names.index(name)) for name in names}
    restrict = target is not None and target.uncovered == "restrict"
    usable = {
        name: weight_n
        for name, (weight_n, empty) in weighed.items()
        if weight_n.any() and (restrict or not empty)
    }
    if not usable:
        raise CoverageError(
            "importance weighting of one source needs images of every stratum of the target in "
            "that source; "
            + "; ".join(
                f"source `{name}` has none of {first_few(list(empty))}"
                for name, (_, empty) in list(weighed.items())[:5]
            )
            + ". Name a source that has them, or set uncovered='restrict' in the target: results "
            "then describe the rest of it.",
            sources=list(weighed),
        )
    # First what a source covers of the target (all of it, unless the target may be restricted),
    # then the effective number of its images.
    best = max(
        usable,
        key=lambda name: (
            -round(sum(weighed[name][1].values()), 12),
            1.0 / float(usable[name] @ usable[name]),
        ),
    )
    chosen = "" if source is not None else " (the source whose weighted images are worth most)"
    sentences = [
        f"Importance weighting of source {best}{chosen}: an image counts the target mass of its "
        f"stratum ({' × '.join(strata.by)}) over the stratum's size in that source; other sources "
        "are not used. It is assumed that images of a stratum are alike in source and target.",
        *_population_sentence(strata),
    ]
    if weighed[best][1]:
        sentences.append(
            f"The source has none of {first_few(list(weighed[best][1]))}: results describe the "
            "rest of the target."
        )
    return Baseline("one_source", usable[best], _ids(pool), tuple(sentences))


def _weigh_within(
    strata: TargetStrata, within_n: npt.NDArray[np.bool_]
) -> tuple[Floats, dict[str, float]]:
    """Return the weights ∝ p_c/N_c on the rows ``within_n``, and the strata that lack such a row.

    The weights are all 0 if no row has target mass; strata without target mass are not listed.
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


def make_subsample(
    pool: Pool, target: Target | None, by: str | Sequence[str] | None = None, seed: int = 0
) -> Baseline:
    """Draw images without replacement until the strata have their shares."""
    if by is None and target is not None:
        strata = _target_strata("subsample", pool, target)
        if target.unit == "group":
            raise ConfigError(
                "subsampling draws images, but the target counts groups (unit = 'group'); use "
                "weights, or a target of images.",
                option="unit",
                value="group",
            )
        cell_n, mass_c = strata.code, strata.mass
        what = f"{' × '.join(strata.by)} has its target share"
        population = _population_sentence(strata)
    else:
        names = ["label"] if by is None else [by] if isinstance(by, str) else list(by)
        cell_n = _cells(pool, names)
        mass_c = np.full(int(cell_n.max()) + 1, 1 / (int(cell_n.max()) + 1))
        what, population = f"{' × '.join(names)} has as many images as the smallest", ()
    weight_n = np.zeros(len(pool))
    kept = _draw(cell_n, mass_c, np.random.default_rng(seed))
    weight_n[kept] = 1 / kept.size
    sentence = (
        f"Subsampling: {kept.size} of {len(pool)} images, drawn at random (seed {seed}) so that "
        f"every level of {what}; no other is used."
    )
    return Baseline("subsample", weight_n, _ids(pool), (sentence, *population))


def _draw(cell_n: Ints, mass_c: Floats, rng: np.random.Generator) -> Ints:
    """Draw as many rows as possible without replacement, the share ``mass_c`` from each cell.

    Cell −1 is left out.
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


def make_class_balanced(pool: Pool, target: Target | None, beta: float | None = None) -> Baseline:
    """Give every class the same total weight, or nearly so with ``beta``."""
    classes, code_n = _labels("class_balanced", pool)
    size_m = np.bincount(code_n, minlength=len(classes)).astype(np.float64)
    if beta is None:
        per_image_m = 1 / size_m
        sentence = (
            "Class-balanced weights: every class has the same total weight, n/(M n_y) for each "
            "image of class y."
        )
    else:
        if not 0 <= beta < 1:
            raise ConfigError(
                "beta is at least 0 (equal weights) and below 1 (towards class balance), such as "
                f"0.999; got {beta!r}.",
                option="beta",
                value=beta,
            )
        # (1 − β)/(1 − β^n) without cancellation for β next to 1.
        per_image_m = (
            (1 - beta) / -np.expm1(size_m * math.log(beta)) if beta > 0 else np.ones_like(size_m)
        )
        sentence = (
            "Class-balanced weights by the effective number of images (Cui et al. 2019): (1 − "
            f"β)/(1 − β^n_y) with β = {beta}."
        )
    weight_n = per_image_m[code_n]
    return Baseline(
        "class_balanced",
        weight_n / weight_n.sum(),
        _ids(pool),
        (f"{sentence} The target is not used.",),
        classes,
    )


def make_logit_adjustment(
    pool: Pool, target: Target | None, tau: float = 1.0, form: str = "posthoc"
) -> Baseline:
    """Offset the logits of every class by its share in the pool against that in the target."""
    if form not in ("posthoc", "loss"):
        raise ConfigError(
            "form is 'posthoc' (adjust a trained model's logits) or 'loss' (adjust them in "
            f"training); got {form!r}.",
            option="form",
            value=form,
            allowed=["posthoc", "loss"],
        )
    factor: Any = tau  # of any kind where it comes from a user
    if not isinstance(factor, Real) or not math.isfinite(factor):
        raise ConfigError(
            "tau is a finite number that scales the offset of the logits, 1 for the exact "
            f"correction; got {tau!r}.",
            option="tau",
            value=tau,
        )
    how = (
        "added to the logits in the loss"
        if form == "loss"
        else "subtracted from the logits of a model trained on the unweighted pool"
    )
    sentence = (
        "Logit adjustment (Menon et al. 2021) to {goal} of the classes: τ log(share in the "
        f"pool/share in the target), τ = {tau:g}, is {how}."
    )
    made = _move_classes("logit_adjustment", pool, target, sentence, form)
    assert made.logit_offset is not None
    return replace(made, logit_offset=tau * made.logit_offset)


def make_classifier_retraining(pool: Pool, target: Target | None) -> Baseline:
    """Train on the pool as it is, then retrain the last layer with weighted classes."""
    sentence = (
        "Classifier retraining (Kang et al. 2020): a network is trained on the unweighted pool, "
        "then its last layer alone on the same images, the classes weighted to {goal}."
    )
    return _move_classes("classifier_retraining", pool, target, sentence, "retrained")


def make_deferred_weighting(pool: Pool, target: Target | None) -> Baseline:
    """Weight the classes in the last epochs only."""
    sentence = (
        "Deferred weighting (Cao et al. 2019): a network is trained on the unweighted pool for "
        "four fifths of the epochs, then with the loss of the classes weighted to {goal}."
    )
    return _move_classes("deferred_weighting", pool, target, sentence, "deferred")


def make_vs_loss(
    pool: Pool, target: Target | None, tau: float = 1.0, gamma: float = 0.15
) -> Baseline:
    """Multiply and shift the logits in the loss: the vector-scaling loss."""
    for option, value in {"tau": tau, "gamma": gamma}.items():
        number: Any = value  # of any kind where it comes from a user
        if not isinstance(number, Real) or not math.isfinite(number) or number < 0:
            raise ConfigError(
                f"{option} is a finite number, at least 0; got {value!r}.",
                option=option,
                value=value,
            )
    sentence = (
        "VS-loss (Kini et al. 2021) to {goal} of the classes: with r = share in the pool/share in "
        f"the target, the logits of a class are multiplied by (r/max r)^γ, γ = {gamma:g}, and τ "
        f"log r is added, τ = {tau:g}, in the loss."
    )
    made = _move_classes("vs_loss", pool, target, sentence, "loss")
    assert made.logit_offset is not None
    factor_m = np.exp(gamma * (made.logit_offset - made.logit_offset.max()))
    return replace(made, logit_offset=tau * made.logit_offset, logit_factor=factor_m)


def _move_classes(
    name: str, pool: Pool, target: Target | None, sentence: str, form: str
) -> Baseline:
    """Make a baseline from the log ratio of every class's shares in pool and target."""
    classes, code_n = _labels(name, pool)
    used_n, mass_m = np.full(len(pool), True), np.ones(len(classes))
    population: tuple[str, ...] = ()
    if target is not None:
        strata = _target_strata(name, pool, target)
        mass_m, population = _class_masses(name, strata, classes), _population_sentence(strata)
        used_n = (strata.code >= 0) & (mass_m[code_n] > 0)
    size_m = np.bincount(code_n[used_n], minlength=len(classes))
    kept_m = size_m > 0
    goal = "equal shares" if target is None else "their target shares"
    words = f"{sentence.format(goal=goal)} It is assumed that images of a class are alike in pool "
    return Baseline(
        name,
        used_n / used_n.sum(),
        _ids(pool),
        (f"{words}and target.", *population),
        tuple(level for level, used in zip(classes, kept_m, strict=True) if used),
        np.log(size_m[kept_m] / used_n.sum()) - np.log(mass_m[kept_m]),
        form,
    )


def make_density_ratio(
    pool: Pool, target: Target | None, features: str | Sequence[str] | None = None, C: float = 1.0
) -> Baseline:
    """Weight images by the odds of target against pool, from a classifier of the two."""
    from unskew.learn.density_ratio import odds_of_target

    if target is None or target.kind not in ("sample", "source"):
        raise ConfigError(
            "a density ratio compares the pool with a sample of the target; give "
            "Target.sample(pool) or Target.source(name).",
            option="target",
            value=None if target is None else target.kind,
            allowed=["sample", "source"],
        )
    if not features:
        raise ConfigError(
            "name the features to compare, features=[…]; the pool has "
            f"{first_few(list(pool.frame.columns), 12)}.",
            option="features",
            columns=list(pool.frame.columns),
        )
    sample = _reference_frame(pool, target)
    names = [features] if isinstance(features, str) else list(features)
    weight_n = odds_of_target(pool.frame, sample, names, C)
    sentence = (
        "Density ratio: the odds of target against pool by logistic regression on "
        f"{first_few(names, 12)}, from {len(sample)} images of the target. It is assumed that "
        "images with the same features are alike in pool and target; the source is not used."
    )
    return Baseline("density_ratio", weight_n, _ids(pool), (sentence,))


def _ids(pool: Pool) -> npt.NDArray[Any]:
    return pool.frame["id"].to_numpy()


def _reference_frame(pool: Pool, target: Target) -> pd.DataFrame:
    """Return the target's images to fit on, without those that `debias` holds out at seed 0."""
    reference = target.compare(pool)
    frame = (
        pool.frame[pool.frame["source"] == reference.source]
        if reference.sample is None
        else reference.sample.frame
    )
    return frame[~held_out_rows(frame, reference.holdout, np.random.default_rng(0))]


def _target_strata(name: str, pool: Pool, target: Target | None) -> TargetStrata:
    """Return the target's strata on the whole pool; of a labelled sample or source, its classes."""
    if target is None:
        raise ConfigError(
            f"the baseline {name!r} needs a target, such as Target.uniform('label') or "
            f"Target.margins({{'label': …}}).",
            option="target",
        )
    if target.kind not in ("sample", "source"):
        return target.stratify(pool)
    sample = _reference_frame(pool, target)
    if "label" not in sample.columns or sample["label"].isna().all():
        raise ConfigError(
            f"the baseline {name!r} needs class shares, but the sample of the target has no "
            "labels; give a margin of label.",
            column="label",
        )
    levels, code_n = text_levels(sample["label"].dropna(), "label")
    # A class that the sample does not show has mass 0.
    counts = dict.fromkeys(_labels(name, pool)[0], 0) | dict(
        zip(levels, np.bincount(code_n).tolist(), strict=True)
    )
    return Target.margins({"label": counts}, uncovered=target.uncovered).stratify(pool)


def _population_sentence(strata: TargetStrata) -> tuple[str, ...]:
    """Name the population that results describe, unless that is the whole target."""
    return () if strata.population == THE_TARGET else (f"Results describe {strata.population}.",)


def _class_masses(name: str, strata: TargetStrata, classes: Sequence[str]) -> Floats:
    """Return the (M,) target mass of every class, summed over other attributes of the target."""
    if "label" not in strata.by:
        raise ConfigError(
            f"the baseline {name!r} moves classes to their target shares, but the target gives "
            f"shares of {', '.join(strata.by)}, not of label. Give one with the margin of label, "
            "or none for equal classes.",
            column="label",
            columns=list(strata.by),
        )
    at = strata.by.index("label")
    mass = dict.fromkeys(classes, 0.0)
    for cell, cell_mass in zip(strata.strata, strata.mass.tolist(), strict=True):
        mass[cell[at]] += cell_mass
    return np.array(list(mass.values()))


def _labels(name: str, pool: Pool) -> tuple[tuple[str, ...], Ints]:
    """Return the classes as text, and the code of every image."""
    if "label" not in pool.frame.columns:
        raise DataError(
            f"the baseline {name!r} needs the label of every image, but the pool has none. Name "
            "the column in Pool.from_frame.",
            column="label",
        )
    if holds_lists(pool.frame["label"]):
        raise DataError(
            f"the baseline {name!r} moves the shares of classes, of which an image has one; these "
            "images have any number of labels.",
            column="label",
            value=name,
        )
    levels, code_n = text_levels(pool.frame["label"], "label")
    if MISSING in levels:
        count = int((code_n == levels.index(MISSING)).sum())
        raise DataError(
            f"the baseline {name!r} needs the label of every image; {count} of {len(pool)} have "
            "none. Leave those out.",
            column="label",
            count=count,
        )
    return tuple(levels), code_n


def _cells(pool: Pool, by: Sequence[str]) -> Ints:
    """Return the (n,) code of the combination of levels of ``by`` that each image has."""
    if not by:
        raise ConfigError(
            "by names one or more attributes, such as 'label' or ['source', 'label']; got none.",
            option="by",
        )
    columns = list(pool.frame.columns)
    codes = []
    for name in by:
        if name != "label" and name not in columns:
            raise DataError(
                f"by names {name!r}, but the pool has no such column; it has "
                f"{first_few(columns, 12)}.{did_you_mean(name, columns)}",
                option="by",
                column=name,
                columns=columns,
            )
        codes.append(
            _labels("subsample", pool)[1]
            if name == "label"
            else text_levels(pool.frame[name], name)[1]
        )
    return cells_of(codes)[1]
