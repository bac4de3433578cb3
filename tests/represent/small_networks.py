"""Networks of a few numbers for the tests of this folder: twice the mean colour, as a module, a
TorchScript file and an ONNX file.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unskew.represent.networks import RunsOn

ONE = RunsOn("cpu", 1)


FACTORIES = """
    import torch

    class Net(torch.nn.Module):
        calls = 0

        def __init__(self, factor=2.0):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(factor))
            self.dropout = torch.nn.Dropout(0.5)

        def forward(self, images):
            type(self).calls += 1
            return self.dropout(self.factor * images.mean((2, 3)))

    class Returns(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def forward(self, images):
            return self.value(images)

    def net(): return Net()
    def other(): return Net(3.0)
    def as_map(): return Returns(lambda x: x)
    def one_row(): return Returns(lambda x: x.mean((0, 2, 3)))
    def as_dict(): return Returns(lambda x: {"features": x})
    def not_finite(): return Returns(lambda x: x.mean((2, 3)).log())
    def failing(): return Returns(lambda x: x @ x.new_zeros(3, 5, 5))
    def half(): return Returns(lambda x: x.mean((2, 3)).half())
    def needs_argument(size): return Net(size)
    def gives_text(): return "resnet"
"""


def write_onnx(
    path: Path,
    *,
    batch: Any = "batch",
    side: Any = "side",
    dtype: str = "FLOAT",
    factor: float = 2.0,
    channels: Any = 3,
) -> Path:
    """factor × the mean colour."""
    onnx = pytest.importorskip("onnx", reason="writes ONNX files: pip install 'unskew[embed]'")
    from onnx import helper, numpy_helper

    kind = getattr(onnx.TensorProto, dtype)
    constant = numpy_helper.from_array(
        np.asarray(factor, dtype=helper.tensor_dtype_to_np_dtype(kind)), "factor"
    )
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "factor"], ["out"]),
    ]
    taken = helper.make_tensor_value_info("images", kind, [batch, channels, side, side])
    given = helper.make_tensor_value_info("out", kind, [batch, channels])
    graph = helper.make_graph(nodes, "mean", [taken], [given], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def write_torchscript(path: Path, factor: float = 2.0) -> Path:
    import torch

    class Mean(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return factor * images.mean((2, 3))

    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"`torch\.jit\.\w+` is deprecated", category=DeprecationWarning
        )
        torch.jit.trace(Mean(), torch.zeros(2, 3, 4, 4)).save(str(path))
    return path


def colour_images(n: int = 5, side: int = 6) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 3, side, side)).astype(np.float32)


def hide_packages(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if these packages were not installed."""
    real = builtins.__import__

    def imported(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] in packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", imported)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
