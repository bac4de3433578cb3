"""Can train teach the classes that a model is judged on? Splits changed or refused if it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, first_few
from unskew.forecasting.probe_data import read_labels
from unskew.records import Ints, Pool
from unskew.splits.folds import unit_codes


def teach_every_class(pool: Pool, train: str, held_out: str) -> tuple[Pool, str]:
    """Move images of classes that train lacks from the held-out split to train: (pool, words).

    Of every such class the smallest unit (images that stay together) is moved. Where nothing is
    left to judge a model on, that is an error: each class is then a unit of its own, as where
    labels are persons and groups keep the images of a person together.
    """
    classes, label_n = read_labels(pool)
    units = unit_codes(pool.frame)
    unit_n = np.arange(len(pool)) if units is None else units
    split_n = pool.frame["split"].to_numpy(dtype=object).copy()
    size_u = np.bincount(unit_n)
    moved = []
    for m, name in enumerate(classes):
        is_own_n = has_class(label_n, m)
        own = unit_n[is_own_n]
        if own.size and not (split_n[is_own_n] == train).any():
            split_n[unit_n == own[np.argmin(size_u[own])]] = train
            moved.append(name)
    if not moved:
        return pool, ""
    if not (split_n == held_out).any():
        raise _nothing_learned(pool, held_out, train, moved)
    words = (
        f"Images of {first_few(moved)} were all in {held_out}, because images that belong together "
        f"(groups, copies) stay in one split: some were moved to {train}, or no model could learn "
        f"{'it' if len(moved) == 1 else 'them'}."
    )
    return pool.with_columns({"split": split_n}), words


def has_class(label: npt.NDArray[Any], m: int) -> npt.NDArray[np.bool_]:
    """Tell of every image whether it is of class m, or has label m."""
    return np.asarray(label[:, m] == 1 if label.ndim == 2 else label == m)


def untaught_labels(
    label_nm: npt.NDArray[Any], labels: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the labels that no image is known to have, and those that none is known to lack."""
    pairs = list(zip(labels, label_nm.T, strict=True))
    never = [name for name, label_n in pairs if not (label_n == 1).any()]
    return never, [
        name for name, label_n in pairs if not (label_n == 0).any() and name not in never
    ]


def check_learnable(
    pool: Pool,
    classes: Sequence[str],
    label_n: npt.NDArray[Any],
    train: Ints,
    held_out: Ints,
    names: tuple[str, str],
) -> None:
    """Refuse a held-out split without any image of a class that train can teach.

    Of labels, any number of which an image may have, refuse a train that can teach none.

    ``train`` and ``held_out`` are the rows that count, ``names`` those of the two splits.
    """
    if label_n.ndim == 2:
        never, always = untaught_labels(label_n[train], classes)
        if len(never) + len(always) == len(classes):
            raise DataError(
                f"nothing can be learned: there is no label that some images of {names[0]} with "
                f"weight have and others lack ({first_few(list(classes))}).",
                column="label",
                levels=list(classes),
            )
    elif not np.isin(label_n[held_out], label_n[train]).any():
        absent = [classes[m] for m in np.unique(label_n[held_out])]
        raise _nothing_learned(pool, names[1], names[0], absent)


def _nothing_learned(pool: Pool, held_out: str, train: str, classes: Sequence[str]) -> DataError:
    together = "group" in pool.frame.columns
    why = ": images of a group stay together, and each class has groups of its own" * together
    way = (
        f"If labels are persons or objects to be recognised again, remove group from [sources], or "
        f"make splits with images of each in {train} and {held_out} (`unskew split`). If the model "
        "shall tell apart persons that it has never seen, no classifier can be judged: train "
        "elsewhere, and judge pairs of images (`unskew evaluate OUT --pairs`)."
    )
    return DataError(
        f"{train} and {held_out} have no class in common ({held_out} has "
        f"{first_few(list(classes))}){why}. Accuracy would be 0 % whatever is "
        f"learned. {way}",
        column="label",
        levels=list(classes),
        count=len(classes),
    )
