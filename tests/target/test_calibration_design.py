"""Designs of calibrations against derivatives and explicit sums."""

import numpy as np
import pytest

from unskew.target.calibration_design import make_design, number_of_parameters


@pytest.mark.parametrize("family", ["temperature", "vector", "matrix"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sums_of_the_design_are_those_of_its_derivatives(family, n_classes):
    rng = np.random.default_rng(0)
    design, n_parameters = make_design(n_classes, family), number_of_parameters(n_classes, family)
    assert design.is_slope.shape == (n_parameters,)
    assert (~design.is_slope).sum() == n_classes - 1
    x, pull = rng.normal(size=(2, 5, n_classes))
    theta = rng.normal(size=n_parameters)
    # linear in θ: the logits of unit vectors are the derivatives
    derivative = np.stack([design.logits(unit, x) for unit in np.eye(n_parameters)], axis=-1)
    np.testing.assert_allclose(design.logits(theta, x), derivative @ theta)
    np.testing.assert_allclose(design.pull(pull, x), np.einsum("nc,ncp->np", pull, derivative))
    np.testing.assert_allclose(design.by_class(pull, x), np.einsum("nc,ncp->cp", pull, derivative))
    share, p = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(n_classes), 5)
    mean = np.einsum("nc,ncp->np", p, derivative)
    expected = (
        np.einsum("n,nc,ncp,ncq->pq", share, p, derivative, derivative) - (mean.T * share) @ mean
    )
    np.testing.assert_allclose(design.curvature(share, p, x), expected, atol=1e-12)
