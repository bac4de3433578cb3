"""`embedding`: features of a neural network, reduced to a few principal components of all images.

The features of each image are remembered; the components are computed for the images that are
represented together.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError, wrong_option
from unskew.represent.base import Needs, Pixels, Representation, column_names
from unskew.represent.efficientnet import N_BLOCKS
from unskew.represent.embedding_models import Model, find_model
from unskew.represent.networks import Floats32, Network, RunsOn
from unskew.represent.projection import Projection, fit_projection

RESIZE_RULES = ("crop", "stretch", "pad")
# Rows that the principal components read at a time: 42 MB of float64 for 1280 features.
_BLOCK = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Embedding(Representation):
    """Principal components of the features of a neural network, by falling variance.

    The columns are ``embedding_0``, ``embedding_1``, …

    Parameters
    ----------
    model : None (EfficientNet-lite0, of the extra `embed`); ``module:factory``, which returns a
        torch.nn.Module when called without arguments; or a TorchScript (.pt, .pth, .ts,
        .torchscript) or ONNX (.onnx) file. It takes (b, 3, size, size) and gives (b, d).
    size : side of the square images that it takes, in pixels.
    resize : "crop" (the largest square in the middle), "stretch" (the whole image, its aspect ratio
        lost) or "pad" (the whole image, with margins in the mean colour).
    mean, std : of the pixels from 0 to 1, for red, green and blue: (pixel − mean)/std goes in.
        None: what EfficientNet-lite0 was trained with; ImageNet's for every other model.
    batch : images that go through the network at a time.
    components : number of principal components; 0: none, all features as they are.
    whiten : divide each by its standard deviation.
    device : "cpu", or "cuda" for the graphics card.
    blocks : blocks of EfficientNet-lite0, 0 … 15, whose outputs, averaged over positions, come
        before the features of its last layer: early ones see colours and edges, late ones objects.
        For small images (4, 7, 10, 12, 14, 15) tells more than the last layer alone.
    """

    name: ClassVar[str] = "embedding"
    needs: ClassVar[Needs] = "pixels"
    one_at_a_time: ClassVar[bool] = True

    model: str | None = None
    size: int = 224
    resize: str = "crop"
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    batch: int = 16
    components: int = 8
    whiten: bool = False
    device: str = "cpu"
    blocks: Sequence[int] = ()

    def __post_init__(self) -> None:
        for setting, least in (("size", 1), ("batch", 1), ("components", 0)):
            value = getattr(self, setting)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(
                    f"{setting} of an embedding is a whole number, {least} or more; got {value!r}.",
                    option=setting,
                    value=value,
                )
        if self.resize not in RESIZE_RULES:
            known = " or ".join(map(repr, RESIZE_RULES))
            raise wrong_option(
                f"resize of an embedding is {known}", resize=self.resize, allowed=list(RESIZE_RULES)
            )
        for setting in ("mean", "std"):
            object.__setattr__(self, setting, _checked_colour(setting, getattr(self, setting)))
        object.__setattr__(self, "blocks", _checked_blocks(self.blocks))
        # Looked up now, so that an unknown name is an error here, and threads do not race for it.
        _ = self._model, self._runs_on

    def placed(self, jobs: int) -> Embedding:
        """Return the same on so many threads."""
        placed = copy.copy(self)
        placed.__dict__.pop("_network", None)
        placed.__dict__["_runs_on"] = RunsOn(self.device, jobs)
        return placed

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return self.batch

    @property
    def enough_side(self) -> int:
        return ENOUGH * self.size

    @property
    def columns(self) -> tuple[str, ...]:
        """``embedding_0`` …; without components their number is the network's, not known yet."""
        return column_names(self.name, [str(j) for j in range(self.components)])

    def prepare(self, pixels: Pixels) -> Pixels:
        """Resize (h, w, 3) to (size, size, 3), by the rule ``resize``."""
        return fit_to_square(pixels, self.size, self.resize, self._colours[0])

    def compute(self, batch: Any) -> Floats32:
        """Run the network, ``batch`` images at a time: (m, size, size, 3) -> (m, d) float32."""
        mean, std = self._colours
        parts = (batch[start : start + self.batch] for start in range(0, len(batch), self.batch))
        return np.concatenate([embed_batch(self._network, part, mean, std) for part in parts])

    def finish(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reduce (n, d) to (n, components), the principal components of all rows.

        Their share of the variance is logged.
        """
        if self.components == 0:
            return values
        starts = range(0, len(values), _BLOCK)
        fitted = fit_projection(
            (values[start : start + _BLOCK] for start in starts),
            self.components,
            whiten=self.whiten,
        )
        _log.info("%s", describe_projection(fitted))
        return np.concatenate([fitted.project(values[start : start + _BLOCK]) for start in starts])

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, with the network's fingerprint instead of its name.

        What changes only the speed or `finish` is left out.
        """
        mean, std = self._colours
        # Without blocks the key is what it was before there were any.
        blocks = {"blocks": list(self.blocks)} if self.blocks else {}
        return blocks | {
            "name": self.name,
            "version": self.version,
            "network": self._model.fingerprint(),
            "size": self.size,
            "resize": self.resize,
            "mean": list(mean),
            "std": list(std),
        }

    @cached_property
    def _model(self) -> Model:
        return find_model(self.model, self.blocks)

    @cached_property
    def _runs_on(self) -> RunsOn:
        return RunsOn(self.device, available_jobs())

    @cached_property
    def _network(self) -> Network:
        return self._model.load(self.size, self._runs_on)

    @property
    def _colours(self) -> tuple[Sequence[float], Sequence[float]]:
        return (
            self._model.mean if self.mean is None else self.mean,
            self._model.std if self.std is None else self.std,
        )


def embed_batch(
    network: Network, images: Any, mean: Sequence[float], std: Sequence[float]
) -> Floats32:
    """Run (pixel/255 − mean)/std through the network: images (b, h, w, 3) uint8 -> (b, d)."""
    value_b3hw = np.asarray(images).transpose(0, 3, 1, 2).astype(np.float32, order="C")
    value_b3hw /= 255
    value_b3hw -= np.asarray(mean, dtype=np.float32)[:, None, None]
    value_b3hw /= np.asarray(std, dtype=np.float32)[:, None, None]
    return network.embed(value_b3hw)


# A copy of so many times the side of the square is as good as the whole image.
ENOUGH = 4


def fit_to_square(
    pixels: Pixels, size: int, rule: str = "crop", margin: Sequence[float] = (0.5, 0.5, 0.5)
) -> Pixels:
    """Resize (h, w, 3) to (size, size, 3) by bicubic interpolation, smoothed where it shrinks.

    Parameters
    ----------
    rule : "crop", "stretch" or "pad", see `Embedding`.
    margin : colour around a padded image, red, green and blue from 0 to 1.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if rule == "pad":
        longer = max(width, height)
        inner = (max(1, round(size * width / longer)), max(1, round(size * height / longer)))
        square = Image.new(
            "RGB", (size, size), tuple(round(255 * min(max(part, 0.0), 1.0)) for part in margin)
        )
        square.paste(_resized(image, inner), ((size - inner[0]) // 2, (size - inner[1]) // 2))
        return np.asarray(square)
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side) if rule == "crop" else None
    return np.asarray(_resized(image, (size, size), box))


def describe_projection(fitted: Projection) -> str:
    """Write a sentence on how much of the variance the components show."""
    shares = ", ".join(f"{share:.1%}" for share in fitted.explained_c)
    return (
        f"embedding: {len(fitted.variance_c)} principal components of {fitted.mean_d.size} "
        f"features of {fitted.n} images show {fitted.explained_c.sum():.1%} of their variance "
        f"({shares})."
    )


def _resized(
    image: Any, size: tuple[int, int], box: tuple[float, float, float, float] | None = None
) -> Any:
    from PIL.Image import Resampling

    # Large images are first halved while three times the size is left: Pillow calls the result
    # indistinguishable.
    return image.resize(size, Resampling.BICUBIC, box=box, reducing_gap=3.0)


def _checked_blocks(value: Any) -> tuple[int, ...]:
    """Return the blocks in the order of the network, if each occurs once."""
    whole = isinstance(value, Sequence) and all(
        isinstance(number, int) and not isinstance(number, bool) for number in value
    )
    if (
        not whole
        or len(set(value)) != len(value)
        or not all(0 <= number < N_BLOCKS for number in value)
    ):
        raise wrong_option(
            f"blocks of an embedding are different whole numbers from 0 to {N_BLOCKS - 1}",
            blocks=value,
        )
    return tuple(sorted(value))


def _checked_colour(setting: str, value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    numbers = (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(part, int | float) for part in value)
    )
    if (
        not numbers
        or len(value) != 3
        or not np.isfinite(value).all()
        or (setting == "std" and min(value) <= 0)
    ):
        above = ", above 0" if setting == "std" else ""
        raise ConfigError(
            f"{setting} of an embedding is three numbers{above}, for red, green and blue from 0 to "
            f"1; got {value!r}.",
            option=setting,
            value=value,
        )
    return tuple(float(part) for part in value)
