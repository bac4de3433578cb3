"""The learners of the tables: a probe on cached features, a small network, or ResNet-56."""

from __future__ import annotations

import hashlib
import json
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paper.settings import Population
from paper.table_arms import Weighted
from unskew.engine.threads import one_blas_thread
from unskew.errors import DataError
from unskew.files.atomic import written_whole
from unskew.learn.probe import Probe, fit_probe
from unskew.records import Floats, Ints

RIDGE, TOLERANCE = 3e-3, 1e-5


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set as a learner sees it.

    Attributes
    ----------
    population : labels and borders of the training split, which sources draw from.
    train, test : (N, d) features or (N, 32, 32, 3) images.
    test_label : (N,) codes.
    """

    name: str
    population: Population = field(repr=False)
    train: npt.NDArray[Any] = field(repr=False)
    test: npt.NDArray[Any] = field(repr=False)
    test_label: Ints = field(repr=False)

    @property
    def n(self) -> int:
        return int(self.population.label.size)

    @property
    def n_classes(self) -> int:
        return int(self.population.label.max()) + 1

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of labels, borders and every 97th image."""
        digest = hashlib.sha256(f"{self.train.shape} {self.test.shape}".encode())
        for array in (
            self.population.label,
            self.population.border,
            self.test_label,
            self.train[::97],
            self.test[::97],
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


class Learner(ABC):
    """A learner of the tables.

    ``name`` is part of file names; ``settings`` is everything but the data that results depend on,
    as plain values.
    """

    name: str
    # Does the reference change from run to run?
    is_random: bool

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]: ...

    @abstractmethod
    def load(self, data: Path, name: str, features: Path) -> DataSet:
        """Load a data set of the folder ``data``; what all cells share is kept in ``features``."""

    @abstractmethod
    def classify(self, dataset: DataSet, arm: Weighted, run: int, folder: Path) -> Ints:
        """Return the (n,) labels that a model trained on the arm gives to the test images.

        Unfinished work is kept in ``folder``.
        """

    def prepare(self, dataset: DataSet, cache: Path) -> None:  # noqa: B027
        """Compute what all cells of a data set share, before the first."""


@dataclass(frozen=True)
class ProbeLearner(Learner):
    """A linear probe on features of a pretrained network, exact up to its gradient tolerance.

    Every fit starts at that of Ref.
    """

    name = "probe"
    is_random = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"learner": self.name, "ridge": RIDGE, "tolerance": TOLERANCE}

    def load(self, data: Path, name: str, features: Path) -> DataSet:
        from paper.features import load_features

        loaded = load_features(data, name, features)
        return DataSet(
            name,
            Population(loaded.train_label, loaded.border),
            loaded.train,
            loaded.test,
            loaded.test_label,
        )

    def prepare(self, dataset: DataSet, cache: Path) -> None:
        self._start(dataset, cache)

    def classify(self, dataset: DataSet, arm: Weighted, run: int, folder: Path) -> Ints:
        assert arm.weight is not None
        return self._fit(
            dataset, arm.index, arm.weight, self._start(dataset, folder.parent)
        ).predict(dataset.test)

    def _start(self, dataset: DataSet, cache: Path) -> Probe:
        """Fit the probe of Ref, from which every fit starts.

        The minimum is unique, so the start saves passes and changes nothing beyond the tolerance.
        """
        kept = cache / f"ref-{dataset.name}-{_digest([self.settings, dataset.fingerprint])}.npz"
        if not kept.is_file():
            probe = self._fit(dataset, np.arange(dataset.n), np.ones(dataset.n), None)
            with written_whole(kept) as temporary, temporary.open("wb") as file:
                np.savez(file, coefficient=probe.coefficient, intercept=probe.intercept)
        with np.load(kept) as arrays:
            return Probe(arrays["coefficient"], arrays["intercept"])

    def _fit(self, dataset: DataSet, index_n: Ints, weight_n: Floats, start: Probe | None) -> Probe:
        """Fit a probe; copies of one image are one row with the sum of their weights."""
        image_m, row_n = np.unique(index_n, return_inverse=True)
        weight_m: Floats = np.bincount(row_n, weights=weight_n).astype(np.float64)
        with one_blas_thread():
            return fit_probe(
                dataset.train[image_m],
                dataset.population.label[image_m],
                weight_m,
                dataset.n_classes,
                ridge=RIDGE,
                tol=TOLERANCE,
                start=start,
            )


@dataclass(frozen=True)
class NetworkLearner(Learner):
    """A network trained from scratch by a preset of `unskew.learn.train`.

    "fast", or "article" (ResNet-56, 205 epochs).

    ``changes`` : settings of the training that differ from the preset's, as pairs.
    """

    name: str
    changes: tuple[tuple[str, Any], ...] = ()
    is_random = True

    @property
    def settings(self) -> dict[str, Any]:
        from unskew.learn.presets import settings_dict

        return {"learner": self.name, **settings_dict(self._settings(0))}

    def load(self, data: Path, name: str, features: Path) -> DataSet:
        from paper.cifar_data import read_split
        from paper.populations import read_population

        train, test = read_split(data, name, "train"), read_split(data, name, "test")
        population = Population(train.label, read_population(data, name, features).border)
        return DataSet(name, population, train.images, test.images, test.label)

    def classify(self, dataset: DataSet, arm: Weighted, run: int, folder: Path) -> Ints:
        from unskew.learn.train import train_model

        assert arm.weight is not None
        trained = train_model(
            self._data(dataset, arm),
            self._settings(run),
            folder,
            resume=True,
            logs=False,
            progress=False,
        )
        answer_n = trained.scores(dataset.test, progress=False).argmax(axis=1)
        # The model has answered; what is left would fill the disk, cell by cell.
        shutil.rmtree(folder, ignore_errors=True)
        return np.asarray(answer_n, dtype=np.int64)

    def images_per_second(self, dataset: DataSet, folder: Path) -> float:
        """Measure how fast this machine trains, on two steps."""
        from unskew.learn.train import train_model

        settings = self._settings(0, epochs=1)
        size = min(2 * settings.batch, dataset.n)
        few = Weighted(np.arange(dataset.n)[:: max(dataset.n // size, 1)][:size], np.ones(size))
        shutil.rmtree(folder, ignore_errors=True)
        try:
            trained = train_model(
                self._data(dataset, few), settings, folder, logs=False, progress=False
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return float(size / max(trained.history[-1]["seconds"], 1e-9))

    @property
    def epochs(self) -> int:
        return int(self._settings(0).epochs)

    def _settings(self, run: int, **further: Any) -> Any:
        from unskew.learn.presets import settings_of

        # The article weights images, and does nothing else.
        chosen = {"way": "weights", **dict(self.changes), "seed": run, **further}
        return settings_of(self.name, **chosen)

    def _data(self, dataset: DataSet, arm: Weighted) -> Any:
        from unskew.learn.training_data import TrainingData

        assert arm.weight is not None
        classes = tuple(f"class {y}" for y in range(dataset.n_classes))
        ids = np.arange(arm.index.size).astype(str)
        return TrainingData(
            dataset.train[arm.index], dataset.population.label[arm.index], classes, arm.weight, ids
        )


def find_learner(name: str) -> Learner:
    """Return the learner of ``--learner``."""
    return ProbeLearner() if name == "probe" else NetworkLearner(name)


def score_answers(answer_n: Ints, label_n: Ints) -> tuple[float, float, int]:
    """Return (accuracy, accuracy of the worst class, which class it is), in points."""
    if answer_n.shape != label_n.shape:
        raise DataError(
            f"there are {label_n.size} test images but {answer_n.size} answers.",
            count=answer_n.size,
            limit=label_n.size,
        )
    hit_n = answer_n == label_n
    count_y = np.bincount(label_n)
    with np.errstate(invalid="ignore"):
        by_class = np.bincount(label_n, weights=hit_n) / count_y
    worst = int(np.nanargmin(by_class))
    return 100.0 * float(hit_n.mean()), 100.0 * float(by_class[worst]), worst


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
