"""Is a run what it claims to be? Everything computed again from the inputs, and each claim
compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, InvalidConfigError, UnskewError, first_few
from unskew.runs.differences import WEIGHT_TOLERANCE, changed_images, compare_tables, compare_values
from unskew.runs.differences import Check as Check

if TYPE_CHECKING:
    import pandas as pd

    from unskew.config.run_config import RunConfig
    from unskew.runs.weighing import Inputs, Refusal, Run

# What says where, how fast and when a run went, and changes none of its results.
_WITHOUT_EFFECT = (("represent", "cache"), ("engine", "jobs"))
# Residuals of the solver: 0 but for rounding, compared as such.
_RESIDUAL = 1e-9
# Accuracies of a forecast are compared to this.
_POINT = 0.01


def verify_run(
    folder: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> list[Check]:
    """Compute a run again from its inputs, and compare every file in its output folder with that.

    The inputs are found by ``run.toml`` in the folder (``data``: where its relative paths start,
    for whoever has the data elsewhere), no cache is used, and nothing is written. Checked are: the
    settings; the fingerprint of every input, with images and files that changed named; the weights,
    joined by id, to 1e-9 relatively; solution, diagnostics, features and unreadable images; every
    number and text of ``report.json``, a check for each panel (seeds are the same, hence simulated
    numbers, too); and that ``report.html`` is the page of ``report.json``.
    """
    from unskew.runs import weighing as pipeline

    place = Path(folder)
    report = _read_json(place / pipeline.SUMMARY)
    config = _read_settings(_found(place / pipeline.CONFIGURATION), data)
    checks = [_check_settings(report, config)]
    try:
        inputs = pipeline.read_inputs(_without_cache(config, jobs), progress=progress)
    except UnskewError as error:
        return [
            *checks,
            Check("the inputs are there and can be read", f"they cannot: {error}", False),
        ]
    origin = pipeline.describe_origin(inputs, None)
    checks += _check_fingerprints(report, origin, inputs, place)
    try:
        run = _with_forecast(pipeline.weigh_inputs(inputs), report, progress)
    except UnskewError as error:
        return [
            *checks,
            Check("the weights can be computed from the inputs", f"they cannot: {error}", False),
        ]
    return [
        *checks,
        *_check_tables(run, place),
        *_check_report(report, run),
        _check_page(place),
        _compare_versions(report, origin),
    ]


def _read_settings(path: Path, data: str | PathLike[str] | None) -> RunConfig:
    from unskew.config.run_config import read_config

    if data is not None and not Path(data).is_dir():
        raise ConfigError(f"the data cannot lie in {str(data)!r}, which is no folder.")
    try:
        return read_config(path, folder=data)
    except InvalidConfigError as error:
        hint = (
            "Were the results or the data moved? Say by --data in which folder the paths of "
            "run.toml start."
        )
        raise InvalidConfigError(f"{error}\n\n{hint}", error.problems) from None


def _found(path: Path) -> Path:
    if not path.parent.is_dir():
        raise DataError(
            f"there is no folder {str(path.parent)!r}; `unskew weigh run.toml -o OUT` writes its "
            "results into the folder OUT."
        )
    if not path.is_file():
        raise DataError(
            f"{str(path.parent)!r} holds no {path.name}, which `unskew weigh run.toml -o "
            f"{path.parent}` writes into its folder."
        )
    return path


def _read_json(path: Path) -> dict[str, Any]:
    _found(path)
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as JSON ({error}). Was it cut off, or edited by hand?"
        ) from error
    if not isinstance(read, dict):
        raise DataError(f"{path} is no report: it holds a {type(read).__name__}.")
    return read


def _without_cache(config: RunConfig, jobs: int | None) -> RunConfig:
    """Features are computed from the images, not taken from what an earlier run has kept."""
    changes: dict[str, Any] = {"represent": config.represent.model_copy(update={"cache": None})}
    if jobs is not None:
        changes["engine"] = config.engine.model_copy(update={"jobs": jobs})
    return config.model_copy(update=changes)


def _with_forecast(
    run: Run | Refusal, report: Mapping[str, Any], progress: bool | None
) -> Run | Refusal:
    """The run with a forecast of the arms that the report shows, or with what its settings ask
    for.
    """
    from unskew.runs import forecast as forecast_page
    from unskew.runs import weighing as pipeline

    said = report.get("forecast")
    if isinstance(run, pipeline.Refusal) or not (
        isinstance(said, Mapping) or run.inputs.config.report.forecast
    ):
        return run
    if not isinstance(said, Mapping):
        return forecast_page.add_forecast(run, progress=progress)
    return forecast_page.add_forecast(
        run,
        [str(arm) for arm in said.get("asked", ())],
        said.get("learner_reference"),
        progress=progress,
    )


def _check_settings(report: Mapping[str, Any], config: RunConfig) -> Check:
    from unskew.runs import weighing as pipeline

    now = _plain(pipeline.shown_settings(config))
    said, found = (_effective(each) for each in (_provenance(report, "settings"), now))
    return compare_values("run.toml holds the settings that the report names", said, found)


def _effective(settings: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(settings))
    copied.pop("folder", None)
    for section, key in _WITHOUT_EFFECT:
        if isinstance(copied.get(section), dict):
            copied[section].pop(key, None)
    return {name: each for name, each in copied.items() if each}


def _provenance(report: Mapping[str, Any], name: str) -> dict[str, Any]:
    provenance = report.get("provenance")
    found = provenance.get(name) if isinstance(provenance, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def _check_fingerprints(
    report: Mapping[str, Any], origin: Mapping[str, Any], inputs: Inputs, place: Path
) -> Iterator[Check]:
    """One check for each input; of images and files the ones that changed are named."""
    said, found = _provenance(report, "fingerprints"), origin["fingerprints"]
    for kind in dict.fromkeys([*said, *found]):
        before, now = said.get(kind, {}), found.get(kind, {})
        for name in dict.fromkeys([*before, *now]):
            same = before.get(name) == now.get(name)
            claim = _input_claim(kind, name, inputs)
            if same:
                yield Check(claim, f"the same (SHA-256 {now[name][:12]}…)", True)
                continue
            named = first_few(list(_named_changes(kind, name, inputs, place)))
            shown = [str(each.get(name, "none"))[:12] for each in (before, now)]
            yield Check(
                claim,
                f"SHA-256 {shown[1]}…, not {shown[0]}…{f': {named}' if named else ''}",
                False,
                None,
                tuple(shown),
            )


def _input_claim(kind: str, name: str, inputs: Inputs) -> str:
    if kind != "files":
        return f"input: {name} of the {kind}"
    path = inputs.config.inputs.get(name)
    return f"input: {name}" if path is None else f"input: {name} ({path.name})"


def _named_changes(kind: str, name: str, inputs: Inputs, place: Path) -> Iterator[str]:
    from unskew.runs import weighing as pipeline

    if kind == "files":
        path = inputs.config.inputs.get(name)
        yield (
            f"{path.name} has changed"
            if path is not None and path.is_file()
            else "there is no such file"
        )
    elif kind == "pool" and name == "images" and (place / pipeline.FEATURES).is_file():
        before = _read_parquet(place / pipeline.FEATURES)
        if "content" in before.columns and "content" in inputs.pool.frame.columns:
            yield from changed_images(before, inputs.pool.frame)


def _check_tables(run: Run | Refusal, place: Path) -> Iterator[Check]:
    """weights.parquet, solution.json and the other files beside the report."""
    from unskew.runs import weighing as pipeline
    from unskew.runs.tables import diagnostics_table, features_table, solution_record
    from unskew.weigh.weights_table import join_weights, read_weights_table

    if isinstance(run, pipeline.Refusal):
        there = (place / pipeline.WEIGHTS).is_file()
        yield Check(
            "there are no weights: the target is not identifiable",
            "weights.parquet is there" if there else "none",
            not there,
        )
        return
    weights = join_weights(run.inputs.pool, run.weights.frame()).reindex(
        columns=list(_weights_columns())
    )
    claim = f"{pipeline.WEIGHTS} holds the weights that follow from the inputs"
    yield _compared(
        claim,
        lambda: compare_tables(
            claim,
            read_weights_table(place / pipeline.WEIGHTS),
            weights,
            relative=WEIGHT_TOLERANCE,
            absolute=0.0,
        ),
    )
    solution = _plain(solution_record(run.weights.weights, run.inputs.bias))
    claim = f"{pipeline.SOLUTION} holds the solved equations"
    yield _compared(
        claim,
        lambda: compare_values(
            claim, _read_json(place / pipeline.SOLUTION), solution, absolute=_RESIDUAL
        ),
    )
    diagnostics = diagnostics_table(run.summary)
    claim = f"{pipeline.DIAGNOSTICS} holds sizes and effective sizes"
    yield _compared(
        claim,
        lambda: compare_values(
            claim, _records(_read_parquet(place / pipeline.DIAGNOSTICS)), _records(diagnostics)
        ),
    )
    features = features_table(run.inputs.pool)
    claim = f"{pipeline.FEATURES} holds what is known of every image"
    yield _compared(
        claim, lambda: compare_tables(claim, _read_parquet(place / pipeline.FEATURES), features)
    )
    yield from _check_set_aside(run, place)


def _check_set_aside(run: Run, place: Path) -> Iterator[Check]:
    import pandas as pd

    from unskew.runs import weighing as pipeline

    set_aside, path = run.inputs.pool.set_aside, place / pipeline.UNREADABLE
    if (set_aside is None or not len(set_aside)) and not path.exists():
        return
    claim = f"{pipeline.UNREADABLE} lists the images that cannot be used"
    now = pd.DataFrame({"id": []}) if set_aside is None else set_aside.astype(str)
    yield _compared(
        claim,
        lambda: compare_tables(
            claim, pd.read_csv(_found(path), dtype=str, keep_default_na=False), now
        ),
    )


def _compared(claim: str, compare: Any) -> Check:
    """The comparison, or that a file is missing or unreadable."""
    try:
        check: Check = compare()
    except DataError as error:
        return Check(claim, f"cannot be checked: {error}", False)
    return check


def _weights_columns() -> tuple[str, ...]:
    from unskew.weigh.weights_table import COLUMNS

    return COLUMNS


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_parquet(_found(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error}).") from error


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain values, what is missing as None."""
    return [
        {str(name): None if value != value else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _check_report(report: Mapping[str, Any], run: Run | Refusal) -> Iterator[Check]:
    """A check for each panel of report.json; where it comes from is checked by itself."""
    from unskew.report.summary.plain import summary_to_json

    found = json.loads(summary_to_json(run.summary))
    for panel in dict.fromkeys([*report, *found]):
        if panel == "provenance":
            continue
        claim = f"report.json: {panel}"
        if panel not in report or panel not in found:
            yield Check(
                claim, "is missing" if panel not in report else "is no panel of a report", False
            )
        else:
            yield (
                _compare_forecasts(claim, report[panel], found[panel])
                if panel == "forecast"
                else compare_values(claim, report[panel], found[panel])
            )


def _compare_forecasts(claim: str, said: Any, found: Any) -> Check:
    """To within a point: on another machine sums have other roundings, and a probe may decide on an
    image that lies between two classes.
    """
    return compare_values(
        claim, _without_numbers(said), _without_numbers(found), relative=_POINT, absolute=_POINT
    )


def _without_numbers(value: Any) -> Any:
    """The same with sentences that have no numbers; those stand beside them as such."""
    if isinstance(value, Mapping):
        return {name: _without_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_numbers(each) for each in value]
    return (
        re.sub(r"[−+]?[\d.,]*\d", "#", value) if isinstance(value, str) and " " in value else value
    )


def _check_page(place: Path) -> Check:
    """The page is made from report.json and nothing else: made again it has the same bytes."""
    from unskew.report.page.html import render_page
    from unskew.report.summary.plain import summary_from_json
    from unskew.runs import weighing as pipeline

    claim = f"{pipeline.PAGE} is the page of {pipeline.SUMMARY}"
    try:
        page = _found(place / pipeline.PAGE).read_text(encoding="utf-8")
        made = render_page(
            summary_from_json((place / pipeline.SUMMARY).read_text(encoding="utf-8"))
        )
    except (UnskewError, OSError, ValueError, TypeError, KeyError) as error:
        return Check(claim, f"cannot be checked: {error}", False)
    if page == made:
        return Check(claim, "the same, character by character", True)
    at = next(
        (at for at, (one, other) in enumerate(zip(page, made, strict=False)) if one != other),
        min(len(page), len(made)),
    )
    line = page.count("\n", 0, at) + 1
    return Check(claim, f"differs from line {line} on: {page[max(at - 20, 0) : at + 40]!r}", False)


def _compare_versions(report: Mapping[str, Any], origin: Mapping[str, Any]) -> Check:
    """No claim, but what may explain a difference."""
    said, found = _provenance(report, "versions"), origin["versions"]
    other = [
        f"{name} {said.get(name, 'none')} then, {found.get(name, 'none')} now"
        for name in {**said, **found}
        if said.get(name) != found.get(name)
    ]
    return Check("software of the run", first_few(other) if other else "the same versions", True)


def _plain(value: Any) -> Any:
    """As it would be read back from JSON."""
    return json.loads(json.dumps(value, allow_nan=False))
