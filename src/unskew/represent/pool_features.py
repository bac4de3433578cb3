"""`represent_images`: the pool with columns of numbers computed from its images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Amount, Jobs, Share, checked
from unskew.engine.progress import show_progress
from unskew.errors import DataError, no_image_left, too_many_unreadable
from unskew.files.row_file import RowFile
from unskew.records import Pool
from unskew.records.arrays import Bools
from unskew.records.pool import JoinedImages
from unskew.records.pool_table import ROLES
from unskew.represent.base import Representation, column_names
from unskew.represent.decode import MAX_PIXELS
from unskew.represent.image_tasks import KnownContent, Worker
from unskew.represent.user_functions import Feature, read_representations
from unskew.represent.workers import Results, count_jobs, open_shelves, run_rows

if TYPE_CHECKING:
    import pandas as pd


# Rows that are moved at a time: 200 MB of squares of 128 pixels.
_MOVED_ROWS = 4096


class ImageOptions(TypedDict, total=False):
    """How images are read: see `represent_images`."""

    cache: str | os.PathLike[str] | None
    jobs: Jobs | None
    tolerance: Share
    max_pixels: Amount | None
    progress: bool | None


@overload
def represent_images(
    pool: Pool,
    features: Feature | Iterable[Feature],
    *,
    content: bool = ...,
    **options: Unpack[ImageOptions],
) -> Pool: ...


@overload
def represent_images(
    pool: Sequence[Pool],
    features: Feature | Iterable[Feature],
    *,
    content: bool = ...,
    **options: Unpack[ImageOptions],
) -> tuple[Pool, ...]: ...


@checked
def represent_images(
    pool: Pool | Sequence[Pool],
    features: Feature | Iterable[Feature],
    *,
    cache: str | os.PathLike[str] | None = None,
    jobs: Jobs | None = None,
    tolerance: Share = 0.01,
    max_pixels: Amount | None = MAX_PIXELS,
    progress: bool | None = None,
    content: bool = False,
) -> Pool | tuple[Pool, ...]:
    """Represent images by a few numbers: add columns such as ``border_hsv_h`` to the pool.

    Parameters
    ----------
    pool : a pool with images; or several (sources and a target sample), which are represented
        together: a PCA is common to them.
    features : names (``"border_hsv"``), names with settings (``{"name": "border_hsv", "width":
        4}``), functions of your own (``"module:function"``, or the function), or `Representation`
        objects. docs/representations.md explains each number.
    cache : folder where values are remembered by the content of the image and the settings. What is
        known is not computed again, an interrupted run continues where it stopped, and a changed
        image is computed again.
    jobs : cores to use; None: all. Threads begin; where there are many files, processes take over
        (not with functions of your own).
    tolerance : share of images that may be unusable. They move from the pool to ``pool.set_aside``,
        each with its reason.
    max_pixels : larger images are not decoded (decompression bombs); None: no limit.
    progress : None shows a progress bar on a terminal, False never, True always.
    content : also add the column ``content``, as `hash_images` does, while the images are being
        read.

    Returns
    -------
    Pool, or a tuple of pools in the same order. Values depend on neither the number of jobs nor the
    order of the images.

    Raises
    ------
    UnreadableError : more images are unusable than is tolerated, or (unless ``tolerance`` is 1) all
        of a source; ``set_aside`` holds them.
    """
    pools = (pool,) if isinstance(pool, Pool) else tuple(pool)
    representations = read_representations(features)
    represented = run_pools(
        pools,
        representations,
        cache=cache,
        jobs=jobs,
        tolerance=tolerance,
        max_pixels=max_pixels,
        progress=progress,
        content=content,
        label="Representing images",
    )
    return represented[0] if isinstance(pool, Pool) else represented


def run_pools(
    pools: tuple[Pool, ...],
    representations: tuple[Representation, ...],
    *,
    content: bool,
    label: str,
    **options: Unpack[ImageOptions],
) -> tuple[Pool, ...]:
    """Read all images of all pools once, and add the columns of the representations.

    With ``content``, add the hashes, too.
    """
    results, usable, aside = run_images(
        pools, representations, content=content, label=label, **options
    )
    hashed = {"content": results.content[usable].astype(str).astype(object)} if content else {}
    return _enter_columns(pools, hashed | _columns(results, usable), usable, aside)


def run_images(
    pools: tuple[Pool, ...],
    representations: tuple[Representation, ...],
    *,
    content: bool,
    label: str,
    cache: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    tolerance: float = 0.01,
    max_pixels: int | None = MAX_PIXELS,
    progress: bool | None = None,
    memory: int | None = None,
) -> tuple[Results, Bools, list[pd.DataFrame]]:
    """Compute the representations of all images of all pools, one after the other.

    Returns the results, which rows are usable, and for each pool a table of those that are not.
    """
    _check(pools, representations, tolerance, max_pixels)
    images = JoinedImages([pool.images for pool in pools if pool.images is not None])
    n_jobs = count_jobs(jobs)
    representations = tuple(one.placed(n_jobs) for one in representations)
    shelves, files = open_shelves(cache, representations)
    results = Results(len(images), representations, shelves, files, hashes=content, memory=memory)
    before = sum(0 if pool.set_aside is None else len(pool.set_aside) for pool in pools)

    def give_up(n_failed: int) -> None:
        if n_failed + before > tolerance * (len(images) + before):
            set_aside = _joined(
                [*(pool.set_aside for pool in pools), *_aside(pools, results.failed)]
            )
            raise too_many_unreadable(set_aside, len(images) + before, tolerance)

    def worker_of(known: KnownContent | None) -> Worker:
        return Worker(images, representations, known, max_pixels)

    with show_progress(label, len(images), progress) as advance:
        run_rows(worker_of, results, jobs=n_jobs, advance=advance, give_up=give_up)
    aside = _aside(pools, results.failed)
    lost = [
        name
        for pool, part in zip(pools, aside, strict=True)
        for name, size in zip(pool.names, pool.sizes, strict=True)
        if (part["source"] == name).sum() == size
    ]
    if lost and (tolerance < 1.0 or len(results.failed) == len(images)):
        raise no_image_left(lost, _joined(aside))
    usable = np.ones(len(images), dtype=bool)
    usable[list(results.failed)] = False
    return results, usable, aside


def compute_rows(
    pool: Pool,
    representation: Representation,
    *,
    label: str = "Representing images",
    memory: int | None = None,
    **options: Unpack[ImageOptions],
) -> tuple[Pool, npt.NDArray[Any]]:
    """Compute one representation that is too wide for columns.

    Returns the pool without unusable images, and (n, d) what `compute` gave for the others;
    ``finish`` is left to the caller. The values are mapped from a temporary file where they are too
    many for the memory; with ``memory``, more megabytes than that are a `RowFile`.
    """
    results, usable, aside = run_images(
        (pool,), (representation,), content=False, label=label, memory=memory, **options
    )
    table = results.values[0]
    assert table is not None  # there is a usable image
    (kept,) = _enter_columns((pool,), {}, usable, aside)
    return kept, _kept(table, usable)


def _check(
    pools: tuple[Pool, ...],
    representations: tuple[Representation, ...],
    tolerance: float,
    max_pixels: int | None,
) -> None:
    if not pools:
        raise DataError(
            "there is no pool whose images could be represented; got an empty sequence.", count=0
        )
    for pool in pools:
        if pool.images is None:
            raise DataError(
                "this pool is a table without images, so nothing can be computed from them. Read "
                "the sources with images (Pool.from_folders, Pool.from_manifest; no `images = "
                "false`), or use columns that the table has."
            )
        for representation in representations:
            taken = [
                column
                for column in representation.columns or (representation.name,)
                if column in pool.frame.columns
            ]
            if taken:
                raise DataError(
                    f"the pool has a column {taken[0]!r} already, which the representation "
                    f"{representation.name!r} would replace. Rename or drop that column, or leave "
                    "out the representation.",
                    column=taken[0],
                )


def _columns(results: Results, usable: Bools) -> dict[str, Any]:
    """Finish the columns of all usable rows."""
    columns: dict[str, Any] = {}
    for representation, table in zip(results.representations, results.values, strict=True):
        assert table is not None  # there is a usable row, and every usable row has been computed
        values = np.asarray(representation.finish(_kept(table, usable)))
        names = representation.columns or (
            (representation.name,)
            if values.shape[1] == 1
            else column_names(representation.name, map(str, range(values.shape[1])))
        )
        if values.shape != (int(usable.sum()), len(names)):
            raise DataError(
                f"{representation.name} has {len(names)} columns for {usable.sum()} images; got an "
                f"array of shape {values.shape}.",
                value=list(values.shape),
            )
        for at, name in enumerate(names):
            columns[name] = (
                values[:, at]
                if name in representation.text_columns
                else values[:, at].astype(np.float64)
            )
    return columns


def _kept(table: Any, usable: Bools) -> Any:
    """Move the usable rows together in place: the table may be too large for a copy."""
    if usable.all():
        return table
    rows = np.flatnonzero(usable)
    for start in range(0, rows.size, _MOVED_ROWS):
        block = rows[start : start + _MOVED_ROWS]
        table[start : start + block.size] = table[block]
    return table.head(rows.size) if isinstance(table, RowFile) else table[: rows.size]


def _enter_columns(
    pools: tuple[Pool, ...],
    columns: Mapping[str, Any],
    usable: Bools,
    aside: Sequence[pd.DataFrame],
) -> tuple[Pool, ...]:
    """Return every pool with its part of the columns, without its unusable rows."""
    import pandas as pd

    entered, first, first_usable = [], 0, 0
    for pool, part in zip(pools, aside, strict=True):
        usable_here = usable[first : first + len(pool)]
        last_usable = first_usable + int(usable_here.sum())
        kept = pool if usable_here.all() else pool.take(usable_here)
        new = {name: values[first_usable:last_usable] for name, values in columns.items()}
        others = kept.frame[[name for name in kept.frame.columns if name not in new]]
        # In one piece: an embedding may have thousands of columns.
        frame = pd.concat([others, pd.DataFrame(new, index=others.index)], axis=1)
        names = dict.fromkeys([*kept.frame.columns, *new])
        ordered = [role for role in ROLES if role in names]
        before = [] if pool.set_aside is None else [pool.set_aside]
        set_aside = pd.concat([*before, part], ignore_index=True) if len(part) else pool.set_aside
        entered.append(
            Pool(
                frame[ordered + [name for name in names if name not in ROLES]],
                kept.images,
                set_aside,
            )
        )
        first, first_usable = first + len(pool), last_usable
    return tuple(entered)


def _aside(pools: tuple[Pool, ...], failed: Mapping[int, str]) -> list[pd.DataFrame]:
    """List for each pool the id, source, path and reason of the images that failed."""
    import pandas as pd

    tables, first = [], 0
    for pool in pools:
        rows = sorted(row - first for row in failed if first <= row < first + len(pool))
        frame = pool.frame.iloc[rows]
        path = frame["path"].tolist() if "path" in frame.columns else [None] * len(rows)
        reason = [failed[row + first] for row in rows]
        tables.append(
            pd.DataFrame(
                {
                    "id": frame["id"].tolist(),
                    "source": frame["source"].astype(str).tolist(),
                    "path": path,
                    "reason": reason,
                }
            )
        )
        first += len(pool)
    return tables


def _joined(tables: Sequence[pd.DataFrame | None]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(
        [table for table in tables if table is not None and len(table)], ignore_index=True
    )
