"""`WeightedTrainerMixin`: Hugging Face's Trainer with weights, by its sampler or in its loss.

Needs transformers (extra ``hf``) only where the Trainer itself does: nothing is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, get_args

from unskew.errors import ConfigError, DataError, did_you_mean
from unskew.learn.weights_by_id import align_to_dataset

Weighting = Literal["sampler", "loss"]

# The row of each image travels in the batch under this name, where the loss is weighted.
ROW = "unskew_row"


class WeightedTrainerMixin:
    """Weighs the training images of a `transformers.Trainer`: the first base of your own class.

    ``weighting="sampler"`` draws the images by weight; loss and model are as they were. "loss"
    shows every image once and weights its loss, (1/B) Σ_b v_b ℓ_b, v scaled to mean 1. Both have
    the same expected gradient, Σ_i π_i ∇ℓ_i, in one process or in several, with or without gradient
    accumulation: docs/sampling.md says which to take. Evaluation is not weighted.

    Parameters
    ----------
    weights : `Weights`, a table with id and weight, or a mapping id → weight, joined by ``ids``;
        one number for each row of ``train_dataset``; or the name of a column of it.
    ids : the id of every row of ``train_dataset``, or the name of the column that has it.
    weighting : "sampler" or "loss".
    size : how many images an epoch draws, all processes together; default: as many as there are.
    loss : for "loss": a function (logits, labels) → one loss for each image, as of `WeightedLoss`.
        Default: cross-entropy, with the label smoothing of the training arguments.
    allow_extra : weights of images that ``train_dataset`` lacks are left out instead of an error.

    Examples
    --------
    ::

        from transformers import Trainer
        from unskew.learn.huggingface import WeightedTrainerMixin

        class WeightedTrainer(WeightedTrainerMixin, Trainer):
            pass

        weights = pandas.read_parquet("OUT/weights.parquet")
        WeightedTrainer(model, args, train_dataset=data, weights=weights, ids="id").train()
    """

    # The weighted loss is the mean of a batch; the Trainer divides it by the accumulated batches.
    loss_is_scaled_for_ga: bool | None = None

    def __init__(
        self,
        *args: Any,
        weights: Any,
        ids: str | Iterable[Hashable] | None = None,
        weighting: Weighting = "sampler",
        size: int | None = None,
        loss: Callable[..., Any] | None = None,
        allow_extra: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._refuse_settings(weighting, size, loss)
        self._weighting = weighting
        self._draws = size
        data = self._trainer.train_dataset
        self._weight = align_to_dataset(data, weights, ids, allow_extra=allow_extra)
        if weighting == "loss":
            self._criterion = self._weighted_loss(loss)
            self._trainer.train_dataset = with_rows(data)
            self.loss_is_scaled_for_ga = False
            # Before version 5: what decided whether the Trainer divides.
            self._trainer.model_accepts_loss_kwargs = False

    @property
    def _trainer(self) -> Any:
        """The object itself, as the Trainer that it also is."""
        return self

    def _refuse_settings(self, weighting: str, size: int | None, loss: Any) -> None:
        if weighting not in get_args(Weighting):
            raise ConfigError(
                f"weighting is 'sampler' or 'loss'; got {weighting!r}."
                f"{did_you_mean(weighting, get_args(Weighting))}",
                option="weighting",
                value=weighting,
                allowed=list(get_args(Weighting)),
            )
        unused = {"sampler": ("loss", loss), "loss": ("size", size)}[weighting]
        if unused[1] is not None:
            raise ConfigError(
                f"{unused[0]} belongs to the other weighting; this Trainer has {weighting!r}.",
                option=unused[0],
                value=weighting,
            )
        settings = self._trainer.args
        strategy = getattr(settings, "train_sampling_strategy", "random")
        if weighting == "sampler" and (
            str(getattr(strategy, "value", strategy)) != "random"
            or getattr(settings, "group_by_length", False)
        ):
            raise ConfigError(
                "images are drawn by weight, so they cannot be drawn by length or in order as "
                "well: leave train_sampling_strategy and group_by_length as they are by default, "
                "or take weighting='loss'.",
                option="train_sampling_strategy",
                value=str(strategy),
            )
        if weighting == "loss" and getattr(self._trainer, "compute_loss_func", None) is not None:
            raise ConfigError(
                "compute_loss_func gives one number for a batch, which cannot be weighted by "
                "image: pass loss=, a function (logits, labels) with one value for each image.",
                option="compute_loss_func",
            )

    def _weighted_loss(self, loss: Callable[..., Any] | None) -> Any:
        from torch.nn.functional import cross_entropy

        from unskew.learn.loss import WeightedLoss

        smoothing = self._trainer.args.label_smoothing_factor
        if loss is not None and smoothing:
            raise ConfigError(
                "label_smoothing_factor is for the default loss: smooth the labels in loss= "
                "itself, and set it to 0.",
                option="label_smoothing_factor",
                value=smoothing,
            )
        default = partial(cross_entropy, label_smoothing=smoothing, reduction="none")
        return WeightedLoss(default if loss is None else loss, self._weight)

    def _get_train_sampler(self, *args: Any, **options: Any) -> Any:
        """Return the sampler of the training images; Accelerate shares its batches out."""
        if self._weighting == "loss":
            return self._parent._get_train_sampler(*args, **options)
        from unskew.learn.sampling.sampler import WeightedSampler

        settings = self._trainer.args
        seed = settings.seed if settings.data_seed is None else settings.data_seed
        return WeightedSampler(self._weight, size=self._draws, seed=seed)

    @property
    def _parent(self) -> Any:
        return super()

    def _set_signature_columns_if_needed(self) -> None:
        """Keep the rows of the images, which no model takes, when unused columns are removed."""
        self._parent._set_signature_columns_if_needed()
        if ROW not in self._trainer._signature_columns:
            self._trainer._signature_columns = [*self._trainer._signature_columns, ROW]

    def get_train_dataloader(self) -> Any:
        """Return the loader of training batches, with the rows of their images for the loss."""
        collator = self._trainer.data_collator
        if self._weighting == "loss":
            self._trainer.data_collator = RowCollator(collator)
        try:
            return self._parent.get_train_dataloader()
        finally:
            self._trainer.data_collator = collator

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **options: Any
    ) -> Any:
        """Compute the weighted loss of a training batch; elsewhere, the Trainer's."""
        if ROW not in inputs:
            return self._parent.compute_loss(model, inputs, return_outputs, **options)
        inputs = dict(inputs)
        rows = inputs.pop(ROW)
        labels = inputs.pop("labels", None)
        if labels is None:
            raise DataError(
                "a weighted loss needs the labels of a batch under the name 'labels'; got "
                f"{', '.join(sorted(inputs))}.",
                columns=sorted(inputs),
            )
        outputs = model(**inputs)
        logits = outputs["logits"] if hasattr(outputs, "keys") else outputs
        logits = logits[0] if isinstance(logits, tuple) else logits
        loss = self._criterion(logits, labels, rows)
        return (loss, outputs) if return_outputs else loss


class RowCollator:
    """A collator that keeps the row of each image, which the one inside need not know."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def __call__(self, items: Sequence[Any]) -> Any:
        """Collate the items without their rows, and add these."""
        import torch

        rows = [item[ROW] for item in items]
        batch = self.collator(
            [{name: value for name, value in item.items() if name != ROW} for item in items]
        )
        batch[ROW] = torch.tensor(rows)
        return batch


class RowItems:
    """A view of a dataset of dictionaries, each with its row."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {**self.dataset[row], ROW: row}


def with_rows(dataset: Any) -> Any:
    """Return a dataset whose items also hold their row; a column, if it has columns."""
    if hasattr(dataset, "add_column"):
        return dataset.add_column(ROW, list(range(len(dataset))))
    return RowItems(dataset)
