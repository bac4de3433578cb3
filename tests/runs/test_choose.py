"""`unskew choose`: models compared on the data of a configuration, and the copy that it writes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew.cli.app import run_command
from unskew.config.run_config import read_config
from unskew.runs.choose import candidates_of, default_path

RUN = """# my run
[sources]
manifest = "t.csv"  # the table
images = false

[target]
source = "reference"

[bias]  # a guess
family = "box"
features = ["x"]

[engine]
seed = 3
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A reference and a source that is tilted along x."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    kept = rng.random(800) < 1 / (1 + np.exp(-2 * x))
    frame = pd.DataFrame({"source": "reference", "x": rng.normal(size=300)})
    tilted = pd.DataFrame({"source": "tilted", "x": x[kept]})
    pd.concat([frame, tilted]).round(6).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path / "run.toml"


def test_the_copy_has_the_chosen_model_and_all_other_lines(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["choose", str(config)]) == 0
    out = capsys.readouterr().out
    assert "Tilt(x)" in out
    assert "unskew check" in out
    copy = default_path(config)
    text = copy.read_text()
    assert tomllib.loads(text)["bias"]["family"] == "tilt"
    assert '# my run\n[sources]\nmanifest = "t.csv"  # the table\n' in text
    assert "a guess" not in text
    assert read_config(copy).engine.seed == 3
    assert config.read_text() == RUN
    assert run_command(["choose", str(config)]) == 2  # the copy exists


def test_elsewhere_the_copy_finds_the_data(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "new.toml"
    other.parent.mkdir()
    assert run_command(["choose", str(config), "-o", str(other), "-q"]) == 0
    assert read_config(other).folder == config.parent.resolve()


def test_candidates_use_the_features_that_are_named() -> None:
    frame = pd.DataFrame({"source": list("ab") * 4, "label": list("xxyy") * 2})
    pool = unskew.Pool.from_frame(frame.assign(f=range(8), g=range(8)))
    given = unskew.bias.Product(unskew.bias.Strata("label"), unskew.bias.Box(["f"]))
    target = unskew.Target.margins({"label": {"x": 0.5, "y": 0.5}})
    columns = {
        name for one in candidates_of(given, pool, target) for p in one.parts for name in p.columns
    }
    assert columns == {"label", "f"}
    assert [type(one).__name__ for one in candidates_of(None, pool, target)] == ["Strata"]
