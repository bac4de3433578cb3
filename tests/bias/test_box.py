"""`Box` against the article's min–max rule."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import ConfigError, DataError, Pool, Target, debias, debias_weights
from unskew.bias import Box
from unskew.errors import UnskewWarning


def boxed_pool(seed=0, n=600):
    rng = np.random.default_rng(seed)
    z = rng.uniform(size=(n, 2))
    source = np.where((z[:, 0] < 0.6) & (rng.random(n) < 0.5), "left", "right")
    keep = (source == "left") | (z[:, 0] > 0.3)
    kind = np.where((z[:, 1] > 0.5) & (source == "left"), "p", "q")
    return Pool.from_arrays(source[keep], z=z[keep], kind=kind[keep])


def omega_by_hand(pool, quantile=0.0):
    z = pool.frame[["z_0", "z_1"]].to_numpy()
    inside = []
    for name in pool.names:
        own = z[(pool.frame["source"] == name).to_numpy()]
        low, high = np.quantile(own, quantile, axis=0), np.quantile(own, 1 - quantile, axis=0)
        inside.append(((z >= low) & (z <= high)).all(axis=1))
    return np.column_stack(inside).astype(float)


def test_min_max_is_the_articles_rule():
    pool = boxed_pool()
    omega = omega_by_hand(pool)
    np.testing.assert_array_equal(Box(["z"]).fit(pool).omega(pool), omega)
    weights, expected = debias(pool, Box(["z"])), debias_weights(omega, pool.source)
    np.testing.assert_allclose(weights.weight, expected.weight, rtol=1e-9)
    assert weights.mean(pool.frame["z_0"]).stderr == pytest.approx(
        expected.mean(pool.frame["z_0"]).stderr, rel=1e-6
    )
    described = weights.describe()
    assert "within the union of the boxes" in described.population
    assert "assumed" in described.anchor


def test_quantile_boxes_leave_images_out_before_the_shares_and_count_them():
    pool = boxed_pool()
    omega = omega_by_hand(pool, 0.05)
    own = omega[np.arange(len(pool)), pool.source] > 0
    weights = debias(pool, Box(["z"], quantile=0.05))
    np.testing.assert_allclose(
        weights.weight[own], debias_weights(omega[own], pool.source[own]).weight, rtol=1e-9
    )
    assert weights.weight[~own].max() == 0
    assert (
        f"{(~own).sum()} images get weight 0: outside their own source's box"
        in weights.describe().notes
    )


def test_levels_are_those_that_a_source_has_and_others_are_outside():
    pool = boxed_pool()
    fitted = Box(["z", "kind"]).fit(pool)
    omega = fitted.omega(pool.frame)
    is_p, right = (pool.frame["kind"] == "p").to_numpy(), pool.names.index("right")
    assert omega[is_p, right].max() == 0
    with pytest.warns(UnskewWarning, match="kind has levels that no image had in the fit: never"):
        assert fitted.omega(pool.frame.assign(kind="never")).max() == 0


def test_missing_levels_are_an_error_and_a_table_without_rows_has_no_rows_of_omega():
    pool = boxed_pool()
    fitted = Box(["kind"]).fit(pool)
    for missing in (None, np.nan):
        with refused(DataError, column="kind", count=1, row=1):
            fitted.omega(pd.DataFrame({"kind": ["p", missing, "q"]}))
    assert fitted.omega(pool.frame.head(0)).shape == (0, 2)
    assert Box(["z", "kind"]).fit(pool).omega(pool.frame.head(0)).shape == (0, 2)


def test_a_constant_feature_is_said_to_say_nothing():
    pool = boxed_pool()
    with pytest.warns(UnskewWarning, match="one, alike: constant over all images; it says nothing"):
        weights = debias(Pool(pool.frame.assign(one=0.1, alike="p")), Box(["z", "one", "alike"]))
    assert any(note.startswith("one, alike: constant") for note in weights.describe().notes)
    np.testing.assert_array_equal(weights.weight, debias(pool, Box(["z"])).weight)


def test_the_reference_has_omega_1_everywhere():
    pool = boxed_pool()
    right = pool.names.index("right")
    assert (Box(["z"]).fit(pool, Target.source("right")).omega(pool)[:, right] == 1).all()
    sample = Pool.from_arrays(["t"] * 80, z=np.random.default_rng(1).uniform(size=(80, 2)))
    fitted = Box(["z"]).fit(pool, Target.sample(sample))
    assert (np.exp(fitted.profile.log_omega[:, -1]) == 1).all()


def test_bad_settings_and_tables():
    pool = boxed_pool()
    for quantile in (-0.1, 0.5, float("nan")):
        with refused(ConfigError, option="quantile", value=quantile):
            Box(["z"], quantile=quantile)
    with refused(DataError, columns=["z_1"]):
        Box(["z"]).fit(pool).omega(pool.frame.drop(columns="z_1"))
    with refused(DataError, column="z_0", count=1, row=0):
        Box(["z"]).fit(Pool(pool.frame.assign(z_0=pool.frame["z_0"].where(pool.frame.index > 0))))


def test_errors_of_quantile_boxes_come_from_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 0.8, 150), rng.uniform(0.2, 1, 150)])
    pool = Pool.from_arrays(np.repeat(["p", "q"], 150), x=x)
    weights = debias(pool, Box(["x"], quantile=0.02))
    replicates = weights.bootstrap(100, rng=0, values=x)
    assert weights.mean(x) == replicates.estimate()
