"""What weighs the images of one block: small, sent to every worker, and enough for new images."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """The rows of a block: their table, sources, and design weights (None: all alike)."""

    frame: pd.DataFrame
    source: Ints
    design: Floats | None

    def counted(self) -> RowsOfBlock:
        """Leave out the rows that do not count, those of design weight 0."""
        if self.design is None or self.design.all():
            return self
        at = np.flatnonzero(self.design)
        return RowsOfBlock(self.frame.iloc[at], self.source[at], self.design[at])


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Reads what the passes need of a block.

    reader : reads columns by the names that the pool has for them.
    names : the sources of the pool.
    columns : what the bias model reads.
    scale_k : (K,) the factor that makes design weights 1 on average in each source; None without.
    cache : the worker's folder for decoded columns; None where a pass is the only one.
    excluding : factors that may leave out images of their own source; these do not count.
    """

    reader: PartReader
    names: tuple[str, ...]
    columns: tuple[str, ...]
    scale_k: Floats | None
    cache: str | None
    excluding: tuple[Factor, ...] = ()

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
        if self.excluding:
            design_n = np.ones(source_n.size) if rows.design is None else rows.design
            rows = rows._replace(design=np.where(self.excluded(rows), 0.0, design_n))
        return rows

    def excluded(self, rows: RowsOfBlock) -> Bools:
        """(n,) whether an image is outside what its own source selects."""
        at_n, out_n = np.arange(rows.source.size), np.zeros(rows.source.size, dtype=np.bool_)
        for factor in self.excluding:
            out_n |= np.isneginf(factor.log_omega(rows.frame)[at_n, rows.source])
        return out_n


class Weigher(ABC):
    """Weighs the images of a block: (n,) π, whose sum over all blocks is 1."""

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

    by, bins : the attributes, and where numeric ones are cut.
    stratum_of : the stratum of every combination of levels; −1 where the target drops it.
    weight_c : (C,) π of an image of each stratum with d = 1.
    """

    by: tuple[str, ...]
    bins: Mapping[str, Sequence[float]]
    stratum_of: Mapping[tuple[str, ...], int] = field(repr=False)
    weight_c: Floats = field(repr=False)

    def strata(self, frame: pd.DataFrame) -> Ints:
        """(n,) the stratum of every row, −1 where the target drops it."""
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

    def weigh(self, block: FileBlock, rows: RowsOfBlock) -> Floats:
        weight_n = self.weigh_table(rows.frame)
        return weight_n if rows.design is None else weight_n * rows.design

    def weigh_table(self, frame: pd.DataFrame) -> Floats:
        return np.append(self.weight_c, 0.0)[self.strata(frame)]

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.by, sorted(map(list, self.stratum_of)), self.weight_c)


@dataclass(frozen=True, eq=False)
class LogLinearWeigher(Weigher):
    """π_i = d_i/(Z Σ_{k kept} e^{u_k} ω_ik), log ω_ik = offset_ik + θ_k·φ_i.

    names : the sources of the fit; a sample of the target is the last and is not kept.
    n_kept : the number of those that are kept.
    known : the factors that are known; offset is the sum of their logarithms.
    feature_map : φ; None without features.
    theta_kd, u_k : the parameters; θ of the reference is 0.
    log_total : log Z.
    """

    names: tuple[str, ...]
    n_kept: int
    known: tuple[Factor, ...] = field(repr=False)
    feature_map: Any = field(repr=False)
    theta_kd: Floats = field(repr=False)
    u_k: Floats = field(repr=False)
    log_total: float = 0.0

    def terms(self, frame: pd.DataFrame) -> tuple[Floats | None, Floats]:
        """(n, K) the offset (None: 0), and (n, D) φ."""
        offset_nk: Floats | None = None
        for factor in self.known:
            log_nk = factor.log_omega(frame)
            offset_nk = log_nk if offset_nk is None else offset_nk + log_nk
        if self.feature_map is None:
            return offset_nk, np.empty((len(frame), 0))
        return offset_nk, np.ascontiguousarray(self.feature_map.read(frame))

    def logits(self, frame: pd.DataFrame) -> tuple[Floats, Floats]:
        """(n, K) u_k + log ω_ik, and (n, D) φ."""
        offset_nk, phi_nd = self.terms(frame)
        logit_nk = phi_nd @ self.theta_kd.T + self.u_k
        return (logit_nk if offset_nk is None else logit_nk + offset_nk), phi_nd

    def log_weights(self, rows: RowsOfBlock) -> Floats:
        """(n,) log of d_i/Σ_{k kept} e^{u_k} ω_ik; −inf of images of design weight 0."""
        log_n = -log_sums(self.logits(rows.frame)[0][:, : self.n_kept])
        if rows.design is None:
            return log_n
        with np.errstate(divide="ignore"):
            return np.where(rows.design > 0, log_n, 0.0) + np.log(rows.design)

    def weigh(self, block: FileBlock, rows: RowsOfBlock) -> Floats:
        return np.exp(self.log_weights(rows) - self.log_total)

    def weigh_table(self, frame: pd.DataFrame) -> Floats:
        log_m = -log_sums(self.logits(frame)[0][:, : self.n_kept])
        impossible = np.flatnonzero(np.isposinf(log_m))
        if impossible.size:
            raise CoverageError(
                f"no source could have produced {impossible.size} of {log_m.size} images, such as "
                f"row {impossible[0]}: omega is 0 in every column, so they have no weight.",
                row=int(impossible[0]),
                count=int(impossible.size),
            )
        return np.exp(log_m - self.log_total)

    @property
    def fingerprint(self) -> str:
        labels = () if self.feature_map is None else self.feature_map.labels
        known = [repr(factor) for factor in self.known]
        return _fingerprint(
            list(self.names), list(labels), known, self.theta_kd, self.u_k, self.log_total
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
