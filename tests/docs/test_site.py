"""The site: every page is in its navigation, and opens with what it is for."""

from __future__ import annotations

import re
import unicodedata
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


def _anchors(page: Path) -> set[str]:
    """List the anchors of a page: its headings, as MkDocs spells them, and the names it shows."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    plain = [re.sub(r"[`*]|\]\([^)]*\)", "", line) for line in re.findall(r"^#+ (.+)$", text, re.M)]
    ascii_only = [unicodedata.normalize("NFKD", title).encode("ascii", "ignore") for title in plain]
    words = [re.sub(r"[^\w\s-]", "", title.decode()).strip().lower() for title in ascii_only]
    return {re.sub(r"[-\s]+", "-", title) for title in words} | set(
        re.findall(r"^::: (\S+)$", text, re.M)
    )


def test_links_to_headings_lead_to_one() -> None:
    anchors = {page: _anchors(page) for page in PAGES}
    broken = [
        f"{page.relative_to(DOCS)}: {link}#{anchor}"
        for page in PAGES
        for link, anchor in re.findall(
            r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")
        )
        if anchor not in anchors.get((page.parent / link).resolve() if link else page, ())
    ]
    assert not broken


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
