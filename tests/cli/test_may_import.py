"""docs/security.md, the table of commands: who may run code or ask addresses that a file names."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import typer

from cli.test_app_strangers import NAME, QUERY, _write_strangers_run
from monitored_run import write_monitored_run
from run_data import error_of, weigh, write_table_run
from unskew.cli.app import app, run_command

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "security.md"
Captured = pytest.CaptureFixture[str]


def _may_be_allowed() -> dict[str, bool]:
    """Whether the table says of each command that it may import something, or ask an address."""
    table = DOCS.read_text().partition("| command |")[2].partition("\n\n")[0]
    rows = [row.strip("|").split("|") for row in table.splitlines()[2:]]
    return {
        name: row[3].strip() != "nothing" or "only if allowed" in row[1]
        for row in rows
        for name in re.findall(r"`(\w+)`", row[0])
    }


def test_who_may_import_or_ask_takes_allow_code_and_nobody_else() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    takes = {
        name: any("--allow-code" in option.opts for option in command.params)
        for name, command in commands.items()
    }
    assert takes == _may_be_allowed()


def _stranger_results(folder: Path) -> Path:
    """Results whose run.toml, next to the module, names a function of it."""
    out = weigh(write_table_run(folder))
    _write_strangers_run(folder, QUERY)
    (out / "run.toml").write_text('folder = ".."\n' + (folder / "run.toml").read_text())
    (out / "files.json").unlink()
    shutil.copy(folder / f"{NAME}.py", out)
    return out


@pytest.mark.parametrize("command", ["export", "report", "compare", "describe"])
def test_who_may_import_nothing_imports_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = _stranger_results(tmp_path)
    monkeypatch.chdir(out)
    arguments = {
        "export": [str(out), "--to", "csv", "-o", str(tmp_path / "w.csv")],
        "report": [str(out)],
        "compare": [str(out), str(out), "-o", str(tmp_path / "c.html")],
        "describe": [str(tmp_path / "t.csv"), "--json"],
    }[command]
    assert run_command([command, *arguments]) == 0
    assert NAME not in sys.modules
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize("command", ["split", "advise", "choose", "verify", "monitor"])
def test_who_may_import_asks_first(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    if command == "monitor":
        out = write_monitored_run(tmp_path) / "out"
        text = (out / "run.toml").read_text()
        text = re.sub(r"(?m)^features = .*$", f'features = ["{NAME}:f"]', text)
        (out / "run.toml").write_text(text)
        (out / "files.json").unlink()
        (out / f"{NAME}.py").write_text("open('ran', 'w')\n")
        arguments = [str(out), str(tmp_path / "day1.csv")]
    elif command == "verify":
        out = _stranger_results(tmp_path)
        arguments = [str(out)]
    else:
        out = tmp_path
        arguments = [str(_write_strangers_run(tmp_path, QUERY)), "-o", str(tmp_path / "x.csv")]
    monkeypatch.chdir(out)
    error = error_of([command, *arguments], capsys)
    assert error["exit_code"] == 2
    assert f"--allow-code {NAME}" in str(error)
    assert NAME not in sys.modules
    assert not list(tmp_path.rglob("ran"))
