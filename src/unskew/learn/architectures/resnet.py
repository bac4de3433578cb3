"""The residual networks for small images of He et al. (2016), section 4.2.

He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition.

A 3×3 convolution, three stages of n blocks with 16, 32 and 64 channels at full, half and quarter
size, the mean over positions, one linear layer: 6n + 2 layers. Shortcuts have no parameters (option
A): where channels double, every second position is taken and the new channels are zero. Parameters
with 10 classes, as in their table 6: 0.27 M (20 layers), 0.46 M (32), 0.66 M (44), 0.85 M (56), 1.7
M (110).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

DEPTHS = (20, 32, 44, 56, 110)


class ResNet(nn.Module):
    """(b, 3, h, w) → (b, M) logits; ``depth`` = 6n + 2."""

    def __init__(self, depth: int, n_classes: int) -> None:
        super().__init__()
        n_blocks, rest = divmod(depth - 2, 6)
        if rest or n_blocks < 1:
            raise ValueError(
                "the depth of a residual network for small images is 6n + 2, n at least 1; got "
                f"{depth}"
            )
        self.first = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.stages = nn.Sequential(
            *(_Block(16, 16, 1) for _ in range(n_blocks)),
            *(
                _Block(16 if not number else 32, 32, 1 if number else 2)
                for number in range(n_blocks)
            ),
            *(
                _Block(32 if not number else 64, 64, 1 if number else 2)
                for number in range(n_blocks)
            ),
        )
        self.last = nn.Linear(64, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)  # their reference [13]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.stages(self.first(x)).mean(dim=(2, 3)))
        return logits


class _Block(nn.Module):
    """relu(x + two convolutions of x), the shortcut without parameters."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.new_channels = n_out - n_in
        self.residual = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        if self.new_channels:
            half = self.new_channels // 2
            shortcut = functional.pad(
                x[:, :, :: self.stride, :: self.stride],
                (0, 0, 0, 0, half, self.new_channels - half),
            )
        return torch.relu(shortcut + self.residual(x))
