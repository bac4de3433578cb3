"""The files of a report: both are written, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from raising import refused
from report.page.samples import SAMPLES
from unskew.errors import ConfigError
from unskew.report.files import check_page_path, write_summary
from unskew.report.page.html import render_page
from unskew.report.summary.plain import summary_to_json


@pytest.mark.parametrize("name", ["report.html", "other.HTM"])
def test_the_page_and_its_json_lie_side_by_side(name: str, tmp_path: Path) -> None:
    summary = SAMPLES["bare"]()
    path = tmp_path / name
    write_summary(summary, path)
    assert path.read_text(encoding="utf-8") == render_page(summary)
    assert path.with_suffix(".json").read_text(encoding="utf-8") == summary_to_json(summary)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["report.json", "report", "html", "report.html.txt"])
def test_what_is_no_page_is_refused_and_nothing_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with refused(ConfigError, path=str(path)):
        check_page_path(path)
    with refused(ConfigError, path=str(path)):
        write_summary(SAMPLES["bare"](), path)
    assert not list(tmp_path.iterdir())


def test_a_path_may_be_text() -> None:
    assert check_page_path("a/b.html") == Path("a/b.html")


def test_a_page_that_cannot_be_made_leaves_no_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("unskew.report.page.html.render_page", fail)
    with pytest.raises(ZeroDivisionError):
        write_summary(SAMPLES["bare"](), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
