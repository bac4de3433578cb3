"""Running a neural network, by torch or onnxruntime: one row of numbers for each image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, missing_extra, wrong_option

Floats32 = npt.NDArray[np.float32]
DEVICES = ("cpu", "cuda")
_ONNX_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


@dataclass(frozen=True)
class RunsOn:
    """Where a network runs: on ``jobs`` threads or on the graphics card."""

    device: str = "cpu"
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise wrong_option(
                f"device is {' or '.join(map(repr, DEVICES))}",
                device=self.device,
                allowed=list(DEVICES),
            )


class Network(ABC):
    """(b, 3, h, w) float32 -> (b, d) float32. ``name`` is what the user called it."""

    name: str

    def embed(self, images: Floats32) -> Floats32:
        """Compute one finite row for each image.

        A map of features, (b, d, y, x), is averaged over its positions.
        """
        try:
            value = self._run(np.ascontiguousarray(images, dtype=np.float32))
        except (ConfigError, DataError):
            raise
        except Exception as error:  # the user's network may raise anything
            raise DataError(
                f"{self.name} failed on images of the shape {images.shape}: "
                f"{type(error).__name__}: {error}",
                value=list(images.shape),
            ) from error
        if value.ndim == 4:
            value = value.mean(axis=(2, 3))
        if value.ndim != 2 or len(value) != len(images):
            raise DataError(
                f"{self.name} must give one row of numbers for each image, (b, d), or a map of "
                f"them, (b, d, y, x); for {len(images)} images it gave the shape {value.shape}. "
                "End it with a pooling or a flattening layer.",
                value=list(value.shape),
            )
        row_bd = np.asarray(value, dtype=np.float32)
        bad = int((~np.isfinite(row_bd).all(axis=1)).sum())
        if bad:
            raise DataError(
                f"{self.name} gave NaN or infinity for {bad} of {len(images)} images. Likely "
                "causes: another mean and std than it was trained with, half precision that "
                "overflows, or a training that diverged.",
                count=bad,
            )
        return row_bd

    @abstractmethod
    def _run(self, images: Floats32) -> npt.NDArray[Any]:
        """Return the network's output as an array."""


class TorchNetwork(Network):
    """A torch or TorchScript module, without dropout, with its training statistics (``eval``)."""

    def __init__(self, name: str, module: Any, runs_on: RunsOn) -> None:
        self.name, self.runs_on = name, runs_on
        self.module = module.eval().to(torch_device(runs_on))

    def _run(self, images: Floats32) -> npt.NDArray[Any]:
        import torch

        with torch.inference_mode(), _torch_threads(self.runs_on.jobs):
            value = self.module(torch.from_numpy(images).to(self.runs_on.device))
        if not isinstance(value, torch.Tensor):
            raise DataError(
                f"{self.name} must return one tensor, (b, d); it returned {type(value).__name__}. "
                "Wrap it in a module that picks the tensor, and name that as module:factory.",
                value=type(value).__name__,
            )
        array: npt.NDArray[Any] = value.float().cpu().numpy()
        return array


class OnnxNetwork(Network):
    """An ONNX graph: the path of a file, or its bytes."""

    def __init__(self, name: str, graph: str | bytes, runs_on: RunsOn) -> None:
        self.name = name
        self.session = _start_session(name, graph, runs_on)
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if (
            len(inputs) != 1
            or len(outputs) != 1
            or inputs[0].type not in _ONNX_TYPES
            or not _takes_images(inputs[0].shape)
        ):
            raise ConfigError(
                f"{name} must take one input of numbers, (b, 3, h, w), and give one output, (b, "
                "d); it takes "
                f"{', '.join(f'{item.name} {item.shape} {item.type}' for item in inputs)} and "
                f"gives {', '.join(f'{item.name} {item.shape}' for item in outputs)}. Export it "
                "again with one of each, channels first.",
                option="model",
                value=name,
            )
        self.input = inputs[0].name
        self.dtype = _ONNX_TYPES[inputs[0].type]
        # Lengths that the export left open are names or None; a graph exported for one image takes
        # one at a time.
        self.batch, _, *self.size = (
            length if isinstance(length, int) else None for length in inputs[0].shape
        )

    def _run(self, images: Floats32) -> npt.NDArray[Any]:
        for fixed, length in zip(self.size, images.shape[2:], strict=True):
            if fixed is not None and fixed != length:
                raise ConfigError(
                    f"{self.name} takes images of {self.size[0]}×{self.size[1]} pixels only: set "
                    f"size = {fixed}.",
                    option="size",
                    value=length,
                    allowed=fixed,
                )
        step = self.batch or len(images)
        return np.concatenate(
            [
                self._run_part(images[start : start + step], step)
                for start in range(0, len(images), step)
            ]
        )

    def _run_part(self, images: Floats32, step: int) -> npt.NDArray[Any]:
        missing = step - len(images)
        filled = (
            np.concatenate([images, np.repeat(images[:1], missing, axis=0)]) if missing else images
        )
        value: npt.NDArray[Any] = self.session.run(
            None, {self.input: filled.astype(self.dtype, copy=False)}
        )[0]
        return value[: len(images)] if missing else value


def import_torch(wish: str) -> Any:
    """Import torch, or raise an error with the command that installs it."""
    try:
        import torch
    except ImportError as error:
        raise missing_extra("embed", wish, error) from error
    return torch


def torch_device(runs_on: RunsOn) -> str:
    """Return the device's name, or raise an error where torch cannot use it."""
    if runs_on.device == "cuda" and not import_torch("device = 'cuda'").cuda.is_available():
        raise ConfigError(
            "device = 'cuda', but torch finds no graphics card here (torch.cuda.is_available() is "
            "false); use 'cpu'.",
            option="device",
            value="cuda",
        )
    return runs_on.device


def _start_session(name: str, graph: str | bytes, runs_on: RunsOn) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra("embed", f"the model {name!r}", error) from error
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}[runs_on.device]
    if provider not in onnxruntime.get_available_providers():
        raise ConfigError(
            f"device = {runs_on.device!r}, but the onnxruntime installed here cannot use it (it "
            f"has no {provider}).",
            option="device",
            value=runs_on.device,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = runs_on.jobs
    options.inter_op_num_threads = 1
    # Threads that wait must not spin: the cores are needed to decode the next images.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Errors only: its warnings concern the author of the graph.
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(graph, options, providers=[provider])
    except Exception as error:  # its exceptions share no base but this
        raise ConfigError(
            f"onnxruntime cannot load {name}: {str(error).strip()}", option="model", value=name
        ) from error


def _takes_images(shape: list[Any]) -> bool:
    return len(shape) == 4 and (shape[1] == 3 or not isinstance(shape[1], int))


@contextmanager
def _torch_threads(jobs: int) -> Iterator[None]:
    """Set torch's number of threads, which is global, for one call."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(jobs)
    try:
        yield
    finally:
        torch.set_num_threads(before)
