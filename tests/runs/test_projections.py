"""Principal components of a run, kept for other images."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from training_runs import CONFIGURATION, write_training_run
from unskew.cli.app import run_command

ALLOWED = ["--allow-code", "tinyembedding"]

NETWORK = """
import torch

class Small(torch.nn.Module):
    def forward(self, x):
        inner, over = x[:, :, 4:12, 4:12], (2, 3)
        return torch.cat([x.mean(dim=over), x.std(dim=over), inner.mean(dim=over)], dim=1)

def small():
    return Small()
"""


def test_a_probe_on_components_judges_other_images_with_the_components_of_its_run(
    tmp_path: Path,
) -> None:
    """Images of the run, judged as if they were others, get the scores of the run; alone they would
    have other components.
    """
    pytest.importorskip("torch")
    features = (
        '[represent]\nfeatures = ["brightness", { name = "embedding", model = '
        '"tinyembedding:small", size = 16, components = 3 }]\n'
    )
    write_training_run(
        tmp_path,
        CONFIGURATION.replace("size = 16\nepochs = 2\nbatch = 32", 'preset = "probe"') + features,
    )
    (tmp_path / "tinyembedding.py").write_text(NETWORK)
    out = tmp_path / "out"
    assert (
        run_command(
            [
                "train",
                str(tmp_path / "run.toml"),
                "-o",
                str(out),
                "--replicates",
                "0",
                "--quiet",
                *ALLOWED,
            ]
        )
        == 0
    )
    saved = tmp_path / "night.parquet"
    assert (
        run_command(
            [
                "evaluate",
                *ALLOWED,
                str(out),
                str(tmp_path / "night"),
                "--replicates",
                "0",
                "--save",
                str(saved),
                "--quiet",
            ]
        )
        == 0
    )
    own = pd.read_parquet(out / "predictions.parquet").set_index("id")
    own = own[own.index.str.startswith("night")]
    found = pd.read_parquet(saved).set_index("id").loc[own.index]
    assert found["score_disc"].to_numpy() == pytest.approx(own["score_disc"].to_numpy(), abs=1e-5)
    assert own["score_disc"].std() > 0.01
