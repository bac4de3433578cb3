"""Writers that are killed (SIGKILL) at one of their steps on disk: every step in turn.

Run as a script, so that the processes are forked from one that has no threads of a test runner;
also where ``PYTHONSAFEPATH`` keeps a script's folder off the import path.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

_STEPS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
# The tables that commands compute with: nobody else may write once one of them is read.
_TABLES = ("t.csv", "new.csv")
# Steps of the last process that ran to its end: those on disk, and those with the lock held.
_counted = mmap.mmap(-1, 2)


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, by its hash."""
    from unskew.files.fingerprints import fingerprint_file

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): fingerprint_file(path) for path in files}


def _is_step(event: str, arguments: tuple[Any, ...], folder: Path) -> bool:
    """Tell whether something below ``folder`` is created, renamed, exchanged or deleted."""
    if event == "ctypes.dlsym":  # thread pools are looked up, too, at a moment of their own
        return str(arguments[1]) == "renameat2"
    if event not in _STEPS and not (event == "open" and "w" in str(arguments[1])):
        return False
    # Names below an open folder are relative to it (rmtree).
    return str(arguments[0]).startswith(str(folder)) or not os.path.isabs(str(arguments[0]))


def _signalled(write: Callable[[], Any], folder: Path, step: int, number: int) -> int:
    """Start to write in another process, which sends itself a signal just before a step.

    A step is one on disk below ``folder``; to be stopped (SIGSTOP), one while its writer is to keep
    others out. Without a step (0) the process counts both kinds and runs to its end, as with -1.
    """
    from unskew.files import locks

    process = os.fork()
    if process == 0:
        done = [0, 0]

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            is_step = _is_step(event, arguments, folder)
            reads = event == "open" and Path(str(arguments[0])).name in _TABLES
            kinds = (is_step, (is_step and bool(locks._held)) or reads)
            for kind, counts in enumerate(kinds):
                done[kind] += counts
                if counts and done[kind] == step and kind == (number == signal.SIGSTOP):
                    os.kill(os.getpid(), number)

        sys.addaudithook(watch)
        code = write()
        if step == 0:
            _counted[:] = bytes(min(count, 255) for count in done)
        os._exit(code if isinstance(code, int) else 0)
    return process


def _killed(write: Callable[[], Any], folder: Path, step: int) -> bool:
    """Write in another process that is killed just before a step; tell whether it came so far."""
    _, status = os.waitpid(_signalled(write, folder, step, signal.SIGKILL), 0)
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


def kill_parts(folder: Path, every: int = 1) -> Iterator[dict[str, Any]]:
    """Write the results of a run over Parquet parts over those of another one."""
    import unskew
    from part_runs import STRATA, save, write_pool
    from unskew.files.checksums import check_files

    new = write_pool(folder, 300)
    engine = "[engine]\nsubsample = 200\nworkers = 1\n"
    old = save(
        folder, "old.toml", STRATA.replace("0.7", "0.6").replace("0.3", "0.4"), engine=engine
    )
    save(folder, "run.toml", engine=engine)
    yield from _outcomes(
        folder,
        lambda out: unskew.run(old, out, overwrite=True),
        lambda out: unskew.run(new, out, overwrite=True),
        lambda out: check_files(out, ["weights.json", "report.json"]),
        every,
    )


# Whole commands, in a folder that holds the results of two runs; what they write is below it.
COMMANDS = {
    "weigh": "weigh run.toml -o out --overwrite",
    "report": "report out",
    "forecast": "forecast run.toml -o out",
    "export": "export out --to jsonl -o weights.jsonl --overwrite",
    "mixture": "export out --to mixture -o mixture --overwrite",
    "split": "split run.toml -o splits.csv --overwrite",
    "evaluate": "evaluate out --predictions p.csv -o out --overwrite",
    "monitor": "monitor out new.csv --restart",
    "train": "train run.toml -o trained --force --preset probe --arm debiased --replicates 20",
}


def _run_quietly(command: str, folder: Path, errors: str = os.devnull) -> int:
    """Run a command in ``folder``; what it prints, as JSON, goes into a file."""
    from unskew.cli.app import run_command

    os.chdir(folder)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return run_command([*command.split(), "--json"])


def _waited(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _timeless(folder: Path) -> dict[str, str]:
    """Every file, by its hash or its text: without times of the clock, and hashes of such files."""
    files = contents(folder)
    for name in files:
        if name.endswith((".json", ".md", ".html")):
            text = (folder / name).read_text(encoding="utf-8")
            files[name] = re.sub(r'"seconds": [^\]}]*|"[0-9a-f]{64}"', "", text)
    return files


def _write_base(folder: Path) -> None:
    """A run, its results, predictions, and new images."""
    import pandas as pd

    from run_data import write_table_run
    from unskew.cli.app import run_command

    folder.mkdir()
    configuration = write_table_run(folder)
    frame = pd.read_csv(folder / "t.csv")
    frame.insert(0, "id", [f"i{row}" for row in range(len(frame))])
    frame.to_csv(folder / "t.csv", index=False)
    frame.iloc[20:60].assign(id=[f"n{row}" for row in range(40)]).to_csv(
        folder / "new.csv", index=False
    )
    frame[["id"]].assign(prediction="cat").to_csv(folder / "p.csv", index=False)
    # In this process, so that those forked from it have everything loaded.
    assert run_command(["weigh", str(configuration), "-o", str(folder / "out"), "--quiet"]) == 0


def disturb_commands(folder: Path, names: list[str], seed: int) -> Iterator[dict[str, Any]]:
    """Kill each command at a random step and repeat it; stop one there while a second tries."""
    rng, place, answer = random.Random(seed), folder / "place", folder / "answer.json"
    _write_base(folder / "base")
    for name in names:

        def start(step: int, number: int, errors: str = os.devnull, name: str = name) -> int:
            run = partial(_run_quietly, COMMANDS[name], place, errors)
            return _signalled(run, place, step, number)

        def prepare() -> None:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder / "base", place)

        prepare()
        assert _waited(start(0, 0)) == 0, name
        whole, (steps, guarded) = _timeless(place), _counted[:]
        prepare()
        at = rng.randint(1, steps)
        killed, code = _waited(start(at, signal.SIGKILL)), _waited(start(-1, 0))
        yield {"command": name, "steps": (at, steps), "killed": killed, "again": code} | {
            "differs": _differing(whole, _timeless(place))
        }
        prepare()
        # As soon as it is to keep others out; anywhere with another seed.
        at = rng.randint(1, guarded) if seed else 1
        first = start(at, signal.SIGSTOP)
        status = os.waitpid(first, os.WUNTRACED)[1]
        assert os.WIFSTOPPED(status), (name, at, guarded, status)
        answer.unlink(missing_ok=True)
        second = _waited(start(-1, 0, str(answer)))
        os.kill(first, signal.SIGCONT)
        error = json.loads(answer.read_text() or "{}").get("error", {})
        yield {
            "command": name,
            "steps": (at, guarded),
            "first": _waited(first),
            "second": second,
        } | {
            "error": error.get("kind"),
            "named": error.get("facts", {}).get("pid") == first,
            "differs": _differing(whole, _timeless(place)),
        }


def _differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def _visible(files: dict[str, str]) -> dict[str, str]:
    return {name: each for name, each in files.items() if "/." not in f"/{name}"}


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
        seen = _visible(contents(out))
        write(out)
        yield {
            "step": step,
            "of": next((name for name, its in whose.items() if _visible(its) == seen), "both"),
            "again": contents(out) == whose["new"],
        }
        for path in sorted(out.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        out.rmdir()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    kind, place = sys.argv[1], Path(sys.argv[2])
    kinds = {
        "files": lambda: kill_files(place),
        "exchange": lambda: kill_folder(place, exchange=True),
        "folder": lambda: kill_folder(place, exchange=False),
        "run": lambda: kill_run(place, int(sys.argv[3])),
        "parts": lambda: kill_parts(place, int(sys.argv[3])),
        "commands": lambda: disturb_commands(place, sys.argv[4].split(","), int(sys.argv[3])),
    }
    sys.stdout.write(json.dumps(list(kinds[kind]())))
