"""Damaged Parquet parts, tables beside the images, and what later commands read: no crash.

``make fuzz`` tries thousands of mutants of each (UNSKEW_MUTANTS), others with each UNSKEW_SEED.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import unskew
from fuzz.mutation import json_mutants, mutants
from fuzz.test_formats import COUNT, FRAME, SEED, _check_all, _parquet, _write_and_read
from run_data import weigh, write_table_run
from unskew import Pool, Target
from unskew.bias import Strata
from unskew.files.checksums import LISTING
from unskew.runs.part_verification import read_listing
from unskew.simulation.files import POPULATION, TRUTH, TRUTH_RECORD
from unskew.simulation.truth import compare_with_truth
from unskew.sources.feature_tables import join_features
from unskew.splits.assignment import join_splits

POOL = Pool.from_frame(FRAME[["id", "source", "label"]], id="id")
PARTS = FRAME.fillna("dog")
VECTORS = PARTS[["id"]].assign(v=list(np.eye(40)[:, :3]))
LISTED = {"name": "0.parquet", "rows": 40, "weight": 1.0, "bytes": 9, "sha256": "0" * 64}
# Each takes some milliseconds more than a table.
SOME = max(COUNT // 4, 1)


def _weigh_parts(file: Path) -> None:
    pool = Pool.from_parquet(file)
    unskew.debias(pool, Strata("label"), Target.uniform("label"))


def _weigh_beside(file: Path) -> None:
    pool = Pool.from_parquet(file.with_name("own"), features=file)
    unskew.debias(pool, Strata("label"), Target.uniform("label"))


def _join(file: Path) -> None:
    join_features(POOL, file.name, file.parent, "id")


FORMATS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "part.parquet": (_parquet(PARTS), _weigh_parts),
    "beside.parquet": (_parquet(VECTORS), _weigh_beside),
    "vectors.parquet": (_parquet(VECTORS), _join),
    "features.csv": (FRAME[["id", "z"]].to_csv(index=False).encode(), _join),
    "splits.csv": (
        FRAME[["id"]].assign(split="test").to_csv(index=False).encode(),
        lambda file: join_splits(POOL, file),
    ),
    "weights.json": (
        json.dumps({"parts": [LISTED | {"input_bytes": 7}] * 2}).encode(),
        lambda file: read_listing(file.parent),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    content, read = FORMATS[name]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "0.parquet").write_bytes(_parquet(PARTS.drop(columns="z")))
    _write_and_read(tmp_path / name, content, read)
    contents = list(mutants(content, SOME, SEED))
    if name.endswith(".json"):
        contents += json_mutants(content, SOME, SEED)
    _check_all(tmp_path / name, contents, read)


def test_a_damaged_simulation_is_compared_or_refused(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    whole = {
        TRUTH: _parquet(FRAME[["id"]].assign(image=FRAME["id"], weight=1.0)),
        POPULATION: _parquet(FRAME),
        TRUTH_RECORD: json.dumps({"scenario": "s", "seed": 0}).encode(),
    }
    table = FRAME.drop(columns="z").assign(path=None, group=None, split=None, weight=1 / 40)
    table.assign(sample_weight=1.0).to_parquet(tmp_path / "results" / "weights.parquet")
    for name, content in whole.items():
        for other, text in whole.items():
            (tmp_path / other).write_bytes(text)
        contents = list(mutants(content, SOME // 2, SEED))
        if name == TRUTH_RECORD:
            contents += json_mutants(content, SOME, SEED)
        read = lambda file: compare_with_truth(file.parent, tmp_path / "results")  # noqa: E731
        _write_and_read(tmp_path / name, content, read)
        _check_all(tmp_path / name, contents, read)


@pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
def test_damaged_results_are_verified_or_refused(tmp_path: Path) -> None:
    """Each file in turn, without the list of checksums, which would say it first."""
    out = weigh(write_table_run(tmp_path))
    (out / LISTING).unlink()
    for file in sorted(out.iterdir()):
        content = file.read_bytes()
        _check_all(
            file,
            list(mutants(content, max(COUNT // 60, 1), SEED)),
            lambda file: unskew.verify_run(file.parent, progress=False),
        )
        file.write_bytes(content)
    assert all(check.ok for check in unskew.verify_run(out, progress=False))
