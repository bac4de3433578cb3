"""Row blocks: what a matrix must offer to be read in pieces, and readers.

There are readers for arrays, CSR, files and anything that can be iterated again. A reader yields
two-dimensional blocks of consecutive rows, dense (C-ordered float32 or float64) or CSR, the same
ones in every pass. Nothing of the size of the whole matrix is ever allocated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unskew import errors
from unskew.files.reading import check_regular, damage_named

# Converted blocks hold about this many entries: 2 MB of doubles, which stay in a second- or
# third-level cache.
_ENTRIES = 1 << 18

# A two-dimensional NumPy array or a SciPy CSR array; SciPy ships no types.
RowBlock: TypeAlias = Any


class Reader(Protocol):
    """Row blocks of a matrix with ``n_columns`` columns.

    ``in_memory`` if reading again costs no disk or computation; ``is_sparse`` if blocks are CSR (of
    a stream: the first one is).
    """

    @property
    def n_columns(self) -> int: ...

    @property
    def in_memory(self) -> bool: ...

    @property
    def is_sparse(self) -> bool: ...

    def blocks(self) -> Iterator[RowBlock]:
        """Start a new pass over all rows, in order."""
        ...


def _plain_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return float32 for float32 and float16, and float64 for everything else."""
    return np.float32 if dtype in (np.float32, np.float16) else np.float64


@dataclass(frozen=True)
class ArrayReader:
    """A dense array, also a memory-mapped one.

    It is read in one piece if it is C-ordered floating point, else converted block by block.
    """

    array: npt.NDArray[Any]
    in_memory: bool = True
    is_sparse: bool = False

    @property
    def n_columns(self) -> int:
        return int(self.array.shape[1])

    def blocks(self) -> Iterator[RowBlock]:
        array = self.array
        if (
            array.dtype in (np.float32, np.float64)
            and array.flags.c_contiguous
            and array.dtype.isnative
        ):
            yield array
            return
        rows = max(1, _ENTRIES // max(1, array.shape[1]))
        for start in range(0, array.shape[0], rows):
            yield np.ascontiguousarray(array[start : start + rows], dtype=_plain_dtype(array.dtype))


@dataclass(frozen=True)
class SparseReader:
    """A CSR matrix in one piece."""

    matrix: sp.csr_array
    in_memory: bool = True
    is_sparse: bool = True

    @property
    def n_columns(self) -> int:
        return int(self.matrix.shape[1])

    def blocks(self) -> Iterator[RowBlock]:
        yield self.matrix


@dataclass(frozen=True)
class IterableReader:
    """Any object that yields row blocks and can be iterated again."""

    source: Iterable[Any]
    n_columns: int
    column_names: tuple[str, ...] | None = None
    is_sparse: bool = False
    in_memory: bool = False

    def blocks(self) -> Iterator[RowBlock]:
        for position, raw in enumerate(self.source):
            block = plain_block(self._in_order(raw, position))
            if block.shape[1] != self.n_columns:
                raise errors.DataError(
                    f"row block {position} of omega has {block.shape[1]} columns, but the first "
                    f"block has {self.n_columns}: "
                    "every block needs one column for each source, in the same order.",
                    value=position,
                    count=block.shape[1],
                    limit=self.n_columns,
                )
            yield block

    def _in_order(self, raw: Any, position: int) -> Any:
        """Bring the columns of a block that names them into the order of the first block."""
        if self.column_names is None or not hasattr(raw, "columns"):
            return raw
        if set(map(str, raw.columns)) != set(self.column_names):
            raise errors.DataError(
                f"row block {position} of omega has the columns "
                f"{errors.first_few(list(raw.columns))}, "
                f"the first block {errors.first_few(self.column_names)}.",
                value=position,
                columns=[str(name) for name in raw.columns],
            )
        return raw[
            [name for wanted in self.column_names for name in raw.columns if str(name) == wanted]
        ]


@dataclass(frozen=True)
class ParquetRows:
    """The columns of a Parquet file (or folder of files) as dense row blocks.

    They are read a few row groups at a time.
    """

    path: Path
    columns: tuple[str, ...] | None = None
    batch_rows: int = 1 << 16

    def names(self) -> tuple[str, ...]:
        """Return the columns read, in order."""
        if self.columns is not None:
            return self.columns
        import pyarrow.dataset as ds

        with damage_named(self.path, "omega"):
            names = ds.dataset(self.path, format="parquet").schema.names
        return tuple(
            name for name in names if not name.startswith("__index_level_")
        )  # pandas keeps its index so

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        import pyarrow.parquet as pq

        files = (
            sorted(self.path.glob("**/*.parquet"), key=by_number)
            if self.path.is_dir()
            else [self.path]
        )
        for file in files:
            with damage_named(file, "omega"):
                parquet = pq.ParquetFile(file)
            with parquet:
                batches = parquet.iter_batches(
                    batch_size=self.batch_rows, columns=list(self.names()), use_threads=False
                )
                while (block := _next_block(batches, file)) is not None:
                    yield block


def _next_block(batches: Iterator[Any], file: Path) -> npt.NDArray[Any] | None:
    with damage_named(file, "omega"):
        batch = next(batches, None)
        if batch is None:
            return None
        return np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])


def by_number(path: Path) -> list[Any]:
    """Return a key that sorts part-9 before part-10."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", str(path))]


def plain_csr(matrix: Any) -> sp.csr_array:
    """Return ``matrix`` as canonical CSR of float32 or float64, copying only what is not.

    Canonical: sorted, duplicates summed.
    """
    csr = sp.csr_array(matrix)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.dtype not in (np.float32, np.float64):
        csr = csr.astype(_plain_dtype(csr.dtype))
    return csr


def plain_block(raw: Any) -> RowBlock:
    """Return one row block as a C-ordered floating-point array or canonical CSR."""
    if sp.issparse(raw):
        return plain_csr(raw)
    if isinstance(raw, np.ma.MaskedArray):
        if np.ma.getmaskarray(raw).any():
            raise errors.DataError(
                "omega is a masked array with masked entries; every image needs a number for every "
                "source.",
                option="omega",
                value="masked",
            )
        raw = raw.data
    try:
        array = np.asarray(raw)
    except ValueError as error:
        raise errors.DataError(
            f"omega is no matrix: its rows have different lengths ({error}).",
            option="omega",
            value="rows of different lengths",
        ) from None
    if array.ndim != 2:
        raise errors.DataError(
            "omega has one row for each image and one column for each source, but an array of "
            f"shape {array.shape} came.",
            option="omega",
            value=list(array.shape),
        )
    if array.dtype.kind == "c":
        raise errors.DataError(
            "omega must hold real numbers, but its type is complex.",
            option="omega",
            value="complex",
        )
    if array.dtype.kind not in "biuf":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise errors.DataError(
                f"omega must hold numbers, but its type is {array.dtype}.",
                option="omega",
                value=str(array.dtype),
            ) from error
    return np.ascontiguousarray(array, dtype=_plain_dtype(array.dtype))


def open_reader(omega: Any) -> Reader:
    """Open a reader for whatever a user passes as ω.

    That is an array, a DataFrame, a SciPy sparse matrix, a path to .npy or .parquet, or row blocks.
    """
    if isinstance(omega, str | PathLike):
        omega = _open_path(Path(omega))
    if sp.issparse(omega):
        return SparseReader(plain_csr(omega))
    if isinstance(omega, np.ma.MaskedArray | np.matrix):
        return ArrayReader(plain_block(omega))
    if isinstance(omega, np.ndarray) and omega.dtype.kind in "biuf" and omega.ndim == 2:
        return ArrayReader(np.asarray(omega))
    if isinstance(omega, ParquetRows):
        return IterableReader(omega, n_columns=len(omega.names()), column_names=omega.names())
    if hasattr(omega, "__array__"):
        return ArrayReader(np.asarray(plain_block(omega)))
    if isinstance(omega, Iterator):
        raise errors.one_shot_blocks()
    if isinstance(omega, Iterable):
        return _open_iterable(omega)
    raise errors.DataError(
        "omega must be an array, a SciPy sparse matrix, a DataFrame, a path to .npy or .parquet, "
        f"or row blocks; got {type(omega).__name__}.",
        option="omega",
        value=type(omega).__name__,
    )


def _open_iterable(omega: Iterable[Any]) -> Reader:
    first = next(iter(omega), None)
    if first is None:
        raise errors.no_rows()
    if np.ndim(first) == 1 and not sp.issparse(first):  # a list of rows, not of blocks
        return ArrayReader(plain_block(list(omega)))
    names = tuple(str(name) for name in first.columns) if hasattr(first, "columns") else None
    return IterableReader(
        omega,
        n_columns=plain_block(first).shape[1],
        column_names=names,
        is_sparse=sp.issparse(first),
    )


def _open_path(path: Path) -> Any:
    if not path.exists():
        raise errors.DataError(
            f"omega is to be read from {path}, but there is no such file or folder.", path=str(path)
        )
    if path.suffix == ".npy":
        with damage_named(path, "omega"):
            check_regular(path)
            return np.load(path, mmap_mode="r", allow_pickle=False)
    if path.suffix == ".parquet" or path.is_dir():
        return ParquetRows(path)
    raise errors.DataError(
        f"omega can be read from .npy and .parquet files, not from {path.name}.", path=str(path)
    )
