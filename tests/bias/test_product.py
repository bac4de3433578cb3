"""`Product`: joint maximum likelihood, against brute force, stratified oracles and single tilts."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from mixed_sources import HALVES, MARGIN, MASS, TILTED, mixed_pool
from raising import refused
from two_sources import two_sources
from unskew import ConfigError, OverlapError, Pool, Target, debias
from unskew.bias import Box, Known, Product, Propensity, SoftBox, Strata, Tilt
from unskew.weigh.effective_size import add_by_code


def brute_force(pool, cell, phi, offset, reference):
    """Minimise −Σ log q over u of every cell and θ of every source but the reference, by BFGS."""
    k, d, cells = len(pool.names), phi.shape[1], int(cell.max()) + 1
    free = [j for j in range(k) if j != reference]

    def value(eta):
        u = np.zeros((cells, k))
        u[:, 1:] = eta[: cells * (k - 1)].reshape(cells, k - 1)
        theta = np.zeros((k, d))
        theta[free] = eta[cells * (k - 1) :].reshape(k - 1, d)
        logit = offset + phi @ theta.T + u[cell]
        q = scipy.special.softmax(logit, axis=1)
        residual = q - np.eye(k)[pool.source]
        g_u = np.array([residual[cell == c].sum(axis=0)[1:] for c in range(cells)])
        loss = (
            scipy.special.logsumexp(logit, axis=1) - logit[np.arange(len(pool)), pool.source]
        ).sum()
        return loss, np.concatenate([g_u.ravel(), (residual.T @ phi)[free].ravel()])

    start = np.zeros((cells + d) * (k - 1))
    found = scipy.optimize.minimize(
        value, start, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}
    )
    u = np.zeros((cells, k))
    u[:, 1:] = found.x[: cells * (k - 1)].reshape(cells, k - 1)
    theta = np.zeros((k, d))
    theta[free] = found.x[cells * (k - 1) :].reshape(k - 1, d)
    return -found.fun, offset + phi @ theta.T + u[cell]


def weights_by_hand(logit, cell, mass):
    v = np.exp(-scipy.special.logsumexp(logit, axis=1))
    return mass[cell] * v / add_by_code(cell, v, mass.size)[cell]


def test_strata_times_tilt_is_the_joint_maximum():
    pool = mixed_pool()
    weights = debias(pool, Product(Strata("label"), Tilt(["x", "y"], reference="c")), MARGIN)
    cell = (pool.frame["label"] == "dog").to_numpy().astype(int)
    phi = pool.frame[["x", "y"]].to_numpy()
    best, logit = brute_force(pool, cell, phi, np.zeros((400, 3)), pool.names.index("c"))
    fitted = weights.estimation.fitted
    assert fitted.log_likelihood == pytest.approx(best, abs=1e-5)
    np.testing.assert_allclose(
        weights.weight, weights_by_hand(logit, cell, np.array([0.6, 0.4])), rtol=1e-3
    )
    np.testing.assert_allclose(weights.weight @ fitted.omega(pool), 1.0, rtol=1e-6)
    np.testing.assert_allclose(weights.weigh(pool), weights.sample_weight, rtol=1e-8)
    assert weights.weight[cell == 0].sum() == pytest.approx(0.6, rel=1e-12)


def test_known_times_tilt_is_a_tilt_with_an_offset():
    pool = mixed_pool(1)
    known = Known({"a": lambda frame: np.exp(0.5 * frame["x"]), "b": 1.0, "c": 2.0})
    weights = debias(pool, Product(known, Tilt(["y"], reference="c")))
    offset = np.column_stack(
        [
            0.5 * pool.frame["x"] if name == "a" else np.full(400, np.log(2.0) * (name == "c"))
            for name in pool.names
        ]
    )
    phi = pool.frame[["y"]].to_numpy()
    best, logit = brute_force(pool, np.zeros(400, dtype=int), phi, offset, pool.names.index("c"))
    assert weights.estimation.fitted.log_likelihood == pytest.approx(best, abs=1e-5)
    v = np.exp(-scipy.special.logsumexp(logit, axis=1))
    np.testing.assert_allclose(weights.weight, v / v.sum(), rtol=1e-3)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (Strata("label"), MARGIN),
        (Tilt(["x"], reference="a"), None),
        (Box(["x"], quantile=0.01), None),
    ],
    ids=repr,
)
def test_a_product_of_one_factor_is_that_factor(model, target):
    pool = mixed_pool(4)
    np.testing.assert_array_equal(
        debias(pool, Product(model), target).weight, debias(pool, model, target).weight
    )
    np.testing.assert_array_equal(
        debias(pool, Product(Product(model)), target).weight, debias(pool, model, target).weight
    )


def test_box_times_tilt_is_0_outside_the_box_and_nested_products_are_flat():
    pool = mixed_pool(5)
    product = Product(Product(Box(["x"])), Product(Tilt(["y"], reference="c"), Strata("label")))
    assert [part.family for part in product.parts] == ["box", "tilt", "strata"]
    assert product.columns == ("x", "y", "label")
    fitted = product.fit(pool, MARGIN)
    box = Box(["x"]).fit(pool).omega(pool)
    assert (fitted.omega(pool)[box == 0] == 0).all()
    described = fitted.describe()
    assert described.family == "Strata × Box × Tilt"
    assert all(name in described.anchor for name in ("Strata: ", "Box: ", "Tilt: "))


@pytest.mark.slow
def test_errors_of_a_product_agree_with_a_bootstrap_that_refits():
    pool = mixed_pool(6)
    weights = debias(
        pool,
        Product(Strata("label"), Tilt(["x"], reference="c")),
        Target.margins({"label": {"mass": MASS, "n": 200}}),
    )
    drawn = weights.bootstrap(60, 0, pool.frame["x"])
    assert drawn.mean.std() == pytest.approx(weights.mean(pool.frame["x"]).stderr, rel=0.35)


def test_features_of_their_own_may_have_references_of_their_own():
    """One source does not select on x, another not on y: that tells c(z), in either order."""
    pool = mixed_pool(n=900)
    factors = (Tilt(["x"], reference="a"), Tilt(["y"], reference="c"))
    one, other = (debias(pool, Product(*order)) for order in (factors, factors[::-1]))
    np.testing.assert_allclose(one.weight, other.weight, rtol=1e-4)


def test_what_is_refused():
    with refused(ConfigError, option="factors", value=[]):
        Product()
    with refused(ConfigError, option="factors", value="'tilt'"):
        Product("tilt")
    first, second = Tilt(["x"], reference="a"), Propensity(["y", "x"], reference="c")
    for factors in (
        (first, second),
        (second, first),
        (Product(first), Product(Strata("label"), second)),
        (first, Tilt(["x"], reference="c")),
    ):
        with refused(ConfigError, option="reference", columns=["x"]) as caught:
            Product(*factors)
        assert set(caught.value.facts["sources"]) == {"a", "c"}
    pool = mixed_pool(7)
    with refused(ConfigError, columns=["label", "label"]):
        debias(pool, Product(Strata("label"), Strata("label")), MARGIN)
    split = Known(
        {
            name: (lambda frame, at=at: (frame["z"] == at) * 1.0)
            for at, name in enumerate(pool.names)
        }
    )
    separate = Pool(pool.frame.assign(z=pool.source))
    with pytest.raises(OverlapError, match=r"in the stratum label = (cat|dog)"):
        debias(separate, Product(Strata("label"), split), MARGIN)


@pytest.mark.parametrize(
    ("factor", "constant"),
    [
        # e^900 is beyond a double.
        *((Tilt(["x"], reference="c"), constant) for constant in (20.0, 300.0, 900.0)),
        (Propensity(["x"], reference="c"), 900.0),
        (Propensity(["x"], reference="c", classifier="boosting"), 900.0),
        (SoftBox(["x"]), 900.0),
    ],
    ids=["tilt-20", "tilt-300", "tilt-900", "logistic", "boosting", "soft_box"],
)
def test_a_constant_of_a_source_in_a_known_factor_changes_no_weight(factor, constant):
    pool = mixed_pool(n=900)
    plain = debias(pool, Product(factor, Known({"a": 0.0, "b": 0.0, "c": 0.0}, log=True)))
    shifted = debias(
        pool, Product(factor, Known({"a": 0.0, "b": -constant, "c": constant}, log=True))
    )
    np.testing.assert_allclose(shifted.weight, plain.weight, rtol=1e-6)
    assert plain.weight.std() > 0


def test_a_constant_of_a_source_changes_no_weight_within_strata():
    pool = mixed_pool(n=900)
    values = [
        debias(
            pool,
            Product(
                Strata("label"),
                Tilt(["x"], reference="c"),
                Known({"a": 0.0, "b": -c, "c": c}, log=True),
            ),
            MARGIN,
        ).weight
        for c in (0.0, 300.0)
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)


def test_a_stratum_without_mass_in_a_product_equals_a_pool_without_it():
    frame = two_sources()
    inside = (frame["label"] != "c").to_numpy()
    whole = debias(
        Pool.from_frame(frame), TILTED, Target.margins({"label": {"a": 0.5, "b": 0.5, "c": 0.0}})
    )
    part = debias(Pool.from_frame(frame[inside]), TILTED, HALVES)
    np.testing.assert_allclose(whole.weight[inside], part.weight, rtol=1e-12)
    assert whole.weight[~inside].sum() == 0
    value = frame["x"].to_numpy()
    assert whole.mean(value).stderr == pytest.approx(part.mean(value[inside]).stderr, rel=1e-12)


def test_a_level_that_the_sample_does_not_have_has_no_mass_in_a_product():
    frame, sample = two_sources(), two_sources(120, seed=1)
    target = Target.sample(Pool.from_frame(sample[sample["label"] != "c"]))
    weights = debias(
        Pool.from_frame(frame), Product(Strata("label"), Tilt(["x"])), target, check_sample=False
    )
    assert weights.weight[(frame["label"] == "c").to_numpy()].sum() == 0
