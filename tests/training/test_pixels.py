"""The pixels that a network is trained on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from unskew.training.pixels import image_side


@pytest.mark.parametrize(
    ("learn", "side"),
    [
        ({"size": 48, "preset": "finetune"}, 48),
        ({"size": None, "preset": "fast"}, 32),
        # What EfficientNet-lite0 was pretrained with is too much for a processor.
        ({"size": None, "preset": "finetune", "model": None, "device": "cpu"}, 128),
    ],
)
def test_the_side_is_the_users_or_the_presets(learn: dict, side: int) -> None:
    pytest.importorskip("torch")
    assert image_side(SimpleNamespace(learn=SimpleNamespace(**learn))) == side
