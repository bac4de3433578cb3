"""The rows of the table, how their cells are written, and the page around them."""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COLUMNS = {
    "unskew": "unskew, 1 thread",
    "reads": "in reads (sparse: sweeps)",
    "unskew_two_threads": "unskew, 2 threads",
    "error": "error of log W",
    "memory": "extra memory",
    "pymbar_numpy": "pymbar, NumPy",
    "pymbar_jax": "pymbar, JAX",
    "fastmbar_newton": "FastMBAR, Newton",
    "fastmbar_lbfgs": "FastMBAR, L-BFGS",
    "article_sgd": "the article's SGD",
}
PACKAGES = ("numpy", "scipy", "numba", "pymbar", "jax", "jaxlib", "FastMBAR", "torch", "mpmath")


@dataclass
class Row:
    """One line of the table: what was asked, what was measured, and whether each part of the bar
    was met.
    """

    case: str
    bar: str
    cells: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, bool] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``yes``, or which parts of the bar were missed; a dash where no bar is set."""
        missed = [text for text, met in self.conditions.items() if not met]
        if missed:
            return "**no**: " + "; ".join(missed)
        return "yes" if self.conditions else "–"


def seconds_text(seconds: float) -> str:
    """Three significant digits with a unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1.0:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"


def megabytes_text(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def error_text(error: float | None) -> str:
    if error is None:
        return "–"
    return f"{error:.0e}" if error < 0.1 else f"{error:.2g}"


def peer_text(result: Mapping[str, Any], ours: float | None) -> str:
    """Time, how many times ours that is, and the error; or why there is no time."""
    if "timeout" in result:
        return f"> {seconds_text(result['timeout'])} (stopped)" + (
            f", > {result['timeout'] / ours:.0f} ×" if ours else ""
        )
    if "died" in result:
        return f"died ({result['died']})"
    if "raised" in result:
        memory = any(
            word in result["message"].lower()
            for word in ("allocate", "memory", "resource_exhausted")
        )
        return "out of memory" if memory else f"`{result['raised']}`"
    ratio = f" ({_round(result['seconds'] / ours)} ×)" if ours else ""
    error = result["error"]
    return f"{seconds_text(result['seconds'])}{ratio}, " + (
        "NaN" if error is None or math.isnan(error) else f"error {error_text(error)}"
    )


def _round(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def outcome_text(result: Mapping[str, Any], has_answer: bool, tolerance: float = 1e-6) -> str:
    """What a solver did with an input that has no answer, or one that is hard to compute."""
    if "timeout" in result:
        return f"hangs (> {seconds_text(result['timeout'])})"
    if "died" in result:
        return f"died ({result['died']})"
    if "raised" in result:
        return f"`{result['raised']}`"
    warned = ", with a warning" if result["messages"] else ""
    if not result["finite"]:
        return "NaN" + warned
    if has_answer and result["error"] <= 0.1:
        return (
            f"{'right' if result['error'] <= tolerance else 'inexact'} "
            f"({error_text(result['error'])})"
        )
    return (
        "finite nonsense"
        + (f" (error {error_text(result['error'])})" if has_answer else "")
        + warned
    )


def markdown(rows: Sequence[Row]) -> str:
    """The one table."""
    lines = [
        "| " + " | ".join(["case", "bar", *COLUMNS.values(), "bar met"]) + " |",
        "|" + "---|" * (len(COLUMNS) + 3),
    ]
    for row in rows:
        lines.append(
            "| "
            + " | ".join(
                [row.case, row.bar, *(row.cells.get(key, "") for key in COLUMNS), row.verdict]
            )
            + " |"
        )
    return "\n".join(lines)


def machine_facts() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        "unknown processor",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()} "
        f"{platform.machine()}"
    )


def commit_facts() -> str:
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=here, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src", ".", ":!results")
    return git("rev-parse", "--short=12", "HEAD") + (" with uncommitted changes" if changed else "")


def page(rows: Sequence[Row], read_by: str, command: str, minutes: float) -> str:
    """docs/performance.md."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    verdicts = [row.verdict for row in rows if row.conditions]
    return f"""# Performance of the solvers

**{verdicts.count("yes")} of {len(verdicts)} cases meet their bar.** Read this page to see how fast
and how exact `solve_normalizers` is compared with pymbar, FastMBAR and the article's SGD, and what
each of them answers where the sources have no link.

{markdown(rows)}

How to read it:

- *unskew* is the public call `solve_normalizers`, with validation, overlap check and scaling, on
  row-major float64 (or as the case says). Every solver runs in its own process; with one thread,
  that process is confined to one core. The time is that of the best call, after one call that
  compiles; inputs that another package needs in a different form (−log ω, transposed) are prepared
  before its clock starts. The number in brackets says how many times longer than unskew it took.
- *In reads*: the time divided by that of one plain one-thread read of the matrix, taken in turn
  with the calls ({read_by}: the fastest of the plain NumPy reads that touch every byte). The matrix
  of the *classes* fits into the processor's cache: the first number there, which the bar is about,
  is for calls and reads that both begin with emptied caches, as the other cases do by their size;
  the second is for both from cache. For sparse ω a *sweep*, which the bar is about, is value,
  gradient and Hessian at one point by a fused compiled loop, as one Newton step needs; the second
  number divides by the cheaper gradient alone by SciPy, s = ωa, g = ωᵀ(1/s).
- *Error of log W*: largest error of log(Ω_k/Ω_K) against an independent reference: Newton with
  80-bit gradients, or mpmath with 50 digits. An error that the reference, itself rounded to double
  precision, cannot resolve counts as that resolution in *estimate/error*.
- *Extra memory*: growth of the anonymous resident memory (RssAnon) of the process during the call,
  the input already loaded or mapped.
- *The article's SGD*: 4000 steps, batch 100, learning rate 1e-2, momentum 0.9, in torch; in the
  *classes*, its error is the mean over sources and ten random starts.

Written by `{command}`; do not edit by hand. One run, {minutes:.0f} minutes, every solver on the
same inputs.

- Machine: {machine_facts()}
- Versions: Python {platform.python_version()}, {versions}
- Commit: {commit_facts()}
- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}
"""


def write_page(path: Path, text: str) -> None:
    """Write a temporary file, then rename it: a killed run leaves the old page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
