"""Which columns are source, label and group; ids that stay the same."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.patterns import compile_pattern, search_texts
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records.arrays import is_missing
from unskew.records.levels import level_text

if TYPE_CHECKING:
    import pandas as pd


def parts_by_source(
    kind: str, parts: Any, source: str | None, name: str | None = None
) -> Mapping[Any, Any]:
    """Return tables, files or datasets by source: as given, or a single one as that of ``name``."""
    if not isinstance(parts, Mapping):
        return {name: parts}
    if not parts:
        raise ConfigError(f"{kind} names no source: it is empty.", option=kind, value={})
    if source is not None:
        raise ConfigError(
            f"{kind} gives each source its own ({first_few(list(parts))}); leave `source` out, or "
            "name one alone, without a name for its source.",
            option="source",
            value=source,
        )
    return parts


def no_source(columns: Sequence[str], where: str, example: str, **facts: Any) -> DataError:
    """Return the error for a table without sources; ``example``: how to give each its own."""
    return DataError(
        f"{where} has no column that names the source of each image; its columns are "
        f'{first_few(columns, 12)}. Name that column (source = "…"), or give each source its own '
        f"({example}).",
        column="source",
        columns=list(columns),
        **facts,
    )


def with_unique_ids(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Make ids unique across sources, and every image without a group a group of its own."""
    ids = unique_within(frame["id"], frame["source"].astype(str))
    return with_own_groups(frame.assign(id=ids), where)


def unique_within(
    ids: Sequence[Any] | pd.Series[Any], sources: Sequence[str] | pd.Series[str]
) -> Sequence[Any] | pd.Series[Any]:
    """Return ids that are unique across sources: those that several share become ``north/17``.

    Where no id is shared they stay as they are; else all of them are text.
    """
    import pandas as pd

    if isinstance(ids, pd.Series):
        ids = ids.infer_objects()  # one type of text, whatever was read
    if pd.Series(ids).is_unique:
        return ids
    first: dict[Any, str] = {}
    pairs = [(id, source) for id, source in zip(ids, sources, strict=True) if not is_missing(id)]
    shared = {id for id, source in pairs if first.setdefault(id, source) != source}
    if not shared:
        return ids
    rows = zip(ids, sources, strict=True)
    return [
        None if is_missing(id) else f"{source}/{id}" if id in shared else str(id)
        for id, source in rows
    ]


logger = logging.getLogger(__name__)
# As `unskew.represent.feature_cache` writes them.
_HASH = re.compile(r"[0-9a-f]{32}")
# The roles that a table or a pattern may give to an image; the content is computed.
_LONGEST_NAME = 10_000
NAMED_ROLES = ("id", "source", "label", "group", "split", "path")


@dataclass(frozen=True)
class NamePattern:
    """What the first parentheses of a regular expression capture in a file's name.

    ``on = "path"``: in its path.
    """

    role: str
    pattern: re.Pattern[str]
    on: str = "name"

    def capture(self, paths: Sequence[str]) -> list[str | None]:
        """Return what is captured in every path (with forward slashes), None without a match."""
        names = [path.rpartition("/")[2] for path in paths] if self.on == "name" else paths
        matches = search_texts(self.pattern, names, f"{self.role}.regex")
        captured = [match.group(1) if match else None for match in matches]
        unmatched = [name for name, part in zip(names, captured, strict=True) if part is None]
        if unmatched:
            fate = (
                "each is a group of its own"
                if self.role == "group"
                else f"they have no {self.role}"
            )
            logger.warning(
                "%s.regex %r does not match %d of %d file names; %s: %s",
                self.role,
                self.pattern.pattern,
                len(unmatched),
                len(paths),
                fate,
                first_few([repr(name) for name in unmatched]),
            )
        return captured


def read_rule(role: str, rule: Any) -> str | NamePattern | bool | None:
    """Read the rule for a role: a column's name, ``{regex = "…"}``, None (default) or False (none).

    A regex becomes a `NamePattern`; the others are returned unchanged.
    """
    if rule is None or rule is False or isinstance(rule, str):
        return rule
    if isinstance(rule, re.Pattern):
        rule = {"regex": rule.pattern}
    if not isinstance(rule, Mapping) or "regex" not in rule or not isinstance(rule["regex"], str):
        raise ConfigError(
            f'{role} is the name of a column, or {{ regex = "^(sku\\\\d+)" }} for a part of the '
            f"file name; got {rule!r}.",
            option=role,
            value=rule,
        )
    unknown = [key for key in rule if key not in ("regex", "on")]
    if unknown:
        raise ConfigError(
            f"{role} has the settings regex and on, not "
            f"{first_few(unknown)}.{did_you_mean(unknown[0], ('regex', 'on'))}",
            option=role,
            key=unknown[0],
            allowed=["regex", "on"],
        )
    if rule.get("on", "name") not in ("name", "path"):
        raise ConfigError(
            f'{role}.on is "name" (the file name) or "path" (the path within the source); got '
            f"{rule['on']!r}.",
            option=f"{role}.on",
            value=rule["on"],
            allowed=["name", "path"],
        )
    return NamePattern(role, _compiled(role, rule["regex"]), rule.get("on", "name"))


def _compiled(role: str, regex: str) -> re.Pattern[str]:
    pattern = compile_pattern(regex, f"{role}.regex")
    if not pattern.groups:
        raise ConfigError(
            f"{role}.regex {regex!r} has no parentheses, so which part of the name is the {role} "
            f"is unknown; put them around that part, as in ({regex}).",
            option=f"{role}.regex",
            value=regex,
        )
    return pattern


def only_columns(rules: Mapping[str, Any], what: str) -> dict[str, str | bool | None]:
    """Read rules none of which may be a pattern, because ``what`` has no file names."""
    read = {role: read_rule(role, rule) for role, rule in rules.items()}
    for role, rule in read.items():
        if isinstance(rule, NamePattern):
            raise ConfigError(
                f"{role}.regex reads the names of files, and {what} have none; {role} is the name "
                "of a column here.",
                option=f"{role}.regex",
            )
    return {role: rule for role, rule in read.items() if not isinstance(rule, NamePattern)}


def with_roles(
    frame: pd.DataFrame,
    named: Mapping[str, str | bool | None],
    where: str,
    source: str | None = None,
) -> pd.DataFrame:
    """Rename the named columns to their roles; ``source``: the source of all rows, if it is one.

    A column that already has the name of a role has that role. Where another column was named for
    the role, or the role is False, it stays an attribute, called ``other_group`` (of ``group``).
    """
    if source is not None:
        return with_roles(frame, {**named, "source": False}, where).assign(source=source)
    renamed: dict[str, str] = {
        role: f"other_{role}"
        for role, column in named.items()
        if column is False and role in frame.columns
    }
    for role, column in named.items():
        if not isinstance(column, str):
            continue
        if column not in frame.columns:
            raise DataError(
                f"{where} has no column {column!r}, which was named as the {role} of the images; "
                "its columns are "
                f"{first_few(list(frame.columns), 12)}.{did_you_mean(column, frame.columns)}",
                column=column,
                columns=[str(name) for name in frame.columns],
            )
        if column in renamed:
            raise ConfigError(
                f"the column {column!r} was named both as {renamed[column]} and as {role}; one "
                "column has one role.",
                column=column,
            )
        renamed[column] = role
    for column, role in list(renamed.items()):
        if column != role and role in frame.columns and role not in renamed:
            renamed[role] = f"other_{role}"
            logger.warning(
                "%s: %r was named as the %s; the column %r becomes the attribute %r",
                where,
                column,
                role,
                role,
                f"other_{role}",
            )
    named_frame = _check_lengths(frame.rename(columns=renamed), where)
    return _plain_columns(_own_content(named_frame, where), where)


def _own_content(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Rename a user's own column ``content`` ("indoor"): equal contents would count as copies."""
    if "content" not in frame.columns or all(
        is_missing(value) or _HASH.fullmatch(str(value)) for value in frame["content"].unique()
    ):
        return frame
    logger.warning(
        "%s: the column 'content' holds no hashes of images; it becomes the attribute "
        "'other_content'",
        where,
    )
    return frame.rename(columns={"content": "other_content"})


def _exceed_float(values: Sequence[Any]) -> bool:
    """Tell whether whole numbers are too large for a float: they are codes."""
    return any(type(value) is int and abs(value) > sys.float_info.max for value in values)


def _check_lengths(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Refuse names of images, sources or labels that are documents: they are shown everywhere."""
    for name in set(NAMED_ROLES) & set(frame.columns):
        column: Any = frame[name]
        if column.dtype == "category":
            column = column.cat.categories.to_series()
        if column.dtype == "str":
            longest = column.str.len().max()  # NaN where all are missing
        elif column.dtype == object:
            texts = (text for text in column.tolist() if isinstance(text, str))
            longest = max(map(len, texts), default=0)
        else:
            continue
        if longest > _LONGEST_NAME:
            raise DataError(
                f"{where}: a {name} has {int(longest):,} characters, more than {_LONGEST_NAME:,}. "
                "Is it the right column?",
                column=name,
                count=int(longest),
                limit=_LONGEST_NAME,
            )
    return frame


def _plain_columns(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Leave columns with a single value in each field.

    Columns of lists, records or bytes are left out (labels may be lists); columns that mix text and
    numbers become text.
    """
    nested = []
    for name, dtype in frame.dtypes.items():
        if not isinstance(dtype, np.dtype) or dtype.kind != "O" or name == "label":
            continue
        values = frame[name].tolist()
        types = {type(value) for value in values if not is_missing(value)}
        odd = next(
            (
                kind
                for kind in types
                if issubclass(kind, list | tuple | dict | set | bytes | np.ndarray)
            ),
            None,
        )
        if odd is not None and name in NAMED_ROLES:
            raise DataError(
                f"{where}: {name} is one value for each image, but the column holds values of the "
                f"type {odd.__name__}.",
                column=name,
                value=odd.__name__,
            )
        if odd is not None:
            nested.append(name)
        elif (str in types and len(types) > 1) or (int in types and _exceed_float(values)):
            frame = frame.copy(deep=False)
            frame[name] = [None if is_missing(value) else level_text(value) for value in values]
    if nested:
        logger.info(
            "%s: columns that hold lists, records or bytes are left out: %s",
            where,
            first_few(nested),
        )
    return frame.drop(columns=nested)


def with_patterns(
    frame: pd.DataFrame, rules: Mapping[str, NamePattern], within: Sequence[str]
) -> pd.DataFrame:
    """Add what patterns capture in file names.

    ``within``: the path of every image within its source, with forward slashes. The same name in
    two sources is two groups: every database numbers its files from the start. A file name that
    does not match is a group of its own, named by the image's id.
    """
    frame = frame.rename(columns={role: f"other_{role}" for role in rules})
    for role, rule in rules.items():
        captured = rule.capture(within)
        if role == "group":
            rows = zip(
                captured,
                frame["source"].astype(str).tolist(),
                frame["id"].astype(str).tolist(),
                strict=True,
            )
            captured = [id if part is None else f"{source}/{part}" for part, source, id in rows]
        frame[role] = captured
    return frame


def with_own_groups(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Make every image without a group a group of its own, named by its id.

    The names of groups are then text.
    """
    if "group" not in frame.columns:
        return frame
    missing_n = frame["group"].isna()
    if not missing_n.any():
        return frame
    logger.warning(
        "%s: %d of %d images have no group; each is a group of its own",
        where,
        int(missing_n.sum()),
        len(frame),
    )
    return frame.assign(
        group=frame["group"].astype(object).where(~missing_n, frame["id"].astype(str)).astype(str)
    )
