"""What happens to a network after its epochs: which way it was trained in, and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.learn.calibration import choose_calibration
from unskew.learn.recipes import after_training
from unskew.learn.training_data import DeviceRows, rows_at_once
from unskew.learn.ways import LEAST_ESS, WayChoice, way_of
from unskew.records import Floats
from unskew.records.clustered_mean import effective_size

if TYPE_CHECKING:
    from unskew.learn.training_loop import TrainingRun


def finish_network(
    network: Any, kept: Mapping[str, Any], run: TrainingRun, judged: Mapping[str, DeviceRows]
) -> dict[str, Any]:
    """Finish a trained network, and return what its file says of that.

    ``kept`` are the tensors of the epoch that is kept; ``network`` gets them.
    """
    network.load_state_dict(kept)
    way, calibration = way_of(run.tau), after_training(run.recipe)
    choice = WayChoice(way, None, f"{way}: no other way was tried.")
    if run.recipe is None and run.settings.way == "auto":
        choice, calibration = _calibrate(network, judged.get("validation"), run.settings.seed)
    return {"network": dict(kept), "choice": choice.to_dict(), "calibration": calibration}


def _calibrate(
    network: Any, validation: DeviceRows | None, seed: int
) -> tuple[WayChoice, dict[str, Any] | None]:
    """Calibrate on the validation images, if they are enough."""
    start = "half, where networks start"
    if validation is None:
        reason = f"{start}; there are no validation images to calibrate its probabilities on."
        return WayChoice("half", None, reason), None
    data = validation.data
    ess = effective_size(np.bincount(data.unit, weights=data.weight))
    if ess < LEAST_ESS:
        reason = (
            f"{start}; the validation images are worth {ess:.0f} equally weighted ones, and "
            f"calibrating its probabilities needs {LEAST_ESS:.0f}."
        )
        return WayChoice("half", None, reason), None
    calibration, gain = choose_calibration(
        logits_of(network, validation), data.label, data.weight, data.unit, seed=seed
    )
    words = ("with", "gain") if calibration.bias.any() else ("without", "would gain")
    reason = (
        f"{start}; its probabilities are calibrated on the validation images, {words[0]} a bias "
        f"for every class, which {words[1]} {100 * gain.value:+.1f} ± {100 * gain.stderr:.1f} "
        "points."
    )
    return WayChoice("half", None, reason, ess=ess), calibration.to_dict()


def logits_of(network: Any, rows: DeviceRows) -> Floats:
    """Compute the (n, M) logits of all rows."""
    import torch

    network.eval()
    size = rows_at_once(rows.data.X.shape[1:])
    with torch.inference_mode():
        parts = [
            network(rows.take(np.arange(start, min(start + size, len(rows))))[0]).double().cpu()
            for start in range(0, len(rows), size)
        ]
    return np.concatenate([part.numpy() for part in parts])
