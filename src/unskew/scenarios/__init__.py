"""Biased databases whose truth is known; NumPy only.

- ``censoring``: a large source that never shows part of the population, and a small one that
  does.
- ``class_overlap``: sources that differ in how often they show each class (the article's section
  4.2).
- ``gaussian_tilts``: sources that are exponential tilts of a Gaussian target: everything is known
  in closed form.
- ``image_acquisition``: sources that differ in how their images were taken.
- ``nesting``: nested truncation: each source sees all that the one before it sees, and more.
- ``scenario``: what a scenario returns: drawn images, their sources, and the truth that no user
  knows.
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
