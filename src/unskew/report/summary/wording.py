"""Numbers in sentences, and sentences without counts for pages with aggregates only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# "12 images", "3 of 40 images", "(7 groups)"; "image 17", "row 3".
_COUNT = re.compile(
    r"(?<![\w.])[\d,]*\d(?: of (?:its |the )?[\d,]*\d)? (?=(?:\w+ )?(?:images?|groups?|rows?)\b)"
)
_PLACE = re.compile(r"\b(image|row) \d+\b")
_DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?:e[+-]?\d+)?%?|(?<![\w.,])\d+%")
# The pool share of images outside the target's scope reveals how many they are.
_POOL_SHARE = re.compile(r"(?<=pool share)(?: \([\d.e+-]+\)|, [\d.e+-]+)")
_ASIDE = re.compile(r" \([^()]*\d[^()]*\)")


def without_counts(sentence: str) -> str:
    """Remove every number of images or groups, and shares that come with one.

    Sentences of the records count what was dropped or left out; those counts are cells of no table
    and could be small.
    """
    counted, n = _COUNT.subn("some ", _POOL_SHARE.sub("", sentence))
    counted = _PLACE.sub(lambda match: "an image" if match[1] == "image" else "a row", counted)
    return _DECIMAL.sub("…", counted) if n else counted


def private_sentences(sentences: Iterable[str], hidden: Sequence[str]) -> tuple[str, ...]:
    """Remove counts, and the sentences that name what is withheld."""
    return tuple(
        without_counts(sentence)
        for sentence in sentences
        if not any(name in sentence for name in hidden)
    )


def private_population(population: str) -> str:
    """Remove the numbers in brackets."""
    return _ASIDE.sub("", population)


def count_text(count: float | None, noun: str = "") -> str:
    """Show 1,204; below ten and with a fraction, one decimal. With a noun: 1 image, 2 images."""
    if count is None:
        return "–"
    text = f"{count:,.1f}" if count < 10 and count != int(count) else f"{count:,.0f}"
    return f"{text} {noun}{'' if count == 1 else 's'}" if noun else text


def share_text(share: float | None) -> str:
    """Show 12.3%, 0.04%."""
    if share is None:
        return "–"
    percent = 100 * share
    return (
        f"{percent:.0f}%"
        if percent >= 99.95 or percent == 0
        else f"{percent:.3g}%"
        if percent < 10
        else f"{percent:.1f}%"
    )


def listed(names: Sequence[str], most: int = 4) -> str:
    """Join names: a, b and c; longer lists end in "and 7 more"."""
    names = list(names)
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return (
        names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
    )
