"""Numbers that were computed elsewhere, such as embeddings: tables joined to the images by id."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unskew.errors import DataError, did_you_mean, first_few
from unskew.files.addresses import local_file
from unskew.records import Pool
from unskew.records.pool_table import ROLES

if TYPE_CHECKING:
    import pandas as pd


def join_features(
    pool: Pool,
    place: str,
    base: str | os.PathLike[str],
    id_column: str,
    *,
    optional: bool = False,
) -> Pool:
    """Add the columns of a table, found by id, that the pool does not have.

    place : a folder or glob of Parquet parts, an address of such, or one table (Parquet, CSV, TSV,
        JSONL); it may have more images than the pool.
    id_column : its column of ids.
    optional : return the pool as it is where the table has none of its images.
    """
    import pandas as pd

    own_id = pool.frame["id"].astype(str)
    pieces = []
    for path in _find_files(place, base):
        frame = _read_file(path, base)
        if id_column not in frame.columns:
            raise DataError(
                f"the table of features {path!r} has no column {id_column!r}, the ids of the "
                f"images; its columns are {first_few(list(frame.columns), 12)}."
                f"{did_you_mean(id_column, frame.columns)}",
                path=path,
                column=id_column,
            )
        text = frame[id_column].astype(str)
        kept = text.isin(own_id)
        pieces.append(frame[kept].drop(columns=id_column).set_index(text[kept]))
    table = pd.concat(pieces)
    twice = table.index[table.index.duplicated()].tolist()
    if twice:
        raise DataError(
            f"the features of {first_few(twice)} are in {place!r} twice. Keep one row for each "
            "image.",
            path=place,
            ids=twice,
            count=len(twice),
        )
    if optional and table.empty:
        return pool
    missing = own_id[~own_id.isin(table.index)].tolist()
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(own_id):,} images have no row in {place!r}, such as "
            f"{first_few(missing)}. Their ids are compared as text.",
            path=place,
            ids=missing[:100],
            count=len(missing),
        )
    new = [name for name in table.columns if name not in ROLES and name not in pool.frame.columns]
    if not new:
        raise DataError(
            f"{place!r} has no column that the images do not have: "
            f"{first_few([str(name) for name in table.columns])}.",
            path=place,
            columns=[str(name) for name in table.columns],
        )
    joined = table[new].reindex(own_id).reset_index(drop=True)
    return Pool(pd.concat([pool.frame, joined], axis="columns"), pool.images)


def _find_files(place: str, base: str | os.PathLike[str]) -> list[str]:
    from unskew.sources.parquet_parts import find_parts

    is_table = "://" not in place and os.path.isfile(os.path.join(base, place))
    return [place] if is_table else find_parts(place, base)


def _read_file(path: str, base: str | os.PathLike[str]) -> pd.DataFrame:
    from unskew.sources.tables import read_table

    with local_file(base, path) as file:
        return read_table(file, path).frame
