"""Measure how far a call walks through the package: files, depth and turns.

Each of five calls runs twice in this process on tiny data, commands through the entry of the
command line with ``--quiet``. The second run is traced: modules are loaded, features are cached.

room
    The first folder below the package; ``report/summary`` and ``report/page`` are two rooms, and a
    file in the package root is one. The root's ``__init__.py`` and ``__main__.py`` do not count.
files
    The files of the package, templates of pages included, in which a function ran on any thread.
    Worker processes are not seen; with this little data none is started.
depth
    The largest number of functions of the package on one call stack, without comprehensions, which
    are no functions from Python 3.12 on.
turns
    The pairs of rooms (A, B) such that A, then B, then A again are on one call stack, directly or
    with other rooms between them. Two kinds of functions are looked through: those of ``engine``,
    whose task is to call what it was handed, and generators, which run where the next item is
    needed. A record is in a room like any other: if its method calls a function elsewhere that uses
    a record again, that is a turn.

Usage: ``python tools/walk.py [--turns] [--files]``. Before the rooms were put in order (2ea7bb1,
where ``engine`` was called ``scale``) it printed::

    call               files  depth  turns
    solve_normalizers     16     15      0
    debias                24     10      0
    weigh                121     23     10
    train                152     24     10
    evaluate              18     11      0
"""

from __future__ import annotations

import argparse
import inspect
import io
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from PIL import Image

import unskew
from unskew.__main__ import main as run_unskew

PACKAGE = unskew.__file__.removesuffix("__init__.py")
NOT_COUNTED = {"__init__.py", "__main__.py"}
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
ENGINE = "engine"
# Folders further down that are rooms too.
INNER_ROOMS = {"report/summary", "report/page"}

# Images of each class from each camera.
IMAGES = {"day": {"disc": 15, "square": 45}, "night": {"disc": 40, "square": 20}}
CONFIGURATION = """
sources.folders = { day = "day", night = "night" }
represent.features = ["brightness", "contrast", "sharpness"]
target.uniform = "label"
bias = { family = "strata", by = ["label"] }
"""


class Step(NamedTuple):
    """A function on a call stack, such as ``minimize`` in ``solve/newton.py``."""

    file: str
    function: str
    is_generator: bool

    @property
    def room(self) -> str:
        parts = self.file.removesuffix(".py").split("/")
        inner = "/".join(parts[:2])
        return inner if inner in INNER_ROOMS else parts[0]


Stack = tuple[Step, ...]


def find_step(code: CodeType) -> Step | None:
    """Return the step that this code is, or None if it does not count."""
    file = code.co_filename.removeprefix(PACKAGE)
    if file == code.co_filename or file in NOT_COUNTED or code.co_name in COMPREHENSIONS:
        return None
    return Step(file, code.co_qualname, bool(code.co_flags & inspect.CO_GENERATOR))


def trace_stacks(call: Callable[[], object]) -> set[Stack]:
    """Make the call; return the call stacks of the package, on all threads."""
    stacks: set[Stack] = set()
    thread = threading.local()

    def follow(frame: FrameType, event: str, _argument: Any) -> None:
        step = find_step(frame.f_code) if event in ("call", "return") else None
        if step is None:
            return
        stack: Stack = getattr(thread, "stack", ())
        thread.stack = (*stack, step) if event == "call" else stack[:-1]
        stacks.add(thread.stack)

    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return stacks - {()}


@dataclass(frozen=True)
class Walk:
    """What one call visited. ``turns`` has the shortest call stack as an example for each pair."""

    files: list[str]
    depth: int
    turns: dict[tuple[str, str], Stack]


def measure_walk(stacks: Collection[Stack]) -> Walk:
    """Count the files, the depth and the turns of these call stacks."""
    turns: dict[tuple[str, str], Stack] = {}
    for stack in sorted(stacks, key=lambda stack: (len(stack), stack)):
        for pair, part in find_turns(stack):
            turns.setdefault(pair, part)
    files = sorted({stack[-1].file for stack in stacks})
    return Walk(files, max(map(len, stacks), default=0), turns)


def find_turns(stack: Stack) -> Iterator[tuple[tuple[str, str], Stack]]:
    """Yield each turn that the last function completes, with the part of the stack it spans."""
    steps = [step for step in stack if step.room != ENGINE and not step.is_generator]
    if not steps or steps[-1] is not stack[-1]:
        return
    room = steps[-1].room
    earlier = [at for at, step in enumerate(steps[:-1]) if step.room == room]
    part = tuple(steps[earlier[-1] :]) if earlier else ()
    for step in part[1:-1]:
        yield (room, step.room), part


def run_command(*arguments: str | Path) -> None:
    """Run ``unskew`` with these arguments, quietly; raise an error if it fails."""
    code: str | int | None = None
    output = io.StringIO()
    command = ["unskew", *map(str, arguments), "--quiet"]
    with patch.object(sys, "argv", command), redirect_stdout(output), redirect_stderr(output):
        try:
            run_unskew()
        except SystemExit as stop:
            code = stop.code
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {code}: {output.getvalue()}")


def write_inputs(folder: Path) -> Path:
    """Write 120 images of two classes from two cameras; return the path of the configuration."""
    rng = np.random.default_rng(0)
    for source, counts in IMAGES.items():
        for label, count in counts.items():
            (folder / source / label).mkdir(parents=True)
            for at in range(count):
                pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / source / label / f"{at:03d}.png")
    (folder / "run.toml").write_text(CONFIGURATION, encoding="utf-8")
    return folder / "run.toml"


# Takes the number of the run, so that results go to a new folder each time.
Call = Callable[[int], object]


def make_solve(_folder: Path) -> Call:
    rng = np.random.default_rng(0)
    omega_nk = np.exp(np.outer(rng.normal(size=300), [0.0, 0.5, -0.5]))
    source_n = rng.integers(0, 3, 300)
    return lambda _run: unskew.solve_normalizers(omega_nk, source_n)


def make_debias(_folder: Path) -> Call:
    rng = np.random.default_rng(0)
    source_n, label_n = rng.choice(["a", "b", "c"], 60), rng.choice(["cat", "dog", "owl"], 60)
    pool = unskew.Pool.from_arrays(source_n, label=label_n)
    bias, target = unskew.bias.Strata("label"), unskew.Target.uniform("label")
    return lambda _run: unskew.debias(pool, bias, target)


def make_weigh(folder: Path) -> Call:
    configuration = write_inputs(folder)
    return lambda run: run_command("weigh", configuration, "-o", folder / f"results-{run}")


def make_train(folder: Path) -> Call:
    configuration = write_inputs(folder)
    probe = ("--preset", "probe")
    return lambda run: run_command("train", configuration, "-o", folder / f"model-{run}", *probe)


def make_evaluate(folder: Path) -> Call:
    results, table = folder / "results", folder / "predictions.csv"
    run_command("weigh", write_inputs(folder), "-o", results)
    weights = pd.read_parquet(results / "weights.parquet", columns=["id", "label"])
    weights.rename(columns={"label": "prediction"}).to_csv(table, index=False)
    return lambda _run: run_command("evaluate", results, "--predictions", table)


CALLS = {
    "solve_normalizers": make_solve,
    "debias": make_debias,
    "weigh": make_weigh,
    "train": make_train,
    "evaluate": make_evaluate,
}


def walk_call(name: str) -> Walk:
    """Make one of the calls cold, then warm, and measure the warm one."""
    with TemporaryDirectory() as folder:
        call = CALLS[name](Path(folder))
        call(1)
        return measure_walk(trace_stacks(lambda: call(2)))


def main() -> None:
    """Print the numbers of every call, and below them what was asked for."""
    parser = argparse.ArgumentParser(description="How far does a call walk through the package?")
    parser.add_argument("--turns", action="store_true", help="show each turn with an example")
    parser.add_argument("--files", action="store_true", help="list the files")
    options = parser.parse_args()
    lines = [f"{'call':<18}{'files':>6}{'depth':>7}{'turns':>7}"]
    for name in CALLS:
        walk = walk_call(name)
        lines.append(f"{name:<18}{len(walk.files):>6}{walk.depth:>7}{len(walk.turns):>7}")
        for (room, other), part in sorted(walk.turns.items()) if options.turns else ():
            lines.append(f"  {room} > {other} > {room}")
            lines += [f"      {step.file}:{step.function}" for step in part]
        lines += [f"  {file}" for file in walk.files] if options.files else []
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
