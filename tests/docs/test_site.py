"""The site: every page is in its navigation, and opens with what it is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ROOMS = ("bias", "learn", "represent", "scenarios")
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


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    public = re.findall(
        r"^(unskew\.[\w.]+)", (ROOT / "tests/public_api.txt").read_text(), flags=re.MULTILINE
    )
    pages = {page: page.read_text(encoding="utf-8") for page in DOCS.glob("reference/*.md")}
    shown = [
        name
        for text in pages.values()
        for name in re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)
    ]
    assert len(shown) == len(set(shown))
    # Rooms and the version are described, not shown.
    rest = set(public) - set(shown)
    assert rest == {"unskew.__version__", *(f"unskew.{room}" for room in ROOMS)}
    assert set(shown) <= set(public)
    index = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in index for name in rest)
