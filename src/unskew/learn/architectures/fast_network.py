"""A small network that learns much in few passes: minutes on a CPU.

Its blocks are those of Jordan's airbench (2024), narrower.

A 2×2 convolution that whitens, then three blocks of 32, 128 and 128 channels: convolution,
max-pooling, batch normalisation, GELU, convolution, batch normalisation, GELU; the largest value
over positions, and a linear layer whose logits are divided by 9, so that early steps are gentle.
Convolutions of the blocks begin as identities as far as they have as many channels; batch
normalisation shifts and does not scale.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTHS = (32, 128, 128)
# Both signs of the principal directions of 2×2 patches in three colours.
_FIRST = 24
# Added to variances of normalised pixels: what varies less is noise.
_LEAST_VARIANCE = 5e-4
_LOGITS_DIVIDED_BY = 9.0
# Three poolings, after a convolution that takes one pixel away.
SMALLEST_SIDE = 9


class FastNetwork(nn.Module):
    """(b, 3, h, w) → (b, M) logits, h and w at least 9."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, _FIRST, 2), nn.GELU())
        self.first[0].weight.requires_grad_(False)
        self.blocks = nn.Sequential(
            *(
                _block(n_in, n_out)
                for n_in, n_out in zip((_FIRST, *WIDTHS[:-1]), WIDTHS, strict=True)
            )
        )
        self.last = nn.Linear(WIDTHS[-1], n_classes, bias=False)

    @torch.no_grad()
    def look_at(self, x: Tensor) -> None:
        """Set the first convolution to ±v_j/√(λ_j + ε), from the patches of (b, 3, h, w) images.

        λ_j and v_j are the eigenvalues and eigenvectors of their covariance. Its outputs are
        uncorrelated and of equal size, which is what lets the blocks learn from the first steps on;
        it is not trained.
        """
        convolution = self.first[0]
        assert isinstance(convolution, nn.Conv2d)
        patch = (
            x.double()
            .unfold(2, 2, 1)
            .unfold(3, 2, 1)
            .permute(0, 2, 3, 1, 4, 5)
            .reshape(-1, _FIRST // 2)
        )
        variance, direction = torch.linalg.eigh(torch.cov(patch.T))
        # The sign of an eigenvector is the library's choice: the first of its largest entries is
        # positive.
        largest = direction.gather(0, direction.abs().argmax(dim=0, keepdim=True))
        row = (direction * largest.sign() / (variance + _LEAST_VARIANCE).sqrt()).T.reshape(
            -1, *convolution.weight.shape[1:]
        )
        convolution.weight.copy_(torch.cat([row, -row]))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.blocks(self.first(x)).amax(dim=(2, 3))) / _LOGITS_DIVIDED_BY
        return logits


def _block(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(
        _convolution(n_in, n_out),
        nn.MaxPool2d(2),
        _shift(n_out),
        nn.GELU(),
        _convolution(n_out, n_out),
        _shift(n_out),
        nn.GELU(),
    )


def _convolution(n_in: int, n_out: int) -> nn.Conv2d:
    made = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(made.weight[:n_in])
    return made


def _shift(width: int) -> nn.BatchNorm2d:
    made = nn.BatchNorm2d(width)
    made.weight.requires_grad_(False)
    return made
