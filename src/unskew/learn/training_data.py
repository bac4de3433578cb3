"""`TrainingData`: images or features, labels and weights, checked; their batches."""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, first_few
from unskew.learn.probe import SCALINGS, Scaling
from unskew.learn.weights_by_id import align_by_id
from unskew.records import Floats, Ints

if TYPE_CHECKING:
    import torch

    from unskew.learn.presets import TrainSettings

# Numbers in a block of rows that is looked at at once: a thousand images of 32 × 32 pixels, fewer
# of larger ones.
_BLOCK = 1000 * 32 * 32 * 3
# Of larger arrays only evenly spaced rows of this many bytes together enter the fingerprint:
# reading terabytes once more takes hours.
_FINGERPRINTED_BYTES = 1 << 30


@checked
@dataclass(frozen=True, eq=False)
class TrainingData:
    """Images or features with their labels and weights, row by row.

    Attributes
    ----------
    X : (n, h, w, 3) uint8 images: an array, a memmap, or anything with ``shape``, ``dtype``,
        ``ndim``, ``nbytes``, ``len`` and ``X[rows]``, whose rows are then read by batch; or (n, d)
        float32 features.
    label : (n,) code of each row's class, an index into ``classes``; or, of images with any number
        of labels, (n, M) 1 where an image has one, 0 where not, NaN where that is unknown.
    classes : the M classes, or labels, as text.
    weight : (n,) sample weights; not negative, not all zero. Their scale does not matter; rows of
        weight zero are removed.
    id : (n,) what each row is called.
    validation : the same of other images, with weights of their own: judged after every epoch.
    group : (n,) images of one group, and copies, stay on one side wherever some are held out; None:
        every image is on its own.
    judge_weight : (n,) weights of the target, by which the ridge of a probe is chosen; None: those
        it is trained with.
    """

    X: npt.NDArray[Any] = field(repr=False)
    label: npt.NDArray[Any] = field(repr=False)
    classes: tuple[str, ...]
    weight: Floats = field(repr=False)
    id: npt.NDArray[Any] = field(repr=False)
    validation: TrainingData | None = None
    group: npt.NDArray[Any] | None = field(repr=False, default=None)
    judge_weight: Floats | None = field(repr=False, default=None)

    def __post_init__(self) -> None:
        for name in ("label", "weight", "id", "group", "judge_weight"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
        object.__setattr__(self, "classes", tuple(str(name) for name in self.classes))
        _check_rows(self)
        _check_labels(self)
        align_by_id(self.weight)
        if self.judge_weight is not None:
            align_by_id(self.judge_weight)
        if self.validation is not None:
            check_alike(self, self.validation, "the validation images")

    def __len__(self) -> int:
        return len(self.label)

    @property
    def holds_images(self) -> bool:
        return self.X.ndim == 4

    @property
    def has_label_sets(self) -> bool:
        """Tell whether an image may have any number of labels, instead of one class."""
        return self.label.ndim > 1

    @property
    def unit(self) -> Ints:
        """(n,) the same number for images of one group."""
        if self.group is None:
            return np.arange(len(self))
        return np.unique(self.group, return_inverse=True)[1].astype(np.int64)

    def without_zeros(self) -> TrainingData:
        """Keep the rows of positive weight, here and in ``validation``; scale weights to mean 1.

        Rows that only judge stay, too.
        """
        validation = None if self.validation is None else self.validation.without_zeros()
        # The sum of huge weights would overflow.
        scaled_n = self.weight / self.weight.max()
        kept_n = scaled_n > 0
        if self.judge_weight is not None:
            kept_n |= self.judge_weight > 0
        taken = self.take(np.flatnonzero(kept_n))
        weight_n = scaled_n[kept_n] / scaled_n[kept_n].mean()
        label = taken.label.astype(np.float32 if self.has_label_sets else np.int64)
        return replace(taken, label=label, weight=weight_n, validation=validation)

    def take(self, rows: Ints) -> TrainingData:
        """Keep some rows, in ascending order; ``validation`` stays as it is."""
        X = self.X
        if rows.size < len(self):
            # An array larger than memory stays where it is; its rows are picked as they are asked
            # for.
            if isinstance(X, PickedRows):
                X = cast(npt.NDArray[Any], PickedRows(X.X, X.rows[rows]))
            elif isinstance(X, np.memmap) or not isinstance(X, np.ndarray):
                X = cast(npt.NDArray[Any], PickedRows(X, rows))
            else:
                X = X[rows]
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[rows]
            for name in ("label", "weight", "id", "group", "judge_weight")
        }
        return replace(self, X=X, **parts)

    def fingerprint(self) -> dict[str, str]:
        """Compute the SHA-256 of each part: a run resumed with other data can name what differs."""
        ids = "\n".join(map(str, self.id.tolist()))
        kind = np.float32 if self.has_label_sets else np.int64
        parts = {
            "images" if self.holds_images else "features": _fingerprint_rows(self.X),
            "labels": _digest(np.ascontiguousarray(self.label, dtype=kind)),
            "weights": _digest(np.ascontiguousarray(self.weight, dtype=np.float64)),
            "ids": _digest(ids.encode("utf-8", "surrogatepass")),
            "classes": _digest("\n".join(self.classes).encode("utf-8", "surrogatepass")),
        }
        if self.group is not None:
            parts["groups"] = _digest(self.unit)
        if self.judge_weight is not None:
            parts["judging weights"] = _digest(
                np.ascontiguousarray(self.judge_weight, dtype=np.float64)
            )
        inner = {} if self.validation is None else self.validation.fingerprint()
        return parts | {f"validation {name}": value for name, value in inner.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a memmap as the path of its file, not as the bytes in it."""
        state = dict(self.__dict__)
        X: Any = self.X
        state["X"] = PickedRows(_to_path(X.X), X.rows) if isinstance(X, PickedRows) else _to_path(X)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        X = state["X"]
        self.__dict__.update(state)
        self.__dict__["X"] = (
            PickedRows(_from_path(X.X), X.rows) if isinstance(X, PickedRows) else _from_path(X)
        )


class PickedRows:
    """Some rows of an array on disk, read when they are asked for.

    It has as much of an array's interface as training needs.
    """

    def __init__(self, X: Any, rows: Ints) -> None:
        self.X, self.rows = X, rows

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), *self.X.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = self.X.dtype
        return kind

    @property
    def ndim(self) -> int:
        return int(self.X.ndim)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return np.asarray(self.X[self.rows[key]])


@dataclass(frozen=True)
class _Mapped:
    file: str
    dtype: str
    offset: int
    shape: tuple[int, ...]


def _to_path(X: Any) -> Any:
    # Only a whole map knows its position: a slice of one keeps the offset of the whole.
    is_whole = isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap)
    if is_whole and X.filename is not None and X.flags.c_contiguous:
        return _Mapped(str(X.filename), str(X.dtype), X.offset, X.shape)
    return X


def _from_path(X: Any) -> Any:
    return (
        np.memmap(X.file, np.dtype(X.dtype), "r", X.offset, X.shape)
        if isinstance(X, _Mapped)
        else X
    )


def check_alike(data: TrainingData, other: TrainingData, what: str) -> None:
    """Refuse images for the same model that have other classes or another shape."""
    if other.classes != data.classes:
        raise DataError(
            f"{what} have other classes than the training images: {first_few(other.classes)} "
            f"there, {first_few(data.classes)} here. Labels are codes of one common list of "
            "classes.",
            levels=list(other.classes),
            allowed=list(data.classes),
        )
    if other.X.shape[1:] != data.X.shape[1:]:
        raise DataError(
            f"{what} have the shape {other.X.shape[1:]}, the training images {data.X.shape[1:]}.",
            option="X",
            value=list(other.X.shape[1:]),
            allowed=list(data.X.shape[1:]),
        )
    if other.validation is not None:
        raise ConfigError(
            f"{what} have validation images themselves; give these to the training images.",
            option="validation",
        )


def measure_scale(data: TrainingData, scaling: Scaling) -> tuple[Floats, Floats]:
    """Compute the weighted mean and divisor of each channel of images (3,) or feature (d,).

    Images: Σ_i π_i mean over pixels, and the standard deviation likewise, whatever ``scaling``.
    Features: as `scale_features` does, with the weighted mean and variance; a constant one has an
    infinite divisor, and becomes 0.
    """
    if scaling not in SCALINGS:
        raise ConfigError(
            f"scaling is one of {', '.join(map(repr, SCALINGS))}; got {scaling!r}.",
            option="scaling",
            value=scaling,
            allowed=list(SCALINGS),
        )
    share_n = data.weight / data.weight.sum()
    width = data.X.shape[-1]
    first, second = np.zeros(width), np.zeros(width)
    for rows in row_blocks(data.X):
        block = np.asarray(data.X[rows], dtype=np.float32).reshape(len(share_n[rows]), -1, width)
        first += share_n[rows] @ block.mean(axis=1, dtype=np.float64)
    for rows in row_blocks(data.X):
        centred = np.asarray(data.X[rows], dtype=np.float32).reshape(
            len(share_n[rows]), -1, width
        ) - first.astype(np.float32)
        second += share_n[rows] @ np.square(centred, out=centred).mean(axis=1, dtype=np.float64)
    deviation = np.sqrt(second)
    # What is constant up to the rounding of float32 has no scale.
    varies = deviation > 1e-6 * np.abs(first)
    if data.holds_images:
        return first, np.where(varies, deviation, 1.0)
    divisor = np.ones(width)
    if scaling != "none":
        divisor[varies] = deviation[varies] if scaling == "standard" else np.sqrt(deviation[varies])
    if scaling == "fourth_root" and varies.any():
        divisor *= np.sqrt(deviation[varies].mean())
    return first, np.where(varies, divisor, np.inf)


def scale_inputs(
    data: TrainingData, settings: TrainSettings
) -> tuple[Floats | None, Floats | None]:
    """Return mean and divisor of the inputs; None: what the network was pretrained with."""
    mean, divisor = (
        None if value is None or not data.holds_images else 255 * np.array(value)
        for value in (settings.mean, settings.std)
    )
    if (settings.normalization == "model" and data.holds_images) or not (
        mean is None or divisor is None
    ):
        return mean, divisor
    measured = measure_scale(data, settings.scaling)
    return measured[0] if mean is None else mean, measured[1] if divisor is None else divisor


def rows_at_once(shape: tuple[int, ...]) -> int:
    """Return how many rows of this shape make a block."""
    return max(_BLOCK // math.prod(shape), 1)


def row_blocks(X: npt.NDArray[Any]) -> Iterator[slice]:
    """Iterate over the rows of X, a block at a time."""
    step = rows_at_once(X.shape[1:])
    return (slice(start, min(start + step, len(X))) for start in range(0, len(X), step))


def _check_rows(data: TrainingData) -> None:
    X = data.X
    images = X.ndim == 4 and X.shape[3] == 3 and X.dtype == np.uint8
    features = X.ndim == 2 and X.shape[1] > 0 and X.dtype == np.float32
    if not (images or features):
        raise DataError(
            "X is images, (n, h, w, 3) of uint8, or features, (n, d) of float32; got the shape "
            f"{X.shape} of {X.dtype}. Grey images become three equal channels: "
            "np.repeat(X[..., None], 3, axis=3).",
            option="X",
            value=[*X.shape, str(X.dtype)],
        )
    lengths = {
        "X": len(X),
        "label": data.label.shape[:1],
        "weight": data.weight.shape,
        "id": data.id.shape,
    }
    lengths |= {
        name: values.shape
        for name in ("group", "judge_weight")
        if (values := getattr(data, name)) is not None
    }
    if any(shape not in (len(X), (len(X),)) for shape in lengths.values()):
        shown = ", ".join(
            f"{name} {value[0] if isinstance(value, tuple) and len(value) == 1 else value}"
            for name, value in lengths.items()
        )
        raise DataError(
            f"X, label, weight and id have one entry for each image; got {shown}. Were rows "
            "dropped from some of them only?",
            count=len(X),
        )
    if features and not all(np.isfinite(X[rows]).all() for rows in row_blocks(X)):
        bad = next(row for row in range(len(X)) if not np.isfinite(X[row]).all())
        raise DataError(
            f"features are finite numbers; those of {str(data.id[bad])!r} are not. Fill the gaps, "
            "or leave the image out.",
            id=str(data.id[bad]),
        )


def _check_labels(data: TrainingData) -> None:
    if data.has_label_sets:
        from unskew.learn.label_probes import check_label_sets

        if data.label.shape[1:] != (len(data.classes),):
            raise DataError(
                "label has one entry for each image, or one for each image and label; got the "
                f"shape {data.label.shape} and {len(data.classes)} classes.",
                option="label",
            )
        check_label_sets(data.label, data.weight, data.classes)
        return
    if len(data.classes) < 2 or len(set(data.classes)) < len(data.classes):
        raise DataError(
            f"classes are at least two different names; got {first_few(data.classes)}.",
            levels=list(data.classes),
        )
    if data.label.dtype.kind not in "iu":
        raise DataError(
            "labels are codes, whole numbers that count the classes from 0; got "
            f"{data.label.dtype}.",
            option="label",
            value=str(data.label.dtype),
        )
    wrong = np.flatnonzero((data.label < 0) | (data.label >= len(data.classes)))
    if wrong.size:
        raise DataError(
            f"labels are codes from 0 to {len(data.classes) - 1}, one for each class; {wrong.size} "
            f"are not, the first, of {str(data.id[wrong[0]])!r}, is {data.label[wrong[0]]}.",
            option="label",
            id=str(data.id[wrong[0]]),
            value=int(data.label[wrong[0]]),
            count=int(wrong.size),
        )


def _fingerprint_rows(X: npt.NDArray[Any]) -> str:
    n = len(X)
    affordable = max(_FINGERPRINTED_BYTES // max(X[:1].nbytes, 1), 1)
    digest = hashlib.sha256(f"{X.shape} {X.dtype}".encode())
    if n <= affordable:
        for rows in row_blocks(X):
            digest.update(np.ascontiguousarray(X[rows]).data)
    else:
        for row in np.linspace(0, n - 1, affordable).astype(np.int64):
            digest.update(np.ascontiguousarray(X[row]).data)
    return digest.hexdigest()


def _digest(values: npt.NDArray[Any] | bytes) -> str:
    return hashlib.sha256(values if isinstance(values, bytes) else values.data).hexdigest()


# Of the free memory of a graphics card that the images may take; the rest is for the network.
_SHARE_OF_MEMORY = 0.4


class DeviceRows:
    """The rows of some data, by index, as tensors on ``device``.

    On a CPU every batch is gathered from the array or memmap itself.
    """

    def __init__(self, data: TrainingData, device: torch.device) -> None:
        import torch

        self.data, self.device = data, device
        kind = torch.float32 if data.has_label_sets else torch.int64
        self._label = torch.as_tensor(data.label, dtype=kind).to(device)
        self._weight = torch.as_tensor(data.weight, dtype=torch.float64).to(device)
        self._held: torch.Tensor | None = None
        if (
            device.type == "cuda"
            and data.X.nbytes < _SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]
        ):
            self._held = torch.as_tensor(np.array(data.X[:])).to(device)

    def __len__(self) -> int:
        return len(self.data)

    def take(self, rows: Ints) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of X, and their labels."""
        import torch

        where = torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)
        if self._held is not None:
            return self._held[where], self._label[where]
        # Numbers of rows make a copy, whatever X is.
        images = np.ascontiguousarray(self.data.X[rows])
        return torch.from_numpy(images).to(self.device), self._label[where]

    def weight(self, rows: Ints) -> torch.Tensor:
        """Return the weights of these rows."""
        import torch

        return self._weight[torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)]
