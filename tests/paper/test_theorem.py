"""The theorem's measure: exact suprema, a disturbance within its bound, slopes on reduced sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper import theorem
from paper.experiment import Folders

NOWHERE = Folders(Path("nowhere"), Path("nowhere"))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=8))
def test_the_worst_error_is_that_of_a_search(points: list[tuple[float, float]]) -> None:
    z, weight = (np.array(values) for values in zip(*points, strict=True))
    weight = weight / weight.sum()
    grid = np.concatenate([np.linspace(0, 1, 500), z, np.nextafter(z, -1), [0.0, 1.0]])
    largest = max(abs(float(weight[z <= t].sum()) - max(t, 0.0)) for t in grid)
    assert theorem.worst_error(z, weight) == pytest.approx(largest, abs=2e-3)


def test_the_disturbance_keeps_to_the_article_s_assumptions() -> None:
    z = np.linspace(0, 1, 1001)
    omega, disturbed = theorem.three_sources(z), theorem.disturbed(z, 0.07)
    assert np.abs(disturbed - omega).max() <= 0.07 + 1e-12
    assert ((disturbed > 0) == (omega > 0)).all()
    assert omega[omega > 0].min() >= theorem.EPSILON - 1e-12
    assert disturbed.max() <= 1.0
    assert (omega.max(axis=1) > 0).all()


def test_sources_draw_from_their_own_law() -> None:
    z, source = theorem.draw_sources(theorem.three_sources, 30_000, 3, np.random.default_rng(0))
    for k in range(3):
        own = z[source == k]
        grid = np.linspace(0, 1, 2001)
        density = theorem.three_sources(grid)[:, k]
        mean = (grid * density).sum() / density.sum()
        # Five standard errors of a mean of 10,000.
        assert own.mean() == pytest.approx(mean, abs=5 * own.std() / 100)


@pytest.mark.slow
def test_errors_fall_like_one_over_root_n_unless_omega_is_off_by_a_constant() -> None:
    sizes = (200, 3200)
    mean = {}
    for n in sizes:
        rows = theorem.errors_by_size({"n": n, "first": 0, "draws": 30}, NOWHERE)["errors"]
        for arm in ("true", "root_n", "constant", "naive"):
            mean[arm, n] = np.mean(
                [row["error"] for row in rows if row["arm"] == arm and row["error"] is not None]
            )
    slope = {
        arm: np.log(mean[arm, 3200] / mean[arm, 200]) / np.log(16)
        for arm in ("true", "root_n", "constant", "naive")
    }
    assert -0.65 < slope["true"] < -0.35
    assert -0.65 < slope["root_n"] < -0.35
    # Of 0.06: the floor.
    assert mean["constant", 3200] > 0.04
    assert slope["naive"] > -0.2


@pytest.mark.parametrize("constant", ["kappa", "epsilon"])
def test_less_overlap_is_more_error(constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem, "N_OF_OVERLAPS", 4000)
    mean = []
    for value in (0.01, 1.0):
        rows = theorem.errors_by_overlap(
            {"constant": constant, "value": value, "draws": 15}, NOWHERE
        )["errors"]
        mean.append(np.mean([row["error"] for row in rows if row["error"] is not None]))
    assert mean[0] > 2 * mean[1]
