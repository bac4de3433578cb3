"""The mixin for Hugging Face's Trainer, with a Trainer of a few lines; the real one is in
tests/packages/test_transformers.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn.huggingface import ROW, WeightedTrainerMixin

torch = pytest.importorskip("torch")

WEIGHT = np.array([0.0, 1.0, 2.0, 5.0])
X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 2.0]], dtype=torch.float64)
LABEL = torch.tensor([0, 1, 1, 0])


class FewLines:
    """What the mixin uses of a Trainer."""

    def __init__(self, train_dataset: Any, collator: Any = None, **settings: Any) -> None:
        self.train_dataset = train_dataset
        self.data_collator = collator or _collate
        self.compute_loss_func = settings.pop("compute_loss_func", None)
        self.model_accepts_loss_kwargs = True
        defaults = {"seed": 3, "data_seed": None, "label_smoothing_factor": 0.0}
        self.args = SimpleNamespace(**{**defaults, **settings})
        self._signature_columns: list[str] | None = None

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = self._signature_columns or ["x", "labels"]

    def _get_train_sampler(self, *_: Any) -> str:
        return "the Trainer's own"

    def get_train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(
            self.train_dataset, batch_size=4, collate_fn=self.data_collator
        )

    def compute_loss(self, model, inputs, return_outputs=False, **_: Any) -> str:
        return "the Trainer's own"


class Weighted(WeightedTrainerMixin, FewLines):
    pass


def _collate(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Drop what it does not know, as collators of users do."""
    return {name: torch.stack([item[name] for item in items]) for name in ("x", "labels")}


def _items() -> list[dict[str, Any]]:
    return [{"x": x, "labels": label} for x, label in zip(X, LABEL, strict=True)]


def test_the_sampler_draws_by_weight_with_the_seed_of_the_data() -> None:
    sampler = Weighted(_items(), weights=WEIGHT, size=80, data_seed=5)._get_train_sampler()
    assert np.bincount(list(sampler)).tolist() == [0, 10, 20, 50]
    assert sampler.seed == 5
    assert Weighted(_items(), weights=WEIGHT)._get_train_sampler(None).seed == 3


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_all_images_is_the_weighted_risk(smoothing: float) -> None:
    trainer = Weighted(_items(), weights=WEIGHT, weighting="loss", label_smoothing_factor=smoothing)
    assert trainer._get_train_sampler() == "the Trainer's own"
    collator = trainer.data_collator
    (batch,) = trainer.get_train_dataloader()
    assert trainer.data_collator is collator
    assert batch[ROW].tolist() == [0, 1, 2, 3]
    loss, outputs = trainer.compute_loss(lambda x: {"logits": x}, batch, return_outputs=True)
    losses = torch.nn.functional.cross_entropy(
        X, LABEL, reduction="none", label_smoothing=smoothing
    )
    assert loss.item() == pytest.approx(float(losses.numpy() @ WEIGHT / WEIGHT.sum()), rel=1e-12)
    assert outputs["logits"] is not None
    # A mean of the batch: the Trainer divides by the number of accumulated batches.
    assert trainer.loss_is_scaled_for_ga is False
    assert trainer.model_accepts_loss_kwargs is False


def test_evaluation_is_the_trainers_own_and_rows_survive_the_removal_of_columns() -> None:
    trainer = Weighted(_items(), weights=WEIGHT, weighting="loss")
    assert trainer.compute_loss(None, {"x": X, "labels": LABEL}) == "the Trainer's own"
    for _ in range(2):
        trainer._set_signature_columns_if_needed()
    assert trainer._signature_columns == ["x", "labels", ROW]
    with pytest.raises(DataError):
        trainer.compute_loss(None, {"x": X, ROW: torch.arange(4)})


def test_wrong_settings_are_refused() -> None:
    with refused(ConfigError, option="weighting", value="losses"):
        Weighted(_items(), weights=WEIGHT, weighting="losses")
    with refused(ConfigError, option="loss"):
        Weighted(_items(), weights=WEIGHT, loss=torch.nn.functional.mse_loss)
    with refused(ConfigError, option="size"):
        Weighted(_items(), weights=WEIGHT, weighting="loss", size=3)
    with refused(ConfigError, option="train_sampling_strategy"):
        Weighted(_items(), weights=WEIGHT, group_by_length=True)
    with refused(ConfigError, option="compute_loss_func"):
        Weighted(_items(), weights=WEIGHT, weighting="loss", compute_loss_func=len)
    with refused(ConfigError, option="label_smoothing_factor", value=0.1):
        Weighted(
            _items(),
            weights=WEIGHT,
            weighting="loss",
            loss=torch.nn.functional.cross_entropy,
            label_smoothing_factor=0.1,
        )
    with refused(ConfigError, option="dataset", value="generator"):
        Weighted((item for item in _items()), weights=WEIGHT)
    with refused(DataError, count=3, limit=4):
        Weighted(_items(), weights=WEIGHT[1:])
