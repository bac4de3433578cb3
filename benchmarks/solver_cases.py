"""The cases of the table: which input, which solvers, which bar. Each function yields finished
rows.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solver_inputs import GAMMAS
from solver_table import Row, error_text, megabytes_text, outcome_text, peer_text, seconds_text

MBAR_PEERS = ("pymbar_numpy", "pymbar_jax", "fastmbar_newton", "fastmbar_lbfgs")
WORKER = Path(__file__).with_name("solver_worker.py")
MEGABYTE = 1_000_000


@dataclass
class Bench:
    """Runs tasks in processes of their own; knows the sizes (``quick``: small) and the time limit
    for a peer.
    """

    scratch: Path
    quick: bool
    limit: float
    read_by: set[str] = field(default_factory=set)

    def size(self, n: int) -> int:
        return n // 50 if self.quick else n

    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def make(self, maker: str, reference: str | None, **options: Any) -> Path:
        """A folder with the input and its reference solution."""
        folder = self.folder()
        result = self.run(
            folder,
            "make",
            threads=2,
            limit=math.inf,
            maker=maker,
            options=options,
            reference=reference,
        )
        if "died" in result:
            raise RuntimeError(f"could not make the input {maker} {options}: {result['died']}")
        return folder

    def run(
        self, folder: Path, task: str, threads: int = 1, limit: float | None = None, **options: Any
    ) -> dict[str, Any]:
        """One task; a process that outlives the limit, or dies, gives a result that says so."""
        limit = self.limit if limit is None else limit
        print(f"  {task} {folder.name} {options}", file=sys.stderr, flush=True)
        question, answer = self.folder() / "task.json", self.folder() / "result.json"
        question.write_text(json.dumps({"task": task, "folder": str(folder), **options}))
        process = subprocess.Popen(
            [sys.executable, str(WORKER), str(question), str(answer)],
            env=_environment(threads),
            preexec_fn=lambda: _confine(threads),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, complaint = process.communicate(timeout=None if math.isinf(limit) else limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"timeout": limit}
        if not answer.exists():
            return {"died": f"exit code {process.returncode}", "complaint": complaint[-2000:]}
        result: dict[str, Any] = json.loads(answer.read_text())
        print(f"    {result}", file=sys.stderr, flush=True)
        return result

    def time_unskew(self, folder: Path, row: Row, unit: str = "reads") -> dict[str, Any]:
        """Time unskew with one thread and with two, and fill the cells that every case has."""
        one = self.run(folder, "time", peer="unskew")
        row.cells["unskew"] = row.cells["error"] = _failure(one)
        row.conditions["unskew solves it"] = "seconds" in one
        if "seconds" not in one:
            return one
        two = self.run(folder, "time", threads=2, peer="unskew_two_threads")
        row.cells |= {"unskew": seconds_text(one["seconds"]), "error": error_text(one["error"])}
        row.cells["unskew_two_threads"] = (
            f"{seconds_text(two['seconds'])} ({one['seconds'] / two['seconds']:.1f} × faster)"
            if "seconds" in two
            else _failure(two)
        )
        if "read" in one:
            row.cells["reads"] = _in_reads(one)
            if unit == "reads":
                self.read_by.add(one["read_by"])
            else:
                gradient = one["reads"]["SciPy gradient"]
                row.cells["reads"] += (
                    f"; in gradients by SciPy: {one['seconds'] / gradient:.1f} × "
                    f"{seconds_text(gradient)}"
                )
        return one

    def time_peers(
        self,
        folder: Path,
        row: Row,
        peers: tuple[str, ...],
        ours: float | None,
        limit: float = math.inf,
    ) -> dict[str, dict[str, Any]]:
        """Time the peers and fill their cells."""
        results = {
            peer: self.run(folder, "time", limit=min(limit, self.limit), peer=peer)
            for peer in peers
        }
        row.cells |= {peer: peer_text(result, ours) for peer, result in results.items()}
        return results


def _environment(threads: int) -> dict[str, str]:
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(limits, str(threads)), "JAX_PLATFORMS": "cpu"}


def _confine(threads: int) -> None:
    """One thread means one core: JAX has no switch that is kept. Memory is limited, so that a peer
    fails and not the machine.
    """
    if threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    limit = int(0.85 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _in_reads(result: dict[str, Any]) -> str:
    return f"{result['seconds'] / result['read']:.1f} × {seconds_text(result['read'])}"


def _failure(result: dict[str, Any]) -> str:
    return peer_text(result, None) if "seconds" not in result else ""


def _at_least(results: dict[str, dict[str, Any]], peer: str, factor: float, ours: float) -> bool:
    """Was the peer ``factor`` times slower than ``ours``? A peer that failed, of memory or time,
    was.
    """
    result = results[peer]
    return result.get("seconds", result.get("timeout", math.inf)) >= factor * ours


def classes(bench: Bench) -> Iterator[Row]:
    """The article's 4.2, from a random start."""
    for estimated in (True, False):
        for gamma in GAMMAS:
            row = Row(
                f"classes, γ = {gamma}, {'ω̂' if estimated else 'true ω'}; n = 50,000, K = 5",
                "1e-9; ≤ 25 reads; ≥ 500 × faster than the article's SGD",
            )
            folder = bench.make("classes", "mpmath", n=50_000, gamma=gamma, estimated=estimated)
            one = bench.time_unskew(folder, row)
            ours = one.get("seconds")
            cold = bench.run(folder, "time", peer="unskew", cold=True)
            if "seconds" in cold:
                row.cells["reads"] = f"{_in_reads(cold)}; all in cache: {row.cells['reads']}"
            results = bench.time_peers(folder, row, (*MBAR_PEERS, "article_sgd"), ours)
            seeds = list(range(1, 3 if bench.quick else 11))
            spread = {
                peer: bench.run(folder, "average_error", peer=peer, seeds=seeds)
                for peer in ("article_sgd", "unskew_sgd")
            }
            results["article_sgd"]["error"] = spread["article_sgd"]["error"]
            own = bench.run(folder, "time", peer="unskew_sgd")
            own["error"] = spread["unskew_sgd"].get("error")
            row.cells["article_sgd"] = (
                f'{peer_text(results["article_sgd"], ours)}; as `method="sgd"`: '
                f"{peer_text(own, ours)}"
            )
            if ours is not None:
                row.conditions |= {
                    "1e-9": one["error"] <= 1e-9,
                    "25 reads": cold["seconds"] <= 25 * cold["read"],
                    "500 ×": _at_least(results, "article_sgd", 500, ours),
                }
            yield row


def dense_10(bench: Bench) -> Iterator[Row]:
    """Gaussian tilts, K = 10."""
    n = bench.size(1_000_000)
    row = Row(
        f"dense, n = {n:,}, K = 10",
        "≤ 20 reads; ≥ 100 × pymbar (NumPy), ≥ 50 × FastMBAR Newton; memory ≤ 4 vectors of length "
        "n + 64 MB",
    )
    folder = bench.make("tilts", "newton", n=n, n_sources=10)
    one = bench.time_unskew(folder, row)
    ours = one.get("seconds")
    results = bench.time_peers(folder, row, (*MBAR_PEERS, "article_sgd"), ours)
    grown = _memory(bench, folder, row, on_disk=False)
    if ours is not None:
        row.conditions |= {
            "20 reads": ours <= 20 * one["read"],
            "100 × pymbar": _at_least(results, "pymbar_numpy", 100, ours),
            "50 × FastMBAR": _at_least(results, "fastmbar_newton", 50, ours),
            "memory": grown <= 4 * 8 * n + 64 * MEGABYTE,
        }
    yield row


def _memory(bench: Bench, folder: Path, row: Row, on_disk: bool) -> float:
    """Measure the extra memory of the public call and fill its cell."""
    warm_up = bench.make("disk" if on_disk else "tilts", None, n=2_000, n_sources=10)
    result = bench.run(folder, "memory", peer="unskew", warm_up=str(warm_up), on_disk=on_disk)
    grown = float(result.get("bytes", math.inf))
    row.cells["memory"] = megabytes_text(grown) if "bytes" in result else _failure(result)
    if on_disk and "bytes" in result:
        row.cells["unskew"] += f"; from a cold disk {seconds_text(result['seconds'])}"
    return grown


def dense_100(bench: Bench) -> Iterator[Row]:
    """Gaussian tilts, K = 100."""
    n = bench.size(1_000_000)
    row = Row(f"dense, n = {n:,}, K = 100", "≤ 20 reads")
    folder = bench.make("tilts", "newton", n=n, n_sources=100)
    one = bench.time_unskew(folder, row)
    bench.time_peers(folder, row, (*MBAR_PEERS, "article_sgd"), one.get("seconds"))
    _memory(bench, folder, row, on_disk=False)
    if "seconds" in one:
        row.conditions["20 reads"] = one["seconds"] <= 20 * one["read"]
    yield row


def sparse(bench: Bench) -> Iterator[Row]:
    """A chain of 1,000 sources; then a tenth of the rows, where the peers' dense matrix fits into
    memory.
    """
    for n, judged in ((bench.size(1_000_000), True), (bench.size(100_000), False)):
        n_sources = 100 if bench.quick else 1_000
        row = Row(
            f"sparse, n = {n:,}, K = {n_sources:,}, 5 non-zeros a row, chained",
            "≤ 15 sweeps; 1e-9" if judged else "(none: for the peers)",
        )
        folder = bench.make("chain", "newton", n=n, n_sources=n_sources)
        one = bench.time_unskew(folder, row, "sweeps")
        bench.time_peers(
            folder,
            row,
            (*MBAR_PEERS, "article_sgd"),
            one.get("seconds"),
            limit=math.inf if judged else 300,
        )
        if not judged:
            row.conditions.clear()
        elif "seconds" in one:
            row.conditions |= {
                "15 sweeps": one["seconds"] <= 15 * one["read"],
                "1e-9": one["error"] <= 1e-9,
            }
        yield row


def disk(bench: Bench) -> Iterator[Row]:
    """float32 on disk, ten times as many rows as in memory."""
    n, n_memory = bench.size(10_000_000), bench.size(1_000_000)
    row = Row(
        f"n = {n:,}, K = 10, float32 on disk (memory map)",
        f"RssAnon grows by < 300 MB; time per row ≤ 2 × that of n = {n_memory:,} in memory",
    )
    in_memory = bench.run(
        bench.make("tilts", None, n=n_memory, n_sources=10), "time", peer="unskew"
    )
    folder = bench.make("disk", "newton", n=n, n_sources=10)
    one = bench.run(folder, "time", peer="unskew", on_disk=True)
    two = bench.run(folder, "time", threads=2, peer="unskew_two_threads", on_disk=True)
    row.cells = {
        "unskew": _failure(one),
        "unskew_two_threads": seconds_text(two["seconds"]) if "seconds" in two else _failure(two),
    }
    if "seconds" in one and "seconds" in in_memory:
        per_row = (one["seconds"] / n) / (in_memory["seconds"] / n_memory)
        row.cells |= {
            "unskew": f"{seconds_text(one['seconds'])}, per row {per_row:.2f} × in memory",
            "error": error_text(one["error"]),
        }
        row.conditions["2 × per row"] = per_row <= 2
    row.conditions["unskew solves it"] = "seconds" in one
    row.conditions["300 MB"] = _memory(bench, folder, row, on_disk=True) < 300 * MEGABYTE
    yield row


def weak(bench: Bench) -> Iterator[Row]:
    """Two groups of sources that overlap well within and hardly across."""
    for mass in (1e-6, 1e-12):
        yield _weak_row(
            bench,
            mass,
            "8 distinct rows, n = 100,000",
            [bench.make("weak_patterns", "mpmath", n=100_000, mass=mass)],
        )
        large = 2_000 if bench.quick else 50_000
        yield _weak_row(
            bench,
            mass,
            f"n = {large:,}, all rows different",
            [bench.make("weak_random", "mpmath", n=large, mass=mass, seed=99)],
        )
        folders = [
            bench.make("weak_random", "mpmath", n=2_000, mass=mass, seed=seed)
            for seed in range(2 if bench.quick else 10)
        ]
        yield _weak_row(
            bench,
            mass,
            f"n = 2,000, all rows different, the worst of {len(folders)} inputs",
            folders,
        )


def _weak_row(bench: Bench, mass: float, title: str, folders: list[Path]) -> Row:
    bar = (
        "error ≤ 1e-7"
        if mass == 1e-6
        else '"weak", and an error estimate right within a factor 10 (or error and estimate ≤ '
        "1e-7, as for 1e-6)"
    )
    row = Row(f"two groups, overlap mass {mass:.0e}; {title}", bar)
    results = [bench.run(folder, "weak") for folder in folders]
    row.conditions["unskew answers"] = all("error" in result for result in results)
    row.cells = {
        peer: outcome_text(bench.run(folders[0], "try", limit=60, peer=peer), True)
        for peer in (*MBAR_PEERS, "article_sgd")
    }
    if not row.conditions["unskew answers"]:
        row.cells["unskew"] = "; ".join(sorted({_failure(result) for result in results}))
        return row
    worst = max(results, key=lambda result: result["error"])
    ratios = [result["estimate"] / max(result["error"], result["resolution"]) for result in results]
    says_weak = all(result["says_weak"] for result in results)
    statuses = "/".join(sorted({result["status"] for result in results}))
    row.cells["unskew"] = (
        f"{statuses}, {'weak' if says_weak else 'not called weak'}, "
        f"{seconds_text(worst['seconds'])}"
    )
    row.cells["error"] = (
        f"{error_text(worst['error'])}; estimate/error {min(ratios):.1g} … {max(ratios):.1g}"
    )
    if mass == 1e-6:
        row.conditions["1e-7"] = worst["error"] <= 1e-7
    else:
        within = all(0.1 <= ratio <= 10 for ratio in ratios)
        accurate = all(max(result["error"], result["estimate"]) <= 1e-7 for result in results)
        row.conditions |= {"weak": says_weak, "estimate within a factor 10": within or accurate}
    return row


def bad(bench: Bench) -> Iterator[Row]:
    """Inputs without an answer, and inputs that overflow naive arithmetic."""
    titles = {
        "disconnected": "disconnected sources",
        "one-way": "one-way graph",
        "zero-row": "a row that is zero everywhere",
        "rows": "rows of ω × 1e±300",
        "columns": "columns of ω × 1e±300",
    }
    for kind, title in titles.items():
        has_answer = kind in ("rows", "columns")
        folder = bench.make("bad", "mpmath" if has_answer else None, kind=kind)
        row = Row(title, "the right answer" if has_answer else "typed error")
        ours = bench.run(folder, "try", limit=60, peer="unskew")
        row.cells = {
            peer: outcome_text(bench.run(folder, "try", limit=60, peer=peer), has_answer)
            for peer in (*MBAR_PEERS, "article_sgd")
        }
        row.cells["unskew"] = outcome_text(ours, has_answer)
        row.conditions["answer" if has_answer else "typed error"] = (
            ours.get("error", 1.0) <= 1e-8 if has_answer else ours.get("ours", False)
        )
        yield row


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "classes": classes,
    "dense10": dense_10,
    "dense100": dense_100,
    "sparse": sparse,
    "disk": disk,
    "weak": weak,
    "bad": bad,
}
