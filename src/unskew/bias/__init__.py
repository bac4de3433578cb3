"""Biasing functions from what is known and from what the images tell.

`base` defines what a bias model is. The families are `known`, `subpopulation`, `strata`, `box`,
`tilt`, `propensity`, `soft_box` and `product`; `schema` reads and writes them as configurations.
`fitting` fits a model on the rows that `fit_rows` gathers and returns a `fitted` one; `likelihood`
fits log-linear factors. `features` turns columns into numbers, `feature_flags` warns of unsuitable
ones. `fit_check` and `resemblance` judge the result.
"""

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.box import Box
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
    "Description",
    "Factor",
    "Known",
    "Product",
    "Propensity",
    "SoftBox",
    "Strata",
    "Subpopulation",
    "Tilt",
]
