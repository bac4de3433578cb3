"""`unskew.run`: a configuration from its sources to its results; the order is written down here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from unskew.config.run_config import RunConfig, read_config
from unskew.debiasing.pool_weights import SplitWeights, weigh_checked_splits
from unskew.debiasing.several_targets import first_refusal, retarget, weigh_each
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.diagnosis.target_comparison import (
    compare_targets,
    judge_all_targets,
    refused_targets,
)
from unskew.engine.arguments import checked
from unskew.errors import CoverageError, OverlapError, wrong_option
from unskew.files.addresses import is_address, uploaded_folder
from unskew.files.locks import folder_locked
from unskew.records import Diagnostics, Target
from unskew.report.summary.record import SplitRow, Summary
from unskew.report.summary.refusal import summarize_refusal
from unskew.report.summary.summarize import summarize_run
from unskew.report.summary.verdict_words import mark_placeholder
from unskew.runs.inputs import Inputs, describe_origin, guessed_target, read_inputs
from unskew.runs.output import check_output, unreadable_listed, write_refusal, write_run
from unskew.sources.part_pool import PartPool

# Over all galleries of the page.
_MOST_PICTURES = 120


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run in memory.

    Attributes
    ----------
    inputs : settings, pool, target and bias model.
    weights : of every split.
    diagnostics : fit check, error bars and sensitivity of the weights that the page is about.
    summary : what the page shows.
    targets : with several targets, the weights for each, by name; ``weights`` are those for the
        first, the main one. Empty where there is only one.
    forecast : what forecast.json holds, if a forecast was made with the run.
    files : what was written into the output folder.
    """

    inputs: Inputs
    weights: SplitWeights
    diagnostics: Diagnostics
    summary: Summary
    targets: Mapping[str, SplitWeights] = field(default_factory=dict)
    forecast: Mapping[str, Any] | None = None
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Show the pool, the verdict, and what was written."""
        verdict = self.summary.verdict
        lines = [f"Run of {self.inputs.pool!r}: {verdict.level}", f"  {verdict.headline}"]
        return "\n".join([*lines, *([f"  files: {', '.join(self.files)}"] if self.files else [])])


def weigh_inputs(inputs: Inputs, *, command: str | None = None) -> Run:
    """Weigh, diagnose and summarize; an error says why a target is not identifiable.

    The error's ``summary`` is what the page of the refused run shows.
    """
    config = inputs.config
    heading = make_heading(inputs, command)
    by_target = _weigh(inputs, heading)
    weights = next(iter(by_target.values()))
    # The page is about the images that the model was fitted on; the other splits are listed.
    pool, row = inputs.pool, weights.parts[0].row
    if row.size < len(pool):
        pool = replace(pool.take(row), set_aside=pool.set_aside)
    outcomes = config.report.outcomes or None
    diagnostics = diagnose(
        pool,
        weights.weights,
        outcomes=outcomes,
        rng=config.engine.seed,
        privacy=config.report.privacy,
    )
    summary = summarize_run(
        pool,
        weights.weights,
        diagnostics,
        splits=_split_rows(weights),
        thumbnails=_MOST_PICTURES if config.report.thumbnails else 0,
        part=weights.parts[0].name if len(weights.parts) > 1 else None,
        **heading,
    )
    sets = [own.within for own in (*inputs.targets.values(), inputs.target) if own is not None]
    if len(by_target) > 1 or any(sets):
        panel = compare_targets(
            pool,
            {name: own.weights for name, own in by_target.items()},
            diagnostics,
            outcomes=outcomes,
            splits={name: _split_rows(own) for name, own in by_target.items()},
            privacy=config.report.privacy,
            bias=inputs.bias,
            seed=config.engine.seed,
        )
        summary = judge_all_targets(replace(summary, targets=panel))
    summary = with_placeholder(inputs, summary)
    return Run(inputs, weights, diagnostics, summary, by_target if inputs.targets else {})


def make_heading(inputs: Inputs, command: str | None) -> dict[str, Any]:
    """Return what the page of a run begins and ends with: title, privacy, provenance."""
    report = inputs.config.report
    return {
        "title": report.title or "Debiasing report",
        "privacy": report.privacy,
        "provenance": describe_origin(inputs, command),
    }


def _weigh(inputs: Inputs, heading: Mapping[str, Any]) -> dict[str, SplitWeights]:
    """Weigh every split to every target; a single target without a name has the name "".

    An error carries the page of the refused run.
    """
    options = {"rng": inputs.config.engine.seed, **inputs.config.solve.settings()}

    def weigh(target: Target | None) -> SplitWeights:
        return weigh_checked_splits(inputs.pool, inputs.bias, target, **options)

    def reuse(known: SplitWeights, target: Target) -> SplitWeights:
        pool = inputs.pool.take(known.parts[0].row)
        return replace(known, weights=retarget(pool, inputs.bias, known.weights, target))

    if not inputs.targets:
        try:
            return {"": weigh(inputs.target)}
        except (OverlapError, CoverageError) as error:
            summary = summarize_refusal(inputs.pool, error, target=inputs.target, **heading)
            error.summary = with_placeholder(inputs, summary)
            raise
    weighed, refused = weigh_each(inputs.targets, weigh, reuse, inputs.bias)
    if refused:
        messages = {name: str(each) for name, each in refused.items()}
        first = first_refusal(refused, len(inputs.targets))
        panel = refused_targets(
            inputs.targets,
            {name: own.weights for name, own in weighed.items()},
            messages,
            privacy=heading["privacy"],
        )
        target = inputs.targets[next(iter(refused))]
        summary = summarize_refusal(inputs.pool, first, target=target, **heading)
        summary = with_placeholder(inputs, summary)
        first.summary = summary if len(inputs.targets) == 1 else replace(summary, targets=panel)
        raise first
    return weighed


def with_placeholder(inputs: Inputs, summary: Summary) -> Summary:
    """Say on the page that a target is one that `unskew init` guessed, where it is."""
    guess = guessed_target(inputs)
    if guess is None:
        return summary
    return replace(summary, verdict=mark_placeholder(summary.verdict, guess))


def _split_rows(weights: SplitWeights) -> tuple[SplitRow, ...]:
    if len(weights.parts) == 1:
        return ()
    return tuple(
        SplitRow(part.name, part.images, part.groups, part.ess, part.note) for part in weights.parts
    )


@checked
def run(
    config: str | PathLike[str] | RunConfig | Inputs,
    out: str | PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    progress: bool | None = None,
    allow_code: Collection[str] = (),
) -> Run:
    """Run a configuration: read, represent, fit, solve, weigh, diagnose and report.

    This is what `unskew weigh` does. Weights are those of `unskew.debias` for every split, fitted
    on train where there are splits.

    Parameters
    ----------
    config : a TOML file, settings that were read from one, or inputs that were read already.
    out : folder for weights, solution, diagnostics, features, settings and page, written together
        or not at all; None: nothing is written. To an address (``s3://bucket/out``) they are
        uploaded at the end, `files.json` last; there are no locks there.
    overwrite : replace the results of another run in ``out``.
    command : kept with the results as the command that made them.
    progress : a bar while images are read; None: where the error stream is a terminal.
    allow_code : modules and files of networks next to a TOML file, or in the working directory,
        that it may run, by name.

    Returns
    -------
    Run
        With ``inputs``, ``weights``, ``diagnostics`` and ``summary``.

    Raises
    ------
    ConfigError : the settings, or the output folder, cannot be used.
    LockedError : another run is writing into ``out``.
    DataError : the images or tables cannot be used.
    OverlapError, CoverageError : the target is not identifiable. The page says why: it is written
        to ``out``, and ``error.summary`` has what it shows.

    Examples
    --------
    >>> import unskew
    >>> result = unskew.run("run.toml", "results")  # doctest: +SKIP
    >>> result.weights.weights.ess  # doctest: +SKIP
    """
    if not isinstance(config, str | PathLike | RunConfig | Inputs):
        raise wrong_option(
            "a run takes a configuration: the path of a TOML file, or what read_config returns",
            config=type(config).__name__,
        )
    if isinstance(out, str) and is_address(out):
        with uploaded_folder(out, overwrite=overwrite) as made:
            options = {"progress": progress, "allow_code": allow_code}
            return run(config, made, command=command, **options)  # type: ignore[arg-type]
    if isinstance(config, str | PathLike):
        config = read_config(config, allow_code=allow_code)
    settings = config.config if isinstance(config, Inputs) else config
    folder = None if out is None else Path(out)
    if folder is not None:
        check_output(folder, overwrite, settings)
    with nullcontext() if folder is None else folder_locked(folder):
        if folder is not None:  # another run may have ended in between
            check_output(folder, overwrite, settings)
        return _run_locked(config, folder, command, progress)


def check_config(config: RunConfig, *, progress: bool | None = None) -> Summary:
    """Judge whether a configuration can be debiased, as a run does; of parts the subsample alone.

    An error carries the page of the refused run.
    """
    inputs = read_inputs(config, progress=progress, beyond="parts")
    if isinstance(inputs.pool, PartPool):
        from unskew.runs.part_run import check_subsample

        return check_subsample(inputs)
    return weigh_inputs(inputs).summary


def _run_locked(
    config: RunConfig | Inputs, folder: Path | None, command: str | None, progress: bool | None
) -> Run:
    from unskew.runs.forecast import add_forecast
    from unskew.runs.page_panels import join_panels

    if isinstance(config, Inputs):
        inputs = config
    else:
        with unreadable_listed(folder):
            inputs = read_inputs(config, progress=progress, beyond="parts")
    if isinstance(inputs.pool, PartPool):
        from unskew.runs.part_run import run_parts

        return run_parts(inputs, folder, command, progress)
    try:
        result = weigh_inputs(inputs, command=command)
    except (OverlapError, CoverageError) as error:
        if folder is not None:
            write_refusal(inputs, error.summary, folder)
        raise
    if inputs.config.report.forecast:
        result = add_forecast(result, progress=progress)
    if folder is None:
        return result
    result = join_panels(result, folder)
    return replace(result, files=tuple(write_run(result, folder)))
