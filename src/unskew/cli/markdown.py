"""Verdict and forecast as Markdown, for pull requests and the summaries of CI jobs.

Names are data: what Markdown, HTML or GitHub would read as markup (a link, a mention, a table's
line) is written as a character reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from unskew.report.page.tables import quote_names, show_count, show_name, show_share

if TYPE_CHECKING:
    from unskew.forecasting.record import Forecast
    from unskew.report.summary.record import Summary

_MARKS = {"ok": "✅", "weak": "⚠️", "no": "❌"}
_MARKUP = re.compile(r"[&<>`*_\[\]#|@~$\\!]|:(?=//)|(?<=[Ww])\.|^[-+=]|^\d+[.)](?=\s)")
_MOST_ROWS = 30


def escape(text: object) -> str:
    """Write text so that it is shown as it is.

    >>> escape("[a](http://b) <i> @you #1 |")
    '&#91;a&#93;(http&#58;//b) &#60;i&#62; &#64;you &#35;1 &#124;'
    """
    shown = show_name(str(text))
    return _MARKUP.sub(lambda found: "".join(f"&#{ord(one)};" for one in found[0]), shown)


def summary_markdown(summary: Summary) -> str:
    """Return verdict, figures, reasons, next steps and sources of a run."""
    verdict = summary.verdict
    lines = [f"### {_MARKS[verdict.signal]} {_sentence(verdict.headline)}", ""]
    if verdict.figures:
        lines += [*_table([name for name, _ in verdict.figures], [[v for _, v in verdict.figures]])]
    lines += [f"- {_sentence(sentence)}" for sentence in verdict.sentences]
    lines += ["", f"**Population:** {_sentence(verdict.population)}"]
    if verdict.next_steps:
        lines += ["", "**Next steps**", ""]
        lines += [f"{at}. {_sentence(one)}" for at, one in enumerate(verdict.next_steps, 1)]
    if summary.sources:
        rows = [
            [row.name, show_count(row.images), show_share(row.share), show_share(row.weight_share)]
            for row in summary.sources
        ]
        lines += ["", *_table(["source", "images", "share", "share of the weight"], rows)]
    return "\n".join(lines) + "\n"


def forecast_markdown(forecast: Forecast) -> str:
    """Return the recommendation of a forecast and its arms, in points."""
    table = forecast.table()
    lines = [f"### Forecast: {_sentence(forecast.recommendation)}", ""]
    lines += _table(list(table.columns), table.itertuples(index=False, name=None))
    sentences = (f"Way of debiased: {forecast.choice.reason}", forecast.condition, *forecast.notes)
    lines += [f"- {_sentence(text)}" for text in sentences if text]
    if forecast.objection:
        lines += [f"- ⚠️ {_sentence(forecast.objection)}"]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return escape(quote_names(text))


def _table(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    body = [[_cell(cell) for cell in row] for row in rows]
    lines = [[escape(name) for name in names], ["---"] * len(names), *body[:_MOST_ROWS]]
    left_out = len(body) - _MOST_ROWS
    note = [f"{left_out} more rows are in report.json.", ""] if left_out > 0 else []
    return [*(f"| {' | '.join(line)} |" for line in lines), "", *note]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if value != value else f"{value:.4g}"
    return "–" if value is None else escape(value)
