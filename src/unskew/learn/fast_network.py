"""A small network that learns much in few passes: minutes on a CPU. After Jordan's airbench (2024), whose blocks it has, narrower.

A 2×2 convolution, then three blocks of 32, 128 and 128 channels: convolution, max-pooling, batch normalisation, GELU, convolution, batch
normalisation, GELU; the largest value over positions, and a linear layer whose logits are divided by 9, so that early steps are gentle.
"""

from __future__ import annotations

from torch import Tensor, nn

WIDTHS = (32, 128, 128)
_FIRST = 24
_LOGITS_DIVIDED_BY = 9.0
# Three poolings, after a convolution that takes one pixel away.
SMALLEST_SIDE = 9


class FastNetwork(nn.Module):
    """(b, 3, h, w) → (b, M) logits, h and w at least 9."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, _FIRST, 2), nn.GELU())
        self.blocks = nn.Sequential(*(_block(n_in, n_out) for n_in, n_out in zip((_FIRST, *WIDTHS[:-1]), WIDTHS, strict=True)))
        self.last = nn.Linear(WIDTHS[-1], n_classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.blocks(self.first(x)).amax(dim=(2, 3))) / _LOGITS_DIVIDED_BY
        return logits


def _block(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(n_out), nn.GELU()),
        *(nn.Conv2d(n_out, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.GELU()),
    )
