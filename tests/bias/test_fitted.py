"""A fitted bias model: ω of any table, and the population that it speaks of."""

from __future__ import annotations

import pytest

from mixed_sources import MARGIN, mixed_pool
from unskew import Target
from unskew.bias import Box, Known, Product, Strata, Subpopulation, Tilt

WITHIN_BOXES = "the part of the population within the union of the boxes"


RESTRICTED = Target.margins({"label": {"cat": 0.5, "dog": 0.4, "owl": 0.1}}, uncovered="restrict")


WITHOUT_OWL = "the target excluding strata with no images in any source: label = owl (0.1)"


@pytest.mark.parametrize(
    ("parts", "target", "population"),
    [
        ((Tilt(["x"], reference="a"), Known({"a": 1.0, "b": 1.0, "c": 1.0})), None, "the target"),
        ((Tilt(["x"], reference="a"), Box(["y"])), None, WITHIN_BOXES),
        ((Box(["x"]), Box(["y"])), None, WITHIN_BOXES),
        ((Strata("label"), Tilt(["x"], reference="a")), RESTRICTED, WITHOUT_OWL),
        ((Strata("label"), Box(["y"])), MARGIN, WITHIN_BOXES),
        ((Strata("label"), Box(["y"])), RESTRICTED, f"{WITHOUT_OWL}; of this only {WITHIN_BOXES}"),
        (
            (Box(["y"]), Subpopulation(dict.fromkeys("abc", "x < 99")), Tilt(["x"], reference="a")),
            None,
            f"{WITHIN_BOXES}; of this only the parts of the population together",
        ),
        (
            (Box(["y"]), Subpopulation({"a": "x < 99", "b": "all", "c": "x < 99"})),
            None,
            WITHIN_BOXES,
        ),
    ],
)
def test_the_population_is_what_all_factors_leave_in_any_order(parts, target, population):
    for order in (parts, parts[::-1]):
        assert Product(*order).fit(mixed_pool(), target).describe().population == population
