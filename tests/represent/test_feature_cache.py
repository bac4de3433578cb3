"""The cache: a second run computes nothing, a changed image is computed anew, damage and company do
no harm.
"""

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from raising import refused
from represent.picture_pools import GivenImages, encoded, pool_of, random_pixels, smooth_pixels
from unskew.errors import DataError, ImageError
from unskew.represent.base import Representation
from unskew.represent.exif import Exif
from unskew.represent.feature_cache import KEY_DTYPE, Shelf, hash_images, open_shelf
from unskew.represent.pool_features import represent_images

FEATURES = ["border_hsv", "brightness", "size", "exif"]


def _files(folder: Path, n: int = 10, settle: bool = True) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{at}.png" for at in range(n)]
    for at, path in enumerate(paths):
        path.write_bytes(encoded(smooth_pixels(40, 50, at)))
        if settle:
            os.utime(path, (1_600_000_000, 1_600_000_000))
    return paths


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each image that was opened."""
    from unskew.represent import image_tasks as work

    opened: list[int] = []
    picture = work.Picture
    monkeypatch.setattr(
        work, "Picture", lambda raw, limit: opened.append(len(raw)) or picture(raw, limit)
    )
    return opened


def test_nothing_is_written_where_a_link_in_the_cache_leads(tmp_path: Path) -> None:
    """A stranger's folder may hold a cache, and links in the place of its shelves."""
    paths, mine = _files(tmp_path / "images", 2), tmp_path / "mine"
    represent_images(pool_of(paths), FEATURES, cache=tmp_path / "cache")
    mine.mkdir()
    for shelf in (tmp_path / "cache").iterdir():
        shelf.rename(tmp_path / shelf.name)
        shelf.symlink_to(mine)
    with refused(DataError):
        represent_images(pool_of(paths), FEATURES, cache=tmp_path / "cache")
    assert not list(mine.iterdir())


def test_a_second_run_computes_and_reads_nothing(tmp_path: Path, decoded: list[int]) -> None:
    paths = _files(tmp_path / "images")
    first_pool, second_pool = pool_of(paths), pool_of(paths)
    first = represent_images(first_pool, FEATURES, cache=tmp_path / "cache").frame
    assert len(decoded) == len(first_pool.images.reads) == 10
    second = represent_images(second_pool, FEATURES, cache=tmp_path / "cache").frame
    pd.testing.assert_frame_equal(second, first, check_exact=True)
    assert len(decoded) == 10
    assert second_pool.images.reads == []
    pd.testing.assert_frame_equal(
        represent_images(first_pool, FEATURES).frame, first, check_exact=True
    )


def test_a_changed_image_is_computed_again(tmp_path: Path, decoded: list[int]) -> None:
    paths = _files(tmp_path / "images")
    before = represent_images(pool_of(paths), FEATURES, cache=tmp_path / "cache").frame
    paths[3].write_bytes(encoded(smooth_pixels(40, 50, 77)))
    pool = pool_of(paths)
    after = represent_images(pool, FEATURES, cache=tmp_path / "cache").frame
    assert pool.images.reads == [3]
    assert len(decoded) == 11
    assert (after["brightness"] != before["brightness"]).tolist() == [at == 3 for at in range(10)]
    np.testing.assert_array_equal(
        after["brightness"], represent_images(pool_of(paths), FEATURES).frame["brightness"]
    )


def test_a_file_of_just_now_is_read_again_because_its_time_may_not_tell(tmp_path: Path) -> None:
    """Same size, same time of change, other content: a clock that ticks in steps must not hide
    it.
    """
    paths = _files(tmp_path / "images", 2, settle=False)
    for path in paths:
        path.write_bytes(encoded(np.full((8, 8, 3), 10, np.uint8), "BMP"))
    before = represent_images(pool_of(paths), "brightness", cache=tmp_path / "cache").frame[
        "brightness"
    ]
    status = paths[0].stat()
    paths[0].write_bytes(encoded(np.full((8, 8, 3), 20, np.uint8), "BMP"))
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    after = represent_images(pool_of(paths), "brightness", cache=tmp_path / "cache").frame[
        "brightness"
    ]
    assert (before * 255).round().tolist() == [10, 10]
    assert (after * 255).round().tolist() == [20, 10]


def test_files_of_one_size_and_time_that_swap_their_names_differ(tmp_path: Path) -> None:
    """As unpacked from an archive that gives all files one time; uncompressed images have one
    size.
    """
    paths = [tmp_path / f"{at}.bmp" for at in range(2)]
    for at, path in enumerate(paths):
        path.write_bytes(encoded(np.full((8, 8, 3), 100 * at, dtype=np.uint8), "BMP"))
        os.utime(path, (1_600_000_000, 1_600_000_000))
    before = (
        represent_images(pool_of(paths), "brightness", cache=tmp_path / "cache")
        .frame["brightness"]
        .tolist()
    )
    paths[0].rename(tmp_path / "beside")
    paths[1].rename(paths[0])
    (tmp_path / "beside").rename(paths[1])
    after = (
        represent_images(pool_of(paths), "brightness", cache=tmp_path / "cache")
        .frame["brightness"]
        .tolist()
    )
    assert after == before[::-1] != before


def test_moved_images_and_arrays_are_known_by_their_content(
    tmp_path: Path, decoded: list[int]
) -> None:
    paths = _files(tmp_path / "images")
    represent_images(pool_of(paths), FEATURES, cache=tmp_path / "cache")
    moved = [path.rename(tmp_path / f"moved-{path.name}") for path in paths]
    represent_images(pool_of(moved), FEATURES, cache=tmp_path / "cache")
    assert len(decoded) == 10
    arrays = [random_pixels(seed=seed) for seed in range(5)]
    represent_images(pool_of(arrays), FEATURES, cache=tmp_path / "cache")
    represent_images(pool_of(arrays[::-1]), FEATURES, cache=tmp_path / "cache")
    assert len(decoded) == 15


def test_one_of_many_images_in_a_file_is_not_known_by_that_file(tmp_path: Path) -> None:
    """A container vouches for none of its images: other rows of it are other images."""

    container = tmp_path / "container.npz"
    container.write_bytes(bytes(5000))
    os.utime(container, (1_600_000_000, 1_600_000_000))

    class Contained(GivenImages):
        def place(self, row: int) -> str:
            return str(container)

    for seed in (1, 2):
        image = encoded(random_pixels(seed=seed))
        pool = pool_of([image])
        held = type(pool)(pool.frame, Contained([image]))
        kept = represent_images(held, "brightness", cache=tmp_path / "cache").frame["brightness"]
        assert kept[0] == represent_images(pool, "brightness").frame["brightness"][0]


def test_more_features_compute_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unskew.represent.color import Brightness

    arrays = [random_pixels(seed=seed) for seed in range(5)]
    represent_images(pool_of(arrays), ["brightness"], cache=tmp_path)
    monkeypatch.setattr(Brightness, "compute", None)
    both = represent_images(pool_of(arrays), ["contrast", "brightness"], cache=tmp_path).frame
    assert list(both.columns[-2:]) == ["contrast", "brightness"]
    assert both["brightness"].notna().all()


def test_settings_and_versions_have_shelves_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unskew.represent.color import BorderHsv

    arrays = [random_pixels(seed=seed) for seed in range(3)]
    two = represent_images(pool_of(arrays), "border_hsv", cache=tmp_path).frame["border_hsv_s"]
    five = represent_images(
        pool_of(arrays), {"name": "border_hsv", "width": 5}, cache=tmp_path
    ).frame["border_hsv_s"]
    assert (two != five).all()
    assert len(list(tmp_path.glob("border_hsv-*"))) == 2
    monkeypatch.setattr(BorderHsv, "version", 2)
    monkeypatch.setattr(BorderHsv, "compute", lambda self, batch: np.full((len(batch), 3), 7.0))
    assert (
        represent_images(pool_of(arrays), "border_hsv", cache=tmp_path).frame["border_hsv_s"] == 7.0
    ).all()


def test_a_damaged_file_is_set_aside_and_its_values_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arrays = [random_pixels(seed=seed) for seed in range(5)]
    first = represent_images(pool_of(arrays), FEATURES, cache=tmp_path).frame
    for damage in (b"", b"PAR1 nothing", None, "a pipe"):
        for part in list(tmp_path.glob("*/part-*.parquet")):
            content = part.read_bytes()[:-20] if damage is None else damage
            part.unlink()
            os.mkfifo(part) if content == "a pipe" else part.write_bytes(content)
        again = represent_images(pool_of(arrays), FEATURES, cache=tmp_path).frame
        pd.testing.assert_frame_equal(again, first, check_exact=True)
    assert "set aside" in caplog.text
    assert list(tmp_path.glob("*/*.corrupt"))


def test_no_flipped_bit_of_the_cache_changes_a_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anywhere in the file: values, keys, page headers, what describes them at its end."""
    arrays = [random_pixels(seed=seed) for seed in range(5)]
    first = represent_images(pool_of(arrays), "border_hsv", cache=tmp_path).frame
    (part,) = tmp_path.glob("border_hsv-*/part-*.parquet")
    whole = part.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.choice(len(whole), 60, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        part.write_bytes(damaged)
        caplog.clear()
        again = represent_images(pool_of(arrays), "border_hsv", cache=tmp_path).frame
        pd.testing.assert_frame_equal(again, first, check_exact=True)
        assert str(part) in caplog.text
        assert part.read_bytes() == whole


def test_values_that_vanish_from_the_cache_in_mid_run_are_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = [random_pixels(seed=seed) for seed in range(5)]
    first = represent_images(pool_of(arrays), ["brightness"], cache=tmp_path).frame
    find = Shelf.find

    def vanished(self: Shelf, wanted: np.ndarray) -> object:
        for part in self.folder.glob("part-*.parquet"):
            part.unlink()
        return find(self, wanted)

    monkeypatch.setattr(Shelf, "find", vanished)
    pd.testing.assert_frame_equal(
        represent_images(pool_of(arrays), ["brightness"], cache=tmp_path).frame,
        first,
        check_exact=True,
    )


def test_runs_at_the_same_time_share_a_cache(tmp_path: Path) -> None:
    """Two other processes and two threads of this one, on the same images."""
    paths = _files(tmp_path / "images", 60)
    code = (
        f"import sys; sys.path[:0] = {[str(Path(__file__).parents[1]), *sys.path]!r}\n"
        "from pathlib import Path\n"
        "from represent.picture_pools import pool_of\n"
        "from unskew.represent.pool_features import represent_images\n"
        "represent_images(pool_of(sorted(Path(sys.argv[1]).glob('*.png'))), ['aspect_ratio', "
        "'size'], cache=sys.argv[2])\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / "images", tmp_path / "cache"])
        for _ in range(2)
    ]
    threads = [
        threading.Thread(
            target=represent_images,
            args=(pool_of(paths), ["aspect_ratio", "size"]),
            kwargs={"cache": tmp_path / "cache"},
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.wait(timeout=60) for run in runs] == [0, 0]
    frame = represent_images(
        pool_of(paths), ["aspect_ratio", "size"], cache=tmp_path / "cache"
    ).frame
    pd.testing.assert_frame_equal(
        frame, represent_images(pool_of(paths), ["aspect_ratio", "size"]).frame, check_exact=True
    )
    assert not list((tmp_path / "cache").glob("*/*.corrupt"))


def test_copies_are_kept_once_and_all_get_their_values(tmp_path: Path) -> None:
    image, other = random_pixels(), random_pixels(seed=1)
    for _ in range(2):
        values = represent_images(
            pool_of([image, other, image, image]), "brightness", cache=tmp_path
        ).frame["brightness"]
        assert values[0] == values[2] == values[3] != values[1]
    assert (
        sum(len(pd.read_parquet(part)) for part in tmp_path.glob("brightness-*/part-*.parquet"))
        == 2
    )


def test_unusable_images_are_tried_again(tmp_path: Path) -> None:
    raw = {"good": random_pixels(), "bad": b""}
    for _ in range(2):
        assert represent_images(
            pool_of(raw), "brightness", cache=tmp_path, tolerance=0.5
        ).set_aside["id"].tolist() == ["bad"]


def test_hashes_of_unchanged_files_are_remembered(tmp_path: Path) -> None:
    paths = _files(tmp_path / "images", 5)
    first = hash_images(pool_of(paths), cache=tmp_path / "cache").frame["content"]
    pool = pool_of(paths)
    assert hash_images(pool, cache=tmp_path / "cache").frame["content"].tolist() == first.tolist()
    assert pool.images.reads == []
    represent_images(pool, "brightness", cache=tmp_path / "cache")
    assert len(pool.images.reads) == 5


def test_a_shelf_gives_back_what_was_put_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys = np.array([f"{at:032x}" for at in range(50)], dtype=KEY_DTYPE)
    for dtype in (np.float64, np.float32):
        shelf = Shelf(tmp_path / np.dtype(dtype).name, {})
        values = rng.normal(size=(50, 7)).astype(dtype)
        values[3, 2] = np.nan
        for rows in np.array_split(rng.permutation(50), 4):
            shelf.add(keys[rows], values[rows])
        assert (shelf.keys() == keys).all()
        wanted = rng.integers(0, 60, 200)
        found = np.full((200, 7), -1.0, dtype=dtype)
        for at, part in shelf.find(
            np.array([f"{number:032x}" for number in wanted], dtype=KEY_DTYPE)
        ):
            assert part.dtype == dtype
            found[at] = part
        np.testing.assert_array_equal(
            found, np.where(wanted[:, None] < 50, values[np.minimum(wanted, 49)], -1.0)
        )
    text = open_shelf(tmp_path, Exif())
    row = np.array(
        [["Leica", None, 100.0, np.nan, 50.0, "2019-06-12T10:11:12", 2019.4]], dtype=object
    )
    text.add(keys[:1], row)
    ((at, found_row),) = text.find(keys[:1])
    assert at.tolist() == [0]
    assert found_row[0].tolist()[:3] == ["Leica", None, 100.0]
    assert np.isnan(found_row[0, 3])


def test_a_representation_that_fails_keeps_what_others_computed(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Broken(Representation):
        name: ClassVar[str] = "broken"

        def compute(self, batch: np.ndarray) -> np.ndarray:
            raise ImageError("no batch can be computed")

    from unskew.errors import DataError

    with refused(DataError, value="broken"):
        represent_images(pool_of([random_pixels()]), ["brightness", Broken()], cache=tmp_path)


@pytest.mark.parametrize("shape", [(3,), (1, 1, 1), (2, 1)])
def test_one_row_of_values_for_each_image(shape: tuple[int, ...]) -> None:
    from unskew.errors import DataError

    @dataclass(frozen=True)
    class Wrong(Representation):
        name: ClassVar[str] = "wrong"

        def compute(self, batch: np.ndarray) -> np.ndarray:
            return np.zeros(shape)

    with refused(DataError, value=list(shape)):
        represent_images(pool_of([random_pixels()]), [Wrong()])


def test_a_cache_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with refused(DataError, path=str(tmp_path / "cache")):
        represent_images(pool_of([random_pixels()]), "brightness", cache=tmp_path / "cache")


def test_a_file_where_the_cache_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with refused(DataError, path=str(tmp_path / "cache")):
        represent_images(pool_of([random_pixels()]), "brightness", cache=tmp_path / "cache")
