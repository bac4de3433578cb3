"""Records print in a few lines what a person wants to know; estimates are numbers."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest

import unskew
from all_and_half import OMEGA, SOURCE
from raising import refused
from two_sources import two_sources
from unskew import Estimate, Pool, Target
from unskew.bias import Box, Product, SoftBox, Strata, Tilt
from unskew.records.weights import holds_ids

POOL = Pool.from_arrays(["a", "a", "a", "b"], label=["cat", "cat", "dog", "dog"])
MARGIN = Target.margins({"label": {"cat": 0.8, "dog": 0.2}})


def test_an_estimate_formats_and_converts_like_a_number() -> None:
    estimate = Estimate(0.5312, 0.0213, (0.4895, 0.5729))
    assert float(estimate) == 0.5312
    assert np.asarray([estimate, estimate], dtype=float).tolist() == [0.5312, 0.5312]
    assert f"{estimate:.2f}" == "0.53 ± 0.02"
    assert f"{estimate:.1%}" == "53.1% ± 2.1%"
    assert str(estimate) == f"{estimate}" == "0.531 ± 0.021"
    assert repr(estimate) == "Estimate(0.531 ± 0.021, 95% interval 0.489 to 0.573)"


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(1.0, 0.0, (1.0, 1.0)), "1 ± 0"),
        (Estimate(0.5, math.inf, (-math.inf, math.inf)), "0.5 ± inf"),
        (Estimate(math.nan, math.nan, (math.nan, math.nan)), "nan ± nan"),
        (Estimate(123456.0, 1234.5, (1e5, 1.5e5)), "123456 ± 1234"),
        (Estimate(1e-9, 2e-10, (0.0, 2e-9)), "1e-09 ± 2e-10"),
    ],
)
def test_estimates_of_any_size_print(estimate: Estimate, text: str) -> None:
    assert str(estimate) == text


def test_weights_print_sizes_verdict_and_effective_number() -> None:
    weights = unskew.debias_weights(OMEGA, SOURCE, group=np.arange(80) // 2)
    assert repr(weights).splitlines() == [
        "Weights of 80 images in 40 groups from 2 sources: all (40), half (40)",
        "  effective number of images 60.0 (75%)",
        "  overlap ok; newton converged after 4 steps",
    ]
    fitted = unskew.debias(POOL, unskew.bias.Strata("label"), MARGIN)
    assert repr(fitted).splitlines() == [
        "Weights of 4 images from 2 sources: a (3), b (1)",
        "  effective number of images 2.9 (74%)",
        "  bias model Strata(label)",
        "  overlap ok; normalizers known, nothing to solve",
    ]


def test_what_has_no_solution_prints_so() -> None:
    weights = unskew.debias_weights(np.eye(2)[[0, 0, 1]], ["x", "x", "y"], throw=False)
    assert repr(weights).splitlines() == [
        "Weights of 3 images from 2 sources: x (2), y (1)",
        "  overlap disconnected; newton disconnected, not converged after 0 steps",
    ]
    assert "not converged" in repr(weights.solution)
    assert repr(weights.overlap).startswith("Overlap of 2 sources: disconnected\n  ")
    assert weights.overlap.message in repr(weights.overlap)


@pytest.mark.parametrize("method", ["weigh", "refit", "describe"])
def test_weights_from_numbers_have_no_model(method: str) -> None:
    weights = unskew.debias_weights(OMEGA, SOURCE)
    with refused(unskew.ConfigError, option=method):
        getattr(weights, method)(*([] if method == "describe" else [POOL]))


def test_the_bootstrap_takes_a_generator() -> None:
    weights = unskew.debias_weights(OMEGA, SOURCE)
    drawn = [weights.bootstrap(3, np.random.default_rng(seed)).log_normalizer for seed in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 0


@pytest.mark.parametrize(
    "model",
    [
        SoftBox(["x"]),
        Product(Strata("label"), Tilt(["x"], reference="p")),
        Product(Strata("label"), SoftBox(["x"])),
        Box(["x"]),
    ],
)
def test_weights_survive_pickling(model):
    frame = two_sources()
    value = frame["x"].to_numpy()
    target = Target.uniform("label") if isinstance(model, Product) else None
    weights = unskew.debias(Pool.from_frame(frame), model, target)
    again = pickle.loads(pickle.dumps(weights))
    assert again.mean(value) == weights.mean(value)


def test_ids_are_read_from_their_table_when_asked_for() -> None:
    pool = unskew.Pool.from_frame(
        pd.DataFrame({"id": ["x", "y", "z"], "source": list("aab"), "label": list("ccc")})
    )
    target = unskew.Target.uniform("label")
    weights = unskew.debias(pool, unskew.bias.Strata("label"), target)
    assert not isinstance(vars(weights)["id"], np.ndarray)
    assert holds_ids(pool.frame["id"], weights)
    assert not holds_ids(pool.frame["id"][::-1], weights)
    assert weights.id.tolist() == ["x", "y", "z"]
    assert isinstance(weights.id, np.ndarray)
    assert holds_ids(pool.frame["id"], weights)
    assert pickle.loads(pickle.dumps(weights)).id.tolist() == ["x", "y", "z"]
