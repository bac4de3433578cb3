"""What representations cost, compared with plain decoding of the same files.

    python benchmarks/images.py [--n 20000] [--block 2000] [--data FOLDER] [--output
    docs/images-performance.md]

Files are read in blocks; every measurement of a block follows the others at once, so that a machine
that is now fast and now slow treats all alike. Ratios are of totals over the blocks; the median
over the blocks is also given. "Plain" is
``numpy.asarray(PIL.Image.open(path).convert("RGB"))``. CIFAR is read from ``--data``, or the
environment variable UNSKEW_DATA.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from images_files import read_cifar, write_photographs
from images_page import Row, page, table
from matplotlib.colors import rgb_to_hsv
from PIL import Image

import unskew
from unskew.represent.color import border_hsv

CHEAP = (
    "border_hsv",
    "mean_hsv",
    "brightness",
    "contrast",
    "colourfulness",
    "sharpness",
    "size",
    "aspect_ratio",
    "exif",
)
Clock = tuple[float, float]


def clocked(work: Callable[[], object]) -> Clock:
    """Seconds by the wall and of the processor, all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def decode_plainly(paths: list[str]) -> None:
    for path in paths:
        np.asarray(Image.open(path).convert("RGB"))


def decode_in_two_threads(paths: list[str]) -> None:
    with ThreadPoolExecutor(2) as threads:
        list(
            threads.map(
                decode_plainly, [paths[start : start + 64] for start in range(0, len(paths), 64)]
            )
        )


def measure_blocks(pool: unskew.Pool, block: int, cache: str) -> dict[str, list[Clock]]:
    """Every measurement on every block of files."""
    times: dict[str, list[Clock]] = defaultdict(list)
    for start in range(0, len(pool), block):
        part = pool.take(range(start, min(start + block, len(pool))))
        paths = [str(part.images.place(row)) for row in range(len(part))]  # type: ignore[union-attr]

        def run(
            features: object, part: unskew.Pool = part, **options: object
        ) -> Callable[[], object]:
            return lambda: unskew.represent_images(part, features, progress=False, **options)  # type: ignore[arg-type, call-overload]

        for name, work in {
            "plain": lambda paths=paths: decode_plainly(paths),
            "cheap": run(CHEAP, jobs=1),
            "noise": run("noise", jobs=1),
            "plain, two threads": lambda paths=paths: decode_in_two_threads(paths),
            "colour": run("mean_hsv", jobs=1),
            "cold cache": run(CHEAP, jobs=1, cache=cache),
            "warm cache": run(CHEAP, jobs=1, cache=cache),
        }.items():
            times[name].append(clocked(work))
        done = ", ".join(
            f"{name} {1e6 * clocks[-1][1] / len(paths):.0f} µs" for name, clocks in times.items()
        )
        print(
            f"{start + len(paths)} of {len(pool)}: processor time per image: {done}",
            file=sys.stderr,
            flush=True,
        )
    return times


def measure_cores(pool: unskew.Pool, folder: Path, times: int) -> dict[str, list[Clock]]:
    """All files in one run by one core and by two, in turn: a process takes a second or two to
    start, which counts.
    """
    clocks: dict[str, list[Clock]] = defaultdict(list)
    for _ in range(times):
        for what, features in (("cheap", CHEAP), ("all", (*CHEAP, "noise"))):
            for cores, work in {
                "one core": functools.partial(
                    unskew.represent_images, pool, features, jobs=1, progress=False
                ),
                "two cores": functools.partial(
                    unskew.represent_images, pool, features, jobs=2, progress=False
                ),
                "two programs": halves(folder, len(pool), features),
            }.items():
                clocks[f"{what}, {cores}"].append(clocked(work))
                print(
                    f"{what}, {cores}: {clocks[f'{what}, {cores}'][-1][0]:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
    return clocks


def halves(folder: Path, n: int, features: tuple[str, ...]) -> Callable[[], object]:
    """Two programs that have loaded everything; called, each represents half of the files."""
    script = str(Path(__file__).with_name("images_half.py"))
    started = [
        subprocess.Popen(
            [sys.executable, script, str(folder), str(first), str(last), ",".join(features)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first, last in ((0, n // 2), (n // 2, n))
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()

    def go() -> None:
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        for process in started:
            process.kill()
            process.communicate()

    return go


def ratio(above: list[Clock], below: list[Clock], clock: int) -> tuple[float, float]:
    """Of the totals, and the median of the blocks."""
    top, bottom = np.array(above)[:, clock], np.array(below)[:, clock]
    return float(top.sum() / bottom.sum()), float(np.median(top / bottom))


def file_rows(times: dict[str, list[Clock]]) -> list[Row]:
    rows = []
    for what, above, below, bar in (
        ("all cheap representations ÷ plain decoding, one thread", "cheap", "plain", "≤ 2"),
        ("noise ÷ plain decoding, one thread", "noise", "plain", "≤ 8"),
        ("mean_hsv alone ÷ plain decoding, one thread", "colour", "plain", ""),
        (
            "all cheap, with hashing and writing the cache ÷ plain decoding",
            "cold cache",
            "plain",
            "",
        ),
        ("all cheap, everything in the cache ÷ plain decoding", "warm cache", "plain", ""),
    ):
        (wall, wall_median), (cpu, _) = (
            ratio(times[above], times[below], 0),
            ratio(times[above], times[below], 1),
        )
        rows.append(
            Row(what, f"{cpu:.2f} ×", f"{wall:.2f} × (median of blocks {wall_median:.2f})", bar)
        )
    for what, one, two, bar in (
        (
            "all cheap ones and noise, all files in one run: two cores, speed relative to one",
            "all, one core",
            "all, two cores",
            "≥ 1.7",
        ),
        (
            "the same, by two programs with half of the files each",
            "all, one core",
            "all, two programs",
            "what two cores can gain here",
        ),
        (
            "all cheap ones, all files in one run: two cores, speed relative to one",
            "cheap, one core",
            "cheap, two cores",
            "≥ 1.7",
        ),
        (
            "the same, by two programs with half of the files each",
            "cheap, one core",
            "cheap, two programs",
            "what two cores can gain here",
        ),
        ("plain decoding: two threads, speed relative to one", "plain", "plain, two threads", ""),
    ):
        total, median = ratio(times[one], times[two], 0)
        rows.append(Row(what, "", f"{total:.2f} × (median {median:.2f})", bar))
    return rows


def cifar_rows(data: Path | None) -> list[Row]:
    what = (
        "border_hsv of 50,000 CIFAR-10 arrays, speed relative to a loop over matplotlib's "
        "rgb_to_hsv"
    )
    if data is None or not (data / "cifar10").is_dir():
        return [
            Row(
                what,
                "not measured",
                "give the folder that holds cifar10/ by --data or UNSKEW_DATA",
                "≥ 20",
            )
        ]
    images = read_cifar(data)
    border = np.ones((32, 32), dtype=bool)
    border[2:-2, 2:-2] = False
    border_hsv(images[:10])
    measured: list[np.ndarray] = []
    ours = min(clocked(lambda: measured.append(border_hsv(images))) for _ in range(5))
    rows = []
    for how, loop in (
        ("each image whole", lambda image: rgb_to_hsv(image / 255)[border].mean(axis=0)),
        ("each border alone", lambda image: rgb_to_hsv(image[border] / 255).mean(axis=0)),
    ):
        kept: list[np.ndarray] = []
        theirs = clocked(lambda loop=loop, kept=kept: kept.extend(loop(image) for image in images))
        assert np.abs(np.array(kept) - measured[0]).max() < 1e-12
        rows.append(
            Row(
                f"{what}, {how}",
                f"{theirs[1] / ours[1]:.0f} ×",
                f"{theirs[0] / ours[0]:.0f} × ({ours[0]:.2f} s)",
                "≥ 20",
            )
        )
    return rows


def memory_rows(folder: Path, n: int, scratch: Path) -> list[Row]:
    rows = []
    for size in (n // 10, n):
        command = [
            sys.executable,
            str(Path(__file__).with_name("images_memory.py")),
            str(folder),
            str(size),
        ]
        done = subprocess.run(
            [*command, str(scratch / f"cache-{size}"), ",".join((*CHEAP, "noise"))],
            capture_output=True,
            text=True,
            check=True,
        )
        before, after, taken, others = (float(word) for word in done.stdout.split())
        what = (
            f"peak memory of a run over {size:,} files, all representations but embedding, two "
            "cores, with a cache"
        )
        rows.append(
            Row(
                what,
                f"{after - before + others:.0f} MB",
                f"above {before:.0f} MB of loaded libraries; {others:.0f} MB of it in other "
                "processes, with their libraries; "
                f"the table itself has {taken:.0f} MB",
                "< 400 MB",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--n", type=int, default=20_000, help="number of JPEG files (default 20000)"
    )
    parser.add_argument(
        "--block",
        type=int,
        default=2000,
        help="files between two measurements of the same kind (default 2000)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("UNSKEW_DATA"),
        help="folder that holds cifar10/train-000.webp …",
    )
    parser.add_argument("--output", type=Path, help="write the page there")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unskew-bench-") as scratch_name:
        scratch = Path(scratch_name)
        size = write_photographs(scratch / "files", options.n) / options.n
        pool = unskew.Pool.from_folders(
            {name: scratch / "files" / name for name in ("day", "night")}
        )
        # Compiled and loaded before anything is measured.
        unskew.represent_images(pool.take(range(8)), (*CHEAP, "noise"), progress=False)
        times = measure_blocks(pool, options.block, str(scratch / "cache")) | measure_cores(
            pool, scratch / "files", 2
        )
        rows = [
            *file_rows(times),
            *cifar_rows(options.data and Path(options.data)),
            *memory_rows(scratch / "files", options.n, scratch),
        ]
    plain = np.array(times["plain"]).sum(axis=0) / options.n
    print(table(rows))
    if options.output is not None:
        options.output.write_text(
            page(rows, options.n, size, plain, (time.monotonic() - begin) / 60), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
