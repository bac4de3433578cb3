"""A run over Parquet parts: totals of all images, the page of the subsample, weights in parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from unskew.debiasing.part_weights import PartWeights
from unskew.debiasing.pool_weights import ALL, SplitWeights, debias
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.errors import CoverageError, DataError, OverlapError
from unskew.files.plain_json import write_json
from unskew.records import Floats, Weights
from unskew.report.summary.record import StratumRow, Summary
from unskew.report.summary.refusal import summarize_refusal
from unskew.report.summary.summarize import summarize_run
from unskew.runs.forecast import add_forecast
from unskew.runs.inputs import Inputs
from unskew.runs.output import (
    FORECAST,
    PARTS_FILE,
    PARTS_FOLDER,
    SOLUTION,
    is_in_parts,
    replacing_run,
    solution_record,
    write_page_of,
    write_refusal,
)
from unskew.runs.page_panels import join_panels
from unskew.runs.part_inputs import describe_parts, sample_parts, subsample_size
from unskew.runs.pipeline import Run, make_heading, weigh_inputs, with_placeholder
from unskew.sources.part_pool import PartPool

_SAMPLED = "{} error bars and plots are from a subsample of {:,} of {:,} images"
# Parts that are written before the other files; a run that was stopped leaves them to the next.
_UNFINISHED = ".weights-unfinished"


@dataclass(frozen=True, eq=False)
class PartSplits(SplitWeights):
    """The weights of a run over parts, which has no splits; they are not in memory."""

    def _joined(self, values: list[Floats]) -> Floats:
        return self.weights.weight  # refused, with what to use


def run_parts(inputs: Inputs, out: Path | None, command: str | None, progress: bool | None) -> Run:
    """Weigh block by block, and write; nothing is written where ``out`` is None."""
    if out is not None:
        _check_folder(out)
    heading = make_heading(inputs, command)
    try:
        weights = weigh_parts(inputs)
    except (OverlapError, CoverageError) as error:
        summary = summarize_refusal(
            sample_inputs(inputs).pool, error, target=inputs.target, **heading
        )
        error.summary = with_placeholder(inputs, summary)
        if out is not None:
            write_refusal(inputs, error.summary, out)
        raise
    few = weights.sampled
    report = inputs.config.report
    pool = weights.fit.draw(None)
    diagnostics = diagnose(
        pool,
        few,
        outcomes=report.outcomes or None,
        rng=inputs.config.engine.seed,
        privacy=report.privacy,
    )
    summary = summarize_run(pool, _with_totals(few, weights), diagnostics, thumbnails=0, **heading)
    summary = replace(summary, strata=tuple(_of_all(row, weights) for row in summary.strata))
    sentence = _SAMPLED.format(_what(weights.fit.is_held), len(pool), weights.images) + (
        "; images, shares, effective sizes, normalizers and weights are of all."
    )
    summary = _with_sentence(with_placeholder(inputs, summary), sentence)
    splits = PartSplits(weights, ALL, (), np.empty(0, dtype=object))
    run = Run(inputs, splits, diagnostics, summary)
    if report.forecast:
        run = forecast_parts(run, progress=progress)
    if out is not None:
        run = join_panels(run, out)
    return run if out is None else replace(run, files=tuple(write_parts(run, out)))


def forecast_parts(run: Run, *asked: Any, progress: bool | None = None) -> Run:
    """Add a forecast to a run over parts, from the subsample."""
    made = add_forecast(replace(run, inputs=sample_inputs(run.inputs)), *asked, progress=progress)
    return replace(made, inputs=run.inputs)


def weigh_parts(inputs: Inputs) -> PartWeights:
    """Weigh by the settings of a run."""
    config, pool = inputs.config, inputs.pool
    weights = debias(
        pool,
        inputs.bias,
        inputs.target,
        rng=config.engine.seed,
        subsample=subsample_size(config),
        **cast(Any, config.solve.settings()),
    )
    return cast(PartWeights, weights)


def check_subsample(inputs: Inputs) -> Summary:
    """Judge the subsample alone, as if it were the pool."""
    from unskew.debiasing.part_debias import check_streamed

    pool, size = cast(PartPool, inputs.pool), subsample_size(inputs.config)
    check_streamed(pool, inputs.bias, inputs.target, size)
    few = sample_inputs(inputs)
    sentence = f"{_SAMPLED.format(_what(False), len(few.pool), len(pool))}, as is all else here."
    try:
        return _with_sentence(weigh_inputs(few).summary, sentence)
    except (OverlapError, CoverageError) as error:
        if error.summary is not None:
            error.summary = _with_sentence(error.summary, sentence)
        raise


def sample_inputs(inputs: Inputs) -> Inputs:
    """Return the inputs with the subsample in memory in place of the parts."""
    pool = cast(PartPool, inputs.pool)
    sample = sample_parts(pool, subsample_size(inputs.config), inputs.target)
    return replace(inputs, pool=sample, whole=pool)


def _with_totals(few: Weights, weights: PartWeights) -> Weights:
    """Give the weights of the subsample the totals of all images, for the page."""
    assert few.estimation is not None
    fitted = replace(few.estimation.fitted, left_out=weights.left_out)
    shown = replace(
        few,
        solution=weights.solution,
        overlap=weights.overlap,
        estimation=replace(few.estimation, fitted=fitted),
    )
    vars(shown)["diagnosis"] = weights.diagnosis
    return shown


def _of_all(row: StratumRow, weights: PartWeights) -> StratumRow:
    """Return the row of a stratum with what is counted over all images."""
    counted = weights.fit.by_stratum.get(row.stratum)
    if counted is None or row.images is None:
        return row
    images, ess, largest = counted
    return replace(
        row,
        images=images,
        pool=None if row.pool is None else images / weights.images,
        ess=None if row.ess is None else ess,
        groups=None,
        largest_weight=None if row.largest_weight is None else largest * weights.images,
    )


def _what(is_held: bool) -> str:
    return "The bias model's fit, tests," if is_held else "Tests,"


def _with_sentence(summary: Summary, sentence: str) -> Summary:
    verdict = summary.verdict
    return replace(summary, verdict=replace(verdict, sentences=(*verdict.sentences, sentence)))


def write_parts(run: Run, out: Path) -> list[str]:
    """Write the weights part by part, then all files together; return their names."""
    weights = cast(PartWeights, run.weights.weights)
    staged = out / _UNFINISHED
    listing = list_parts(run, weights.write(staged))
    with replacing_run(out) as folder:
        write_json(folder / PARTS_FILE, listing)
        record = solution_record(weights.sampled, run.inputs.bias, weights)
        write_json(folder / SOLUTION, record)
        if run.forecast is not None:
            write_json(folder / FORECAST, run.forecast)
        written = write_page_of(run, folder, out)
        _remove_others(staged, [part["name"] for part in listing["parts"]])
        staged.replace(folder / PARTS_FOLDER)
    return [f"{PARTS_FOLDER}/", *written]


def list_parts(run: Run, written: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what weights.json holds: each part with its rows, Σ π, bytes and SHA-256."""
    inputs = describe_parts(cast(PartPool, run.inputs.pool))
    return {
        "folder": PARTS_FOLDER,
        "images": sum(part["rows"] for part in written),
        "parts": [
            {"name": name, **part, "input_bytes": facts[0]}
            for (name, facts), part in zip(inputs.items(), written, strict=True)
        ],
    }


def _remove_others(staged: Path, names: list[str]) -> None:
    """Remove parts of a run that was stopped and had others."""
    known = {staged / name for name in names}
    known |= {path.parent / ".complete" / f"{path.name}.json" for path in known}
    for path in staged.rglob("*"):
        if path.is_file() and path not in known:
            path.unlink()


def _check_folder(out: Path) -> None:
    if (out / PARTS_FOLDER).exists() and not is_in_parts(out):
        raise DataError(
            f"{str(out)!r} contains {PARTS_FOLDER!r}, which no run wrote, and where the weights "
            "would go. Name another folder with -o.",
            path=str(out / PARTS_FOLDER),
        )
