"""Choosing a bias model: what wins, what is never chosen, and what choosing costs."""

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
from unskew.bias import Bias, Box, Known, Strata, Subpopulation, Tilt
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

    def test_of_equally_good_families_the_simplest(self) -> None:
        choice = unskew.choose_bias(
            tilted_pool(), [Tilt(["x"], degree=2), Tilt(["x"])], unskew.Target.source("0")
        )
        assert choice.name == "Tilt(x)"

    def test_sources_that_do_not_differ_are_pooled(self) -> None:
        rng = np.random.default_rng(3)
        pool = unskew.Pool.from_arrays(np.repeat(["0", "1"], 300), x=rng.normal(size=600))
        assert unskew.choose_bias(pool, [Tilt(["x"], reference="0")]).name == "naive pooling"

    def test_a_known_margin_speaks_against_pooling_sources_that_do_not_differ(self) -> None:
        rng = np.random.default_rng(3)
        pool = unskew.Pool.from_arrays(
            np.repeat(["0", "1"], 300), label=rng.choice(["a", "b"], 600)
        )
        choice = unskew.choose_bias(
            pool, [Strata("label")], unskew.Target.margins({"label": {"a": 0.2, "b": 0.8}})
        )
        assert choice.name == "Strata(label)"
        assert "naive pooling" in choice.reason

    def test_families_that_differ_in_a_common_factor_tie_and_nothing_tells(self) -> None:
        choice = unskew.choose_bias(
            tilted_pool(sizes=(400, 200)), [Tilt(["x"], reference="0"), Tilt(["x"], reference="1")]
        )
        assert choice.ties == (("Tilt(x, reference=0)", "Tilt(x, reference=1)"),)
        assert len(choice.undecided) == 1
        assert choice.undecided[0] in choice.reason

    def test_a_fact_about_the_target_tells_them_apart(self) -> None:
        pool = tilted_pool(sizes=(400, 200))
        frame = pool.frame.assign(side=np.where(pool.frame["x"] > 0, "right", "left"))
        known = unskew.Target.margins(
            {"side": {"left": 0.5, "right": 0.5}}
        )  # N(0, 1): source 0 is the unbiased one
        candidates = [Tilt(["x"], reference="1"), Tilt(["x"], reference="0")]
        choice = unskew.choose_bias(unskew.Pool(frame), candidates, facts=[known])
        assert choice.name == "Tilt(x, reference=0)"
        assert choice.undecided == ()
        assert choice.ties == (("Tilt(x, reference=1)", "Tilt(x, reference=0)"),)
        assert "contradicting" in choice.reason

    def test_simplicity_does_not_decide_about_a_common_factor(self) -> None:
        """A draw in which the simpler one takes the wrong source for unbiased, by little enough not
        to contradict the fact.
        """
        drawn = unskew.scenarios.tilts([100, 100], theta=[[0.0], [0.2]], rng=11)
        frame = unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features[:, 0]).frame
        frame["side"] = np.where(frame["x"] > 0, "right", "left")
        known = unskew.Target.margins({"side": {"left": 0.5, "right": 0.5}})
        simple = Known({"0": lambda table: np.exp(-0.2 * table["x"]), "1": 1.0})
        choice = unskew.choose_bias(
            unskew.Pool(frame),
            {"simple": simple, "tilt": Tilt(["x"], reference="0")},
            facts=[known],
            baseline=False,
        )
        table = choice.table.set_index("candidate")
        assert table.loc["simple", "parameters"] < table.loc["tilt", "parameters"]
        assert table.loc["simple", "behind"] <= table.loc["simple", "behind_stderr"]
        assert table.loc["simple", "distance_p"] > 0.01
        assert choice.name == "tilt"
        assert choice.undecided == ("simple",)

    def test_where_all_contradict_the_facts_the_nearest_is_taken_and_says_so(self) -> None:
        pool = tilted_pool(sizes=(600, 600))
        frame = pool.frame.assign(side=np.where(pool.frame["x"] > 0, "right", "left"))
        known = unskew.Target.margins({"side": {"left": 0.8, "right": 0.2}})  # true of no candidate
        candidates = [Tilt(["x"], reference="1"), Tilt(["x"], reference="0")]
        choice = unskew.choose_bias(unskew.Pool(frame), candidates, facts=[known])
        assert choice.name == "Tilt(x, reference=0)"
        assert "Yet it contradicts what is known about the target: side" in choice.reason

    def test_a_wrong_known_omega_is_not_chosen(self) -> None:
        right, wrong = (
            Known({"0": 1.0, "1": lambda frame, sign=sign: np.exp(sign * frame["x"])})
            for sign in (1, -1)
        )
        choice = unskew.choose_bias(tilted_pool(), {"right": right, "wrong": wrong})
        assert choice.name == "right"
        assert choice.table["candidate"].tolist() == ["right", "naive pooling", "wrong"]

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

    def test_when_nothing_can_be_fitted_nothing_is_chosen(self) -> None:
        choice = unskew.choose_bias(tilted_pool(), [Box(["y"])], baseline=False)
        assert choice.best is None
        assert choice.weights is None
        assert choice.reason.startswith("None of the candidates")

    def test_an_attribute_that_identifies_the_source_is_flagged_and_not_chosen_for_its_score(
        self,
    ) -> None:
        frame = labelled_pool().frame
        frame["mark"] = np.where(frame["source"] == "0", "logo", "none")
        pool = unskew.Pool(frame)
        both = unskew.Target.margins(
            {"label": {"a": 0.35, "b": 0.3, "c": 0.35}, "mark": {"logo": 0.5, "none": 0.5}}
        )
        choice = unskew.choose_bias(pool, [Strata("label"), Strata(["label", "mark"])], both)
        table = choice.table.set_index("candidate")
        assert table.loc["Strata(label, mark)", "score"] > table.loc["Strata(label)", "score"]
        assert choice.name == "Strata(label)"
        assert "identifies the source" in " ".join(choice.notes)

    def weakly_linked_pool(self) -> unskew.Pool:
        """Two intervals with four images of each source where they overlap; a brightness that is
        the same in both.
        """
        rng = np.random.default_rng(0)
        shared = 0.999 + 1e-4 * rng.normal(size=(2, 4))
        x = np.concatenate([rng.uniform(0, 1, 296), shared[0], rng.uniform(1, 2, 296), shared[1]])
        return unskew.Pool.from_arrays(
            np.repeat(["0", "1"], 300), x=x, label=np.tile(["a", "b"], 300)
        )

    def test_weak_overlap_is_never_chosen_for_its_score(self) -> None:
        parts = Subpopulation({"0": "x < 1", "1": "x > 0.995"})
        target = unskew.Target.margins({"label": {"a": 0.3, "b": 0.7}})
        choice = unskew.choose_bias(
            self.weakly_linked_pool(), {"parts": parts, "strata": Strata("label")}, target
        )
        table = choice.table.set_index("candidate")
        assert table.loc["parts", "verdict"] == "weak"
        assert table.loc["parts", "behind"] < 0
        assert table.loc["parts", "remark"] == "its overlap is weak"
        assert choice.name == "strata"
        assert "parts has a better score, but its overlap is weak" in choice.reason

    def test_naive_pooling_is_not_chosen_where_what_describes_the_sources_cannot_be_undone(
        self,
    ) -> None:
        choice = unskew.choose_bias(
            self.weakly_linked_pool(), [Subpopulation({"0": "x < 1", "1": "x > 0.995"})]
        )
        assert choice.best is None
        assert "better than naive pooling, but its overlap is weak" in choice.reason

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
        with refused(ConfigError, option="candidates", value="'tilt'"):
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


def test_pooling_is_not_chosen_because_nothing_else_could_be_fitted() -> None:
    rng = np.random.default_rng(0)
    pool = unskew.Pool.from_arrays(np.repeat(["a", "b"], 100), brightness=rng.normal(size=200))
    choice = unskew.choose_bias(pool, [Tilt(["brihgtness"], reference="a")])
    assert choice.best is None
    assert choice.weights is None
    assert "naive pooling" in choice.reason
    # The notes have the whole reason, which the table cuts short.
    assert any(
        "brihgtness" in note and "Did you mean 'brightness'" in note for note in choice.notes
    )
    with refused(ConfigError, option="folds", value=2.5):
        unskew.choose_bias(pool, [Tilt(["brightness"], reference="a")], folds=2.5)  # type: ignore[arg-type]
