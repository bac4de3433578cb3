"""Run by test_transformers.py, alone or under torchrun: what Hugging Face's Trainer trains on.

python trainer_process.py FOLDER KIND, the kinds being those of `KINDS`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import datasets
import numpy as np
import torch
from transformers import Trainer, TrainingArguments

from unskew.learn import WeightedSampler
from unskew.learn.huggingface import WeightedTrainerMixin

N = 48
RNG = np.random.default_rng(0)
WEIGHT = RNG.exponential(size=N) * (np.arange(N) % 5 > 0)
X = RNG.normal(size=(N, 3))
LABEL = RNG.integers(0, 2, N)
IDS = [f"{row}.jpg" for row in range(N)]


class Linear(torch.nn.Module):
    """Logistic regression whose first input is the number of the row, which it notes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2).double()
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
        self.seen: list[int] = []

    def forward(self, x, number, labels=None):
        if self.training:
            self.seen += number.tolist()
        logits = self.layer(x.double())
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits} if loss is not None else {"logits": logits}


class OwnSampler(Trainer):
    """What a user writes by hand: the batches were shared out twice."""

    def _get_train_sampler(self, *_):
        return WeightedSampler(WEIGHT, seed=7)


class Weighted(WeightedTrainerMixin, Trainer):
    pass


class Dictionaries(torch.utils.data.Dataset):
    def __init__(self, data) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row):
        return self.data[row]


def make_data():
    columns = {"x": X.tolist(), "number": list(range(N)), "label": LABEL.tolist(), "id": IDS}
    return datasets.Dataset.from_dict({**columns, "weight": WEIGHT.tolist()})


def by_hand(items):
    """A collator that knows what it wants and drops the rest."""
    return {
        "x": torch.tensor([item["x"] for item in items]),
        "number": torch.tensor([item["number"] for item in items]),
        "labels": torch.tensor([item["label"] for item in items]),
    }


BY_ID = {"weights": dict(zip(reversed(IDS), reversed(WEIGHT), strict=True)), "ids": "id"}
KINDS = {
    "own": (OwnSampler, {}),
    "sampler": (Weighted, BY_ID),
    "loss": (Weighted, {**BY_ID, "weighting": "loss"}),
    "loss-accumulated": (Weighted, {**BY_ID, "weighting": "loss"}),
    "loss-by-column": (Weighted, {"weights": "weight", "weighting": "loss"}),
    "loss-by-hand": (Weighted, {**BY_ID, "weighting": "loss", "data_collator": by_hand}),
    "loss-dictionaries": (Weighted, {"weights": WEIGHT, "weighting": "loss"}),
}


def main(folder: Path, kind: str) -> None:
    maker, options = KINDS[kind]
    n_processes = int(os.environ.get("WORLD_SIZE", "1"))
    accumulated = 2 if kind == "loss-accumulated" else 1
    # One step with all images, so that the gradient is that of the whole weighted sample.
    batch = N // n_processes // accumulated if "loss" in kind else 4
    settings = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulated,
        num_train_epochs=1 if "loss" in kind else 2,
        learning_rate=0.5,
        optim="sgd",
        lr_scheduler_type="constant",
        max_grad_norm=1e9,
        seed=7,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    data = Dictionaries(make_data()) if kind == "loss-dictionaries" else make_data()
    model = Linear()
    trainer = maker(model=model, args=settings, train_dataset=data, eval_dataset=data, **options)
    trainer.train()
    record = {
        "seen": model.seen,
        "weight": model.layer.weight.tolist(),
        "evaluated": trainer.evaluate()["eval_loss"],
    }
    (folder / f"{settings.process_index}.json").write_text(json.dumps(record), encoding="utf-8")
    if torch.distributed.is_initialized():
        # Threads of a group that is left open abort the process now and then, after its work.
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
