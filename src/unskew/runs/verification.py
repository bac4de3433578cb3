"""Whether a run is what it claims to be: recomputed from its inputs, each claim compared."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.run_config import RunConfig, effective_settings
from unskew.engine.arguments import Jobs, checked
from unskew.errors import CoverageError, DataError, OverlapError, UnskewError, first_few
from unskew.files.addresses import only_asking
from unskew.files.checksums import LISTING, find_changes
from unskew.files.reading import read_csv, read_json, read_parquet, read_text
from unskew.files.spreadsheet_text import unguard_table
from unskew.files.user_code import permit_code
from unskew.report.summary.plain import plain_value, summary_to_json
from unskew.report.summary.record import Summary
from unskew.runs.differences import WEIGHT_TOLERANCE, changed_images, compare_tables, compare_values
from unskew.runs.differences import Check as Check
from unskew.runs.forecast import add_forecast
from unskew.runs.image_map import MAP, map_images
from unskew.runs.inputs import (
    Inputs,
    describe_origin,
    guessed_target,
    read_inputs,
    read_moved_config,
    shown_settings,
)
from unskew.runs.output import (
    CONFIGURATION,
    DIAGNOSTICS,
    FEATURES,
    MEMBERSHIPS,
    PAGE,
    PARTS_FILE,
    SOLUTION,
    SUMMARY,
    UNREADABLE,
    WEIGHTS,
    diagnostics_table,
    features_table,
    file_of,
    files_by_target,
    has_memberships,
    solution_record,
)
from unskew.runs.page_panels import page_of
from unskew.runs.part_run import forecast_parts
from unskew.runs.part_verification import changed_parts, check_parts
from unskew.runs.pipeline import Run
from unskew.runs.pipeline import run as run_again
from unskew.runs.rehearsal import add_rehearsal
from unskew.sources.part_pool import PartPool
from unskew.weigh.weights_table import COLUMNS, join_weights, read_weights_table

if TYPE_CHECKING:
    import pandas as pd

    from unskew.debiasing.pool_weights import SplitWeights

# Residuals of the solver: 0 but for rounding, compared as such.
_RESIDUAL = 1e-9
# Memberships have seven digits.
_MEMBERSHIP = 1e-6
# Accuracies of a forecast are compared to this.
_POINT = 0.01


@checked
def verify_run(
    folder: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    jobs: Jobs | None = None,
    progress: bool | None = None,
    allow_code: Collection[str] = (),
) -> list[Check]:
    """Compute a run again from its inputs, and compare every file in its output folder with that.

    The inputs are those of ``run.toml`` in the folder; ``data`` is the folder that its relative
    paths start from, if the data were moved. No cache is used, and nothing is written. Checked are:
    the settings; the fingerprint of every input, with images and files that changed named; the
    weights, joined by id, to 1e-9 relatively; solution, diagnostics, features and unreadable
    images; every number and text of ``report.json``, a check for each panel (seeds are the same,
    hence simulated numbers, too); and that ``report.html`` is the page of ``report.json``. Code
    that the folder names runs, and addresses are asked, only if ``allow_code`` names them.
    """
    results = Path(folder)
    report = _read_json(results / SUMMARY)
    config = read_moved_config(_existing(results / CONFIGURATION), data, allow_code)
    _permit_learner(report, [results, config.folder], allow_code)
    checks = [*_check_one_run(results), _check_settings(report, config)]
    try:
        with only_asking(allow_code):
            inputs = read_inputs(_without_cache(config, jobs), progress=progress, beyond="parts")
    except UnskewError as error:
        if error.facts.get("option") == "--allow-code":  # it is not asked whether they can
            raise
        return [*checks, Check("the inputs exist and can be read", f"they cannot: {error}", False)]
    # As the report has it: without control characters, long names cut.
    origin = _plain(plain_value(describe_origin(inputs, None)))
    of_inputs = list(_check_fingerprints(report, origin, inputs, results))
    checks += of_inputs
    if not all(check.ok for check in of_inputs):
        claim = "the results follow from the inputs"
        return [*checks, Check(claim, "not compared: the inputs are no longer those", False)]
    try:
        run, summary = _computed_again(inputs, report, progress)
    except UnskewError as error:
        claim = "the weights can be computed from the inputs"
        return [*checks, Check(claim, f"they cannot: {error}", False)]
    guess = guessed_target(inputs)
    if guess is not None:
        checks.append(Check("the target is a placeholder, not a claim", guess, True))
    return [
        *checks,
        *(_check_tables(run, results) if run is not None else [_check_no_weights(results)]),
        *_check_report(report, summary),
        _check_page(results),
        _compare_versions(report, origin),
    ]


def _permit_learner(
    report: Mapping[str, Any], folders: Collection[Path], allow_code: Collection[str]
) -> None:
    shown = report.get("forecast")
    learner = shown.get("learner_reference") if isinstance(shown, Mapping) else None
    if isinstance(learner, str):
        permit_code(learner, allow_code, folders)


def _existing(path: Path) -> Path:
    """Return the path of a file of a run; refuse one that does not exist."""
    if not path.parent.is_dir():
        raise DataError(
            f"there is no folder {str(path.parent)!r}; `unskew weigh run.toml -o OUT` writes its "
            "results into the folder OUT.",
            path=str(path.parent),
        )
    if not path.is_file():
        raise DataError(
            f"{str(path.parent)!r} contains no {path.name}, which `unskew weigh run.toml -o "
            f"{path.parent}` writes.",
            path=str(path),
        )
    return path


def _read_json(path: Path) -> dict[str, Any]:
    record = read_json(_existing(path))
    if not isinstance(record, dict):
        raise DataError(
            f"{path} is no report: it contains a {type(record).__name__}.", path=str(path)
        )
    return record


def _without_cache(config: RunConfig, jobs: int | None) -> RunConfig:
    """Compute features from the images, not from what an earlier run has cached."""
    own = config.engine
    changes: dict[str, Any] = {
        "represent": config.represent.model_copy(update={"cache": None}),
        "engine": own.model_copy(
            update={"cache": None, "jobs": own.jobs if jobs is None else jobs}
        ),
    }
    return config.model_copy(update=changes)


def _computed_again(
    inputs: Inputs, report: Mapping[str, Any], progress: bool | None
) -> tuple[Run | None, Summary]:
    """Return (the run or None where the target is not identifiable, what its page shows).

    A forecast is made of the arms that the report shows, else as the settings ask.
    """
    shown = report.get("forecast")
    if isinstance(shown, Mapping):
        section = inputs.config.report.model_copy(update={"forecast": False})
        inputs = replace(inputs, config=inputs.config.model_copy(update={"report": section}))
    try:
        run = run_again(inputs, progress=progress)
    except (OverlapError, CoverageError) as error:
        return None, error.summary
    if isinstance(shown, Mapping):
        arms = [str(arm) for arm in shown.get("asked", ())]
        add = forecast_parts if isinstance(inputs.pool, PartPool) else add_forecast
        asked = arms, shown.get("learner_reference"), shown.get("asked_way")
        run = add(run, *asked, progress=progress)
    if report.get("rehearsal") is not None:
        run = add_rehearsal(run, progress=progress)
    return run, run.summary


def _check_one_run(folder: Path) -> Iterator[Check]:
    """Compare all files with their checksums, where there are any."""
    changes = find_changes(folder)
    if changes is not None:
        claim = f"{LISTING}: the files are of one run"
        wrong = [f"{name} {problem}" for name, problem in changes.items()]
        yield Check(claim, first_few(wrong) if wrong else "the same checksums", not wrong)


def _check_settings(report: Mapping[str, Any], config: RunConfig) -> Check:
    now = _plain(plain_value(shown_settings(config)))
    claimed, computed = (
        effective_settings(settings) for settings in (_provenance(report, "settings"), now)
    )
    return compare_values("run.toml holds the settings that the report names", claimed, computed)


def _provenance(report: Mapping[str, Any], name: str) -> dict[str, Any]:
    provenance = report.get("provenance")
    part = provenance.get(name) if isinstance(provenance, Mapping) else None
    return dict(part) if isinstance(part, Mapping) else {}


def _check_fingerprints(
    report: Mapping[str, Any], origin: Mapping[str, Any], inputs: Inputs, folder: Path
) -> Iterator[Check]:
    """Check each input; name the images and files that changed."""
    claimed, computed = _provenance(report, "fingerprints"), origin["fingerprints"]
    for kind in dict.fromkeys([*claimed, *computed]):
        before, now = claimed.get(kind, {}), computed.get(kind, {})
        for name in dict.fromkeys([*before, *now]):
            same = before.get(name) == now.get(name)
            claim = _input_claim(kind, name, inputs)
            if same:
                yield Check(claim, f"the same (SHA-256 {now[name][:12]}…)", True)
                continue
            named = first_few(list(_named_changes(kind, name, inputs, folder)))
            shown = [str(digests.get(name, "none"))[:12] for digests in (before, now)]
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


def _named_changes(kind: str, name: str, inputs: Inputs, folder: Path) -> Iterator[str]:
    if kind == "files":
        path = inputs.config.inputs.get(name)
        exists = path is not None and path.is_file()
        yield f"{path.name} has changed" if path and exists else "there is no such file"
    elif kind == "pool" and name == "images" and (folder / FEATURES).is_file():
        before = read_parquet(folder / FEATURES)
        if "content" in before.columns and "content" in inputs.pool.frame.columns:
            yield from changed_images(before, inputs.pool.frame)
    elif name == "parts" and isinstance(inputs.pool, PartPool):
        yield from changed_parts(inputs.pool, folder)


def _check_no_weights(folder: Path) -> Check:
    present = [name for name in (WEIGHTS, PARTS_FILE) if (folder / name).is_file()]
    claim = "there are no weights: the target is not identifiable"
    return Check(claim, f"there is a {present[0]}" if present else "none", not present)


def _check_tables(run: Run, folder: Path) -> Iterator[Check]:
    """Check weights.parquet, solution.json and the other files next to the report."""
    in_parts = isinstance(run.inputs.pool, PartPool)
    if in_parts:
        yield from check_parts(run, folder)
    for target, own in ({} if in_parts else files_by_target(run)).items():
        yield from _check_weights(run, own, folder, target)
    diagnostics = diagnostics_table(run.summary)
    claim = f"{DIAGNOSTICS} contains sizes and effective sizes"
    yield _compared(
        claim,
        lambda: compare_values(
            claim, _records(read_parquet(_existing(folder / DIAGNOSTICS))), _records(diagnostics)
        ),
    )
    if in_parts:
        return
    features = features_table(run.inputs.pool)
    claim = f"{FEATURES} contains what is known about every image"
    yield _compared(
        claim, lambda: compare_tables(claim, read_parquet(_existing(folder / FEATURES)), features)
    )
    points = map_images(run.inputs.pool, run.weights.frame())
    if points is not None:
        claim = f"{MAP} contains the principal components of the features"
        yield _compared(
            claim,
            lambda: compare_tables(
                claim,
                read_parquet(_existing(folder / MAP)),
                points,
                relative=_MEMBERSHIP,
                absolute=_MEMBERSHIP,
            ),
        )
    yield from _check_set_aside(run, folder)


def _check_weights(
    run: Run, own: SplitWeights, folder: Path, target: str | None
) -> Iterator[Check]:
    """Check the files of one target; None: of the main one."""
    file = file_of(WEIGHTS, target)
    weights = join_weights(run.inputs.pool, own.frame()).reindex(columns=list(COLUMNS))
    claim = f"{file} contains the weights that follow from the inputs"
    yield _compared(
        claim,
        lambda: compare_tables(
            claim,
            read_weights_table(folder / file),
            weights,
            relative=WEIGHT_TOLERANCE,
            absolute=0.0,
        ),
    )
    solution = _plain(solution_record(own.weights, run.inputs.bias))
    solved = folder / file_of(SOLUTION, target)
    claim = f"{solved.name} contains the solved equations"
    yield _compared(
        claim, lambda: compare_values(claim, _read_json(solved), solution, absolute=_RESIDUAL)
    )
    if has_memberships(own):
        memberships = folder / file_of(MEMBERSHIPS, target)
        claim = f"{memberships.name} contains the share of each source among images like each"
        yield _compared(
            claim,
            lambda: compare_tables(
                claim,
                read_parquet(_existing(memberships)),
                own.memberships(),
                relative=_MEMBERSHIP,
                absolute=_MEMBERSHIP,
            ),
        )


def _check_set_aside(run: Run, folder: Path) -> Iterator[Check]:
    import pandas as pd

    set_aside, path = run.inputs.pool.set_aside, folder / UNREADABLE
    if (set_aside is None or not len(set_aside)) and not path.exists():
        return
    claim = f"{UNREADABLE} lists the images that cannot be used"
    now = pd.DataFrame({"id": []}) if set_aside is None else set_aside.astype(str)
    yield _compared(
        claim,
        lambda: compare_tables(
            claim, unguard_table(read_csv(_existing(path), dtype=str, keep_default_na=False)), now
        ),
    )


def _compared(claim: str, compare: Any) -> Check:
    """Compare, or report that a file is missing or unreadable."""
    try:
        check: Check = compare()
    except DataError as error:
        return Check(claim, f"cannot be checked: {error}", False)
    return check


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain values, missing ones as None."""
    return [
        {str(name): None if value != value else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _check_report(report: Mapping[str, Any], summary: Summary) -> Iterator[Check]:
    """Check each panel of report.json but the provenance, which has checks of its own.

    Models are not trained again.
    """
    computed = json.loads(summary_to_json(summary))
    for panel in dict.fromkeys([*report, *computed]):
        if panel in ("provenance", "training"):
            continue
        claim = f"report.json: {panel}"
        if panel not in report:
            yield Check(claim, "is missing", False)
        elif panel not in computed:
            yield Check(claim, "is no panel of a report", False)
        elif panel in ("forecast", "rehearsal"):
            # Another machine rounds sums differently, and a probe may then assign an image between
            # two classes to the other one: accuracies agree to within a point.
            claimed, again = _without_numbers(report[panel]), _without_numbers(computed[panel])
            yield compare_values(claim, claimed, again, relative=_POINT, absolute=_POINT)
        else:
            yield compare_values(claim, report[panel], computed[panel])


def _without_numbers(value: Any) -> Any:
    """Remove the numbers from sentences; the record has them as numbers, too."""
    if isinstance(value, Mapping):
        return {name: _without_numbers(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_without_numbers(entry) for entry in value]
    is_sentence = isinstance(value, str) and " " in value
    return re.sub(r"[−+]?[\d.,]*\d", "#", value) if is_sentence else value


def _check_page(folder: Path) -> Check:
    """Render the page from report.json again: it must have the same characters."""
    claim = f"{PAGE} is the page of {SUMMARY}"
    try:
        page = read_text(_existing(folder / PAGE))
        made = page_of(folder / SUMMARY)
    except UnskewError as error:
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
    """List other versions of software: no claim, but they may explain a difference."""
    then, now = _provenance(report, "versions"), origin["versions"]
    other = [
        f"{name} {then.get(name, 'none')} then, {now.get(name, 'none')} now"
        for name in {**then, **now}
        if then.get(name) != now.get(name)
    ]
    return Check("software of the run", first_few(other) if other else "the same versions", True)


def _plain(value: Any) -> Any:
    """Return a value as it would be read back from JSON."""
    return json.loads(json.dumps(value, allow_nan=False))
