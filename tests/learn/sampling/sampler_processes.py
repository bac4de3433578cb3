"""Run by test_sampler_processes.py in processes of their own: which images each process sees.

python sampler_processes.py KIND FOLDER, the kinds being those at the end of this file.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from unskew.learn import WeightedDataset, WeightedSampler

N_EPOCHS = 2
SIZE = 97  # no multiple of two processes
WEIGHT = np.random.default_rng(0).exponential(size=50) * (np.arange(50) % 5 > 0)
DATA = TensorDataset(torch.arange(50))


def make_loader() -> DataLoader:
    return DataLoader(DATA, batch_size=8, sampler=WeightedSampler(WEIGHT, size=SIZE))


def make_view_loader(**options) -> DataLoader:
    """Whoever trains puts its own sampler in."""
    return DataLoader(WeightedDataset(DATA, WEIGHT, size=SIZE), batch_size=8, **options)


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


def run_accelerate(alone: bool = False, dispatch: bool = False) -> tuple[int, list[list[int]]]:
    """Accelerate hands out the batches of a loader that it prepared; else the sampler shards."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    config = DataLoaderConfiguration(dispatch_batches=dispatch)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    loader = make_loader() if alone else accelerator.prepare(make_loader())
    return accelerator.process_index, [rows(loader) for _ in range(N_EPOCHS)]


def run_view_torch() -> tuple[int, list[list[int]]]:
    """With workers that stay from epoch to epoch."""
    from torch.utils.data.distributed import DistributedSampler

    torch.distributed.init_process_group("gloo")
    view = make_view_loader().dataset
    sampler = DistributedSampler(view)
    loader = DataLoader(view, batch_size=8, sampler=sampler, num_workers=1, persistent_workers=True)
    seen = []
    for epoch in range(N_EPOCHS):
        sampler.set_epoch(epoch)
        view.set_epoch(epoch)
        seen.append(rows(loader))
    rank = torch.distributed.get_rank()
    torch.distributed.destroy_process_group()
    return rank, seen


def run_view_trainer() -> tuple[int, list[list[int]]]:
    from lightning.pytorch.callbacks import Callback

    class SetEpoch(Callback):
        def on_train_epoch_start(self, trainer, _) -> None:
            trainer.train_dataloader.dataset.set_epoch(trainer.current_epoch)

    model = recorder()
    trainer = make_trainer(devices=2, callbacks=[SetEpoch()])
    trainer.fit(model, make_view_loader(shuffle=True))
    return trainer.global_rank, model.seen


def run_view_fabric() -> tuple[int, list[list[int]]]:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=2)
    fabric.launch()
    plain = make_view_loader(shuffle=True)
    loader = fabric.setup_dataloaders(plain)
    seen = []
    for epoch in range(N_EPOCHS):
        plain.dataset.set_epoch(epoch)
        seen.append(rows(loader))
    return fabric.global_rank, seen


def run_view_accelerate() -> tuple[int, list[list[int]]]:
    """Accelerate sets the epoch of the dataset itself."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(make_view_loader(shuffle=True))
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
        "accelerate-dispatch": lambda: run_accelerate(dispatch=True),
        "view-torch": run_view_torch,
        "view-trainer": run_view_trainer,
        "view-fabric": run_view_fabric,
        "view-accelerate": run_view_accelerate,
    }
    rank, seen = runs[kind]()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(seen))
