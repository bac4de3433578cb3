"""What `unskew train` learns from: images as squares or features, their classes and splits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.config.run_config import RunConfig, with_settings
from unskew.errors import ConfigError, DataError, first_few
from unskew.files.atomic import write_text
from unskew.forecasting.probe_data import fitting_scale, read_classes
from unskew.records import Ints, Pool
from unskew.records.levels import level_text
from unskew.runs.inputs import Inputs, read_inputs, usable_cache
from unskew.runs.probing import probe_features
from unskew.splits.assignment import split_pool

if TYPE_CHECKING:
    from unskew.learn.presets import TrainSettings

SPLITS = "splits.csv"
_TRAIN, _TEST = ("train", "training"), ("test", "testing")
_VALIDATION = ("validation", "valid", "val", "dev", "development", "eval", "evaluation")
# Keys of [learn] that say what is trained on, and what is compared; all others are settings of the
# training itself.
_NOT_OF_TRAINING = ("preset", "size", "resize", "validation", "arms", "by")

# Of the preset "fast" on 50,000 images: batch, epochs, and the steps that these make.
_BATCH, _EPOCHS, _STEPS, _MOST_EPOCHS = 512, 4, 388, 40


@dataclass(frozen=True)
class Splits:
    """The names of the splits by what they are for; None where there is no such split."""

    train: str
    validation: str | None
    test: str | None

    @property
    def held_out(self) -> str:
        """Return the split that a model is judged on: test, else validation."""
        name = self.test or self.validation
        assert name is not None
        return name


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """The images of a run as a model sees them, row by row as in the pool.

    Attributes
    ----------
    inputs : pool with splits and without images that cannot be decoded, target, bias model, and the
        settings that say where the splits are.
    X : (n, size, size, 3) uint8 pixels, or (n, d) float32 features.
    columns : names of the features; empty for pixels.
    classes, label : the M classes as text, and (n,) the code of every image's class.
    splits : which split is for what.
    split_table : the splits as text of a table, where they were made here; None where the images
        have splits.
    """

    inputs: Inputs
    X: npt.NDArray[Any] = field(repr=False)
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    label: Ints = field(repr=False)
    splits: Splits
    split_table: str | None = field(repr=False, default=None)

    def rows(self, split: str | None) -> Ints:
        """Return the positions of the images of that split; none for None."""
        if split is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(split_texts(self.inputs.pool) == split)

    @property
    def preprocessing(self) -> dict[str, Any]:
        """Return how other images become what the model takes, as plain values."""
        learn = self.inputs.config.learn
        if not self.columns:
            return {"kind": "images", "size": learn.size, "resize": learn.resize}
        return {
            "kind": "features",
            "columns": list(self.columns),
            "features": list(self.inputs.config.represent.features),
        }


def read_training_inputs(
    config: RunConfig, out: Path, *, progress: bool | None = None
) -> TrainingInputs:
    """Read the sources as pixels or features, and make splits where there are none.

    Only the cache is written. Pixels are read before anything is weighed, so that an image that
    cannot be decoded has no weight, either.
    """
    check_learn(config)
    inputs = read_inputs(config, progress=progress)
    read_classes(inputs.pool)
    if config.learn.preset == "probe":
        columns = tuple(probe_features(inputs))
        X = inputs.pool.frame[list(columns)].to_numpy(dtype=np.float32)
    else:
        pool, X = _squares(config, inputs.pool, progress)
        inputs, columns = replace(inputs, pool=pool), ()
    table = None
    if "split" not in inputs.pool.frame.columns:
        inputs = _with_validation(inputs, out)
        table = inputs.pool.frame[["id", "split"]].to_csv(index=False)
    classes, label_n = read_classes(inputs.pool)
    return TrainingInputs(inputs, X, columns, classes, label_n, find_splits(inputs.pool), table)


def check_learn(config: RunConfig) -> None:
    """Refuse, before the work, settings of [learn] that do not go together."""
    learn, own = config.learn, ":" in (config.learn.model or ":")
    if (learn.model == "probe") != (learn.preset == "probe") and not own:
        raise ConfigError(
            f"learn.model = {learn.model!r} does not go with the preset {learn.preset!r}: a probe "
            "is trained on features "
            '(preset = "probe"), a network on pixels (preset = "fast" or "article").',
            key="learn.model",
            value=learn.model,
        )
    if not config.sources.images and learn.preset != "probe":
        raise ConfigError(
            f"the preset {learn.preset!r} trains a network on pixels, but sources.images = false "
            "says that there is only a table. Train "
            'a linear model on its numbers: [learn] preset = "probe" (--preset probe).',
            key="learn.preset",
            value=learn.preset,
        )


def _squares(
    config: RunConfig, pool: Pool, progress: bool | None
) -> tuple[Pool, npt.NDArray[np.uint8]]:
    from unskew.represent.square_pixels import square_images

    return square_images(
        pool,
        config.learn.size,
        config.learn.resize,
        cache=usable_cache(config.cache),
        jobs=config.engine.jobs,
        tolerance=config.sources.tolerance,
        max_pixels=config.sources.max_pixels,
        progress=progress,
    )


def _with_validation(inputs: Inputs, out: Path) -> Inputs:
    """Assign the images to train and validation; the settings name the table of these splits."""
    config, share = inputs.config, inputs.config.learn.validation
    by = [] if inputs.target is None else list(inputs.target.by)
    alike = [name for name in dict.fromkeys([*by, "label"]) if name in inputs.pool.frame.columns]
    pool = split_pool(
        inputs.pool, {"train": 1.0 - share, "validation": share}, by=alike, seed=config.engine.seed
    )
    file = Path(os.path.relpath(os.path.realpath(out) + os.sep + SPLITS, config.folder)).as_posix()
    return replace(
        inputs, pool=pool, config=with_settings(config, "sources", {"split": {"file": file}})
    )


def write_split_table(training: TrainingInputs, out: Path) -> None:
    """Write splits.csv if the splits were made here: with it the run can be computed again."""
    if training.split_table is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / SPLITS, training.split_table)


def split_texts(pool: Pool) -> npt.NDArray[Any]:
    """Return (n,) the split of every image as text."""
    return pool.frame["split"].map(level_text).to_numpy(dtype=object)


def find_splits(pool: Pool) -> Splits:
    """Find by their names the splits for training, for choosing the epoch, and for judging."""
    names = list(dict.fromkeys(split_texts(pool).tolist()))
    train, validation, test = (_first(names, known) for known in (_TRAIN, _VALIDATION, _TEST))
    if train is None:
        raise DataError(
            f"a model is trained on the split called train, and the splits are {first_few(names)}. "
            "Call one of them train.",
            column="split",
            levels=names,
        )
    if validation is None and test is None:
        raise DataError(
            "a model is judged on images that it has not seen, those of a split called test or "
            "validation; the splits are "
            f"{first_few(names)}. `unskew split` makes them, or remove split from [sources] and a "
            "validation split is made.",
            column="split",
            levels=names,
        )
    return Splits(train, validation, test)


def _first(names: Sequence[str], known: Sequence[str]) -> str | None:
    return next((name for name in names if name.strip().lower() in known), None)


def settings_for(training: TrainingInputs) -> TrainSettings:
    """Return the settings of the preset, overridden by [learn] and [engine]."""
    from unskew.learn.presets import settings_of

    config = training.inputs.config
    learn: Mapping[str, Any] = config.learn.settings()
    options = {name: value for name, value in learn.items() if name not in _NOT_OF_TRAINING}
    if config.learn.preset == "fast":
        options = _for_few_images(training.rows(training.splits.train).size, options)
    if training.columns:
        options["scaling"] = fitting_scale(training.inputs.pool, list(training.columns))
    return settings_of(config.learn.preset, seed=config.engine.seed, **options)


def _for_few_images(n: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return smaller batches and more epochs for few images; options that are set stay.

    The preset is made for 50,000 images and would take a dozen steps on few. Batches of n/32
    images, a power of two from 32 to 512; 4 to 40 epochs, for about as many steps as the preset
    takes on 50,000 images.
    """
    batch = int(options.get("batch", min(_BATCH, max(32, 2 ** int(np.log2(max(n, 32) / 32))))))
    epochs = int(
        options.get("epochs", min(_MOST_EPOCHS, max(_EPOCHS, -(-_STEPS // max(n // batch, 1)))))
    )
    return {**options, "batch": batch, "epochs": epochs}
