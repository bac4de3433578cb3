"""What weights remember of their estimation: weights of new images, and refits."""

from __future__ import annotations

import unskew
from raising import refused
from two_sources import two_sources
from unskew import Pool
from unskew.bias import Tilt
from unskew.errors import DataError


def test_weigh_and_refit_refuse_other_types_than_tables_and_pools():
    frame = two_sources()
    weights = unskew.debias(Pool.from_frame(frame), Tilt(["x"], reference="p"))
    with refused(DataError):
        weights.weigh([1.0, 2.0])
    with refused(DataError):
        weights.refit(frame)
