"""A pretrained network on images of any size, from folders; pixels held, or read as needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from training_runs import FEW, write_training_run
from unskew.cli.app import run_command
from unskew.config.run_config import read_config
from unskew.training.pixels import image_side

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

ALLOWED = ["--allow-code", "training_networks"]
TUNED = ["--preset", "finetune", "--model", "training_networks:pretrained_features", *FEW, *ALLOWED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any-size")
    write_training_run(folder)
    rng = np.random.default_rng(0)
    for path in sorted(folder.glob("*/*/*.png"))[::3]:
        with Image.open(path) as image:
            enlarged = image.resize(tuple(int(side) for side in rng.integers(20, 60, 2)))
        enlarged.save(path)
    return folder


def test_what_is_held_and_what_is_read_as_needed_train_the_same_model(folder, capsys) -> None:
    """Piped, each epoch is a line; 0 MB: every square is read from a file."""
    for memory, more in (("1024", []), ("0", ["--logger", "csv"])):
        out = str(folder / f"memory-{memory}")
        command = ["train", str(folder / "run.toml"), "-o", out, *TUNED, "--memory", memory, *more]
        assert run_command(command) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Epoch")]
        assert [line.split(":")[0] for line in lines] == ["Epoch 1 of 2", "Epoch 2 of 2"]
    held, read = (folder / f"memory-{memory}" / "arms" / "debiased" for memory in ("1024", "0"))
    assert (held / "predictions.parquet").read_bytes() == (
        read / "predictions.parquet"
    ).read_bytes()
    settings = json.loads((read / "settings.json").read_text())
    assert (settings["optimizer"], settings["crop"], settings["schedule"]) == (
        "adamw",
        "resized",
        "cosine",
    )
    assert (read / "logs" / "metrics.csv").is_file()
    record = json.loads((folder / "memory-0" / "training.json").read_text())
    assert record["preprocessing"]["size"] == 16
    judge = ["evaluate", str(folder / "memory-0"), str(folder / "day"), "--quiet", *ALLOWED]
    assert run_command(judge) == 0


def test_options_reach_the_training(folder, capsys) -> None:
    out = str(folder / "options")
    options = ["--optimizer", "sgd", "--schedule", "steps", "--milestone", "0.5", "--momentum"]
    options += ["0.5", "--weight-decay", "0.1", "--no-flip", "--crop", "none", "--jitter", "0.1"]
    options += [
        "--keep-batch-norm",
        "--head-share",
        "1",
        "--learning-rate",
        "0.01",
        "--epochs",
        "1",
    ]
    assert run_command(["train", str(folder / "run.toml"), "-o", out, *TUNED, *options, "-q"]) == 0
    assert capsys.readouterr().out == ""
    settings = json.loads((Path(out) / "arms" / "debiased" / "settings.json").read_text())
    expected = {
        **{"optimizer": "sgd", "schedule": "steps", "milestones": [0.5], "momentum": 0.5},
        **{"weight_decay": 0.1, "flip": False, "crop": "none", "jitter": 0.1, "head_share": 1.0},
        **{"update_batch_norm": False, "learning_rate": 0.01, "epochs": 1},
    }
    assert {name: settings[name] for name in expected} == expected


def test_a_logger_that_is_not_installed_is_refused_before_the_weighing(folder, capsys) -> None:
    out = folder / "unlogged"
    command = ["train", str(folder / "run.toml"), "-o", str(out), *TUNED, "--logger", "no_such:Log"]
    assert run_command(command) == 2
    assert "no_such" in capsys.readouterr().err
    assert not out.exists()


def test_the_side_is_the_networks_and_at_most_128_on_a_processor(folder) -> None:
    text = (folder / "run.toml").read_text().replace("size = 16\n", 'device = "cpu"\n')

    def side(learn: str) -> int:
        path = folder / "side.toml"
        path.write_text(text.replace("[learn]", f"[learn]\n{learn}"))
        return image_side(read_config(path, allow_code=["training_networks"]))

    assert side("") == 32
    assert side('preset = "finetune"') == 128
    assert side('preset = "finetune"\nsize = 200') == 200
    assert side('preset = "finetune"\nmodel = "training_networks:pretrained_features"') == 6
