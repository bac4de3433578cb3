"""Images in memory, in .npz files, and in datasets in the manner of torch."""

import io
import pickle
import threading
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.errors import ImageError
from unskew.represent.decode import decode_image
from unskew.sources.pixels import as_pixels
from unskew.sources.settings import TARGET_SAMPLE, read_sample, read_sources

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


def _promising(folder, name="source", shape=(10**15,)):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(folder / "x.npz", "a") as archive:
        archive.writestr(f"{name}.npy", header.getvalue())


@pytest.mark.parametrize("spoil", [_encrypted, _damaged, _promising])
def test_damaged_encrypted_and_dishonest_npz_files_are_refused(tmp_path, spoil):
    spoil(tmp_path)
    with refused(DataError, path="x.npz"):
        read_sources({"arrays": "x.npz"}, tmp_path)


def test_images_that_a_file_promises_and_does_not_hold_are_unusable(tmp_path):
    np.savez(tmp_path / "x.npz", source=["a"] * 6)
    _promising(tmp_path, "images", (6, 10**9, 10**9))
    with pytest.raises(ImageError, match=r"'x.npz' cannot be read: it promises"):
        read_sources({"arrays": "x.npz"}, tmp_path).images.read(0)


class Items:
    """A dataset in the manner of torch, counting what is fetched."""

    def __init__(self, items, **more):
        self.items, self.fetched = items, []
        self.__dict__.update(more)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        self.fetched.append(at)
        return self.items[at]


def test_datasets_in_the_manner_of_torch_are_fetched_when_needed():
    north = Items(
        [(Image.fromarray(PIXELS[at]), at % 2) for at in range(3)],
        targets=[0, 1, 0],
        classes=["cat", "dog"],
    )
    south = Items(
        [(PIXELS[at], at % 2) for at in range(3, 5)],
        targets=np.array([1, 0]),
        classes=["cat", "dog"],
    )
    pool = Pool.from_dataset({"north": north, "south": south}, group=[1, 1, 2, 3, 3])
    assert (north.fetched, south.fetched) == ([], [])
    assert pool.frame["id"].tolist() == ["north/0", "north/1", "north/2", "south/0", "south/1"]
    assert pool.frame["label"].tolist() == ["cat", "dog", "cat", "dog", "cat"]
    assert pool.frame["group"].tolist() == [1, 1, 2, 3, 3]
    assert all(np.array_equal(pool.images.read(row), PIXELS[row]) for row in range(5))
    assert (north.fetched, south.fetched) == ([0, 1, 2], [0, 1])
    assert np.array_equal(pickle.loads(pickle.dumps(pool.images)).read(4), PIXELS[4])


def test_datasets_without_targets_dictionaries_and_bare_images():
    plain = Items([(PIXELS[0], "x"), (PIXELS[1], "y")])
    assert Pool.from_dataset({"a": plain}).frame["label"].tolist() == ["x", "y"]
    records = Items([{"image": PIXELS[0], "label": [1, 2]}, {"image": PIXELS[1], "label": []}])
    assert Pool.from_dataset({"a": records}).frame["label"].tolist() == [[1, 2], []]
    bare = Items([Image.fromarray(PIXELS[0]), Image.fromarray(PIXELS[1])])
    pool = Pool.from_dataset(bare, source=["n", "s"])
    assert "label" not in pool.frame
    assert pool.frame["id"].tolist() == ["n/0", "s/1"]
    assert np.array_equal(pool.images.read(1), PIXELS[1])
    unlabelled = Items([(PIXELS[0], 1)])
    assert "label" not in Pool.from_dataset({"a": unlabelled}, label=False).frame
    assert unlabelled.fetched == []
    assert Pool.from_dataset({"a": unlabelled}, label=["given"]).frame["label"].tolist() == [
        "given"
    ]


def test_real_tensors_and_datasets_of_torch():
    torch = pytest.importorskip("torch")
    first = torch.from_numpy(PIXELS.transpose(0, 3, 1, 2).copy())
    whole = torch.utils.data.TensorDataset(first.float() / 255, torch.tensor([0, 1, 0, 1, 0, 1]))
    part = torch.utils.data.Subset(whole, [4, 1])
    pool = Pool.from_dataset({"whole": whole, "part": part})
    assert pool.frame["label"].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    assert np.array_equal(pool.images.read(2), PIXELS[2])
    assert np.array_equal(pool.images.read(6), PIXELS[4])
    # Three rows of three columns: tensors have their channels first, arrays last.
    assert np.array_equal(
        as_pixels(torch.from_numpy(PIXELS[0, :3, :3].copy())), PIXELS[0, :3, :3].transpose(1, 2, 0)
    )
    assert np.array_equal(as_pixels(PIXELS[0, :3, :3]), PIXELS[0, :3, :3])


def test_what_a_dataset_raises_is_the_reason_of_one_image():
    class Broken(Items):
        def __getitem__(self, at):
            raise RuntimeError("the disk is gone")

    pool = Pool.from_dataset({"a": Broken([1, 2], targets=[0, 1])})
    with pytest.raises(ImageError, match="item 1 of the dataset: RuntimeError: the disk is gone"):
        pool.images.read(1)
    for items, message in (
        ([()], "has 0 parts"),
        ([{"a": 1}], "has none of image, img"),
        ([("x", 1)], "pixels are numbers|two dimensions"),
    ):
        with pytest.raises(ImageError, match=message):
            Pool.from_dataset({"a": Items(items)}, label=False).images.read(0)


def test_datasets_are_fetched_by_one_thread_at_a_time():
    class Watched(Items):
        inside = 0
        most = 0

        def __getitem__(self, at):
            Watched.inside += 1
            Watched.most = max(Watched.most, Watched.inside)
            threading.Event().wait(0.002)
            Watched.inside -= 1
            return self.items[at]

    pool = Pool.from_dataset({"a": Watched(list(PIXELS))}, label=False)
    threads = [threading.Thread(target=pool.images.read, args=(row,)) for row in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Watched.most == 1


def test_datasets_that_cannot_work():
    with refused(ConfigError, value="generator"):
        Pool.from_dataset({"a": (item for item in [1])})
    with refused(ConfigError, option="source"):
        Pool.from_dataset(Items([1]))
    with refused(ConfigError, option="source"):
        Pool.from_dataset({"a": Items([1])}, source=["a"])
    with refused(DataError, column="source", count=3, limit=1):
        Pool.from_dataset(Items([(PIXELS[0], 1)]), source=["a", "b", "c"])
    with refused(DataError, column="label", count=2, limit=1):
        Pool.from_dataset({"a": Items([(PIXELS[0], 1)])}, label=[1, 2])


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "I;16", "F"]
)
def test_every_mode_of_pillow_becomes_eight_bits(mode):
    grey = Image.fromarray(np.array([[0, 255], [255, 0]], dtype=np.uint8))
    if mode == "I;16":
        image = Image.fromarray(np.array([[0, 65535], [65535, 0]], dtype=np.uint16))
    elif mode == "F":
        image = Image.fromarray(np.array([[0, 1], [1, 0]], dtype=np.float32))
    elif mode in ("PA", "CMYK", "YCbCr", "HSV"):
        image = grey.convert("RGB").convert("P" if mode == "PA" else mode)
    else:
        image = grey.convert(mode)
    pixels = as_pixels(image)
    assert pixels.dtype == np.uint8
    light = pixels if pixels.ndim == 2 else pixels[..., 0]
    assert light.tolist() == [[0, 255], [255, 0]]


@given(
    st.sampled_from([np.uint8, np.int16, np.int64, np.uint16, np.float32, np.float64, np.bool_]),
    st.integers(0, 2**32 - 1),
)
def test_whatever_the_type_black_stays_black_and_white_white(dtype, seed):
    top = {np.uint16: 65535, np.float32: 1, np.float64: 1, np.bool_: 1}.get(dtype, 255)
    white = np.random.default_rng(seed).random((3, 4, 3)) < 0.5
    assert np.array_equal(as_pixels((white * top).astype(dtype)), white * np.uint8(255))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((2, 2, 2), np.uint8), "1, 3 or 4 channels"),
        (np.zeros(4, np.uint8), "two dimensions"),
        (np.zeros((0, 4), np.uint8), "no pixels"),
        (np.full((2, 2), -1.5), r"in \[0, 1\], but these are in \[-1.5"),
        (np.full((2, 2), np.nan), r"in \[0, 1\]"),
        (np.full((2, 2), 70000), "between 0 and 255"),
        (np.zeros((2, 2), complex), "pixels are numbers"),
        (None, "there is no image"),
        ({"bytes": None, "path": None}, "neither bytes nor a path"),
        (object(), "not an image: object"),
        (Image.new("L", (0, 3)), "no pixels: 0 × 3"),
    ],
)
def test_what_is_no_image(image, message):
    with pytest.raises(ImageError, match=message):
        as_pixels(image)


def _file(image, kind, **options):
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def _every_file():
    rng = np.random.default_rng(0)
    colour = Image.fromarray(rng.integers(0, 256, (6, 9, 3), dtype=np.uint8))
    deep = Image.fromarray(rng.integers(0, 65536, (6, 9), dtype=np.uint16))
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "orientation": _file(colour, "JPEG", exif=turned),
        "16 bits": _file(deep, "PNG"),
        "16 bits, TIFF": _file(deep, "TIFF"),
        "16 bits, dark": _file(
            Image.fromarray(rng.integers(0, 200, (6, 9), dtype=np.uint16)), "PNG"
        ),
        "32 bits": _file(Image.fromarray(rng.integers(0, 256, (6, 9), dtype=np.int32)), "TIFF"),
        "transparent colour": _file(colour, "PNG", transparency=colour.getpixel((0, 0))),
        "transparent grey": _file(
            colour.convert("L"), "PNG", transparency=colour.convert("L").getpixel((0, 0))
        ),
        "transparent palette": _file(colour.convert("P"), "PNG", transparency=3),
        "alpha": _file(Image.fromarray(rng.integers(0, 256, (6, 9, 4), dtype=np.uint8)), "PNG"),
        "grey and alpha": _file(colour.convert("LA"), "PNG"),
        "CMYK": _file(colour.convert("CMYK"), "JPEG"),
        "animated": _file(
            colour, "GIF", save_all=True, append_images=[Image.new("RGB", colour.size)]
        ),
    }


@pytest.mark.parametrize("name", list(_every_file()))
def test_an_image_of_pillow_has_the_pixels_of_its_file(name):
    """A dataset that opens its files and a folder of the same files are the same images."""
    file = _every_file()[name]
    np.testing.assert_array_equal(
        decode_image(as_pixels(Image.open(io.BytesIO(file)))), decode_image(file)
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32, np.int64, np.float32])
def test_both_readers_of_arrays_agree(dtype):
    top = 1 if dtype == np.float32 else 200
    array = (np.random.default_rng(0).random((4, 5, 3)) * top).astype(dtype)
    np.testing.assert_array_equal(decode_image(as_pixels(array)), decode_image(array))
    assert decode_image(array).max() > 150 or dtype == np.uint16
