"""The difference of a mean between two targets: both are of the same images."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from unskew import Pool, Target
from unskew.bias import Strata

CITY = Target.margins({"label": {"cat": 0.8, "dog": 0.2}})
FARM = Target.margins({"label": {"cat": 0.4, "dog": 0.6}})
SURVEYED = Target.margins({"label": {"mass": {"cat": 0.7, "dog": 0.3}, "n": 50}})


@pytest.fixture(scope="module")
def pool() -> Pool:
    rng = np.random.default_rng(0)
    source = np.repeat(["a", "b"], 400)
    cat = rng.random(800) < np.where(source == "a", 0.3, 0.7)
    z = rng.normal(cat - 0.3 * (source == "a"), 1.0)
    return Pool.from_arrays(source, label=np.where(cat, "cat", "dog"), z=z)


def test_the_difference_has_the_error_of_post_stratified_means_of_the_same_images(
    pool: Pool,
) -> None:
    z, cat = pool.frame["z"].to_numpy(), (pool.frame["label"] == "cat").to_numpy()
    means = unskew.debias_targets(pool, Strata("label"), {"city": CITY, "farm": FARM}).mean(z)
    spread = [z[own].var(ddof=1) / own.sum() for own in (cat, ~cat)]
    # Δp = ±0.4 in both strata; leverages of 1/N change it in the fourth digit.
    assert means.difference.stderr == pytest.approx(0.4 * np.sqrt(sum(spread)), rel=1e-3)
    apart = [means.estimates[name].stderr for name in ("city", "farm")]
    assert means.difference.stderr < 0.8 * np.hypot(*apart)
    assert means.hangs_on_target


def test_a_survey_behind_one_target_adds_its_error_to_the_difference(pool: Pool) -> None:
    exact = Target.margins({"label": {"cat": 0.7, "dog": 0.3}})
    z = pool.frame["z"].to_numpy()
    weighed = unskew.debias_targets(
        pool, Strata("label"), {"city": CITY, "exact": exact, "surveyed": SURVEYED}
    )
    of_exact = weighed.difference("city", "exact", z)
    of_survey = weighed.difference("city", "surveyed", z)
    margin = weighed.weights["surveyed"].mean(z).stderr ** 2
    margin -= weighed.weights["exact"].mean(z).stderr ** 2
    assert of_survey.stderr**2 - of_exact.stderr**2 == pytest.approx(margin, rel=0.02)


def test_copies_within_a_group_change_no_error_of_the_difference(pool: Pool) -> None:
    frame = pool.frame.drop(columns="id")
    doubled = Pool.from_frame(
        frame.loc[np.repeat(frame.index, 2)]
        .assign(group=np.repeat(np.arange(800), 2))
        .reset_index(drop=True)
    )
    targets = {"city": CITY, "farm": FARM}
    one = unskew.debias_targets(pool, Strata("label"), targets).mean(frame["z"].to_numpy())
    two = unskew.debias_targets(doubled, Strata("label"), targets)
    both = two.mean(doubled.frame["z"].to_numpy())
    # Every image twice in a group of its own says nothing more.
    assert both.difference.stderr == pytest.approx(one.difference.stderr, rel=1e-9)


@pytest.mark.slow
def test_the_interval_of_the_difference_covers() -> None:
    """200 draws of the pool: 95% ± 3 standard errors of a share (1.5 points) contain the truth."""
    truth, hits = 0.4 * 1.0, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        cat = rng.random(120) < 0.5
        z = rng.normal(cat, 1.0)
        drawn = Pool.from_arrays(["a"] * 120, label=np.where(cat, "cat", "dog"))
        means = unskew.debias_targets(drawn, Strata("label"), {"city": CITY, "farm": FARM})
        low, high = means.difference("city", "farm", z).interval
        hits += low <= truth <= high
    assert 0.90 <= hits / 200 <= 0.995
