"""One pass over the parts of a pool: sources, strata and their counts; ids that occur twice.

Every function here that takes a block is pure, and its result small (the fingerprints of ids are 8
bytes for each row, and are put on the driver's disk as they come).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.block_engines import Engine
from unskew.engine.blocks import FileBlock, read_block
from unskew.errors import DataError, first_few
from unskew.files.leftovers import temporary_folder
from unskew.records.arrays import Floats, Ints
from unskew.records.design_weights import DESIGN_WEIGHT, check_design_weights
from unskew.records.levels import level_text, text_levels
from unskew.sources.parts_beside import PartsBeside, read_vector
from unskew.target.facts import cells_of, column_levels

if TYPE_CHECKING:
    import pandas as pd

Hashes = npt.NDArray[np.uint64]
# Fingerprints that are sorted at once: 64 MB of them.
_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class PartReader:
    """Reads blocks as tables whose columns have the names of their roles.

    Attributes
    ----------
    columns : {name in the pool: name in the files}.
    source_of_part : the source of every part, where the folders say it; None: a column does.
    position : {name in the pool: which number of a column of vectors it is}.
    beside : parts with more columns of the same rows; None without.
    """

    columns: Mapping[str, str]
    source_of_part: tuple[str, ...] | None = None
    position: Mapping[str, int] = field(default_factory=dict)
    beside: PartsBeside | None = None

    def read(
        self, block: FileBlock, names: Sequence[str], cache: str | None = None
    ) -> pd.DataFrame:
        """Read columns of a block, those among ``names`` that the pool has."""
        import pandas as pd

        own = [name for name in dict.fromkeys(names) if name in self.columns]
        joined = set() if self.beside is None else self.beside.columns
        pieces = [
            self._read_from(source, [name for name in own if (name in joined) == is_beside], cache)
            for is_beside, source in ((False, block), (True, self._block_beside(block)))
            if source is not None
        ]
        frame = pieces[0] if len(pieces) == 1 else pd.concat(pieces, axis="columns")[own]
        if self.source_of_part is not None and "source" in names:
            name = self.source_of_part[block.part]
            frame["source"] = pd.Categorical.from_codes(
                np.zeros(len(block), dtype=np.int8), categories=pd.Index([name])
            )
        return frame

    def _block_beside(self, block: FileBlock) -> FileBlock | None:
        return None if self.beside is None else self.beside.block(block)

    def _read_from(self, block: FileBlock, names: Sequence[str], cache: str | None) -> pd.DataFrame:
        import pandas as pd

        wanted = list(dict.fromkeys(self.columns[name] for name in names))
        table = read_block(block, wanted, cache)
        plain = [name for name in names if name not in self.position]
        frame: pd.DataFrame = (
            table.select([self.columns[name] for name in plain])
            .rename_columns(plain)
            .to_pandas(split_blocks=True)
        )
        if len(plain) == len(names):
            return frame if plain else pd.DataFrame(index=pd.RangeIndex(len(block)))
        held = {self.columns[name] for name in names if name in self.position}
        vector = {column: read_vector(table.column(column), column, block) for column in held}
        return pd.DataFrame(
            {
                name: vector[self.columns[name]][:, self.position[name]]
                if name in self.position
                else frame[name]
                for name in names
            }
        )


@dataclass(frozen=True)
class SurveyState:
    """What `survey_block` counts by: the source and ``by``, binned at ``bins``."""

    reader: PartReader
    by: tuple[str, ...] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)
    with_ids: bool = False


@dataclass(frozen=True, eq=False)
class Survey:
    """What the rows of all parts are.

    Attributes
    ----------
    names : the sources, in the order in which they appear.
    cells : one row for each source and combination of levels that occurs, with the values of one
        image of it: source, the attributes, count (images), design (the sum of their design
        weights), square (of their squares), largest (of them), weighed (images with one above 0).
    """

    names: tuple[str, ...]
    cells: pd.DataFrame

    @property
    def source(self) -> Ints:
        """(C,) the source of each cell, an index into ``names``."""
        index = {name: k for k, name in enumerate(self.names)}
        return np.array([index[name] for name in self.cells["source"]], dtype=np.int64)

    @property
    def sizes(self) -> Ints:
        """(K,) images of each source."""
        count_c = self.cells["count"].to_numpy()
        return np.bincount(self.source, weights=count_c, minlength=len(self.names)).astype(np.int64)

    @property
    def design_scale(self) -> Floats | None:
        """(K,) the factor that makes design weights 1 on average in each source; None: all are."""
        design_c = self.cells["design"].to_numpy()
        weighed_c = self.cells["weighed"].to_numpy()
        if not self.has_design:
            return None
        n_sources = len(self.names)
        total_k = np.bincount(self.source, weights=design_c, minlength=n_sources)
        count_k = np.bincount(self.source, weights=weighed_c, minlength=n_sources)
        lost = [name for name, total in zip(self.names, total_k, strict=True) if not total > 0]
        if lost:
            raise DataError(
                f"all design weights of {first_few(lost)} are 0, so that nothing is left of it. "
                "Drop the source, or give its images weights.",
                column=DESIGN_WEIGHT,
                sources=lost,
            )
        return np.asarray(count_k / total_k)

    @property
    def has_design(self) -> bool:
        return bool(self.cells.attrs.get("design", False))


def survey_parts(engine: Engine, blocks: Sequence[FileBlock], state: SurveyState) -> Survey:
    """Count the rows of all blocks by source and stratum; refuse ids that occur twice."""
    import pandas as pd

    tables = []
    hashes = _HashFiles(sum(map(len, blocks))) if state.with_ids else None
    with hashes or nullcontext():
        for table, hash_n in engine.each_block(survey_block, blocks, state):
            tables.append(table)
            if hashes is not None:
                hashes.add(hash_n)
        twice = set() if hashes is None else hashes.duplicates()
    if twice:
        _refuse_duplicates(engine, blocks, state.reader, twice)
    every = pd.concat(tables, ignore_index=True)
    names, source_n = text_levels(every["source"].astype(object), "source")
    read = [column_levels(every[name], name, state.bins.get(name)) for name in state.by]
    _, cell_n = cells_of([source_n, *(code_n for _, code_n in read)])
    first = np.unique(cell_n, return_index=True)[1]
    cells = every.iloc[first].reset_index(drop=True)
    for name in ("count", "design", "weighed", "square"):
        cells[name] = np.bincount(cell_n, weights=every[name].to_numpy(), minlength=first.size)
    cells["largest"] = _largest(every["largest"].to_numpy(), cell_n, first.size)
    cells["source"] = [names[k] for k in source_n[first]]
    cells.attrs["design"] = DESIGN_WEIGHT in state.reader.columns
    return Survey(tuple(names), cells)


def survey_block(block: FileBlock, state: SurveyState) -> tuple[pd.DataFrame, Hashes | None]:
    """Count the rows of a block; also fingerprint their ids."""
    wanted = ("source", *state.by, DESIGN_WEIGHT, "group", *(("id",) if state.with_ids else ()))
    frame = state.reader.read(block, wanted)
    hash_n = None
    for role in ("id", "source", "group"):
        if role in frame.columns and bool(frame[role].isna().any()):
            count = int(frame[role].isna().sum())
            raise DataError(
                f"{role} is missing for {count} images of the part {block.path!r}, rows "
                f"{block.start} to {block.stop}. Every image needs one.",
                path=block.path,
                column=role,
                count=count,
            )
    if state.with_ids:
        hash_n = hash_values(frame["id"])
    read = [text_levels(frame["source"], "source")]
    read += [column_levels(frame[name], name, state.bins.get(name)) for name in state.by]
    cell_ca, cell_n = cells_of([code_n for _, code_n in read])
    first = np.empty(len(cell_ca), dtype=np.int64)
    first[cell_n] = np.arange(cell_n.size)  # one row of each cell, whichever
    cells = frame[[*dict.fromkeys(("source", *state.by))]].iloc[first].reset_index(drop=True)
    cells["source"] = [level_text(value) for value in cells["source"].tolist()]
    count_c = np.bincount(cell_n)
    if DESIGN_WEIGHT not in frame.columns:
        design = dict.fromkeys(("design", "weighed", "square"), count_c.astype(np.float64))
        return cells.assign(count=count_c, largest=1.0, **design), hash_n
    named = frame if state.with_ids else frame.assign(id=np.arange(block.start, block.stop))
    check_design_weights(named)
    design_n = frame[DESIGN_WEIGHT].to_numpy(dtype=np.float64)
    cells["count"] = count_c
    cells["design"] = np.bincount(cell_n, weights=design_n)
    cells["weighed"] = np.bincount(cell_n, weights=design_n > 0)
    cells["square"] = np.bincount(cell_n, weights=design_n**2)
    cells["largest"] = _largest(design_n, cell_n, first.size)
    return cells, hash_n


def _largest(value_n: Floats, cell_n: Ints, size: int) -> Floats:
    largest_c = np.zeros(size)
    np.maximum.at(largest_c, cell_n, value_n)
    return largest_c


def hash_values(column: pd.Series[Any]) -> Hashes:
    """Fingerprint the values of a column, the same on every machine and in every block."""
    import pandas as pd

    hashed = pd.util.hash_pandas_object(column, index=False, categorize=False)
    return np.asarray(hashed, dtype=np.uint64)


class _HashFiles:
    """Fingerprints by their leading bits, in files where they are many: sorted file by file."""

    def __init__(self, n: int) -> None:
        self.bits = max(0, int(np.ceil(np.log2(max(n, 1) / _AT_ONCE))))
        self.held: list[Hashes] = []
        self.folder = temporary_folder() if self.bits else None

    def __enter__(self) -> _HashFiles:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            self.folder.cleanup()

    def add(self, hash_n: Hashes) -> None:
        if self.folder is None:
            self.held.append(hash_n)
            return
        sorted_n = np.sort(hash_n)
        edges = np.arange(1, 1 << self.bits, dtype=np.uint64) << np.uint64(64 - self.bits)
        for bucket, part in enumerate(np.split(sorted_n, np.searchsorted(sorted_n, edges))):
            with (Path(self.folder.name) / str(bucket)).open("ab") as file:
                file.write(part.tobytes())

    def duplicates(self) -> set[int]:
        """Return some fingerprints that occur more than once."""
        twice: set[int] = set()
        for hash_n in self._buckets():
            sorted_n = np.sort(hash_n)
            twice |= set(np.unique(sorted_n[1:][sorted_n[1:] == sorted_n[:-1]])[:1000].tolist())
        return twice

    def _buckets(self) -> Iterable[Hashes]:
        if self.folder is None:
            yield np.concatenate([np.empty(0, np.uint64), *self.held])
            return
        for bucket in range(1 << self.bits):
            yield np.fromfile(Path(self.folder.name) / str(bucket), dtype=np.uint64)


@dataclass(frozen=True)
class _Suspects:
    reader: PartReader
    hashes: Hashes


def find_suspects(block: FileBlock, state: _Suspects) -> list[tuple[Any, str]]:
    """Return the ids of a block with some fingerprints, and its part."""
    id_n = state.reader.read(block, ["id"])["id"]
    at = np.flatnonzero(np.isin(hash_values(id_n), state.hashes))
    return [(value, block.path) for value in id_n.iloc[at].tolist()]


def _refuse_duplicates(
    engine: Engine, blocks: Sequence[FileBlock], reader: PartReader, twice: set[int]
) -> None:
    """Raise for ids that occur twice; different ids may have the same fingerprint."""
    suspects = _Suspects(reader, np.array(sorted(twice)[:1000], dtype=np.uint64))
    places: dict[Any, list[str]] = {}
    for pairs in engine.each_block(find_suspects, blocks, suspects):
        for value, path in pairs:
            places.setdefault(value, []).append(path)
    ids = {value: paths for value, paths in places.items() if len(paths) > 1}
    if not ids:
        return
    value, paths = next(iter(ids.items()))
    where = " and ".join(repr(path) for path in dict.fromkeys(paths))
    raise DataError(
        f"ids must be unique, because weights are joined to images by them; {len(ids)}"
        f"{' or more' if len(twice) >= 1000 else ''} occur more than once, such as {value!r} in "
        f"{where}. Was a part written twice, or does the id repeat from source to source (then put "
        "the source in front of it)?",
        ids=list(ids)[:10],
        path=paths[0],
        count=len(ids),
    )
