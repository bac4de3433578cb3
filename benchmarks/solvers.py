"""unskew's solvers and those of other packages, on the same inputs, in one table: ``make bench``,
or ``python benchmarks/solvers.py``.

Writes docs/performance.md by itself. ``--only CASE`` and ``--quick`` runs print the table and leave
that page alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from solver_cases import CASES, Bench
from solver_table import Row, markdown, page, write_page

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=list(CASES), help="run this case only; may be repeated"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small inputs, to try the script itself; the bars mean nothing then",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=200.0,
        help="seconds that a peer may take on one input (default 200)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="where to write the page (default docs/performance.md, for a full run)",
    )
    options = parser.parse_args()
    begin = time.monotonic()
    rows: list[Row] = []
    read_by: set[str] = set()
    for key in options.only or CASES:
        # A folder for each case, removed with it: the inputs take gigabytes.
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as scratch:
            bench = Bench(Path(scratch), options.quick, options.limit, read_by)
            for row in CASES[key](bench):
                print(f"{row.case}: {row.verdict}", file=sys.stderr, flush=True)
                rows.append(row)
    output = options.output or (None if options.only or options.quick else PAGE)
    if output is not None:
        command = " ".join(["python benchmarks/solvers.py", *sys.argv[1:]])
        write_page(
            output,
            page(
                rows,
                ", ".join(sorted(read_by)) or "no dense case in this run",
                command,
                (time.monotonic() - begin) / 60,
            ),
        )
    print(markdown(rows))


if __name__ == "__main__":
    main()
