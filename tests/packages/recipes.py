"""Runs the recipes of docs/frameworks.md: what all share, then the blocks named after a package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
_BLOCK = re.compile(r'^```python(?: title="(\w+)")?\n(.*?)^```', flags=re.MULTILINE | re.DOTALL)


def run_recipe(name: str) -> dict[str, Any]:
    """Run the blocks for everybody and those of ``name``, in order; return what they leave."""
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert name in {title for title, _ in blocks}
    code = "\n".join(code for title, code in blocks if title in ("", name))
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, PAGE.name, "exec"), scope)
    return scope
