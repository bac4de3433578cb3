"""`unskew monitor`: new images compared with those of a solved run, look after look."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.engine.arguments import Jobs, OpenShare, checked
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.atomic import written_together
from unskew.files.checksums import check_files
from unskew.files.fingerprints import find_versions, fingerprint_file
from unskew.files.locks import folder_locked
from unskew.files.plain_json import write_json
from unskew.files.reading import damage_named, read_json, read_parquet
from unskew.monitoring.judgement import Evidence, judge_streams, weigh_evidence
from unskew.monitoring.sampled_units import KnownImages, known_images
from unskew.monitoring.stream import TARGET_STREAM, Reference, count_batch
from unskew.monitoring.variables import SCORES, SIZE
from unskew.records.levels import level_text
from unskew.records.monitoring import Monitoring
from unskew.runs.evaluate import run_rules
from unskew.runs.monitor_inputs import (
    read_new,
    read_reference,
    read_run_settings,
    represent_new,
)
from unskew.runs.output import (
    CONFIGURATION,
    FEATURES,
    WEIGHTS,
    check_in_one_file,
    check_writable,
    write_frame,
)
from unskew.runs.projections import PROJECTIONS

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "monitor"
IMAGES, PAGE, RECORD, STATE = "images.parquet", "monitor.html", "monitor.json", "state.json"
# Another version of the state cannot be continued.
_VERSION = 1
# On a page that shows aggregates only, smaller counts are withheld.
_FEW = 10


@dataclass
class WatchState:
    """What is kept between looks.

    Attributes
    ----------
    settings : the weights that are watched, and what must not change between looks.
    looks, evidence : the name of every look, and the evidence of all variables after it.
    seen : all images that were counted, with values and ranks; None before the first look.
    """

    settings: dict[str, Any]
    looks: list[str]
    evidence: list[Evidence]
    seen: pd.DataFrame | None = None


@checked
def monitor_run(
    folder: str | PathLike[str],
    new: str | PathLike[str],
    *,
    source: str | None = None,
    of_target: bool = False,
    batch: str | None = None,
    max_uncovered: OpenShare = 0.05,
    state: str | PathLike[str] | None = None,
    restart: bool = False,
    jobs: Jobs | None = None,
    progress: bool | None = None,
    allow_code: Collection[str] = (),
) -> Monitoring:
    """Tell whether new images still fit the weights that `unskew weigh` wrote into a folder.

    The null hypothesis: within every source, old and new units (groups, or single images) are
    exchangeable. It is tested by conformal ranks and betting (`unskew.monitoring`): over all calls
    with the same state, however many there are, all tests together raise a false alarm with
    probability 5% at most. Images that were counted before, or belong to the run, are recognized
    and change nothing.

    Parameters
    ----------
    folder : the results of a run.
    new : a folder or table of new images, read as the sources of the run are.
    source : the source of all new images; default: as their table or folders say.
    of_target : the new images are of the target, not of a source.
    batch : a column, such as a date: each of its values is one look, in their order. Default: all
        new images are one look, named by today's date.
    max_uncovered : the share of the target's images that may be outside what the pool covers.
    state : folder for what is kept between looks and for the page; default: ``monitor`` in
        ``folder``.
    restart : forget earlier looks, as after the weights were solved again.
    allow_code : modules, and files of networks, of the folder or the working directory that may
        run.

    Returns
    -------
    Monitoring
        ``drifted``, the evidence of every source, changes with their errors, what to do.

    Raises
    ------
    ConfigError : the state is of other weights or settings.
    DataError : the new images cannot be used: an unknown source, no ids, a missing column.
    """
    out, home = Path(folder), Path(folder) / FOLDER if state is None else Path(state)
    if state is None and home.is_symlink():
        raise ConfigError(
            f"{str(home)!r} is a link, and what is kept between looks would be written where it "
            "leads. If that is right, name that folder with --state.",
            option="--state",
            path=str(home),
        )
    check_in_one_file(out)
    check_files(out, (WEIGHTS, FEATURES, CONFIGURATION))
    config = read_run_settings(out, allow_code)
    check_writable(home)
    settings = {
        "version": _VERSION,
        "weights": fingerprint_file(out / WEIGHTS),
        "features": fingerprint_file(out / FEATURES),
        "max_uncovered": max_uncovered,
    }
    with ExitStack() as held:
        held.enter_context(folder_locked(home))
        watch = _read_state(home, settings, restart)
        if not watch.looks:
            # Components of other weights, or of a first look that was not finished.
            (home / PROJECTIONS).unlink(missing_ok=True)
        options: dict[str, Any] = {"jobs": jobs, "progress": progress}
        reference, old = read_reference(out, config, home, **options)
        pool = read_new(Path(new), config, tuple(reference.sources), source, of_target)
        frame = represent_new(pool, out, config, home, **options).frame
        if of_target:
            frame = frame.assign(source=TARGET_STREAM)
        else:
            _check_groups(reference, frame)
        if watch.looks:
            _check_tests(home / STATE, watch, reference)
            held.enter_context(damage_named(home / STATE, "the state of earlier looks"))
        counted, known, notes = _count_new(watch, reference, old, frame, batch)
        if watch.seen is None:
            raise DataError(
                f"there is no new image in {str(new)!r}: of {len(frame):,}, {known:,} are part of "
                "the run, and the others belong to its groups. Do groups of other days have the "
                "same names? Names of groups are unique over all days.",
                path=str(new),
                count=len(frame),
            )
        monitoring = judge_streams(
            reference,
            watch.seen,
            watch.looks,
            watch.evidence,
            max_uncovered=max_uncovered,
            least=_FEW if run_rules(out)[0] else 1,
            counted=counted,
            known=known,
            notes=(*notes, *_lacking(reference, frame), *reference.notes),
            title=f"Monitoring: {config.report.title or out.resolve().name}",
        )
        return _write_look(home, watch, monitoring)


def _read_state(home: Path, settings: dict[str, Any], restart: bool) -> WatchState:
    """Read what earlier looks left; refuse a state of other weights or settings."""
    path = home / STATE
    if restart or not path.is_file():
        return WatchState(dict(settings), [], [])
    try:
        check_files(home, (STATE, IMAGES))
        record = read_json(path)
        before, looks = record["settings"], record["looks"]
        if not (isinstance(before, dict) and isinstance(looks, list)):
            raise ValueError("its settings or looks are of another kind")
        evidence = [
            {stream: {name: float(x) for name, x in own.items()} for stream, own in at.items()}
            for at in record["evidence"]
        ]
        if len(evidence) != len(looks) or any(_names(at) != _names(evidence[0]) for at in evidence):
            raise ValueError("its looks do not have the same tests")
        seen = read_parquet(home / IMAGES)
        has_columns = {"id", "stream", "look"} <= set(seen.columns)
        if not (looks and has_columns and set(seen["look"]) <= set(range(len(looks)))):
            raise ValueError("its parts do not belong together")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} cannot be continued ({error}). Was it cut off, or edited by hand? --restart "
            "begins again, without the looks so far.",
            path=str(path),
        ) from error
    for name, value in settings.items():
        if before.get(name) != value:
            raise ConfigError(
                f"{path} is about {_NAMES[name]}. Evidence cannot be carried over: --restart "
                "begins a new watch, with its own 5% of false alarms; or name another folder with "
                "--state.",
                path=str(path),
                option="--restart",
                key=name,
            )
    return WatchState(before, looks, evidence, seen)


def _names(evidence: dict[str, dict[str, float]]) -> dict[str, list[str]]:
    """Return the tests of a look, by stream."""
    return {stream: sorted(own) for stream, own in evidence.items()}


def _check_tests(path: Path, watch: WatchState, reference: Reference) -> None:
    """Refuse looks that lack a test of the run, or have one more."""
    before, tests = _names(watch.evidence[0]), reference.tests()
    wrong = [name for name in (tests | before) if before.get(name) != sorted(tests.get(name, ""))]
    if wrong:
        raise DataError(
            f"{path} does not have the tests of this run: {first_few(wrong)} differs. Was it "
            "edited by hand? --restart begins again, without the looks so far.",
            path=str(path),
            names=wrong,
        )


_NAMES = {
    "version": "another version of unskew",
    "weights": "other weights: `unskew weigh` has replaced them since",
    "features": "other features: `unskew weigh` has replaced them since",
    "max_uncovered": "another max_uncovered",
}


def _check_groups(reference: Reference, frame: pd.DataFrame) -> None:
    """Refuse images without groups where those of the run have groups: a burst is one unit."""
    if reference.in_groups and "group" not in frame.columns and len(frame):
        raise DataError(
            "the images of the run are in groups, which are compared as one unit each, but the new "
            "images have no groups. Add the column that names the group, as in the run; for single "
            "images, a group of their own.",
            column="group",
        )


def _count_new(
    watch: WatchState,
    reference: Reference,
    old: pd.DataFrame,
    frame: pd.DataFrame,
    batch: str | None,
) -> tuple[int, int, list[str]]:
    """Add looks to the watch; return images counted, images known before, and notes."""
    known_before = known_images(old, *([] if watch.seen is None else [watch.seen]))
    counted = n_known = n_of_groups = 0
    for name, part in _batches(frame, batch):
        known_n, in_group_n = known_before.find(part)
        n_known += int(known_n.sum())
        n_of_groups += int((in_group_n & ~known_n).sum())
        fresh = part[~known_n & ~in_group_n]
        if not len(fresh):
            continue
        counted += len(fresh)
        known_before = _joined_known(known_before, known_images(fresh))
        _add_look(watch, reference, fresh, name)
    notes = []
    if n_known:
        notes.append(
            f"{n_known:,} of {len(frame):,} images were counted before, or are part of the run: "
            "they change nothing."
        )
    if n_of_groups:
        notes.append(
            f"{n_of_groups:,} images belong to groups that were counted before, and are left out: "
            "a group is one unit."
        )
    return counted, n_known, notes


def _joined_known(one: KnownImages, other: KnownImages) -> KnownImages:
    return KnownImages(
        one.ids | other.ids, one.contents | other.contents, one.groups | other.groups
    )


def _batches(frame: pd.DataFrame, batch: str | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the batches in the order of their values: numbers, dates, or texts."""
    if batch is None:
        yield datetime.date.today().isoformat(), frame
        return
    if batch not in frame.columns:
        raise ConfigError(
            f"--batch names the column {batch!r}, which the new images do not have; they have "
            f"{first_few(list(frame.columns), 12)}.{did_you_mean(batch, frame.columns)}",
            option="--batch",
            value=batch,
            allowed=[str(name) for name in frame.columns],
        )
    missing = int(frame[batch].isna().sum())
    if missing:
        raise DataError(
            f"{batch} is missing for {missing:,} of {len(frame):,} images; every image needs a "
            "batch.",
            column=batch,
            count=missing,
        )
    for value, part in frame.groupby(batch, sort=True, observed=True):
        yield level_text(value), part


def _add_look(watch: WatchState, reference: Reference, fresh: pd.DataFrame, name: str) -> None:
    import pandas as pd

    look = len(watch.looks)
    parts = [
        count_batch(reference, watch.seen, part.reset_index(drop=True), str(stream), look)
        for stream, part in fresh.groupby(fresh["source"].astype(str), sort=True)
    ]
    before = [] if watch.seen is None else [watch.seen]
    watch.seen = pd.concat([*before, *parts], ignore_index=True)
    watch.looks.append(name)
    most = watch.settings["max_uncovered"]
    watch.evidence.append(weigh_evidence(reference, watch.seen, len(watch.looks), most)[0])


def _lacking(reference: Reference, frame: pd.DataFrame) -> list[str]:
    """Say which columns the new images lack: they are not compared at this look."""
    is_target = bool((frame["source"].astype(str) == TARGET_STREAM).all())
    compared = reference.streams[TARGET_STREAM].variables if is_target else reference.variables
    columns = [name for name in compared if name not in (*SCORES, SIZE)]
    lacking = [name for name in columns if name not in frame.columns]
    if not lacking:
        return []
    return [f"The new images have no {first_few(lacking)}, which is not compared at this look."]


def _write_look(home: Path, watch: WatchState, monitoring: Monitoring) -> Monitoring:
    """Write state, record and page together; the state last, so that no look is counted twice."""
    from unskew.report.page.monitor_page import render_monitoring

    assert watch.seen is not None
    names = (IMAGES, PAGE, RECORD, STATE)
    state = {
        "settings": watch.settings,
        "looks": watch.looks,
        "evidence": watch.evidence,
        "versions": find_versions(),
    }
    with written_together(home, names) as folder:
        write_frame(watch.seen, folder / IMAGES)
        (folder / PAGE).write_text(render_monitoring(monitoring), encoding="utf-8")
        write_json(folder / RECORD, monitoring.to_dict())
        write_json(folder / STATE, state)
    return replace(monitoring, files=tuple(str(home / name) for name in names))
