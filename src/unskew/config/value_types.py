"""Types of values in a configuration, with their rules: text, shares, columns, splits."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints


def _check_file_name_rule(rule: Any) -> Any:
    """Check a regular expression on the file name, if the rule is one."""
    if not isinstance(rule, dict):
        return rule
    if "regex" not in rule or not set(rule) <= {"regex", "on"}:
        raise ValueError("such a table has the key regex, and perhaps on")
    if rule.get("on", "name") not in ("name", "path"):
        raise ValueError('on is "name" or "path"')
    try:
        pattern = re.compile(rule["regex"])
    except re.error as error:
        raise ValueError(f"that is no regular expression ({error})") from None
    if not pattern.groups:
        raise ValueError(
            "the expression has no parentheses that say which part of the name is meant"
        )
    return rule


def _check_split_rule(rule: Any) -> Any:
    is_file = isinstance(rule, dict) and set(rule) == {"file"}
    return rule if is_file else _check_file_name_rule(rule)


Text = Annotated[str, StringConstraints(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
# A column, or what the parentheses of a regular expression match in the file name (on = "path": in
# the path within the source).
ColumnRule = Annotated[Text | dict[Text, Text], AfterValidator(_check_file_name_rule)]
# The same, or a table of splits.
SplitRule = Annotated[Text | dict[Text, Text], AfterValidator(_check_split_rule)]
