"""The page in a real browser: opens from a file, asks nobody, sorts, filters, and can be read on a
phone, on paper, and by keyboard.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from report.page.samples import PANELS, SAMPLES, page_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name in SAMPLES:
        (folder / f"{name}.html").write_text(page_of(name), encoding="utf-8")
    return folder


@contextmanager
def opened(
    browser: Any, folder: Path, name: str, width: int = 1280, **options: Any
) -> Iterator[Any]:
    """The page in a context of its own; leaving it, nothing was complained of and nothing asked for
    but the file.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900}, reduced_motion="reduce", **options
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss())
    )
    page.on("request", lambda request: asked.append(request.url))
    place = (folder / f"{name}.html").as_uri()
    page.goto(place)
    try:
        yield page
        assert complaints == []
        assert [url for url in asked if not url.startswith("data:image/")] == [place]
    finally:
        context.close()


@pytest.mark.parametrize("name", SAMPLES)
def test_opens_with_every_panel_in_sight(browser: Any, folder: Path, name: str) -> None:
    with opened(browser, folder, name) as page:
        sizes = page.evaluate(
            "ids => ids.map(id => document.getElementById(id).getBoundingClientRect().height)",
            list(PANELS),
        )
        assert all(height > 60 for height in sizes)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        # What a visitor needs first is on the first screen.
        assert page.locator("#verdict .stamp").bounding_box()["y"] < 300
        if name != "hostile":
            assert page.locator("#verdict .verdict-body").bounding_box()["y"] < 700
        if name in ("five", "fifty"):
            _check_legible(page)


def _column(page: Any, table: str, column: int) -> list[str]:
    cells = page.locator(f"{table} tbody tr:visible > :nth-child({column})").all_inner_texts()
    return [text.strip() for text in cells]


def test_tables_sort_by_number_by_mouse_and_by_keyboard(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "fifty") as page:
        table = "#sources > .table-box table"
        images = [int(text.replace(",", "")) for text in _column(page, table, 2)]
        head = page.locator(f"{table} thead th").nth(1)
        assert head.get_attribute("aria-sort") == "none"
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert [int(text.replace(",", "")) for text in _column(page, table, 2)] == sorted(
            images, reverse=True
        )
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert [int(text.replace(",", "")) for text in _column(page, table, 2)] == sorted(images)
        name = page.locator(f"{table} thead th").nth(0)
        name.locator("button").press("Space")
        assert name.get_attribute("aria-sort") == "ascending"
        assert head.get_attribute("aria-sort") == "none"
        assert _column(page, table, 1) == sorted(_column(page, table, 1))


def test_what_is_missing_sorts_last_either_way(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "weak") as page:
        table = "#strata .table-box table"
        column = [
            text.strip() for text in page.locator(f"{table} thead th").all_inner_texts()
        ].index("Largest weight")
        head = page.locator(f"{table} thead th").nth(column)
        for _ in range(2):
            head.locator("button").click()
            values = _column(page, table, column + 1)
            assert values[-1] == "–"
            assert "–" not in values[:-1]


def test_tables_filter_while_one_types(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "fifty") as page:
        box = page.locator("#sources > .table-box")
        box.locator("input").focus()
        page.keyboard.type("SITE-1 shore")
        names = _column(page, "#sources > .table-box table", 1)
        assert names == ["site-11 shore", "site-14 shore", "site-17 shore"]
        assert box.locator("[role=status]").inner_text() == "3 of 50 rows"
        box.locator("input").fill("")
        assert len(_column(page, "#sources > .table-box table", 1)) == 50
        assert box.locator("[role=status]").inner_text() == "50 rows"


def test_hostile_names_do_nothing(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "hostile") as page:
        page.locator("#open-tables").click()
        page.wait_for_timeout(200)
        assert page.evaluate("document.scripts.length") == 1
        assert (
            page.evaluate(
                "[...document.images].filter(image => "
                "!image.src.startsWith('data:image/jpeg;base64,')).length"
            )
            == 0
        )
        assert (
            page.evaluate(
                "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => "
                "a.name.startsWith('on'))).length"
            )
            == 0
        )
        assert page.locator("main b, main a").count() == 0
        # Long names stay in their boxes: nothing but what scrolls by itself sticks out to the
        # right.
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


# Relative luminance and contrast as WCAG 2.2 defines them; text over the nearest opaque background.
_CONTRAST = """
() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const worst = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
    if (element.closest(".heat-map, .strips, .skip")) continue;
    const style = getComputedStyle(element);
    const colour = numbers(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(colour), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `${element.tagName}.${element.getAttribute("class") || ""}`;
    worst[key] = Math.min(worst[key] ?? 99, ratio);
  }
  return worst;
}
"""

# Numbers in the cells of a heat map, each over the colour of its step.
_HEAT_CONTRAST = (
    _CONTRAST.split("const behind")[0]
    + """
  const read = (name) => {
    const box = document.createElement("div");
    box.style.color = `var(${name})`;
    document.body.append(box);
    const colour = numbers(getComputedStyle(box).color); box.remove(); return colour; };
  return [...document.querySelectorAll(".heat-text")].map(text => {
    const a = light(numbers(getComputedStyle(text).fill));
    const b = light(read(`--heat-${text.getAttribute("class").slice(-1)}`));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}
"""
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_enough_contrast(browser: Any, folder: Path, scheme: str) -> None:
    for name in ("weak", "refused"):
        with opened(browser, folder, name, color_scheme=scheme) as page:
            assert not {
                key: ratio for key, ratio in page.evaluate(_CONTRAST).items() if ratio < 4.5
            }
            assert min(page.evaluate(_HEAT_CONTRAST), default=99) >= 4.5


def _brightness(page: Any) -> float:
    colour: list[float] = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)"
    )
    return sum(colour[:3]) / 3


def test_the_reader_chooses_light_or_dark(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "five", color_scheme="dark") as page:
        assert _brightness(page) < 60
        button = page.locator("#theme")
        assert button.get_attribute("aria-label") == "Switch to light colours"
        button.press("Enter")
        assert _brightness(page) > 240
        button.press("Enter")
        assert _brightness(page) < 60
    with opened(browser, folder, "five", color_scheme="light") as page:
        assert _brightness(page) > 240


@pytest.mark.parametrize("name", ["five", "fifty", "refused", "hostile"])
def test_a_phone_scrolls_down_only(browser: Any, folder: Path, name: str) -> None:
    with opened(browser, folder, name, width=360) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        if name in ("five", "fifty"):
            _check_legible(page)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_phone_has_folded_contents_that_lead_somewhere(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "five", width=360) as page:
        link = page.locator(".contents a[href='#weights']")
        assert not link.is_visible()
        page.locator(".contents summary").press("Enter")
        link.click()
        page.wait_for_function(
            "Math.abs(document.getElementById('weights').getBoundingClientRect().top) < 120"
        )


# Labels of one drawing that lie on one another by more than a pixel; slanted ones are measured
# where they begin.
_OVERLAPS = """
() => {
  const found = [];
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  for (const drawing of document.querySelectorAll(".rows, svg.plot, svg.heat-map, svg.graph")) {
    const names = "text:not([transform*='rotate(-45)']), .row-name, .row-text";
    const texts = [...drawing.querySelectorAll(names)]
      .filter(each => shown(each) && each.textContent.trim());
    const boxes = texts.map(each => each.getBoundingClientRect());
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, b] = [boxes[i], boxes[j]];
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // A line of text is a little higher than its letters.
      const pair = `${texts[i].textContent} | ${texts[j].textContent}`;
      if (x > 1 && y > 3) found.push(`${pair} (${x.toFixed(1)}, ${y.toFixed(1)})`);
    }
  }
  return found;
}
"""
_SMALLEST_TEXT = """
() => {
  const shown = [...document.querySelectorAll("svg text, .row-name, td, p, li, dd")]
    .filter(each => each.getClientRects().length);
  const shrunk = (each) => each.ownerSVGElement
    ? Math.hypot(each.getScreenCTM().a, each.getScreenCTM().b) : 1;
  return Math.min(...shown.map(each => parseFloat(getComputedStyle(each).fontSize) * shrunk(each)));
}
"""


def _check_legible(page: Any) -> None:
    page.evaluate(
        "document.querySelectorAll('details.more').forEach(each => { each.open = true; })"
    )
    assert page.evaluate(_OVERLAPS) == []
    # CSS pixels, after whatever a drawing was shrunk by.
    assert page.evaluate(_SMALLEST_TEXT) >= 9.5
    # Slanted labels stand as far apart as their letters are high.
    places = page.evaluate(
        "[...document.querySelectorAll('svg text[transform*=\"rotate(-45)\"]')].map(each => "
        "each.getScreenCTM().e)"
    )
    steps = [after - before for before, after in itertools.pairwise(places)]
    assert all(step > 17 for step in steps)


def test_a_narrow_window_is_legible(browser: Any, folder: Path) -> None:
    """As are a phone and a wide window, above."""
    with opened(browser, folder, "weak", width=800) as page:
        _check_legible(page)


def test_keyboard_alone(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "five") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        outlines = []
        for _ in range(12):
            page.keyboard.press("Tab")
            outlines.append(
                page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
            )
        assert all(width >= 2 for width in outlines)
        behind = page.locator("details.behind").first
        behind.locator("summary").press("Enter")
        assert behind.locator("table").is_visible()


def test_all_tables_open_at_once(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "five") as page:
        button = page.locator("#open-tables")
        button.click()
        assert page.evaluate(
            "[...document.querySelectorAll('details.behind')].every(each => each.open)"
        )
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        assert page.evaluate(
            "![...document.querySelectorAll('details.behind')].some(each => each.open)"
        )


def test_the_contents_mark_the_section_being_read(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "five") as page:
        page.locator(".contents a[href='#bias']").click()
        page.wait_for_function(
            "document.querySelector('.contents [aria-current]')?.hash === '#bias'"
        )


def test_on_paper(browser: Any, folder: Path) -> None:
    """Light, without what one cannot press, and without tables cut off at the edge of the sheet."""
    with opened(browser, folder, "five", width=700, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert _brightness(page) > 250
        for gone in (".contents", ".tools", ".filter >> nth=0"):
            assert not page.locator(gone).is_visible() if page.locator(gone).count() else True
        assert (
            page.locator("#sources > .table-box .scroll").evaluate(
                "each => getComputedStyle(each).overflowX"
            )
            == "visible"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= 702
        pdf = page.pdf(format="A4")
        assert pdf.startswith(b"%PDF")
        assert 5 <= pdf.count(b"/Type /Page\n") <= 40


def test_landmarks_and_names_for_screen_readers(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "five") as page:
        assert (
            page.locator("main").count()
            == page.locator("header").count()
            == page.locator("footer").count()
            == 1
        )
        assert page.get_by_role("navigation", name="Contents").count() == 1
        assert page.get_by_role("img", name="Overlap graph of 5 sources").count() == 1
        assert page.get_by_role("region", name="The sources", exact=True).count() == 1
        assert page.evaluate(
            "[...document.querySelectorAll('button, input, a')].every(e => e.textContent.trim() || "
            "e.labels?.length || e.ariaLabel)"
        )
        assert page.evaluate("[...document.images].every(image => image.alt.length > 3)")


def test_the_forecast_on_a_phone_and_for_a_screen_reader(browser: Any, folder: Path) -> None:
    with opened(browser, folder, "fifty", width=390) as page:
        panel = page.locator("#forecast")
        box = panel.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        sides = "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right]).flat()"
        assert all(-1 <= side <= 391 for side in panel.locator("svg.track").evaluate_all(sides))
        labels = panel.get_by_role("img").evaluate_all(
            "all => all.map(e => e.getAttribute('aria-label'))"
        )
        assert len(labels) == 3
        assert "debiased 80.0 ± 1.1" in labels[0]
        assert "debiased +4.0 ± 0.8" in labels[1]
        assert "10 classes" in labels[2]
        # Naive, debiased and baselines differ in shape, not by colour alone.
        shapes = (
            panel.locator(".figure")
            .first.locator("use")
            .evaluate_all("all => all.map(e => e.getAttribute('href'))")
        )
        assert {"#m-pool", "#m-debiased", "#m-baseline"} == set(shapes)
        panel.locator("summary", has_text="Predicted accuracy by class").click()
        assert (
            panel.locator("table", has_text="Predicted accuracy by class")
            .locator("tbody tr")
            .count()
            == 10
        )
