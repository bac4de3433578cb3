"""The page as text: complete, well formed, harmless and small.

What it looks like is tested in a browser, in test_html_browser.py.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.page import samples
from report.page.samples import PANELS, SAMPLES, page_of
from unskew.report.page.html import LARGEST_PAGE, render_page
from unskew.report.page.tables import (
    show_count,
    show_number,
    show_p_value,
    show_share,
    show_signed,
)
from unskew.report.summary.record import Summary, Thumbnail

VOID = {"meta", "input", "img", "br", "hr", "link"}


class Outline(HTMLParser):
    """Elements in order, with their attributes; every one that is opened must be closed in its
    turn.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.text.append(data)

    def having(self, attribute: str) -> list[str]:
        return [
            value
            for _, attributes in self.elements
            if (value := attributes.get(attribute)) is not None
        ]


@cache
def outline_of(name: str) -> Outline:
    return Outline(page_of(name))


@pytest.mark.parametrize("name", SAMPLES)
def test_well_formed_with_every_panel_and_no_dangling_reference(name: str) -> None:
    outline = outline_of(name)
    ids = outline.having("id")
    assert len(set(ids)) == len(ids)
    assert set(PANELS) <= set(ids)
    assert {value[1:] for value in outline.having("href")} <= set(ids)
    assert set(outline.having("aria-labelledby")) <= set(ids)


@pytest.mark.parametrize("name", SAMPLES)
def test_headings_never_skip_a_level(name: str) -> None:
    levels = [int(tag[1]) for tag, _ in outline_of(name).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_drawing_has_a_label_and_a_table_behind_it(name: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", page_of(name), flags=re.DOTALL)
    assert figures
    for figure in figures:
        assert re.search(r'role="img" aria-label="[^"]{20,}"', figure)
        assert re.search(
            r'<details class="behind">.*<table>.*<caption>.*<th scope="col".*</details>',
            figure,
            flags=re.DOTALL,
        )
    # Drawings outside of figures repeat numbers that stand beside them.
    assert all(
        attributes.get("aria-hidden") == "true"
        for tag, attributes in outline_of(name).elements
        if tag == "svg" and {"class", "focusable"} <= set(attributes)
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_requests_nothing(name: str) -> None:
    page = page_of(name)
    outline = outline_of(name)
    assert all(value.startswith("data:image/") for value in outline.having("src"))
    assert all(value.startswith("#") for value in outline.having("href"))
    style = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\(|@import|http", style)
    assert not {"iframe", "object", "embed", "link", "form", "base", "video", "audio"} & {
        tag for tag, _ in outline.elements
    }


def test_policy_admits_the_pages_own_style_and_script_only() -> None:
    page = page_of("five")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in unescape(policy[1]).split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        found = re.findall(f"<{element}>(.*?)</{element}>", page, flags=re.DOTALL)
        assert len(found) == 1
        assert (
            rules[directive]
            == f"'sha256-{base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()}'"
        )
    assert not [
        attributes for _, attributes in outline_of("five").elements if "style" in attributes
    ], "a style attribute would be blocked"


def test_hostile_names_are_text() -> None:
    outline = outline_of("hostile")
    assert [tag for tag, _ in outline.elements].count("script") == 1
    assert not [
        name for _, attributes in outline.elements for name in attributes if name.startswith("on")
    ]
    text = "".join(outline.text)
    assert "<script>alert(1)</script>" in text
    assert "{{ 7 * 7 }}{% raw %}" in text
    assert "right⟨U+202E⟩to⟨U+2066⟩left" in text
    page = page_of("hostile")
    assert not {"\u202e", "\u2066", "\udc80", "\r"} & set(page)
    page.encode()
    # Only what is plainly a picture is shown as one.
    assert all(
        re.fullmatch(r"data:image/jpeg;base64,[A-Za-z0-9+/]+=*", value)
        for value in outline.having("src")
    )


def _renamed(summary: Summary, names: dict[str, str]) -> Summary:
    """The same summary with other names for its sources and classes, wherever they stand."""

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            return names.get(value, value)
        if isinstance(value, tuple):
            return tuple(rename(each) for each in value)
        if isinstance(value, dict):
            return {rename(key): rename(each) for key, each in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return replace(
                value,
                **{
                    each.name: rename(getattr(value, each.name))
                    for each in dataclasses.fields(value)
                },
            )
        return value

    renamed: Summary = rename(summary)
    return renamed


_TINY = samples.make_summary(("one", "two"), species=("fox", "deer"), images=60, columns=2)
_TINY = replace(_TINY, galleries=_TINY.galleries[:1])
_PLAIN = [tag for tag, _ in Outline(render_page(_TINY)).elements]


@settings(max_examples=8)
@given(
    st.lists(
        st.text(st.characters(codec=None), min_size=1, max_size=30),
        min_size=4,
        max_size=4,
        unique=True,
    )
)
def test_no_name_changes_the_structure_of_the_page(texts: list[str]) -> None:
    """Whatever a source or a class is called, surrogates included, the elements are those of
    harmless names.
    """
    renamed = _renamed(_TINY, dict(zip(("one", "two", "fox", "deer"), texts, strict=True)))
    assert [tag for tag, _ in Outline(render_page(renamed)).elements] == _PLAIN


def _numbers(value: Any) -> Iterator[float]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            # Limits and edges of boxes have their place in words; the rest of the record is data.
            if each.name not in {"provenance", "thresholds"}:
                yield from _numbers(getattr(value, each.name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _numbers(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


@pytest.mark.parametrize("name", ["five", "weak", "refused", "private"])
def test_every_number_of_the_summary_is_on_the_page(name: str) -> None:
    shown = set(
        re.findall(r"[^\s,;:()]+(?:,\d+)*(?: × 10[⁻⁰-⁹¹²³]+)?", " ".join(outline_of(name).text))
    )
    ways = (
        show_count,
        show_number,
        show_share,
        show_signed,
        show_p_value,
        lambda value: show_number(10.0**value),
        lambda value: show_number(value, 4),
    )
    missing = []
    for value in set(_numbers(SAMPLES[name]())):
        forms = {
            form.strip("()")
            for way in ways
            if (form := way(value) if abs(value) < 300 or way is not ways[5] else "")
        }
        if not any(form in shown or f"{form}%" in shown for form in forms):
            missing.append(value)
    assert not missing


def test_uncovered_strata_come_first_and_are_named() -> None:
    page = page_of("weak")
    rows = re.search(
        r"<caption>Strata of the target</caption>.*?<tbody>(.*?)</tbody>", page, flags=re.DOTALL
    )
    assert rows is not None
    first = rows[1].strip().split("</tr>")[0]
    assert 'class="marked"' in first
    assert "wolverine" in first
    assert "no: no image" in first
    assert "1 of 8 strata, 0.4% of the target, have no image in any source." in unescape(page)


def test_aggregates_have_no_pictures_and_say_so() -> None:
    page = page_of("private")
    assert "<img" not in page
    assert "IMG_" not in page
    assert "Aggregates only." in page
    assert "withheld" in page


def test_the_three_verdicts_differ_in_words_and_mark() -> None:
    stamps = {
        name: re.search(
            r'class="stamp">.*?<path d="([^"]+)".*?Verdict: ([^<]+)', page_of(name), flags=re.DOTALL
        )
        for name in ("five", "weak", "refused")
    }
    assert len({match[1] for match in stamps.values() if match}) == 3
    assert [match[2] for match in stamps.values() if match] == [
        "Can be debiased",
        "Can be debiased, with care",
        "Cannot be debiased",
    ]


def test_names_in_messages_are_in_quotation_marks() -> None:
    summary = samples.small_summary()
    page = render_page(
        replace(summary, verdict=replace(summary.verdict, sentences=("only 8 images of `night`",)))
    )
    assert "only 8 images of “night”" in page


def test_small_multiples_are_limited_with_a_way_to_see_all() -> None:
    assert "Show the other 5 columns" in page_of("five")


def test_the_page_stays_small_whatever_is_pooled() -> None:
    """Hundreds of sources, thousands of strata, thousands of large pictures."""
    summary = samples.make_summary([f"source {k}" for k in range(120)], images=2000, columns=70)
    strata = tuple(replace(summary.strata[0], stratum=f"stratum {k}") for k in range(1200))
    large = "data:image/jpeg;base64," + "A" * 12_000
    galleries = tuple(
        replace(
            gallery,
            pictures=tuple(Thumbnail(f"{k}", None, "s", None, 1.0, large) for k in range(8)),
        )
        for gallery in summary.galleries
    )
    page = render_page(replace(summary, strata=strata, galleries=galleries))
    assert len(page.encode()) < LARGEST_PAGE
    assert "700 more rows are in report.json" in page
    assert "more pictures were left out to keep the page small" in page


def test_a_page_too_large_gives_up_pictures_first_then_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = samples.small_summary()
    whole = render_page(summary)
    for limit in (400_000, 250_000):
        monkeypatch.setattr("unskew.report.page.html.LARGEST_PAGE", limit)
        page = render_page(summary)
        assert len(page.encode()) < limit
        assert page.count("<img") < whole.count("<img")
        assert ("with them this page would be too large" in page) == (limit < 400_000)


def test_endless_texts_are_cut() -> None:
    summary = samples.small_summary()
    endless = "x" * 1_000_000
    verdict = replace(
        summary.verdict, headline=endless, sentences=(endless,) * 5, figures=((endless, endless),)
    )
    page = render_page(
        replace(summary, title=endless, verdict=verdict, provenance={"command": endless})
    )
    assert len(page) < 1.2 * len(render_page(summary))


def test_the_page_is_the_same_each_time() -> None:
    assert render_page(_TINY) == render_page(_TINY)


def test_templates_ship_with_the_package() -> None:
    files = {
        path.name for path in resources.files("unskew.report.page").joinpath("templates").iterdir()
    }
    assert {"page.html", "style.css", "script.js"} <= files


def _panel(page: str) -> str:
    return page.split('<section id="forecast"')[1].split("</section>")[0]
