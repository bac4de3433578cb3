"""Pickles of arrays are read without running anything of theirs."""

import os
import pickle
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from raising import refused
from unskew import DataError
from unskew.sources.pickled_arrays import load_arrays


class Evil:
    """What a hostile pickle looks like: it calls a function when it is read."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (
            pickle.dumps({"a": Evil(os.mkdir, "broken-in")}),
            "posix.mkdir",
        ),
        (pickle.dumps({"a": Evil(eval, "1+1")}), "asks for builtins.eval"),
        (pickle.dumps({"a": Evil(getattr, "x", "upper")}), "asks for builtins.getattr"),
        (b"cos\nsystem\n(S'touch broken-in'\ntR.", "asks for os.system"),
        (b"cnumpy\nload\n(S'x'\ntR.", "asks for numpy.load"),
        (b"cnumpy.core.multiarray\nscalar\n(S'x'\ntR.", "asks for numpy.core.multiarray.scalar"),
        (pickle.dumps({"a": np.array([{}], dtype=object)}), "not numbers"),
        (pickle.dumps({"a": np.zeros(2, dtype=[("x", "u1")])}), "not numbers"),
        (b"\x80\x02Pabc\n.", "outside of itself"),
        (pickle.dumps([1, 2]), "pickle of list"),
        (b"\x80\x02}U\x01acnumpy\nndarray\ns.", "'a' is neither an array nor a plain value"),
        (
            b"\x80\x02}U\x01acnumpy\ndtype\nU\x02u1\x85Rs.",
            "'a' is neither an array nor a plain value",
        ),
        (b"", "EOFError"),
        (b"\x80\x05garbage", "ValueError"),
        (pickle.dumps({"a": np.arange(5)})[:-9], "UnpicklingError"),
    ],
)
def test_hostile_and_broken_pickles_are_refused(content, culprit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused(DataError, path="batch") as caught:
        load_arrays(content, "batch")
    assert culprit in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_array_that_was_never_filled_is_empty():
    """Made by NEWOBJ, without the state that a real array has."""
    assert load_arrays(b"\x80\x02}U\x01acnumpy\nndarray\n)\x81s.", "batch")["a"].size == 0


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "f8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numbers_come_back_as_they_were(protocol, dtype, order):
    array = np.asarray(np.arange(12).reshape(3, 4) % 2, dtype=dtype, order=order)
    back = load_arrays(pickle.dumps({"a": array, "b": [1, "x"]}, protocol=protocol), "batch")
    assert np.array_equal(back["a"], array)
    assert back["a"].dtype == array.dtype
    assert back["b"] == [1, "x"]


@pytest.mark.parametrize(
    "content",
    [b"\x80\x02}r\xff\xff\xff\x07.", b"\x80\x05\x96\xff\xff\xff\x7f\x00\x00\x00\x00}."],
)
def test_what_a_pickle_claims_costs_no_memory(content: bytes) -> None:
    """A number of an object, for which a list of 2 gigabytes would be made; a length of bytes."""
    tracemalloc.start()
    try:
        with suppress(DataError):
            load_arrays(content, "batch")
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
