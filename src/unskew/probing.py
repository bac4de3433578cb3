"""A configuration looked at ahead of training: the forecast of the gain, and the rehearsal with each source as the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unskew.errors import ConfigError
from unskew.pipeline import Inputs
from unskew.records import Pool

if TYPE_CHECKING:
    from unskew.learn.forecast import Forecast
    from unskew.rehearsal_record import Rehearsal


def forecast_inputs(inputs: Inputs, arms: Sequence[str], *, progress: bool | None = None) -> Forecast:
    """What reweighting will bring, from probes on the features of the configuration; the training split only, where there are splits."""
    from unskew.forecasting import forecast_gain

    config = inputs.config
    return forecast_gain(
        _training_images(inputs.pool),
        inputs.bias,
        inputs.target,
        probe_features(inputs),
        arms=arms,
        max_unlike=config.solve.max_unlike,
        seed=config.engine.seed,
        progress=progress,
    )


def rehearse_inputs(inputs: Inputs, *, progress: bool | None = None) -> Rehearsal:
    """Each source in turn as the target."""
    from unskew.rehearsal import rehearse

    config = inputs.config
    return rehearse(
        _training_images(inputs.pool),
        inputs.bias,
        features=probe_features(inputs),
        target=inputs.target,
        max_unlike=config.solve.max_unlike,
        seed=config.engine.seed,
        progress=progress,
    )


def _training_images(pool: Pool) -> Pool:
    split = pool.frame["split"] if "split" in pool.frame.columns else None
    return pool.take((split == "train").to_numpy()) if split is not None and (split == "train").any() else pool


def probe_features(inputs: Inputs) -> list[str]:
    """Columns that the representations added, or without any the numbers of the table."""
    frame = inputs.pool.frame
    named = [each["name"] if isinstance(each, dict) else each.rpartition(":")[2] for each in inputs.config.represent.features]
    numbers = [name for name in inputs.pool.attributes if frame[name].dtype.kind in "fiu" and not frame[name].isna().any()]
    found = [name for name in numbers if not named or any(name == each or name.startswith(f"{each}_") for each in named)]
    if not found:
        raise ConfigError(
            'a probe learns from numbers, and the images have none: name representations, such as represent.features = ["embedding"].'
        )
    return found
