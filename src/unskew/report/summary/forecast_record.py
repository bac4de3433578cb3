"""The part of the record that shows a forecast."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.report.summary.outcome_record import Number


@dataclass(frozen=True)
class ForecastArm:
    """What one way to weight is expected to reach on the target.

    Accuracies and gains are shares of 1, intervals hold 95%.

    ``gain`` is over naive, None for naive itself; ``worst_class`` is the class with the lowest
    accuracy among those shown, ``worst`` that accuracy; ``ess`` the effective number of images of
    the weights it is trained with; ``way`` how it learns from the debiasing weights, None for other
    arms; ``ridge`` that of its probe.
    """

    name: str
    accuracy: Number
    stderr: Number
    interval: tuple[Number, Number]
    gain: Number
    gain_stderr: Number
    gain_interval: tuple[Number, Number]
    worst_class: str | None
    worst: Number
    worst_stderr: Number
    ess: Number
    way: str | None
    ridge: Number


@dataclass(frozen=True)
class ForecastClass:
    """One class: its share of the target, effective images, and accuracy by arm."""

    label: str
    share: Number
    ess: Number
    accuracy: tuple[Number, ...]
    stderr: tuple[Number, ...]


@dataclass(frozen=True)
class ForecastPanel:
    """What reweighting is expected to bring, predicted before training (`forecast_gain`).

    Naive and debiased come first. ``choice`` says in which way debiased is learned, and why.

    ``recommendation`` is the verdict with its reason; ``condition`` says what all of it rests on,
    ``objection`` what check_fit says against that, None if nothing; ``ess_units`` counts what is
    independent (groups, distinct images), None where images are.
    """

    verdict: str
    recommendation: str
    arms: tuple[ForecastArm, ...]
    classes: tuple[ForecastClass, ...]
    choice: str
    images: int | None
    ess: Number
    ess_units: Number
    design_effect: Number
    heavy_share: Number  # the smallest share of the images that carries 60% of the weight
    pareto_k: Number
    condition: str
    objection: str | None
    fit_p_value: Number
    method: str
    notes: tuple[str, ...]
    learner: str
    asked: tuple[str, ...]  # arms as they were asked for, perhaps "all"
    learner_reference: str | None  # module:name, where it is not the linear probe
    asked_way: str | None  # where it is not that of the settings
    labels: int | None = None  # of images with any number of labels, whose means accuracies are
