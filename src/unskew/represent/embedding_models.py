"""The models that an embedding may name: a factory, a TorchScript or ONNX file, or the default.

A pickled checkpoint, which could run anything while it is read, is refused.
"""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, did_you_mean, wrong_option
from unskew.files.user_code import import_reference
from unskew.represent import efficientnet
from unskew.represent.networks import (
    Network,
    OnnxNetwork,
    RunsOn,
    TorchNetwork,
    import_torch,
    torch_device,
)

_ONNX = (".onnx",)
_TORCHSCRIPT = (".pt", ".pth", ".ts", ".torchscript")
# The mean and deviation of ImageNet: what most networks for images were trained with.
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class Model(ABC):
    """A network by name: its fingerprint, and how it is loaded.

    ``mean`` and ``std`` (RGB, from 0 to 1) are what it expects.
    """

    mean: tuple[float, float, float] = _MEAN
    std: tuple[float, float, float] = _STD

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash everything that the embeddings depend on."""

    @abstractmethod
    def load(self, size: int, runs_on: RunsOn) -> Network:
        """Load the network for images of size × size pixels."""


def find_model(name: str | None, blocks: Sequence[int] = ()) -> Model:
    """Find the model of that name (None: EfficientNet-lite0, with the means of ``blocks``).

    Nothing heavy is loaded yet.
    """
    if name is None or name == efficientnet.NAME:
        return EfficientNetLite(blocks)
    if blocks:
        raise ConfigError(
            f"blocks are those of {efficientnet.NAME}, the default model; the blocks of {name!r} "
            "are not known. Leave blocks out, and let the model itself return the layers that you "
            "want, side by side.",
            option="blocks",
            value=list(blocks),
        )
    suffix = Path(name).suffix.lower()
    if suffix in _ONNX:
        return OnnxFile(name)
    if suffix in _TORCHSCRIPT:
        return TorchScriptFile(name)
    module, colon, factory = name.partition(":")
    if colon and all(part.isidentifier() for part in (*module.split("."), factory)):
        return Factory(name)
    raise wrong_option(
        "model is module:factory, an ONNX file (.onnx), a TorchScript file "
        f"({', '.join(_TORCHSCRIPT)}) or {efficientnet.NAME!r}, the default",
        hint=did_you_mean(name, [efficientnet.NAME]),
        model=name,
    )


class EfficientNetLite(Model):
    """The network of the extra `embed`."""

    mean = efficientnet.MEAN
    std = efficientnet.STD

    def __init__(self, blocks: Sequence[int] = ()) -> None:
        super().__init__(efficientnet.NAME)
        self.blocks = tuple(blocks)

    def fingerprint(self) -> str:
        return hash_files([efficientnet.weights_file()])

    def load(self, size: int, runs_on: RunsOn) -> Network:
        return efficientnet.load_network(size, runs_on, self.blocks)


class OnnxFile(Model):
    """A file that onnxruntime reads; it is hashed without being loaded."""

    def fingerprint(self) -> str:
        path = _existing(self.name)
        # Large graphs keep their weights in a second file.
        weights = (path.with_name(path.name + end) for end in (".data", "_data"))
        return hash_files([path, *(file for file in weights if file.is_file())])

    def load(self, size: int, runs_on: RunsOn) -> Network:
        return OnnxNetwork(self.name, str(_existing(self.name)), runs_on)


class TorchScriptFile(Model):
    """A file that ``torch.jit.load`` reads; it is hashed without being loaded."""

    def fingerprint(self) -> str:
        return hash_files([_existing(self.name)])

    def load(self, size: int, runs_on: RunsOn) -> Network:
        torch = import_torch(f"the model {self.name!r}")
        try:
            with warnings.catch_warnings():
                # torch prefers another format; files in this one are what people have, and it still
                # reads them.
                warnings.filterwarnings(
                    "ignore",
                    message=r"`torch\.jit\.load` is deprecated",
                    category=DeprecationWarning,
                )
                module = torch.jit.load(
                    str(_existing(self.name)), map_location=torch_device(runs_on)
                )
        except RuntimeError as error:
            raise ConfigError(
                f"{self.name} is not a TorchScript file. A checkpoint (torch.save of a module, or "
                "of its state_dict) is not loaded: it lacks the network, and reading it may run "
                "code. Save torch.jit.script(module), export ONNX, or name module:factory.",
                option="model",
                path=self.name,
            ) from error
        return TorchNetwork(self.name, module, runs_on)


class Factory(Model):
    """``package.module:factory``: called once, without arguments, it returns a torch.nn.Module."""

    @cached_property
    def module(self) -> Any:
        """The module that the factory returns."""
        torch = import_torch(f"the model {self.name!r}")
        try:
            made = import_reference(self.name)()
        except ConfigError:
            raise
        except Exception as error:  # the user's code may raise anything
            raise ConfigError(
                f"the model {self.name!r} cannot be made: {type(error).__name__}: {error}. It is "
                "called without arguments.",
                option="model",
                value=self.name,
            ) from error
        if not isinstance(made, torch.nn.Module):
            raise ConfigError(
                f"{self.name!r}, called without arguments, must return a torch.nn.Module; it "
                f"returned {type(made).__name__}.",
                option="model",
                value=self.name,
            )
        return made

    def fingerprint(self) -> str:
        """Hash the parameters and buffers, the printed architecture, and the factory's file."""
        torch = import_torch(f"the model {self.name!r}")
        total = hashlib.sha256(repr(self.module).encode())
        for name, value in sorted(self.module.state_dict().items()):
            if not isinstance(value, torch.Tensor):
                total.update(f"{name} {value!r}\n".encode())
                continue
            flat = value.detach().cpu().contiguous().flatten()
            total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            total.update(flat.view(torch.uint8).numpy().tobytes())
        source = getattr(import_module(self.name.partition(":")[0]), "__file__", None)
        if source and Path(source).is_file():
            total.update(Path(source).read_bytes())
        return total.hexdigest()

    def load(self, size: int, runs_on: RunsOn) -> Network:
        return TorchNetwork(self.name, self.module, runs_on)


def hash_files(paths: Iterable[Path]) -> str:
    """Hash the files, one after the other, by SHA-256."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _existing(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"there is no file {name!r}, which was named as the model of the embedding.",
            option="model",
            path=name,
        )
    return path
