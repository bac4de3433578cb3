"""A pretrained network under a new last layer, and what its inputs are scaled by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# The mean and deviation of ImageNet, of pixels from 0 to 1: what most networks for images were
# trained with.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
# The side that most of them were trained with.
USUAL_SIDE = 224
# Of EfficientNet-lite0, what the last layer sees besides the 1280 features before the classifier:
# those are made for the thousand classes of ImageNet, and leave out what other classes need.
_BLOCKS = (4, 7, 10, 12, 14, 15)


class HeadedBackbone(nn.Module):
    """Features of a network, (b, d) or maps (b, d, y, x), under a linear layer: (b, M) logits.

    Maps are averaged over their positions.
    """

    def __init__(self, backbone: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(n_features, n_classes)
        # Every class starts with the same score: the first steps do not pull at the backbone at
        # random.
        nn.init.zeros_(self.head.bias)
        nn.init.normal_(self.head.weight, std=0.01)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(_pooled(self.backbone(images)))
        return logits


def add_head(network: nn.Module, shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Put a last layer on a network whose output is features; one with M outputs stays as it is.

    The output is tried with two images; a network that fails, or gives something else, stays as it
    is, too, and is refused where networks are checked.
    """
    h, w, channels = shape
    was_training = network.training
    try:
        with torch.no_grad():
            value = network.eval()(torch.zeros(2, channels, h, w))
    except Exception:  # the trial of the whole network names what is wrong
        return network
    finally:
        network.train(was_training)
    if not isinstance(value, Tensor) or value.ndim not in (2, 4) or len(value) != 2:
        return network
    n_features = value.shape[1]
    if n_features == n_classes and value.ndim == 2:
        return network
    return HeadedBackbone(network, n_features, n_classes)


def own_scale(network: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation (3,) of the pixels, from 0 to 1, that a network was trained with.

    They are those of its ``pretrained_cfg`` (networks of timm have one; an attribute of your own
    works as well), else ImageNet's.
    """
    known = own_settings(network)
    mean, std = known.get("mean", IMAGENET_MEAN), known.get("std", IMAGENET_STD)
    return tuple(float(part) for part in mean), tuple(float(part) for part in std)


def own_settings(network: nn.Module) -> Mapping[str, Any]:
    """Return ``pretrained_cfg`` of a network or of the one inside it; empty where there is none."""
    inner = network.backbone if isinstance(network, HeadedBackbone) else network
    known = getattr(inner, "pretrained_cfg", None)
    return known if isinstance(known, Mapping) else {}


def _pooled(value: Tensor) -> Tensor:
    return value.mean(dim=(2, 3)) if value.ndim == 4 else value


def load_packaged(size: int) -> nn.Module:
    """Load EfficientNet-lite0 with its weights: (b, 3, size, size) → (b, c + 1280).

    The means of c channels of several blocks come before its last features.
    """
    from unskew.represent import efficientnet

    network: nn.Module = efficientnet.load_torch(size, _BLOCKS)
    network.pretrained_cfg = {  # type: ignore[assignment]
        "mean": efficientnet.MEAN,
        "std": efficientnet.STD,
        "input_size": (3, USUAL_SIDE, USUAL_SIDE),
    }
    return network
