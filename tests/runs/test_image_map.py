"""Every image as a point: principal components of the numeric features."""

from __future__ import annotations

import numpy as np
import pandas as pd

import unskew
from unskew.runs.image_map import MAP_COLUMNS, map_images


def _pool(**columns) -> tuple[unskew.Pool, pd.DataFrame]:
    n = len(next(iter(columns.values()))) if columns else 40
    frame = pd.DataFrame(
        {"id": [f"{at}.jpg" for at in range(n)], "source": np.where(np.arange(n) % 2, "a", "b")}
    ).assign(label="cat", **columns)
    weights = pd.DataFrame({"id": frame["id"][::-1], "weight": np.arange(1.0, n + 1)})
    return unskew.Pool.from_frame(frame), weights.assign(sample_weight=1.0)


def test_points_are_the_principal_components_of_scaled_features() -> None:
    rng = np.random.default_rng(0)
    value = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5)) * 10.0 ** np.arange(5)
    pool, weights = _pool(**{f"f{at}": value[:, at] for at in range(5)}, country=["fr"] * 40)
    table = map_images(pool, weights)
    assert table is not None
    assert tuple(table.columns) == MAP_COLUMNS
    # An independent way: singular vectors, up to their signs.
    z = (value - value.mean(axis=0)) / value.std(axis=0)
    left, size, _ = np.linalg.svd(z, full_matrices=False)
    for column, expected in zip(("x", "y"), (left * size)[:, :2].T, strict=True):
        own = table[column].to_numpy()
        np.testing.assert_allclose(np.abs(own), np.abs(expected), rtol=1e-8, atol=1e-10)
        assert abs(np.corrcoef(own, expected)[0, 1]) > 1 - 1e-12
    # Joined by id, not by row.
    assert table["weight"].tolist() == np.arange(40.0, 0.0, -1).tolist()


def test_gaps_constants_and_flags_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    x[3], y[7] = np.nan, np.inf
    nothing = np.full(40, np.nan)
    pool, weights = _pool(x=x, y=y, one=np.ones(40), flag=rng.random(40) < 0.5, nothing=nothing)
    table = map_images(pool, weights)
    assert table is not None
    assert np.isfinite(table[["x", "y"]].to_numpy()).all()


def test_fewer_than_two_features_make_no_map() -> None:
    x = np.arange(40.0)
    for columns in ({}, {"x": x}, {"x": x, "one": np.ones(40)}, {"x": x, "name": ["n"] * 40}):
        assert map_images(*_pool(**columns)) is None
