"""Compared pairs judged with the weights of an output folder; pairs.json and pairs.html."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError
from unskew.evaluation.pairs import PairEvaluation, evaluate_pairs
from unskew.files.atomic import written_together
from unskew.files.checksums import check_files
from unskew.files.fingerprints import find_versions, fingerprint_file
from unskew.files.plain_json import write_json
from unskew.report.page.pairs_page import render_pairs_page
from unskew.runs.evaluate import part_notes, read_attributes, run_rules
from unskew.runs.output import CONFIGURATION, FEATURES, SUMMARY, WEIGHTS, find_target_file
from unskew.weigh.weights_table import read_weights_table

PAIRS_FILE = "pairs.json"
PAIRS_PAGE = "pairs.html"


def evaluate_pairs_run(
    folder: str | PathLike[str],
    pairs: str | PathLike[str],
    *,
    by: Sequence[str] = (),
    target: str | None = None,
    force: bool = False,
    **settings: Any,
) -> PairEvaluation:
    """Judge a table of pairs with the results that `unskew weigh` wrote into a folder.

    ``target`` is the name of one of several targets, None: the main one; ``force``: also if the
    files are not those that the run wrote. Weights, attributes, bins and privacy are those of the
    run; ``settings`` are the keywords of `unskew.evaluate_pairs`.
    """
    out = Path(folder)
    weights = find_target_file(out, WEIGHTS, target)
    check_files(out, (weights.name, FEATURES, CONFIGURATION, SUMMARY), force=force)
    table = read_weights_table(weights)
    private, bins = run_rules(out, target)
    options: dict[str, Any] = {
        "private": private,
        "bins": bins,
        "attributes": read_attributes(out / FEATURES, by, table),
    }
    evaluation = evaluate_pairs(table, pairs, by=by, **options | settings)
    files = {"weights": weights, "pairs": Path(pairs)}
    origin = {
        "fingerprints": {name: fingerprint_file(path) for name, path in files.items()},
        "versions": find_versions(),
    }
    notes = (*part_notes(out, evaluation.split, target), *evaluation.notes)
    return replace(evaluation, notes=notes, origin=origin)


def check_pairs_place(folder: str | PathLike[str], overwrite: bool) -> None:
    """Raise an error if the files may not be written there; call this before the work."""
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; {PAIRS_FILE} and {PAIRS_PAGE} are written into a folder. "
            "Name another one with -o.",
            path=str(out),
        )
    for path in (out / PAIRS_FILE, out / PAIRS_PAGE):
        if path.exists() and not overwrite:
            raise ConfigError(
                f"{str(path)!r} exists already. Add --overwrite to replace it, or name another "
                "folder with -o.",
                path=str(path),
                option="overwrite",
            )


def write_pairs(
    evaluation: PairEvaluation, folder: str | PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write pairs.json and pairs.html into the folder, both or neither; return the page."""
    check_pairs_place(folder, overwrite)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    record = evaluation.to_dict()
    with written_together(out, ()) as temporary:
        write_json(temporary / PAIRS_FILE, record)
        (temporary / PAIRS_PAGE).write_text(render_pairs_page(record), encoding="utf-8")
    return out / PAIRS_PAGE
