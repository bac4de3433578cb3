"""The nouns that the stages hand to one another: frozen, with methods that compute delegated by a
lazy import.
"""

from unskew.records.arrays import Codes, Floats, Ints
from unskew.records.diagnostics import Diagnostics, OutcomeRange
from unskew.records.pool import ChosenImages, Images, JoinedImages, Pool, RawImage
from unskew.records.solution import Overlap, Solution, Status, Step, Verdict
from unskew.records.target import Target
from unskew.records.weights import Estimate, Weights

__all__ = [
    "ChosenImages",
    "Codes",
    "Diagnostics",
    "Estimate",
    "Floats",
    "Images",
    "Ints",
    "JoinedImages",
    "OutcomeRange",
    "Overlap",
    "Pool",
    "RawImage",
    "Solution",
    "Status",
    "Step",
    "Target",
    "Verdict",
    "Weights",
]
