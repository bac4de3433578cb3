"""The site: every page is in its navigation, and opens with what it is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": (\S+\.md)$", NAVIGATION, flags=re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_the_sections_are_those_that_a_reader_looks_for() -> None:
    sections = re.findall(r"^  - (\w+):$", NAVIGATION, flags=re.MULTILINE)
    assert sections == ["Start", "Tutorials", "Guides", "Concepts", "Reference", "Measured"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_opens_with_a_sentence(page: Path) -> None:
    """Before any code, table, list or further heading; and not with how the page was made."""
    title, opening = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert title.startswith("# ")
    assert re.match(r"[*`\[]*\w", opening)
    assert not opening.startswith(("```", "Written by"))
