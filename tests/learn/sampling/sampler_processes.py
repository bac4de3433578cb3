"""Run by test_sampler_processes.py in processes of their own: which images each process sees.

python sampler_processes.py
torch|trainer|trainer-resume|fabric|fabric-resume|accelerate|accelerate-alone FOLDER
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from unskew.learn import WeightedSampler

N_EPOCHS = 2
SIZE = 97  # no multiple of two processes
WEIGHT = np.random.default_rng(0).exponential(size=50) * (np.arange(50) % 5 > 0)
DATA = TensorDataset(torch.arange(50))


def make_loader(**options) -> DataLoader:
    return DataLoader(DATA, batch_size=8, sampler=WeightedSampler(WEIGHT, size=SIZE, **options))


def rows(loader) -> list[int]:
    return [row for (batch,) in loader for row in batch.tolist()]


def run_torch() -> tuple[int, list[list[int]]]:
    loader = make_loader()
    torch.distributed.init_process_group("gloo")
    seen = []
    for epoch in range(N_EPOCHS):
        loader.sampler.set_epoch(epoch)
        seen.append(rows(loader))
    rank = torch.distributed.get_rank()
    torch.distributed.destroy_process_group()
    return rank, seen


def recorder():
    import lightning.pytorch as pl

    class Recorder(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[list[int]] = []

        def on_train_epoch_start(self) -> None:
            self.seen.append([])

        def training_step(self, batch, _):
            self.seen[-1] += batch[0].tolist()
            return self.layer(batch[0][:, None].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    return Recorder()


def make_trainer(**options):
    import lightning.pytorch as pl

    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return pl.Trainer(accelerator="cpu", max_epochs=N_EPOCHS, **quiet, **options)


def run_trainer() -> tuple[int, list[list[int]]]:
    model = recorder()
    trainer = make_trainer(devices=2)
    trainer.fit(model, make_loader())
    return trainer.global_rank, model.seen


def run_trainer_resume() -> tuple[int, list[list[int]]]:
    """Killed after 3 batches of the second epoch, and resumed from Lightning's checkpoint of that
    moment.
    """
    from lightning.pytorch.callbacks import Callback
    from torchdata.stateful_dataloader import StatefulDataLoader

    class KilledError(Exception):
        pass

    class SaveAndDie(Callback):
        def on_train_batch_end(self, trainer, *_) -> None:
            if trainer.global_step == 13 + 3:
                trainer.save_checkpoint("stopped.ckpt")
                raise KilledError

    def loader() -> StatefulDataLoader:
        return StatefulDataLoader(DATA, batch_size=8, sampler=WeightedSampler(WEIGHT, size=SIZE))

    model = recorder()
    with contextlib.suppress(KilledError):
        make_trainer(devices=1, callbacks=[SaveAndDie()]).fit(model, loader())
    again = recorder()
    again.seen.append([])
    make_trainer(devices=1).fit(again, loader(), ckpt_path="stopped.ckpt", weights_only=False)
    return 0, [model.seen[0], model.seen[1] + [row for part in again.seen for row in part]]


def run_fabric() -> tuple[int, list[list[int]]]:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=2)
    fabric.launch()
    loader = fabric.setup_dataloaders(make_loader())
    return fabric.global_rank, [rows(loader) for _ in range(N_EPOCHS)]


def run_fabric_resume() -> tuple[int, list[list[int]]]:
    """Resumed after 3 batches of the first epoch: Fabric counts from 0 again, the sampler goes
    on.
    """
    from lightning.fabric import Fabric

    first = make_loader()
    seen = []
    for (batch,) in first:
        seen += batch.tolist()
        if len(seen) == 24:
            break
    plain = make_loader()
    plain.sampler.load_state_dict(first.sampler.state_dict())
    loader = Fabric(accelerator="cpu", devices=1).setup_dataloaders(plain)
    return 0, [seen + rows(loader), rows(loader)]


def run_accelerate(alone: bool = False) -> tuple[int, list[list[int]]]:
    """Accelerate hands out the batches of one process' loader; a loader that is not prepared shards
    by the sampler alone.
    """
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = make_loader() if alone else accelerator.prepare(make_loader(num_replicas=1, rank=0))
    return accelerator.process_index, [rows(loader) for _ in range(N_EPOCHS)]


if __name__ == "__main__":
    kind, folder = sys.argv[1:]
    runs = {
        "torch": run_torch,
        "trainer": run_trainer,
        "trainer-resume": run_trainer_resume,
        "fabric": run_fabric,
        "fabric-resume": run_fabric_resume,
        "accelerate": run_accelerate,
        "accelerate-alone": lambda: run_accelerate(alone=True),
    }
    rank, seen = runs[kind]()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(seen))
