"""Predictions joined to weights by id; everything that does not match is counted and named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Floats
from unskew.records.levels import level_text
from unskew.report.summary.privacy import too_small

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
# The note on weights without splits.
NO_SPLITS = (
    "These weights have no splits: images that the model was trained on are judged, too, if there "
    "are any, which flatters it."
)
_TRAIN = ("train", "training")
_TEST = ("test", "testing")


@dataclass(frozen=True, eq=False)
class Judged:
    """The images that may be judged, in the order of their ids: the order of rows never matters.

    Attributes
    ----------
    frame : the rows of the table of weights.
    key : (n,) their ids as text.
    weight : (n,) mean 1 within each split; not negative.
    split : names of the split or splits, joined by " + ".
    notes : what to know about that choice.
    """

    frame: pd.DataFrame = field(repr=False)
    key: npt.NDArray[Any] = field(repr=False)
    weight: Floats = field(repr=False)
    split: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """What the predictions cover; None is a count that privacy withholds.

    Attributes
    ----------
    images : images of the split that have a weight above 0.
    judged : of these, the ones judged.
    missing : of these, the ones without a prediction, a score or a truth.
    weight : share of the weight that the judged images carry.
    zero : images of weight 0 in the split: no part of the target, and only in the unweighted
        figures (if they have a prediction).
    elsewhere : predictions of images that are in other splits; not used.
    extra : predictions whose id no image has; not used.
    """

    images: int | None
    judged: int
    missing: int | None
    weight: float
    zero: int | None
    elsewhere: int | None
    extra: int | None

    def withheld(self) -> Coverage:
        """Replace counts of 1 to 9 by None, and the count that would reveal the missing ones."""
        small = [
            name
            for name in ("missing", "zero", "elsewhere", "extra")
            if too_small(getattr(self, name))
        ]
        changed: dict[str, Any] = dict.fromkeys(small)
        if "missing" in small:
            changed |= {"images": None, "weight": float(f"{self.weight:.2g}")}
        return replace(self, **changed)

    def notes(self) -> list[str]:
        """Say in sentences what did not match or was not used."""
        notes = []
        if self.missing != 0:
            among = "" if self.images is None else f" of {self.images:,}"
            notes.append(
                f"{_count(self.missing)}{among} images have no prediction, score or truth: the "
                f"figures are of the others, which carry {100 * self.weight:.3g} % of the weight."
            )
        if self.zero != 0:
            notes.append(
                f"{_count(self.zero)} images have weight 0: they do not belong to the target, and "
                "count in the unweighted figures only."
            )
        if self.elsewhere != 0:
            notes.append(
                f"{_count(self.elsewhere)} predictions are of images in other splits, and were "
                "not used."
            )
        if self.extra != 0:
            notes.append(
                f"{_count(self.extra)} predictions are of images that have no weight, and were "
                "ignored."
            )
        return notes


def _count(count: int | None) -> str:
    return "A few" if count is None else f"{count:,}"


def read_predictions(predictions: pd.DataFrame | str | PathLike[str]) -> pd.DataFrame:
    """Read a CSV, TSV, Parquet, JSONL or JSON file, or take a DataFrame; rows are named by id."""
    import pandas as pd

    if isinstance(predictions, pd.DataFrame):
        frame, name = predictions, "the table of predictions"
    else:
        from unskew.sources.tables import read_table

        path = os.fspath(predictions)
        frame, name = read_table(path, path, text=("id",)).frame, repr(path)
    if len(frame) == 0:
        raise DataError(f"{name} has no rows: it does not contain a single prediction.", count=0)
    if "id" not in frame.columns:
        raise DataError(
            f"{name} has no column 'id', by which predictions are joined to images; its columns "
            f"are {first_few(list(frame.columns), 12)}.{did_you_mean('id', frame.columns)} The "
            "ids are those of weights.parquet.",
            column="id",
            columns=[str(column) for column in frame.columns],
        )
    missing = int(frame["id"].isna().sum())
    if missing:
        raise DataError(
            f"{missing} of {len(frame)} rows of {name} have no id, so that it is unknown to which "
            "images they belong.",
            column="id",
            count=missing,
        )
    key = frame["id"].map(level_text)
    twice = key[key.duplicated()].unique().tolist()
    if twice:
        raise DataError(
            f"every image has one prediction, but {len(twice)} ids occur more than once in {name}: "
            f"{first_few(twice)}. Were two files concatenated, or several crops of an image "
            "predicted? Keep one row for each image (a second model has its own file or columns).",
            ids=twice,
        )
    return frame.set_axis(pd.Index(key.to_numpy(dtype=object)), axis=0)


def check_weights(table: pd.DataFrame) -> pd.DataFrame:
    """Check a table of weights, and sort it by id as text.

    The result has the columns ``sample_weight`` and ``source``.
    """
    name = "sample_weight" if "sample_weight" in table.columns else "weight"
    lacking = [column for column in ("id", name) if column not in table.columns]
    if lacking:
        raise DataError(
            "a table of weights has the columns id, source, sample_weight …; this one lacks "
            f"{first_few(lacking)}.",
            columns=lacking,
        )
    key = table["id"].map(level_text)
    twice = key[key.duplicated()].unique().tolist()
    if twice or table["id"].isna().any():
        raise DataError(
            f"every image has one weight and one id; {len(twice)} ids of the weights occur more "
            f"than once: {first_few(twice)}.",
            ids=twice,
        )
    weight_n = read_number_column(table[name], name)
    wrong = np.flatnonzero(~(np.isfinite(weight_n) & (weight_n >= 0)))
    if wrong.size:
        shown = first_few([f"{key.iloc[row]} ({weight_n[row]:g})" for row in wrong])
        raise DataError(
            f"weights are finite and not negative, but {wrong.size} of {len(table)} are not: "
            f"{shown}. Were they edited after the run?",
            column=name,
            ids=[key.iloc[row] for row in wrong],
        )
    order = np.argsort(key.to_numpy(dtype=object), kind="stable")
    source = table["source"].map(level_text) if "source" in table.columns else "all"
    return (
        table.assign(sample_weight=weight_n, source=source)
        .set_axis(key.to_numpy(dtype=object), axis=0)
        .iloc[order]
    )


def choose_images(table: pd.DataFrame, split: str | None) -> Judged:
    """Take the images of a split.

    By default test; else all splits but train; without splits, or with ``split="all"``, all images.
    """
    every_n = np.ones(len(table), dtype=np.bool_)
    splits = table["split"] if "split" in table.columns else None
    if splits is None or splits.isna().all():
        if split not in (None, ALL):
            raise ConfigError(
                f"the images have no splits, so there is no split {split!r} to judge. Omit "
                "--split.",
                option="split",
                value=split,
            )
        return _judged(table, every_n, "all images", NO_SPLITS)
    text_n = splits.map(level_text).to_numpy(dtype=object)
    names = list(dict.fromkeys(sorted(text_n.tolist())))
    if split == ALL:
        note = "Images of train are judged, too, which flatters a model."
        return _judged(table, every_n, "all splits", note)
    if split is not None:
        if split not in names:
            raise ConfigError(
                f"there is no split {split!r}; the splits are {first_few(names, 12)}, or "
                f"all.{did_you_mean(split, names)}",
                option="split",
                value=split,
                allowed=[*names, ALL],
            )
        return _judged(table, text_n == split, split)
    tests = [name for name in names if name.strip().lower() in _TEST]
    if tests:
        return _judged(table, text_n == tests[0], tests[0])
    others = [name for name in names if name.strip().lower() not in _TRAIN]
    if not others or len(names) == 1:
        note = "There is one split only; do not judge a model on images that it was trained on."
        return _judged(table, every_n, names[0], note)
    note = (
        f"There is no split called test: judged are {first_few(others)}, all but train. Choose "
        "another with --split."
    )
    return _judged(table, np.isin(text_n, others), " + ".join(others), note)


def _judged(
    table: pd.DataFrame, chosen_n: npt.NDArray[np.bool_], split: str, *notes: str
) -> Judged:
    frame = table[chosen_n]
    weight_n = frame["sample_weight"].to_numpy(dtype=np.float64)
    if not weight_n.sum() > 0:
        raise DataError(
            f"all {len(frame)} images of the split {split!r} have weight 0: none of them belongs "
            "to the target.",
            option="split",
            value=split,
        )
    return Judged(frame, frame.index.to_numpy(dtype=object), weight_n, split, notes)


def read_number_column(column: pd.Series[Any], name: str) -> Floats:
    """Read the numbers of a column, (n,), NaN where there is none; text is an error."""
    import pandas as pd

    try:
        return np.asarray(pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan))
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"the column {name!r} must contain numbers, but some of its entries are not: {error}.",
            column=name,
        ) from error


def align_predictions(
    table: pd.DataFrame, judged: Judged, predictions: pd.DataFrame, *, allow_extra: bool, name: str
) -> pd.DataFrame:
    """Bring predictions into the order of the judged images; rows without one are empty.

    Ids that no image has are an error unless ``allow_extra``.
    """
    extra = predictions.index[~predictions.index.isin(table.index)].tolist()
    if len(extra) == len(predictions):
        raise none_match(table, extra, name)
    if extra and not allow_extra:
        raise DataError(
            f"{len(extra)} of {len(predictions)} {name} have an id that no image of the weights "
            f"has: {first_few(extra)}. Are they of another run, or of images that were excluded "
            "(unreadable.csv)? Add --allow-extra (allow_extra=True) to ignore them.",
            option="allow_extra",
            ids=extra,
        )
    return predictions.reindex(judged.key)


def none_match(table: pd.DataFrame, extra: Sequence[str], name: str) -> DataError:
    """Describe ids of which no image has one, and where they may come from."""
    return DataError(
        f"not one of the {len(extra)} {name} has the id of an image: they have "
        f"{first_few(extra, 3)}, the weights {first_few(list(table.index), 3)}. "
        f"{_id_hint(table, extra)}",
        ids=list(extra),
    )


def _id_hint(table: pd.DataFrame, extra: Sequence[str]) -> str:
    """Suggest where ids that match no image may come from."""
    for column in ("path", "label", "group"):
        if column in table.columns and set(extra) <= {
            level_text(value)
            for value in table[column].dropna().tolist()
            if not isinstance(value, list)
        }:
            return (
                f"They are entries of its column {column!r}: join by that column, and write the "
                "id into each row."
            )
    tails = {os.path.basename(key) for key in table.index}
    if {os.path.basename(key) for key in extra} <= tails:
        return (
            "The names of the files agree: write the whole id, including the source and the folder."
        )
    return "Write the predictions with the ids of weights.parquet."


def cover(
    table: pd.DataFrame,
    judged: Judged,
    predictions: Sequence[pd.DataFrame],
    usable_n: npt.NDArray[np.bool_],
    reasons: Sequence[tuple[str, npt.NDArray[np.bool_]]],
    allow_missing: bool,
) -> Coverage:
    """Count what the predictions cover.

    Images with weight but without a prediction are an error unless ``allow_missing``; ``reasons``
    say why images are not usable.
    """
    needed_n = judged.weight > 0
    missing_n = needed_n & ~usable_n
    if missing_n.any() and not allow_missing:
        counts = [
            f"{int((part_n & needed_n).sum())} {reason}: "
            f"{first_few(judged.key[part_n & needed_n].tolist())}"
            for reason, part_n in reasons
            if (part_n & needed_n).any()
        ]
        raise DataError(
            f"{int(missing_n.sum())} of {int(needed_n.sum())} images ({judged.split}) cannot be "
            f"judged. {'; '.join(counts)}. Predict them too, or add --allow-missing "
            "(allow_missing=True): the figures are then of the other images only, and the "
            "coverage is stated.",
            option="allow_missing",
            count=int(missing_n.sum()),
            ids=judged.key[missing_n].tolist(),
        )
    if not (needed_n & usable_n).any():
        raise DataError(
            f"not one image ({judged.split}) has a weight, a prediction and a truth: there is "
            "nothing to judge.",
            count=0,
        )
    own = set(judged.key.tolist())
    known = set(table.index.tolist())
    keys = set().union(*(of_model.index.tolist() for of_model in predictions))
    return Coverage(
        images=int(needed_n.sum()),
        judged=int((needed_n & usable_n).sum()),
        missing=int(missing_n.sum()),
        weight=float(judged.weight[needed_n & usable_n].sum() / judged.weight.sum()),
        zero=int((~needed_n).sum()),
        elsewhere=len((keys & known) - own),
        extra=len(keys - known),
    )
