"""What weights over Parquet parts cost: memory, and processor time per image against memory.

    python benchmarks/scale.py [--rows 10000000] [--sources 10] [--features 4] [--page FILE]

Each row of the table is measured in a process of its own with one worker. Times are processor time,
so that a busy machine changes them little; ratios are what the bars are about.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

PART_ROWS = 1 << 20
BEGIN, END = "<!-- benchmarks/scale.py -->", "<!-- end -->"


def make_part(n: int, first: int, k: int, d: int) -> pd.DataFrame:
    """n images whose source depends on the features; features are float32."""
    rng = np.random.default_rng(first)
    x = rng.normal(size=(n, d)).astype(np.float32)
    theta = np.random.default_rng(0).normal(scale=0.3, size=(d, k))
    source = (x @ theta + rng.gumbel(size=(n, k))).argmax(axis=1)
    names = pd.Categorical.from_codes(source, [f"camera {at}" for at in range(k)])
    columns = {f"x_{at}": x[:, at] for at in range(d)}
    label = pd.Categorical.from_codes((x[:, 0] > 0).astype(np.int8), ["dark", "light"])
    return pd.DataFrame(
        {"id": np.arange(first, first + n), "source": names, "label": label} | columns
    )


def write_world(folder: Path, n: int, k: int, d: int) -> None:
    folder.mkdir()
    for first in range(0, n, PART_ROWS):
        part = make_part(min(PART_ROWS, n - first), first, k, d)
        part.to_parquet(folder / f"part-{first // PART_ROWS}.parquet", index=False)


def anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]


class Peak:
    """The largest anonymous resident memory while it runs."""

    def __enter__(self) -> Peak:
        self.most, self.stop = 0, threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.stop.wait(0.02):
            self.most = max(self.most, anonymous_bytes())

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def case_of(model: str):
    from unskew import Target, bias

    if model == "strata":
        return bias.Strata("label"), Target.margins({"label": {"dark": 0.3, "light": 0.7}})
    return bias.Tilt(["x"]), Target.source("camera 0")


def run_streamed(folder: Path, model: str) -> None:
    import unskew
    from unskew.engine.block_engines import EngineSettings, opened_engine

    with opened_engine("local", EngineSettings(workers=1)) as engine:
        pool = unskew.Pool.from_parquet(folder)
        weights = unskew.debias(pool, *case_of(model), engine=engine, subsample=200_000)
        weights.to_parquet(folder.parent / f"weights-{model}")


def run_in_memory(folder: Path, model: str) -> None:
    import unskew

    frame = pd.read_parquet(sorted(folder.glob("*.parquet"))[0])
    unskew.debias(unskew.Pool.from_frame(frame, id="id"), *case_of(model))


def run_columns(folder: Path, model: str) -> None:
    """Read the columns that the model reads, and write those of weights.parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = [
        name for name in pq.read_schema(next(folder.glob("*.parquet"))).names if name[1] == "_"
    ]
    wanted = ["id", "source", *(["label"] if model == "strata" else features)]
    for file in folder.glob("*.parquet"):
        table = pq.read_table(file, columns=wanted, use_threads=False).to_pandas()
        weight = pa.array(np.random.default_rng(0).random(len(table)))
        out = pa.table(
            {
                "id": table["id"],
                "source": table["source"].astype(str),
                "weight": weight,
                "sample_weight": weight,
            }
        )
        pq.write_table(out, folder.parent / "columns.parquet")


TASKS = {"streamed": run_streamed, "in memory": run_in_memory, "columns": run_columns}


def worker(task: str, model: str, folder: Path) -> None:
    warm = folder.parent / "warm"
    TASKS[task](warm, model)  # imports and compiled code are not the subject
    begin = resource.getrusage(resource.RUSAGE_SELF)
    wall = time.monotonic()
    with Peak() as peak:
        TASKS[task](folder, model)
    end = resource.getrusage(resource.RUSAGE_SELF)
    seconds = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    print(json.dumps({"cpu": seconds, "wall": time.monotonic() - wall, "anonymous": peak.most}))


def measure(task: str, model: str, folder: Path) -> dict[str, float]:
    arguments = [sys.executable, __file__, "--worker", task, model, str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(arguments, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def table_of(n: int, k: int, d: int, folder: Path) -> str:
    pool = folder / "pool"
    write_world(pool, n, k, d)
    write_world(folder / "warm", 250_000, k, d)
    n_memory = min(n, PART_ROWS)
    lines = [
        f"n = {n:,} images in {len(list(pool.glob('*')))} parts, K = {k} sources, {d} features "
        "(float32), one worker; in memory: "
        f"{n_memory:,} images. Processor time, nanoseconds per image.",
        "",
        "| model | streamed, all passes and files | in memory, no files | "
        "reading and writing the columns | streamed / (1.5 × in memory + columns) | "
        "streamed / columns | anonymous memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in ("tilt", "strata"):
        seen = {task: measure(task, model, pool) for task in TASKS}
        per = {t: 1e9 * seen[t]["cpu"] / (n_memory if t == "in memory" else n) for t in TASKS}
        bar = per["streamed"] / (1.5 * per["in memory"] + per["columns"])
        lines.append(
            f"| {model} | {per['streamed']:.0f} | {per['in memory']:.0f} | {per['columns']:.0f} | "
            f"{bar:.2f} | {per['streamed'] / per['columns']:.2f} | "
            f"{seen['streamed']['anonymous'] / 2**30:.2f} GB |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sources", type=int, default=10)
    parser.add_argument("--features", type=int, default=4)
    parser.add_argument("--page", type=Path, help="the page whose table is replaced")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task, model, folder = options.worker
        worker(task, model, Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="unskew-scale-") as name:
        table = table_of(options.rows, options.sources, options.features, Path(name))
    print(table)
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        options.page.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
