"""What is known about the selection -> omega.

- ``base``: what every bias model is: settings that are fitted to a pool, and the fitted factor of
  ω.
- ``box``: biasing functions that are 1 in a box around a source's own images and 0 outside.
- ``class_scores``: how likely each class is, given the features: cross-fitted, calibrated, for any
  table.
- ``class_shift``: biasing functions of the label where the target's images have none: label shift.
- ``class_tilt``: biasing functions of the label and of features, where the target's images have no
  labels.
- ``comparisons``: which columns are compared between which sources: those that have a value for
  every image.
- ``components``: many columns, such as an embedding -> a few principal components.
- ``feature_flags``: features that deserve a warning.
- ``features``: columns of a table -> numbers: numeric features standardised, categorical ones as
  indicators.
- ``fit_check``: given ω, does each source look like ω_k p̃/Ω_k? Score tests with bootstrap
  p-values.
- ``fit_rows``: the rows that a bias model is fitted on.
- ``fit_tests``: the tests of one comparison: each column by itself, and all columns together.
- ``fitted``: a fitted bias model: ω of any table, and what it rests on.
- ``fitting``: the fit of a bias model.
- ``known``: biasing functions that are known: given as columns, functions or a matrix.
- ``likelihood``: maximum likelihood of the source labels for log-linear biasing functions, by
  Newton's method.
- ``probe_functions``: functions of an image by which sources are compared: of one column, of
  pairs, of all at once.
- ``product``: biasing functions that are products, such as label bias × camera bias.
- ``propensity``: biasing functions from a classifier of the source, cross-fitted, relative to a
  reference.
- ``queries``: queries of a table: a small language, parsed and computed, never run as code.
- ``redrawn_sources``: sums of residuals over the images, and what they are under the model:
  sources drawn again.
- ``residual_draws``: residuals of replicates in which every image gets a source drawn from q.
- ``resemblance``: does the weighted pool look like the target? A classifier tries to tell them
  apart.
- ``separation``: is it more than chance that a classifier tells the target's images from the
  weighted pool?
- ``schema``: a bias model <-> the ``[bias]`` part of a configuration, as values of TOML and JSON.
- ``strata``: biasing functions of discrete attributes alone: label, country × gender, age in
  bins.
- ``subpopulation``: biasing functions of sources that draw fairly, each from a part of the
  population only.
- ``tilt``: biasing functions that are log-linear in features, relative to a reference.
- ``soft_box``: `SoftBox`: 1 in a box, falling off around it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.bias.base import Bias, BiasData, Description, Factor
    from unskew.bias.box import Box
    from unskew.bias.class_shift import ClassShift
    from unskew.bias.class_tilt import ClassTilt
    from unskew.bias.features import read_feature_column
    from unskew.bias.known import Known
    from unskew.bias.product import Product
    from unskew.bias.propensity import Propensity
    from unskew.bias.soft_box.model import SoftBox
    from unskew.bias.strata import Strata
    from unskew.bias.subpopulation import Subpopulation
    from unskew.bias.tilt import Tilt

__all__ = [
    "Bias",
    "BiasData",
    "Box",
    "ClassShift",
    "ClassTilt",
    "Description",
    "Factor",
    "Known",
    "Product",
    "Propensity",
    "SoftBox",
    "Strata",
    "Subpopulation",
    "Tilt",
    "read_feature_column",
]

# Where each name is from; a family is loaded when it is asked for.
_HOME = {
    "Bias": "base",
    "BiasData": "base",
    "Box": "box",
    "ClassShift": "class_shift",
    "ClassTilt": "class_tilt",
    "Description": "base",
    "Factor": "base",
    "Known": "known",
    "Product": "product",
    "Propensity": "propensity",
    "SoftBox": "soft_box.model",
    "Strata": "strata",
    "Subpopulation": "subpopulation",
    "Tilt": "tilt",
    "read_feature_column": "features",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'unskew.bias' has no attribute {name!r}")
    value = getattr(import_module(f"unskew.bias.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
