from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unskew.engine.block_engines import opened_engine
from unskew.engine.written_blocks import OutputFile, missing_files, write_files
from unskew.errors import DataError

WRITTEN: list[str] = []
FILES = [OutputFile(f"{folder}/f{n}", f"key {n}", ()) for folder in "ab" for n in range(3)]


def write(file: OutputFile, state: str, path: Path) -> int:
    if state == file.name:
        raise DataError("stopped here")
    WRITTEN.append(file.name)
    path.write_text(f"{file.key} {state}")
    return len(file.key)


def test_a_rerun_writes_only_what_is_missing(tmp_path: Path) -> None:
    WRITTEN.clear()
    with opened_engine(None) as engine:
        with pytest.raises(DataError, match="stopped here"):
            write_files(engine, write, FILES, "b/f1", tmp_path)
        assert not (tmp_path / "b/f1").exists()
        before = list(WRITTEN)
        assert write_files(engine, write, FILES, "", tmp_path) == [5] * 6
        assert sorted(WRITTEN) == sorted(file.name for file in FILES)
        assert set(before) < set(WRITTEN)
        assert missing_files(FILES, tmp_path) == []


def test_what_was_made_of_something_else_or_was_cut_is_written_again(tmp_path: Path) -> None:
    with opened_engine(None) as engine:
        write_files(engine, write, FILES, "", tmp_path)
        (tmp_path / "a/f0").write_text("cut")
        (tmp_path / "a/f1").unlink()
        other = [*FILES[:-1], replace(FILES[-1], key="another")]
        WRITTEN.clear()
        write_files(engine, write, other, "", tmp_path)
    assert sorted(WRITTEN) == ["a/f0", "a/f1", "b/f2"]
