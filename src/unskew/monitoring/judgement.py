"""All streams judged together: `Monitoring`.

Every variable of every stream has a share of the 5%, fixed before the first look: streams have
equal shares, and so have the variables of a stream. A variable with share w raises the alarm when
w E_t ≥ 1/0.05. By Ville's inequality each does so falsely with probability 0.05 w at most, over all
looks together, and hence one of them or more with 0.05 at most, however they depend on one another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.monitoring.change_evidence import (
    CELLS,
    log_rank_evidence,
    log_share_evidence,
    share_interval_sequence,
)
from unskew.monitoring.conformal_ranks import count_cells
from unskew.monitoring.monitor_words import find_next_steps, find_sentences, make_headline
from unskew.monitoring.stream import (
    ALL_SOURCES,
    TARGET_STREAM,
    Reference,
    rank_column,
    value_column,
)
from unskew.monitoring.uncovered import count_unseen
from unskew.monitoring.variables import OUTSIDE
from unskew.records.arrays import Floats, Ints
from unskew.records.monitoring import (
    Change,
    MonitoredStream,
    Monitoring,
    OutsideShare,
    StreamKind,
    VariableEvidence,
)

if TYPE_CHECKING:
    import pandas as pd

# False alarms over all looks and all tests together.
FALSE_ALARMS = 0.05
LOG10_ALARM = -math.log10(FALSE_ALARMS)
# The evidence of every variable of every stream, log10 w E_t, at one look.
Evidence = dict[str, dict[str, float]]


def alarm_shares(reference: Reference) -> dict[str, dict[str, float]]:
    """Return w of every variable, by stream; they sum to at most 1."""
    tests = reference.tests()
    return {
        stream: {name: 1.0 / (len(tests) * len(variables)) for name in variables}
        for stream, variables in tests.items()
    }


def weigh_evidence(
    reference: Reference, seen: pd.DataFrame, n_looks: int, max_uncovered: float
) -> tuple[Evidence, dict[str, dict[str, int]]]:
    """Compute log10 w E_T of all variables after the last look, and where a change began."""
    counts = _counts(reference, seen, n_looks)
    evidence: Evidence = {}
    since: dict[str, dict[str, int]] = {}
    for stream, shares in alarm_shares(reference).items():
        evidence[stream], since[stream] = {}, {}
        for name, share in shares.items():
            if name == OUTSIDE:
                log_e, term_t = log_share_evidence(
                    *_outside_counts(seen, n_looks), most=max_uncovered
                )
            else:
                log_e, term_t = log_rank_evidence(counts[stream][name])
            evidence[stream][name] = (float(log_e) + math.log(share)) / math.log(10.0)
            since[stream][name] = int(np.argmax(term_t))
    return evidence, since


def _counts(reference: Reference, seen: pd.DataFrame, n_looks: int) -> dict[str, dict[str, Ints]]:
    """Count ranks by look and cell, for every stream and variable."""
    counts: dict[str, dict[str, Ints]] = {}
    for stream in reference.streams:
        own = _rows_of(seen, stream)
        look_m = own["look"].to_numpy(dtype=np.int64)
        counts[stream] = {
            name: count_cells(own[rank_column(name)].to_numpy(np.float64), look_m, n_looks)
            if rank_column(name) in own.columns
            else np.zeros((n_looks, CELLS), dtype=np.int64)
            for name in reference.streams[stream].variables
        }
    empty = np.zeros((n_looks, CELLS), dtype=np.int64)
    counts[ALL_SOURCES] = {
        name: sum((counts[source].get(name, empty) for source in reference.sources), empty)
        for name in reference.variables
    }
    return counts


def _rows_of(seen: pd.DataFrame, stream: str) -> pd.DataFrame:
    return seen[(seen["stream"] == stream) & seen["counted"]]


def _outside_counts(seen: pd.DataFrame, n_looks: int) -> tuple[Ints, Ints]:
    own = _rows_of(seen, TARGET_STREAM)
    look_m, outside_m = own["look"].to_numpy(np.int64), own["outside"].to_numpy(np.bool_)
    return (
        np.bincount(look_m[outside_m], minlength=n_looks),
        np.bincount(look_m[~outside_m], minlength=n_looks),
    )


def judge_streams(
    reference: Reference,
    seen: pd.DataFrame,
    looks: Sequence[str],
    evidence: Sequence[Evidence],
    *,
    max_uncovered: float,
    least: int = 1,
    **about: Any,
) -> Monitoring:
    """Judge all looks so far, from the images and from the ``evidence`` of every look.

    Levels of fewer than ``least`` units are not named. ``about`` fills fields of the record:
    counted, known, notes, title.
    """
    _, since = weigh_evidence(reference, seen, len(looks), max_uncovered)
    streams = [
        _judge_stream(reference, seen, stream, looks, evidence, since[stream])
        for stream in reference.tests()
    ]
    # A stream without a new image is not shown.
    shown = tuple(_without_few(stream, least) for stream in streams if stream.images)
    return Monitoring(
        drifted=any(stream.drifted for stream in shown),
        headline=make_headline(shown, LOG10_ALARM),
        sentences=find_sentences(shown, LOG10_ALARM, max_uncovered),
        next_steps=find_next_steps(shown, LOG10_ALARM),
        streams=shown,
        looks=tuple(looks),
        log10_alarm=LOG10_ALARM,
        **about,
    )


def _without_few(stream: MonitoredStream, least: int) -> MonitoredStream:
    """Withhold levels of fewer than ``least`` units."""

    def cleared(one: VariableEvidence) -> VariableEvidence:
        change = one.change
        is_few = (
            change is not None
            and change.level is not None
            and min(change.before * stream.reference_units, change.now * one.units) < least
        )
        return replace(one, change=None) if is_few else one

    if least <= 1:
        return stream
    unseen = tuple(one for one in stream.unseen if one[2] >= least)
    return replace(stream, unseen=unseen, variables=tuple(map(cleared, stream.variables)))


def _judge_stream(
    reference: Reference,
    seen: pd.DataFrame,
    stream: str,
    looks: Sequence[str],
    evidence: Sequence[Evidence],
    since: Mapping[str, int],
) -> MonitoredStream:
    is_all = stream == ALL_SOURCES
    names = reference.sources if is_all else [stream]
    rows = seen[seen["stream"].isin(names)]
    own = rows[rows["counted"]]
    judged = [
        _judge_variable(reference, own, stream, name, looks, [e[stream] for e in evidence], first)
        for name, first in since.items()
    ]
    trace = tuple(max(at[stream].values(), default=-99.0) for at in evidence)
    kind: StreamKind = "all" if is_all else "target" if stream == TARGET_STREAM else "source"
    levels = {
        name: own[value_column(name)].dropna().tolist()
        for name in reference.covered.levels
        if value_column(name) in own.columns
    }
    units = sum(reference.streams[name].units for name in names)
    return MonitoredStream(
        name=stream,
        kind=kind,
        reference_units=units,
        units=len(own),
        images=len(rows),
        variables=tuple(sorted(judged, key=lambda one: -one.log10_peak)),
        outside=_outside_share(own),
        unseen=count_unseen(reference.covered.levels, levels),
        trace=trace,
        drifted=any(one.log10_peak >= LOG10_ALARM for one in judged),
    )


def _outside_share(own: pd.DataFrame) -> OutsideShare | None:
    if not len(own):
        return None
    outside = int(own["outside"].astype(bool).sum())
    return OutsideShare(
        len(own), outside, *share_interval_sequence(outside, len(own), 1 - FALSE_ALARMS)
    )


def _judge_variable(
    reference: Reference,
    own: pd.DataFrame,
    stream: str,
    name: str,
    looks: Sequence[str],
    evidence: Sequence[Mapping[str, float]],
    first: int,
) -> VariableEvidence:
    trace = [at[name] for at in evidence]
    peak = max(trace)
    column = rank_column(name)
    ranked = own if name == OUTSIDE else own[own[column].notna()] if column in own else own[:0]
    change = None
    if stream != ALL_SOURCES and name != OUTSIDE and len(ranked):
        recent = ranked[ranked["look"] >= first] if peak >= LOG10_ALARM else ranked
        now = (recent if len(recent) else ranked)[value_column(name)].to_numpy()
        source = reference.streams[stream]
        if name in source.values:
            change = _change(source.values[name], now)
        else:
            change = _change_of_shares(source.shares[name], now)
    return VariableEvidence(name, trace[-1], peak, str(looks[first]), len(ranked), change)


def _change(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> Change | None:
    """Compare means of numbers, or the shares of the level that changed most."""
    if old.dtype.kind == "f":
        return _change_of_numbers(old, new.astype(np.float64))
    levels = np.unique(np.concatenate([old.astype(str), new.astype(str)]))
    before_l, now_l = _level_shares(levels, old), _level_shares(levels, new)
    pooled_l = (before_l * old.size + now_l * new.size) / (old.size + new.size)
    error_l = np.sqrt(pooled_l * (1 - pooled_l) * (1 / old.size + 1 / new.size))
    return _largest_change(levels, before_l, now_l, error_l)


def _largest_change(
    levels: npt.NDArray[Any], before_l: Floats, now_l: Floats, error_l: Floats
) -> Change:
    best = int(np.argmax(np.abs(now_l - before_l) / np.maximum(error_l, 1e-12)))
    return Change(str(levels[best]), *(float(x_l[best]) for x_l in (before_l, now_l, error_l)))


def _level_shares(levels: npt.NDArray[Any], values: npt.NDArray[Any]) -> Floats:
    count_l = np.bincount(np.searchsorted(levels, values.astype(str)), minlength=levels.size)
    return np.asarray(count_l / values.size)


def _change_of_numbers(old: Floats, new: Floats) -> Change | None:
    """Compare means, or the shares of numbers that are none, whichever changed more.

    Infinite is the weight of an image that nobody covers.
    """
    before, now = (~np.isfinite(x) for x in (old, new))
    share = float(np.concatenate([before, now]).mean())
    error = math.sqrt(share * (1 - share) * (1 / old.size + 1 / new.size))
    lost = Change("missing or infinite", float(before.mean()), float(now.mean()), error)
    old, new = old[~before], new[~now]
    if not old.size or not new.size:
        return lost if share else None
    variance = sum(x.var(ddof=1) / x.size if x.size > 1 else math.inf for x in (old, new))
    means = Change(None, float(old.mean()), float(new.mean()), math.sqrt(variance))
    return max(means, lost, key=lambda one: abs(one.difference) / max(one.stderr, 1e-12))


def _change_of_shares(share: Mapping[str, float], new: npt.NDArray[Any]) -> Change:
    """Compare with shares that are known."""
    levels = np.array(sorted(share))
    own = new[np.isin(new.astype(str), levels)]
    now_l, before_l = _level_shares(levels, own), np.array([share[str(at)] for at in levels])
    error_l = np.sqrt(before_l * (1 - before_l) / own.size)
    return _largest_change(levels, before_l, now_l, error_l)
