"""The galleries show the right images."""

from __future__ import annotations

from typing import Any

import numpy as np

import unskew
from summary_pools import ListedImages, broken_image, jpeg, mixed_frame, summary_of


def test_galleries_hold_the_heaviest_and_the_lightest_with_their_pictures() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(60))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    raw: list[Any] = [
        [
            jpeg((at, 0, 0)),
            np.full((40, 300, 3), at, dtype=np.uint8),
            b"no image",
            broken_image(),
            np.zeros((9, 9), dtype=np.uint16),
        ][at % 5]
        for at in range(60)
    ]
    found = summary_of(unskew.Pool(pool.frame, ListedImages(raw)), weights)
    by_kind = {(each.kind, each.source): each for each in found.galleries}
    for k, name in enumerate(pool.names):
        own = np.flatnonzero(weights.source == k)
        order = own[np.argsort(weights.weight[own])]
        assert [p.id for p in by_kind["heaviest", name].pictures] == weights.id[
            order[::-1][:6]
        ].tolist()
        assert [p.id for p in by_kind["lightest", name].pictures] == weights.id[order[:6]].tolist()
    for each in found.galleries:
        for picture in each.pictures:
            can_be_shown = int(picture.id[-5:]) % 5 in (0, 1, 4)
            assert (picture.picture is not None) == can_be_shown
            assert picture.path == f"folder/picture-{picture.id[-5:]}.jpg"


def test_images_of_one_stratum_and_weight_are_shown_once() -> None:
    label = ["cat"] * 20 + ["dog"] * 5 + ["owl"] * 5
    pool = unskew.Pool.from_arrays(["a"] * 30, label=label)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    with_images = unskew.Pool(pool.frame, ListedImages([b"no image"] * 30))
    (shown,) = summary_of(with_images, weights).galleries
    assert (shown.kind, [picture.label for picture in shown.pictures]) == (
        "heaviest",
        ["dog", "owl", "cat"],
    )
