"""The score: folds that keep units together, closed forms, and that it is blind to c(z)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from choosing_pools import labelled_pool, tilted_pool
from raising import refused
from unskew.bias import Box, Known, Product, Strata, Tilt
from unskew.choosing.membership_score import (
    DELTA,
    find_fold_units,
    make_folds,
    own_membership,
    paired_difference,
    score_memberships,
)
from unskew.errors import DataError


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
        with refused(DataError, source="0", count=1, limit=2):
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
        one = [type("", (), {"value": v, "fold_mean": np.zeros(5), "design": None}) for v in value]
        two = [
            type("", (), {"value": np.repeat(v, 2), "fold_mean": np.zeros(5), "design": None})
            for v in value
        ]
        np.testing.assert_allclose(
            paired_difference(*one, np.arange(100)),
            paired_difference(*two, np.repeat(np.arange(100), 2)),
        )
        expected = (value[0] - value[1]).std() / 10
        assert paired_difference(*one, np.arange(100))[1] == pytest.approx(expected)
