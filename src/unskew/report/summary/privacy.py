"""What a private report withholds: the rule, small cells, counts in sentences.

The rule, `privacy = "aggregate"`: a cell of 1 to 9 units (groups, such as patients, where there are
groups, else images) is withheld with everything computed from it. A table adds up to a total that
is known; so where one cell is withheld, the smallest of the others are, too, until at least two are
and together they have ten units or more. Cells without any image are shown: there is nobody in
them.

Where it holds:

- sources, strata, splits, unreadable images, classes, levels and bins: by `hidden_cells`, one table
  at a time; shares, weights and effective sizes of a withheld cell go with its count. A level of a
  stratum's attribute is shown only if none of its strata is withheld, so that no margin gives a
  cell away; there is no table of sources by anything else.
- levels that fewer than ten have are joined, for their names could tell who they are; edges of bins
  are round numbers with at least ten images beyond them; maxima and quantiles with fewer than ten
  images on one side are left out; effective sizes have two digits.
- links between sources overlap, so that their differences may be small: their counts are rounded to
  tens.
- sentences lose their counts.

It does not protect against other publications about the same images, nor against columns that
determine one another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints, Overlap, Pool

SMALLEST_CELL = 10
_LARGEST_TABLE = 100_000_000


def hidden_cells(size_c: npt.ArrayLike, forced_c: Any = None) -> npt.NDArray[np.bool_]:
    """Return (C,) True for the cells of a table with a known total that are withheld.

    Facts: every cell of 1 … 9 is hidden; the hidden ones are none, or at least two with a sum of at
    least ten, or all that are not empty (then the total is the caller's to hide, if it is small).
    Ties go to the first cell.

    size_c : (C,) units in each cell.
    forced_c : (C,) cells that must be hidden anyway.
    """
    size: Ints = np.asarray(size_c, dtype=np.int64)
    hidden = (size > 0) & (size < SMALLEST_CELL)
    if forced_c is not None:
        hidden |= np.asarray(forced_c, dtype=np.bool_)
    n_hidden, total = int(np.count_nonzero(size[hidden])), int(size[hidden].sum())
    others = np.flatnonzero(~hidden & (size > 0))
    for at in others[np.argsort(size[others], kind="stable")]:
        if n_hidden == 0 or (n_hidden >= 2 and total >= SMALLEST_CELL):
            break
        hidden[at], n_hidden, total = True, n_hidden + 1, total + int(size[at])
    return hidden


def count_units(
    group_n: Ints | None, code_m: Ints, n_codes: int, row_m: Ints | None = None
) -> Ints:
    """Return (n_codes,) the number of groups (or images) that have an entry of each code.

    group_n : (n,) code of each image's group, or None.
    code_m : code of each entry, −1 for none.
    row_m : the image of each entry; None: entry m is image m.
    """
    kept_m = code_m >= 0
    if group_n is None:
        return np.bincount(code_m[kept_m], minlength=n_codes).astype(np.int64)
    group_m = (group_n if row_m is None else group_n[row_m])[kept_m]
    n_groups = int(group_n.max(initial=-1)) + 1
    if n_groups * n_codes <= _LARGEST_TABLE:
        # Many times faster than sorting the pairs.
        seen = np.zeros(n_groups * n_codes, dtype=np.bool_)
        seen[group_m * n_codes + code_m[kept_m]] = True
        return np.asarray(seen.reshape(n_groups, n_codes).sum(axis=0, dtype=np.int64))
    pair = np.unique(group_m * n_codes + code_m[kept_m])
    return np.bincount(pair % n_codes, minlength=n_codes).astype(np.int64)


def few_differ(value_n: Floats, group_n: Ints | None) -> bool:
    """Tell whether 1 to 9 units have another value than the most frequent one."""
    return too_small(int(_differing(value_n, np.zeros(value_n.size, np.int64), 1, group_n)[0]))


def sources_with_few(
    value_n: Floats, source_n: Ints, n_sources: int, group_n: Ints | None, forced_k: Any = None
) -> npt.NDArray[np.bool_]:
    """Return (K,) the sources whose mean of these values would reveal a cell under ten.

    That is, fewer than ten of its units have another value than its most frequent one (of a share:
    have it, or lack it); and further sources, as in `hidden_cells`.
    """
    return hidden_cells(_differing(value_n, source_n, n_sources, group_n), forced_k)


def _differing(value_n: Floats, source_n: Ints, n_sources: int, group_n: Ints | None) -> Ints:
    """Return (K,) how many units of each source have another value than its most frequent one."""
    code_n = np.unique(value_n, return_inverse=True)[1]
    pair, pair_n, count = np.unique(
        code_n * n_sources + source_n, return_inverse=True, return_counts=True
    )
    # The most frequent value of a source comes last, and its pair is the one that stays.
    order = np.argsort(count, kind="stable")
    most_k = np.full(n_sources, -1)
    most_k[pair[order] % n_sources] = order
    other_n = pair_n != most_k[source_n]
    return count_units(group_n, np.where(other_n, source_n, -1), n_sources)


def too_small(size: int | float | None) -> bool:
    """Tell whether this is a number of units that may not be shown by itself."""
    return size is not None and 0 < size < SMALLEST_CELL


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
    """Remove every number of images or groups, and shares that come with one."""
    counted, n = _COUNT.subn("some ", _POOL_SHARE.sub("", sentence))
    counted = _PLACE.sub(lambda match: "an image" if match[1] == "image" else "a row", counted)
    return _DECIMAL.sub("…", counted) if n else counted


def overlap_message(overlap: Overlap, private: bool) -> str:
    """Return the reason of a verdict; a private one does not name strata with a single unit."""
    if not private:
        return overlap.message
    if overlap.lone is not None and overlap.lone > overlap.thresholds["lone"]:
        return (
            "Strata that show no spread of their own carry much of the variance: errors may be "
            "larger than they look. Collect more images of rare strata, or use coarser ones."
        )
    return without_counts(overlap.message)


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


def shown_size(ess: float | None, private: bool) -> float | None:
    """Return an effective size; aggregates are rounded down, as it never exceeds the images."""
    if ess is None or not math.isfinite(ess) or ess <= 0 or not private:
        return ess
    unit = 10.0 ** (math.floor(math.log10(ess)) - 1)
    # A size of 120 that was computed as 119.9999999 stays 120.
    return float(f"{math.floor(ess / unit * (1 + 1e-9)) * unit:.2g}")


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


PRIVACY_RULE = (
    "Only aggregates are shown: no images, paths or ids. A cell of 1 to 9 groups (images where "
    "there are no groups) is withheld with everything computed from it; since tables add up to "
    "known totals, the next smallest cells are withheld, too, until at least two are and have ten "
    "or more together. Rare levels are joined, largest weights and outer quantiles left out, "
    "effective sizes rounded down to two digits, counts of links between sources to tens."
)

_WORD = re.compile(r"[\s\"'`,;()\[\]{}<>=|]+")


def shown_provenance(
    provenance: Mapping[str, Any] | None, pool: Pool, private: bool
) -> dict[str, Any]:
    """Return the provenance as it may be shown."""
    return private_provenance(provenance or {}, pool) if private else dict(provenance or {})


def private_provenance(provenance: Mapping[str, Any], pool: Pool) -> dict[str, Any]:
    """Return the provenance without texts that name an image of the pool, by id, path or group."""
    named: set[str] = set()
    for role in ("id", "path", "group", "content"):
        if role in pool.frame.columns:
            named |= {
                str(text)
                for text in pool.frame[role].dropna().unique().tolist()
                if isinstance(text, str)
            }
    if pool.set_aside is not None:
        named |= {
            str(text)
            for role in ("id", "path")
            if role in pool.set_aside.columns
            for text in pool.set_aside[role].tolist()
        }
    return {
        str(key): _cleaned(value, named)
        for key, value in provenance.items()
        if not _names(str(key), named)
    }


def _cleaned(value: Any, named: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): _cleaned(entry, named)
            for key, entry in value.items()
            if not _names(str(key), named)
        }
    if isinstance(value, list | tuple):
        return tuple(_cleaned(entry, named) for entry in value)
    return "(withheld)" if isinstance(value, str) and _names(value, named) else value


def _names(text: str, named: set[str]) -> bool:
    return text in named or any(word in named for word in _WORD.split(text))
