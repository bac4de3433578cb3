"""The command `unskew train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.cli.error_messages import DONE, NOT_IDENTIFIABLE, print_json, remarks
from unskew.cli.options import (
    Common,
    Configuration,
    Replicates,
    summary_of_refusal,
    taking,
    written_command,
)
from unskew.errors import ConfigError, CoverageError, OverlapError

# Each overrides its key of [learn].
_HOW, _CHANGES = "How a network is trained", "Augmentation"


@taking("target", "as_json", "quiet", "seed", "allow_code", "jobs")
def train_network(
    configuration: Configuration,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for the model and the results; created if necessary."
        ),
    ],
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the training that the folder contains.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the training in the folder, and start again.")
    ] = False,
    arms: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            help="debiased, naive, or a baseline; may be repeated, and all are compared. Default: "
            "\\[learn] arms.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            help="Train with the weights of this table (id, weight) instead of the arms.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", help="fast, finetune, article or probe; overrides \\[learn] preset."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="A network by name, or module:factory; overrides \\[learn] model."
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", help="Side of the squares in pixels; overrides \\[learn] size."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Overrides \\[learn] epochs.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="Train every arm with so many seeds: means and spreads; \\[learn] seeds.",
        ),
    ] = None,
    way: Annotated[
        str | None,
        typer.Option("--way", help="auto, weights, half, logit or head; overrides \\[learn] way."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            help="Accuracy also by this column, or by a*b; repeatable; overrides \\[learn] by.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, cuda or auto; overrides \\[learn] device.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Images in a batch.", rich_help_panel=_HOW)
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option("--optimizer", help="sgd or adamw.", rich_help_panel=_HOW)
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="Largest learning rate.", rich_help_panel=_HOW),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule", help="one_cycle, cosine, steps or constant.", rich_help_panel=_HOW
        ),
    ] = None,
    warmup: Annotated[
        float | None,
        typer.Option(
            "--warmup",
            help="Share of the steps in which the learning rate rises.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    milestones: Annotated[
        list[float] | None,
        typer.Option(
            "--milestone",
            help="When schedule steps divides the rate, as a share of the epochs; repeatable.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    momentum: Annotated[
        float | None,
        typer.Option("--momentum", help="Momentum of the optimiser.", rich_help_panel=_HOW),
    ] = None,
    weight_decay: Annotated[
        float | None,
        typer.Option("--weight-decay", help="Weight decay of the optimiser.", rich_help_panel=_HOW),
    ] = None,
    head_share: Annotated[
        float | None,
        typer.Option(
            "--head-share",
            help="Share of the epochs, at the start, that train only the last layer.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    update_batch_norm: Annotated[
        bool | None,
        typer.Option(
            "--update-batch-norm/--keep-batch-norm",
            help="Estimate batch normalisation after each epoch on images drawn by weight, or not.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision", help="auto, 32-true, bf16-mixed or 16-mixed.", rich_help_panel=_HOW
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            "--memory",
            help="Megabytes of pixels held in memory; more are read as needed.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    logger: Annotated[
        str | None,
        typer.Option(
            "--logger",
            help="tensorboard, csv, mlflow, wandb, none, or a class.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    augment: Annotated[
        bool | None,
        typer.Option(
            "--augment/--no-augment",
            help="Change images at random, or not at all.",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    crop: Annotated[
        str | None, typer.Option("--crop", help="shift, resized or none.", rich_help_panel=_CHANGES)
    ] = None,
    flip: Annotated[
        bool | None,
        typer.Option(
            "--flip/--no-flip", help="Mirror half of the images.", rich_help_panel=_CHANGES
        ),
    ] = None,
    jitter: Annotated[
        float | None,
        typer.Option(
            "--jitter",
            help="How much brightness, contrast and saturation change.",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    cutout: Annotated[
        int | None,
        typer.Option(
            "--cutout", help="Side of a square that is blanked out.", rich_help_panel=_CHANGES
        ),
    ] = None,
    replicates: Replicates = 1000,
    *,
    common: Common,
) -> int:
    """Train a model with the weights, judge it on held-out images, and write its card.

    The folder contains everything that `unskew weigh` writes, and the model with its metrics. A run
    that was stopped continues with --resume.
    """
    from unskew.cli import terminal
    from unskew.files.locks import folder_locked
    from unskew.files.user_code import permit_code
    from unskew.learn.processes import follow_trainings, follows, leading
    from unskew.runs.inputs import load_config, warn_of_placeholder
    from unskew.training.run import override_learn, prepare_training, run_training

    console, bar = terminal.open_console(common.quiet or common.as_json), common.bar
    if follows():
        # The module of a network may be in the folder of the configuration: it must be allowed.
        load_config(configuration, allow_code=common.allowed)
        follow_trainings()
        return DONE
    learn: dict[str, Any] = {}
    learn |= {"preset": preset, "model": model, "size": size, "epochs": epochs, "way": way}
    learn |= {"batch": batch, "optimizer": optimizer, "learning_rate": learning_rate}
    learn |= {"schedule": schedule, "warmup": warmup, "milestones": milestones or None}
    learn |= {"momentum": momentum, "weight_decay": weight_decay, "head_share": head_share}
    learn |= {"update_batch_norm": update_batch_norm, "precision": precision, "memory": memory}
    learn |= {"logger": logger, "augment": augment, "crop": crop, "flip": flip, "jitter": jitter}
    learn |= {"cutout": cutout, "seeds": seeds}
    report = (
        None if common.quiet or common.as_json or console.is_terminal else terminal.print_at_once
    )
    with folder_locked(output), remarks(common.quiet):
        if weights is not None and arms:
            raise ConfigError(
                "--weights trains with the weights of a table instead of the arms: remove --arm "
                "or --weights.",
                option="--weights",
            )
        config = common.load(configuration)
        if model is not None:
            permit_code(model, common.allowed, [config.folder], typed=True)
        config = override_learn(
            config, {**learn, "device": device, "arms": arms or None, "by": by or None}
        )
        if report is not None:
            report("Reading and weighing the images.")
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
            terminal.print_refusal(
                console, summary_of_refusal(error), output, as_json=common.as_json
            )
            return NOT_IDENTIFIABLE
        warn_of_placeholder(prepared.training.inputs)
        terminal.print_lines(console, prepared.lines())
        with leading():
            trained = run_training(prepared, progress=bar, replicates=replicates, report=report)
    if common.as_json:
        print_json(trained.to_dict())
    else:
        terminal.print_lines(console, trained.lines())
    return DONE
