"""Images larger than the share of a process are decoded one at a time in all processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unskew.represent.image_tasks import _PixelBudget

pytest.importorskip("fcntl")
_HOLD = """
import sys, time
from unskew.represent.image_tasks import _PixelBudget
with _PixelBudget(10, sys.argv[1]).hold(int(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(("amount", "waits"), [(11, True), (10, False)])
def test_only_one_process_at_a_time_holds_more_than_its_share(
    amount: int, waits: bool, tmp_path: Path
) -> None:
    lock = str(tmp_path / "lock")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, lock, str(amount)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        import fcntl

        with open(lock, "ab") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
            except BlockingIOError:
                free = False
        assert free is not waits
        other.communicate("\n", timeout=30)
    with _PixelBudget(10, lock).hold(amount):
        pass  # it is free again
