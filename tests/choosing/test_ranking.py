"""Choosing a bias model: what the score is, that it is blind to c(z), what is never chosen, and
what choosing costs.
"""

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
from unskew.bias import Bias, Box, Known, Product, Strata, Subpopulation, Tilt
from unskew.choosing.candidates import count_parameters, model_name
from unskew.choosing.membership_score import (
    DELTA,
    find_fold_units,
    make_folds,
    own_membership,
    paired_difference,
    score_memberships,
)
from unskew.choosing.target_distance import distance_to_target, known_facts
from unskew.errors import ConfigError, DataError

ROOT = Path(__file__).resolve().parents[2]


def tilted_pool(
    seed: int = 0, sizes: tuple[int, ...] = (400, 400), **columns: object
) -> unskew.Pool:
    """Source 0 is N(0, 1), source 1 is N(1, 1)."""
    drawn = unskew.scenarios.tilts(sizes, theta=[[0.0], [1.0]], seed=seed)
    return unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features[:, 0], **columns)


def labelled_pool(seed: int = 0, n: int = 300) -> unskew.Pool:
    """Labels a, b, c: source 0 shows mostly a, source 1 mostly c; x depends on the label alone."""
    rng = np.random.default_rng(seed)
    label = np.concatenate(
        [rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.choice(3, n, p=[0.1, 0.3, 0.6])]
    )
    return unskew.Pool.from_arrays(
        np.repeat(["0", "1"], n),
        label=np.array(["a", "b", "c"])[label],
        x=label + rng.normal(size=2 * n),
    )


class TestFolds:
    def test_every_source_is_shared_out_evenly(self) -> None:
        pool = tilted_pool(sizes=(500, 103))
        folds = make_folds(pool, None, 5, 0)
        count = np.array(
            [np.bincount(folds.fold[folds.source == k], minlength=5) for k in range(2)]
        )
        assert np.ptp(count, axis=1).tolist() == [0, 1]

    def test_groups_stay_on_one_side(self) -> None:
        pool = tilted_pool(group=np.arange(800) // 7)
        folds = make_folds(pool, None, 4, 0)
        assert pd.Series(folds.fold).groupby(np.arange(800) // 7).nunique().max() == 1

    def test_copies_stay_on_one_side_also_across_sources_and_through_groups(self) -> None:
        pool = tilted_pool(group=np.arange(800))
        frame = pool.frame.copy()
        frame.loc[500, "x"] = frame.loc[3, "x"]  # an image of source 0 that source 1 holds, too
        frame.loc[[500, 501], "group"] = 500
        unit = find_fold_units(frame)
        assert unit[3] == unit[500] == unit[501]
        assert np.unique(unit).size == 798

    def test_images_of_one_class_are_no_copies(self) -> None:
        frame = pd.DataFrame({"label": ["a"] * 300, "score": np.round(np.linspace(0, 1, 300), 1)})
        assert np.unique(find_fold_units(frame)).size == 300

    def test_a_source_with_one_group_cannot_be_held_out(self) -> None:
        pool = tilted_pool(group=np.repeat([0, *range(1, 401)], [400, *[1] * 400]))
        with pytest.raises(
            DataError, match=r"at least two independent images \(or groups\); 0 has 1"
        ):
            make_folds(pool, None, 5, 0)

    def test_a_small_source_lowers_the_number_of_folds(self) -> None:
        assert make_folds(tilted_pool(sizes=(400, 3)), None, 5, 0).n_folds == 3

    def test_images_outside_the_target_are_not_scored(self) -> None:
        pool = labelled_pool()
        target = unskew.Target.margins({"label": {"a": 0.5, "b": 0.5}}, outside={"label": "drop"})
        folds = make_folds(pool, target, 5, 0)
        assert folds.scored.tolist() == (pool.frame["label"] != "c").tolist()
        assert (
            np.isnan(score_memberships(Strata("label"), folds).value).sum()
            == (pool.frame["label"] == "c").sum()
        )


class TestScore:
    def test_naive_pooling_scores_the_entropy_of_the_sources(self) -> None:
        """q_ik = λ_k whatever the image: the score is Σ_k λ_k log λ_k where folds keep the
        shares.
        """
        pool = tilted_pool(sizes=(300, 100))
        folds = make_folds(pool, None, 5, 0)
        score = score_memberships(Known({"0": 1.0, "1": 1.0}), folds)
        assert score.mean == pytest.approx(0.75 * np.log(0.75) + 0.25 * np.log(0.25), abs=1e-12)
        assert score.stderr == pytest.approx(0.0, abs=1e-12)
        assert score.outside == 0.0

    def test_strata_score_held_out_counts(self) -> None:
        """q of a held-out image is the share of its source among the training images of its
        stratum.
        """
        pool = labelled_pool()
        folds = make_folds(pool, unskew.Target.uniform("label"), 3, 0)
        score = score_memberships(Strata("label"), folds)
        label, source = pool.frame["label"].to_numpy(), pool.source
        for row in range(0, 600, 37):
            near = (folds.fold != folds.fold[row]) & (label == label[row])
            q = np.mean(source[near] == source[row])
            assert score.value[row] == pytest.approx(
                np.log((1 - DELTA) * q + DELTA * 0.5), abs=1e-12
            )

    def test_a_tilt_scores_as_an_independent_logistic_regression(self) -> None:
        from sklearn.linear_model import LogisticRegression

        pool = tilted_pool()
        folds = make_folds(pool, unskew.Target.source("0"), 4, 0)
        score = score_memberships(Tilt(["x"]), folds)
        x, source = pool.frame[["x"]].to_numpy(), pool.source
        train, test = folds.fold != 0, np.flatnonzero(folds.fold == 0)
        chance = (
            LogisticRegression(C=1e6, tol=1e-10).fit(x[train], source[train]).predict_proba(x[test])
        )
        own = chance[np.arange(test.size), source[test]]
        np.testing.assert_allclose(
            score.value[test], np.log((1 - DELTA) * own + DELTA * 0.5), atol=1e-5
        )

    def test_the_score_is_blind_to_a_common_factor_and_the_weights_are_not(self) -> None:
        pool = tilted_pool()
        plain = Known({"0": 1.0, "1": lambda frame: np.exp(frame["x"])})
        common = Known(
            {
                "0": lambda frame: np.exp(frame["x"] ** 2),
                "1": lambda frame: np.exp(frame["x"] ** 2 + frame["x"]),
            }
        )
        folds = make_folds(pool, None, 5, 0)
        np.testing.assert_allclose(
            score_memberships(plain, folds).value, score_memberships(common, folds).value, atol=1e-9
        )
        assert (
            abs(unskew.debias(pool, plain).weight - unskew.debias(pool, common).weight).sum() > 0.1
        )

    def test_outside_the_own_support_it_is_bounded_and_counted(self) -> None:
        pool = tilted_pool()
        folds = make_folds(pool, None, 5, 0)
        score = score_memberships(Box(["x"], quantile=0.1), folds)
        lost = score.value < np.log(DELTA * 0.5) + 1e-9
        assert score.outside == pytest.approx(lost.mean())
        assert 0.1 < score.outside < 0.3  # a fifth is cut off by construction
        assert score.value.min() == pytest.approx(np.log(DELTA * 0.5))

    def test_levels_that_only_a_held_out_image_has_count_as_outside(self) -> None:
        frame = labelled_pool().frame.assign(
            label=lambda frame: frame["label"].where(frame.index != 5, "rare")
        )
        pool = unskew.Pool(frame)
        target = unskew.Target.margins({"label": {"a": 0.3, "b": 0.3, "c": 0.3, "rare": 0.1}})
        for model in (Strata("label"), Product(Strata("label"), Tilt(["x"], reference="0"))):
            score = score_memberships(model, make_folds(pool, target, 5, 0))
            assert score.value[5] == pytest.approx(np.log(DELTA * 0.5))
            assert score.outside == pytest.approx(1 / 600)
        own = score_memberships(Tilt(["label"], reference="0"), make_folds(pool, None, 5, 0))
        assert own.value[5] == pytest.approx(np.log(DELTA * 0.5))

    def test_a_sample_of_the_target_counts_as_a_source(self) -> None:
        """With it the score sees c(z): of two models with the same ratios between sources the right
        one is ahead.
        """
        pool = tilted_pool()
        rng = np.random.default_rng(1)
        sample = unskew.Pool.from_arrays(
            ["sample"] * 300, x=rng.normal(size=300), id=[f"t{i}" for i in range(300)]
        )
        folds = make_folds(pool, unskew.Target.sample(sample), 5, 0)
        right = score_memberships(Known({"0": 1.0, "1": lambda frame: np.exp(frame["x"])}), folds)
        wrong = score_memberships(Known({"0": lambda frame: np.exp(-frame["x"]), "1": 1.0}), folds)
        assert right.value.size == 1100
        ahead, stderr = paired_difference(right, wrong, folds.unit)
        assert ahead > 5 * stderr

    def test_memberships_of_the_fitted_rows_are_those_of_the_profile(self) -> None:
        pool = labelled_pool()
        fitted = Product(Strata("label"), Tilt(["x"], reference="0")).fit(
            pool, unskew.Target.uniform("label")
        )
        q = fitted.profile.memberships(np.arange(600))
        np.testing.assert_allclose(
            own_membership(fitted, pool.frame, pool.source),
            q[np.arange(600), pool.source],
            rtol=1e-9,
        )

    def test_the_paired_difference_counts_groups_once(self) -> None:
        """Every image twice, as groups: neither mean nor standard error over units moves."""
        rng = np.random.default_rng(0)
        value = rng.normal(size=(2, 100))
        one = [type("", (), {"value": v, "fold_mean": np.zeros(5)}) for v in value]
        two = [type("", (), {"value": np.repeat(v, 2), "fold_mean": np.zeros(5)}) for v in value]
        np.testing.assert_allclose(
            paired_difference(*one, np.arange(100)),
            paired_difference(*two, np.repeat(np.arange(100), 2)),
        )
        expected = (value[0] - value[1]).std() / 10
        assert paired_difference(*one, np.arange(100))[1] == pytest.approx(expected)


class TestFacts:
    def test_strata_agree_exactly_with_the_margin_they_used(self) -> None:
        pool = labelled_pool()
        target = unskew.Target.margins({"label": {"a": 0.2, "b": 0.5, "c": 0.3}})
        facts = known_facts(pool, [target], [])
        assert [(fact.name, fact.expected) for fact in facts] == [
            ("label = b", 0.5),
            ("label = c", 0.3),
            ("label = a", 0.2),
        ]
        distance = distance_to_target(unskew.debias(pool, Strata("label"), target), facts)
        assert distance.largest == pytest.approx(0.0, abs=1e-12)
        assert distance.p_value == 1.0

    def test_naive_pooling_is_off_by_what_the_shares_differ(self) -> None:
        pool = labelled_pool()
        target = unskew.Target.margins({"label": {"a": 0.05, "b": 0.5, "c": 0.45}})
        naive = unskew.debias(pool, Known({"0": 1.0, "1": 1.0}))
        distance = distance_to_target(naive, known_facts(pool, [target], []))
        share = (pool.frame["label"] == "a").mean()
        assert distance.fact == "label = a"
        assert distance.largest == pytest.approx((share - 0.05) / np.sqrt(share * (1 - share)))
        assert distance.p_value < 1e-6

    def test_margins_are_compared_one_by_one_also_those_that_the_fit_did_not_use(self) -> None:
        frame = labelled_pool().frame.assign(site=np.tile(["n", "s"], 300))
        target = unskew.Target.margins(
            {"label": {"a": 0.3, "b": 0.4, "c": 0.3}, "site": {"n": 0.9, "s": 0.1}}
        )
        pool = unskew.Pool(frame)
        distance = distance_to_target(
            unskew.debias(pool, Strata("label"), target), known_facts(pool, [target], [])
        )
        assert distance.n_facts == 5
        assert distance.fact.startswith("site")

    def test_means_of_an_unbiased_source(self) -> None:
        pool = tilted_pool()
        (fact,) = known_facts(pool, [unskew.Target.source("0")], ["x"])
        own = pool.frame["x"][pool.source == 0]
        assert fact.expected == pytest.approx(own.mean())
        assert fact.stderr == pytest.approx(own.std(ddof=0) / 20)

    def test_of_a_sample_the_shared_numbers_are_compared_where_no_candidate_names_a_column(
        self,
    ) -> None:
        rng = np.random.default_rng(0)
        pool = tilted_pool(y=np.full(800, 2.0), kind=["k"] * 800, z=rng.normal(size=800))
        sample = unskew.Target.sample(
            unskew.Pool.from_arrays(
                ["t"] * 500, x=rng.normal(size=500), y=np.full(500, 2.0), kind=["k"] * 500
            )
        )
        assert [fact.name for fact in known_facts(pool, [sample], ["x"])] == ["mean of x"]
        assert [fact.name for fact in known_facts(pool, [sample], [])] == ["mean of x", "mean of y"]
        assert [fact.name for fact in known_facts(pool, [sample], ["z"])] == [
            "mean of x",
            "mean of y",
        ]
        # Both describe the sources equally; the sample tells that source 0 is the unbiased one.
        first = Known({"0": 1.0, "1": lambda table: np.exp(table["x"])})
        second = Known({"0": lambda table: np.exp(-table["x"]), "1": 1.0})
        choice = unskew.choose_bias(
            pool, {"second": second, "first": first}, facts=[sample], check=False
        )
        assert choice.table["distance"].notna().all()
        assert choice.name == "first"
        assert "contradicting it: second" in choice.reason

    def test_it_is_said_which_population_facts_and_results_speak_of(self) -> None:
        known = unskew.Target.margins(
            {"label": {"a": 0.3, "b": 0.3, "c": 0.3, "z": 0.1}}, uncovered="restrict"
        )
        without = "the target excluding strata with no images in any source: label = z (0.1)"
        said = str(unskew.choose_bias(labelled_pool(), [Strata("label")], known, check=False))
        assert f"With it, results speak of {without}." in said
        said = str(
            unskew.choose_bias(
                labelled_pool(), [Box(["x"])], facts=[known], check=False, baseline=False
            )
        )
        assert f"Note: the known shares of label are those of {without}" in said
        assert (
            "With it, results speak of the part of the population within the union of the boxes."
            in said
        )

    def test_without_facts_there_is_no_distance(self) -> None:
        pool = tilted_pool()
        assert distance_to_target(unskew.debias(pool, Known({"0": 1.0, "1": 1.0})), ()) is None


class TestParameters:
    @pytest.mark.parametrize(
        ("model", "count"),
        [
            (Known({"0": 1.0, "1": 2.0}), 0),
            (Subpopulation({"0": "all", "1": "all"}), 0),
            (Tilt(["x"], reference="0"), 1),
            (Tilt(["x"], reference="0", degree=2), 2),
            (Tilt(["x", "label"], reference="0"), 3),
            (Box(["x"]), 4),
            (Strata("label"), 2),
            (Product(Strata("label"), Tilt(["x"], reference="0")), 3),
        ],
        ids=lambda value: model_name(value) if isinstance(value, Bias) else str(value),
    )
    def test_fitted_numbers_are_counted(self, model: Bias, count: int) -> None:
        assert count_parameters(model.fit(labelled_pool(), unskew.Target.uniform("label"))) == count

    def test_names_are_short(self) -> None:
        assert (
            model_name(Product(Strata("label"), Tilt(["x", "y"], reference="0")))
            == "Strata(label) × Tilt(x, y, reference=0)"
        )
        assert model_name(Known({"0": 1.0})) == "Known(1)"


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
        assert "which the images cannot tell" in choice.reason

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
        drawn = unskew.scenarios.tilts([100, 100], theta=[[0.0], [0.2]], seed=11)
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
        assert "compares every source with a reference" in remark["tilt"]
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
        with pytest.raises(DataError, match="takes a Pool"):
            unskew.choose_bias(pool.frame, [Tilt(["x"])])
        with pytest.raises(ConfigError, match="candidates is empty"):
            unskew.choose_bias(pool, [])
        with pytest.raises(ConfigError, match="candidates is a list"):
            unskew.choose_bias(pool, Tilt(["x"]))
        with pytest.raises(ConfigError, match=r"candidates are bias models .* got 'tilt'"):
            unskew.choose_bias(pool, ["tilt"])
        with pytest.raises(ConfigError, match="folds"):
            unskew.choose_bias(pool, [Tilt(["x"])], folds=1)
        with pytest.raises(ConfigError, match="facts"):
            unskew.choose_bias(pool, [Tilt(["x"])], facts=unskew.Target.uniform("label"))
        with pytest.raises(ConfigError, match="target"):
            unskew.choose_bias(pool, [Tilt(["x"])], {"label": 1})

    def test_one_source_alone_cannot_be_compared(self) -> None:
        with pytest.raises(DataError, match="one source only"):
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
    assert "no model that you named could be fitted" in choice.reason
    # The whole reason stands beside the table, where it is cut short.
    assert any(
        "the table lacks brihgtness" in note and "Did you mean 'brightness'" in note
        for note in choice.notes
    )
    with pytest.raises(ConfigError, match="a whole number of at least 2; got 2"):
        unskew.choose_bias(pool, [Tilt(["brightness"], reference="a")], folds=2.5)  # type: ignore[arg-type]
