"""unskew's weights and those of skada, adapt and balance on problems with a known truth:
``make bench-weights``.

Every peer runs in an environment of its own under .bench-cache, made when it is missing. Results
are appended to .bench-cache/weights.jsonl as they come; ``--resume`` goes on where a run was
stopped, and ``--page`` only writes docs/weights-performance.md from what is there. A run over all
problems and sizes writes that page by itself.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from solver_table import commit_facts, write_page
from weights_environments import CACHE, Library, libraries
from weights_methods import BY_KEY, OURS, PEERS, Method, methods_for
from weights_problems import PROBLEMS, Draw, analytic_ratio
from weights_table import JUDGED, page

PAGE = Path(__file__).parents[1] / "docs" / "weights-performance.md"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SEEDS = 50
MINUTES = {1_000_000: 2.0}  # for one peer on one problem; 1 at other sizes
Key = tuple[str, int, int, str]


class Results:
    """What was measured, kept in a file of JSON lines; the last line for a key counts."""

    def __init__(self, path: Path, resume: bool, again: Iterable[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.records: dict[Key, dict[str, Any]] = {}
        self.facts: dict[str, Any] = {}
        self.commands: list[str] = []
        if resume and path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))
        kept = [record for key, record in self.records.items() if key[3] not in again]
        self.records = {}
        facts = [*self.facts.items(), *(("command", command) for command in self.commands)]
        lines = [*kept, *({"fact": name, "value": value} for name, value in facts)]
        temporary = path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines))
        temporary.replace(path)
        for record in kept:
            self._take(record)

    def add(self, record: dict[str, Any]) -> None:
        self._take(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _take(self, record: dict[str, Any]) -> None:
        if record.get("fact") == "command":
            self.commands = list(dict.fromkeys([*self.commands, record["value"]]))
        elif "fact" in record:
            self.facts[record["fact"]] = record["value"]
        else:
            self.records[record["problem"], record["n"], record["seed"], record["method"]] = record


class Bench:
    """Asks every method for weights, one draw at a time."""

    def __init__(
        self,
        available: dict[str, Library],
        results: Results,
        limit: float,
        budget: float | None,
        scratch: Path,
        only: list[str] | None = None,
    ) -> None:
        self.only = only
        self.found, self.results, self.limit, self.budget, self.scratch = (
            available,
            results,
            limit,
            budget,
            scratch,
        )
        self.spent: defaultdict[tuple[str, int, str], float] = defaultdict(float)
        self.stopped: dict[tuple[str, str], int] = {}
        self.commit = commit_facts()
        for (problem, n, _, method), record in results.records.items():
            self._account(problem, n, method, record)

    def run(self, problem: str, n: int, seeds: range) -> None:
        for seed in seeds:
            methods = [
                method
                for method in methods_for(PROBLEMS[problem])
                if self._wanted(problem, n, seed, method)
            ]
            if not methods:
                continue
            draw = make_draw(problem, n, seed)
            path = self.scratch / "draw.npz"
            draw.save(path)
            for method in methods:
                record = {
                    "problem": problem,
                    "n": n,
                    "seed": seed,
                    "method": method.key,
                    **self.measure(method, draw, path, problem),
                }
                self.results.add(record)
                self._account(problem, n, method.key, record)
            path.unlink()
        print(f"{problem}, n = {n:,}: done", file=sys.stderr, flush=True)

    def measure(self, method: Method, draw: Draw, path: Path, problem: str) -> dict[str, Any]:
        """Time and error of one call, after a call on a small draw that imports and compiles."""
        if method.library == "naive":
            return {"seconds": 0.0, "cpu": 0.0, "error": draw.errors(np.ones(draw.source.size))}
        library = self.found[method.library]
        warmed = method.key if method.library != "unskew" else f"{method.key} {problem}"
        if library.process is None or (library.name, warmed) not in library.warm:
            small = self.scratch / "small.npz"
            make_draw(problem, 500, 10_000).save(small)
            library.ask(method.key, small, self.limit)
            library.warm.add((library.name, warmed))
        answer, weight = library.ask(method.key, path, self.limit)
        if method.library == "unskew":
            answer["commit"] = self.commit
        if weight is None:
            return answer
        if (
            weight.shape != draw.source.shape
            or not np.all(np.isfinite(weight))
            or not weight.sum() > 0
        ):
            return {
                "raised": "unusable weights",
                "message": f"shape {weight.shape}, {np.isfinite(weight).mean():.3f} of them finite",
            }
        return answer | {"error": draw.errors(weight)}

    def _wanted(self, problem: str, n: int, seed: int, method: Method) -> bool:
        if (method.library not in self.found and method.library != "naive") or (
            self.only and method.key not in self.only
        ):
            return False
        if n > method.largest or n >= self.stopped.get((problem, method.key), sys.maxsize):
            return False
        if (problem, n, seed, method.key) in self.results.records:
            return False
        budget = self.budget or 60.0 * MINUTES.get(n, 1.0)
        # Rows of ours that are judged get every draw.
        return (
            method.key in JUDGED
            or seed < method.draws
            or self.spent[problem, n, method.key] < budget
        )

    def _account(self, problem: str, n: int, method: str, record: dict[str, Any]) -> None:
        self.spent[problem, n, method] += record.get("seconds", 0.0)
        if "timeout" in record or "died" in record or "raised" in record:
            self.stopped[problem, method] = min(n, self.stopped.get((problem, method), sys.maxsize))


def make_draw(problem: str, n: int, seed: int) -> Draw:
    return PROBLEMS[problem].draw(
        n, np.random.default_rng([list(PROBLEMS).index(problem), n, seed])
    )


def check_directions(bench: Bench, n: int = 2000) -> None:
    """Do the weights follow p_target/p_pool, or its inverse? On a pool and a target whose ratio is
    known in closed form.
    """
    draw, log_ratio = analytic_ratio(n, seed=0)
    (theta_d, _) = draw.truth["means"]
    path = bench.scratch / "direction.npz"
    draw.save(path)
    available = {}
    for method in (*OURS, *PEERS):
        if method.given != "sample" or method.library not in bench.found:
            continue
        _, weight = bench.found[method.library].ask(method.key, path, bench.limit)
        if weight is not None and np.all(np.isfinite(weight)):
            moved = float(weight @ draw.features @ theta_d / weight.sum() / (theta_d @ theta_d))
            rank = float(
                np.corrcoef(np.argsort(np.argsort(weight)), np.argsort(np.argsort(log_ratio)))[0, 1]
            )
            available[method.key] = {"moved": moved, "rank": rank}
    ratio = np.exp(log_ratio)
    available["truth"] = {
        "moved": float(ratio @ draw.features @ theta_d / ratio.sum() / (theta_d @ theta_d)),
        "rank": 1.0,
    }
    bench.results.add({"fact": "directions", "value": available})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--problems",
        action="append",
        choices=list(PROBLEMS),
        help="run this problem only; may be repeated",
    )
    parser.add_argument("--methods", nargs="+", choices=list(BY_KEY), help="run these methods only")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="pool sizes")
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help="draws for each problem and size (default 50)"
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds that one call may take (default 60)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        help="seconds for a peer on one problem and size, beyond 5 draws (default 60; 120 at 10⁶)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep the results that are there and add to them"
    )
    parser.add_argument(
        "--again",
        nargs="+",
        default=[],
        choices=list(BY_KEY),
        help="with --resume: measure these methods again",
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the page from the results that are there; measure nothing",
    )
    parser.add_argument("--results", type=Path, default=CACHE / "weights.jsonl")
    parser.add_argument(
        "--output",
        type=Path,
        help="where to write the page (default docs/weights-performance.md, for a full run)",
    )
    options = parser.parse_args()
    results = Results(options.results, options.resume or options.page, options.again)
    if not options.page:
        measure(options, results)
    partial = (
        options.problems is not None
        or options.sizes != list(SIZES)
        or options.seeds != SEEDS
        or options.methods is not None
    )
    output = options.output or (PAGE if options.page or not partial else None)
    if output is not None:
        write_page(output, page(results.records, results.facts, results.commands))


def _command(words: list[str]) -> str:
    """The call as the page shows it, without the paths of files."""
    paths = {
        at + more
        for at, word in enumerate(words)
        if word in ("--results", "--output")
        for more in (0, 1)
    }
    return shlex.join(
        [
            "python",
            "benchmarks/weights.py",
            *(word for at, word in enumerate(words) if at not in paths),
        ]
    )


def measure(options: argparse.Namespace, results: Results) -> None:
    available, missing = libraries(("skada", "adapt", "balance"))
    results.add({"fact": "missing", "value": missing})
    results.add({"fact": "command", "value": _command(sys.argv[1:])})
    with tempfile.TemporaryDirectory(prefix="unskew-weights-") as scratch:
        bench = Bench(
            available, results, options.limit, options.budget, Path(scratch), options.methods
        )
        try:
            if "directions" not in results.facts:
                check_directions(bench)
            for n in options.sizes:
                for problem in options.problems or PROBLEMS:
                    bench.run(problem, n, range(options.seeds))
                versions = {
                    name: library.versions
                    for name, library in available.items()
                    if library.versions
                }
                results.add(
                    {"fact": "versions", "value": {**results.facts.get("versions", {}), **versions}}
                )
        finally:
            for library in available.values():
                library.stop()


if __name__ == "__main__":
    main()
