"""Masses that follow the pool's counts: their derivative by adding images."""

import numpy as np
import pandas as pd
import pytest

from unskew import Pool, Target

RULES = {"outside": {"A": {"other": "keep"}}, "missing": {"B": "keep"}}
MARGINS = {"A": {"x": 0.3, "y": 0.7}, "B": {"u": 0.6, "v": 0.4}}


def crossed_pool(seed=0, n=120):
    rng = np.random.default_rng(seed)
    source = np.repeat(["p", "q"], n)
    a = rng.choice(["x", "y", "other"], 2 * n, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(2 * n) < np.where(a == "x", 0.7, 0.4), "u", "v").astype(object)
    b[rng.random(2 * n) < 0.1] = None
    return pd.DataFrame({"source": source, "A": a, "B": b})


@pytest.mark.parametrize("interactions", ["within", "pool"])
def test_the_derivative_is_what_one_more_image_changes(interactions):
    # Every image many times: one more is a small step.
    times = 400
    frame = crossed_pool()
    many = pd.concat([frame] * times, ignore_index=True)
    target = Target.margins(MARGINS, interactions=interactions, **RULES)
    strata = target.stratify(Pool.from_frame(many))
    counted = strata.counted
    jacobian = counted.jacobian()
    # Masses sum to 1 whatever the counts.
    np.testing.assert_allclose(jacobian.sum(axis=0), 0, atol=1e-15)
    # Ten times the counts change nothing: Σ_p N_p ∂/∂N_p = 0, but for the correction for bias, a
    # few of 48,000 images.
    size_p = np.bincount(counted.code_n, weights=counted.weight)
    np.testing.assert_allclose(jacobian @ size_p, 0, atol=1e-4)
    for p in range(0, counted.cell_p.size, 3):
        row = many.iloc[[int(np.flatnonzero(counted.code_n == p)[0])]]
        more = pd.concat([many, *[row] * 20], ignore_index=True)
        changed = target.stratify(Pool.from_frame(more)).mass - strata.mass
        # Second order: 20 of at least 400 images.
        np.testing.assert_allclose(
            jacobian[:, p], changed / 20, rtol=0.06, atol=0.02 * np.abs(jacobian[:, p]).max()
        )


def test_masses_that_are_given_follow_no_counts():
    frame = crossed_pool()
    frame = frame[(frame["A"] != "other") & frame["B"].notna()]
    assert Target.margins({"A": MARGINS["A"]}).stratify(frame).counted is None
    assert Target.uniform(["A", "B"]).stratify(frame).counted is None
    table = pd.DataFrame([(a, b, 1) for a in "xy" for b in "uv"], columns=["A", "B", "count"])
    assert Target.margins(MARGINS, interactions=table).stratify(frame).counted is None
    assert Target.margins(MARGINS).stratify(frame).counted is not None
