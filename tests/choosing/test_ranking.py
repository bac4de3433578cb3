"""Choosing a bias model: the ranked table, bad arguments, and what choosing costs."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import unskew
from choosing_pools import labelled_pool, tilted_pool
from raising import refused
from unskew.bias import Bias, Box, Known, Strata, Tilt
from unskew.errors import ConfigError, DataError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Broken(Bias):
    """A model of the user's own with a bug."""

    family: ClassVar[str] = ""

    def estimate(self, data: object, log_offset_rk: object, start: object = None) -> None:  # type: ignore[override]
        raise RuntimeError("a bug of my own")


class TestChoice:
    def test_the_true_family_wins_and_the_table_is_ranked(self) -> None:
        pool = labelled_pool()
        choice = unskew.choose_bias(
            pool, [Box(["x"]), Strata("label")], unskew.Target.uniform("label")
        )
        assert choice.best == Strata("label")
        assert choice.table["candidate"][0] == choice.name == "Strata(label)"
        assert set(choice.table["candidate"]) == {"Strata(label)", "Box(x)", "naive pooling"}
        assert choice.table["score"][1:].is_monotonic_decreasing
        np.testing.assert_allclose(
            choice.weights.weight,
            unskew.debias(pool, Strata("label"), unskew.Target.uniform("label")).weight,
        )
        assert "is chosen" in str(choice)
        assert "Strata(label)" in str(choice)

    def test_a_matrix_is_joined_by_id_in_every_fold(self) -> None:
        pool = tilted_pool()
        omega = np.column_stack([np.ones(800), np.exp(pool.frame["x"])])
        columns = Known({"0": 1.0, "1": lambda frame: np.exp(frame["x"])})
        table = unskew.choose_bias(
            pool, {"matrix": Known(omega), "columns": columns}
        ).table.set_index("candidate")
        assert table.loc["matrix", "score"] == pytest.approx(
            table.loc["columns", "score"], abs=1e-12
        )

    def test_what_cannot_be_fitted_is_shown_with_its_reason(self) -> None:
        candidates = {
            "tilt": Tilt(["x"]),
            "absent": Box(["y"]),
            "broken": Broken(),
            "strata": Strata("label"),
        }
        choice = unskew.choose_bias(tilted_pool(), candidates)
        remark = choice.table.set_index("candidate")["remark"]
        assert "reference" in remark["tilt"]
        assert "lacks y" in remark["absent"]
        assert "RuntimeError: a bug of my own" in remark["broken"]
        assert choice.best is None
        assert str(choice)

    def test_seeds_make_it_repeatable_and_order_does_not_matter(self) -> None:
        candidates = [Tilt(["x"]), Box(["x"])]
        one, two = (
            unskew.choose_bias(tilted_pool(), order, unskew.Target.source("0")).table
            for order in (candidates, candidates[::-1])
        )
        pd.testing.assert_frame_equal(one, two)


class TestArguments:
    def test_bad_arguments(self) -> None:
        pool = tilted_pool()
        with refused(DataError, option="pool", value="DataFrame"):
            unskew.choose_bias(pool.frame, [Tilt(["x"])])
        with refused(ConfigError, option="candidates", count=0):
            unskew.choose_bias(pool, [])
        with refused(ConfigError, option="candidates"):
            unskew.choose_bias(pool, Tilt(["x"]))
        with refused(ConfigError, option="candidates", value=["tilt"]):
            unskew.choose_bias(pool, ["tilt"])
        with refused(ConfigError, option="folds", value=1):
            unskew.choose_bias(pool, [Tilt(["x"])], folds=1)
        with refused(ConfigError, option="facts"):
            unskew.choose_bias(pool, [Tilt(["x"])], facts=unskew.Target.uniform("label"))
        with refused(ConfigError, option="target"):
            unskew.choose_bias(pool, [Tilt(["x"])], {"label": 1})

    def test_one_source_alone_cannot_be_compared(self) -> None:
        with refused(DataError, sources=["a"]):
            unskew.choose_bias(unskew.Pool.from_arrays(["a"] * 10, x=np.arange(10.0)), [Box(["x"])])

    def test_one_source_and_a_sample_can(self) -> None:
        rng = np.random.default_rng(0)
        pool = unskew.Pool.from_arrays(["shop"] * 400, x=1 + rng.normal(size=400))
        sample = unskew.Pool.from_arrays(
            ["phone"] * 200, x=rng.normal(size=200), id=[f"t{i}" for i in range(200)]
        )
        choice = unskew.choose_bias(pool, [Tilt(["x"])], unskew.Target.sample(sample))
        assert choice.name == "Tilt(x)"
        assert choice.table["auc"].notna().any()


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "benchmark_of_choosing", ROOT / "benchmarks" / "choosing.py"
    )
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(unskew.bias, "SoftBox"), reason="the benchmark compares with SoftBox"
)
@pytest.mark.parametrize("name", ["censored", "product"])
def test_choosing_costs_little_on_sources_whose_truth_is_known(name: str) -> None:
    """Three seeds: at most 1.25 × the error of the true family, the bar of benchmarks/choosing.py
    for fifty.
    """
    benchmark = _benchmark()
    outcome = benchmark.run_case(benchmark.CASES[name], range(3))
    assert outcome.ratio <= benchmark.BAR
    assert outcome.chosen < outcome.naive / 2


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(unskew.bias, "SoftBox"), reason="the benchmark compares with SoftBox"
)
@pytest.mark.parametrize(
    "name", ["classes", "acquisition 0.1", "acquisition 1", "censored", "tilts", "product"]
)
def test_choosing_costs_little_over_ten_seeds(name: str) -> None:
    benchmark = _benchmark()
    assert benchmark.run_case(benchmark.CASES[name], range(10)).ratio <= benchmark.BAR
