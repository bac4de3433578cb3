"""Peak memory of one run, measured in a process of its own: ``python benchmarks/images_memory.py
FOLDER N CACHE`` prints megabytes.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import unskew


def main() -> None:
    folder, n, cache = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    pool = unskew.Pool.from_folders({name: folder / name for name in ("day", "night")})
    features = sys.argv[4].split(",")
    # Everything that is loaded once, whatever n.
    unskew.represent_images(pool.take(range(64)), features, progress=False)
    pool = pool.take(range(n))
    before = peak()
    with Watch() as watch:
        represented = unskew.represent_images(pool, features, cache=cache or None, progress=False)
    after = peak()
    table = represented.frame.memory_usage(deep=True).sum() / 2**20
    print(f"{before:.1f} {after:.1f} {table:.1f} {watch.largest:.1f}")


class Watch(threading.Thread):
    """The largest resident size of all processes that this one started, together, in MB; looked at
    ten times a second.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest, self._over = 0.0, threading.Event()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(0.1):
            self.largest = max(self.largest, sum(resident(child) for child in children()))


def children() -> list[str]:
    listed = [
        Path(f"/proc/self/task/{task.name}/children") for task in Path("/proc/self/task").iterdir()
    ]
    return [child for path in listed if path.exists() for child in path.read_text().split()]


def resident(process: str) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def peak() -> float:
    """The largest resident size so far, in MB. Not ru_maxrss, which begins with that of the process
    that started this one.
    """
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return float(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
