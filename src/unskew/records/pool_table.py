"""Tables and arrays -> `Pool`: one row for each image, with a source and a stable id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import DataError, complex_columns, did_you_mean, first_few
from unskew.records import Pool
from unskew.records.design_weights import DESIGN_WEIGHT, check_design_weights, scale_design_weights
from unskew.records.levels import text_levels
from unskew.records.pool import Images
from unskew.records.vector_columns import expand_vectors

if TYPE_CHECKING:
    import pandas as pd

# The columns every stage knows by name, in the order in which a pool's table shows them.
ROLES = ("id", "source", "label", "group", "split", "path", "content", "design_weight")
SET_ASIDE = ("id", "source", "path", "reason")


def pool_from_frame(
    frame: pd.DataFrame,
    source: str,
    label: str | None,
    id: str | None,
    group: str | None,
    split: str | None,
    design_weight: str | None = None,
) -> Pool:
    """Rename the columns to their roles; a column already named like a role has that role."""
    named = {"id": id, "source": source, "label": label, "group": group, "split": split}
    named["design_weight"] = design_weight
    _check_columns(frame)
    renamed: dict[str, str] = {}
    for role, column in named.items():
        # The default label is a guess: a pool without labels is a pool, too.
        if column is None or (
            role == "label" and column == "label" and column not in frame.columns
        ):
            continue
        if column not in frame.columns:
            raise DataError(
                f"the table has no column {column!r}, which was named as the {role} of the "
                "images; its columns are "
                f"{first_few(list(frame.columns), 12)}.{did_you_mean(column, frame.columns)}",
                column=column,
                columns=[str(name) for name in frame.columns],
            )
        if column != role and role in frame.columns:
            raise DataError(
                f"the column {column!r} was named as the {role} of the images, but the table also "
                f"has a column {role!r}. Drop or rename one of the two.",
                columns=[column, role],
            )
        if column in renamed:
            raise DataError(
                f"the column {column!r} was named both as {renamed[column]} and as {role}; one "
                "column has one role.",
                column=column,
            )
        renamed[column] = role
    read = frame.rename(columns=renamed)
    if "id" not in read.columns:
        read = read.assign(id=frame.index)
    first = [role for role in ROLES if role in read.columns]
    return Pool(read[first + [column for column in read.columns if column not in ROLES]])


def pool_of_images(
    frame: pd.DataFrame, images: Images | None, set_aside: Sequence[tuple[Any, str, str, str]] = ()
) -> Pool:
    """Make a pool of a table whose columns have their roles already.

    ``set_aside``: id, source, path and reason of each image that cannot be used.
    """
    import pandas as pd

    first = [role for role in ROLES if role in frame.columns]
    ordered = frame[first + [column for column in frame.columns if column not in ROLES]]
    return Pool(
        ordered,
        images,
        pd.DataFrame(list(set_aside), columns=list(SET_ASIDE)) if set_aside else None,
    )


def pool_from_arrays(source: Any, label: Any, columns: dict[str, Any], images: Any = None) -> Pool:
    """Make a pool of arrays of one length; (n, d) arrays become columns name_0 … name_{d-1}."""
    import pandas as pd

    n = len(source)
    data = columns_from_arrays({"source": source, "label": label, **columns}, n)
    pool = pool_from_frame(pd.DataFrame(data), "source", "label", None, None, None)
    if images is None:
        return pool
    from unskew.sources.readers import images_in_memory

    if len(images) != n:
        raise DataError(
            f"every image has a source and every row an image; got {len(images)} images and {n} "
            "entries in source.",
            count=len(images),
        )
    return Pool(pool.frame, images_in_memory(images))


def columns_from_arrays(arrays: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Turn arrays of ``n`` entries into columns; None gives none."""
    import pandas as pd

    data: dict[str, Any] = {}
    for name, values in arrays.items():
        if values is None:
            continue
        if len(values) != n:
            raise DataError(
                f"every column has one entry for each image; source has {n}, but {name!r} has "
                f"{len(values)}.",
                column=name,
                count=len(values),
            )
        if name == "label" and any(isinstance(value, list | tuple) for value in values):
            # Several labels of one image are a list, not a matrix, even where every image has the
            # same number of them.
            data[name] = pd.Series([list(value) for value in values], dtype=object)
        elif np.ndim(values) == 2 and name in ROLES:
            raise DataError(
                f"{name} has one entry for each image; got shape {np.shape(values)}. Several "
                "labels of an image are a list of them.",
                column=name,
                value=list(np.shape(values)),
            )
        elif np.ndim(values) == 2:
            matrix = np.asarray(values)
            data |= {f"{name}_{d}": matrix[:, d] for d in range(matrix.shape[1])}
        elif np.ndim(values) > 2:
            raise DataError(
                f"a column has one or two dimensions; {name!r} has shape {np.shape(values)}. "
                "Flatten it, or summarise each image (pixels are given as images=…).",
                column=name,
            )
        else:
            data[name] = values.array if isinstance(values, pd.Series) else values
    return data


def checked_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy whose source is categorical: text, in the order of `Pool.names`."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"a pool is made of a pandas DataFrame; got {type(frame).__name__}. Arrays go through "
            "Pool.from_arrays."
        )
    # Settings name columns by text; pandas.DataFrame(array) numbers its columns 0, 1, …
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    _check_columns(frame)
    frame = expand_vectors(frame, ROLES)
    for role in ("id", "source"):
        if role not in frame.columns:
            raise DataError(
                f"a pool needs a column {role!r}; this table has "
                f"{first_few(list(frame.columns), 12)}. See Pool.from_frame.",
                column=role,
            )
    if len(frame) == 0:
        raise DataError(
            "the table has no rows: there is not a single image. Were the sources read, and did a "
            "filter drop everything?"
        )
    _check_ids(frame["id"])
    for role in ("source", "group"):
        _check_present(frame, role)
    names, code_n = text_levels(frame["source"], "source")
    if DESIGN_WEIGHT in frame.columns:
        check_design_weights(frame)
        scale_design_weights(frame[DESIGN_WEIGHT].to_numpy(), code_n, tuple(names))
    # A new index, so that rows are found by position or by id, never by the user's index.
    checked = frame.reset_index(drop=True)
    checked["source"] = pd.Categorical.from_codes(code_n, categories=pd.Index(names))
    return checked


@checked
def name_design_weight(pool: Pool, column: str) -> Pool:
    """Give a column of the pool the role of the design weight."""
    if column == DESIGN_WEIGHT and column in pool.frame.columns:
        return pool
    if column not in pool.frame.columns or DESIGN_WEIGHT in pool.frame.columns:
        raise DataError(
            f"{column!r} was named as the design weight of the images, but "
            + (
                f"the table also has a column {DESIGN_WEIGHT!r}. Drop or rename one of the two."
                if DESIGN_WEIGHT in pool.frame.columns
                else f"there is no such column; the columns are {first_few(pool.attributes, 12)}."
                f"{did_you_mean(column, pool.attributes)}"
            ),
            column=column,
            option=DESIGN_WEIGHT,
            columns=[str(name) for name in pool.frame.columns],
        )
    return replace(pool, frame=pool.frame.rename(columns={column: DESIGN_WEIGHT}))


def check_image_count(pool: Pool) -> None:
    """Check that there is one image for each row."""
    if pool.images is not None and len(pool.images) != len(pool.frame):
        raise DataError(
            f"a pool has one image for each row of its table; got {len(pool.images)} images and "
            f"{len(pool.frame)} rows. To choose rows use pool.take(rows), which takes their images "
            "along.",
            count=len(pool.images),
        )


def take_pool_rows(pool: Pool, rows: Any) -> Pool:
    """Return these rows of the table and their images, without the sources that have none left."""
    at = np.asarray(rows)
    if at.ndim != 1:
        raise DataError(
            f"rows are positions, or a mask, in one dimension; got shape {at.shape}.",
            option="rows",
            value=list(at.shape),
        )
    at = np.flatnonzero(at) if at.dtype == np.bool_ else at.astype(np.int64)
    frame = pool.frame.iloc[at].reset_index(drop=True)
    frame["source"] = frame["source"].cat.remove_unused_categories()
    return Pool(frame, None if pool.images is None else pool.images.take(at))


def _check_columns(frame: pd.DataFrame) -> None:
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice:
        raise DataError(
            f"two columns of the table have the same name: {first_few(twice)}. Rename or drop one "
            "of them.",
            columns=twice,
        )
    kinds = zip(frame.columns, frame.dtypes, strict=True)
    complex_ones = [name for name, dtype in kinds if dtype.kind == "c"]
    if complex_ones:
        raise complex_columns(complex_ones)


def _check_ids(id_n: pd.Series[Any]) -> None:
    missing = int(id_n.isna().sum())
    if missing:
        raise DataError(
            f"every image needs an id, because weights are joined to images by it; {missing} of "
            f"{len(id_n)} have none.",
            count=missing,
        )
    twice = id_n[id_n.duplicated()].unique().tolist()
    if twice:
        raise DataError(
            f"ids must be unique, because weights are joined to images by them; {len(twice)} "
            f"occur more than once: {first_few(twice)}. Was a table read twice, or does the id "
            "repeat from source to source (then put the source in front of it)?",
            ids=twice,
        )


def _check_present(frame: pd.DataFrame, role: str) -> None:
    if role not in frame.columns:
        return
    missing_n = frame[role].isna()
    if missing_n.any():
        way_out = {
            "source": "Every image needs the name of its database.",
            "group": "Give images that belong to no group one of their own, such as their id.",
        }[role]
        ids = frame.loc[missing_n, "id"].tolist()
        raise DataError(
            f"{role} is missing for {len(ids)} of {len(frame)} images (id {first_few(ids)}). "
            f"{way_out}",
            column=role,
            ids=ids,
        )
