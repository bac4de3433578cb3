"""Two runs compared: what differs is named, what agrees is not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import unskew
from unskew.cli.app import run_command
from unskew.runs.comparison import compare_runs

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of one table, towards 30% and 60% of class x."""
    folder = tmp_path_factory.mktemp("compared")
    rows = [{"source": EVIL if k % 3 else "b", "label": "xy"[k % 2]} for k in range(60)]
    pd.DataFrame(rows).to_csv(folder / "t.csv", index=False)
    for name, share in (("a", 0.3), ("b", 0.6)):
        (folder / f"{name}.toml").write_text(
            '[sources]\nmanifest = "t.csv"\nimages = false\n'
            f"[target]\nmargins.label = {{ x = {share}, y = {1 - share} }}\n"
            '[bias]\nfamily = "strata"\nby = ["label"]\n'
        )
        unskew.run(folder / f"{name}.toml", folder / name)
    return folder / "a", folder / "b"


def test_settings_and_weights_that_differ_are_named(runs: tuple[Path, Path]) -> None:
    comparison = compare_runs(*runs)
    assert [key for key, _, _ in comparison.settings] == [
        "target.margins.label.x",
        "target.margins.label.y",
    ]
    assert comparison.weights is not None
    assert comparison.weights.images == 60
    # The shares of x are 0.3 and 0.6, so 0.3 of the weight moves.
    assert comparison.weights.distance == pytest.approx(0.3)
    same = compare_runs(runs[0], runs[0])
    assert not same.settings
    assert same.weights is not None
    assert same.weights.distance == 0


def test_the_page_escapes_names_and_asks_for_nothing(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "compare.html"
    assert run_command(["compare", *map(str, runs), "-o", str(page)]) == 0
    assert "30.0% of the weight" in capsys.readouterr().out
    text = page.read_text()
    assert EVIL not in text
    assert "30.0%" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert run_command(["compare", *map(str, runs), "-o", str(page)]) == 2
    assert run_command(["compare", str(runs[0]), str(tmp_path)]) == 4
