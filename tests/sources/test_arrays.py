"""Images in memory, in .npz files, and in datasets in the manner of torch."""

import io
import pickle
import threading
import zipfile

import numpy as np
import pytest
from PIL import Image

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.errors import ImageError
from unskew.sources.readers import TARGET_SAMPLE, read_sample, read_sources

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)


def test_arrays_in_memory():
    pool = Pool.from_arrays(
        ["a", "a", "b", "b", "b", "c"], [0, 1, 0, 1, 0, 1], images=PIXELS, age=[1, 2, 3, 4, 5, 6]
    )
    assert np.array_equal(pool.images.read(3), PIXELS[3])
    taken = pool.take([5, 0])
    assert np.array_equal(taken.images.read(0), PIXELS[5])
    assert "images" not in pool.frame
    encoded = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(encoded, "PNG")
    mixed = Pool.from_arrays(["a", "b"], images=[encoded.getvalue(), Image.fromarray(PIXELS[1])])
    assert mixed.images.read(0) == encoded.getvalue()
    assert np.array_equal(mixed.take([1]).images.read(0), PIXELS[1])
    with refused(DataError, count=6):
        Pool.from_arrays(["a", "b"], images=PIXELS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files(tmp_path, save):
    columns = {
        "site": ["n", "n", "s", "s", "s", "NA"],
        "label": [1, 2, 1, 2, 1, 2],
        "colour": np.arange(12.0).reshape(6, 2),
    }
    save(tmp_path / "all.npz", images=PIXELS, **columns)
    pool = read_sources({"arrays": "all.npz", "source": "site"}, tmp_path)
    assert pool.names == ("n", "s", "NA")
    assert pool.frame["id"].tolist() == ["n/0", "n/1", "s/2", "s/3", "s/4", "NA/5"]
    assert pool.attributes == ("colour_0", "colour_1")
    for row in range(6):
        assert np.array_equal(pool.images.read(row), PIXELS[row])
    again = pickle.loads(pickle.dumps(pool.images))
    assert np.array_equal(again.read(2), PIXELS[2])
    assert np.array_equal(pool.take([4, 1]).images.read(1), PIXELS[1])
    assert (
        read_sources({"arrays": "all.npz", "source": "site", "images": False}, tmp_path).images
        is None
    )
    sample = read_sample("all.npz", tmp_path)
    assert sample.names == (TARGET_SAMPLE,)
    assert np.array_equal(sample.images.read(5), PIXELS[5])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files_are_read_when_pixels_are_needed(tmp_path, save, monkeypatch):
    save(tmp_path / "a.npz", images=np.asfortranarray(PIXELS), source=["x"] * 6)
    loaded = []
    read_array = np.lib.format.read_array
    monkeypatch.setattr(
        np.lib.format,
        "read_array",
        lambda *args, **options: loaded.append(1) or read_array(*args, **options),
    )
    pool = read_sources({"arrays": "a.npz"}, tmp_path)
    assert len(loaded) == 1  # the names of the sources, not the images
    assert np.array_equal(pool.images.read(1), PIXELS[1])
    if save is np.savez:
        assert len(loaded) == 1  # mapped, not loaded
        assert isinstance(pool.images.parts[0].array.load(), np.memmap)
    else:
        # Whoever asks next, of whatever part of the pool, finds it loaded.
        threads = [
            threading.Thread(target=pool.take([row]).images.read, args=(0,)) for row in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(loaded) == 2


def test_arrays_have_no_file_names(tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, source=["x"] * 6, label=[1] * 6)
    with refused(ConfigError, option="group.regex"):
        read_sources({"arrays": "a.npz", "group": {"regex": "(.)"}}, tmp_path)
    assert "label" not in read_sources({"arrays": "a.npz", "label": False}, tmp_path).frame


def test_one_file_for_each_source(tmp_path):
    np.savez(tmp_path / "n.npz", images=PIXELS[:2], id=["a", "b"])
    np.savez(tmp_path / "s.npz", images=PIXELS[2:5], id=["b", "c", "d"])
    pool = read_sources({"arrays": {"north": "n.npz", "south": "s.npz"}}, tmp_path)
    assert pool.frame["id"].tolist() == ["a", "north/b", "south/b", "c", "d"]
    assert np.array_equal(pool.images.read(4), PIXELS[4])


@pytest.mark.parametrize(
    ("arrays", "facts", "hint"),
    [
        ({"images": PIXELS}, {"column": "source"}, "'images'"),
        ({"images": PIXELS, "label": [1] * 6}, {"column": "source"}, "label"),
        ({"images": PIXELS, "source": ["a"] * 5}, {"count": {"source": 5, "images": 6}}, "differ"),
        (
            {"images": PIXELS[0, 0], "source": ["a"] * 4},
            {"column": "images", "value": list(PIXELS[0, 0].shape)},
            "channels",
        ),
        ({"source": ["a"] * 4}, {"column": "images"}, "images = false"),
        ({"images": PIXELS, "source": "a"}, {"columns": ["source"]}, "single value"),
        (
            {"images": PIXELS, "source": np.array(["a"] * 6, dtype=object)},
            {},
            "holds Python objects",
        ),
        (
            {
                "images": PIXELS,
                "source": ["a"] * 6,
                "size": np.zeros(6, dtype=[("w", int), ("h", int)]),
            },
            {},
            "holds records",
        ),
    ],
)
def test_npz_files_that_cannot_work(tmp_path, arrays, facts, hint):
    np.savez(tmp_path / "x.npz", **arrays)
    with refused(DataError, path="x.npz", **facts) as caught:
        read_sources({"arrays": "x.npz"}, tmp_path)
    assert hint in str(caught.value)


def test_npz_files_that_are_none(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK nonsense")
    with refused(DataError, path="x.npz"):
        read_sources({"arrays": "x.npz"}, tmp_path)
    with refused(ConfigError, path="y.npz") as caught:
        read_sources({"arrays": "y.npz"}, tmp_path)
    assert "Did you mean 'x.npz'" in str(caught.value)
    np.savez(tmp_path / "v.npz", images=PIXELS, source=["a"] * 6)
    pool = read_sources({"arrays": "v.npz"}, tmp_path)
    (tmp_path / "v.npz").unlink()
    with pytest.raises(ImageError, match=r"'v.npz' cannot be read"):
        pool.images.read(0)


def _encrypted(folder):
    np.savez(folder / "x.npz", images=PIXELS, source=["a"] * 6)
    content = bytearray((folder / "x.npz").read_bytes())
    for mark, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := content.find(mark, at + 1)) >= 0:
            content[at + flag] |= 1
    (folder / "x.npz").write_bytes(content)


def _damaged(folder):
    np.savez_compressed(folder / "x.npz", source=["a"] * 6)
    content = bytearray((folder / "x.npz").read_bytes())
    content[65:80] = b"\xff" * 15
    (folder / "x.npz").write_bytes(content)


def _promising(folder, name="source", shape=(10**15,), kind="<f8"):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(folder / "x.npz", "a") as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + bytes(48))


def _empty(folder):
    np.savez(folder / "x.npz")


@pytest.mark.parametrize("spoil", [_encrypted, _damaged, _promising, _empty])
@pytest.mark.parametrize("arrays", ["x.npz", {"north": "x.npz"}])
def test_damaged_encrypted_and_dishonest_npz_files_are_refused(tmp_path, spoil, arrays):
    spoil(tmp_path)
    with refused(DataError, path="x.npz"):
        read_sources({"arrays": arrays}, tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "shape"),
    [
        *(("images", "|u1", shape) for shape in [(6, 10**9, 10**9), (10**12, 8, 8), (10**12, 0)]),
        *(("z", kind, (6,)) for kind in ("|V0", "|V8", "|S0")),
    ],
)
def test_arrays_that_promise_what_they_do_not_hold_are_refused(tmp_path, name, kind, shape):
    """Of images nothing but the shape is read; a list of so many ids would fill the memory."""
    np.savez(tmp_path / "x.npz", source=["a"] * 6)
    _promising(tmp_path, name, shape, kind)
    with refused(DataError, path="x.npz"):
        read_sources({"arrays": {"north": "x.npz"}}, tmp_path)
