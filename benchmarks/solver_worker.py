"""One measurement in a process of its own: ``python solver_worker.py TASK.json RESULT.json``.

A process of its own because thread limits, JAX, and peak memory belong to a process, and because a
peer may hang or die.
"""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from solver_inputs import MAKERS, Problem, load_problem
from solver_peers import PEERS
from solver_reference import solve_mpmath, solve_reference

SECONDS = 3.0  # calls are repeated for about so long
SLOW = 2.0  # a call longer than this is timed once, after the one that compiles
LONG = 30.0  # a call longer than this is not repeated at all


def make(
    folder: Path, maker: str, options: dict[str, Any], reference: str | None
) -> dict[str, Any]:
    """Write the input and, where there is an answer, the reference solution."""
    MAKERS[maker](folder, **options)
    if reference is not None:
        problem = load_problem(folder, on_disk=reference == "newton")
        np.save(
            folder / "reference.npy",
            solve_mpmath(problem) if reference == "mpmath" else solve_reference(problem),
        )
    return {}


def reads(problem: Problem) -> dict[str, Callable[[], object]]:
    """Plain one-thread reads of ω: of a dense matrix every byte once.

    Of a sparse one, a sweep: value, gradient and Hessian at one point, fused and compiled (what a
    Newton step needs); and, cheaper, the gradient alone by SciPy, s = ωa, g = ωᵀ(1/s).
    """
    omega = problem.omega
    if sp.issparse(omega):
        from unskew.engine.row_blocks import open_reader
        from unskew.solve.objective import evaluate
        from unskew.solve.omega_rows import Rows

        a = np.ones(omega.shape[1])
        rows = Rows(
            reader=open_reader(omega),
            source_n=problem.source.astype(np.int32),
            n_sources=omega.shape[1],
            jobs=1,
        )
        return {
            "sweep": lambda: evaluate(rows, np.zeros(a.size)),
            "SciPy gradient": lambda: omega.T @ (1.0 / (omega @ a)),
        }
    flat = omega.reshape(-1)
    return {
        "omega.max()": omega.max,
        "omega.sum()": omega.sum,
        "dot(omega, omega)": lambda: flat @ flat,
    }


def _clock(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def time_peer(
    folder: Path, peer: str, seed: int = 0, on_disk: bool = False, cold: bool = False
) -> dict[str, Any]:
    """Seconds of the best call and of the best plain read, the two taken in turn, after one call
    that compiles.

    A first call of more than LONG seconds is taken as it is. With ``cold``, the processor's caches
    are emptied before every read and call.
    """
    problem = load_problem(folder, on_disk)
    solve = PEERS[peer](problem, seed)
    answer: list[np.ndarray] = []
    seconds = [_clock(lambda: answer.append(solve()))]
    plain = reads(problem) if peer.startswith("unskew") and not on_disk else {}
    read: dict[str, list[float]] = {name: [] for name in plain}
    if seconds[0] < LONG:
        seconds = []
        begin = time.perf_counter()
        while len(seconds) < 3 or (time.perf_counter() - begin < SECONDS and len(seconds) < 200):
            for name in read:
                _empty_caches(cold)
                read[name].append(_clock(plain[name]))
            _empty_caches(cold)
            seconds.append(_clock(lambda: answer.append(solve())))
            if seconds[-1] > SLOW:
                break
    result = {
        "seconds": min(seconds),
        "median": float(np.median(seconds)),
        "calls": len(seconds),
        "error": _error(folder, answer[-1]),
    }
    if read:
        result["read_by"] = (
            "sweep" if "sweep" in read else min(read, key=lambda name: min(read[name]))
        )
        result["read"] = min(read[result["read_by"]])
        result["reads"] = {name: min(times) for name, times in read.items()}
    return result


def _empty_caches(cold: bool) -> None:
    if cold:
        np.ones(8_000_000).sum()  # 64 MB, twice a large last-level cache


def _error(folder: Path, log_normalizer: np.ndarray) -> float | None:
    """Largest error of log(Ω_k/Ω_K)."""
    reference = folder / "reference.npy"
    if not reference.exists():
        return None
    return float(np.abs(log_normalizer - log_normalizer[-1] - np.load(reference)).max())


def measure_memory(folder: Path, warm_up: Path, peer: str, on_disk: bool) -> dict[str, Any]:
    """Growth of anonymous resident memory during one call, in bytes, watched every millisecond from
    another process.

    A matrix on disk is dropped from the page cache first, so that ``seconds`` is the time from a
    cold disk.
    """
    PEERS[peer](load_problem(warm_up, on_disk), 0)()
    if on_disk:
        with (folder / "omega.npy").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    problem = load_problem(folder, on_disk)
    solve = PEERS[peer](problem, 0)
    before = _anonymous(os.getpid())
    watcher = subprocess.Popen(
        [sys.executable, __file__, "--watch", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watcher.stdout is not None
    watcher.stdout.readline()
    seconds = _clock(solve)
    peak, _ = watcher.communicate()
    return {
        "bytes": int(peak) - before,
        "seconds": seconds,
        "matrix": problem.omega.nbytes if not sp.issparse(problem.omega) else None,
    }


def _anonymous(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report RssAnon")


def watch(pid: int) -> None:
    """Print the largest anonymous resident memory of ``pid`` seen until standard input closes."""
    print("watching", flush=True)
    peak = 0
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        peak = max(peak, _anonymous(pid))
    print(max(peak, _anonymous(pid)))


def try_peer(folder: Path, peer: str) -> dict[str, Any]:
    """Record what a solver does with an input: an exception, or an answer and its messages."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    solve = PEERS[peer](load_problem(folder), 0)
    logging.getLogger().addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = solve()
        except Exception as error:  # whatever a peer raises is the measurement
            return {
                "raised": type(error).__name__,
                "ours": type(error).__module__.startswith("unskew"),
                "message": str(error)[:300],
            }
    messages += [
        str(w.message)
        for w in caught
        if not issubclass(w.category, DeprecationWarning | FutureWarning)
    ]
    finite = bool(np.isfinite(answer).all())
    return {
        "finite": finite,
        "error": _error(folder, answer) if finite else None,
        "messages": [text[:200] for text in messages[:5]],
    }


def average_error(folder: Path, peer: str, seeds: list[int]) -> dict[str, Any]:
    """Mean over random starts and over k < K of the error of log(Ω_k/Ω_K)."""
    problem, reference = load_problem(folder), np.load(folder / "reference.npy")
    answers = np.array([PEERS[peer](problem, seed)() for seed in seeds])
    return {"error": float(np.abs(answers - answers[:, -1:] - reference)[:, :-1].mean())}


def weak(folder: Path) -> dict[str, Any]:
    """How unskew judges a weak link: error, its own estimate of the error, status, and whether it
    says "weak".
    """
    from unskew import check_overlap, debias_weights, solve_normalizers

    problem = load_problem(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = check_overlap(problem.omega, problem.source).verdict
        solution = solve_normalizers(problem.omega, problem.source, throw=False, jobs=1)
        after = debias_weights(problem.omega, problem.source, throw=False, jobs=1).overlap.verdict
    return {
        "seconds": _clock(
            lambda: solve_normalizers(problem.omega, problem.source, throw=False, jobs=1)
        ),
        "error": _error(folder, solution.log_normalizer),
        "estimate": float(solution.error_estimate),
        # The reference is rounded to double precision: no error below this can be seen.
        "resolution": float(np.spacing(max(1.0, np.abs(np.load(folder / "reference.npy")).max()))),
        "status": solution.status.name,
        "says_weak": "weak" in (before, after)
        or any(w.category.__name__ == "WeakOverlapWarning" for w in caught),
    }


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "make": make,
    "time": time_peer,
    "memory": measure_memory,
    "try": try_peer,
    "average_error": average_error,
    "weak": weak,
}


def main() -> None:
    if sys.argv[1] == "--watch":
        watch(int(sys.argv[2]))
        return
    task = json.loads(Path(sys.argv[1]).read_text())
    folders = {key: Path(task[key]) for key in ("folder", "warm_up") if key in task}
    options = {
        key: value for key, value in task.items() if key not in ("task", "folder", "warm_up")
    }
    try:
        result = TASKS[task["task"]](**folders, **options)
    # a peer that fails, of memory or otherwise, is a line of the table, not the end of the run
    except Exception as error:
        if task["task"] == "make":
            raise
        result = {"raised": type(error).__name__, "message": str(error)[:300]}
    Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
