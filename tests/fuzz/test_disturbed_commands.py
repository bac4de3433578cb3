"""Whole commands, killed (SIGKILL) at a random step on disk and repeated, and two at the same time.

``make fuzz`` disturbs every command, at other steps with each UNSKEW_SEED.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from killed_writers import COMMANDS

SCRIPT = Path(__file__).resolve().parents[1] / "killed_writers.py"
SEED = os.environ.get("UNSKEW_SEED", "0")
# What these write holds the seconds that an epoch took.
TIMED = ("trained/arms/debiased/logs/", "trained/history.csv")


def _disturb(folder: Path, names: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "commands", str(folder), SEED, ",".join(names)],
        check=False,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    assert {outcome["command"] for outcome in outcomes} == set(names)
    return outcomes


def _check(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert not [name for name in outcome["differs"] if not name.startswith(TIMED)], outcome
        if "killed" in outcome:
            assert (outcome["killed"], outcome["again"]) == (-signal.SIGKILL, 0), outcome
        else:
            assert (outcome["first"], outcome["second"]) == (0, 4), outcome
            assert (outcome["error"], outcome["named"]) == ("LockedError", True), outcome


@pytest.mark.slow
def test_after_a_kill_a_command_does_the_same_and_a_second_one_is_refused(tmp_path: Path) -> None:
    """The files are those of an undisturbed command, hidden ones too; the first one's are whole."""
    every = "UNSKEW_MUTANTS" in os.environ
    _check(_disturb(tmp_path, list(COMMANDS) if every else ["export", "report"]))


@pytest.mark.slow
def test_so_do_those_that_take_longer(tmp_path: Path) -> None:
    _check(_disturb(tmp_path, [name for name in COMMANDS if name not in ("export", "report")]))
