"""Files as they are read: regular ones only, within limits, damage named."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raising import refused
from run_data import error_of
from unskew.config.run_config import read_config
from unskew.errors import ConfigError, DataError
from unskew.files.reading import (
    LIMIT_VARIABLE,
    check_unpacked,
    opened_tar,
    opened_zip,
    parse_json,
    read_json,
    read_parquet,
    read_text,
    unpacked_limit,
)
from unskew.sources.tables import read_table


@pytest.mark.parametrize("name", ["run.toml", "table.csv", "table.parquet", "arrays.npz", "r.json"])
def test_a_pipe_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    if name == "run.toml":
        with refused(ConfigError, path=str(pipe)):
            read_config(pipe)
    elif name.startswith("table"):
        with refused(ConfigError, path=str(pipe)):
            read_table(str(pipe), str(pipe))
    elif name == "r.json":
        with refused(DataError, path=str(pipe)):
            read_json(pipe)
    else:
        with refused(DataError, path=str(pipe)), opened_zip(pipe):
            pass


@pytest.mark.parametrize("command", ["check", "describe", "init"])
def test_devices_and_pipes_on_the_command_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path in ("/dev/zero", str(tmp_path / "pipe.csv")):
        assert error_of([command, path], capsys)["exit_code"] == 2


def test_damaged_metadata_of_pandas_loses_no_column(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "z": [1.0, 2.0]})
    broken = table.replace_schema_metadata({b"pandas": b'{"index_columns": [3], "columns": 7}'})
    pq.write_table(broken, tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet")["z"].tolist() == [1.0, 2.0]


def test_a_small_file_that_unpacks_to_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file may unpack to a gigabyte; here the limit is 10 kB."""
    frame = pd.DataFrame({"source": ["a"] * 5000, "z": 0.0})
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        stream = io.BytesIO()
        np.save(stream, np.zeros(5000))
        archive.writestr("z.npy", stream.getvalue())
    assert len(read_parquet(tmp_path / "t.parquet")) == 5000
    monkeypatch.setenv(LIMIT_VARIABLE, "1e4")
    for name in ("t.parquet", "t.csv.gz"):
        with refused(DataError, limit=10_000):
            read_table(str(tmp_path / name), name)
    with refused(DataError, limit=10_000), opened_zip(tmp_path / "t.npz"):
        pass


def test_the_limit_grows_with_the_file_and_ends_at_half_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert unpacked_limit(1000) == 2**30
    assert unpacked_limit(10**15) == max(2**30, memory // 2)
    for wrong in ("much", "-1", "0", "inf", "nan"):
        monkeypatch.setenv(LIMIT_VARIABLE, wrong)
        with refused(ConfigError, option=LIMIT_VARIABLE, value=wrong):
            check_unpacked(1, "file", 1)


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\xff\xfe")
    with refused(DataError, path=str(tmp_path / "t")):
        read_text(tmp_path / "t")
    for text in ('"\\ud800"', "[" * 10**5, "9" * 5000):
        with pytest.raises((ValueError, RecursionError)):
            parse_json(text)
    assert parse_json('"\\u00e9\\ud83d\\ude00"') == "é😀"


@pytest.mark.parametrize("encoding", [None, {"text": "DELTA_BYTE_ARRAY"}])
def test_a_text_that_a_parquet_file_repeats_is_counted_before_it_is_written_out(
    encoding: dict[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 bytes of the file are 20 kB for each of 1,000 rows; the footer does not tell."""
    table = pa.table({"text": pa.array(["x" * 20_000] * 1000), "z": pa.array(np.zeros(1000))})
    options = {"use_dictionary": ["z"], "column_encoding": encoding} if encoding else {}
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", **options)
    monkeypatch.setenv(LIMIT_VARIABLE, "2e6")
    with refused(DataError, limit=2_000_000):
        read_parquet(tmp_path / "t.parquet")
    monkeypatch.setenv(LIMIT_VARIABLE, "4e7")
    assert read_parquet(tmp_path / "t.parquet")["text"].str.len().eq(20_000).all()


def test_long_texts_are_read_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One long text among short ones is no bomb; what was a category stays one."""
    texts = pa.array(["x" * 50_000, *("y" * (row % 7) for row in range(999))])
    table = pa.table({"text": texts, "kind": texts.dictionary_encode(), "z": range(1000)})
    pq.write_table(table, tmp_path / "t.parquet")
    monkeypatch.setenv(LIMIT_VARIABLE, "1e6")
    read = read_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read, table.to_pandas())


def test_headers_of_an_archive_count_as_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = tarfile.TarInfo("data")
    member.pax_headers = {"comment": "x" * 200_000}
    for mode in ("w:gz", "w:bz2", "w:xz", "w"):
        with tarfile.open(tmp_path / "t.tar", mode, format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(member)
        monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
        with opened_tar(tmp_path / "t.tar") as archive:
            assert [one.name for one in archive] == ["data"]
        monkeypatch.setenv(LIMIT_VARIABLE, "1e5")
        with refused(DataError, limit=100_000), opened_tar(tmp_path / "t.tar") as archive:
            list(archive)


@pytest.mark.parametrize("name", ["run.toml", "t.csv", "t.jsonl", "r.json"])
def test_a_file_of_holes_is_not_read(name: str, tmp_path: Path) -> None:
    """It claims a terabyte, and takes no place on the disk."""
    with (tmp_path / name).open("wb") as file:
        file.truncate(10**12)
    readers = {"run.toml": read_config, "r.json": read_json}
    read = readers.get(name, lambda path: read_table(str(path), name))
    with pytest.raises(ConfigError if name == "run.toml" else DataError, match=name):
        read(tmp_path / name)
