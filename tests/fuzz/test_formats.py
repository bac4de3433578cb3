"""Damaged files of every format that we read: computed, or refused by a typed error; no crash.

``make fuzz`` tries thousands of mutants of each (UNSKEW_MUTANTS), others with each UNSKEW_SEED.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fuzz.mutation import json_mutants, mutants
from report.page.samples import small_summary
from unskew.config.run_config import read_config
from unskew.engine.row_blocks import _open_path
from unskew.errors import UnskewError
from unskew.report.summary.plain import summary_to_json
from unskew.represent.decode import decode_image, pillow_unlimited
from unskew.runs.evaluate import read_attributes, read_memberships_table, run_rules
from unskew.runs.page_panels import page_of
from unskew.runs.projections import read_projection
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources
from unskew.target.predictions import _read_table
from unskew.target.settings import _read_csv
from unskew.training.folder import read_record
from unskew.weigh.weights_table import read_weights_table

COUNT = int(os.environ.get("UNSKEW_MUTANTS", "80"))
SEED = int(os.environ.get("UNSKEW_SEED", "0"))
# A mutant takes milliseconds; one that takes this long would hang a run on many files.
SECONDS = 5.0
# Pages take long to render, networks to be made.
SLOW = {"report.json": 8, "model.pt": 4}
FRAME = pd.DataFrame(
    {
        "id": [f"i{row}" for row in range(40)],
        "source": ["a", "b"] * 20,
        "label": ["cat", "dog", "cat", None] * 10,
        "z": np.linspace(0, 1, 40),
    }
)
TOML = """folder = "."
[sources]
manifest = "t.csv"
images = false
[represent]
features = ["sharpness", { name = "border_hsv", width = 4 }]
[target]
margins.label = { cat = 0.5, dog = 0.5 }
[bias]
family = "product"
[[bias.factors]]
family = "strata"
by = ["label"]
[[bias.factors]]
family = "subpopulation"
queries = { a = "z > 0.1 and label.isin(['cat'])", b = "all" }
[engine]
seed = 3
"""


def _parquet(frame: pd.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.to_parquet(stream)
    return stream.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def _stored(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones((20, 2)))
    return stream.getvalue()


def _image(kind: str) -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def _sources(file: Path) -> None:
    pool = read_sources(find_sources([file], file.parent), file.parent)
    if pool.images is not None:
        for row in range(min(2, len(pool))):
            pool.images.read(row)


def _table(file: Path) -> None:
    read_sources({**find_sources([file], file.parent), "images": False}, file.parent)


def _decoded(file: Path) -> None:
    with pillow_unlimited():
        decode_image(file.read_bytes())
        decode_image(file.read_bytes(), side=8)


def _all_blocks(file: Path) -> None:
    for _block in _open_path(file):
        pass


IMAGES = {"images": np.zeros((6, 8, 8, 3), np.uint8), "source": np.array(["a", "b"] * 3)}
COCO = json.dumps(
    {
        "images": [{"id": at, "file_name": f"{at}.jpg", "site": "ab"[at % 2]} for at in range(8)],
        "annotations": [{"id": at, "image_id": at, "category_id": at % 2} for at in range(8)],
        "categories": [{"id": at, "name": "xy"[at]} for at in range(2)],
    }
).encode()
WEIGHTS = FRAME.drop(columns="z").assign(
    path=None, group=None, split="test", weight=1 / 40, sample_weight=1.0
)
PROJECTION = {
    f"embedding.{part}": values
    for part, values in {
        "mean": np.zeros(5),
        "axis": np.eye(5)[:2],
        "variance": np.ones(2),
        "numbers": np.array([3.0, 0.0, 40.0]),
    }.items()
}
RECORD = {"status": "finished", "arm": "a", "arms": {}, "classes": ["x"], "preprocessing": {}}
CSV = FRAME.to_csv(index=False).encode()
JSONL = FRAME.to_json(orient="records", lines=True).encode()
# File name -> (its content, what reads it).
FORMATS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "run.toml": (TOML.encode(), read_config),
    "table.csv": (CSV, _sources),
    "table.tsv": (CSV.replace(b",", b"\t"), _sources),
    "table.csv.gz": (gzip.compress(CSV, mtime=0), _sources),
    "table.jsonl": (JSONL, _sources),
    "table.json": (FRAME.to_json(orient="records").encode(), _sources),
    "coco.json": (COCO, _table),
    "table.parquet": (_parquet(FRAME.set_index("id")), _sources),
    "compressed.npz": (_npz(**IMAGES), _sources),
    "stored.npz": (_stored(**IMAGES), _sources),
    "weights.parquet": (_parquet(WEIGHTS), read_weights_table),
    "features.parquet": (
        _parquet(FRAME.assign(content="c")),
        lambda file: read_attributes(file, ["z", "label*source"], FRAME),
    ),
    "memberships.parquet": (_parquet(FRAME), lambda file: read_memberships_table(file.parent)),
    "report.json": (
        summary_to_json(small_summary()).encode(),
        lambda file: (run_rules(file.parent), page_of(file)),
    ),
    "training.json": (json.dumps(RECORD).encode(), lambda file: read_record(file.parent)),
    "projections.npz": (_stored(**PROJECTION), lambda file: read_projection(file, "embedding")),
    "margins.csv": (b"label,share\ncat,0.5\n01,0.5\n", _read_csv),
    "scores.parquet": (_parquet(FRAME), _read_table),
    "omega.npy": (_npy(), _all_blocks),
    "omega.parquet": (_parquet(FRAME[["z"]].assign(w=1.0)), _all_blocks),
    **{f"image.{kind.lower()}": (_image(kind), _decoded) for kind in ("JPEG", "PNG", "WEBP")},
    **{f"image.{kind.lower()}": (_image(kind), _decoded) for kind in ("GIF", "BMP", "TIFF", "QOI")},
}


def _tried(file: Path, content: bytes, read: Callable[[Path], object]) -> str | None:
    """Return what is wrong with how a mutant was received, or None."""
    file.write_bytes(content)
    start = time.process_time()  # the machine may be busy
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(file)
    except UnskewError as error:
        if not str(error):
            return "an error without a message"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    took = time.process_time() - start
    return f"{took:.1f} seconds" if took > SECONDS else None


def _write_and_read(file: Path, content: bytes, read: Callable[[Path], object]) -> None:
    """Read what is not damaged: a reader that refuses everything would pass for a good one."""
    file.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(file)


def _check_all(file: Path, contents: list[bytes], read: Callable[[Path], object]) -> None:
    wrong = {at: _tried(file, content, read) for at, content in enumerate(contents)}
    wrong = {at: what for at, what in wrong.items() if what is not None}
    assert not wrong, f"{len(wrong)} of {len(contents)} mutants: {list(wrong.items())[:5]}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    content, read = FORMATS[name]
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    _write_and_read(tmp_path / name, content, read)
    _check_all(tmp_path / name, list(mutants(content, COUNT // SLOW.get(name, 1), SEED)), read)


@pytest.mark.parametrize("name", ["report.json", "coco.json", "table.json", "training.json"])
def test_a_document_whose_parts_disagree_is_read_or_refused(name: str, tmp_path: Path) -> None:
    content, read = FORMATS[name]
    contents = list(json_mutants(content, COUNT // SLOW.get(name, 1), SEED))
    _check_all(tmp_path / name, contents, read)


def test_a_damaged_model_is_read_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from small_trainings import small_data, small_settings
    from unskew.learn import load_trained, train_model

    train_model(small_data(), small_settings(epochs=1), tmp_path, logs=False)
    file = tmp_path / "model.pt"
    contents = list(mutants(file.read_bytes(), COUNT // SLOW["model.pt"], SEED))
    _check_all(file, contents, lambda file: load_trained(file.parent))


def test_the_mutants_are_the_same_for_the_same_seed() -> None:
    assert list(mutants(CSV, 20, seed=3)) == list(mutants(CSV, 20, seed=3))
    assert len(set(mutants(CSV, 50))) > 40
