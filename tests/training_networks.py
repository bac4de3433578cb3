"""Networks that the tests of training name as ``training_networks:…``."""

from __future__ import annotations

import os
import signal

import torch
from torch import nn


def linear(n_classes: int) -> nn.Module:
    """Of small images or features, without batch normalisation: what it learns has closed forms."""
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n_classes))


def convolutional(num_classes: int) -> nn.Module:
    """Everything that keeps a state of its own: batch normalisation, dropout."""
    return nn.Sequential(
        *(
            nn.Conv2d(3, 4, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        nn.Linear(4, num_classes),
    )


class _TwoLayers(nn.Module):
    """Its logits are divided, and its last layer has no bias."""

    def __init__(self, n_classes: int, bent: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, n_classes, bias=False)
        self.bent = bent

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(torch.relu(self.first(x.flatten(1)))) / 4
        return torch.tanh(logits) if self.bent else logits


def two_layers(n_classes: int) -> nn.Module:
    return _TwoLayers(n_classes, bent=False)


def bent_logits(n_classes: int) -> nn.Module:
    """Without a last linear layer: a curve follows it."""
    return _TwoLayers(n_classes, bent=True)


def normalised(n_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, n_classes)
    )


class Killing(nn.Module):
    """Kills its own process, as kill -9 does, in the training step that UNSKEW_TEST_KILL names."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.network = convolutional(n_classes)
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            if str(self.steps) == os.environ.get("UNSKEW_TEST_KILL"):
                os.kill(os.getpid(), signal.SIGKILL)
            self.steps += 1
        return self.network(x)


def always_three() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))


def not_a_module(n_classes: int) -> str:
    return "a network"


def too_small(n_classes: int) -> nn.Module:
    return nn.Conv2d(3, n_classes, 99)


def needs_two(n_classes: int, width: int) -> nn.Module:
    return linear(n_classes + width)


def frozen(n_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(108, n_classes)).requires_grad_(False)


class _Changed(nn.Module):
    """A linear network with another output, or with none while it is trained."""

    def __init__(self, n_classes: int, whole: bool) -> None:
        super().__init__()
        self.network, self.whole = nn.Sequential(nn.Flatten(), nn.Linear(108, n_classes)), whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and not self.whole:
            raise ValueError("only judging")
        return self.network(x).long() if self.whole else self.network(x)


def fails_in_training(n_classes: int) -> nn.Module:
    return _Changed(n_classes, whole=False)


def whole_numbers(n_classes: int) -> nn.Module:
    return _Changed(n_classes, whole=True)


NUMBER = 7


def pretrained_features() -> nn.Module:
    """A network without a last layer, with settings of its own as timm's have them."""
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        network = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
    network.pretrained_cfg = {
        "mean": (0.1, 0.2, 0.3),
        "std": (0.5, 0.5, 0.5),
        "input_size": (3, 6, 6),
    }
    return network


def pretrained_maps() -> nn.Module:
    """The same that gives maps, and says nothing about its inputs."""
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())


def pretrained_linear(n_classes: int) -> nn.Module:
    """Two linear layers, of which the last is trained first."""
    return nn.Sequential(nn.Flatten(), nn.Linear(108, 4), nn.Tanh(), nn.Linear(4, n_classes))
