"""``unskew demo``, step by step: the command that does it, what it prints, and at the end what it
is worth.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.cli import terminal
from unskew.runs import forecast as forecast_page
from unskew.runs import weighing as pipeline
from unskew.simulation import digits as demo

if TYPE_CHECKING:
    from rich.console import Console


def walk_through(
    output: Path, console: Console, *, jobs: int | None = None, progress: bool | None = None
) -> dict[str, Any]:
    """Go the whole way in a folder; what `unskew demo --json` prints."""
    configuration, results = demo.prepare_demo(output), output / "results"
    weigh = f"unskew weigh {configuration} -o {results}"
    forecast = f"unskew forecast {configuration} --learner {demo.LEARNER} -o {results}"

    terminal.print_heading(
        console, f"unskew describe {' '.join(str(output / name) for name in demo.CAMERAS)}"
    )
    told = pipeline.describe_places(
        [output / name for name in demo.CAMERAS], jobs=jobs, progress=progress
    )
    terminal.print_description(console, told)

    terminal.print_heading(console, f"unskew check {configuration}")
    inputs = pipeline.read_inputs(pipeline.load_config(configuration, jobs=jobs), progress=progress)
    run = pipeline.weigh_inputs(inputs, command=weigh)
    terminal.print_check(console, run.summary)

    terminal.print_heading(console, weigh)
    terminal.print_written(console, results, pipeline.write_run(run, results))

    terminal.print_heading(console, forecast)
    arms = ["naive", "debiased"]
    found, record = forecast_page.forecast_record(
        inputs, arms, demo.LEARNER, command=forecast, progress=progress
    )
    forecast_page.write_forecast(record, results)
    terminal.print_paragraph(console, "\n".join(found.lines()))

    terminal.print_heading(
        console, "What it is worth: logistic regression, scored on pictures drawn without bias"
    )
    scores = [demo.compare_learners(seed) for seed in demo.SEEDS]
    forecasts = [demo.forecast_trial(seed) for seed in demo.SEEDS]
    table = demo.describe_scores(scores, forecasts)
    terminal.print_paragraph(
        console, "\n".join([*table, "", demo.measured_beside(found.gain, scores[0])])
    )

    page = (results / pipeline.PAGE).resolve()
    terminal.print_paragraph(console, f"\nThe page: {page}")
    listed = [{name: asdict(score) for name, score in trial.items()} for trial in scores]
    return {"page": str(page), "scores": listed, "forecast_gains": [gain for gain, _ in forecasts]}
