"""Small tables on disk for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

TABLE = "source,label,x\na,cat,1\nb,dog,2\n"


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
