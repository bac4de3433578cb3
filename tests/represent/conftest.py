"""A module with networks of the user's."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from represent.small_networks import FACTORIES


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of the user's, found on the path; forgotten afterwards."""
    (tmp_path / "my_networks.py").write_text(textwrap.dedent(FACTORIES))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    yield "my_networks"
    sys.modules.pop("my_networks", None)
