"""A fitted bias model: ω of any table, and the population that it speaks of."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from mixed_sources import MARGIN, mixed_pool
from raising import refused
from unskew import DataError, Pool, Target
from unskew.bias import Box, Known, Product, Strata, Subpopulation, Tilt
from unskew.errors import UnskewWarning

WITHIN_BOXES = "the part of the population within the union of the boxes"


RESTRICTED = Target.margins({"label": {"cat": 0.5, "dog": 0.4, "owl": 0.1}}, uncovered="restrict")


WITHOUT_OWL = "the target excluding strata with no images in any source: label = owl (0.1)"


@pytest.mark.parametrize(
    ("parts", "target", "population"),
    [
        ((Tilt(["x"], reference="a"), Known({"a": 1.0, "b": 1.0, "c": 1.0})), None, "the target"),
        ((Tilt(["x"], reference="a"), Box(["y"])), None, WITHIN_BOXES),
        ((Box(["x"]), Box(["y"])), None, WITHIN_BOXES),
        ((Strata("label"), Tilt(["x"], reference="a")), RESTRICTED, WITHOUT_OWL),
        ((Strata("label"), Box(["y"])), MARGIN, WITHIN_BOXES),
        ((Strata("label"), Box(["y"])), RESTRICTED, f"{WITHOUT_OWL}; of this only {WITHIN_BOXES}"),
        (
            (Box(["y"]), Subpopulation(dict.fromkeys("abc", "x < 99")), Tilt(["x"], reference="a")),
            None,
            f"{WITHIN_BOXES}; of this only the parts of the population together",
        ),
        (
            (Box(["y"]), Subpopulation({"a": "x < 99", "b": "all", "c": "x < 99"})),
            None,
            WITHIN_BOXES,
        ),
    ],
)
def test_the_population_is_what_all_factors_leave_in_any_order(parts, target, population):
    for order in (parts, parts[::-1]):
        assert Product(*order).fit(mixed_pool(), target).describe().population == population


def test_omega_is_the_product_of_the_factors_on_any_table():
    pool = mixed_pool(1)
    tilt = Tilt(["x"], reference="a")
    fitted = Product(Strata("label"), tilt, Known({"a": 1.0, "b": 2.0, "c": 4.0})).fit(pool, MARGIN)
    table = pool.frame.iloc[[5, 3, 8]].drop(columns=["source", "id"])
    expected = fitted.strata.log_factor[fitted.strata.cells(table)]
    for factor in fitted.factors:
        expected = expected + factor.log_omega(table)
    np.testing.assert_allclose(fitted.log_omega(table), expected)
    np.testing.assert_allclose(fitted.omega(table), np.exp(expected))
    np.testing.assert_allclose(fitted.omega(pool)[[5, 3, 8]], fitted.omega(table))
    with refused(DataError, option="table", value="ndarray"):
        fitted.omega(np.ones((3, 2)))


def test_the_targets_sample_is_no_column_of_omega():
    sample = Pool(mixed_pool(2, n=100).frame.assign(source="t"))
    fitted = Tilt(["x"]).fit(mixed_pool(1), Target.sample(sample))
    assert fitted.data.n_sources == 4
    assert fitted.omega(mixed_pool(1)).shape == (400, 3)
    assert "100 images of the target fitted the model" in " ".join(fitted.describe().notes)


def test_the_log_likelihood_is_that_of_the_memberships():
    pool = mixed_pool(3)
    fitted = Tilt(["x"], reference="a").fit(pool)
    log_q = scipy.special.log_softmax(fitted.log_omega(pool) + fitted.profile.u[0], axis=1)
    assert fitted.log_likelihood == pytest.approx(log_q[np.arange(400), pool.source].sum())
    flat = Known({"a": 1.0, "b": 1.0, "c": 1.0}).fit(pool)
    size = np.bincount(pool.source)
    assert flat.log_likelihood == pytest.approx((size * np.log(size / 400)).sum())


def test_omega_is_known_where_nothing_was_estimated_or_left_out():
    pool = mixed_pool(4)
    known = Known({"a": 1.0, "b": 2.0, "c": 1.0})
    sample = Target.sample(Pool(mixed_pool(2, n=100).frame.assign(source="t")))
    assert known.fit(pool).omega_is_known
    assert not known.fit(pool, sample).omega_is_known
    for model, target in (
        (Tilt(["x"], reference="a"), None),
        (Strata("label"), MARGIN),
        (Box(["x"], quantile=0.05), None),
    ):
        assert not model.fit(pool, target).omega_is_known
    assert Strata("label").fit(pool, MARGIN).normalizers_known
    assert not known.fit(pool).normalizers_known


def test_levels_of_a_sample_that_no_source_has_are_told_with_their_share():
    pool = mixed_pool(5)
    label = np.repeat(["cat", "owl"], [30, 10])
    sample = Target.sample(Pool.from_arrays(["t"] * 40, label, x=np.linspace(0, 1, 40)))
    with pytest.warns(UnskewWarning):
        fitted = Tilt(["label"]).fit(pool, sample)
    assert fitted.uncovered == (0.25, ["label = owl"])
    assert Tilt(["x"]).fit(pool, sample).uncovered == (0.0, [])
    assert Tilt(["x"], reference="a").fit(pool).uncovered == (0.0, [])
