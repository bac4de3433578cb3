"""``unskew demo``, step by step: each command, what it prints, and at the end the gain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.cli import terminal
from unskew.runs.first_look import describe_folders
from unskew.runs.forecast import forecast_record
from unskew.runs.inputs import load_config
from unskew.runs.output import FORECAST, PAGE, write_run
from unskew.runs.page_panels import write_with_panel
from unskew.runs.pipeline import run
from unskew.simulation import digits as demo

if TYPE_CHECKING:
    from rich.console import Console


def walk_through(
    output: Path, console: Console, *, jobs: int | None = None, progress: bool | None = None
) -> dict[str, Any]:
    """Run every step in a folder; return what `unskew demo --json` prints."""
    configuration, results = demo.prepare_demo(output), output / "results"
    weigh = f"unskew weigh {configuration} -o {results}"
    forecast = (
        f"unskew forecast {configuration} --learner {demo.LEARNER} --way weights -o {results}"
    )

    terminal.print_heading(
        console, f"unskew describe {' '.join(str(output / name) for name in demo.CAMERAS)}"
    )
    description = describe_folders(
        [output / name for name in demo.CAMERAS], jobs=jobs, progress=progress
    )
    terminal.print_description(console, description)

    terminal.print_heading(console, f"unskew check {configuration}")
    done = run(load_config(configuration, jobs=jobs), command=weigh, progress=progress)
    terminal.print_check(console, done.summary)

    terminal.print_heading(console, weigh)
    terminal.print_written(console, results, write_run(done, results))

    terminal.print_heading(console, forecast)
    arms = ["naive", "debiased"]
    prediction, record = forecast_record(
        done.inputs, arms, demo.LEARNER, "weights", command=forecast, progress=progress
    )
    write_with_panel(record, results, FORECAST)
    terminal.print_paragraph(console, "\n".join(prediction.lines()))

    terminal.print_heading(
        console, "The gain: logistic regression, scored on pictures drawn without bias"
    )
    scores = [demo.compare_learners(seed) for seed in demo.SEEDS]
    forecasts = [demo.forecast_trial(seed) for seed in demo.SEEDS]
    table = demo.describe_scores(scores, forecasts)
    terminal.print_paragraph(
        console, "\n".join([*table, "", demo.measured_beside(prediction.gain, scores[0])])
    )

    page = (results / PAGE).resolve()
    terminal.print_paragraph(console, f"\nThe page: {page}")
    listed = [{name: asdict(score) for name, score in trial.items()} for trial in scores]
    return {"page": str(page), "scores": listed, "forecast_gains": [gain for gain, _ in forecasts]}
