"""Markdown of a verdict and of a forecast: readable, and nothing in it is a name's markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.cli.app import run_command
from unskew.cli.markdown import escape


@pytest.mark.parametrize(
    "name",
    ["<img src=x>", "[a](http://b)", "a|b", "@team", "#12", "`x`", "**b**", "- item", "1. x"],
)
def test_names_are_no_markup(name: str) -> None:
    shown = escape(name)
    for mark in ("<", "[", "|", "@", "`", "*", "://"):
        assert mark not in shown
    assert not shown.startswith(("#", "-", "1."))


def test_line_breaks_and_invisible_characters_are_visible() -> None:
    assert escape("a\nb\u202e") == "a⏎b⟨U+202E⟩"


def test_check_weigh_and_forecast_print_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{'a|b' if k % 3 else '<i>'},{'xy'[k % 2]},{k * k % 17}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("source,label,f\n" + rows)
    run = tmp_path / "run.toml"
    run.write_text(
        '[sources]\nmanifest = "t.csv"\nimages = false\n'
        "[target]\nmargins.label = { x = 0.3, y = 0.7 }\n"
        '[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    assert run_command(["check", str(run), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("### ")
    assert "| a&#124;b | 40 | 66.7% |" in out
    assert out.startswith("### ✅")
    run.write_text(run.read_text().replace("[bias]", "guessed = true\n[bias]"))
    assert run_command(["check", str(run), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("### ⚠️ The target is a placeholder")
    assert run_command(["forecast", str(run), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| naive |" in out
    assert "- Way of debiased: half" in out
    assert run_command(["check", str(run), "--markdown", "--json"]) == 2
