"""Functions of an image: ranks are invariant, products are of two columns, all is bounded."""

import numpy as np
import pandas as pd
import pytest

from unskew.bias.probe_functions import make_joint, read_column

EVERY = np.ones(200, dtype=bool)


def columns(**values):
    frame = pd.DataFrame(values)
    has_r = np.ones(len(frame), dtype=bool)
    return [read_column(frame, name, has_r) for name in values]


def test_factors_have_mean_0_and_variance_1():
    rng = np.random.default_rng(0)
    (x,) = columns(x=rng.exponential(size=200))
    texts, value_rm = x.factors(curved=True)
    assert len(texts) == 2
    assert value_rm.mean(axis=0) == pytest.approx(0.0, abs=0.01)
    # Mid-ranks are a grid: their variance is that of the uniform up to 1/n².
    assert value_rm.var(axis=0) == pytest.approx(1.0, abs=0.02)
    (kind,) = columns(kind=rng.choice(list("pqr"), 200))
    assert kind.factors(curved=True)[1].var(axis=0).sum() == pytest.approx(1.0, rel=1e-5)


def test_two_levels_make_one_function_and_a_constant_none():
    two, constant = columns(two=list("pq" * 100), constant=["p"] * 200)
    assert two.factors(curved=True)[1].shape == (200, 1)
    assert constant.places == ()


def test_monotone_transformations_change_nothing():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 200))
    at = np.arange(200)
    first = make_joint(columns(x=x, z=z), "label", 0)(at)
    other = make_joint(columns(x=np.exp(x), z=z**3), "label", 0)(at)
    np.testing.assert_allclose(first, other, atol=1e-6)


def test_products_are_named_after_their_columns_and_labels_apart():
    rng = np.random.default_rng(2)
    read = columns(x=rng.normal(size=200), z=rng.normal(size=200), label=list("uv" * 100))
    joint = make_joint(read, "label", 0)
    products, with_label, random, random_with_label = joint.families
    assert all("label" not in place for place in joint.places[products.part])
    assert all("label" in place for place in joint.places[with_label.part])
    assert len(with_label.pairs) == 2
    value_rt = joint(np.arange(200))
    assert value_rt.shape == (200, random_with_label.part.stop)
    assert np.abs(value_rt[:, random.part]).max() <= 1.0
    left, right = joint.factor[:, joint.left], joint.factor[:, joint.right]
    np.testing.assert_allclose(value_rt[:, : len(joint.places)], left * right, rtol=1e-6)


def test_one_column_has_nothing_to_be_joined_with():
    assert make_joint(columns(x=np.arange(9.0), constant=np.ones(9)), "label", 0) is None


def test_many_columns_are_replaced_by_directions():
    rng = np.random.default_rng(3)
    read = columns(**{f"e{j}": rng.normal(size=50) for j in range(70)}, label=list("uv" * 25))
    joint = make_joint(read, "label", 0)
    assert len(joint.families[0].pairs) == 20 * 19 // 2
    assert len(joint.families[1].pairs) == 20
    assert "direction 1 of the features" in joint.places[0]


def test_random_functions_make_a_gaussian_kernel():
    rng = np.random.default_rng(4)
    joint = make_joint(columns(x=rng.normal(size=300), z=rng.normal(size=300)), "label", 0)
    value = joint(np.arange(300))[:, joint.families[1].part].astype(float)
    wide = np.r_[0:40, 80:120]  # cosines and sines of the first width
    kernel = value[:, wide] @ value[:, wide].T / 40
    apart = np.square(joint.factor[:, None] - joint.factor[None]).sum(axis=2)
    # 40 frequencies: an error of 1/√40 = 0.16 for a pair, far less for all pairs together.
    assert np.mean(kernel - np.exp(-apart / 4)) == pytest.approx(0.0, abs=0.1)
