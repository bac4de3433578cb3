"""What a look at new images found: evidence of a change, its size, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.files.plain_json import json_value

StreamKind = Literal["source", "all", "target"]


@dataclass(frozen=True)
class Change:
    """How far new units differ from the reference in one variable; errors are standard errors.

    level : the level that changed most, whose shares these are; None: means of numbers.
    before, now : of the reference, and of the new units since the change (of all, without one).
    stderr : of ``now`` − ``before``, units being drawn independently.
    """

    level: str | None
    before: float
    now: float
    stderr: float

    @property
    def difference(self) -> float:
        """Now − before."""
        return self.now - self.before


@dataclass(frozen=True)
class VariableEvidence:
    """The evidence that one variable of one stream has changed.

    variable : its name.
    log10_evidence : at the last look, weighted so that an alarm is the same number everywhere.
    log10_peak : the largest at any look.
    since : the look at which the change most likely began.
    units : new units that were compared.
    change : None where nothing was compared.
    """

    variable: str
    log10_evidence: float
    log10_peak: float
    since: str
    units: int
    change: Change | None


@dataclass(frozen=True)
class OutsideShare:
    """The share of new units outside what the pool covers; its interval holds at all looks."""

    units: int
    outside: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share itself; 0 without units."""
        return self.outside / self.units if self.units else 0.0


@dataclass(frozen=True)
class MonitoredStream:
    """New images of one source, of all sources together, or of the target.

    reference_units, units, images : units of the reference; new units, and images in them.
    variables : by evidence, the strongest first.
    outside : None where nothing tells what the pool covers.
    unseen : (column, level, images): levels that no image of the pool has.
    trace : (T,) the largest log10 evidence of any variable at each look.
    """

    name: str
    kind: StreamKind
    reference_units: int
    units: int
    images: int
    variables: tuple[VariableEvidence, ...]
    outside: OutsideShare | None
    unseen: tuple[tuple[str, str, int], ...]
    trace: tuple[float, ...]
    drifted: bool

    @property
    def log10_peak(self) -> float:
        """The largest evidence of any variable at any look."""
        return max((one.log10_peak for one in self.variables), default=-99.0)

    @property
    def strongest(self) -> VariableEvidence | None:
        """The variable with the most evidence."""
        return max(self.variables, key=lambda one: one.log10_peak, default=None)


@dataclass(frozen=True, repr=False)
class Monitoring:
    """Whether new images still fit the solved weights, after all looks so far.

    Attributes
    ----------
    drifted : has any evidence ever reached ``log10_alarm``?
    headline, sentences, next_steps, notes : the same in words.
    streams : the sources, all together, and the target where its images were seen.
    looks : the names of the looks, one for each batch.
    counted : images that this call added; ``known``: images that were counted before, or are part
        of the run.
    log10_alarm : evidence that a variable needs; log10(1/0.05).
    """

    drifted: bool
    headline: str
    sentences: tuple[str, ...]
    next_steps: tuple[str, ...]
    streams: tuple[MonitoredStream, ...]
    looks: tuple[str, ...]
    counted: int
    known: int
    log10_alarm: float
    notes: tuple[str, ...] = ()
    title: str = "Monitoring"
    files: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        """Show the verdict, each stream, and what to do."""
        lines = [f"Monitoring, {len(self.looks)} looks: {self.headline}"]
        lines += [f"  {describe_stream(stream)}" for stream in self.streams]
        return "\n".join([*lines, *[f"  -> {step}" for step in self.next_steps]])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        record: dict[str, Any] = json_value(self)
        for stream, plain in zip(self.streams, record["streams"], strict=True):
            plain["log10_peak"] = stream.log10_peak
            if stream.outside is not None:
                plain["outside"]["share"] = stream.outside.share
        return record


def show_evidence(log10: float) -> str:
    """Show evidence as a number, a power of ten where it is large.

    >>> show_evidence(1.2), show_evidence(-1.0), show_evidence(7.1)
    ('15.8', '0.1', '10^7')
    """
    return f"10^{log10:.0f}" if log10 >= 5 else f"{10.0**log10:.3g}"


def describe_stream(stream: MonitoredStream) -> str:
    """Say in one line how many new units there are, and what the evidence is."""
    word = "drifted" if stream.drifted else "no drift"
    best = stream.strongest
    about = "" if best is None else f", evidence {show_evidence(best.log10_peak)} ({best.variable})"
    return f"{stream.name}: {word}, {stream.units:,} new units{about}"
