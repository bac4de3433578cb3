"""`PartPool`: a pool over Parquet parts, which is read block by block and never as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from unskew.engine.arguments import Count, Seed, checked
from unskew.engine.block_engines import Engine, opened_engine
from unskew.engine.blocks import FileBlock, PartFile
from unskew.errors import DataError, did_you_mean, first_few
from unskew.records import Floats, Ints, Pool
from unskew.records.design_weights import DESIGN_WEIGHT
from unskew.records.levels import text_levels
from unskew.records.pool_table import ROLES
from unskew.sources.part_survey import (
    PartReader,
    Survey,
    SurveyState,
    hash_values,
    survey_parts,
)
from unskew.target.facts import column_levels

if TYPE_CHECKING:
    import pandas as pd

# Of every source and stratum a subsample has at least so many images, or all.
_LEAST = 200


@checked
class PartPool(Pool):
    """A pool over Parquet parts; ``names`` and ``sizes`` stream, and no table is ever whole.

    `Pool.from_parquet` makes one, and `unskew.debias` weighs it. What needs a table in memory works
    on ``sample(n)``.

    Attributes
    ----------
    parts : the files, in order.
    blocks : references to their rows, in order.
    reader : reads columns of a block.
    engine : where blocks are computed; None: by threads of this process.
    """

    def __init__(
        self,
        parts: Sequence[PartFile],
        blocks: Sequence[FileBlock],
        reader: PartReader,
        engine: Any = None,
    ) -> None:
        for name, value in (
            *(("parts", tuple(parts)), ("blocks", tuple(blocks))),
            *(("reader", reader), ("engine", engine), ("_surveys", {})),
        ):
            object.__setattr__(self, name, value)

    parts: tuple[PartFile, ...]
    blocks: tuple[FileBlock, ...]
    reader: PartReader
    engine: Any
    _surveys: dict[Any, Survey]

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(
            f"a pool over {len(self.parts)} Parquet parts ({len(self):,} images) has no {what} in "
            "memory. Take a stratified subsample, pool.sample(100_000), which is an ordinary Pool; "
            "unskew.debias weighs all images without collecting them.",
            option=what,
            count=len(self),
        )

    @property
    def frame(self) -> pd.DataFrame:
        """Refused: use ``sample(n)``."""
        self._refuse("frame")

    @property
    def source(self) -> Ints:  # type: ignore[override]
        """Refused: use ``sample(n)``."""
        self._refuse("source")

    @property
    def design_weight(self) -> Floats | None:
        """Refused: use ``sample(n)``."""
        self._refuse("design_weight")

    def take(self, rows: Any) -> Pool:
        """Refused: use ``sample(n)``."""
        self._refuse("rows")

    def with_columns(self, columns: Mapping[str, Any]) -> Pool:
        """Refused: write the columns into the parts."""
        self._refuse("columns to add to")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, those that have a role first."""
        own = {"source", *self.reader.columns}
        return tuple(
            [role for role in ROLES if role in own]
            + [name for name in self.reader.columns if name not in ROLES]
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns that have no role: attributes and features."""
        return tuple(name for name in self.columns if name not in ROLES)

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)

    def __repr__(self) -> str:
        return f"Pool({len(self):,} images in {len(self.parts)} Parquet parts)"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the K sources, found by one pass over their column."""
        return self._any_survey().names

    @cached_property
    def sizes(self) -> Ints:
        """(K,) n_k, number of images of each source."""
        return self._any_survey().sizes

    def _any_survey(self) -> Survey:
        for survey in self._surveys.values():
            return survey
        with opened_engine(self.engine) as engine:
            return self.survey(engine)

    def survey(
        self,
        engine: Engine,
        by: Sequence[str] = (),
        bins: Mapping[str, Sequence[float]] | None = None,
        ids: bool = False,
    ) -> Survey:
        """Count the images by source and the attributes ``by``; with ``ids``, check those too."""
        self.require(by)
        key = tuple(by), tuple(sorted((name, tuple(edges)) for name, edges in (bins or {}).items()))
        for (known, with_ids), survey in self._surveys.items():
            if known == key and with_ids >= ids:
                return survey
        state = SurveyState(self.reader, tuple(by), dict(bins or {}), ids)
        self._surveys[key, ids] = survey_parts(engine, self.blocks, state)
        return self._surveys[key, ids]

    def require(self, names: Sequence[str]) -> None:
        """Refuse columns that the parts do not have."""
        lacking = [name for name in names if name not in self.columns]
        if lacking:
            raise DataError(
                f"the parts have no column {first_few([repr(name) for name in lacking])}; their "
                f"columns are {first_few(self.columns, 12)}."
                f"{did_you_mean(lacking[0], self.columns)}",
                columns=lacking,
                column=lacking[0],
            )

    def sample(
        self,
        n: Count = 1_000_000,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        engine: Any = None,
        seed: Seed = 0,
        bins: Mapping[str, Sequence[float]] | None = None,
    ) -> Pool:
        """Return a subsample of about ``n`` images, stratified by source and ``by``: a `Pool`.

        Each source and stratum has its share, and at least 200 images or all of them. Its column
        design_weight holds the inverse of the chance of inclusion, so that a fit counts each image
        for those that it stands for; it is left out where all images are taken. Which images are
        taken follows from their ids (groups stay together, if there are any) and the seed, not from
        the size of blocks or the engine.
        """
        with opened_engine(self.engine if engine is None else engine) as opened:
            survey = self.survey(opened, by, bins)
            wanted = self.columns if columns is None else [*columns, "id", "source", "group"]
            wanted = [*wanted, *by, DESIGN_WEIGHT]
            count_c = survey.cells["count"].to_numpy(dtype=np.float64)
            share_c = np.minimum(1.0, np.maximum(n / count_c.sum(), _LEAST / count_c))
            share_c = np.where(count_c.sum() <= n, 1.0, share_c)
            while True:
                frame, cell_m = self._draw(opened, survey, share_c, by, bins, wanted, seed)
                drawn_c = np.bincount(cell_m, minlength=count_c.size)
                if drawn_c.all():
                    break
                # A few large groups: none of them may have been drawn.
                share_c = np.where(drawn_c > 0, share_c, np.minimum(1.0, 8 * share_c))
        if (drawn_c < count_c).any():
            own_m = frame[DESIGN_WEIGHT].to_numpy() if DESIGN_WEIGHT in frame.columns else 1.0
            frame[DESIGN_WEIGHT] = own_m * (count_c / drawn_c)[cell_m]
        order = [name for name in self.columns if name in frame.columns]
        order += [name for name in frame.columns if name not in order]
        return Pool(frame[order])

    def _draw(
        self,
        engine: Engine,
        survey: Survey,
        share_c: Floats,
        by: Sequence[str],
        bins: Mapping[str, Sequence[float]] | None,
        columns: Sequence[str],
        seed: int,
    ) -> tuple[pd.DataFrame, Ints]:
        import pandas as pd

        lookup = CellLookup.of(survey, tuple(by), dict(bins or {}))
        state = DrawState(self.reader, lookup, share_c, tuple(dict.fromkeys(columns)), seed)
        drawn = engine.map_blocks(draw_block, self.blocks, state)
        frame = pd.concat([table for table, _ in drawn], ignore_index=True)
        cell_m = np.concatenate([cell for _, cell in drawn])
        names = survey.cells["source"].to_numpy(dtype=object)[cell_m]
        frame["source"] = pd.Categorical(names, categories=list(survey.names))
        return frame, cell_m


@dataclass(frozen=True, eq=False)
class CellLookup:
    """The cell, an index into those of a survey, of every row of a block."""

    by: tuple[str, ...]
    bins: Mapping[str, Sequence[float]]
    index: Mapping[tuple[str, ...], int]

    @classmethod
    def of(
        cls, survey: Survey, by: tuple[str, ...], bins: Mapping[str, Sequence[float]]
    ) -> CellLookup:
        """Index the cells of a survey by source and levels."""
        read = [text_levels(survey.cells["source"].astype(object), "source")]
        read += [column_levels(survey.cells[name], name, bins.get(name)) for name in by]
        texts = zip(*([levels[at] for at in code_c] for levels, code_c in read), strict=True)
        return cls(by, bins, {cell: at for at, cell in enumerate(texts)})

    def cells(self, frame: pd.DataFrame) -> Ints:
        """(n,) the cell of every row."""
        from unskew.target.facts import cells_of

        read = [text_levels(frame["source"], "source")]
        read += [column_levels(frame[name], name, self.bins.get(name)) for name in self.by]
        cell_ca, cell_n = cells_of([code_n for _, code_n in read])
        keys = (
            tuple(levels[at] for (levels, _), at in zip(read, row, strict=True)) for row in cell_ca
        )
        return np.array([self.index[key] for key in keys], dtype=np.int64)[cell_n]


@dataclass(frozen=True, eq=False)
class DrawState:
    """What `draw_block` needs: the chance of inclusion in every cell."""

    reader: PartReader
    lookup: CellLookup
    share_c: Floats
    columns: tuple[str, ...]
    seed: int


def draw_block(block: FileBlock, state: DrawState) -> tuple[pd.DataFrame, Ints]:
    """Return the rows of a block that are in the subsample, and their cells."""
    keys = state.reader.read(block, ["id", "group", "source", *state.lookup.by])
    cell_n = state.lookup.cells(keys)
    chance_n = uniform_numbers(keys["group" if "group" in keys.columns else "id"], state.seed)
    at = np.flatnonzero(chance_n < state.share_c[cell_n])
    if at.size == 0:
        return keys.iloc[:0].drop(columns="source"), cell_n[at]
    frame = state.reader.read(block, [name for name in state.columns if name != "source"])
    return frame.iloc[at].reset_index(drop=True), cell_n[at]


def uniform_numbers(column: pd.Series[Any], seed: int) -> Floats:
    """(n,) numbers in [0, 1) that look random and follow from value and seed (splitmix64)."""
    mixed = hash_values(column) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
