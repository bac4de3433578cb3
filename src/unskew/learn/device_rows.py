"""Batches of rows on the device: from its memory where they fit, else read on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.learn.training_data import TrainingData
from unskew.records import Ints

if TYPE_CHECKING:
    import torch

# Of the free memory of a graphics card that the images may take; the rest is for the network.
_SHARE_OF_MEMORY = 0.4


class DeviceRows:
    """The rows of some data, by index, as tensors on ``device``.

    On a CPU every batch is gathered from the array or memmap itself.
    """

    def __init__(self, data: TrainingData, device: torch.device) -> None:
        import torch

        self.data, self.device = data, device
        self._label = torch.as_tensor(data.label, dtype=torch.int64).to(device)
        self._weight = torch.as_tensor(data.weight, dtype=torch.float64).to(device)
        self._held: torch.Tensor | None = None
        if (
            device.type == "cuda"
            and data.X.nbytes < _SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]
        ):
            self._held = torch.as_tensor(np.array(data.X[:])).to(device)

    def __len__(self) -> int:
        return len(self.data)

    def take(self, rows: Ints) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of X, and their labels."""
        import torch

        where = torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)
        if self._held is not None:
            return self._held[where], self._label[where]
        return torch.from_numpy(np.array(self.data.X[rows])).to(self.device), self._label[where]

    def weight(self, rows: Ints) -> torch.Tensor:
        """Return the weights of these rows."""
        import torch

        return self._weight[torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)]
