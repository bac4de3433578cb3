"""For the site: in our docstrings "name : text" is a description; types are in the signatures.

An extension of griffe, which reads such a line as "name : type" otherwise.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^(?:Attributes|Parameters|Raises|Returns|Yields)\n-+\n", re.MULTILINE)
_ITEM = re.compile(r"^(\S[^:\n]*?) : (.+)$", re.MULTILINE)


def describe_items(text: str) -> str:
    """Write "name : text" in sections as a name and, indented below it, its description."""
    begin = _SECTION.search(text)
    if begin is None:
        return text
    return text[: begin.end()] + _ITEM.sub(r"\1\n    \2", text[begin.end() :])


class Prose(griffe.Extension):
    """Change every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = describe_items(obj.docstring.value)
