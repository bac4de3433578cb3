"""The page of compared pairs shows what pairs.json holds, and escapes names."""

from __future__ import annotations

from evaluation.test_pairs import make_pairs
from unskew import evaluate_pairs
from unskew.report.page.pairs_page import point_name, render_pairs_page, show_rate


def test_the_page_has_rates_subgroups_and_no_foreign_markup() -> None:
    table, pairs = make_pairs(persons=12)
    table["gender"] = table["gender"].map({"f": "<script>f", "m": "m"})
    record = evaluate_pairs(table, pairs, by=["gender"], fmr=[0.05]).to_dict()
    page = render_pairs_page(record)
    point = record["overall"]["points"][0]
    assert point_name(point) == "FMR 5%"
    assert show_rate(point["fnmr"]) in page
    assert "&lt;script&gt;f" in page
    assert "<script>f" not in page
    assert page.count("<figure") == 3
