"""A configuration rehearsed: each source in turn as the target; rehearsal.json."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unskew.files.plain_json import json_value
from unskew.report.summary.privacy import private_provenance
from unskew.runs.forecast import learn_way, probe_input
from unskew.runs.inputs import Inputs, describe_origin, images_to_train_on, warn_of_placeholder
from unskew.runs.page_panels import with_rehearsal
from unskew.runs.part_run import sample_inputs
from unskew.sources.part_pool import PartPool

if TYPE_CHECKING:
    from unskew.forecasting.rehearsal_record import Rehearsal
    from unskew.runs.pipeline import Run


def rehearse_inputs(inputs: Inputs, *, progress: bool | None = None) -> Rehearsal:
    """Rehearse with each source in turn as the target."""
    from unskew.forecasting.rehearsal import rehearse

    warn_of_placeholder(inputs)
    pool, features = probe_input(inputs, progress)
    config = inputs.config
    return rehearse(
        images_to_train_on(pool),
        inputs.bias,
        inputs.target,
        features=features,
        way=learn_way(config),
        ridge=config.learn.ridge,
        max_uncovered=config.solve.max_uncovered,
        rng=config.engine.seed,
        progress=progress,
    )


def rehearsal_record(
    inputs: Inputs, *, command: str | None = None, progress: bool | None = None
) -> tuple[Rehearsal, dict[str, Any]]:
    """Return the rehearsal, and what `rehearsal.json` contains: numbers and provenance."""
    rehearsal = rehearse_inputs(inputs, progress=progress)
    origin = describe_origin(inputs, command)
    if inputs.config.report.privacy == "aggregate":
        origin = private_provenance(origin, inputs.pool)
    record: dict[str, Any] = json_value({**rehearsal.to_dict(), "provenance": origin})
    for source, rehearsed in zip(record["sources"], rehearsal.sources, strict=True):
        source["holds"] = rehearsed.holds
    return rehearsal, record


def add_rehearsal(run: Run, *, progress: bool | None = None) -> Run:
    """Add a rehearsal to a run; over parts, one of the subsample."""
    parts = isinstance(run.inputs.pool, PartPool)
    inputs = sample_inputs(run.inputs) if parts else run.inputs
    _, record = rehearsal_record(inputs, progress=progress)
    return replace(run, summary=with_rehearsal(run.summary, record))
