"""The pixels that a network is trained on: every image as a square."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.config.run_config import RunConfig
from unskew.records import Pool
from unskew.runs.inputs import usable_cache

# Of the squares, in pixels: of small networks, and most on a processor.
_SIDE, _SIDE_ON_CPU = 32, 128


def read_squares(
    config: RunConfig, pool: Pool, progress: bool | None
) -> tuple[Pool, npt.NDArray[np.uint8]]:
    """Read every image of the pool as a square, as [learn] says; those unreadable are set aside."""
    from unskew.represent.square_pixels import square_images

    return square_images(
        pool,
        image_side(config),
        config.learn.resize,
        memory=config.learn.memory,
        cache=usable_cache(config),
        jobs=config.engine.jobs,
        tolerance=config.sources.tolerance,
        max_pixels=config.sources.max_pixels,
        progress=progress,
    )


def image_side(config: RunConfig) -> int:
    """Return the side of the squares: that of [learn], or the preset's.

    A pretrained network has the side that it was trained with, on a processor at most 128 pixels.
    """
    learn = config.learn
    if learn.size is not None:
        return learn.size
    if learn.preset != "finetune":
        return _SIDE
    from unskew.learn.model_zoo import pretrained_side
    from unskew.learn.presets import PACKAGED
    from unskew.learn.trained_model import found_device

    side = pretrained_side(learn.model or PACKAGED)
    return side if found_device(learn.device or "auto") == "cuda" else min(side, _SIDE_ON_CPU)
