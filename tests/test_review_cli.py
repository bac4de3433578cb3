"""What a stranger met who tried to break the command line: each was broken once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import write_picture
from unskew.cli import run_command

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
Captured = pytest.CaptureFixture[str]

TABLE = """\
[sources]
manifest = "t.csv"
images = false
"""
STRATA = """
[target]
uniform = "label"

[bias]
family = "strata"
by = ["label"]
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two sources without images; the configuration."""
    rng = np.random.default_rng(0)
    label = rng.choice(["cat", "dog"], 80)
    frame = pd.DataFrame({"source": np.repeat(["a", "b"], 40), "label": label, "z": rng.normal(size=80)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "run.toml").write_text(TABLE + STRATA)
    return tmp_path / "run.toml"


def test_several_labels_for_an_image(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"source": np.repeat(["a", "b"], 30), "label": rng.choice(["cat", "dog", "cat;dog"], 60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    everything = '\n[bias]\nfamily = "subpopulation"\nqueries = { a = "all", b = "all" }\n'
    (tmp_path / "run.toml").write_text(TABLE + 'label_separator = ";"\n' + everything)
    assert run_command(["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    assert run_command(["verify", str(tmp_path / "out"), "--quiet"]) == 0
    (tmp_path / "run.toml").write_text(TABLE + 'label_separator = ";"\n' + STRATA)
    assert run_command(["check", str(tmp_path / "run.toml")]) == 4
    assert "label holds lists" in capsys.readouterr().err
