"""The command `unskew train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks
from unskew.cli.options import (
    AsJson,
    Configuration,
    Jobs,
    OneTarget,
    Quiet,
    Replicates,
    Seed,
    shows_progress,
    summary_of_refusal,
    written_command,
)
from unskew.errors import ConfigError, CoverageError, OverlapError

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", help="Folder for the model and the results; created if necessary."
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the training that the folder contains.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Throw away what the folder contains, and start again.")
]
Arms = Annotated[
    list[str] | None,
    typer.Option(
        "--arm",
        help="debiased, naive, or a baseline; may be repeated, and all are compared. Default: "
        "\\[learn] arms.",
    ),
]
WeightsTable = Annotated[
    Path | None,
    typer.Option(
        "--weights", help="Train with the weights of this table (id, weight) instead of the arms."
    ),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="fast, article or probe; overrides \\[learn] preset."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", help="A network by name, or module:factory; overrides \\[learn] model."
    ),
]
Size = Annotated[
    int | None,
    typer.Option("--size", help="Side of the squares in pixels; overrides \\[learn] size."),
]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Overrides \\[learn] epochs.")]
WayOption = Annotated[
    str | None,
    typer.Option("--way", help="auto, weights, half, logit or head; overrides \\[learn] way."),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", help="Accuracy also by this column, or by a*b; repeatable; overrides \\[learn] by."
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or auto; overrides \\[learn] device.")
]


def train_network(
    configuration: Configuration,
    output: Output,
    resume: Resume = False,
    force: Force = False,
    arms: Arms = None,
    weights: WeightsTable = None,
    preset: Preset = None,
    model: Model = None,
    size: Size = None,
    epochs: Epochs = None,
    way: WayOption = None,
    by: By = None,
    device: Device = None,
    target: OneTarget = None,
    replicates: Replicates = 1000,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
    jobs: Jobs = None,
) -> int:
    """Train a model with the weights, judge it on held-out images, and write its card.

    The folder contains everything that `unskew weigh` writes, and the model with its metrics. A run
    that was stopped continues with --resume.
    """
    from unskew.cli import terminal
    from unskew.files.locks import folder_locked
    from unskew.runs.inputs import load_config
    from unskew.training.run import override_learn, prepare_training, run_training

    console, bar = terminal.open_console(quiet or as_json), shows_progress(quiet, as_json)
    learn = {"preset": preset, "model": model, "size": size, "epochs": epochs, "way": way}
    with folder_locked(output), remarks(quiet):
        if weights is not None and arms:
            raise ConfigError(
                "--weights trains with the weights of a table instead of the arms: remove --arm "
                "or --weights.",
                option="--weights",
            )
        config = load_config(configuration, seed=seed, jobs=jobs, target=target)
        config = override_learn(
            config, {**learn, "device": device, "arms": arms or None, "by": by or None}
        )
        try:
            prepared = prepare_training(
                config,
                output,
                weights=weights,
                resume=resume,
                force=force,
                command=written_command(),
                progress=bar,
            )
        except (OverlapError, CoverageError) as error:
            terminal.print_refusal(console, summary_of_refusal(error), output, as_json=as_json)
            return NOT_IDENTIFIABLE
        terminal.print_lines(console, prepared.lines())
        trained = run_training(prepared, progress=bar, replicates=replicates)
    if as_json:
        print_json(trained.to_dict())
    else:
        terminal.print_lines(console, trained.lines())
    return DONE
