"""TensorBoard's view of a training, a function of its history.

A resumed run therefore neither repeats nor lacks an epoch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unskew.errors import missing_extra


class TrainingLogs:
    """Writes one point per epoch and measure under ``folder``.

    What an earlier run wrote there is written again from its history.
    """

    def __init__(self, folder: Path | None, history: Sequence[dict[str, float]]) -> None:
        self._writer: Any = None
        if folder is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing_extra(
                "torch", "writing logs for TensorBoard (logs=False: none)", error
            ) from None
        shutil.rmtree(folder, ignore_errors=True)
        self._writer = SummaryWriter(str(folder))
        ended = time.time() - sum(row["seconds"] for row in history)
        for row in history:
            ended += row["seconds"]
            self.add(row, ended)

    def add(self, row: dict[str, float], ended: float | None = None) -> None:
        """Add one epoch; names become groups: ``validation/accuracy``."""
        if self._writer is None:
            return
        for name, value in row.items():
            if name not in ("epoch", "seconds"):
                self._writer.add_scalar(_grouped(name), value, int(row["epoch"]), walltime=ended)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _grouped(name: str) -> str:
    for measure in ("accuracy_unweighted", "accuracy", "loss"):
        if name.endswith(f"_{measure}"):
            return f"{name.removesuffix(f'_{measure}')}/{measure}"
    return f"train/{name}"
