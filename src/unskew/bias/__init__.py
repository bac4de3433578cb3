"""Biasing functions from what is known and what the images tell: ``Known``, ``Strata``, ``Box``,
``SoftBox``, ``Tilt`` and others.
"""

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.box import Box
from unskew.bias.known import Known, Subpopulation
from unskew.bias.product import Product
from unskew.bias.propensity import Propensity
from unskew.bias.soft_box.model import SoftBox
from unskew.bias.strata import Strata
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
