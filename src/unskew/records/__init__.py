"""The nouns handed from room to room: frozen; methods that compute delegate by a lazy import.

- ``agreement``: do the sources agree on a target mean? What each of them says alone, and in words.
- ``arrays``: names for the arrays that everybody passes around; codes counted, logarithms summed,
  seeds.
- ``clustered_mean``: weighted means whose errors take the weights as given: Kish's effective
  number, and clusters.
- ``content_keys``: numbers for the content of images, and units shuffled by them: the order of
  rows has no say.
- ``design_weights``: what the sampling design of a source says about its own images: the weights
  d, checked and scaled.
- ``diagnostics``: how far the weights can be trusted: fit, error bars, outcomes, and sensitivity
  to c(z).
- ``holm``: several tests of one model: p-values that stay right however many there are (Holm
  1979).
- ``levels``: the values of a column as levels, and ids joined to positions.
- ``monitoring``: what a look at new images found: evidence of a change, its size, what to do.
- ``pool``: `Pool`, and where the pixels of its images are.
- ``pool_table``: tables and arrays -> `Pool`: one row for each image, with a source and a stable
  id.
- ``solution``: the solved equations, and what links the sources.
- ``target``: the population that results describe.
- ``vector_columns``: columns whose entries are vectors, as embeddings are stored -> one column for
  each number.
- ``weights``: one weight for every image; an estimate with its error.
"""

from unskew.records.agreement import Agreement, SourceEstimate, WithoutSource
from unskew.records.arrays import Bools, Codes, Floats, Ints
from unskew.records.diagnostics import Diagnostics, OutcomeMean, OutcomeRange
from unskew.records.pool import ChosenImages, Images, JoinedImages, Pool, RawImage
from unskew.records.solution import Overlap, Solution, Status, Step, Verdict
from unskew.records.target import Target
from unskew.records.weights import Estimate, RobustEstimate, Weights

__all__ = [
    "Agreement",
    "Bools",
    "ChosenImages",
    "Codes",
    "Diagnostics",
    "Estimate",
    "Floats",
    "Images",
    "Ints",
    "JoinedImages",
    "OutcomeMean",
    "OutcomeRange",
    "Overlap",
    "Pool",
    "RawImage",
    "RobustEstimate",
    "Solution",
    "SourceEstimate",
    "Status",
    "Step",
    "Target",
    "Verdict",
    "Weights",
    "WithoutSource",
]
