"""What weighs the images of one block: small, sent to every worker, and enough for new images."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from unskew.engine.blocks import FileBlock
from unskew.errors import CoverageError, DataError, first_few, impossible_origin
from unskew.records import Bools, Floats, Ints
from unskew.records.arrays import log_sums
from unskew.records.design_weights import DESIGN_WEIGHT
from unskew.records.levels import text_levels
from unskew.sources.part_survey import PartReader
from unskew.target.facts import cell_text, cells_of, column_levels

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Factor


class RowsOfBlock(NamedTuple):
    """The rows of a block: their table, sources, design weights (None: all alike), and strata."""

    frame: pd.DataFrame
    source: Ints
    design: Floats | None
    cell: Ints | None = None

    def counted(self) -> RowsOfBlock:
        """Leave out the rows that do not count, those of design weight 0."""
        if self.design is None or self.design.all():
            return self
        at = np.flatnonzero(self.design)
        cell = None if self.cell is None else self.cell[at]
        return RowsOfBlock(self.frame.iloc[at], self.source[at], self.design[at], cell)

    @property
    def stratum(self) -> Ints:
        """(n,) the stratum of every row; 0 without strata."""
        return np.zeros(self.source.size, dtype=np.int64) if self.cell is None else self.cell


@dataclass(frozen=True, eq=False)
class StrataLookup:
    """The stratum of every image.

    by, bins : the attributes, and where numeric ones are cut.
    stratum_of : the stratum of every combination of levels; −1 where it has no weight.
    """

    by: tuple[str, ...]
    bins: Mapping[str, Sequence[float]]
    stratum_of: Mapping[tuple[str, ...], int] = field(repr=False)

    def find(self, frame: pd.DataFrame) -> Ints:
        """(n,) the stratum of every row, −1 where it has no weight."""
        read = [column_levels(frame[name], name, self.bins.get(name)) for name in self.by]
        cell_ca, cell_n = cells_of([code_n for _, code_n in read])
        cells = [
            tuple(levels[at] for (levels, _), at in zip(read, row, strict=True)) for row in cell_ca
        ]
        unknown = [cell_text(self.by, cell) for cell in cells if cell not in self.stratum_of]
        if unknown:
            raise DataError(
                f"images have {first_few(unknown)}, which no image had that was weighed. Leave "
                "them out, or weigh a pool that has them.",
                columns=list(self.by),
                levels=unknown,
            )
        return np.array([self.stratum_of[cell] for cell in cells], dtype=np.int64)[cell_n]


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Reads what the passes need of a block.

    reader : reads columns by the names that the pool has for them.
    names : the sources of the pool.
    columns : what the bias model reads.
    scale_k : (K,) the factor that makes design weights 1 on average in each source; None without.
    cache : the worker's folder for decoded columns; None where a pass is the only one.
    excluding : factors that may leave out images of their own source; these do not count.
    lookup : of the strata that have normalizers of their own; None without. Images in none do not
        count.
    """

    reader: PartReader
    names: tuple[str, ...]
    columns: tuple[str, ...]
    scale_k: Floats | None
    cache: str | None
    excluding: tuple[Factor, ...] = ()
    lookup: StrataLookup | None = None

    def read(self, block: FileBlock, further: Sequence[str] = ()) -> RowsOfBlock:
        """Read the rows of a block, with ``further`` columns."""
        wanted = ["source", *self.columns]
        if self.scale_k is not None:
            wanted.append(DESIGN_WEIGHT)
        frame = self.reader.read(block, wanted, self.cache)
        if extra := [name for name in further if name not in frame.columns]:
            read = self.reader.read(block, extra)
            frame = frame.assign(**{name: read[name] for name in extra})
        levels, code_n = text_levels(frame["source"], "source")
        index = {name: k for k, name in enumerate(self.names)}
        source_n = np.array([index[level] for level in levels], dtype=np.int64)[code_n]
        rows = RowsOfBlock(frame, source_n, None)
        if self.scale_k is not None:
            design_n = frame[DESIGN_WEIGHT].to_numpy(dtype=np.float64) * self.scale_k[source_n]
            rows = rows._replace(design=design_n)
        out_n = self.excluded(rows) if self.excluding else np.zeros(source_n.size, dtype=np.bool_)
        if self.lookup is not None:
            cell_n = self.lookup.find(frame)
            out_n |= cell_n < 0
            rows = rows._replace(cell=np.maximum(cell_n, 0))
        if out_n.any():
            design_n = np.ones(source_n.size) if rows.design is None else rows.design
            rows = rows._replace(design=np.where(out_n, 0.0, design_n))
        return rows

    def excluded(self, rows: RowsOfBlock) -> Bools:
        """(n,) whether an image is outside what its own source selects."""
        at_n, out_n = np.arange(rows.source.size), np.zeros(rows.source.size, dtype=np.bool_)
        for factor in self.excluding:
            out_n |= np.isneginf(factor.log_omega(rows.frame)[at_n, rows.source])
        return out_n


class Weigher(ABC):
    """Weighs the images of a block: (n,) π, whose sum over all blocks is 1.

    Attributes
    ----------
    repeats : whether few values occur, so that files hold each of them once.
    """

    repeats: ClassVar[bool] = False

    @abstractmethod
    def weigh(self, block: FileBlock, rows: RowsOfBlock) -> Floats:
        """Compute (n,) π of the rows of a block; 0 of images that are left out."""

    @abstractmethod
    def weigh_table(self, frame: pd.DataFrame) -> Floats:
        """Compute (m,) π of new images, of design weight 1; an error where nothing covers them."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that is the same where the weights are, up to rounding."""


def _fingerprint(*values: Any) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray | float):
            return [f"{number:.9e}" for number in np.ravel(value)]
        return value

    return hashlib.sha256(json.dumps([plain(value) for value in values]).encode()).hexdigest()


def _lookup_facts(lookup: StrataLookup | None) -> Any:
    if lookup is None:
        return None
    return [list(lookup.by), sorted([*cell, at] for cell, at in lookup.stratum_of.items())]


@dataclass(frozen=True, eq=False)
class InMemoryWeigher(Weigher):
    """Weights that were computed in memory, in the order of the rows of all parts."""

    weight_n: Floats = field(repr=False)

    def weigh(self, block: FileBlock, rows: RowsOfBlock) -> Floats:
        return self.weight_n[block.first : block.first + len(block)]

    def weigh_table(self, frame: pd.DataFrame) -> Floats:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.weight_n)


@dataclass(frozen=True, eq=False)
class StrataWeigher(Weigher):
    """π_i = d_i p(y_i)/N_{y_i}.

    lookup : finds the stratum of an image.
    weight_c : (C,) π of an image of each stratum with d = 1.
    """

    repeats: ClassVar[bool] = True
    lookup: StrataLookup
    weight_c: Floats = field(repr=False)

    def weigh(self, block: FileBlock, rows: RowsOfBlock) -> Floats:
        weight_n = self.weigh_table(rows.frame)
        return weight_n if rows.design is None else weight_n * rows.design

    def weigh_table(self, frame: pd.DataFrame) -> Floats:
        return np.append(self.weight_c, 0.0)[self.lookup.find(frame)]

    @property
    def fingerprint(self) -> str:
        return _fingerprint(_lookup_facts(self.lookup), self.weight_c)


@dataclass(frozen=True, eq=False)
class LogLinearWeigher(Weigher):
    """π_i = d_i s_c/Σ_{k kept} e^{u_ck} ω_ik in stratum c, log ω_ik = offset_ik + θ_k·φ_i.

    names : the sources of the fit; a sample of the target is the last and is not kept.
    n_kept : the number of those that are kept.
    known : the factors that are known; offset is the sum of their logarithms.
    feature_map : φ; None without features.
    theta_kd : θ; that of the reference is 0.
    u_ck : u of every stratum; −∞ for sources without images there. One row without strata.
    log_scale_c : (C,) log s; −∞ where a stratum has no mass.
    lookup : finds the stratum of an image; None where there is one.
    """

    names: tuple[str, ...]
    n_kept: int
    known: tuple[Factor, ...] = field(repr=False)
    feature_map: Any = field(repr=False)
    theta_kd: Floats = field(repr=False)
    u_ck: Floats = field(repr=False)
    log_scale_c: Floats = field(repr=False, default_factory=lambda: np.zeros(1))
    lookup: StrataLookup | None = None

    def terms(self, frame: pd.DataFrame) -> tuple[Floats | None, Floats]:
        """(n, K) the offset (None: 0), and (n, D) φ."""
        offset_nk: Floats | None = None
        for factor in self.known:
            log_nk = factor.log_omega(frame)
            offset_nk = log_nk if offset_nk is None else offset_nk + log_nk
        if self.feature_map is None:
            return offset_nk, np.empty((len(frame), 0))
        return offset_nk, np.ascontiguousarray(self.feature_map.read(frame))

    def logits(self, frame: pd.DataFrame, cell_n: Ints) -> tuple[Floats, Floats]:
        """(n, K) u_ck + log ω_ik, and (n, D) φ."""
        offset_nk, phi_nd = self.terms(frame)
        logit_nk = phi_nd @ self.theta_kd.T
        logit_nk += self.u_ck[0] if len(self.u_ck) == 1 else self.u_ck[cell_n]
        return (logit_nk if offset_nk is None else logit_nk + offset_nk), phi_nd

    def weigh(self, block: FileBlock, rows: RowsOfBlock) -> Floats:
        log_n = self._log_weights(rows.frame, rows.stratum)
        if rows.design is None:
            return np.exp(log_n)
        return np.where(rows.design > 0, np.exp(log_n), 0.0) * rows.design

    def _log_weights(self, frame: pd.DataFrame, cell_n: Ints) -> Floats:
        scale_n = self.log_scale_c[0] if len(self.u_ck) == 1 else self.log_scale_c[cell_n]
        with np.errstate(invalid="ignore"):  # where no source selects, or nothing weighs
            return np.asarray(scale_n - log_sums(self.logits(frame, cell_n)[0][:, : self.n_kept]))

    def weigh_table(self, frame: pd.DataFrame) -> Floats:
        cell_m = np.zeros(len(frame), dtype=np.int64)
        if self.lookup is not None:
            cell_m = self.lookup.find(frame)
        log_m = self._log_weights(frame, np.maximum(cell_m, 0))
        impossible = np.flatnonzero(np.isposinf(log_m) & (cell_m >= 0))
        if impossible.size:
            raise CoverageError(
                f"no source could have produced {impossible.size} of {log_m.size} images, such as "
                f"row {impossible[0]}: omega is 0 in every column, so they have no weight.",
                row=int(impossible[0]),
                count=int(impossible.size),
            )
        return np.where(cell_m >= 0, np.exp(log_m), 0.0)

    @property
    def fingerprint(self) -> str:
        labels = () if self.feature_map is None else self.feature_map.labels
        known = [repr(factor) for factor in self.known]
        return _fingerprint(
            *(list(self.names), list(labels), known, self.theta_kd, self.u_ck, self.log_scale_c),
            _lookup_facts(self.lookup),
        )


def check_own_terms(
    block: FileBlock, rows: RowsOfBlock, offset_nk: Floats | None, names: Any
) -> None:
    """Refuse an image that its own source could not have produced."""
    if offset_nk is None:
        return
    own_n = offset_nk[np.arange(rows.source.size), rows.source]
    impossible = np.flatnonzero(np.isneginf(own_n))
    if impossible.size:
        error = impossible_origin(
            block.first + int(impossible[0]), names[rows.source[impossible[0]]]
        )
        raise DataError(
            f"in the part {block.path!r}: {error}", **error.facts | {"path": block.path}
        )
