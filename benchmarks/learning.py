"""What weights bring on real images, CIFAR-10 and CIFAR-100 with known selection: the figures
of docs/ways-performance.md and docs/ways-networks.md.

    python benchmarks/learning.py --data FOLDER [--part probe …] [--settings KEY …] [--seeds 0 1 …]

The parts: features (of CIFAR-10 and CIFAR-100, by a pretrained network, kept in .bench-cache),
probe (every way and recipe, tuned and tested), curve (accuracy against the number of images),
forecast (what is predicted before training), network (a small network from scratch), nometa
(nothing known but an embedding and 500 unlabelled images of the target), page
(both pages from what is there). Every result is a line of
benchmarks/results/learning-*.jsonl; what is there is not measured again. Several processes may run
at once. FOLDER holds cifar10/train-000.webp …; the default is the variable UNSKEW_DATA.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from learning_results import Results
from learning_settings import CASES, MATTERS, Case
from learning_ways import measure_ways
from solver_table import commit_facts

from paper.cifar_data import find_data
from paper.features import Features, embed_split, load_features
from paper.settings import Population
from unskew.engine.threads import one_blas_thread

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".bench-cache"
RESULTS = ROOT / "benchmarks" / "results"
PARTS = ("features", "probe", "curve", "forecast", "network", "nometa", "page")
# The rows on which learning curves are measured.
FEW = (MATTERS[1].key, MATTERS[3].key)


def results_of(part: str, folder: Path = RESULTS) -> Results:
    """The file of a part, and what tells its lines apart."""
    keys = {
        "forecast": ("setting", "seed"),
        "nometa": ("setting", "seed", "arm", "way"),
    }.get(part, ("setting", "seed", "arm"))
    return Results(folder / f"learning-{part}.jsonl", keys)


def measure_probe(
    load: Callable[[str], Features], cases: Sequence[Case], seeds: Sequence[int], results: Results
) -> None:
    """Every way and recipe on every setting and seed: accuracy, by group, calibration error."""
    for seed in seeds:
        for case in cases:
            if (case.key, seed, "logit_adjustment") in results.read():
                continue
            features = load(case.data)
            begin, commit = time.process_time(), commit_facts()
            draw = case.setting.draw(Population(features.train_label, features.border), seed)
            # All of a draw or nothing, so that rows are compared on the same draws.
            records = list(measure_ways(draw, features, case.setting, seed))
            cpu = time.process_time() - begin
            for record in records:
                results.add({"setting": case.key, "seed": seed, **record, "commit": commit})
            shown = ", ".join(f"{record['arm']} {record['accuracy']:.1f}" for record in records)
            print(f"{case.key} seed {seed} ({cpu:.0f} s): {shown}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, help="folder that holds cifar10/ and cifar100/ as sheets"
    )
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="default: all but network and nometa"
    )
    parser.add_argument("--settings", choices=list(CASES), nargs="+", help="default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)))
    parser.add_argument(
        "--arms",
        nargs="+",
        default=[],
        help="of the part network: only these, such as naive half; of nometa: auto tunes the probe",
    )
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="features and networks (default .bench-cache)"
    )
    parser.add_argument("--threads", type=int, default=1, help="for the features")
    options = parser.parse_args()
    parts = options.part or [part for part in PARTS if part not in ("network", "nometa")]
    data = find_data(options.data, ROOT.parent / "shared" / "data")
    if data is None and set(parts) != {"page"}:
        parser.error("where does CIFAR lie? Say --data FOLDER, or set UNSKEW_DATA.")
    cases = [CASES[key] for key in options.settings or CASES]
    if "features" in parts and data is not None:
        for name in ("cifar10", "cifar100"):
            for split in ("train", "test"):
                embed_split(data, name, split, options.cache, jobs=options.threads)
    for part in parts:
        run_part(part, options, data, cases)


def run_part(
    part: str, options: argparse.Namespace, data: Path | None, cases: Sequence[Case]
) -> None:
    if part == "page":
        from learning_network_page import write_network_page
        from learning_page import write_learning_page

        write_learning_page()
        write_network_page()
        return
    if data is None or part == "features":
        return
    results = results_of(part)
    if part == "network":
        from learning_network import measure_network

        measure_network(data, options.cache, options.seeds, results, cases, options.arms)
        return
    load = functools.cache(lambda name: load_features(data, name, options.cache))
    settings = [case.setting for case in cases if case.data == "cifar10"]
    with one_blas_thread():
        if part == "probe":
            measure_probe(load, cases, options.seeds, results)
        elif part == "forecast":
            from learning_forecast import measure_forecasts

            measure_forecasts(load, cases, options.seeds, results)
        elif part == "nometa":
            from learning_nometa import SETTINGS as NO_METADATA
            from learning_nometa import measure_nometa, shares_won

            own = [setting for setting in NO_METADATA if setting in settings]
            auto = "auto" in options.arms
            measure_nometa(load("cifar10"), own, options.seeds, results, auto=auto)
            print(*shares_won(results, "auto" if auto else "half"), sep="\n")
        else:
            from learning_curve import measure_curves

            few = [CASES[key].setting for key in FEW]
            measure_curves(load("cifar10"), few, options.seeds, results)


if __name__ == "__main__":
    main()
