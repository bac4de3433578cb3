"""Records in a notebook: small, safe for any name, with verdict and figures."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew.report.notebook import LARGEST_CARD, Card, frame_table, render_notebook

EVIL = """<script>alert(1)</script><img src=x onerror=alert(1)>"'&\u202e</style></div>"""


class Tags(HTMLParser):
    """Counts elements, and checks that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.events: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.events |= {name for name, _ in attrs if name.startswith("on")}
        if tag not in ("img", "br", "meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def weights() -> unskew.Weights:
    label = np.repeat(["cat", EVIL, "cat", EVIL], [30, 10, 12, 28])
    frame = pd.DataFrame({"source": np.repeat([EVIL, "b"], 40), "label": label})
    pool = unskew.Pool.from_frame(frame)
    target = unskew.Target.margins({"label": {"cat": 0.3, EVIL: 0.7}})
    return unskew.debias(pool, unskew.bias.Strata("label"), target)


@pytest.mark.parametrize("kind", ["weights", "overlap", "pool", "target"])
def test_cards_are_small_and_repeat_no_markup(kind: str, weights: unskew.Weights) -> None:
    assert weights.estimation is not None
    records = {
        "weights": weights,
        "overlap": weights.overlap,
        "pool": weights.estimation.pool,
        "target": unskew.Target.margins({"label": {EVIL: 0.4, "b": 0.6}}),
    }
    text = records[kind]._repr_html_()  # type: ignore[attr-defined]
    assert len(text.encode()) < LARGEST_CARD
    tags = Tags(text)
    assert not tags.names & {"script", "img", "iframe"}
    assert not tags.events
    assert not tags.open
    assert ("svg" in tags.names) or kind == "pool"
    assert "\u202e" not in text


def test_the_verdict_and_the_numbers_are_in_the_card(weights: unskew.Weights) -> None:
    text = weights._repr_html_()
    assert re.search(r'class="headline ok"', text)
    assert f"{weights.ess:,.0f} images" in text


def test_what_is_too_large_loses_its_table_first_then_its_text() -> None:
    rows = pd.DataFrame({f"column {k}": ["x" * 110] * 30 for k in range(60)})
    text = render_notebook(Card("headline", ("y" * 2000,), table=frame_table(rows, None)))
    assert len(text.encode()) < LARGEST_CARD
    assert "<table>" not in text
    assert "headline" in text
