"""Weights of a fitted model, and their verdict."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from mixed_sources import HALVES, TILTED, simple_pool
from raising import refused
from two_sources import two_sources
from unskew import (
    CoverageError,
    Pool,
    Target,
    debias,
    debias_weights,
)
from unskew.bias import Box, Known, Product, Propensity, Strata, Subpopulation, Tilt
from unskew.debiasing.estimation import evaluate_fitted
from unskew.debiasing.fitted_weights import weigh_fitted
from unskew.errors import UnskewWarning, WeakOverlapWarning

EVEN = Target.margins({"label": {"cat": 0.5, "dog": 0.5}})


def test_a_product_whose_sources_share_no_stratum_is_weak():
    frame = two_sources()
    frame["label"] = np.where(frame["source"] == "p", "a", "b")
    with pytest.warns(WeakOverlapWarning, match="strata"):
        weights = debias(Pool.from_frame(frame), TILTED, HALVES)
    assert weights.overlap.verdict == "weak"
    # Strata alone need no link.
    assert debias(Pool.from_frame(frame), Strata("label"), HALVES).overlap.verdict == "ok"


def test_weak_links_within_strata_are_named():
    # Of 200 images of each source, about 8 lie where the other has images.
    frame = pd.DataFrame(
        {
            "source": np.repeat(["p", "q"], 200),
            "label": np.tile(["a", "b"], 200),
            "x": [*np.linspace(0, 100, 200), *np.linspace(96, 196, 200)],
        }
    )
    with pytest.warns(UnskewWarning) as caught:
        weights = debias(Pool.from_frame(frame), Product(Strata("label"), Box(["x"])), HALVES)
    assert weights.overlap.verdict == "weak"
    assert weights.overlap.message.startswith("Within strata: ")
    assert weights.overlap.link_error > weights.overlap.thresholds["link_error"]
    assert sum(issubclass(each.category, WeakOverlapWarning) for each in caught) == 1
    # Relative to `p`, which covers the target by itself, nothing hangs on `q`.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert debias(Pool.from_frame(frame), TILTED, HALVES).overlap.link_error < 0.02


def test_known_omega_is_solved_once_and_as_from_numbers(monkeypatch):
    """The weights of `debias` are those of `debias_weights`, without a second solve; so are a
    constant ω and groups.
    """
    from unskew.solve import profile_likelihood as entry

    solves = []
    solve = entry.solve_prepared
    monkeypatch.setattr(
        entry,
        "solve_prepared",
        lambda *given, **options: solves.append(1) or solve(*given, **options),
    )
    rng = np.random.default_rng(0)
    omega = rng.uniform(0.1, 2.0, size=(600, 3))
    source = np.repeat(["a", "b", "c"], [300, 200, 100])
    pool = Pool.from_arrays(source, group=np.arange(600) // 3, x=rng.normal(size=600))
    weights = debias(pool, Known(np.log(omega), log=True))
    assert len(solves) == 1
    plain = debias_weights(omega, source, group=np.arange(600) // 3)
    np.testing.assert_allclose(weights.weight, plain.weight, rtol=1e-9)
    np.testing.assert_allclose(
        weights.solution.log_normalizer, plain.solution.log_normalizer, atol=1e-9
    )
    assert weights.mean(pool.frame["x"]).stderr == pytest.approx(
        plain.mean(pool.frame["x"]).stderr, rel=1e-6
    )
    np.testing.assert_allclose(weights.weigh(pool), 600 * weights.weight, rtol=1e-9)
    even = debias(pool, Known(np.full((600, 3), 7.0)))
    np.testing.assert_allclose(even.weight, 1 / 600, rtol=1e-12)
    np.testing.assert_allclose(even.weigh(pool), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    "model", [Tilt(["colour"]), Propensity(["colour", "x"])], ids=lambda model: model.family
)
def test_levels_of_the_target_that_no_source_has_are_named(model):
    # A tilt is positive everywhere and a classifier needs more than a few images: neither would
    # notice that part of the target is missing.
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 200), colour=rng.choice(["red", "green"], 400), x=rng.normal(size=400)
    )

    def sample(n_blue):
        colour = np.repeat(["blue", "red", "green"], [n_blue, 30, 30])
        return Target.sample(
            Pool.from_arrays(["t"] * colour.size, colour=colour, x=rng.normal(size=colour.size))
        )

    with pytest.warns(
        UnskewWarning, match=r"11.8% of the target's images have colour = blue, which no source has"
    ):
        weights = debias(pool, model, sample(8))
    assert (
        weights.describe().population
        == "the target excluding strata with no images in any source: colour = blue (0.1176)"
    )
    facts = {"option": "max_uncovered", "value": 0.5, "limit": 0.2, "levels": ["colour = blue"]}
    with pytest.warns(UnskewWarning), refused(CoverageError, **facts):
        debias(pool, model, sample(60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert debias(pool, model, sample(0)).describe().population == "the target"


@pytest.mark.parametrize("x_of_pool", ["continuous", "few values", "far from the sample"])
@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_weights_beside_a_sample_are_the_same_from_the_solvers_rows_and_from_omega(x_of_pool):
    """Rows that repeat are stored once; and where ω of the sample is e^700 times that of the
    sources, sums of scaled rows would be 0.
    """
    pool, sample = simple_pool(), simple_pool(200, seed=1)
    drop = {"continuous": 0.0, "few values": 0.0, "far from the sample": 700.0}[x_of_pool]
    if x_of_pool == "few values":
        pool, sample = (
            Pool(part.frame.assign(x=part.frame["x"].round())) for part in (pool, sample)
        )
    largest = pool.frame["x"].max()
    faint = Known(
        {
            name: lambda frame: np.where(frame["x"] == largest, np.exp(-drop), 1.0)
            for name in pool.names
        }
    )
    model = faint if drop else Product(faint, Tilt(["x"]))
    weights = debias(pool, model, Target.sample(sample), check_sample=False)
    weight, log_total, log_normalizer = evaluate_fitted(weights.estimation.fitted)
    np.testing.assert_allclose(weights.weight, weight, rtol=1e-9, atol=0)
    np.testing.assert_allclose(weights.solution.log_normalizer, log_normalizer, rtol=1e-9)
    assert weights.estimation.log_total == pytest.approx(log_total, rel=1e-9)
    assert weights.weight.sum() == pytest.approx(1.0, rel=1e-12)


def test_a_weak_link_is_warned_of_once():
    frame = two_sources()
    frame["x"] = [*np.linspace(0, 10, 200), *np.linspace(9.9, 20, 200)]
    parts = Subpopulation({"p": "x <= 10", "q": "x >= 9.9"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        debias(Pool.from_frame(frame), parts)
    assert sum(issubclass(each.category, WeakOverlapWarning) for each in caught) == 1


@pytest.mark.parametrize("method", ["newton", "fixed_point"])
def test_a_solve_of_its_own_ends_where_the_fit_ended(method):
    pool = simple_pool()
    fitted = Tilt(["x"], reference="a").fit(pool)
    reused = weigh_fitted(pool, fitted)
    solved = weigh_fitted(pool, fitted, solver={"method": method, "tol": 1e-10})
    np.testing.assert_allclose(solved.weight, reused.weight, rtol=1e-6)
    assert solved.solution.method == method
    assert reused.estimation.fitted.profile.solved is None  # rows as large as ω are not kept


def test_with_strata_nothing_is_solved_and_every_normalizer_is_1():
    pool = simple_pool()
    weights = weigh_fitted(pool, Strata("label").fit(pool, EVEN))
    assert weights.solution.method == "known"
    assert weights.solution.log_normalizer.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(weights.solution.share, np.bincount(pool.source) / 300)
    label = pool.frame["label"].to_numpy()
    size = {level: (label == level).sum() for level in ("cat", "dog")}
    np.testing.assert_allclose(weights.weight, [0.5 / size[level] for level in label])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a"] * 40, "There is one source"),
        (["a", "b"] * 20, "The sources also overlap"),
        (["a"] * 20 + ["b"] * 20, "do not overlap: 2 separate groups"),
    ],
)
def test_strata_alone_need_coverage_and_no_links(source, message):
    label = np.repeat(["cat", "dog"], 20)
    weights = debias(Pool.from_arrays(source, label), Strata("label"), EVEN)
    assert weights.overlap.verdict == "ok"
    assert message in weights.overlap.message


def test_the_targets_sample_is_no_source_of_the_solution():
    pool, sample = simple_pool(), Pool(simple_pool(200, seed=1).frame.assign(source="t"))
    weights = debias(pool, Tilt(["x"]), Target.sample(sample), check_sample=False)
    assert weights.solution.names == pool.names
    for each in (weights.solution.u, weights.solution.share, weights.solution.log_normalizer):
        assert each.shape == (2,)
    assert "All 2 sources and the target's sample" in weights.overlap.message
    # Ω_k is the mean of ω_k over pool and sample together, solved by itself.
    fitted = weights.estimation.fitted
    joint = debias_weights(fitted.profile.log_omega, fitted.data.source, log=True)
    np.testing.assert_allclose(
        joint.weight @ np.exp(fitted.profile.log_omega[:, :2]),
        np.exp(weights.solution.log_normalizer),
        rtol=1e-6,
    )


def test_a_sample_where_no_source_selects_anything_is_refused_beyond_max_uncovered():
    pool = simple_pool()
    far = np.arange(100) < 30
    sample = Pool.from_arrays(["t"] * 100, x=np.where(far, 50.0, 0.0))
    model = Subpopulation({"a": "x < 9", "b": "x < 9"})
    facts = {"option": "max_uncovered", "value": 0.3, "limit": 0.2}
    with refused(CoverageError, **facts):
        debias(pool, model, Target.sample(sample), check_sample=False)
    allowed = debias(pool, model, Target.sample(sample), check_sample=False, max_uncovered=0.5)
    np.testing.assert_allclose(allowed.weight, 1 / 300)


def test_images_that_the_model_leaves_out_weigh_0_and_keep_their_place():
    pool = simple_pool()
    fitted = Box(["x"], quantile=0.05).fit(pool)
    weights = weigh_fitted(pool, fitted)
    assert weights.weight.size == 300
    np.testing.assert_array_equal(np.flatnonzero(weights.weight), fitted.row)
    assert weights.weight.sum() == pytest.approx(1.0)
