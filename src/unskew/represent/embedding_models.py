"""What ``model`` of an embedding may name: ``module:factory``, a TorchScript file, an ONNX file, or
the network of the extra `embed`.

Files are loaded as what they are. A pickled checkpoint, which could run anything while it is read,
is refused.
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

from unskew.errors import ConfigError, did_you_mean
from unskew.represent import efficientnet
from unskew.represent.networks import (
    Network,
    OnnxNetwork,
    RunsOn,
    TorchNetwork,
    import_torch,
    torch_device,
)
from unskew.represent.user_functions import find_function

_ONNX = (".onnx",)
_TORCHSCRIPT = (".pt", ".pth", ".ts", ".torchscript")
# The mean and deviation of ImageNet: what most networks for images were trained with.
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class Model(ABC):
    """A network by name: a fingerprint, and how it is brought into action. ``mean`` and ``std``
    (RGB, of 1) are what it expects.
    """

    mean: tuple[float, float, float] = _MEAN
    std: tuple[float, float, float] = _STD

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of everything that the embeddings depend on."""

    @abstractmethod
    def load(self, size: int, place: RunsOn) -> Network:
        """The network, ready for images of size × size pixels."""


def find_model(name: str | None, blocks: Sequence[int] = ()) -> Model:
    """The model of that name (None: EfficientNet-lite0, with the means of ``blocks``); nothing
    heavy is loaded yet.
    """
    if name is None or name == efficientnet.NAME:
        return EfficientNetLite(blocks)
    if blocks:
        raise ConfigError(
            f"blocks are those of {efficientnet.NAME}, the default model; the blocks of {name!r} "
            "are not known. Leave blocks out, and let "
            "the model itself return what you want of its layers, side by side."
        )
    suffix = Path(name).suffix.lower()
    if suffix in _ONNX:
        return OnnxFile(name)
    if suffix in _TORCHSCRIPT:
        return TorchScriptFile(name)
    module, colon, factory = name.partition(":")
    if colon and all(part.isidentifier() for part in (*module.split("."), factory)):
        return Factory(name)
    raise ConfigError(
        "model is module:factory, an ONNX file (.onnx), a TorchScript file "
        f"({', '.join(_TORCHSCRIPT)}) or {efficientnet.NAME!r}, "
        f"the default; got {name!r}.{did_you_mean(name, [efficientnet.NAME])}"
    )


def is_model_file(name: object) -> bool:
    """Does the model's name mean a file, so that it is relative to the folder of a
    configuration?
    """
    return isinstance(name, str) and Path(name).suffix.lower() in _ONNX + _TORCHSCRIPT


class EfficientNetLite(Model):
    """The network of the extra `embed`."""

    mean = efficientnet.MEAN
    std = efficientnet.STD

    def __init__(self, blocks: Sequence[int] = ()) -> None:
        super().__init__(efficientnet.NAME)
        self.blocks = tuple(blocks)

    def fingerprint(self) -> str:
        return hash_files([efficientnet.weights_file()])

    def load(self, size: int, place: RunsOn) -> Network:
        return efficientnet.load_network(size, place, self.blocks)


class OnnxFile(Model):
    """A file that onnxruntime reads; it is hashed without being loaded."""

    def fingerprint(self) -> str:
        path = _existing(self.name)
        # Large graphs keep their weights in a file beside them.
        return hash_files(
            [
                path,
                *(
                    beside
                    for end in (".data", "_data")
                    if (beside := path.with_name(path.name + end)).is_file()
                ),
            ]
        )

    def load(self, size: int, place: RunsOn) -> Network:
        return OnnxNetwork(self.name, str(_existing(self.name)), place)


class TorchScriptFile(Model):
    """A file that ``torch.jit.load`` reads; it is hashed without being loaded."""

    def fingerprint(self) -> str:
        return hash_files([_existing(self.name)])

    def load(self, size: int, place: RunsOn) -> Network:
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
                module = torch.jit.load(str(_existing(self.name)), map_location=torch_device(place))
        except RuntimeError as error:
            raise ConfigError(
                f"{self.name} is not a TorchScript file. A checkpoint (torch.save of a module, or "
                "of its state_dict) is not loaded: it "
                "lacks the network, and reading it may run code. Save torch.jit.script(module), "
                "export ONNX, or name module:factory."
            ) from error
        return TorchNetwork(self.name, module, place)


class Factory(Model):
    """``package.module:factory``: called once, without arguments, it returns a torch.nn.Module."""

    @cached_property
    def module(self) -> Any:
        torch = import_torch(f"the model {self.name!r}")
        try:
            made = find_function(self.name)()
        except ConfigError:
            raise
        except (
            Exception
        ) as error:  # code of the user: whatever it raises is theirs to read, in words
            raise ConfigError(
                f"the model {self.name!r} cannot be made: {type(error).__name__}: {error}. It is "
                "called without arguments."
            ) from error
        if not isinstance(made, torch.nn.Module):
            raise ConfigError(
                f"{self.name!r}, called without arguments, must return a torch.nn.Module; it "
                f"returned {type(made).__name__}."
            )
        return made

    def fingerprint(self) -> str:
        """Of the parameters and buffers, the architecture as torch prints it, and the file of the
        factory (what `forward` does).
        """
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

    def load(self, size: int, place: RunsOn) -> Network:
        return TorchNetwork(self.name, self.module, place)


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 of the files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _existing(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"there is no file {name!r}, which was named as the model of the embedding."
        )
    return path
