"""Errors are checked by their kind and by the facts that they carry, not by their sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from unskew import UnskewError


@contextmanager
def refused(kind: type[UnskewError], **facts: Any) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error of this kind that carries at least these facts, and a message."""
    with pytest.raises(kind) as caught:
        yield caught
    assert str(caught.value)
    assert {name: caught.value.facts.get(name) for name in facts} == facts
