"""Writers that are killed (SIGKILL) at one of their steps on disk: every step in turn.

Run as a script, so that the processes are forked from one that has no threads of a test runner.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_STEPS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.dlsym")


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, by its hash."""
    from unskew.files.fingerprints import fingerprint_file

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): fingerprint_file(path) for path in files}


def _killed(write: Callable[[], Any], folder: Path, step: int) -> bool:
    """Write in another process that is killed just before a step; tell whether it came so far.

    A step is one that creates, renames or deletes something below ``folder``.
    """
    process = os.fork()
    if process == 0:
        left = step

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            if event in _STEPS or (event == "open" and "w" in str(arguments[1])):
                # Names below an open folder are relative to it (rmtree).
                path = str(arguments[0])
                inside = path.startswith(str(folder)) or not os.path.isabs(path)
                left -= inside
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        write()
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def kill_files(folder: Path) -> Iterator[dict[str, Any]]:
    """Write three files together over those of another run."""
    from unskew.files.atomic import written_together
    from unskew.files.checksums import check_files

    def write(out: Path, run: str, names: str) -> None:
        with written_together(out, "abc") as temporary:
            for name in names:
                (temporary / name).write_text(run)

    def prepare(out: Path) -> None:
        write(out, "old", "ab")
        (out / "mine").write_text("mine")

    yield from _outcomes(
        folder,
        prepare,
        lambda out: write(out, "new", "bc"),
        lambda out: check_files(out, "abc"),
    )


def kill_folder(folder: Path, *, exchange: bool) -> Iterator[dict[str, Any]]:
    """Replace a folder of files."""
    from unskew.files import atomic

    if not exchange:
        atomic.exchange_paths = lambda one, other: False

    def write(out: Path, run: str) -> None:
        with atomic.folder_written_whole(out / "export") as temporary:
            for name in "ab":
                (temporary / name).write_text(run)

    def prepare(out: Path) -> None:
        out.mkdir()
        write(out, "old")

    def check(out: Path) -> None:
        """The old target is never gone; without an exchange the next run brings it back."""
        if exchange:
            assert (out / "export" / "a").exists()
        else:
            atomic._clear_exchange(out / "export")

    yield from _outcomes(folder, prepare, lambda out: write(out, "new"), check)


def kill_run(folder: Path, every: int = 1) -> Iterator[dict[str, Any]]:
    """Write the results of a run over those of another one."""
    import unskew
    from run_data import write_table_run
    from unskew.files.checksums import check_files
    from unskew.runs.output import write_run

    configuration = write_table_run(folder)
    new = unskew.run(configuration)
    configuration.write_text(configuration.read_text().replace('uniform = "label"', 'source = "a"'))
    old = unskew.run(configuration)
    names = [name for name in write_run(old, folder / "names") if name != "files.json"]
    yield from _outcomes(
        folder,
        lambda out: write_run(old, out),
        lambda out: write_run(new, out),
        lambda out: check_files(out, names),
        every,
    )


def _outcomes(
    folder: Path,
    prepare: Callable[[Path], Any],
    write: Callable[[Path], Any],
    check: Callable[[Path], Any],
    every: int = 1,
) -> Iterator[dict[str, Any]]:
    """Yield, for every step, whose files a reader finds, and whether a new attempt is as good."""
    for name, work in {"old": [prepare], "new": [prepare, write]}.items():
        for one in work:
            one(folder / name)
    whose = {name: contents(folder / name) for name in ("old", "new")}
    out = folder / "out"
    step = 0
    while True:
        step += every
        prepare(out)
        if not _killed(lambda: write(out), out, step):
            break
        check(out)
        seen = {name: each for name, each in contents(out).items() if "/." not in f"/{name}"}
        write(out)
        yield {
            "step": step,
            "of": next((name for name, files in whose.items() if files == seen), "both"),
            "again": contents(out) == whose["new"],
        }
        for path in sorted(out.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        out.rmdir()


if __name__ == "__main__":
    kind, place = sys.argv[1], Path(sys.argv[2])
    kinds = {
        "files": lambda: kill_files(place),
        "exchange": lambda: kill_folder(place, exchange=True),
        "folder": lambda: kill_folder(place, exchange=False),
        "run": lambda: kill_run(place, int(sys.argv[3])),
    }
    sys.stdout.write(json.dumps(list(kinds[kind]())))
