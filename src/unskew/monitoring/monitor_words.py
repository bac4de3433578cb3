"""What the evidence means, and what to do about it, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.errors import first_few
from unskew.monitoring.variables import DISTANCE, MEMBERSHIP, OUTSIDE, WEIGHT
from unskew.records.monitoring import Change, MonitoredStream, VariableEvidence, show_evidence
from unskew.records.solution import count_of


def make_headline(streams: Sequence[MonitoredStream], alarm: float) -> str:
    """Say in one sentence whether anything has drifted."""
    drifted = [stream for stream in streams if stream.drifted]
    if not drifted:
        units = sum(stream.units for stream in streams if stream.kind != "all")
        return f"No drift: {count_of(units, 'new unit')} still fit the solved weights."
    names = [_subject(stream) for stream in drifted if stream.kind != "all"]
    if not names:
        return "Drift: the sources together have changed, though none of them shows it alone."
    return f"Drift: {first_few(names)} no longer {'fit' if len(names) > 1 else 'fits'} the weights."


def _subject(stream: MonitoredStream) -> str:
    return {
        "source": f"`{stream.name}`",
        "all": "All sources together",
        "target": "the target",
    }[stream.kind]


def find_sentences(
    streams: Sequence[MonitoredStream], alarm: float, max_uncovered: float
) -> tuple[str, ...]:
    """Say what each stream shows: its change with its size, and what is outside the pool."""
    sentences = []
    for stream in streams:
        if stream.drifted:
            alarming = [one for one in stream.variables if one.log10_peak >= alarm]
            sentences += [_say_change(stream, one, max_uncovered) for one in alarming[:3]]
            if len(alarming) > 3:
                sentences.append(
                    f"{_subject(stream)}: also {first_few([one.variable for one in alarming[3:]])}."
                )
        elif stream.strongest is not None:
            evidence = show_evidence(stream.log10_peak)
            sentences.append(
                f"{_capital(_subject(stream))}: nothing has changed that "
                f"{count_of(stream.units, 'new unit')} could show (evidence {evidence}; an "
                f"alarm needs {10**alarm:.0f})."
            )
        sentences += _say_outside(stream)
    return tuple(sentences)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _say_change(stream: MonitoredStream, one: VariableEvidence, max_uncovered: float) -> str:
    start = f"{_capital(_subject(stream))}"
    evidence = f"evidence {show_evidence(one.log10_peak)}, most likely since {one.since}"
    if one.variable == OUTSIDE:
        return (
            f"{start}: more than {max_uncovered:.0%} of the new images are outside what the pool "
            f"covers ({evidence})."
        )
    meaning = _MEANINGS.get(one.variable, "")
    return f"{start}: {one.variable} has changed{show_change(one.change)} ({evidence}).{meaning}"


_MEANINGS = {
    MEMBERSHIP: " The bias model no longer says which source an image like these comes from.",
    WEIGHT: " The new images are of kinds that weigh more, or less, than the old ones did.",
    DISTANCE: " The new images are farther from the pool, or nearer to it, than the old ones were.",
}


def show_change(change: Change | None) -> str:
    """Show a change with its standard error, as in ``: cat 30.1% → 41.2% (+11.1 ± 2.3 points)``."""
    if change is None:
        return ""
    if change.level is None:
        difference = f"{change.difference:+.3g} ± {change.stderr:.2g}"
        return f": {change.before:.4g} → {change.now:.4g} ({difference})"
    points = f"{100 * change.difference:+.1f} ± {100 * change.stderr:.1f} points"
    return f": `{change.level}` {change.before:.1%} → {change.now:.1%} ({points})"


def _say_outside(stream: MonitoredStream) -> list[str]:
    if stream.kind == "all" or stream.outside is None:
        return []
    sentences = []
    if stream.unseen:
        shown = [f"`{level}` ({column}, {count:,})" for column, level, count in stream.unseen]
        sentences.append(
            f"{_capital(_subject(stream))}: levels that no image of the pool has: "
            f"{first_few(shown)}."
        )
    own = stream.outside
    if own.outside:
        sentences.append(
            f"{_capital(_subject(stream))}: {own.share:.1%} of the new units are outside what the "
            f"pool covers ({own.low:.1%} to {own.high:.1%} with 95% at all looks together)."
        )
    return sentences


def find_next_steps(streams: Sequence[MonitoredStream], alarm: float) -> tuple[str, ...]:
    """Say what to do about what has drifted."""
    drifted = [stream for stream in streams if stream.drifted]
    if not drifted:
        return ("Nothing: go on, and look again with the next images.",)
    steps: list[str] = []
    sources = [stream.name for stream in drifted if stream.kind == "source"]
    if sources:
        names = first_few([f"`{name}`" for name in sources])
        steps.append(
            f"Find out what changed in {names}: camera, selection, labelling or software. An error "
            "in the new images is mended there, not by weights."
        )
        steps.append(
            "If the change is real, add the new images as a source of their own (such as "
            f"{sources[0]}-new) and run `unskew weigh` again: old and new images then each have "
            "their own selection. Weights of the old images stay right for the old images."
        )
    alarming = {one.variable for s in drifted for one in s.variables if one.log10_peak >= alarm}
    if MEMBERSHIP in alarming:
        steps.append(
            "Fit the bias model again with the new images; if its page reports a bad fit, compare "
            "families with `unskew.choose_bias`."
        )
    if any(stream.kind == "target" for stream in drifted):
        if OUTSIDE in alarming:
            steps.append(
                "Collect images like those of the target that the pool lacks, or restrict the "
                'target (uncovered = "restrict"): no weight makes up for images that no source '
                "has."
            )
        if alarming - {OUTSIDE}:
            steps.append(
                "Describe the target again, by new margins or a new sample, and run "
                "`unskew weigh`: the weights are for the target as it was."
            )
    if not steps:
        steps.append(
            "Compare the sources' new images with the old ones, and run `unskew weigh` again with "
            "both."
        )
    return (*steps, "After `unskew weigh`, begin a new watch with `unskew monitor --restart`.")
