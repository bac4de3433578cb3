"""Does another checkout give the same results? Record each of the two, then compare the records.

    python tools/same_results.py record CHECKOUT RECORD --data DATA
    python tools/same_results.py compare OLD_RECORD NEW_RECORD [--texts]

Recorded are the demo, the three configurations, the examples, the benchmarks that take seconds, and
calls of the library on worlds of `unskew.scenarios`. A record takes a minute or two. DATA holds the
inputs of the configurations: the first record makes them with the helpers of its checkout's tests,
later ones read the same files. Every run is a process of its own that finds `unskew` by PYTHONPATH.

`compare` names every number, id and key that differs and then ends with code 1. Sentences may be
reworded: they are counted, and shown by --texts; those that tell other numbers are always shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# What has another name in the new record, {old: new}: keys, columns and whole texts.
RENAMED_KEYS: dict[str, str] = {}
# Options of the library by their new names; a checkout that does not know one takes the old name.
OLD_OPTIONS = {
    "rng": "seed",
    "replicates": "n",
    "max_uncovered": "max_uncovered",
    "check_sample": "judge",
}
# Where a run took place, and by which names its settings go.
# `facts` of errors are new.
IGNORED_KEYS = {"command", "page", "settings", "versions", "facts"}
# A text with a space in it, at or below one of these keys, is a sentence for people.
PROSE = re.compile(
    "/(anchor|assumed|condition|description|estimated|figures|fit_message|headline|message|method|"
    "next_steps|not_shown|note|notes|objection|obstacle|outcome|population|recommendation|scope|"
    "sentences|status|target|title)(/|$)"
)
# Weights are small, so for them a tolerance counts relative to their size only.
WEIGHT = re.compile("/(sample_)?weight(/|$)")
NUMBER = re.compile(r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")

KEPT = ["weights.parquet", "solution.json", "report.json", "diagnostics.parquet", "forecast.json"]
COMMANDS = {
    "check": ["check", "run.toml"],
    "split": ["split", "run.toml", "-o", "splits.csv"],
    "rehearse": ["rehearse", "run.toml"],
    "forecast": ["forecast", "run.toml"],
    "evaluate": ["evaluate", "results", "-p", "predictions.csv", "--replicates", "50"],
}
BENCHMARKS = {
    "shrinking": ["--sets", "3"],
    "honest_errors": ["--sets", "3", "--bootstrap-sets", "8", "--replicates", "12"],
    "choosing": ["--seeds", "1"],
    "soft_box": ["1"],
}
# Columns of their tables that are timings, or a sentence about the row.
DROPPED_COLUMNS = {"data", "time", "seconds"}
MAKE_DATA = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
import run_data
for name in ("camera_traps", "hospitals", "product_photos"):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True)
    getattr(run_data, "write_" + name)(folder)
"""


def run_python(
    checkout: Path, arguments: Sequence[str | Path], folder: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder with the `unskew` of a checkout; one thread in linear algebra."""
    threads = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "1")
    environment = os.environ | threads | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stderr}")
    return done


def check_checkout(checkout: Path, folder: Path) -> None:
    """Stop if another `unskew` would be found than that of the checkout."""
    found = run_python(checkout, ["-c", "import unskew; print(unskew.__file__)"], folder).stdout
    if not Path(found.strip()).is_relative_to(checkout / "src"):
        raise SystemExit(f"{checkout}: Python imports unskew from {found.strip()}")


# ---- record


def record(checkout: Path, output: Path, data: Path) -> None:
    """Write everything there is to compare into a new folder."""
    if output.exists():
        raise SystemExit(f"{output} is there already: name a new folder.")
    with tempfile.TemporaryDirectory() as scratch:
        check_checkout(checkout, Path(scratch))
        if not data.exists():
            make_data(checkout, data)
        for step in (record_demo, record_configurations, record_examples, record_benchmarks):
            begin = time.monotonic()
            step(checkout, output, Path(scratch), data)
            print(f"{step.__name__}: {time.monotonic() - begin:.0f} s", flush=True)
        run_python(checkout, [Path(__file__).resolve(), "library", output], Path(scratch))


def make_data(checkout: Path, data: Path) -> None:
    """Make the inputs of the three configurations, and predictions, two in three right."""
    run_python(checkout, ["-c", MAKE_DATA, data], checkout)
    table = json.loads((data / "camera_traps" / "all.json").read_text())
    told = [category["name"] for category in table["categories"]]
    guessed = [
        (each["image_id"], told[each["category_id"] if at % 3 else 1])
        for at, each in enumerate(table["annotations"])
    ]
    frame = pd.DataFrame(guessed, columns=["id", "prediction"])
    frame.to_csv(data / "camera_traps" / "predictions.csv", index=False)


def keep(results: Path, output: Path) -> None:
    """Copy the files of a run that are compared, where there are any."""
    output.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (results / name).is_file():
            shutil.copy(results / name, output / name)


def record_demo(checkout: Path, output: Path, scratch: Path, data: Path) -> None:
    """`unskew demo`: its run, and the scores of its trials."""
    done = run_python(checkout, ["-m", "unskew", "demo", "-o", "demo", "--json"], scratch)
    keep(scratch / "demo" / "results", output / "demo")
    (output / "demo" / "printed.json").write_text(done.stdout)


def record_configurations(checkout: Path, output: Path, scratch: Path, data: Path) -> None:
    """`unskew weigh` of each configuration on a copy of its data, then what other commands say."""
    for place in sorted(data.iterdir()):
        folder, kept = scratch / place.name, output / "configurations" / place.name
        shutil.copytree(place, folder)
        run_python(checkout, ["-m", "unskew", "weigh", "run.toml", "-o", "results"], folder)
        keep(folder / "results", kept)
        for name, arguments in COMMANDS.items():
            done = run_python(checkout, ["-m", "unskew", *arguments, "--json"], folder, check=False)
            told = {"exit_code": done.returncode, "printed": json.loads(done.stdout)}
            (kept / f"{name}_printed.json").write_text(json.dumps(told))
        if (folder / "splits.csv").is_file():
            pd.read_csv(folder / "splits.csv").to_parquet(kept / "splits.parquet")


def record_examples(checkout: Path, output: Path, scratch: Path, data: Path) -> None:
    """Record what each example prints, and the run it writes."""
    for script in sorted((checkout / "examples").glob("*.py")):
        folder, kept = scratch / "examples" / script.stem, output / "examples" / script.stem
        folder.mkdir(parents=True)
        done = run_python(checkout, [Path(__file__).resolve(), "example", script, folder], scratch)
        keep(folder / "results", kept)
        (kept / "printed.txt").write_text(done.stdout)


def run_example(script: Path, folder: Path) -> None:
    """Run an example that works in a temporary folder in one that stays."""
    spec = importlib.util.spec_from_file_location("example", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.TemporaryDirectory = lambda: nullcontext(str(folder))  # type: ignore[attr-defined]
    module.main()


def record_benchmarks(checkout: Path, output: Path, scratch: Path, data: Path) -> None:
    """Record the tables that the quick benchmarks print, without the seconds."""
    (output / "benchmarks").mkdir()
    for name, options in BENCHMARKS.items():
        script = checkout / "benchmarks" / f"{name}.py"
        printed = run_python(checkout, [script, *options], scratch).stdout
        rows = list(table_rows(printed))
        (output / "benchmarks" / f"{name}.json").write_text(json.dumps(rows))


def table_rows(printed: str) -> Iterator[list[str]]:
    """Return the cells of Markdown tables without dropped columns; else those of soft_box.py."""
    header: list[str] = []
    row = ""
    for line in printed.splitlines():
        if "|" not in printed:
            cells = line.split()
            yield cells[:2] + cells[4:]  # the third and fourth are seconds
        elif line.startswith("|") or row:
            # A sentence about the row may go on in the next line.
            row += line
            if row.endswith("|"):
                cells = [cell.strip() for cell in row.strip("|").split("|")]
                header, row = header or cells, ""
                named = zip(header, cells, strict=True)
                yield [cell for name, cell in named if name not in DROPPED_COLUMNS]
        else:
            header = []


# ---- the library, run in a process of its own


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function with options by their new names, or by the old ones where it has those."""
    known = inspect.signature(function).parameters
    names = [name if name in known else OLD_OPTIONS.get(name, name) for name in options]
    return function(*arguments, **dict(zip(names, options.values(), strict=True)))


def plain(value: Any) -> Any:
    """Convert records, arrays and tables to values that JSON can hold."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | None) else type(value).__name__


# Name, pool, bias model, target, and a value of every image.
Case = tuple[str, Any, Any, Any, Any]


def pool_of(drawn: Any, **columns: Any) -> Any:
    """Make the pool of a scenario, x among its columns."""
    import unskew

    return unskew.Pool.from_arrays(drawn.source.astype(str), **columns)


def continuous_cases() -> Iterator[Case]:
    """Yield sources that differ in features: tilted Gaussians, and nested intervals."""
    from unskew import Target, bias, scenarios

    theta = [[0.0, 0.0], [0.8, 0.0], [-0.4, 0.7]]
    drawn = call(scenarios.tilts, [200, 300, 250], theta=theta, group_size=2, rng=1)
    pool, h_n = pool_of(drawn, x=drawn.features, group=drawn.group), drawn.features.sum(axis=1)
    fresh = call(scenarios.tilts, [160], theta=[[0.0, 0.0]], rng=2)
    sample = Target.sample(pool_of(fresh, x=fresh.features), holdout=0.5)
    yield "Known", pool, bias.Known(drawn.omega), None, h_n
    for family in (bias.Tilt, bias.Propensity):
        yield f"{family.__name__}, source", pool, family(["x"]), Target.source("0"), h_n
        yield f"{family.__name__}, sample", pool, family(["x"]), sample, h_n
    yield "Tilt of degree 2, source", pool, bias.Tilt(["x"], degree=2), Target.source("0"), h_n

    drawn = call(scenarios.nested_sets, [150, 200, 250], rng=6)
    pool, h_n = pool_of(drawn, x=drawn.features), drawn.features[:, 0]
    yield "Box", pool, bias.Box(["x"]), None, h_n
    queries = {"0": "x_0 < 0.2", "1": "x_0 < 0.5", "2": "all"}
    yield "Subpopulation", pool, bias.Subpopulation(queries), None, h_n


def labelled_cases() -> Iterator[Case]:
    """Yield sources that differ in labels, or in labels and features."""
    from unskew import Target, bias, scenarios

    names, strata, uniform = np.array(list("abcdef")), bias.Strata("label"), Target.uniform("label")
    label_i = np.arange(6000) % 6
    x_i = np.random.default_rng(3).normal(label_i % 3, 1.0)
    drawn = call(scenarios.overlapping_classes, label_i, overlap=0.3, n_sources=3, sizes=560, rng=4)
    pool, h_n = pool_of(drawn, label=names[drawn.label], x=x_i[drawn.index]), x_i[drawn.index]
    survey = dict(zip(names.tolist(), [90, 70, 50, 40, 30, 20], strict=True))
    margins = Target.margins({"label": {"mass": survey, "n": 300}})
    yield "Strata, uniform", pool, strata, uniform, h_n
    yield "Strata, margins", pool, strata, margins, h_n
    product = bias.Product(strata, bias.Tilt(["x"], reference="0"))
    yield "Strata × Tilt, margins", pool, product, margins, h_n

    drawn = call(scenarios.censored, label_i, x_i[:, None], hidden=[0, 1], sizes=[400, 200], rng=5)
    pool, h_n = pool_of(drawn, label=names[drawn.label], x=drawn.features), drawn.features[:, 0]
    yield "Strata, source", pool, strata, Target.source("1"), h_n
    yield "Box, source", pool, bias.Box(["label"]), Target.source("1"), h_n

    x_i = np.random.default_rng(7).uniform(size=(6000, 2))
    drawn = call(scenarios.acquisition, x_i, label_i, decay=0.4, sizes=[200] * 4, rng=8)
    pool, h_n = pool_of(drawn, label=names[drawn.label], x=drawn.features), drawn.features[:, 0]
    yield "SoftBox", pool, bias.SoftBox(["x"]), None, h_n
    product = bias.Product(strata, bias.SoftBox(["x"]))
    yield "Strata × SoftBox", pool, product, uniform, h_n


def measure_case(pool: Any, model: Any, target: Any, value_n: Any) -> dict[str, Any]:
    """Weights, what stands behind them, errors of a mean, and the weights changed afterwards."""
    import unskew

    weights = call(unskew.debias, pool, model, target, rng=9, max_uncovered=0.6, check_sample=True)
    mean = weights.mean(value_n)
    shifted = {"h": (value_n, mean.value + 0.02 * value_n.std())}
    means = {"h": value_n}
    return {
        "weight": weights.weight,
        "u": weights.solution.u,
        "log_normalizer": weights.solution.log_normalizer,
        "covariance": weights.covariance(),
        "overlap": weights.overlap,
        "diagnosis": weights.diagnosis,
        "resemblance": weights.estimation.resemblance,
        "mean": mean,
        "bootstrap": call(weights.bootstrap, replicates=12, rng=10, values=value_n),
        "sensitivity": weights.sensitivity(value_n, 1.5),
        "fit": call(unskew.check_fit, pool, model, weights=weights, replicates=49, rng=11),
        "calibrated": unskew.calibrate_weights(weights, means=shifted),
        "trimmed": unskew.trim_weights(weights, at=1.5, means=means),
        "trimmed_mse": unskew.trim_weights(weights, at="mse", means=means),
        "shrunk": unskew.shrink_weights(weights, means),
    }


def measure_solvers() -> dict[str, Any]:
    """Each method on the same matrix, and the overlap before any solve."""
    import unskew

    drawn = call(unskew.scenarios.tilts, [300, 200, 100], dim=2, rng=12)
    given, methods = (drawn.omega, drawn.source), ("newton", "fixed_point", "sgd")
    solve = unskew.solve_normalizers
    found = {name: call(solve, *given, method=name, throw=False, rng=13) for name in methods}
    return {"overlap": unskew.check_overlap(*given), **found}


def record_library(output: Path) -> None:
    """Every case; a call that fails is recorded by its error."""
    found: dict[str, Any] = {"solvers": plain(measure_solvers())}
    warnings.simplefilter("ignore")
    for name, *case in [*continuous_cases(), *labelled_cases()]:
        try:
            found[name] = plain(measure_case(*case))
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    (output / "library.json").write_text(json.dumps(found))


# ---- compare


@dataclass
class Comparison:
    """What differs between two records: results, and sentences as (place, old, new)."""

    rtol: float
    atol: float
    differences: list[str] = field(default_factory=list)
    texts: list[tuple[str, str, str]] = field(default_factory=list)
    n_compared: int = 0

    def compare(self, old: Any, new: Any, place: str) -> None:
        """Go down both values together."""
        if isinstance(old, dict) and isinstance(new, dict):
            self._compare_tables(old, new, place)
        elif isinstance(old, list) and isinstance(new, list):
            self._compare_lists(old, new, place)
        elif is_number(old) and is_number(new):
            self._compare_numbers([old], [new], place)
        elif isinstance(old, str) and isinstance(new, str) and is_prose(place, old, new):
            if old != new:
                self.texts.append((place, old, new))
        else:
            self.n_compared += 1
            if new not in (old, RENAMED_KEYS.get(str(old), old)):
                self._differ(place, f"{shown(old)} became {shown(new)}")

    def _compare_tables(self, old: dict[str, Any], new: dict[str, Any], place: str) -> None:
        names = {key: key if key in new else RENAMED_KEYS.get(key, key) for key in old}
        for key in new.keys() - names.values() - IGNORED_KEYS:
            self._differ(f"{place}/{key}", "is in the new record only")
        for key, name in names.items():
            if key in IGNORED_KEYS:
                continue
            if name in new:
                self.compare(old[key], new[name], f"{place}/{key}")
            else:
                self._differ(f"{place}/{key}", "is in the old record only")

    def _compare_lists(self, old: list[Any], new: list[Any], place: str) -> None:
        if len(old) != len(new):
            if PROSE.search(place) and all(isinstance(each, str) for each in old + new):
                self.texts.append((place, "\n   ".join(old), "\n   ".join(new)))
                return
            self._differ(place, f"has {len(new)} entries instead of {len(old)}")
        elif old and all(map(is_number, old + new)):
            self._compare_numbers(old, new, place)
            return
        for at, (first, second) in enumerate(zip(old, new, strict=False)):
            self.compare(first, second, f"{place}/[{at}]")

    def _compare_numbers(self, old: list[float], new: list[float], place: str) -> None:
        a, b = np.array(old, dtype=np.float64), np.array(new, dtype=np.float64)
        self.n_compared += a.size
        atol = 0.0 if WEIGHT.search(place) else self.atol
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            size = np.maximum(np.abs(a), np.abs(b))
            wrong = ~(gap <= atol + self.rtol * np.where(np.isfinite(size), size, 0.0))
            relative = np.where(wrong, gap / size, 0.0)
        if wrong.any():
            worst = int(np.argmax(np.where(np.isnan(relative), np.inf, relative)))
            many = f"{wrong.sum()} of {a.size} numbers, most at [{worst}]: " if a.size > 1 else ""
            told = f"{old[worst]!r} became {new[worst]!r} (relative {relative[worst]:.1e})"
            self._differ(place, many + told)

    def _differ(self, place: str, told: str) -> None:
        self.differences.append(f"{place}: {told}")


def is_number(value: Any) -> bool:
    """Tell whether this is a number, not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_prose(place: str, *texts: str) -> bool:
    """Sentences for people, not names or ids."""
    return bool(PROSE.search(place)) and any(" " in text for text in texts)


def shown(value: Any) -> str:
    """Show a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def load(path: Path) -> Any:
    """Read a recorded file as plain values; printed lines as numbers and texts."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        return {str(name): frame[name].tolist() for name in frame.columns}
    lines = path.read_text().splitlines()
    rows = [line for line in lines if len(re.findall(r"[^\W\d_]{2,}", line)) <= 5]
    return {"rows": [told for line in rows if (told := NUMBER.findall(line))], "sentences": lines}


def compare_records(old: Path, new: Path, comparison: Comparison, texts: bool) -> int:
    """Print what differs; 1 if any result does."""
    names = [{str(path.relative_to(each)) for path in each.rglob("*.*")} for each in (old, new)]
    for name in sorted(names[0] | names[1]):
        if name in names[0] & names[1]:
            comparison.compare(load(old / name), load(new / name), name)
        else:
            side = "old" if name in names[0] else "new"
            comparison.differences.append(f"{name}: is in the {side} record only")
    print(*comparison.differences, sep="\n", end="\n" if comparison.differences else "")
    other = [
        each for each in comparison.texts if NUMBER.findall(each[1]) != NUMBER.findall(each[2])
    ]
    for place, before, after in comparison.texts if texts else other:
        print(f"{place}:\n - {before}\n + {after}")
    print(f"{len(names[0] | names[1])} files, {comparison.n_compared:,} numbers and names compared")
    print(f"{len(comparison.texts)} texts reworded, {len(other)} of them with other numbers")
    print(f"{len(comparison.differences)} results differ")
    return int(bool(comparison.differences))


def main() -> int:
    """Read the command line; `library` and `example` are steps that `record` runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["record", "compare", "library", "example"])
    parser.add_argument("places", nargs="+", type=Path, help="the two places, see above")
    parser.add_argument("--data", type=Path, help="record: inputs of the configurations")
    parser.add_argument("--texts", action="store_true", help="compare: show all reworded texts")
    parser.add_argument("--rtol", type=float, default=1e-12, help="compare: relative tolerance")
    parser.add_argument("--atol", type=float, default=1e-13, help="compare: absolute tolerance")
    given = parser.parse_args()
    first, second = given.places[0].resolve(), given.places[-1].resolve()
    if given.step == "compare":
        return compare_records(first, second, Comparison(given.rtol, given.atol), given.texts)
    if given.step == "library":
        record_library(first)
    elif given.step == "example":
        run_example(first, second)
    elif given.data is None:
        parser.error("record needs --data")
    else:
        record(first, second, given.data.resolve())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
