"""Weights in formats that other tools read: tables, class weights, images with their weights."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.engine.arguments import Amount, Count, checked
from unskew.errors import ConfigError, DataError, MixedResultsError, did_you_mean, first_few
from unskew.files.atomic import written_whole
from unskew.files.checksums import check_files
from unskew.files.fingerprints import fingerprint_file
from unskew.files.locks import path_locked
from unskew.files.plain_json import write_json
from unskew.files.spreadsheet_text import guard_formula
from unskew.records import Pool
from unskew.records.levels import find_positions, level_text, list_ids
from unskew.weigh.weights_table import COLUMNS, is_list

if TYPE_CHECKING:
    import pandas as pd

# The name of each format's file or folder, next to the weights it was made from.
PLACES = {
    "csv": "weights.csv",
    "jsonl": "weights.jsonl",
    "class-weights": "class-weights.json",
    "hf": "huggingface",
    "webdataset": "webdataset",
    "mixture": "mixture",
}
NEEDS_IMAGES = ("hf", "webdataset")
_FOLDERS = (*NEEDS_IMAGES, "mixture")

# Weights that differ by less than this, relatively, are the same: rounding of sums.
_SAME = 1e-9


@dataclass(frozen=True)
class Export:
    """What was written: the file or folder, the number of images, and notes for the reader."""

    path: Path
    images: int
    notes: tuple[str, ...] = ()


@checked
def export_weights(
    table: pd.DataFrame,
    to: str,
    path: str | PathLike[str],
    *,
    pool: Pool | None = None,
    overwrite: bool = False,
    guard_formulas: bool = True,
    shard_bytes: Amount = 256 * 2**20,
    cells: Count | None = None,
    bias_left: dict[str, float] | None = None,
    progress: bool | None = None,
) -> Export:
    """Write weights in another format, atomically.

    Parameters
    ----------
    table : `unskew.weigh.weights_table.read_weights_table` of a run: id, source, path, label,
        group, split, weight, sample_weight.
    to : "csv" and "jsonl" (one row for each image), "class-weights" (JSON, or CSV where ``path``
        ends so: the sample weight of each label in each split, where weights depend on nothing
        else), "hf" (a folder that Hugging Face's ``imagefolder`` reads), "webdataset" (tar shards),
        "mixture" (a folder: images of one source and nearly one weight in cells, a list of each,
        and ``mixture.json`` with the shares to mix them in, as several tools spell them).
    path : the file or folder to write.
    pool : the images, for "hf" and "webdataset"; joined by id.
    overwrite : replace an existing file or folder; otherwise that is an error.
    guard_formulas : in CSV, text that a spreadsheet would run as a formula (it begins with = + - @
        and is no number) gets an apostrophe in front, as spreadsheets write text. JSONL and Parquet
        keep such text unchanged.
    shard_bytes : a shard of "webdataset" is closed before it grows beyond this.
    cells : of "mixture": the most cells. Default: as many as it takes for weights within a cell to
        differ by at most 5%.
    bias_left : of "mixture": how far one number per source misses what is known of the target, by
        what it is; written with what the table itself tells.
    progress : a bar while images are written; None: where the error stream is a terminal.
    """
    lacking = [name for name in COLUMNS if name not in table.columns]
    if lacking:
        raise DataError(f"the table of weights lacks {first_few(lacking)}.", columns=lacking)
    output = Path(path)
    _check_export(to, output, overwrite)
    if cells is not None and to != "mixture":
        raise ConfigError(
            f"cells belong to the format mixture; this is {to}.", option="--cells", value=cells
        )
    with path_locked(output):
        _check_export(to, output, overwrite)  # another export may have ended in between
        if to == "mixture":
            from unskew.runs.export_mixture import write_mixture

            return write_mixture(table, output, guard_formulas, cells=cells, bias_left=bias_left)
        return _write_export(table, to, output, pool, guard_formulas, shard_bytes, progress)


def export_parts(
    tables: Iterable[pd.DataFrame], to: str, output: Path, *, overwrite: bool = False
) -> Export:
    """Write weights that come in several tables, of which one is in memory at a time."""
    _check_export(to, output, overwrite)
    if to not in _BY_TABLE:
        raise ConfigError(
            f"{to} needs the weights of all images at once, and these are in parts; part by part "
            f"there are {', '.join(_BY_TABLE)}. If they fit into memory, weigh again with [engine] "
            "subsample of at least the number of images; or weigh a subsample: pool.sample(n) in "
            "Python.",
            option="--to",
            value=to,
            allowed=list(_BY_TABLE),
        )
    with path_locked(output):
        _check_export(to, output, overwrite)
        return _BY_TABLE[to](tables, output, True)


def _write_export(
    table: pd.DataFrame,
    to: str,
    output: Path,
    pool: Pool | None,
    guard_formulas: bool,
    shard_bytes: int,
    progress: bool | None,
) -> Export:
    if to in NEEDS_IMAGES:
        from unskew.runs.export_images import write_image_folder, write_shards

        chosen = _images_of(table, pool, to)
        if to == "hf":
            return write_image_folder(table, chosen, output, progress)
        return write_shards(table, chosen, output, shard_bytes, progress)
    return _BY_TABLE[to]([table], output, guard_formulas)


def _check_export(to: str, output: Path, overwrite: bool) -> None:
    if to not in PLACES:
        raise ConfigError(
            f"weights are exported to {', '.join(PLACES)}; got {to!r}.{did_you_mean(to, PLACES)}",
            option="--to",
            value=to,
            allowed=list(PLACES),
        )
    if output.exists() and not overwrite:
        raise DataError(
            f"{str(output)!r} exists already. Pass overwrite=True (--overwrite) to replace it, or "
            "give another name.",
            path=str(output),
        )
    if output.is_dir() != (to in _FOLDERS) and output.exists():
        raise DataError(
            f"{to} writes a {'folder' if to in _FOLDERS else 'file'}, but {str(output)!r} is "
            "not one. Give another name.",
            path=str(output),
        )


def _images_of(table: pd.DataFrame, pool: Pool | None, to: str) -> Pool:
    """Return the rows of the pool that the table lists, in its order."""
    if pool is None or pool.images is None:
        raise DataError(
            f"{to} contains the images themselves, but these weights come from a table without "
            "images. Use csv or jsonl.",
            option="--to",
            value=to,
        )
    wanted, owned = list_ids(table["id"]), list_ids(pool.frame["id"])
    return pool.take(find_positions(wanted, owned, of="the weights", among="the sources"))


def plain_rows(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows as values that JSON can hold; missing ones are None."""
    columns = [
        map(_plain_value, table[name].tolist(), table[name].isna().tolist()) for name in COLUMNS
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(COLUMNS, values, strict=True))


def _plain_value(value: Any, missing: bool) -> Any:
    if is_list(value):
        return [level_text(entry) for entry in value]
    if missing:
        return None
    return value if isinstance(value, str | int | float) else str(value)


def _write_jsonl(tables: Iterable[pd.DataFrame], path: Path, guard: bool) -> Export:
    images = 0
    with written_whole(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
        for table in tables:
            for row in plain_rows(table):
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            images += len(table)
    return Export(path, images)


def _write_csv(tables: Iterable[pd.DataFrame], path: Path, guard: bool) -> Export:
    cell, images = CsvCells(guard), 0
    with written_whole(path) as new, new.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for table in tables:
            writer.writerows([cell(value) for value in row.values()] for row in plain_rows(table))
            images += len(table)
    return Export(path, images, cell.notes())


class CsvCells:
    """Values as cells of CSV: lists as JSON, numbers with all digits, formulas made harmless."""

    def __init__(self, guard: bool) -> None:
        self.guard, self.count = guard, 0

    def __call__(self, value: Any) -> str:
        """Return the text of one cell."""
        if value is None:
            return ""
        if isinstance(value, float):
            return repr(value)
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
        cell = str(guard_formula(text)) if self.guard else text
        self.count += cell != text
        return cell

    def notes(self) -> tuple[str, ...]:
        """Return what to know about the cells that were written."""
        if not self.count:
            return ()
        return (
            f"{self.count} cells begin like a formula (= + - @) and got an apostrophe in front; "
            "jsonl keeps them unchanged.",
        )


def _write_class_weights(tables: Iterable[pd.DataFrame], path: Path, guard: bool) -> Export:
    sums: dict[str, list[pd.DataFrame]] = {}
    images = 0
    for table in tables:
        for split, rows in split_rows(table).items():
            sums.setdefault(split, []).append(_label_sums(split, rows))
        images += len(table)
    weights = {split: _label_weights(split, own) for split, own in sums.items()}
    if path.suffix.lower() != ".csv":
        write_json(path, weights)
        return Export(path, images)
    cell = CsvCells(guard)
    with written_whole(path) as new, new.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("split", "label", "weight"))
        writer.writerows(
            [cell(split), cell(label), cell(weight)]
            for split, by_label in weights.items()
            for label, weight in by_label.items()
        )
    return Export(path, images, cell.notes())


_BY_TABLE = {"csv": _write_csv, "jsonl": _write_jsonl, "class-weights": _write_class_weights}


def split_rows(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each split; all of them as "all" where there are no splits."""
    if table["split"].isna().all():
        return {"all": table}
    return {
        level_text(name): rows for name, rows in table.groupby("split", sort=False, dropna=False)
    }


def _label_sums(split: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return smallest, largest, sum and number of the sample weights of each label."""
    if any(is_list(value) for value in rows["label"]):
        raise DataError(
            "images have several labels each, so there is no weight for a label alone. Export csv "
            "or jsonl: a weight per image.",
            column="label",
        )
    missing = int(rows["label"].isna().sum())
    if missing:
        raise DataError(
            f"class weights need a label for every image, but {missing} of {len(rows)} in the "
            f"split {split!r} have none. Export csv or jsonl.",
            column="label",
            count=missing,
        )
    by_label = rows.groupby(rows["label"].map(level_text))["sample_weight"]
    return by_label.agg(["min", "max", "sum", "size"])


def _label_weights(split: str, sums: Sequence[pd.DataFrame]) -> dict[str, float]:
    """Return {label: sample weight} of one split; refuse images of one label that differ."""
    import pandas as pd

    how = {"min": "min", "max": "max", "sum": "sum", "size": "sum"}
    by_label: pd.DataFrame = pd.concat(sums).groupby(level=0).agg(how)
    by_label["spread"] = by_label["max"] - by_label["min"]
    uneven = by_label[by_label["spread"] > _SAME * by_label["max"]].sort_values(
        "spread", ascending=False
    )
    if len(uneven):
        shown = [
            f"{name} from {row['min']:.6g} to {row['max']:.6g} ({int(row['size'])} images)"
            for name, row in uneven.iterrows()
        ]
        raise DataError(
            f"the weights do not depend on the label alone: in the split {split!r} the sample "
            f"weights of {len(uneven)} of {len(by_label)} labels differ from image to image: "
            f"{first_few(shown)}. Export csv or jsonl, which have a weight for every image.",
            column="label",
            levels=[str(name) for name in uneven.index],
        )
    mean = by_label["sum"] / by_label["size"]
    return {str(name): float(weight) for name, weight in mean.items()}


@checked
def export_run(
    folder: str | PathLike[str],
    to: str,
    path: str | PathLike[str] | None = None,
    *,
    read_pool: Callable[[], Pool] | None = None,
    overwrite: bool = False,
    target: str | None = None,
    force: bool = False,
    data: str | PathLike[str] | None = None,
    paths_from: str | PathLike[str] | None = None,
    allow_code: Collection[str] = (),
    **options: Any,
) -> Export:
    """Export the weights in the output folder of a run; by default into the same folder.

    Paths of images start at ``paths_from``; by default at the folder that is written, or that the
    file is in.

    ``force``: also if its files are not those that the run wrote. ``target`` is the name of one of
    several targets; None: the main one. ``read_pool`` gives the images for formats
    that contain them, and is called only then; by default they are those of
    ``run.toml`` in the folder. ``data`` is the folder that its paths start from, if the data were
    moved; addresses that it names are asked only if they are in ``allow_code``.
    """
    from unskew.runs.output import (
        CONFIGURATION,
        WEIGHTS,
        file_of,
        find_target_file,
        is_in_parts,
        read_report,
    )
    from unskew.weigh.weights_table import read_weights_table

    if is_in_parts(Path(folder)):
        output = Path(folder) / PLACES.get(to, to) if path is None else Path(path)
        start, base = Path(paths_from or output.parent), _data_folder(Path(folder), data)
        tables = _tables_of_parts(Path(folder), force)
        moved = (_with_paths_from(start, table, base) for table in tables)
        return export_parts(moved, to, output, overwrite=overwrite)
    weights = find_target_file(Path(folder), WEIGHTS, target)
    place = PLACES.get(to, to)
    own = place if weights.name == WEIGHTS else file_of(place, target)
    output = Path(folder) / own if path is None else Path(path)
    with path_locked(output):
        check_files(folder, (weights.name, CONFIGURATION), force=force)
        table = read_weights_table(weights)
        pool = None
        if to in NEEDS_IMAGES:
            pool = _read_pool(Path(folder), data, allow_code) if read_pool is None else read_pool()
        else:
            start = Path(paths_from or (output if to in _FOLDERS else output.parent))
            table = _with_paths_from(start, table, _data_folder(Path(folder), data))
        if to == "mixture" and weights.name == WEIGHTS:
            # What the page says is about the main target.
            panel = read_report(Path(folder)).get("mixture") or {}
            options["bias_left"] = dict(panel.get("bias_left", ()))
        return export_weights(table, to, output, pool=pool, overwrite=overwrite, **options)


def _tables_of_parts(folder: Path, force: bool) -> Iterator[pd.DataFrame]:
    """Yield the weights of a run over parts, some rows at a time; each part is compared first."""
    from unskew.runs.output import CONFIGURATION, PARTS_FILE, PARTS_FOLDER
    from unskew.runs.part_verification import read_listing
    from unskew.weigh.weights_table import each_weights_table

    check_files(folder, (PARTS_FILE, CONFIGURATION), force=force)
    for part in read_listing(folder):
        file = folder / PARTS_FOLDER / part["name"]
        if not force and (not file.is_file() or fingerprint_file(file) != part["sha256"]):
            raise MixedResultsError(
                f"{str(file)!r} is {'not there' if not file.is_file() else 'another file'}, not "
                f"that of the run in {str(folder)!r}. Restore it from a copy, or weigh again with "
                "--overwrite. --force uses it all the same.",
                path=str(file),
            )
        yield from each_weights_table(file)


def _read_pool(folder: Path, data: str | PathLike[str] | None, allow_code: Collection[str]) -> Pool:
    """Read the list of images that the run was made from; nothing is decoded."""
    from unskew.files.addresses import only_asking
    from unskew.runs.inputs import read_moved_config, read_pool

    with only_asking(allow_code):
        return read_pool(read_moved_config(folder / "run.toml", data, allow_code=None))


def _data_folder(folder: Path, data: str | PathLike[str] | None) -> Path | None:
    """Return the folder that paths of weights start from; None where no run.toml names it."""
    from unskew.config.run_config import read_config

    if data is not None:
        return Path(os.path.realpath(data))
    path = folder / "run.toml"
    if not path.is_file():
        return None
    try:
        return read_config(path, check_paths=False, allow_code=None).folder
    except ConfigError:  # the folder that it names is gone: paths stay as they are
        return None


def _with_paths_from(start: Path, table: pd.DataFrame, base: Path | None) -> pd.DataFrame:
    """Return the table with paths that start at ``start``; whole ones and addresses stay."""
    if base is None or table["path"].isna().all():
        return table
    between = os.path.relpath(base, os.path.realpath(start))
    paths = [
        os.path.normpath(os.path.join(between, path)).replace(os.sep, "/")
        if isinstance(path, str) and not os.path.isabs(path) and "://" not in path
        else path
        for path in table["path"]
    ]
    return table.assign(path=paths)
