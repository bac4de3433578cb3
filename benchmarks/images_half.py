"""Some of the files, represented by a program of its own when it is told to: ``images_half.py
FOLDER FIRST LAST FEATURES``.

Two of these, each with half of the files and everything loaded, show what two cores of this machine
can gain at all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import unskew


def main() -> None:
    folder, first, last, features = (
        Path(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4].split(","),
    )
    pool = unskew.Pool.from_folders({name: folder / name for name in ("day", "night")})
    unskew.represent_images(pool.take(range(8)), features, progress=False)
    print("ready", flush=True)
    sys.stdin.readline()
    unskew.represent_images(pool.take(range(first, last)), features, jobs=1, progress=False)
    print("done", flush=True)


if __name__ == "__main__":
    main()
