"""Data for the tests of this folder."""

from __future__ import annotations

import pytest

from monitored_pools import make_tilted_reference
from unskew.monitoring.stream import Reference


@pytest.fixture(scope="session")
def reference() -> Reference:
    """Two sources of 200 images, and a target like both."""
    return make_tilted_reference()
