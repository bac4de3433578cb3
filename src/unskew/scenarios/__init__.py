"""Biased databases whose truth is known, for tests, benchmarks and the demo.

`scenario` is the record that each of the others draws.
"""

from unskew.scenarios.censoring import censored
from unskew.scenarios.class_overlap import class_mixtures, overlapping_classes
from unskew.scenarios.gaussian_tilts import tilts
from unskew.scenarios.image_acquisition import acquisition
from unskew.scenarios.nesting import NestedSolution, nested_sets, nested_sets_solution
from unskew.scenarios.scenario import Scenario, geometric_sizes

__all__ = [
    "NestedSolution",
    "Scenario",
    "acquisition",
    "censored",
    "class_mixtures",
    "geometric_sizes",
    "nested_sets",
    "nested_sets_solution",
    "overlapping_classes",
    "tilts",
]
