"""``python -m paper figures``: every figure of the article with its table, and those beyond it;
what is there already is not made again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper.catalogue import NOT_POSSIBLE, RUNS, Figure, list_figures
from paper.experiment import Experiment, Place, Tables, Workers, forget_cells, run_experiment
from paper.plotting import figure_style, save_figure
from paper.populations import DATA_SETS, TITLES, present_sets, read_population
from unskew.errors import ConfigError, DataError, did_you_mean
from unskew.files.atomic import may_write, write_text, written_whole

log = logging.getLogger(__name__)

# Below the output folder: borders of the images, and cells of experiments that were stopped.
_CACHE = ".cache"


@dataclass(frozen=True)
class Drawn:
    """A figure that was written, or was there: its number, files, caption, and what it shows in
    sentences.
    """

    number: str
    title: str
    files: tuple[str, ...]
    found: tuple[str, ...]
    is_new: bool

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "number": self.number,
            "title": self.title,
            "files": list(self.files),
            "found": list(self.found),
            "new": self.is_new,
        }


@dataclass(frozen=True)
class FigureSet:
    """What ``write_figures`` did."""

    figures: tuple[Drawn, ...]
    notes: tuple[str, ...]


def write_figures(
    data: Path,
    out: Path,
    *,
    only: Sequence[str] = (),
    runs: int = RUNS,
    force: bool = False,
    jobs: int = 1,
    progress: bool | None = None,
    tell: Callable[[Drawn], None] = lambda drawn: None,
) -> FigureSet:
    """Write figures as PNG and SVG, each with its table as CSV and its settings and findings as
    JSON.

    Parameters
    ----------
    data : the folder that holds cifar10 and cifar100 as sheets; one of the two is enough.
    out : made when it is not there.
    only : numbers of figures, such as ``["5", "B2"]``; all of them by default.
    runs : draws of the databases wherever the article has 8.
    force : compute everything anew; else a figure whose settings are those of its JSON file is left
        as it is.
    jobs : processes.
    tell : called with every figure when it is done.
    """
    if runs < 1:
        raise ConfigError(f"runs is the number of draws of the databases, at least 1; got {runs}.")
    only = [each.strip().upper() for each in only if each.strip()]
    sets = present_sets(data)
    _check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    place = Place(data, out / _CACHE)
    fingerprints = {name: read_population(data, name, place.cache).fingerprint for name in sets}
    figures = _chosen(list_figures(fingerprints, runs), only)
    notes = [NOT_POSSIBLE] if not only or "1" in only else []
    notes += [
        f"{TITLES[name]} is not in {data}: its figures are left out."
        for name in DATA_SETS
        if name not in sets
    ]
    if force:
        for each in {figure.experiment.name: figure.experiment for figure in figures}.values():
            forget_cells(each, place.cache)
    computed: dict[str, Tables] = {}
    drawn = []
    with Workers(jobs) as workers:
        for figure in figures:
            drawn.append(_write_one(figure, place, out, computed, force, workers, progress))
            tell(drawn[-1])
    for experiment in {figure.experiment.name: figure.experiment for figure in figures}.values():
        _forget_when_all_written(experiment, list_figures(fingerprints, runs), out, place)
    return FigureSet(tuple(drawn), tuple(notes))


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; figures are written into a folder. Give another one with -o."
        )
    if not may_write(out):
        raise DataError(
            f"nothing can be written into {str(out)!r}: it is read-only for you. Give another "
            "folder with -o."
        )


def _chosen(figures: Sequence[Figure], only: Sequence[str]) -> list[Figure]:
    known = list(dict.fromkeys(figure.number for figure in figures))
    for each in only:
        if each != "1" and each not in known:
            raise ConfigError(
                f"there is no figure {each!r}; there are "
                f"{', '.join(known)}.{did_you_mean(each, known)}"
            )
    return [figure for figure in figures if not only or figure.number in only]


def _write_one(
    figure: Figure,
    place: Place,
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
                figure.experiment, place, place.cache, workers=workers, progress=progress
            )
        frame = _write_table(computed[figure.experiment.name][figure.table], out / files[0])
    with figure_style():
        save_figure(figure.draw(frame, place.data), out, figure.slug)
    found = tuple(figure.say(frame))
    _write_record(figure, found, record)
    return Drawn(figure.number, figure.title, files, found, True)


def _write_table(rows: list[dict[str, Any]], path: Path) -> Any:
    """The rows as CSV; what is drawn is what was written."""
    import pandas as pd

    with written_whole(path) as beside:
        pd.DataFrame(rows).to_csv(beside, index=False, float_format="%.13g")
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


def _write_record(figure: Figure, found: Sequence[str], path: Path) -> None:
    from unskew.files.fingerprints import find_versions

    record = {
        "number": figure.number,
        "title": figure.title,
        "found": list(found),
        "settings": dict(figure.experiment.settings),
        "values": figure.experiment.axes,
        "fingerprint": figure.experiment.fingerprint,
        "versions": find_versions(),
    }
    write_text(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _forget_when_all_written(
    experiment: Experiment, figures: Sequence[Figure], out: Path, place: Place
) -> None:
    """The cells go when every figure that is drawn from them is there; with ``only``, another one
    may need them later.
    """
    users = [each for each in figures if each.experiment.name == experiment.name]
    records = [_read_record(out / f"{each.slug}.json") for each in users]
    if all(
        record is not None and record.get("fingerprint") == experiment.fingerprint
        for record in records
    ):
        forget_cells(experiment, place.cache)
