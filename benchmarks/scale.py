"""What weights over Parquet parts cost, against memory and against reading the columns alone.

    python benchmarks/scale.py [--rows 10000000] [--only weigh engines images sparse model]
        [--images 20000] [--folder FOLDER] [--page docs/scale.md]

Every measurement runs in a process of its own. Times are processor time, of the process and all
that it started, so that a busy machine changes them little; the bars are ratios. FOLDER holds the
data (about 40 bytes for each image); without it a temporary one does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PART_ROWS = 1 << 20
SOURCES, FEATURES, SUBSAMPLE = 10, 4, 200_000
BEGIN, END = "<!-- benchmarks/scale.py -->", "<!-- end -->"


def make_part(n: int, first: int) -> pd.DataFrame:
    """n images whose source depends on the features; features are float32."""
    rng = np.random.default_rng(first)
    x = rng.normal(size=(n, FEATURES)).astype(np.float32)
    theta = np.random.default_rng(0).normal(scale=0.3, size=(FEATURES, SOURCES))
    source = (x @ theta + rng.gumbel(size=(n, SOURCES))).argmax(axis=1)
    names = pd.Categorical.from_codes(source, [f"camera {at}" for at in range(SOURCES)])
    columns = {f"x_{at}": x[:, at] for at in range(FEATURES)}
    label = pd.Categorical.from_codes((x[:, 0] > 0).astype(np.int8), ["dark", "light"])
    ids = np.arange(first, first + n)
    return pd.DataFrame({"id": ids, "source": names, "label": label} | columns)


def write_world(folder: Path, n: int) -> None:
    folder.mkdir(parents=True)
    for number, first in enumerate(range(0, n, PART_ROWS)):
        part = make_part(min(PART_ROWS, n - first), first)
        part.to_parquet(folder / f"part-{number}.parquet", index=False)


def anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]


class Peak:
    """The largest anonymous resident memory while it runs."""

    def __enter__(self) -> Peak:
        self.most, self.stop = anonymous_bytes(), threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.stop.wait(0.02):
            self.most = max(self.most, anonymous_bytes())

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def seconds_of_tree() -> float:
    """Processor time of this process and of all that it started, ended ones included."""
    ticks, children = {}, defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        # State, parent, …, user, system, and both of children that were waited for.
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
        children[int(fields[1])].append(int(entry.name))
    total, left = 0, [os.getpid()]
    while left:
        process = left.pop()
        total += ticks.get(process, 0)
        left += children[process]
    return total / os.sysconf("SC_CLK_TCK")


def case_of(model: str) -> tuple[Any, Any]:
    from unskew import Target, bias

    if model == "strata":
        return bias.Strata("label"), Target.margins({"label": {"dark": 0.3, "light": 0.7}})
    return bias.Tilt(["x"]), Target.source("camera 0")


def weigh(folder: Path, model: str, engine: Any) -> None:
    import unskew

    pool = unskew.Pool.from_parquet(folder)
    weights = unskew.debias(pool, *case_of(model), engine=engine, subsample=SUBSAMPLE)
    weights.to_parquet(folder.parent / f"weights-{model}-{folder.name}-{os.getpid()}")


def run_streamed(folder: Path, model: str) -> dict[str, float]:
    """Weigh with one worker; also what each pass costs."""
    from unskew.engine.block_engines import EngineSettings, LocalEngine

    passes: dict[str, list[float]] = defaultdict(list)

    class Timed(LocalEngine):
        def each_block(self, function: Any, *rest: Any, **options: Any) -> Iterator[Any]:
            begin = time.process_time()
            yield from super().each_block(function, *rest, **options)
            name = getattr(function, "__name__", "write")
            passes[name].append(time.process_time() - begin)

    with Timed(EngineSettings(workers=1)) as engine:
        weigh(folder, model, engine)
    return {name: float(np.mean(seconds)) for name, seconds in passes.items()}


def run_in_memory(folder: Path, model: str) -> None:
    import unskew

    frame = pd.read_parquet(sorted(folder.glob("*.parquet"))[0])
    unskew.debias(unskew.Pool.from_frame(frame, id="id"), *case_of(model))


def run_columns(folder: Path, model: str) -> None:
    """Read the columns that the model reads, and write those of weights.parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = [f"x_{at}" for at in range(FEATURES)]
    wanted = ["id", "source", *(["label"] if model == "strata" else features)]
    for file in folder.glob("*.parquet"):
        table = pq.read_table(file, columns=wanted, use_threads=False).to_pandas()
        weight = pa.array(np.random.default_rng(0).random(len(table)))
        columns = {"id": table["id"], "source": table["source"].astype(str)}
        out = pa.table(columns | {"weight": weight, "sample_weight": weight})
        pq.write_table(out, folder.parent / "columns.parquet")


def run_engine(folder: Path, name: str) -> dict[str, float]:
    """Weigh with two workers of an engine; its start-up apart."""
    from unskew.engine.block_engines import EngineSettings, opened_engine

    processes = name == "processes"
    settings = EngineSettings(workers=2, processes=processes)
    with opened_engine("local" if processes else "dask", settings) as engine:
        weigh(folder.parent / "warm", "tilt", engine)
        begin, wall = seconds_of_tree(), time.monotonic()
        weigh(folder, "tilt", engine)
        return {"cpu": seconds_of_tree() - begin, "wall": time.monotonic() - wall}


def run_images(folder: Path, name: str) -> dict[str, float]:
    """Represent all images of a manifest, in memory or by two workers of an engine."""
    import unskew
    from unskew.engine.block_engines import EngineSettings, opened_engine
    from unskew.runs.part_images import represent_parts

    features, out = ["border_hsv", "sharpness"], folder / f"numbers-{name}"
    if name == "in memory":
        for place in ("warm", "parts"):  # start-up apart
            manifest = pd.concat(map(pd.read_parquet, sorted(folder.glob(f"{place}/*.parquet"))))
            manifest.to_csv(folder / "manifest.csv", index=False)
            pool = unskew.Pool.from_manifest(folder / "manifest.csv", id="id")
            begin = seconds_of_tree()
            unskew.represent_images(pool, features, cache=out / place, jobs=2)
        return {"cpu": seconds_of_tree() - begin}
    settings = EngineSettings(workers=2, processes=name == "processes")
    with opened_engine("dask" if name == "dask" else "local", settings) as engine:
        options: dict[str, Any] = {"base": folder, "engine": engine}
        warm = unskew.Pool.from_parquet(folder / "warm")
        represent_parts(warm, features, folder / f"warm-{name}", **options)
        pool = unskew.Pool.from_parquet(folder / "parts")
        begin = seconds_of_tree()
        represent_parts(pool, features, out, **options)
        return {"cpu": seconds_of_tree() - begin}


def run_sparse(folder: Path, rows: str) -> dict[str, float]:
    """Solve for 2,000 sources, four of which could have produced each image."""
    import scipy.sparse as sp

    import unskew

    n, k, per_row = int(rows), 2000, 4
    rng, before = np.random.default_rng(0), anonymous_bytes()
    index = np.empty((n, per_row), dtype=np.int32)
    for start in range(0, n, 1 << 20):
        first = rng.integers(k, size=min(1 << 20, n - start), dtype=np.int32)
        steps = np.array([0, 1, 7, 40], dtype=np.int32)
        index[start : start + first.size] = (first[:, None] + steps) % k
    source = index[np.arange(n), rng.integers(per_row, size=n)].astype(np.int32)
    value = rng.uniform(0.5, 2.0, size=n * per_row)
    pointer = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    omega = sp.csr_array((value, index.ravel(), pointer), shape=(n, k))
    omega.has_canonical_format = False
    with Peak() as peak:
        unskew.debias_weights(omega, source)
    return {"bytes": (peak.most - before) / omega.nnz, "nnz": float(omega.nnz)}


def run_products(folder: Path, k: str) -> dict[str, float]:
    """Time second derivatives of many sources: nanoseconds for each pair of parameters."""
    from unskew.solve.log_linear import sum_log_linear

    n, n_sources = 4000, int(k)
    rng = np.random.default_rng(0)
    phi, theta = rng.normal(size=(n, FEATURES)), np.zeros((n_sources, FEATURES))
    source, cell = rng.integers(n_sources, size=n), np.zeros(n, dtype=np.int64)
    begin = time.process_time()
    sum_log_linear(phi, None, source, cell, np.zeros((1, n_sources)), theta)
    pairs = (n_sources * (FEATURES + 1)) ** 2
    return {"ns": 1e9 * (time.process_time() - begin) / n / pairs}


TASKS: dict[str, Any] = {
    **{"streamed": run_streamed, "in memory": run_in_memory, "columns": run_columns},
    **{"engine": run_engine, "images": run_images, "sparse": run_sparse, "products": run_products},
}
# Imports and compiled code are not the subject: these run on a small world before.
WARMED = ("streamed", "in memory", "columns")


def worker(task: str, option: str, folder: Path) -> None:
    if task in WARMED:
        TASKS[task](folder.parent / "warm", option)
    begin, wall = seconds_of_tree(), time.monotonic()
    with Peak() as peak:
        facts = TASKS[task](folder, option) or {}
    times = {"cpu": seconds_of_tree() - begin, "wall": time.monotonic() - wall}
    print(json.dumps(times | {"anonymous": peak.most} | facts))


def measure(task: str, option: str, folder: Path) -> dict[str, float]:
    arguments = [sys.executable, __file__, "--worker", task, option, str(folder)]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    out = subprocess.run(
        arguments, env=os.environ | threads, check=True, stdout=subprocess.PIPE, text=True
    )
    result: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    print(task, option, folder.name, {k: f"{v:.4g}" for k, v in result.items()}, flush=True)
    return result


def weigh_lines(pool: Path, n: int, seen: dict[str, Any]) -> list[str]:
    n_memory = min(n, PART_ROWS)
    lines = [
        f"n = {n:,} images in {len(list(pool.glob('*')))} parts, K = {SOURCES} sources, {FEATURES} "
        f"features (float32), one worker, a subsample of {SUBSAMPLE:,}; in memory: {n_memory:,} "
        "images. Processor time, nanoseconds per image; anonymous memory.",
        "",
        "| model | streamed, all passes and files | in memory, no files | reading and writing the "
        "columns | streamed / (1.5 × in memory + columns) | streamed / columns | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in ("tilt", "strata"):
        own = {task: measure(task, model, pool) for task in WARMED}
        per = {t: 1e9 * own[t]["cpu"] / (n_memory if t == "in memory" else n) for t in WARMED}
        bar = per["streamed"] / (1.5 * per["in memory"] + per["columns"])
        lines.append(
            f"| {model} | {per['streamed']:.0f} | {per['in memory']:.0f} | {per['columns']:.0f} | "
            f"{bar:.2f} | {per['streamed'] / per['columns']:.2f} | "
            f"{own['streamed']['anonymous'] / 2**30:.2f} GB |"
        )
        seen[model] = own["streamed"] | {"columns": per["columns"]}
    return lines


def growth_lines(pool: Path, n: int, seen: dict[str, Any]) -> list[str]:
    """The same pass over a tenth of the parts."""
    tenth = pool.parent / "tenth"
    tenth.mkdir(exist_ok=True)
    files = sorted(pool.glob("*.parquet"), key=lambda path: int(path.stem.split("-")[1]))
    few = files[: max(1, len(files) // 10)]
    for file in few:
        (tenth / file.name).symlink_to(file.resolve())
    n_few = min(n, PART_ROWS * len(few))
    small = measure("streamed", "tilt", tenth)
    per = [1e9 * one["sum_block"] / m for one, m in ((small, n_few), (seen["tilt"], n))]
    return [
        "",
        f"A pass of Newton's method costs {per[0]:.0f} ns per image at n = {n_few:,} and "
        f"{per[1]:.0f} ns at n = {n:,}: {per[1] / per[0]:.2f} ×.",
    ]


def engine_lines(pool: Path, n: int) -> list[str]:
    own = {name: measure("engine", name, pool) for name in ("processes", "dask")}
    ratio = {key: own["dask"][key] / own["processes"][key] for key in ("cpu", "wall")}
    return [
        "",
        f"Dask with two workers against two processes of `local`, `tilt`, n = {n:,}, start-up "
        f"apart: {ratio['cpu']:.2f} × the processor time, {ratio['wall']:.2f} × the time.",
    ]


def image_lines(folder: Path, count: int, names: list[str]) -> list[str]:
    write_images(folder, count)
    own = {name: measure("images", name, folder)["cpu"] for name in ("in memory", *names)}
    shown = ", ".join(f"{name} {own[name] / own['in memory']:.2f} ×" for name in names)
    return [
        "",
        f"Representations (`border_hsv`, `sharpness`) of {count:,} JPEG files of 256 × 192 pixels, "
        f"processor time against `represent_images` with two jobs: {shown}.",
    ]


def write_images(folder: Path, count: int) -> None:
    """Write JPEGs of a few hundred scenes again and again, and manifests in eight parts."""
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "files").mkdir(parents=True)
    for scene in range(200):
        coarse = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((256, 192), Image.Resampling.BICUBIC)
        image.save(folder / "files" / f"{scene}.jpg", quality=90)
    for row in range(200, count):
        os.link(folder / "files" / f"{row % 200}.jpg", folder / "files" / f"{row}.jpg")
    row = np.arange(count)
    frame = pd.DataFrame({"id": row, "source": np.where(row % 2, "a", "b")})
    frame["path"] = [f"files/{at}.jpg" for at in range(count)]
    for name, rows in (("parts", count), ("warm", 200)):
        (folder / name).mkdir()
        for at, some in enumerate(np.array_split(np.arange(rows), 8)):
            frame.iloc[some].to_parquet(folder / name / f"{at}.parquet", index=False)


def sparse_lines(folder: Path, n: int) -> list[str]:
    own = measure("sparse", str(n), folder)
    return [
        "",
        f"K = 2,000 sparse sources, n = {n:,}, in memory: {own['bytes']:.1f} bytes per non-zero of "
        "ω at most, the matrix itself (12) among them.",
    ]


def model_lines(folder: Path, seen: dict[str, Any], n: int) -> list[str]:
    """Time and memory on paper of 1,000 sources, from what was measured."""
    pair = measure("products", "200", folder)["ns"]
    cores, disk, k, passes = 16, 1e9, 1000, 4
    own = seen["tilt"]["sum_block"] * 1e9 / n
    columns = seen["tilt"]["columns"]
    lines = [
        "",
        f"On paper: K = {k:,}, nodes of {cores} cores and a disk of {disk / 1e9:.0f} GB/s, "
        f"features of {4 * FEATURES} bytes, {passes} passes and one of writing. A pass costs what "
        f"one of K = {SOURCES} does here ({own:.0f} ns) for each {SOURCES} sources, and {pair:.3f} "
        "ns for each pair of parameters in second derivatives; reading and writing "
        f"{columns:.0f} ns. Only normalizers: K parameters. `Tilt`: K × (1 + {FEATURES}).",
        "",
        "| images | parameters | 10 nodes | 100 nodes | 1,000 nodes | the driver holds |",
        "|---|---|---|---|---|---|",
    ]
    for images in (1e9, 1e10):
        for name, width in (("normalizers", 1), ("Tilt", 1 + FEATURES)):
            size = k * width
            per_image = passes * (own * k / SOURCES + pair * size**2) + columns
            read = (passes + 1) * 4 * FEATURES / disk
            cells = [
                f"{max(per_image * 1e-9 / cores, read) * images / nodes / 3600:.3g} h"
                for nodes in (10, 100, 1000)
            ]
            lines.append(
                f"| {images:.0e} | {size:,} ({name}) | {' | '.join(cells)} | "
                f"{8 * size**2 / 1e6:,.0f} MB for each result that waits |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--images", type=int, default=20_000)
    every = ("weigh", "engines", "images", "sparse", "model")
    parser.add_argument("--only", nargs="+", choices=every, default=every)
    parser.add_argument("--folder", type=Path, help="where the data are written")
    parser.add_argument("--page", type=Path, help="the page whose table is replaced")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task, option, folder = options.worker
        worker(task, option, Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="unskew-scale-", dir=options.folder) as name:
        text = "\n".join(lines_of(options, Path(name)))
    print(text)
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        head, tail = page.split(BEGIN)[0], page.split(END)[1]
        options.page.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def lines_of(options: argparse.Namespace, folder: Path) -> list[str]:
    import importlib.util

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    lines, seen, pool = [f"Measured at {commit or 'an unknown commit'}."], {}, folder / "pool"
    has_dask = importlib.util.find_spec("distributed") is not None
    if {"weigh", "engines", "model"} & set(options.only):
        write_world(pool, options.rows)
        write_world(folder / "warm", 250_000)
    if {"weigh", "model"} & set(options.only):
        lines += ["", *weigh_lines(pool, options.rows, seen)]
        lines += growth_lines(pool, options.rows, seen)
    if "engines" in options.only and has_dask:
        lines += engine_lines(pool, options.rows)
    if "images" in options.only:
        names = ["threads", "processes", *(["dask"] if has_dask else [])]
        lines += image_lines(folder / "images", options.images, names)
    if "sparse" in options.only:
        lines += sparse_lines(folder, options.rows)
    if "model" in options.only:
        lines += model_lines(folder, seen, options.rows)
    return lines


if __name__ == "__main__":
    main()
