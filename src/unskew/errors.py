"""Every exception and warning of unskew, with the longest messages.

Each error also subclasses the built-in that a caller would expect (``ValueError`` for input,
``RuntimeError`` for a failed computation), so that code which does not know unskew still catches
it.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from types import FrameType

    import pandas as pd

    from unskew.records import Overlap, Solution


class UnskewError(Exception):
    """Base of every error that unskew raises on purpose.

    ``facts`` holds the content of the message as plain values for programs: the culprit and what it
    was compared with. Names of facts, the same everywhere: ``option``, ``value``,
    ``allowed``, ``path``, ``line``, ``key``, ``row``, ``id``, ``ids``, ``source``, ``sources``,
    ``column``, ``columns``, ``level``, ``levels``, ``count``, ``limit``, ``extra``, ``package``,
    ``pid``, ``host``, ``since``.
    """

    def __init__(self, message: str = "", /, **facts: Any) -> None:
        super().__init__(message)
        self.facts = {name: _plain(value) for name, value in facts.items()}


class DataError(UnskewError, ValueError):
    """Numbers, images or tables that cannot be used; the message names the row and the source."""


class RowCountError(DataError):
    """Row blocks with another number of rows than expected."""

    def __init__(self, message: str, seen: int = 0, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.seen = seen


class LockedError(DataError):
    """A folder or file that another run is writing; facts: ``pid``, ``host``, ``since``."""


class MixedResultsError(DataError):
    """A file of a results folder that is not of its run: changed, damaged, or of another run."""


class ConfigError(UnskewError, ValueError):
    """An option has a value that it cannot have."""


class InvalidConfigError(ConfigError):
    """A configuration that cannot be used.

    ``problems`` lists everything that is wrong: file, line, key and message.
    """

    def __init__(
        self, message: str, problems: Sequence[Mapping[str, object]] = (), **facts: Any
    ) -> None:
        super().__init__(message, **facts)
        self.problems = tuple(problems)


class ImageError(DataError):
    """One image cannot be used; the message is the reason, as ``unreadable.csv`` shows it."""


class UnreadableError(DataError):
    """More unusable images than are tolerated.

    ``set_aside`` holds those seen so far: id, source, path, reason.
    """

    def __init__(self, message: str, set_aside: pd.DataFrame | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.set_aside = set_aside


class OverlapError(UnskewError, ValueError):
    """Sources without a link: the normalizers are not identifiable, whatever the solver.

    ``overlap`` holds the graph; ``summary``, where a run was refused, what its page shows.
    """

    summary: Any = None

    def __init__(self, message: str, overlap: Overlap | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.overlap = overlap


class CoverageError(UnskewError, ValueError):
    """A target that asks for images that no source has; ``summary`` as for `OverlapError`."""

    summary: Any = None


class ConvergenceError(UnskewError, RuntimeError):
    """A solver that stopped before the tolerance was met; ``solution`` holds how far it came."""

    def __init__(self, message: str, solution: Solution | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.solution = solution


class UnskewWarning(UserWarning):
    """Base of every warning of unskew."""


class WeakOverlapWarning(UnskewWarning):
    """The sources are linked, but by so little that the weights rest on a few images."""


E = TypeVar("E", bound=UnskewError)


def warn_caller(message: str, kind: type[UnskewWarning] = UnskewWarning) -> None:
    """Warn at the line of the caller's own code, however deep in unskew the reason was found."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith("unskew."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's, also within lists."""
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value.tolist() if type(value).__module__ == "numpy" else value


def first_few(values: Sequence[object], limit: int = 5) -> str:
    """Return ``a, b, c and 4 more``: a list that stays readable whatever its length."""
    shown = ", ".join(str(value) for value in values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit} more"


def short_name(name: object, longest: int = 40) -> str:
    """Return a name as one visible line: control characters escaped, long ones cut."""
    text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(name))
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


# What is compared when a name is suggested: the time grows with the product.
_MOST_NAMES, _LONGEST_NAME = 5000, 200


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """Return `` Did you mean 'label'?``, or nothing."""
    names = (str(name) for name in islice(known, _MOST_NAMES))
    near = difflib.get_close_matches(
        str(word)[:_LONGEST_NAME], [name for name in names if len(name) <= _LONGEST_NAME], n=1
    )
    return f" Did you mean {near[0]!r}?" if near else ""


def wrong_option(
    rule: str, hint: str = "", *, limit: Any = None, allowed: Any = None, **option: Any
) -> ConfigError:
    """Say what an option may be, and what it is: ``wrong_option("n is above 0", n=-1)``.

    ``limit`` and ``allowed`` become facts; of allowed names the nearest is suggested.
    """
    ((name, value),) = option.items()
    return refused_option(rule, name, value, hint=hint, limit=limit, allowed=allowed)


def refused_option(
    rule: str,
    name: str,
    value: Any,
    *,
    hint: str = "",
    limit: Any = None,
    allowed: Any = None,
    kind: type[E] = ConfigError,  # type: ignore[assignment]
) -> E:
    """Return the error of an option ``name`` that breaks ``rule``; see `wrong_option`."""
    is_plain = isinstance(value, str | int | float | list | tuple | Mapping | np.generic | None)
    facts = {"option": name, "value": value if is_plain else _shown(value).removeprefix("a ")}
    if limit is not None:
        facts["limit"] = limit
    if allowed is not None:
        facts["allowed"] = allowed
        hint = did_you_mean(_shown(value).strip("'"), allowed) or hint
    return kind(f"{rule}; got {_shown(value)}.{hint}", **facts)


def _shown(value: object, longest: int = 300) -> str:
    """Return a value as it is written, cut where it is long."""
    try:
        text = repr(value)
    except Exception:  # such as a number of more digits than Python writes
        text = f"a {type(value).__name__}"
    if "\n" in text:  # a table
        return f"a {type(value).__name__}"
    return text if len(text) <= longest else f"{text[:longest]}…"


def no_rows() -> DataError:
    return DataError(
        "omega has no rows: there is not a single image to weigh. Were the sources read, and did a "
        "filter drop everything?"
    )


def wrong_length(n_source: int, n_rows: int) -> DataError:
    return DataError(
        "source names the database of every row of omega, so both must have the same length; got "
        f"{n_source} entries in source and {n_rows} rows in omega. Were rows dropped from one of "
        "the two (unreadable images, a filter) and not from the other?",
        count=n_source,
        limit=n_rows,
    )


def unknown_sources(unknown: Sequence[object], known: Sequence[object]) -> DataError:
    return DataError(
        "source has entries that are no column of omega: "
        f"{first_few([repr(name) for name in unknown])}. The columns are "
        f"{first_few([repr(name) for name in known])}. Pass omega as a DataFrame whose columns are "
        "the source names, or give names=[...] in the order of the columns.",
        sources=list(unknown),
        columns=list(known),
    )


def empty_sources(empty: Sequence[object]) -> DataError:
    return DataError(
        f"no image comes from {first_few(empty)}: a column of omega without images has no "
        "equation. "
        "Drop the column, or check that source and the columns of omega use the same names.",
        sources=list(empty),
    )


def not_finite(value: float, row: int, name: str) -> DataError:
    return DataError(
        f"omega must be finite and not negative, but image {row} has {value!r} for source "
        f"`{name}`. Likely causes: a missing feature (NaN), a division by a zero margin (inf), or "
        "logarithms passed without log=True (negative).",
        row=row,
        source=name,
        value=value,
    )


def not_a_logarithm(value: float, row: int, name: str) -> DataError:
    return DataError(
        f"log omega must be a number or -inf (omega = 0), but image {row} has {value!r} for source "
        f"`{name}`. Likely causes: a missing feature (NaN), or the logarithm of an infinite or "
        "negative omega.",
        row=row,
        source=name,
        value=value,
    )


def impossible_image(row: int) -> DataError:
    return DataError(
        f"the model says that no source could have produced image {row}: its omega is zero in "
        "every column. Widen the biasing functions so that every image has at least its own "
        "source, or leave the image out.",
        row=row,
    )


def impossible_origin(row: int, name: str) -> DataError:
    return DataError(
        f"the model says source `{name}` could not have produced image {row}, yet it did: omega is "
        "zero in its own source's column. Either the biasing function is wrong there, or the "
        "columns of omega are in another order than the sources.",
        row=row,
        source=name,
    )


def changed_length(first: int, now: int) -> RowCountError:
    return RowCountError(
        f"the row blocks of omega gave {first} rows in the first pass and {now} in a later one. "
        "The same rows must come in the same order every time the object is iterated.",
        now,
        count=now,
        limit=first,
    )


def one_shot_blocks() -> DataError:
    return DataError(
        "omega is an iterator that can be read only once, but the solver makes several passes. "
        "Pass an object whose __iter__ starts again (a list of blocks, a class, a path), not a "
        "generator."
    )


def complex_columns(names: Sequence[str]) -> DataError:
    return DataError(
        f"{first_few(names)}: complex numbers; columns hold real numbers or names. Use the real "
        "part, the imaginary part or the modulus, each a column of its own.",
        columns=list(names),
    )


def missing_extra(extra: str, wish: str, error: ImportError) -> ConfigError:
    """Name a package that is not installed, what needs it, and the command that installs it."""
    return ConfigError(
        f"{wish} needs the package {error.name!r}, which is not installed: pip install "
        f"'unskew[{extra}]'",
        extra=extra,
        package=error.name,
    )


def diverged(epoch: int, loss: float, learning_rate: float) -> ConvergenceError:
    return ConvergenceError(
        f"training diverged in epoch {epoch + 1}: the loss is {loss}. Likely causes: a learning "
        f"rate that is too high (it is {learning_rate:g}; try a tenth), half precision that "
        "overflows (try precision 'bf16-mixed' or '32-true'), or a few huge weights (see the "
        "effective sample size; trim them). The checkpoint of the epoch before is kept.",
        value=loss,
    )


def too_many_unreadable(
    set_aside: pd.DataFrame, n_images: int, tolerance: float
) -> UnreadableError:
    by_source = first_few(
        [f"{name} ({count})" for name, count in set_aside["source"].value_counts().items()]
    )
    examples = "; ".join(f"{row.id}: {row.reason}" for row in set_aside.head(3).itertuples())
    return UnreadableError(
        f"{len(set_aside)} of {n_images} images cannot be used, more than the tolerated share of "
        f"{tolerance:.4g}; the run stopped here, so there may be more. By source: {by_source}. The "
        f"first ones: {examples}. Repair or remove these files, or, if the rest represents the "
        "sources without them, raise tolerance (at least "
        f"{-(-1000 * len(set_aside) // n_images) / 1000:.3f}).",
        set_aside,
        count=len(set_aside),
        limit=tolerance,
    )


def no_image_left(sources: Sequence[str], set_aside: pd.DataFrame) -> UnreadableError:
    mine = set_aside[set_aside["source"] == sources[0]]
    return UnreadableError(
        f"not one image of {first_few(sources)} can be used; the first one, {mine['id'].iloc[0]}: "
        f"{mine['reason'].iloc[0]}. Repair its files, or leave the source out.",
        set_aside,
        sources=list(sources),
    )
