"""pyproject.toml, CITATION.cff, the Makefile and the messages agree about versions and extras."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import unskew
from unskew.cli.app import run_command
from unskew.files.fingerprints import find_versions

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
FOR_DEVELOPERS = {"dev", "docs"}


def test_the_version_has_one_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    source = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.+)"', source, flags=re.MULTILINE) == [unskew.__version__]
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"unskew {unskew.__version__}\n"
    assert find_versions()["unskew"] == unskew.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {unskew.__version__}\n" in citation


def test_every_extra_is_mentioned_and_every_extra_mentioned_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    files = [*pages, *(ROOT / "src").rglob("*.py"), *(ROOT / "paper").glob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    mentioned = {name for text in texts for name in re.findall(r"unskew\[(\w+)\]", text)}
    mentioned |= {name for text in texts for name in re.findall(r'missing_extra\(\s*"(\w+)"', text)}
    assert mentioned <= set(EXTRAS)
    assert set(EXTRAS) - FOR_DEVELOPERS - {"all"} <= mentioned


def test_the_extra_all_has_every_extra_for_users() -> None:
    (requirement,) = EXTRAS["all"]
    names = re.fullmatch(r"unskew\[([\w,]+)\]", requirement)[1].split(",")  # type: ignore[index]
    assert set(names) == set(EXTRAS) - FOR_DEVELOPERS - {"all"}


def test_the_sdist_has_every_top_level_entry_that_tests_read() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    tests = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    read = {name for text in tests for name in re.findall(r'\bROOT / "([\w.-]+)"', text)}
    present = {name for name in read - {".git", ".bench-cache"} if (ROOT / name).exists()}
    assert {"docs", "benchmarks", "src"} <= present
    missing = {
        name
        for name in present
        if not any(Path("/", name).match(pattern) for pattern in included)
        and name != "pyproject.toml"  # always there
    }
    assert not missing


def test_pre_commit_runs_make_lint() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^\s+entry: (.+)$", hooks, flags=re.MULTILINE) == ["make lint"]
