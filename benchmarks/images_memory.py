"""Peak memory of one run, measured in a process of its own: ``python benchmarks/images_memory.py FOLDER N CACHE`` prints megabytes."""

from __future__ import annotations

import sys
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
    represented = unskew.represent_images(pool, features, cache=cache or None, progress=False)
    after = peak()
    table = represented.frame.memory_usage(deep=True).sum() / 2**20
    print(f"{before:.1f} {after:.1f} {table:.1f}")


def peak() -> float:
    """The largest resident size so far, in MB. Not ru_maxrss, which begins with that of the process that started this one."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return float(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
