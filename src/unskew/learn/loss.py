"""`WeightedLoss`: a per-image loss of torch, weighted, and unbiased under minibatches.

And the losses of the trainer, of classes and of labels: `make_batch_loss`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, first_few
from unskew.learn.dial import Dialled
from unskew.learn.presets import TrainSettings
from unskew.learn.weights_by_id import align_by_id, named_weights
from unskew.records import Floats, Ints

# Under these names torch's losses, and most others, keep weights of classes.
_CLASS_WEIGHTS = ("weight", "pos_weight", "class_weight", "class_weights")


@checked
class WeightedLoss(torch.nn.Module):
    """The weighted loss (1/B) Σ_b v_b ℓ_b of a batch of B images, ℓ_b the loss of one.

    v_i = w_i/mean(w) are the weights scaled to mean 1. Divided by the batch size and not by the
    weights of the batch, so that uniform minibatches are unbiased: the expectation of the loss, and
    of its gradient, is Σ_i π_i ℓ_i, π_i = w_i/Σw, the same as that of the plain mean over a batch
    drawn by `WeightedSampler`. With the whole dataset as one batch it is Σ_i π_i ℓ_i: a weight of
    zero is the image removed (whatever its loss, even NaN), a weight of two the image twice. Equal
    weights give the plain mean. With the sampler *and* this loss every image would be weighted
    twice.

    Parameters
    ----------
    loss : a module with ``reduction="none"``, or a function (prediction, truth) → one loss for each
        image; a function with an argument ``reduction`` (``torch.nn.functional.cross_entropy``) is
        called with "none". Losses of shape (B, …) are averaged within the image.
    weights, ids, allow_extra : as for `WeightedSampler`. With ``ids``, or with bare numbers, a
        batch says its images by their rows in the dataset; without ``ids``, by their ids, and the
        mean of all weights is scaled to 1.
    allow_class_weights : a loss with class weights of its own is refused unless this is True: the
        image weights already carry the classes to the target, and class weights on top carry them
        elsewhere.

    Examples
    --------
    >>> import torch
    >>> from unskew.learn import WeightedLoss
    >>> criterion = WeightedLoss(torch.nn.functional.cross_entropy, {"a.jpg": 0.5, "b.jpg": 1.5})
    >>> loss = criterion(torch.zeros(2, 3), torch.tensor([0, 2]), ["b.jpg", "a.jpg"])
    >>> loss.item() == torch.tensor(3.0).log().item()
    True
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        weights: Any,
        ids: Iterable[Hashable] | None = None,
        *,
        allow_class_weights: bool = False,
        allow_extra: bool = False,
    ) -> None:
        super().__init__()
        self.loss = _per_image(loss)
        if not allow_class_weights:
            _refuse_class_weights(loss)
        named = named_weights(weights) if ids is None else None
        weight_n = align_by_id(weights, ids, allow_extra=allow_extra) if named is None else named[1]
        self._row = None if named is None else {name: row for row, name in enumerate(named[0])}
        self._any_zero = bool(np.any(weight_n == 0))
        # Divided by the largest first: the sum of huge weights would overflow.
        weight_n = weight_n / weight_n.max()
        # Data, not state: it stays out of checkpoints, and in double precision whatever the
        # precision of the model.
        self.sample_weight = torch.from_numpy(weight_n / weight_n.mean())
        self._on_device: dict[torch.device, torch.Tensor] = {}

    def forward(self, prediction: torch.Tensor, truth: Any, image: Any) -> torch.Tensor:
        """Compute the weighted loss of a batch; ``image`` names its images, by row or by id."""
        n = len(prediction)
        weight = self._weights_of(image, prediction.device)
        if len(weight) != n:
            raise DataError(
                f"a batch has one prediction for each image; got {n} predictions and {len(weight)} "
                "images.",
                count=n,
                limit=len(weight),
            )
        if self._any_zero:
            # Nothing of a removed image comes through, neither the value nor the gradient, not even
            # 0 × NaN.
            kept = (weight > 0).reshape(-1, *[1] * (prediction.ndim - 1))
            prediction = torch.where(kept, prediction, torch.zeros_like(prediction))
        losses = self.loss(prediction, truth)
        if losses.ndim == 0 or len(losses) != n:
            raise ConfigError(
                f"the loss must give one value for each of the {n} images of the batch; it gave "
                f"shape {tuple(losses.shape)}. Pass it with reduction='none'.",
                option="loss",
                limit=n,
            )
        losses = losses.flatten(1).mean(1) if losses.ndim > 1 else losses
        if losses.dtype in (torch.float16, torch.bfloat16):
            losses = losses.float()  # a large weight times a loss may be beyond half precision
        if self._any_zero:
            losses = torch.where(weight > 0, losses, torch.zeros_like(losses))
        mean: torch.Tensor = (weight.to(losses.dtype) * losses).sum() / n
        return mean

    def _weights_of(self, image: Any, device: torch.device) -> torch.Tensor:
        if self._row is None:
            try:
                rows = torch.as_tensor(image)
            except (TypeError, ValueError, RuntimeError) as error:
                raise DataError(
                    "a batch names its images by their rows in the dataset, whole numbers, where "
                    f"the loss was made with ids or bare numbers; got {type(image).__name__} "
                    f"({error}). Pass the rows; or leave ids out of WeightedLoss, and name images "
                    "by their ids.",
                    option="image",
                    value=type(image).__name__,
                ) from None
            _refuse_rows(rows, len(self.sample_weight))
        else:
            names = image.tolist() if hasattr(image, "tolist") else list(image)
            unknown = [name for name in names if name not in self._row]
            if unknown:
                raise DataError(
                    f"{len(unknown)} of the {len(names)} images of a batch have no weight, the "
                    f"first {first_few(unknown, 3)}.",
                    ids=unknown,
                    count=len(unknown),
                )
            rows = torch.tensor([self._row[name] for name in names], dtype=torch.int64)
        if device not in self._on_device:
            # Apple's devices know no double precision.
            self._on_device[device] = self.sample_weight.to(
                device, torch.float32 if device.type == "mps" else torch.float64
            )
        return self._on_device[device][rows.to(device)]


def smoothed_cross_entropy(
    logits: torch.Tensor,
    label: torch.Tensor,
    *,
    smoothing: float,
    towards: torch.Tensor,
    reduction: str = "mean",
) -> torch.Tensor:
    """Compute the cross entropy −(1 − ε) log p(y) − ε Σ_m u_m log p(m), p = softmax(logits).

    Where logits are shifted by s, u ∝ e^s: without the shift the smoothing is then the same for
    every class. Smoothed evenly, as torch does, every image would count as ε/M of a class whose
    images are rare, and without the shift that class would be predicted for all of them.

    Parameters
    ----------
    logits, label : (B, M) and (B,).
    smoothing, towards : ε and u, (M,), which sums to 1. Equal shares are torch's own smoothing.
    reduction : "mean", or "none": one value for each image.
    """
    if smoothing == 0.0:
        return cross_entropy(logits, label, reduction=reduction)
    spread = cross_entropy(logits, towards.to(logits.dtype).expand_as(logits), reduction=reduction)
    return (1 - smoothing) * cross_entropy(logits, label, reduction=reduction) + smoothing * spread


def _refuse_rows(rows: torch.Tensor, n: int) -> None:
    if rows.is_floating_point() or rows.dtype == torch.bool:
        raise DataError(
            "a batch names its images by their rows in the dataset, whole numbers; got "
            f"{rows.dtype}.",
            option="image",
            value=str(rows.dtype),
        )
    # Elsewhere a look at the values would make the device wait, and it refuses them itself.
    if (
        rows.device.type == "cpu"
        and rows.numel()
        and not 0 <= int(rows.min()) <= int(rows.max()) < n
    ):
        raise DataError(
            f"rows of the dataset are numbered from 0 to {n - 1}; a batch has {int(rows.min())} to "
            f"{int(rows.max())}.",
            option="image",
            value=[int(rows.min()), int(rows.max())],
            limit=n,
        )


def _per_image(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``loss`` with one value for each image; refuse one that averages or sums."""
    keywords = loss.keywords if isinstance(loss, functools.partial) else {}
    reduction = keywords.get("reduction", getattr(loss, "reduction", None))
    if reduction is None:
        return functools.partial(loss, reduction="none") if _has_reduction(loss) else loss
    if reduction != "none":
        raise ConfigError(
            "the loss must give one value for each image, to be weighted; this one is set to "
            f"reduction={reduction!r}. Pass it with reduction='none': "
            "torch.nn.CrossEntropyLoss(reduction='none').",
            option="reduction",
            value=reduction,
            allowed=["none"],
        )
    return loss


def _has_reduction(loss: Callable[..., Any]) -> bool:
    if isinstance(loss, torch.nn.Module):
        return False
    try:
        return "reduction" in inspect.signature(loss).parameters
    except (TypeError, ValueError):  # some functions written in C say nothing about their arguments
        return False


def _refuse_class_weights(loss: Callable[..., Any]) -> None:
    settings: Mapping[str, Any] = loss.keywords if isinstance(loss, functools.partial) else {}
    if isinstance(loss, torch.nn.Module):
        # Weights of classes are buffers, or plain attributes; a parameter of that name belongs to a
        # layer.
        buffers = {name.rsplit(".", 1)[-1]: value for name, value in loss.named_buffers()}
        settings = buffers | {
            name: loss.__dict__[name] for name in _CLASS_WEIGHTS if name in loss.__dict__
        }
    present = [name for name in _CLASS_WEIGHTS if settings.get(name) is not None]
    if present:
        raise ConfigError(
            f"the loss has class weights ({', '.join(present)}), and the image weights already "
            "carry the classes to the target: together they would weight the classes twice. Take "
            "the class weights out, or pass allow_class_weights=True if both are meant.",
            option="loss",
            value=present,
        )


def make_batch_loss(
    dialled: Dialled,
    factor_m: Floats | None,
    settings: TrainSettings,
    device: Any,
    smooth_m: Floats | None = None,
) -> Callable[..., Any]:
    """Make the function (logits, labels, rows) → the loss of a batch.

    Labels are smoothed towards shares ∝ e^{smooth_m}, by default e^{logit shift}
    (`smoothed_cross_entropy`).
    """
    base = _classes_loss if dialled.weight.ndim == 1 else _labels_loss
    towards = torch.as_tensor(dialled.logit_shift if smooth_m is None else smooth_m, device=device)
    own = base(dialled, settings, towards)
    shift = torch.as_tensor(dialled.logit_shift, device=device) if dialled.shifts else None
    factor = None if factor_m is None else torch.as_tensor(factor_m, device=device)

    def loss(logits: Any, label: Any, rows: Ints) -> Any:
        if factor is not None:
            logits = logits * factor.to(logits.dtype)
        if shift is not None:
            logits = logits + shift.to(logits.dtype)
        return own(logits, label, rows)

    return loss


def _classes_loss(
    dialled: Dialled, settings: TrainSettings, towards: torch.Tensor
) -> Callable[..., Any]:
    plain = functools.partial(
        smoothed_cross_entropy,
        smoothing=settings.label_smoothing,
        towards=torch.softmax(towards, 0),
    )
    if settings.weighting == "loss":
        return WeightedLoss(plain, dialled.weight)
    return lambda logits, label, rows: plain(logits, label)


def _labels_loss(
    dialled: Dialled, settings: TrainSettings, towards: torch.Tensor
) -> Callable[..., Any]:
    """Make the loss of images with any number of labels.

    Its expectation is Σ_im v_im ℓ_im/Σ_im v_im over the labels m that are known of image i, ℓ the
    binary cross entropy, v the dialled weights: images are drawn by their mean over labels, or all
    alike, and v is divided by what they were drawn by.
    """
    drawn_n = dialled.image_weight
    by_n = drawn_n if settings.weighting == "sampler" else np.full_like(drawn_n, drawn_n.mean())
    factor_nm = np.divide(
        dialled.weight,
        dialled.weight.shape[1] * by_n[:, None],
        out=np.zeros_like(dialled.weight),
        where=by_n[:, None] > 0,
    )
    device, smoothing = towards.device, settings.label_smoothing
    factor = torch.as_tensor(factor_nm, dtype=torch.float32, device=device)
    spread = smoothing * torch.sigmoid(towards).float()

    def loss(logits: torch.Tensor, label: torch.Tensor, rows: Ints) -> torch.Tensor:
        own = factor[torch.from_numpy(np.ascontiguousarray(rows)).to(device)]
        # What is unknown has no weight; whatever stands in its place is not learned.
        truth = torch.nan_to_num(label) * (1.0 - smoothing) + spread
        each = binary_cross_entropy_with_logits(logits.float(), truth, reduction="none")
        return (own * each).sum() / len(each)

    return loss
