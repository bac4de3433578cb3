"""What a probe learns from: features, labels as codes, and which images stay together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, first_few
from unskew.learn.probe import Scaling, scale_features
from unskew.records import Floats, Ints, Pool
from unskew.records.clustered_mean import effective_size
from unskew.records.levels import MISSING, by_value, holds_lists, text_levels
from unskew.sources.label_sets import label_matrix
from unskew.splits.folds import content_codes, find_copies, join_units

if TYPE_CHECKING:
    import pandas as pd

# Identical rows of so many features are copies of one image; of fewer they may be coincidence.
_ENOUGH_FEATURES = 8


@dataclass(frozen=True, eq=False)
class ProbeData:
    """The images of a pool as a probe sees them, row by row.

    Attributes
    ----------
    X : (n, d) features.
    label : (n,) code of each image's class, an index into ``classes``; or, where an image may have
        any number of labels, (n, M) 1 where it has one, 0 where not, NaN where that is unknown.
    classes : the M classes, or labels, as text.
    unit : (n,) images of one unit (a group, copies of one image, chains of these) stay on one side
        of every fold.
    order : (n,) the rows in the order of their ids, so that results do not depend on the order of
        the rows.
    """

    X: npt.NDArray[Any] = field(repr=False)
    label: npt.NDArray[Any] = field(repr=False)
    classes: tuple[str, ...]
    unit: Ints = field(repr=False)
    order: Ints = field(repr=False)

    @property
    def n_units(self) -> int:
        return int(self.unit.max()) + 1

    @property
    def has_label_sets(self) -> bool:
        """Tell whether an image may have any number of labels, instead of one class."""
        return self.label.ndim == 2

    @property
    def stratum(self) -> Ints:
        """(n,) the same number for images of one class, or of the same labels."""
        if not self.has_label_sets:
            return self.label
        code_n = np.unique(np.nan_to_num(self.label, nan=2.0), axis=0, return_inverse=True)[1]
        return np.asarray(code_n.reshape(-1), dtype=np.int64)

    def of_label(self, m: int) -> tuple[Ints, ProbeData]:
        """Return the rows of which label m is known, and their data with two classes."""
        rows = np.flatnonzero(~np.isnan(self.label[:, m]))
        own = self.take(rows)
        code_r = own.label[:, m].astype(np.int64)
        return rows, replace(own, label=code_r, classes=("absent", "present"))

    def take(self, rows: Ints) -> ProbeData:
        """Return the images of these rows; classes keep their codes."""
        unit_m = np.unique(self.unit[rows], return_inverse=True)[1].astype(np.int64)
        rank_n = np.empty(self.order.size, dtype=np.int64)
        rank_n[self.order] = np.arange(self.order.size)
        return ProbeData(
            self.X[rows], self.label[rows], self.classes, unit_m, np.argsort(rank_n[rows])
        )


def gather_probe_data(
    pool: Pool,
    features: Any,
    *,
    scaling: Scaling | None,
    keep_copies_together: bool | None,
    scaled: bool = True,
) -> ProbeData:
    """Gather features as a matrix, labels as codes, and units.

    Parameters
    ----------
    features : names (or beginnings) of columns, or an (n, d) matrix in the order of the pool's rows
        (an embedding, pixels).
    scaling : of `scale_features`. None: "fourth_root" for a matrix and for the numbered columns of
        one representation (embedding_0, embedding_1, …), whose sizes mean something relative to one
        another; "standard" for columns of different kinds.
    keep_copies_together : images whose features are identical are copies of one image; None: only
        where there are at least eight features. The same ``content`` always means copies.
    scaled : False: unscaled features, for learners that scale them themselves.
    """
    X_nd = _matrix(pool, features)
    classes, label_n = read_labels(pool)
    if keep_copies_together is None:
        keep_copies_together = X_nd.shape[1] >= _ENOUGH_FEATURES
    group_n = pool.frame["group"].to_numpy() if "group" in pool.frame.columns else None
    unit_n = join_units(
        len(pool),
        group_n,
        content_codes(pool.frame),
        find_copies(X_nd) if keep_copies_together else None,
    )
    order_n = np.argsort(pool.frame["id"].astype(str).to_numpy(dtype=object), kind="stable")
    if scaled:
        X_nd = scale_features(X_nd, scaling or fitting_scale(pool, features))
    return ProbeData(X_nd, label_n, classes, unit_n, order_n)


def named_columns(pool: Pool, features: Any) -> list[str]:
    """Return the columns that names, or their beginnings, mean; none of a matrix."""
    from unskew.bias.features import expand_features

    if not _are_names(features):
        return []
    return expand_features(pool.frame, [features] if isinstance(features, str) else list(features))


def fitting_scale(pool: Pool, features: Any) -> Scaling:
    """Choose the scaling: "fourth_root" for one representation, "standard" for mixed columns."""
    names = named_columns(pool, features)
    if not names:
        return "fourth_root"
    stems = {
        name.rpartition("_")[0] if name.rpartition("_")[2].isdecimal() else name for name in names
    }
    return "fourth_root" if len(stems) == 1 else "standard"


def _are_names(features: Any) -> bool:
    return isinstance(features, str) or (
        isinstance(features, Sequence) and all(isinstance(name, str) for name in features)
    )


def read_labels(pool: Pool) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
    """Return the classes and (n,) codes; or the labels, any number of which an image may have.

    Of these (n, M) 1 where an image has one, 0 where not, NaN where that is unknown.
    """
    if "label" not in pool.frame.columns or not holds_lists(pool.frame["label"]):
        return read_classes(pool)
    return read_label_sets(pool)


def read_label_sets(pool: Pool, *, varying: bool = True) -> tuple[tuple[str, ...], Floats]:
    """Return the labels, and (n, M) which of them images have; of each image some must be known.

    ``varying``: at least one is needed that some images have and others lack.
    """
    labels, present_nm = label_matrix(pool)
    nothing = np.flatnonzero(np.isnan(present_nm).all(axis=1)) if labels else np.zeros(0, int)
    if nothing.size:
        raise DataError(
            f"of {nothing.size} of {len(pool)} images no label is known. Leave those out.",
            column="label",
            count=int(nothing.size),
        )
    if len(labels) > max(2, len(pool) // 2):
        raise DataError(
            f"{len(pool)} images have {len(labels)} different labels ({first_few(labels)}): are "
            "these labels, and are they separated (label_separator)?",
            column="label",
            count=len(labels),
        )
    if varying and not ((present_nm == 1).any(axis=0) & (present_nm == 0).any(axis=0)).any():
        raise DataError(
            "nothing can be learned: there is no label that some images have and others lack "
            f"({first_few(labels) or 'no image has any'}).",
            column="label",
            levels=list(labels),
        )
    return labels, present_nm


def read_classes(pool: Pool, least: int = 2) -> tuple[tuple[str, ...], Ints]:
    """Return the classes as text, and the code of every image.

    Every image needs one label, and there must be at least ``least`` classes.
    """
    if "label" not in pool.frame.columns:
        raise DataError(
            "accuracy needs the label of every image, and these have none. Labels come from a "
            "folder for each class, or from a table with a column label (in Python: "
            "Pool.from_frame(…, label=…)).",
            column="label",
        )
    column = pool.frame["label"]
    if holds_lists(column):
        raise DataError(
            "images have any number of labels (lists), and one class of each is needed here. Take "
            "one label at a time, as present or absent.",
            column="label",
        )
    levels, code_n = text_levels(column, "label")
    if MISSING in levels:
        count = int((code_n == levels.index(MISSING)).sum())
        raise DataError(
            f"accuracy needs the label of every image; {count} of {len(pool)} have none. Leave "
            "those out.",
            column="label",
            count=count,
        )
    if len(levels) < least:
        raise DataError(
            f"there is one class only ({levels[0]}): nothing can be learned.",
            column="label",
            levels=list(levels),
        )
    if least > 1 and len(levels) > max(2, len(pool) // 2):
        raise DataError(
            f"label has {len(levels)} values for {len(pool)} images ({first_few(levels)}): are "
            "these classes?",
            column="label",
            count=len(levels),
        )
    # By name (numbers by value), so that the order of the rows does not matter.
    order = sorted(range(len(levels)), key=lambda at: by_value(levels[at]))
    rank_m = np.empty(len(levels), dtype=np.int64)
    rank_m[order] = np.arange(len(levels))
    return tuple(levels[at] for at in order), rank_m[code_n]


def _matrix(pool: Pool, features: Any) -> npt.NDArray[Any]:
    """Return (n, d) finite numbers."""
    if features is None:
        raise ConfigError(
            "features says what the probe learns from: names of columns, or a matrix with a row "
            "for each image (an embedding, pixels). The pool has "
            f"{first_few(pool.attributes, 12) or 'no columns but roles'}.",
            option="features",
            columns=list(pool.attributes),
        )
    if _are_names(features):
        return _column_matrix(
            pool.frame, [features] if isinstance(features, str) else list(features)
        )
    try:
        X_nd = np.asarray(features)
    except ValueError:
        raise DataError(
            "features is a matrix; got rows of unequal length.", option="features"
        ) from None
    if X_nd.ndim < 2 or X_nd.shape[0] != len(pool) or X_nd.dtype.kind not in "fiub":
        raise DataError(
            f"features is a matrix of numbers with one row for each of the {len(pool)} images, in "
            f"the order of the pool; got shape {X_nd.shape} of {X_nd.dtype}.",
            option="features",
            count=len(X_nd) if X_nd.ndim else 0,
            limit=len(pool),
        )
    X_nd = X_nd.reshape(len(pool), -1)
    if X_nd.dtype not in (np.float32, np.float64):
        X_nd = X_nd.astype(np.float64 if X_nd.dtype.itemsize > 2 else np.float32)
    if not np.isfinite(X_nd).all():
        bad = np.flatnonzero(~np.isfinite(X_nd).all(axis=1))
        raise DataError(
            f"features must be finite; those of {bad.size} images are not, such as "
            f"{pool.frame['id'].iloc[bad[0]]}.",
            option="features",
            id=str(pool.frame["id"].iloc[bad[0]]),
            count=int(bad.size),
        )
    return X_nd


def _column_matrix(frame: pd.DataFrame, features: list[str]) -> npt.NDArray[Any]:
    """Read numbers unchanged, and levels as indicators of all but the first."""
    from unskew.bias.features import expand_features, is_numeric, learn_column, read_numbers

    names = expand_features(frame, features, "the probe")
    roles = ("label", "id", "source", "split", "path", "content", "design_weight")
    leaking = [name for name in names if name in roles]
    if leaking:
        raise ConfigError(
            f"features are what a model sees of an image, and {leaking[0]!r} is not; leave it out.",
            option="features",
            column=leaking[0],
        )
    blocks = [
        read_numbers(frame[name], name)[:, None]
        if is_numeric(frame[name])
        else learn_column(frame, name).read(frame)
        for name in names
    ]
    X_nd = np.concatenate(blocks, axis=1)
    if not X_nd.shape[1]:
        raise DataError(
            f"{first_few(names)} have one level each: there is nothing to learn from.",
            columns=names,
        )
    return X_nd


def class_sizes(data: ProbeData, weight_n: Floats) -> tuple[dict[str, float], dict[str, float]]:
    """Compute the target share of every class, and the effective number of units behind it."""
    share, ess, whole = {}, {}, 1.0
    for code, name in enumerate(data.classes):
        own_n = data.label[:, code] if data.has_label_sets else data.label == code
        own = np.flatnonzero(own_n == 1)
        if data.has_label_sets:
            whole = float(weight_n[~np.isnan(own_n)].sum())
        share[name] = float(weight_n[own].sum()) / whole
        ess[name] = effective_size(per_unit(data.unit[own], weight_n[own])) if own.size else 0.0
    return share, ess


def per_unit(unit_n: Ints, weight_n: Floats) -> Floats:
    """Sum the weights of every unit that occurs."""
    return np.asarray(
        np.bincount(np.unique(unit_n, return_inverse=True)[1], weights=weight_n), dtype=np.float64
    )
