"""Run by test_processes.py under torchrun: python torchrun_process.py FOLDER [follow].

Each process writes the rows that it drew; with "follow" all but rank 0 know no data.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from small_trainings import small_data
from unskew.learn import train_model
from unskew.learn.processes import follow_trainings, follows, leading
from unskew.learn.training_data import DeviceRows


def main(folder: Path, rank: str) -> None:
    from training_process import make_settings

    drawn: list[list[int]] = []
    take = DeviceRows.take

    def recorded(self, rows):
        if torch.is_grad_enabled():
            drawn.append(rows.tolist())
        return take(self, rows)

    DeviceRows.take = recorded
    torch.set_num_threads(1)
    settings = make_settings(
        model="training_networks:pretrained_linear",
        epochs=2,
        head_share=0.5,
        probe_start=True,
        precision="64-true",
        learning_rate=0.05,
    )
    if "follow" in sys.argv and follows():
        follow_trainings()
    else:
        with leading():
            train_model(small_data(), settings, folder / "model", logs=False, progress=False)
    (folder / f"drawn-{rank}.json").write_text(json.dumps(drawn), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), os.environ["RANK"])
