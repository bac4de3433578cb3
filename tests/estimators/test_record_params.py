"""Fields of bias and target as parameters."""

from __future__ import annotations

import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from unskew import DebiasedClassifier, Target
from unskew.bias import Product, Strata, Tilt


def test_parameters_of_records() -> None:
    shared = Tilt(["x_0"])
    model = DebiasedClassifier(bias=shared).set_params(
        bias__degree=2, estimator=LogisticRegression(), estimator__C=3.0
    )
    assert (model.bias.degree, shared.degree, model.estimator.C) == (2, 1, 3.0)
    assert model.set_params(bias=Strata("label"), bias__by="country").bias == Strata("country")
    again = clone(
        DebiasedClassifier(bias=Product(Strata("label"), shared), target=Target.uniform("label"))
    )
    assert again.bias == Product(Strata("label"), shared)
    with pytest.raises(ValueError, match="Invalid parameter"):
        DebiasedClassifier(bias=shared).set_params(bias__colour=1)
    with pytest.raises(ValueError, match="Invalid parameter"):
        DebiasedClassifier().set_params(bias__degree=2)
