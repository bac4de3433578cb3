"""Names of candidates, and the number of their fitted numbers."""

from __future__ import annotations

import pytest

import unskew
from choosing_pools import labelled_pool
from unskew.bias import Bias, Box, Known, Product, Strata, Subpopulation, Tilt
from unskew.choosing.candidates import count_parameters, model_name


class TestParameters:
    @pytest.mark.parametrize(
        ("model", "count"),
        [
            (Known({"0": 1.0, "1": 2.0}), 0),
            (Subpopulation({"0": "all", "1": "all"}), 0),
            (Tilt(["x"], reference="0"), 1),
            (Tilt(["x"], reference="0", degree=2), 2),
            (Tilt(["x", "label"], reference="0"), 3),
            (Box(["x"]), 4),
            (Strata("label"), 2),
            (Product(Strata("label"), Tilt(["x"], reference="0")), 3),
        ],
        ids=lambda value: model_name(value) if isinstance(value, Bias) else str(value),
    )
    def test_fitted_numbers_are_counted(self, model: Bias, count: int) -> None:
        assert count_parameters(model.fit(labelled_pool(), unskew.Target.uniform("label"))) == count

    def test_names_are_short(self) -> None:
        assert (
            model_name(Product(Strata("label"), Tilt(["x", "y"], reference="0")))
            == "Strata(label) × Tilt(x, y, reference=0)"
        )
        assert model_name(Known({"0": 1.0})) == "Known(1)"
