"""Files are written completely or not at all, also by several threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from raising import refused
from unskew import ConfigError, DataError
from unskew.files import atomic
from unskew.files.atomic import (
    check_new_file,
    folder_written_whole,
    may_write,
    nearest_existing,
    write_text,
    written_together,
    written_whole,
)
from unskew.files.checksums import LISTING, UNFINISHED


def _contents(folder: Path) -> dict[str, str]:
    """Every file below a folder but files.json, hidden ones too, with its text."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != LISTING]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_text_is_written_as_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "Größe\n")
    assert (tmp_path / "a.txt").read_bytes() == "Größe\n".encode()
    assert _contents(tmp_path) == {"a.txt": "Größe\n"}


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    (tmp_path / "a.txt").write_text("old")

    def write() -> None:
        with written_whole(tmp_path / "a.txt") as temporary:
            temporary.write_text("half of the new te")
            assert (tmp_path / "a.txt").read_text() == "old"
            raise kind

    with pytest.raises(kind):
        write()
    assert _contents(tmp_path) == {"a.txt": "old"}


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with (
        refused(DataError, path=str(tmp_path / "a.txt")) as caught,
        written_whole(tmp_path / "a.txt") as temporary,
    ):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")
    assert "No space left on device" in str(caught.value)
    assert _contents(tmp_path) == {"a.txt": "old"}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for write in (written_whole, folder_written_whole):
        with refused(DataError, path=str(tmp_path / "no")), write(tmp_path / "no" / "a.txt"):
            pytest.fail("the block runs")


def test_two_threads_that_write_one_file_leave_the_text_of_one(tmp_path: Path) -> None:
    path, texts = tmp_path / "a.txt", ["a" * 200_000, "b" * 200_000]
    both, errors = threading.Barrier(2), []

    def write(text: str) -> None:
        try:
            for _ in range(20):
                both.wait(timeout=60)
                write_text(path, text)
                assert path.read_text() in texts
        except BaseException as error:
            errors.append(error)
            both.abort()

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_text() in texts
    assert list(_contents(tmp_path)) == ["a.txt"]


def test_files_written_together_replace_those_of_the_run_before(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for names in (("a", "b"), ("b", "c")):
        with written_together(out, ["a", "b", "c"]) as folder:
            for name in names:
                (folder / name).write_text("".join(names))
        (out / "notes.txt").write_text("mine")
    assert _contents(out) == {"b": "bc", "c": "bc", "notes.txt": "mine"}
    assert not list(out.glob(f"{UNFINISHED}*"))


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_files_of_a_failed_run_are_not_mixed_with_those_before(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").write_text("old")

    def write(out: Path) -> None:
        with written_together(out, ["a", "b"]) as folder:
            (folder / "b").write_text("new")
            raise kind

    for out in (tmp_path / "old", tmp_path / "new"):
        with pytest.raises(kind):
            write(out)
    assert _contents(tmp_path) == {"old/a": "old"}
    assert not (tmp_path / "new").exists()


def test_errors_name_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with refused(DataError, path=str(out / "deep")) as caught, written_together(out, []) as folder:
        write_text(folder / "deep" / "a.txt", "text")
    assert UNFINISHED not in str(caught.value)
    with refused(DataError, path=str(out)), written_together(out, []):
        raise OSError(28, "No space left on device")


def test_what_an_error_carries_survives(tmp_path: Path) -> None:
    with refused(DataError, column="x", count=3), written_together(tmp_path / "out", []):
        raise DataError("x is missing for 3 images", column="x", count=3)


def test_a_folder_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("a", "b"):
        with folder_written_whole(out) as folder:
            (folder / name).write_text(name)
    assert _contents(tmp_path) == {"out/b": "b"}

    def fail() -> None:
        with folder_written_whole(out) as folder:
            (folder / "c").write_text("c")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert _contents(tmp_path) == {"out/b": "b"}


def test_a_folder_that_cannot_be_replaced_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "exchange_paths", lambda one, other: False)
    out, replace = tmp_path / "out", Path.replace
    with folder_written_whole(out) as folder:
        (folder / "a").write_text("a")

    def fails(path: Path, target: Path) -> Path:
        if path.name.endswith(".part"):
            raise OSError(5, "Input/output error")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fails)
    with refused(DataError, path=str(out)), folder_written_whole(out) as folder:
        (folder / "b").write_text("b")
    assert _contents(tmp_path) == {"out/a": "a"}


def test_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert nearest_existing(tmp_path / "a" / "b" / "c") == tmp_path
    assert nearest_existing(tmp_path) == tmp_path
    assert may_write(tmp_path / "a" / "b")


def test_a_new_file_is_checked_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    check_new_file(tmp_path / "new", overwrite=False)
    check_new_file(tmp_path / "there", overwrite=True)
    for path, culprit in (
        (tmp_path / "there", tmp_path / "there"),
        (tmp_path, tmp_path),
        (tmp_path / "no" / "new", tmp_path / "no"),
    ):
        with refused(ConfigError, path=str(culprit)):
            check_new_file(path, overwrite=False)
