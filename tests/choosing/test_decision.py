"""Which candidate is chosen, why, and what is never chosen."""

from __future__ import annotations

import numpy as np

import unskew
from choosing_pools import labelled_pool, tilted_pool
from raising import refused
from unskew.bias import Box, Known, Strata, Subpopulation, Tilt
from unskew.choosing.candidates import evaluate_candidate
from unskew.choosing.decision import _objection
from unskew.choosing.membership_score import make_folds
from unskew.errors import ConfigError


class TestDecision:
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
        # It has one parameter and the other none: it is not called the simplest, and what is
        # already known is not asked for.
        assert "simplest" not in choice.reason
        assert "nearest to what is known" in choice.reason
        assert "A sample of the target or an unbiased source would." in choice.reason
        assert "simpler, but farther" in table.loc["simple", "remark"]

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


def labelled_sources(*, reverse: bool = False) -> tuple[unskew.Pool, unskew.Target]:
    """Two cameras that tilt by x, a label that follows from x, and an unlabelled sample."""
    rng = np.random.default_rng(12)
    source = np.repeat(["day", "night"], 400)
    x = rng.normal(np.where(source == "day", 0.5, -0.5), 1.0)
    slope = np.where(reverse & (source == "night"), -1.0, 1.0)
    label = np.where(rng.random(800) < 1 / (1 + np.exp(-slope * x)), "car", "bus")
    sample = unskew.Pool.from_arrays(["t"] * 200, x=rng.normal(size=200))
    return unskew.Pool.from_arrays(source, x=x, label=label), unskew.Target.sample(sample)


def test_a_right_model_is_not_condemned_by_a_sample_without_labels() -> None:
    pool, target = labelled_sources()
    choice = unskew.choose_bias(pool, [Tilt(["x"])], target)
    assert choice.name == "Tilt(x)"
    assert choice.table.set_index("candidate").loc["Tilt(x)", "fit_p"] > 0.05
    assert "contradict" not in choice.reason


def test_that_none_is_right_is_said_of_labels_that_mean_something_else() -> None:
    pool, target = labelled_sources(reverse=True)
    choice = unskew.choose_bias(pool, [Tilt(["x"])], target)
    assert "check_fit" in choice.reason
    assert "none of the candidates may be right" in choice.reason


def test_what_nothing_speaks_against_is_named() -> None:
    rng = np.random.default_rng(4)
    source = np.repeat(["a", "b"], 500)
    x = rng.normal(0.0, np.where(source == "a", 1.0, 0.6))
    pool = unskew.Pool.from_arrays(source, x=x)
    bent = Tilt(["x"], reference="a", degree=2)
    rated = [
        evaluate_candidate(name, model, make_folds(pool, None, 5, 0), (), checked=["x"], seed=0)
        for name, model in {"straight": Tilt(["x"], reference="a"), "bent": bent}.items()
    ]
    assert list(rated[0].objections) == ["check_fit"]
    assert not rated[1].objections
    # Where the one that is contradicted were chosen, the other would be named.
    assert "nothing speaks against bent" in _objection(rated[0], rated)
    assert "none of the candidates" in _objection(rated[0], rated[:1])
