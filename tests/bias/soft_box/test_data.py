"""`SoftBox` on what users have: timestamps, copies within groups, useless features, and what it
says of itself.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unskew import Pool, debias
from unskew.bias import SoftBox
from unskew.bias.soft_box.fit import fit_soft_boxes
from unskew.errors import UnskewWarning
from unskew.records import Floats, Ints


def two_sides(n: int, seed: int = 0) -> tuple[Floats, Ints]:
    """Two sources of a Gaussian population, each falling off towards the other's end."""
    rng = np.random.default_rng(seed)
    z_n = rng.normal(size=2 * n)
    chance_2n = [np.clip(1.0 - np.maximum(sign * z_n - 0.3, 0.0), 0.0, 1.0) for sign in (1.0, -1.0)]
    drawn = [rng.choice(z_n, n, p=chance_n / chance_n.sum()) for chance_n in chance_2n]
    return np.concatenate(drawn), np.repeat([0, 1], n)


def test_features_far_from_0_change_nothing() -> None:
    """Seconds since 1970: the rounding of the edges is far larger than the last bits of the
    width.
    """
    z_n, source_n = two_sides(2000)
    near, far = (
        debias(
            Pool.from_arrays(np.array(["a", "b"])[source_n], time=10.0 * z_n + shift),
            SoftBox(["time"]),
        )
        for shift in (0.0, 1.7e9)
    )
    np.testing.assert_allclose(far.weight, near.weight, rtol=1e-4)
    edges = {
        key: value
        for box in far.describe().parameters["boxes"].values()
        for key, value in box.items()
    }
    assert all(not np.isfinite(edge) or abs(edge - 1.7e9) < 100 for edge in edges["time"])
    assert far.mean(z_n).stderr == pytest.approx(near.mean(z_n).stderr, rel=1e-3)


def test_features_so_large_that_the_width_is_lost_end_all_the_same() -> None:
    z_n, source_n = two_sides(300)
    fit = fit_soft_boxes((1e-3 * z_n + 1e14)[:, None], source_n, 2)
    assert np.isfinite(fit.log_likelihood)


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 10])
def test_copies_within_groups_change_nothing(seed: int) -> None:
    """Schwarz's rule and the prior count groups: ten copies of every image in its group are no
    news.
    """
    rng = np.random.default_rng(seed)
    z_nd = rng.normal(size=(400, 2))
    source_n = rng.integers(0, 3, 400)
    z_nd[source_n == 1, 0] += 0.35
    once = fit_soft_boxes(z_nd, source_n, 3, group_n=np.arange(400), test=False)
    often = fit_soft_boxes(
        np.repeat(z_nd, 10, axis=0),
        np.repeat(source_n, 10),
        3,
        group_n=np.repeat(np.arange(400), 10),
        test=False,
    )
    assert often.is_constant == once.is_constant
    # Both end within a hundredth of a unit of the same maximum, which is flat along the width.
    assert often.log_likelihood / 10 == pytest.approx(once.log_likelihood, abs=0.01)
    assert often.width == pytest.approx(once.width, rel=0.05)
    np.testing.assert_array_equal(np.isfinite(often.lower), np.isfinite(once.lower))


def test_useless_features_are_named() -> None:
    z_n, source_n = two_sides(300)
    frame = pd.DataFrame(
        {"source": np.array(["a", "b"])[source_n], "z": z_n, "k": 1.0, "copy": 5.0 - 2.0 * z_n}
    )
    with pytest.warns(UnskewWarning) as caught:
        notes = debias(Pool.from_frame(frame), SoftBox(["z", "k", "copy"])).describe().notes
    assert any("k is constant" in note for note in notes)
    assert any("copy repeats z" in note for note in notes)
    assert all(
        any(said in str(each.message) for each in caught)
        for said in ("k is constant", "copy repeats z")
    )
    with pytest.warns(UnskewWarning) as caught:
        said = debias(Pool.from_frame(frame), SoftBox(["k"])).describe().estimated[0]
    assert "cannot tell such a mechanism from none (p = 1" in said
    assert ["k is constant" in str(each.message) for each in caught] == [True]


def test_a_difference_that_is_not_worth_boxes_is_not_said_to_be_none() -> None:
    """The test rejects, Schwarz's rule does not pay: another reason than that nothing can be
    told.
    """
    rng = np.random.default_rng(0)
    z_nd = rng.normal(size=(1500, 2))
    source_n = rng.integers(0, 3, 1500)
    z_nd[source_n == 1, 0] += 0.12
    weights = debias(
        Pool.from_arrays(np.array(list("abc"))[source_n], x=z_nd[:, 0], y=z_nd[:, 1]),
        SoftBox(["x", "y"]),
    )
    said = weights.describe().estimated[0]
    assert "the sources do differ (p = 0.0" in said
    assert "all images count alike" in said
