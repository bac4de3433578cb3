"""Addresses: tables and images are read there, results written there, secrets never repeated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import unskew
from raising import refused
from unskew.files.addresses import _size_of, joined, local_file, read_address, uploaded_folder


def test_the_mark_of_completeness_is_written_last(memory: Any) -> None:
    written: list[str] = []
    opened = type(memory)._open

    def note(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        written.append(path) if "w" in mode else None
        return opened(self, path, mode, **options)

    with pytest.MonkeyPatch.context() as patch, uploaded_folder("memory://a/out") as folder:
        folder.mkdir()
        for name in ("files.json", "weights.parquet", "a.txt"):
            (folder / name).write_text(name)
        patch.setattr(type(memory), "_open", note)
    assert written[-1].endswith("files.json")
    with uploaded_folder("memory://a/out", overwrite=True) as folder:
        folder.mkdir()
        (folder / "b.txt").write_text("b")
    assert memory.ls("/a/out", detail=False) == ["/a/out/b.txt"]


@pytest.mark.parametrize(
    "address", ["s3://key:SECRET@bucket/t.csv", "https://host/t.csv?sig=SECRET"]
)
def test_credentials_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(unskew.ConfigError) as caught:
        unskew.Pool.from_manifest(address)
    assert "SECRET" not in f"{caught.value}{vars(caught.value)}"


def test_what_a_server_answers_is_not_repeated(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("denied for key SECRET")

    memory.pipe("/t.csv", b"source\na\n")
    monkeypatch.setattr(type(memory), "_open", fail)
    with pytest.raises(unskew.DataError, match="RuntimeError") as caught:
        unskew.Pool.from_manifest("memory://t.csv", images=False)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(unskew.ConfigError, match="nowhere"):
        unskew.Pool.from_manifest("nowhere://t.csv")


def test_paths_are_joined_within_an_address() -> None:
    assert joined("s3://b/img", "a/../b.jpg") == "s3://b/img/b.jpg"
    assert joined("/data", "s3://b/x") == "s3://b/x"
    assert joined("/data", "x") == "/data/x"


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_a_pipe_or_a_device_is_refused_at_an_address_too(scheme: str, tmp_path: Path) -> None:
    """It would be read without end, or wait for a writer."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zero.csv", ""):
        address = f"{scheme}://{tmp_path / name}"
        with refused(unskew.DataError):
            read_address(address, 100)
        with refused(unskew.DataError), local_file(".", address):
            pass


@pytest.mark.parametrize("claimed", [3, None, 10**18])
def test_a_server_sends_what_it_claims_and_no_more(
    claimed: int | None, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/t.csv", b"source\na\n")
    monkeypatch.setenv("UNSKEW_MAX_UNPACKED", "5")  # where nothing is claimed
    monkeypatch.setattr("unskew.files.addresses._size_of", lambda *_: claimed)
    with refused(unskew.DataError), local_file(".", "memory://t.csv"):
        pass
    monkeypatch.setattr("unskew.files.addresses._size_of", _size_of)
    with local_file(".", "memory://t.csv") as file:
        assert Path(file).read_bytes() == b"source\na\n"
