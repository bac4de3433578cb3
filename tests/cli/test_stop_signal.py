"""SIGTERM and SIGHUP end a command as Ctrl-C does: in words, with nothing half-written."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = """
import sys, time
from unskew.runs import pipeline

def wait(*_, **__):
    print("under way", flush=True)
    time.sleep(600)

pipeline.weigh_inputs = wait
from unskew.__main__ import main
sys.argv = ["unskew", "weigh", sys.argv[1], "-o", sys.argv[2]]
main()
"""


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (signal.SIGTERM, 143),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),  # handled as SIGTERM is
    ],
)
def test_a_stopped_run_leaves_nothing(
    table: Path, tmp_path: Path, stop: signal.Signals, code: int
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    out = tmp_path / "out"
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "slow.py"), str(table), str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts background jobs without Ctrl-C, nohup starts them without SIGHUP.
        preexec_fn=lambda: [
            signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)
        ],
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "under way\n"
    assert (out / ".unskew.lock").exists()
    time.sleep(0.05)
    run.send_signal(stop)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == code
    assert "Stopped" in errors
    assert "Traceback" not in errors
    assert not out.exists()
