"""What weights remember of their estimation: scores of new images, and updates."""

from __future__ import annotations

import pytest

import unskew
from two_sources import two_sources
from unskew import Pool
from unskew.bias import Tilt
from unskew.errors import DataError


def test_score_and_update_refuse_other_types_than_tables_and_pools():
    frame = two_sources()
    weights = unskew.debias(Pool.from_frame(frame), Tilt(["x"], reference="p"))
    with pytest.raises(DataError, match="got list"):
        weights.score([1.0, 2.0])
    with pytest.raises(DataError, match="got DataFrame"):
        weights.update(frame)
