"""Pickles that hold plain values and NumPy arrays, read without running anything of theirs.

A pickle is a program: it may call any function that it can name. Here it can name five things, and
each is replaced by a stand-in that only collects numbers; NumPy's own reconstruction, which trusts
its input, is never called.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError

# Kinds of numbers, by NumPy's codes: bool, signed and unsigned integers, floating. No objects, no
# records, no text.
_NUMBERS = "biuf"


class _PickledType:
    """Stands in for ``numpy.dtype``: a kind of number and its byte order."""

    def __init__(self, code: Any, *_: Any) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else str(code)
        self.dtype = np.dtype(text)
        if self.dtype.kind not in _NUMBERS:
            raise DataError(f"the pickle holds an array of {text!r}, which are not numbers.")

    def __setstate__(self, state: Any) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else str(state[1])
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)  # type: ignore[arg-type]


class _PickledArray:
    """Stands in for ``numpy.ndarray`` while it is being put together."""

    # Also where a pickle makes one without calling __init__.
    array: npt.NDArray[Any] = np.empty(0)

    def __init__(self, *_: Any) -> None:
        """Wait for `__setstate__`, which fills the array."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        self.array = _numbers(content, kind, shape, "F" if fortran else "C")


def _numbers(content: Any, kind: Any, shape: Any, order: str) -> npt.NDArray[Any]:
    if not isinstance(kind, _PickledType):
        raise DataError("the pickle holds an array without a type.")
    if isinstance(content, str):  # text of Python 2 is bytes
        content = content.encode("latin-1")
    if not isinstance(content, bytes | bytearray):
        raise DataError(
            f"the pickle holds an array whose content is {type(content).__name__}, not bytes."
        )
    return np.frombuffer(bytes(content), dtype=kind.dtype).reshape(shape, order=order)  # type: ignore[call-overload,no-any-return]


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any, *_: Any) -> _PickledArray:
    made = _PickledArray()
    made.array = _numbers(content, kind, shape, str(order))
    return made


def _latin_1(text: str, encoding: str) -> bytes:
    """Decode bytes as Python 3 writes them into pickles for Python 2."""
    if encoding != "latin1":
        raise DataError(f"the pickle asks for the encoding {encoding!r}.")
    return text.encode("latin-1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
    ("_codecs", "encode"): _latin_1,
}
for _core in ("numpy.core", "numpy._core"):
    _ADMITTED[f"{_core}.multiarray", "_reconstruct"] = _PickledArray
    _ADMITTED[f"{_core}.numeric", "_frombuffer"] = _from_buffer


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler: the compiled one makes a list as long as a pickle numbers objects."""

    def _load_bytearray(self) -> None:
        """Read bytes before memory is reserved for them."""
        self.append(bytearray(self.read(*struct.unpack("<Q", self.read(8)))))  # type: ignore[attr-defined]

    dispatch: ClassVar[dict[int, Any]] = pickle._Unpickler.dispatch | {
        pickle.BYTEARRAY8[0]: _load_bytearray
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name, or raise an error: nothing is imported."""
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise DataError(
                f"the pickle asks for {module}.{name}, but only NumPy arrays of numbers are "
                "admitted."
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        """Refuse: a pickle of numbers needs nothing from outside."""
        raise DataError("the pickle refers to something outside of itself.")


def load_arrays(content: bytes, user_path: str) -> dict[str, Any]:
    """Read the dictionary of a pickle: arrays of numbers, lists, numbers and text by name.

    Text of Python 2 comes as bytes. ``user_path``: the file, for messages.
    """
    try:
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{user_path!r} is refused: {error}", path=user_path) from error
    except Exception as error:  # a broken pickle may fail in any way
        raise DataError(
            f"{user_path!r} cannot be read as a pickle: {type(error).__name__}: {error}.",
            path=user_path,
        ) from error
    if not isinstance(loaded, dict):
        raise DataError(
            f"{user_path!r} is a pickle of {type(loaded).__name__}, but a dictionary was expected.",
            path=user_path,
        )
    plain = {
        key.decode("latin-1") if isinstance(key, bytes) else str(key): value
        for key, value in loaded.items()
    }
    odd = [
        key for key, value in plain.items() if callable(value) or isinstance(value, _PickledType)
    ]
    if odd:
        raise DataError(
            f"{user_path!r} is refused: {odd[0]!r} is neither an array nor a plain value.",
            path=user_path,
            key=odd[0],
        )
    return {
        key: value.array if isinstance(value, _PickledArray) else value
        for key, value in plain.items()
    }
