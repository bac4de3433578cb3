"""`unskew demo`: every step is run and shown with its command; here on a few pictures."""

from __future__ import annotations

import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from run_data import init_vendors
from unskew.cli.demo import walk_through
from unskew.simulation import digits
from unskew.simulation.digits import Score

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_the_steps_come_in_order_and_the_record_holds_the_scores(
    vendors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "demo"

    def prepare(folder: Path) -> Path:
        folder.mkdir()
        for name in ("north", "south"):
            (folder / name).symlink_to(vendors / name)
        return init_vendors(folder, folder)

    def compare(seed: int) -> dict[str, Score]:
        return {
            "naive": Score(0.7 + 0.01 * seed, 0.3, 0.5),
            "debiased": Score(0.8 + 0.01 * seed, 0.6, 0.7),
        }

    monkeypatch.setattr(digits, "prepare_demo", prepare)
    monkeypatch.setattr(digits, "CAMERAS", ("north", "south"))
    monkeypatch.setattr(digits, "SEEDS", (0, 1))
    monkeypatch.setattr(digits, "compare_learners", compare)
    monkeypatch.setattr(digits, "forecast_trial", lambda seed: (0.09 + 0.01 * seed, 0.3))
    monkeypatch.setattr(digits, "measured_beside", lambda gain, scores: "Measured beside it.")
    text = StringIO()
    record = walk_through(output, Console(file=text, width=1000), jobs=1, progress=False)
    shown = text.getvalue()
    at = 0
    for step in (
        f"unskew describe {output / 'north'} {output / 'south'}",
        f"unskew check {output / 'run.toml'}",
        f"unskew weigh {output / 'run.toml'} -o {output / 'results'}",
        f"unskew forecast {output / 'run.toml'} --learner {digits.LEARNER}",
        "The gain: logistic regression",
        "Measured beside it.",
        f"The page: {output / 'results' / 'report.html'}",
    ):
        at = shown.index(step, at) + len(step)
    assert (output / "results" / "report.html").is_file()
    assert record["page"] == str((output / "results" / "report.html").resolve())
    assert json.loads(json.dumps(record["scores"])) == [
        {name: asdict(score) for name, score in compare(seed).items()} for seed in (0, 1)
    ]
    assert record["forecast_gains"] == pytest.approx([0.09, 0.1])
    # The forecast is that of the run, on its page.
    written = json.loads((output / "results" / "forecast.json").read_text())
    assert [arm["name"] for arm in written["arms"]] == ["naive", "debiased"]
