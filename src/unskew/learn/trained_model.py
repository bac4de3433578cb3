"""A trained model: what it was trained by, how it went, and its scores of other images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError
from unskew.learn.training_data import row_blocks
from unskew.progress import show_progress
from unskew.records import Floats

if TYPE_CHECKING:
    from unskew.learn.train import TrainSettings


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model after training.

    Attributes
    ----------
    settings : what it was trained by.
    classes : the M classes as text, in the order of its scores.
    epoch : the epoch, counted from 0, whose weights it has: the one with the lowest weighted validation loss, or the last.
    history : one mapping for each epoch: ``epoch``, ``train_loss``, ``learning_rate`` (at its end), ``seconds``, and, of the validation
        images, ``validation_loss`` and ``validation_accuracy`` (weighted) and ``validation_accuracy_unweighted``; of watched images the
        same under their names.
    shape : of one row of X, (h, w, 3) or (d,).
    fingerprint : of the data it was trained on, by part (images, labels, weights, ids, classes, and those of validation).
    network : the torch module, on the CPU: (b, h, w, 3) uint8 or (b, d) float32 → (b, M) logits.
    """

    settings: TrainSettings
    classes: tuple[str, ...]
    epoch: int
    history: tuple[dict[str, float], ...] = field(repr=False)
    shape: tuple[int, ...]
    fingerprint: dict[str, str] = field(repr=False)
    network: Any = field(repr=False)

    def scores(self, X: npt.NDArray[Any], *, progress: bool | None = None) -> Floats:
        """(m, M) the probability of each class for each row of X; rows sum to 1."""
        import torch

        if X.shape[1:] != self.shape or X.dtype != (np.uint8 if len(self.shape) == 3 else np.float32):
            kind = "uint8" if len(self.shape) == 3 else "float32"
            raise DataError(f"the model was trained on rows of the shape {self.shape} of {kind}; got {X.shape[1:]} of {X.dtype}.")
        score_nm = np.empty((len(X), len(self.classes)))
        self.network.eval()
        with torch.inference_mode(), show_progress("images scored", len(X), progress) as advance:
            for rows in row_blocks(len(X)):
                logits = self.network(torch.from_numpy(np.array(X[rows])))
                score_nm[rows] = torch.softmax(logits.double(), dim=1).numpy()
                advance(len(score_nm[rows]))
        return score_nm
