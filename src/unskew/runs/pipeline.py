"""`unskew.run`: a configuration from its sources to its results; the order is written down here."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from unskew.config.run_config import RunConfig, read_config
from unskew.errors import CoverageError, OverlapError
from unskew.runs.forecast import add_forecast, join_forecast
from unskew.runs.inputs import Inputs, read_inputs
from unskew.runs.output import check_output, unreadable_listed, write_refusal, write_run
from unskew.runs.weighing import Run, weigh_inputs


def run(
    config: str | PathLike[str] | RunConfig | Inputs,
    out: str | PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    progress: bool | None = None,
) -> Run:
    """Run a configuration: read, represent, fit, solve, weigh, diagnose and report.

    This is what `unskew weigh` does. Weights are those of `unskew.debias` for every split, fitted
    on train where there are splits.

    Parameters
    ----------
    config : a TOML file, settings that were read from one, or inputs that were read already.
    out : folder for weights, solution, diagnostics, features, settings and page, written together
        or not at all; None: nothing is written.
    overwrite : replace the results of another run in ``out``.
    command : kept with the results as the command that made them.
    progress : a bar while images are read; None: where the error stream is a terminal.

    Returns
    -------
    Run
        With ``inputs``, ``weights``, ``diagnostics`` and ``summary``.

    Raises
    ------
    ConfigError : the settings, or the output folder, cannot be used.
    DataError : the images or tables cannot be used.
    OverlapError, CoverageError : the target is not identifiable. The page says why: it is written
        to ``out``, and ``error.summary`` has what it shows.

    Examples
    --------
    >>> import unskew
    >>> result = unskew.run("run.toml", "results")  # doctest: +SKIP
    >>> result.weights.weights.ess  # doctest: +SKIP
    """
    folder = None if out is None else Path(out)
    if folder is not None:
        check_output(folder, overwrite)
    if isinstance(config, Inputs):
        inputs = config
    else:
        settings = config if isinstance(config, RunConfig) else read_config(config)
        with unreadable_listed(folder):
            inputs = read_inputs(settings, progress=progress)
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
    if not inputs.config.report.forecast:
        result = join_forecast(result, folder)
    return replace(result, files=tuple(write_run(result, folder)))
