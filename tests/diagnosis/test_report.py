"""`write_report`: two files, written atomically, from the same summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import unskew
from raising import refused
from summary_pools import QUICK, mixed_frame, strata_weights
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.errors import ConfigError, DataError
from unskew.report.files import write_summary
from unskew.report.summary.plain import summary_from_json

html = pytest.importorskip("unskew.report.page.html")


@pytest.fixture(scope="module")
def pool() -> unskew.Pool:
    return unskew.Pool.from_frame(mixed_frame(60))


def test_page_and_json_are_the_same_data(pool: unskew.Pool, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    summary = unskew.write_report(pool, strata_weights(pool), path, title="A & B", **QUICK)
    assert summary_from_json((tmp_path / "report.json").read_text(encoding="utf-8")) == summary
    assert "A &amp; B" in path.read_text(encoding="utf-8")
    assert summary.provenance["versions"]["numpy"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_the_page_can_be_made_from_the_json_alone(pool: unskew.Pool, tmp_path: Path) -> None:
    unskew.write_report(pool, strata_weights(pool), tmp_path / "a.html", **QUICK)
    write_summary(
        summary_from_json((tmp_path / "a.json").read_text(encoding="utf-8")), tmp_path / "b.html"
    )
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == (tmp_path / "b.html").read_text(
        encoding="utf-8"
    )


def test_nothing_is_written_where_it_cannot_be(pool: unskew.Pool, tmp_path: Path) -> None:
    weights = strata_weights(pool)
    with refused(ConfigError, path=str(tmp_path / "report.pdf")):
        unskew.write_report(pool, weights, tmp_path / "report.pdf")
    with refused(DataError):
        unskew.write_report(pool, weights, tmp_path / "gone" / "report.html", **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_fails_leaves_the_old_one(
    pool: unskew.Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    unskew.write_report(pool, strata_weights(pool), path, **QUICK)
    before = path.read_text(encoding="utf-8")

    def broken(summary: Any) -> str:
        raise RuntimeError("out of ink")

    monkeypatch.setattr(html, "render_page", broken)
    with pytest.raises(RuntimeError, match="ink"):
        unskew.write_report(pool, strata_weights(pool), path, title="new", **QUICK)
    assert path.read_text(encoding="utf-8") == before


def test_ready_diagnostics_give_the_same_report(pool: unskew.Pool, tmp_path: Path) -> None:
    weights = strata_weights(pool)
    diagnostics = diagnose(pool, weights, **QUICK)
    ready = unskew.write_report(pool, weights, tmp_path / "a.html", diagnostics=diagnostics)
    assert ready == unskew.write_report(pool, weights, tmp_path / "b.html", **QUICK)
    with refused(ConfigError, option="replicates"):
        unskew.write_report(
            pool, weights, tmp_path / "c.html", diagnostics=diagnostics, replicates=20
        )
