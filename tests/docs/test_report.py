"""The guide to the page describes every panel of the page, and no other; what it says about
privacy is the rule itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import unskew
from unskew.report.page.html import render_page

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")


def test_every_panel_has_its_part_of_the_guide(tmp_path: Path) -> None:
    pool = unskew.Pool.from_arrays(["a"] * 30 + ["b"] * 30, label=["cat", "dog"] * 30)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    page = render_page(unskew.write_report(pool, weights, tmp_path / "report.html"))
    panels = re.findall(r'<li><a href="#[\w-]+">([^<]+)</a></li>', page)
    headings = [
        name
        for heading in re.findall(r"^## (.+)$", GUIDE, flags=re.MULTILINE)
        for name in heading.split(", ")
    ]
    assert len(panels) > 10
    assert headings == [*panels, 'privacy = "aggregate"']


def test_the_stamps_of_the_verdict_are_those_of_the_page() -> None:
    template = (ROOT / "src" / "unskew" / "report" / "page" / "templates" / "page.html").read_text(
        encoding="utf-8"
    )
    stamps = re.findall(r'"(?:ok|weak|no)": "([^"]+)"', template)
    assert len(stamps) == 3
    assert all(f"| {stamp} |" in GUIDE for stamp in stamps)
