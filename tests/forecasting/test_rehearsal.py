"""Each source as the target: what is predicted there holds where the model is right, and does not
where it is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import unskew
from forecast_worlds import class_world, label_of, tilt_world
from raising import refused
from unskew import Pool, Target, rehearse
from unskew.bias import Box, Known, Product, Propensity, Strata, Subpopulation, Tilt
from unskew.errors import ConfigError, DataError
from unskew.forecasting.rehearsal_record import Rehearsal

SHIFT = ((1.0, 0.0), (-0.3, 0.8), (0.0, -0.6))


def _agree(rehearsal: Rehearsal, errors: float = 2.5) -> None:
    for each in rehearsal.sources:
        for arm in ("naive", "debiased"):
            assert abs(each.miss(arm)) < errors * each.miss_stderr(arm)


def test_class_bias_transfers(rehearsed: tuple[Pool, Rehearsal]) -> None:
    _, rehearsal = rehearsed
    assert [each.source for each in rehearsal.sources] == ["archive", "counter", "survey"]
    assert rehearsal.verdict == "transfers"
    _agree(rehearsal)
    # What ordinary cross-validation says is far off, or the rehearsal would prove nothing.
    usual = [abs(each.usual - each.true["naive"].value) for each in rehearsal.sources]
    assert max(usual) > 0.1 > 2 * max(abs(each.miss()) for each in rehearsal.sources)
    assert all(each.winner_right in (True, None) for each in rehearsal.sources)
    assert rehearsal.source("archive").true_gain.value > 0.02  # type: ignore[union-attr]


def test_the_weights_are_those_of_the_sources_margin(rehearsed: tuple[Pool, Rehearsal]) -> None:
    """Post-stratification: the effective size has a closed form, π_i = (share of the class in the
    source)/(its count in the others).
    """
    pool, rehearsal = rehearsed
    label, source = pool.frame["label"].to_numpy(), pool.frame["source"].to_numpy()
    for each in rehearsal.sources:
        share = np.bincount(label[source == each.source], minlength=4) / np.sum(
            source == each.source
        )
        count = np.bincount(label[source != each.source], minlength=4)
        assert each.ess == pytest.approx(1.0 / np.sum(share**2 / count), rel=1e-9)


@pytest.mark.parametrize(
    "bias", [Tilt(["x"], reference="dim"), Propensity(["x"])], ids=["tilt", "propensity"]
)
def test_tilted_sources_transfer_without_their_labels(bias: Any) -> None:
    pool = tilt_world(1500, 1, theta=SHIFT).pool
    rehearsal = rehearse(pool, bias, features=["x"], folds=3)
    assert rehearsal.verdict == "transfers"
    _agree(rehearsal)


def test_intervals_of_true_accuracy_stay_within_0_and_1() -> None:
    """Easy classes, and one image of 40 in each source that looks like the other class."""
    rng = np.random.default_rng(0)
    label = np.tile([0, 1], 40)
    x = 8 * label + rng.standard_normal(80)
    x[[0, 40]] = 8.0
    pool = Pool.from_arrays(np.repeat(["a", "b"], 40), label=label, x=x)
    rehearsal = rehearse(pool, Strata("label"), features=["x"], folds=2)
    for each in rehearsal.sources:
        found = each.true["debiased"]
        assert 0.9 < found.value < 1.0 < found.value + 2 * found.stderr
        assert found.value < found.interval[1] <= 1.0


def test_a_product_of_strata_and_tilt() -> None:
    pool = tilt_world(600, 2, theta=SHIFT).pool
    rehearsal = rehearse(pool, Product(Strata("label"), Tilt(["x"])), features=["x"], folds=2)
    assert rehearsal.family == "Strata × Tilt"
    assert all(each.reached for each in rehearsal.sources)


def test_known_selection_is_undone_from_source_to_source() -> None:
    """ω_k(z) = e^{θ_k·z} given as columns: the others are weighted by ω_k/Σ_{l≠k} n_l ω_l/Ω_l."""
    world = tilt_world(1500, 3, theta=SHIFT)
    log_nk = world.X @ np.array(SHIFT).T
    named = {
        f"omega_{name}": np.exp(log_nk[:, world.pool.names.index(name)])
        for name in world.pool.names
    }
    omega = {name: f"omega_{name}" for name in world.pool.names}
    rehearsal = rehearse(world.pool.with_columns(named), Known(omega), features=["x"], folds=3)
    _agree(rehearsal)
    tilted = rehearse(world.pool, Tilt(["x"]), features=["x"], folds=3)
    for known, fitted in zip(rehearsal.sources, tilted.sources, strict=True):
        # θ is estimated there, and the sources themselves are draws.
        assert known.predicted["debiased"].value == pytest.approx(
            fitted.predicted["debiased"].value, abs=0.05
        )
        assert known.ess == pytest.approx(fitted.ess, rel=0.35)


def test_a_box_that_contains_another_reaches_it() -> None:
    rng = np.random.default_rng(0)
    X = np.r_[rng.uniform(-2, 2, (900, 2)), rng.uniform(-1, 1, (500, 2))]
    pool = Pool.from_arrays(np.repeat(["wide", "narrow"], [900, 500]), label=label_of(X, rng), x=X)
    rehearsal = rehearse(pool, Box(["x"]), features=["x"])
    narrow = rehearsal.source("narrow")
    # A quarter of the wide source lies in the narrow box, and counts alike there.
    inside = np.all(np.abs(X[:900]) <= np.abs(X[900:]).max(axis=0) + 1e-3, axis=1)
    assert narrow.ess == pytest.approx(inside.sum(), abs=5)
    assert abs(narrow.miss()) < 2.5 * narrow.miss_stderr()
    wide = rehearsal.source("wide")
    assert not wide.reached
    assert "where no other source selects anything" in str(wide.obstacle)


def test_a_source_with_a_class_of_its_own_is_not_reached() -> None:
    pool = class_world([600, 600], seed=3, mix=[[0.4, 0.3, 0.3, 0.0], [0.2, 0.3, 0.3, 0.2]]).pool
    rehearsal = rehearse(pool, Strata("label"), features=["x"])
    lone = rehearsal.source("counter")
    assert not lone.reached
    assert "3" in str(lone.obstacle)
    assert rehearsal.source("archive").reached
    assert "Not reached from the others: `counter`" in rehearsal.message
    assert any("not reached" in line for line in rehearsal.lines())
    assert np.isnan(lone.miss())


def test_a_source_whose_labels_mean_something_else_does_not_transfer(
    rehearsed: tuple[Pool, Rehearsal],
) -> None:
    pool, _ = rehearsed
    frame = pool.frame
    swapped = np.where(frame["source"] == "survey", 3 - frame["label"], frame["label"])
    rehearsal = rehearse(
        Pool(frame.assign(label=swapped)), Strata("label"), features=["x"], folds=3
    )
    assert rehearsal.source("survey").holds is False
    assert rehearsal.verdict in ("does not transfer", "transfers in part")
    assert "`survey`" in rehearsal.message


def test_a_wrong_family_does_not_transfer() -> None:
    """Tilted sources described by their labels alone: the images of a class differ from source to
    source.
    """
    pool = tilt_world(2400, 4, theta=((2.0, 1.4), (-2.0, 1.4), (0.0, -1.8))).pool
    wrong = rehearse(pool, Strata("label"), features=["x"], folds=3)
    assert wrong.verdict in ("does not transfer", "transfers in part")


def test_copies_in_other_sources_do_not_judge() -> None:
    pool = class_world([400, 400], seed=5).pool
    content = pool.frame["id"].astype(str).to_numpy(dtype=object)
    content[400:500] = content[:100]
    rehearsal = rehearse(pool.with_columns({"content": content}), Strata("label"), features=["x"])
    assert [each.judged for each in rehearsal.sources] == [300, 300]
    assert any("100 of its 400 images have copies" in note for note in rehearsal.sources[0].notes)
    every = pool.with_columns({"content": np.tile(np.arange(400), 2)})
    assert "have copies" in str(
        rehearse(every, Strata("label"), features=["x"]).sources[0].obstacle
    )


def test_any_classifier_of_scikit_learn(rehearsed: tuple[Pool, Rehearsal]) -> None:
    pool, rehearsal = rehearsed
    other = rehearse(pool, Strata("label"), learner=LogisticRegression(), features=["x"], folds=2)
    assert other.learner == "LogisticRegression"
    for one, two in zip(rehearsal.sources, other.sources, strict=True):
        assert one.true["debiased"].value == pytest.approx(two.true["debiased"].value, abs=0.02)


def test_strata_of_the_target_with_its_bins(rehearsed: tuple[Pool, Rehearsal]) -> None:
    pool, _ = rehearsed
    target = Target.margins(
        {"x_0": {"[-9, 0)": 0.5, "[0, 9]": 0.5}}, bins={"x_0": [-9.0, 0.0, 9.0]}
    )
    assert all(
        each.reached for each in rehearse(pool, Strata(), target, features=["x"], folds=2).sources
    )
    with refused(ConfigError, option="by"):
        rehearse(pool, Strata(), features=["x"])


def test_the_order_of_the_rows_does_not_matter(rehearsed: tuple[Pool, Rehearsal]) -> None:
    pool, rehearsal = rehearsed
    again = rehearse(
        pool.take(np.random.default_rng(0).permutation(len(pool))),
        Strata("label"),
        features=["x"],
        scaling="none",
        folds=3,
    )
    for each in again.sources:
        other = rehearsal.source(each.source)
        assert each.predicted["debiased"].value == pytest.approx(
            other.predicted["debiased"].value, abs=1e-12
        )
        assert each.true["debiased"].value == pytest.approx(other.true["debiased"].value, abs=1e-12)


def test_what_cannot_be_rehearsed_is_named(rehearsed: tuple[Pool, Rehearsal]) -> None:
    pool, _ = rehearsed
    with refused(DataError, source="survey"):
        rehearse(
            pool.take(np.asarray(pool.frame["source"] == "survey")), Strata("label"), features=["x"]
        )
    with refused(ConfigError, option="features"):
        rehearse(pool, Strata("label"), features=None)
    with refused(ConfigError, option="bias"):
        rehearse(pool, "strata", features=["x"])  # type: ignore[arg-type]
    queries = {name: "x_0 > -99" for name in pool.names}
    assert all(
        each.reached
        for each in unskew.rehearse(pool, Subpopulation(queries), features=["x"]).sources
    )


@pytest.mark.slow
def test_debiased_models_are_those_of_the_way(rehearsed: tuple[Pool, Rehearsal]) -> None:
    """Half and a ridge of 0.01, unless others are asked for; without probabilities, weights."""
    pool, rehearsal = rehearsed

    def gains(**options: Any) -> list[float]:
        again = rehearse(pool, Strata("label"), features=["x"], scaling="none", folds=3, **options)
        return [each.true_gain.value for each in again.sources]  # type: ignore[union-attr]

    found = [each.true_gain.value for each in rehearsal.sources]  # type: ignore[union-attr]
    assert gains(way="half", ridge=0.01) == found
    assert gains(way="weights") != found
    machine = LinearSVC()
    assert gains(learner=machine) == gains(learner=machine, way="weights")
    for way, learner in (("head", None), ("half", machine)):
        with refused(ConfigError, option="way", value=way):
            gains(way=way, learner=learner)
