"""Damaged archives of CIFAR, pairs, lists of checksums, and states of monitor: no crash, no harm.

``make fuzz`` tries thousands of mutants of each (UNSKEW_MUTANTS), others with each UNSKEW_SEED.
"""

from __future__ import annotations

import gzip
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from evaluation.test_pairs import make_pairs
from fuzz.mutation import json_mutants, mutants
from fuzz.test_formats import COUNT, SEED, _check_all, _tried, _write_and_read
from monitored_run import write_monitored_run
from sources.cifar_archives import members_100, pack, python_2_pickle, unpack
from unskew import evaluate_pairs, monitor_run
from unskew.files.atomic import written_together
from unskew.files.checksums import LISTING, check_files
from unskew.runs.monitor import IMAGES, STATE
from unskew.sources.cifar import read_cifar
from unskew.sources.pickled_arrays import load_arrays

# A look takes a tenth of a second.
LOOKS = max(COUNT // 16, 1)


def _batch(form: str) -> bytes:
    data, labels = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072), [3, 4]
    if form == "python 2":
        return python_2_pickle(data, [labels], [b"labels"])
    return pickle.dumps({b"data": data, b"labels": labels}, protocol=int(form))


@pytest.mark.parametrize("form", ["python 2", "0", "2", "5"])
def test_a_damaged_pickle_is_read_or_refused(form: str, tmp_path: Path) -> None:
    contents = mutants(_batch(form), COUNT, SEED)
    _check_all(tmp_path / "batch", list(contents), lambda file: load_arrays(file.read_bytes(), "b"))


@pytest.mark.parametrize("form", ["binary", "python"])
def test_a_damaged_archive_of_cifar_is_read_or_refused(form: str, tmp_path: Path) -> None:
    """Packed; unpacked, each file in turn; and damaged before it was packed."""
    members = members_100(form)
    file = pack(tmp_path / f"cifar-100-{form}.tar.gz", members)
    whole = file.read_bytes()
    _write_and_read(file, whole, _read_cifar)
    plain = [gzip.compress(one, 1) for one in mutants(gzip.decompress(whole), COUNT // 2, SEED)]
    _check_all(file, [*mutants(whole, COUNT // 2, SEED), *plain], _read_cifar)
    unpack(tmp_path, members)
    for name, content in members.items():
        _check_all(
            tmp_path / name,
            list(mutants(content, COUNT // 4, SEED)),
            lambda file: _read_cifar(file.parent),
        )
        (tmp_path / name).write_bytes(content)


def _read_cifar(file: Path) -> object:
    return read_cifar(file, verify=False)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_damaged_pairs_are_judged_or_refused(kind: str, tmp_path: Path) -> None:
    table, pairs = make_pairs(persons=6, images=2)
    file = tmp_path / f"pairs.{kind}"
    if kind == "csv":
        pairs.to_csv(file, index=False)
    elif kind == "parquet":
        pairs.to_parquet(file)
    else:
        pairs.to_json(file, orient="records", lines=True)
    content = file.read_bytes()

    def judge(file: Path) -> object:
        return evaluate_pairs(table, file, roc=False)

    _write_and_read(file, content, judge)
    _check_all(file, list(mutants(content, COUNT // 2, SEED)), judge)


def test_a_damaged_list_of_checksums_touches_nothing_else(tmp_path: Path) -> None:
    """Neither by a reader, who finishes what a killed run left, nor by the next writer."""
    out, mine = tmp_path / "out", {"mine": b"mine", "out/mine": b"my notes"}
    with written_together(out, "ab") as folder:
        (folder / "a").write_text("a")
    content = (out / LISTING).read_bytes()
    unfinished = content.rstrip().removesuffix(b"}") + (
        b', "unfinished": {"folder": ".unfinished-1", "removed": ["b"]}}'
    )

    def use(file: Path) -> None:
        try:
            check_files(out, ["a", "b"])
        finally:
            with written_together(out, "ab") as folder:
                (folder / "a").write_text("a")

    for name, text in mine.items():
        (tmp_path / name).write_bytes(text)
    for one in (content, unfinished):
        some = max(COUNT // 2, 1)
        contents = [*mutants(one, some, SEED), *json_mutants(one, some, SEED)]
        for each in contents:
            (out / ".unfinished-1").mkdir(exist_ok=True)
            (out / ".unfinished-1" / "a").write_text("new")
            wrong = _tried(out / LISTING, each, use)
            assert wrong is None, (wrong, each)
            assert {name: (tmp_path / name).read_bytes() for name in mine} == mine, each
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


@pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
def test_a_damaged_state_of_monitor_is_continued_or_refused(tmp_path: Path) -> None:
    folder = write_monitored_run(tmp_path)
    monitor_run(folder / "out", folder / "day1.csv", state=tmp_path / "first")
    (tmp_path / "first" / LISTING).unlink()  # else the checksum says it

    def look(file: Path) -> None:
        home = file.with_name("s")
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(tmp_path / "first", home)
        shutil.copy(file, home / file.name.removeprefix("damaged-"))
        monitor_run(folder / "out", folder / "day23.csv", batch="day", state=home, progress=False)

    state = (tmp_path / "first" / STATE).read_bytes()
    images = (tmp_path / "first" / IMAGES).read_bytes()
    _check_all(tmp_path / f"damaged-{STATE}", list(mutants(state, LOOKS, SEED)), look)
    _check_all(tmp_path / f"damaged-{STATE}", list(json_mutants(state, LOOKS, SEED)), look)
    _check_all(tmp_path / f"damaged-{IMAGES}", list(mutants(images, LOOKS, SEED)), look)
