"""What `unskew train` learns from and compares: pixels or features, classes, splits, arms."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from unskew.config.run_config import RunConfig, with_settings
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.atomic import write_text, written_together
from unskew.files.spreadsheet_text import guard_table
from unskew.forecasting.probe_data import fitting_scale, read_labels
from unskew.learn.baseline_record import Baseline
from unskew.learn.baselines import BASELINES, make_baseline
from unskew.learn.recipes import Recipe
from unskew.learn.ways import WAYS_OF_PROBE, check_way
from unskew.learn.weights_by_id import align_by_id
from unskew.records import Floats, Ints, Pool
from unskew.records.levels import level_text
from unskew.runs.forecast import probe_features
from unskew.runs.inputs import Inputs, read_inputs
from unskew.splits.assignment import split_pool
from unskew.training.learnable import check_learnable, teach_every_class
from unskew.training.pixels import read_squares

if TYPE_CHECKING:
    from unskew.debiasing.pool_weights import SplitWeights
    from unskew.learn.presets import TrainSettings
    from unskew.learn.training_data import TrainingData

SPLITS = "splits.csv"
_TRAIN, _TEST = ("train", "training"), ("test", "testing")
_VALIDATION = ("validation", "valid", "val", "dev", "development", "eval", "evaluation")
# Keys of [learn] that say what is trained on, and what is compared; all others are settings of the
# training itself.
_NOT_OF_TRAINING = ("preset", "size", "resize", "validation", "arms", "seeds", "by", "memory")

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
    classes, label : the M classes as text, and (n,) the code of every image's class; or M labels,
        any number of which an image may have, and (n, M) 1, 0, or NaN: unknown.
    splits : which split is for what.
    split_table : the splits as text of a table, where they were made here; None where the images
        have splits.
    split_note : how splits made here differ from what was asked for; empty: not at all.
    """

    inputs: Inputs
    X: npt.NDArray[Any] = field(repr=False)
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    label: npt.NDArray[Any] = field(repr=False)
    splits: Splits
    split_table: str | None = field(repr=False, default=None)
    split_note: str = ""

    @property
    def has_label_sets(self) -> bool:
        """Tell whether an image may have any number of labels, instead of one class."""
        return self.label.ndim == 2

    @property
    def noun(self) -> str:
        """What ``classes`` are called."""
        return "labels" if self.has_label_sets else "classes"

    def rows(self, split: str | None) -> Ints:
        """Return the positions of the images of that split; none for None."""
        if split is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(split_texts(self.inputs.pool) == split)

    @property
    def preprocessing(self) -> dict[str, Any]:
        """Return how other images become what the model takes, as plain values."""
        if not self.columns:
            resize = self.inputs.config.learn.resize
            return {"kind": "images", "size": int(self.X.shape[1]), "resize": resize}
        return {
            "kind": "features",
            "columns": list(self.columns),
            "features": list(self.inputs.config.represent.computed),
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
    read_labels(inputs.pool)
    if config.learn.preset == "probe":
        columns = tuple(probe_features(inputs))
        X = inputs.pool.frame[list(columns)].to_numpy(dtype=np.float32)
    else:
        pool, X = read_squares(config, inputs.pool, progress)
        inputs, columns = replace(inputs, pool=pool), ()
    table, note = None, ""
    if "split" not in inputs.pool.frame.columns:
        inputs, note = _with_validation(inputs, out)
        table = guard_table(inputs.pool.frame[["id", "split"]]).to_csv(index=False)
    classes, label_n = read_labels(inputs.pool)
    splits = find_splits(inputs.pool)
    training = TrainingInputs(inputs, X, columns, classes, label_n, splits, table, note)
    for name in (splits.validation, splits.test):
        if name is not None:
            train, own = training.rows(splits.train), training.rows(name)
            check_learnable(inputs.pool, classes, label_n, train, own, (splits.train, name))
    return training


def check_learn(config: RunConfig) -> None:
    """Refuse, before the work, settings of [learn] that do not go together."""
    learn, own = config.learn, ":" in (config.learn.model or ":")
    if (learn.model == "probe") != (learn.preset == "probe") and not own:
        raise ConfigError(
            f"learn.model = {learn.model!r} does not go with the preset {learn.preset!r}: a probe "
            "is trained on features "
            '(preset = "probe"), a network on pixels (preset = "fast", "finetune" or "article").',
            key="learn.model",
            value=learn.model,
        )
    if learn.preset == "probe" and not (learn.model and own):
        check_way(learn.way, WAYS_OF_PROBE, why="a probe is nothing but its last layer")
    if not config.sources.images and learn.preset != "probe":
        raise ConfigError(
            f"the preset {learn.preset!r} trains a network on pixels, but sources.images = false "
            "says that there is only a table. Train "
            'a linear model on its numbers: [learn] preset = "probe" (--preset probe).',
            key="learn.preset",
            value=learn.preset,
        )


def _with_validation(inputs: Inputs, out: Path) -> tuple[Inputs, str]:
    """Assign the images to train and validation: (inputs, what to know about these splits).

    The settings name the table of the splits.
    """
    config, share = inputs.config, inputs.config.learn.validation
    by = [] if inputs.target is None else list(inputs.target.by)
    alike = [name for name in dict.fromkeys([*by, "label"]) if name in inputs.pool.frame.columns]
    pool = split_pool(
        inputs.pool, {"train": 1.0 - share, "validation": share}, by=alike, rng=config.engine.seed
    )
    pool, note = teach_every_class(pool, "train", "validation")
    file = Path(os.path.relpath(os.path.realpath(out) + os.sep + SPLITS, config.folder)).as_posix()
    config = with_settings(config, "sources", {"split": {"file": file}})
    return replace(inputs, pool=pool, config=config), note


def write_split_table(training: TrainingInputs, out: Path) -> None:
    """Write splits.csv if the splits were made here: with it the run can be computed again."""
    if training.split_table is not None:
        with written_together(out, ()) as folder:
            write_text(folder / SPLITS, training.split_table)


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


DEBIASED, NAIVE, GIVEN = "debiased", "naive", "given"
ARMS = (DEBIASED, *BASELINES)
OF_NETWORKS = ("deferred_weighting", "vs_loss")
OF_CLASSES = ("class_balanced", "logit_adjustment", "classifier_retraining", *OF_NETWORKS)


@dataclass(frozen=True, eq=False)
class TrainingArm:
    """One way to weight the training images.

    Attributes
    ----------
    name : "debiased", "given", or a baseline.
    weight : (n,) in the order of the pool; those of train are trained with, those of validation
        choose the epoch.
    sentences : what it computes and assumes.
    recipe : of a baseline: what it does besides its weights; None: the way of the settings.
    judge_weight : (n,) by which a baseline's ridge is chosen; None: its own weights.
    """

    name: str
    weight: Floats = field(repr=False)
    sentences: tuple[str, ...]
    recipe: Recipe | None = None
    judge_weight: Floats | None = field(repr=False, default=None)


def check_arms(names: Sequence[str], *, probe: bool = False) -> tuple[str, ...]:
    """Return the names, each once; refuse an unknown one, or one that a probe cannot take."""
    for name in names:
        if name not in (*ARMS, GIVEN):
            raise ConfigError(
                f"there is no arm {name!r}; there are {', '.join(ARMS)}.{did_you_mean(name, ARMS)}",
                option="--arm",
                value=name,
                allowed=list(ARMS),
            )
        if probe and name in OF_NETWORKS:
            raise ConfigError(
                f"the arm {name!r} is for networks; a probe is fitted exactly, without epochs, and "
                "its logits have no factors. Leave it out, or train a network.",
                option="--arm",
                value=name,
            )
    return tuple(dict.fromkeys(names))


def check_label_arms(names: Sequence[str]) -> None:
    """Refuse baselines that move classes, where images have any number of labels."""
    for name in names:
        if name in OF_CLASSES:
            raise ConfigError(
                f"the arm {name!r} moves the shares of classes, of which an image has one; these "
                "images have any number of labels. Leave it out.",
                option="--arm",
                value=name,
            )


def main_arm(names: Sequence[str]) -> str:
    """Return the arm whose model the run is about: given, else debiased, else the first."""
    return next((name for name in (GIVEN, DEBIASED) if name in names), names[0])


def make_arm(
    name: str, training: TrainingInputs, weights: SplitWeights, given_n: Floats | None = None
) -> TrainingArm:
    """Weigh the images for one arm; ``given_n`` are the weights of a table.

    Validation is weighted to the target, and by the target the ridge of a probe is chosen, for
    every arm but naive, which knows no target.
    """
    sample_n = weights.sample_weight
    rows = training.rows(training.splits.train)
    if name == DEBIASED:
        return TrainingArm(name, sample_n, ("The debiasing weights of this run.",))
    if name == GIVEN:
        assert given_n is not None
        worth = worth_of(f"given for {training.splits.train}", given_n[rows])
        sentences = ("Weights that were given in a table, joined by id.", worth)
        return TrainingArm(name, given_n, sentences)
    pool = training.inputs.pool.take(rows)
    options: dict[str, Any] = {}
    if name == "density_ratio":
        from unskew.runs.forecast import probe_features

        options["features"] = probe_features(training.inputs)
    baseline = make_baseline(
        name, pool, None if name == NAIVE else training.inputs.target, **options
    )
    weight_n = np.ones_like(sample_n) if name == NAIVE else sample_n.copy()
    weight_n[rows] = baseline.sample_weight
    form: Any = baseline.form or "weights"
    recipe = Recipe(
        form,
        _by_class(baseline, baseline.logit_offset, training.classes, np.inf),
        _by_class(baseline, baseline.logit_factor, training.classes, 1.0),
    )
    judge_n = None if name == NAIVE else sample_n
    return TrainingArm(name, weight_n, baseline.sentences, recipe, judge_n)


def _by_class(
    baseline: Baseline, values: Floats | None, classes: Sequence[str], otherwise: float
) -> Floats | None:
    """Return (M,) a baseline's values of its classes; ``otherwise`` for classes that it lacks."""
    if values is None or baseline.classes is None:
        return None
    known = dict(zip(baseline.classes, values.tolist(), strict=True))
    return np.array([known.get(level, otherwise) for level in classes])


def worth_of(whose: str, weight_n: Floats) -> str:
    """Say how many equally weighted images these weights are worth (Kish's effective number)."""
    from unskew.records.clustered_mean import effective_size

    return (
        f"The weights {whose} are worth {effective_size(weight_n / weight_n.sum()):,.0f} of "
        f"{weight_n.size:,} images."
    )


def read_given_weights(training: TrainingInputs, path: str | PathLike[str]) -> Floats:
    """Read (n,) weights from a table, joined by id and checked.

    The table (CSV, TSV, JSONL, Parquet) has the columns id and sample_weight or weight.
    """
    from unskew.sources.tables import read_table

    table = read_table(str(path), str(path), text=("id",)).frame
    lacking = "id" not in table.columns or not {"weight", "sample_weight"} & set(table.columns)
    if lacking:
        raise ConfigError(
            f"{Path(path).name} has the columns {', '.join(map(str, table.columns))}; a table of "
            "weights has id and weight.",
            path=str(path),
            columns=[str(column) for column in table.columns],
        )
    name = "sample_weight" if "sample_weight" in table.columns else "weight"
    named = table[["id"]].assign(id=table["id"].astype(str), weight=table[name])
    ids = training.inputs.pool.frame["id"].astype(str).tolist()
    weight_n = align_by_id(named, ids, allow_extra=True)
    extra = named["id"][~named["id"].isin(ids)].tolist()
    if extra:
        raise DataError(
            f"{len(extra)} of the {len(named)} weights belong to images that the dataset does not "
            f"contain, such as {first_few(extra, 3)}. "
            f"Remove their rows from {Path(path).name}; or are these the weights of other sources "
            "than [sources] names?",
            path=str(path),
            ids=extra,
            count=len(extra),
        )
    for split in (training.splits.train, training.splits.validation):
        if split is not None:
            align_by_id(weight_n[training.rows(split)])  # not all of them zero
    return weight_n


def take_training_rows(X: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """Return X[rows], each row copied when it is needed: there may be no memory for all twice."""
    from unskew.learn.training_data import PickedRows

    is_large = X.ndim == 4 or isinstance(X, np.memmap)
    return cast(npt.NDArray[Any], PickedRows(X, rows)) if is_large else X[rows]


def gather_training_data(training: TrainingInputs, arm: TrainingArm) -> TrainingData:
    """Gather the images of train, and those of validation, with the arm's weights."""
    from unskew.learn.training_data import TrainingData
    from unskew.splits.folds import unit_codes

    unit_n, judge_n = unit_codes(training.inputs.pool.frame), arm.judge_weight

    def part(split: str, validation: TrainingData | None) -> TrainingData:
        rows = training.rows(split)
        ids = training.inputs.pool.frame["id"].to_numpy()[rows]
        return TrainingData(
            take_training_rows(training.X, rows),
            training.label[rows],
            training.classes,
            arm.weight[rows],
            ids,
            validation,
            None if unit_n is None else unit_n[rows],
            judge_n[rows] if judge_n is not None and split == training.splits.train else None,
        )

    name = training.splits.validation
    return part(training.splits.train, None if name is None else part(name, None))
