"""A stranger's folder: no command runs code of it, or writes outside of its output, unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from run_data import error_of, weigh, write_table_run
from unskew.cli.app import run_command
from unskew.files import user_code

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

NAME = "module_of_a_stranger"
KNOWN = f'[bias]\nfamily = "known"\nomega = {{ a = "{NAME}:f", b = 1.0 }}\n'
QUERY = f'[bias]\nfamily = "subpopulation"\nqueries = {{ a = "{NAME}:f", b = "all" }}\n'
CLASSIFIER = (
    f'[bias]\nfamily = "propensity"\nfeatures = ["z"]\nclassifier = "{NAME}:f"\nreference = "a"\n'
)


def _write_strangers_run(folder: Path, bias: str) -> Path:
    configuration = write_table_run(folder)
    text = configuration.read_text()
    configuration.write_text(text[: text.index("[bias]")] + bias)
    (folder / f"{NAME}.py").write_text(
        "import pathlib\n(pathlib.Path(__file__).parent / 'ran').touch()\n"
        "def f(table):\n    return (table['z'] < 9) & True\n"
    )
    return configuration


@pytest.mark.parametrize("command", ["check", "weigh", "rehearse", "forecast", "train"])
@pytest.mark.parametrize("bias", [KNOWN, QUERY, CLASSIFIER])
def test_no_command_imports_a_module_next_to_a_configuration(
    command: str, bias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    configuration = _write_strangers_run(tmp_path, bias)
    monkeypatch.chdir(tmp_path)
    output = ["-o", "out"] if command in ("weigh", "train") else []
    error = error_of([command, "run.toml", *output], capsys)
    assert error["exit_code"] == 2
    (problem,) = error["problems"]
    line = configuration.read_text()[: configuration.read_text().index(NAME)].count("\n") + 1
    assert problem["line"] == line
    assert f"--allow-code {NAME}" in problem["message"]
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out").exists()


def test_results_of_a_stranger_run_nothing_until_their_module_is_allowed(
    tmp_path: Path, capsys: Captured
) -> None:
    configuration = write_table_run(tmp_path)
    out = weigh(configuration)
    _write_strangers_run(tmp_path, QUERY)
    text = (tmp_path / "run.toml").read_text()
    (out / "run.toml").write_text('folder = ".."\n' + text)
    assert error_of(["verify", str(out)], capsys)["exit_code"] == 2
    assert not (tmp_path / "ran").exists()
    # Allowed, the module runs, and the weights are not those of the report.
    assert run_command(["verify", str(out), "--quiet", "--allow-code", NAME]) == 4
    assert (tmp_path / "ran").exists()
    user_code._ALLOWED.folder_of.clear()
    del sys.modules[NAME]


def test_the_learner_that_a_report_names_is_not_imported_either(
    tmp_path: Path, capsys: Captured
) -> None:
    out = weigh(write_table_run(tmp_path))
    (out / "stranger_learner.py").write_text("raise SystemExit(0)\n")
    report = json.loads((out / "report.json").read_text())
    report["forecast"] = {"learner_reference": "stranger_learner:f", "asked": ["naive"]}
    (out / "report.json").write_text(json.dumps(report))
    error = error_of(["verify", str(out)], capsys)
    assert (error["exit_code"], error["facts"]["value"]) == (2, "stranger_learner")


def test_python_m_takes_no_module_from_the_working_directory(tmp_path: Path) -> None:
    """Not its own, and none that shadows one of ours."""
    _write_strangers_run(tmp_path, QUERY)
    (tmp_path / "pandas.py").write_text("open('shadowed', 'w')\n")
    path = os.pathsep.join(place for place in sys.path if place)
    done = subprocess.run(
        [sys.executable, "-m", "unskew", "check", "run.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert f"--allow-code {NAME}" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "shadowed").exists()
