"""The models of a training on the page: a part of `report.json`."""

from __future__ import annotations

from dataclasses import dataclass

Number = float | None


@dataclass(frozen=True)
class TrainedArm:
    """One arm on the held-out images, weighted to the target; ``gain`` is main − this arm.

    ``spread``: standard deviation of the accuracy over seeds; None with one seed. ``calibration``:
    calibration error of the probabilities.
    """

    name: str
    accuracy: Number
    accuracy_interval: tuple[Number, Number]
    worst_class: str | None
    worst: Number
    worst_interval: tuple[Number, Number]
    spread: Number
    gain: Number
    gain_interval: tuple[Number, Number]
    calibration: Number = None
    calibration_interval: tuple[Number, Number] = (None, None)


@dataclass(frozen=True)
class TriedWay:
    """A way to learn on held-out images of train; ``gain`` is over the starting point."""

    name: str
    accuracy: Number
    gain: Number
    stderr: Number
    is_chosen: bool


@dataclass(frozen=True)
class TrainingPanel:
    """What `unskew train` trained and how good it is, as `metrics.json` has it; main comes first.

    ``sentences``: what to know about the figures. ``labels``: how many labels an image may have;
    accuracies are means over them, and the worst one has the smallest AUROC. None: it has a class.
    ``way``: the way that main was trained in, and why; ``ways``: what it was chosen from.
    """

    main: str
    split: str
    images: int | None
    level: float
    seeds: tuple[int, ...]
    arms: tuple[TrainedArm, ...]
    sentences: tuple[str, ...]
    labels: int | None = None
    way: str | None = None
    ways: tuple[TriedWay, ...] = ()
