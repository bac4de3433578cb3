"""Root mean square errors, the bars, and the page around them."""

from __future__ import annotations

import datetime
import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from solver_table import machine_facts, seconds_text
from weights_methods import BY_KEY, GIVEN, OURS, PEERS, Method, methods_for
from weights_problems import PROBLEMS

Key = tuple[str, int, int, str]
JUDGED = (
    "known",
    "known_shrunk",
    "strata",
    "strata_sample",
    "strata_sample_shrunk",
    "soft_box",
    "soft_box_shrunk",
    "soft_box_sample",
    "soft_box_sample_shrunk",
    "strata_source",
    "tilt",
    "tilt_shrunk",
)
# One for each problem, told no more than some peer is.
ONE_EACH = ("strata", "strata_source", "soft_box_sample_shrunk", "tilt_shrunk")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FEWEST = 5  # draws in common below which two methods are not compared
ROUNDING = 1e-6  # relative: two computations of the same weights tie


@dataclass
class Cell:
    """One method on one problem and size: square errors and seconds by seed, or why there are
    none.
    """

    error: dict[int, float]
    cpu: dict[int, float]
    failure: str = ""

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.mean(list(self.error.values()))))

    @property
    def seconds(self) -> float:
        return float(np.median(list(self.cpu.values())))

    @property
    def text(self) -> str:
        if not self.error:
            return self.failure
        note = f"; then {self.failure}" if self.failure else ""
        return f"{self.rmse:.4f} · {seconds_text(self.seconds)} · {len(self.error)}{note}"


def gather(records: Mapping[Key, Mapping[str, Any]]) -> dict[tuple[str, int], dict[str, Cell]]:
    """Cells by problem and size, then by method."""
    cells: defaultdict[tuple[str, int], dict[str, Cell]] = defaultdict(dict)
    for (problem, n, seed, method), record in records.items():
        cell = cells[problem, n].setdefault(method, Cell({}, {}))
        if "error" in record:
            cell.error[seed], cell.cpu[seed] = record["error"]["all"], record["cpu"]
        elif "timeout" in record:
            cell.failure = f"> {record['timeout']:.0f} s (stopped)"
        elif "died" in record:
            cell.failure = f"died ({record['died']})"
        else:
            cell.failure = f"`{record['raised']}`"
    return cells


@dataclass
class Comparison:
    """Ours against one other on the draws that both have: is it better, comparable or worse, within
    two standard errors?
    """

    mean: float
    stderr: float
    scale: float  # the other's mean square error on the draws in common
    draws: int

    @property
    def ours_within(self) -> bool:
        return self.mean <= 2.0 * self.stderr + ROUNDING * self.scale

    @property
    def ours_best(self) -> bool:
        return self.mean <= ROUNDING * self.scale

    @property
    def other_comparable(self) -> bool:
        return -self.mean <= 2.0 * self.stderr + ROUNDING * self.scale


def compare(ours: Cell, other: Cell) -> Comparison | None:
    """Mean and standard error of the paired differences of square errors; None with too few draws
    in common.
    """
    seeds = sorted(ours.error.keys() & other.error.keys())
    if len(seeds) < FEWEST:
        return None
    difference = np.array([ours.error[seed] - other.error[seed] for seed in seeds])
    scale = float(np.mean([other.error[seed] for seed in seeds]))
    return Comparison(
        float(difference.mean()),
        float(difference.std(ddof=1) / np.sqrt(difference.size)),
        scale,
        len(seeds),
    )


def rivals(problem: str, ours: Method, cells: Mapping[str, Cell]) -> dict[str, Comparison]:
    """Peers with results, except those that are told the target's margin where ours is not."""
    peers = {}
    for method in methods_for(PROBLEMS[problem]):
        if (
            method.library == "unskew"
            or method.key not in cells
            or (method.given == "margin" and ours.given != "margin")
        ):
            continue
        comparison = compare(cells[ours.key], cells[method.key])
        if comparison is not None:
            peers[method.key] = comparison
    return peers


@dataclass
class Verdict:
    """One line of the table of bars."""

    problem: str
    n: int
    ours: Method
    cell: Cell
    best: str
    against: Comparison
    within: bool
    is_best: bool
    fastest: str
    fastest_cell: Cell | None
    faster: bool

    @property
    def met(self) -> bool:
        return self.within and self.faster

    @property
    def _best_text(self) -> str:
        """Both errors on the draws in common: the best peer's, and in brackets ours."""
        ours, other = np.sqrt(self.against.scale + self.against.mean), np.sqrt(self.against.scale)
        part = (
            ""
            if self.against.draws == len(self.cell.error)
            else f" (ours {ours:.4f}) on {self.against.draws} draws"
        )
        return f"{BY_KEY[self.best].title}: {other:.4f}{part}"

    @property
    def line(self) -> str:
        missed = [] if self.within else ["error"]
        missed += [] if self.faster else ["time"]
        fastest = (
            "none"
            if self.fastest_cell is None
            else f"{BY_KEY[self.fastest].title}: {seconds_text(self.fastest_cell.seconds)}"
        )
        cells = [
            self.problem,
            f"{self.n:,}",
            str(len(self.cell.error)),
            self.ours.title,
            f"{self.cell.rmse:.4f}",
            self._best_text,
            "yes" if self.is_best else "no",
            seconds_text(self.cell.seconds),
            fastest,
            "yes" if not missed else "**no**: " + ", ".join(missed),
        ]
        return "| " + " | ".join(cells) + " |"


def judge(cells: Mapping[tuple[str, int], Mapping[str, Cell]]) -> list[Verdict]:
    """The bars: within two standard errors of the best, and no slower than the fastest peer of
    comparable error.
    """
    verdicts = []
    for (problem, n), by_method in sorted(
        cells.items(), key=lambda item: (list(PROBLEMS).index(item[0][0]), item[0][1])
    ):
        for method in OURS:
            cell = by_method.get(method.key)
            if method.key not in JUDGED or cell is None or not cell.error:
                continue
            others = rivals(problem, method, by_method)
            if not others:
                continue
            best = min(
                others, key=lambda key: others[key].scale / (others[key].scale + others[key].mean)
            )
            comparable = [
                key for key, value in others.items() if value.other_comparable and key != "naive"
            ]
            fastest = min(comparable, key=lambda key: by_method[key].seconds, default="")
            verdicts.append(
                Verdict(
                    problem,
                    n,
                    method,
                    cell,
                    best,
                    others[best],
                    within=all(value.ours_within for value in others.values()),
                    is_best=all(value.ours_best for value in others.values()),
                    fastest=fastest,
                    fastest_cell=by_method[fastest] if fastest else None,
                    faster=not fastest or cell.seconds <= by_method[fastest].seconds,
                )
            )
    return verdicts


def _problem_table(problem: str, cells: Mapping[tuple[str, int], Mapping[str, Cell]]) -> str:
    sizes = sorted(n for name, n in cells if name == problem)
    lines = [
        "| method | given | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "|" + "---|" * (len(sizes) + 2),
    ]
    for method in methods_for(PROBLEMS[problem]):
        texts = []
        stopped = ""
        for n in sizes:
            cell = cells[problem, n].get(method.key)
            if cell is not None:
                texts.append(cell.text)
                stopped = stopped or (f"not tried ({cell.failure} before)" if cell.failure else "")
            elif n > method.largest:
                texts.append(f"not tried: {method.reason}")
            else:
                texts.append(stopped or "–")
        lines.append(f"| {method.title} | {GIVEN[method.given]} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _direction_table(directions: Mapping[str, Mapping[str, float]]) -> str:
    lines = [
        "| method | weighted mean, along θ (truth 1, pool 0) | rank correlation with "
        "p_target/p_pool | direction |",
        "|---|---|---|---|",
    ]
    for key in ("truth", *(method.key for method in (*OURS, *PEERS))):
        if key not in directions:
            continue
        moved, rank = directions[key]["moved"], directions[key]["rank"]
        verdict = _direction(moved, rank)
        lines.append(
            f"| {'the true ratio' if key == 'truth' else BY_KEY[key].title} | {moved:.2f} | "
            f"{rank:.2f} | {verdict} |"
        )
    return "\n".join(lines)


def _direction(moved: float, rank: float) -> str:
    if moved > 0.7:
        return "right"
    if moved > 0.25:
        return "right, but half way only"
    return "**inverse ratio**" if rank < -0.5 else "**none**"


def _versions(versions: Mapping[str, Mapping[str, str]]) -> str:
    return "\n".join(
        f"- {name}: " + ", ".join(f"{part} {text}" for part, text in parts.items())
        for name, parts in versions.items()
    )


def _commits(records: Mapping[Key, Mapping[str, Any]]) -> str:
    commits = {record["commit"] for record in records.values() if "commit" in record}
    return ", ".join(sorted(commits)) or "not recorded"


def _not_run(cells: Mapping[tuple[str, int], Mapping[str, Cell]]) -> str:
    lacking = [f"{name} at {n:,}" for n in SIZES for name in PROBLEMS if (name, n) not in cells]
    return f" Not run yet: {'; '.join(lacking)}." if lacking else ""


def _not(missed: Sequence[str]) -> str:
    return f" (not: {'; '.join(missed)})" if missed else ""


def _summary(verdicts: Sequence[Verdict]) -> str:
    untold = [verdict for verdict in verdicts if verdict.ours.given != "omega"]
    one_each = [verdict for verdict in verdicts if verdict.ours.key in ONE_EACH]
    titles = "; ".join(BY_KEY[key].title.removeprefix("unskew, ") for key in ONE_EACH)
    return (
        f"**Of {len(verdicts)} rows of unskew {sum(v.within for v in verdicts)} are within two "
        f"standard errors of the best, {sum(v.is_best for v in verdicts)} are the best (or tied), "
        f"and {sum(v.faster for v in verdicts)} are no slower than the fastest peer of comparable "
        "error.** Read this page to see how far the weights of unskew and of other packages are "
        "from the truth on the same draws, and what they cost.\n\n"
        f"All rows: {_by_problem(verdicts)}\n\nWithout the rows that are told ω, which no peer "
        f"could use: {_by_problem(untold)}\n\n"
        f"One row for each problem, the same at every size ({titles}): {_by_problem(one_each)}"
    )


def _by_problem(verdicts: Sequence[Verdict]) -> str:
    """How often one row of ours at least meets each part of the bar, by problem and size."""
    cases: defaultdict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        cases[verdict.problem, verdict.n].append(verdict)
    missed = [
        f"{problem} at {n:,}"
        for (problem, n), rows in cases.items()
        if not any(row.met for row in rows)
    ]
    return (
        f"of {len(cases)} problems and sizes one row of ours at least meets the whole bar in "
        f"{len(cases) - len(missed)}"
        f"{_not(missed)}, is within two standard errors of the best in "
        f"{sum(any(row.within for row in rows) for rows in cases.values())}, and best (or tied) in "
        f"{sum(any(row.is_best for row in rows) for rows in cases.values())}."
    )


def page(
    records: Mapping[Key, Mapping[str, Any]], facts: Mapping[str, Any], commands: Sequence[str]
) -> str:
    """docs/weights-performance.md."""
    cells = gather(records)
    verdicts = judge(cells)
    missing = facts.get("missing", {})
    problems = "\n\n".join(
        f"### {name}\n\n{problem.title}. The others are given "
        f"{problem.given}.\n\n{_problem_table(name, cells)}"
        for name, problem in PROBLEMS.items()
        if any(name == key[0] for key in cells)
    )
    not_installed = (
        "\n".join(f"- {name} could not be installed: {reason}" for name, reason in missing.items())
        or "- every peer was installed"
    )
    return f"""# Weights compared with other packages

{_summary(verdicts)}{_not_run(cells)}

## Bars

| problem | n | draws | unskew | its error | best peer | unskew best | its time \
| fastest peer of comparable error | bar met |
|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(verdict.line for verdict in verdicts)}

- *Error*: root mean square error, over draws, of the weighted means of all features, all squared
  features and all label shares, each divided by its standard deviation under the target. A target
  sample of m images by itself would have an error of 1/√m (n = 1,000: 0.071).
- *Bar*: within two standard errors of the best (paired differences of the square error over the
  draws that both have), and no slower than the fastest peer whose error is within two standard
  errors of ours, or below. Peers that are told the target's label shares are compared with rows of
  ours that are told them too. Naive pooling, which takes no time, counts for the error but not for
  the time. *Best* has the smallest error; ties to six digits count (Strata are post-stratification,
  which balance has: all those rows tie).
- *Time*: median processor time of the call, one thread, after one call on a small draw that imports
  and compiles; tables and one-hot columns are made before the clock starts. unskew is `debias` with
  `check_sample=False`: the verdict of a classifier that tries to tell the target sample from the
  weighted pool, which no peer gives, is timed in a row of its own.
- *Draws*: ours are in the third column. A peer that used up its time on a problem and size
  (`--budget` seconds; 60 unless a command above says otherwise, and 120 at n = 1,000,000) has
  fewer, the last number of its cell, and is compared on those. Fewer than {FEWEST} draws in common
  with ours are not compared.
- *Peers* run with their defaults, with the exceptions in benchmarks/weights_run_*.py: widths of
  kernels chosen from a few; adapt's (R)uLSIF without that choice above 5,000 images of the target,
  where it takes minutes; each process may take 8 GiB.

- *Uneven* problems were added after the first results: where all sources have the same size and are
  arranged symmetrically around the target, pooling alone is (nearly) right by accident, and a
  method is judged by how little it does. Both kinds are kept.
- Where Known(ω), told the true ω, misses the bar for its error, the bias of pooling is below the
  noise that the right weights add, and methods that hardly move from pooling (a penalised
  classifier) win. On missing classes Strata, told the target's label shares, do better; given the
  labelled sample that the peers get, they miss it as well. On acquisition the shrunken rows do
  better.
- *Shrunk*: `shrink_weights` on the features, or on the labels where selection is by label: keeps
  only that part of the step from the pool to the weights which exceeds its own noise. The rows were
  added after the others were known, because of acquisition at 1,000. They gain where sources are so
  symmetric that the pool is right in some directions. They lose where it is wrong by a few standard
  errors, wherever that happens to be: uneven problems at 1,000, acquisition at 1,000,000 (1.2 ×),
  tilts in ten dimensions at 100,000. And they cost time.
- SoftBox is given nothing but the pool; nearest neighbours, which it is timed against, are given a
  target sample. The next row has that sample, too.

## Which way do the weights point?

Pool N(0, I), target N(θ, I) in two dimensions, n = 2,000 and a target sample of 1,000: the ratio
p_target/p_pool = exp(θ·z − |θ|²/2) is known. skada's discriminator divides by the target's odds
where it should multiply; on the problems it is run inverted. skada's nearest neighbours, as
released, also count images of the pool (the complement of row numbers where a mask was meant); on
the problems its own counting function is called on pool and sample. adapt's LDM matches second
moments and is no density ratio.

{_direction_table(facts.get("directions", {}))}

## Problems

Cells: error · time · draws (–: not run).

{problems}

## How it was measured

Written by `python benchmarks/weights.py`; do not edit by hand. Every method gets the same draws, on
one core. The commands (where a draw was measured twice, the later measurement counts):

{chr(10).join(f"- `{command}`" for command in commands)}

On:

- Machine: {machine_facts()}
- Python {platform.python_version()}
{_versions(facts.get("versions", {}))}
{not_installed}
- Commit of unskew's rows: {_commits(records)}
- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}
"""
