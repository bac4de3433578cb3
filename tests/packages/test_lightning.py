"""The recipe of docs/frameworks.md with lightning; its own assertions are the test."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("lightning", reason="make test-packages has it")

from packages.recipes import run_recipe


@pytest.mark.slow
def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_recipe("lightning")
