"""The official archives in small: both forms, packed and unpacked, hold the same images; changed or
hostile ones are refused.
"""

import hashlib
import io
import os
import pickle
import tarfile
import urllib.error

import numpy as np
import pytest

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.sources import cifar_files
from unskew.sources.pickled_arrays import load_arrays
from unskew.sources.settings import read_sources

NAMES_10 = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]
PER_BATCH = 3


def batches_10():
    generator = np.random.default_rng(0)
    files = [f"data_batch_{at}" for at in range(1, 6)] + ["test_batch"]
    return {
        file: (
            generator.integers(0, 256, (PER_BATCH, 3072), dtype=np.uint8),
            generator.integers(0, 10, PER_BATCH).tolist(),
        )
        for file in files
    }


def python_2_pickle(data, labels, keys):
    """What Python 2 wrote: text is bytes, and the array is put together by NumPy as it was then."""
    parts = [b"\x80\x02}q\x00("]

    def text(value):
        return b"U" + bytes([len(value)]) + value

    n = len(data)
    parts += [
        text(b"data"),
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85",
        text(b"b"),
        b"\x87R",
    ]
    parts += [
        b"(K\x01",
        b"K" + bytes([n]) + b"M\x00\x0c\x86",
        b"cnumpy\ndtype\n",
        text(b"u1"),
        b"K\x00K\x01\x87R(K\x03",
        text(b"|"),
    ]
    parts += [
        b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
        b"\x89",
        b"T" + len(data.tobytes()).to_bytes(4, "little") + data.tobytes(),
        b"tb",
    ]
    for key, values in zip(keys, labels, strict=True):
        parts += [text(key), b"](", *[b"K" + bytes([value]) for value in values], b"e"]
    return b"".join([*parts, b"u."])


def members_10(form, pickled="python 2"):
    members = {}
    for file, (data, labels) in batches_10().items():
        if form == "binary":
            records = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], data], axis=1)
            members[f"cifar-10-batches-bin/{file}.bin"] = records.tobytes()
        elif pickled == "python 2":
            members[f"cifar-10-batches-py/{file}"] = python_2_pickle(data, [labels], [b"labels"])
        else:
            members[f"cifar-10-batches-py/{file}"] = pickle.dumps(
                {b"data": data, b"labels": labels}, protocol=pickled
            )
    if form == "binary":
        members["cifar-10-batches-bin/batches.meta.txt"] = "\n".join([*NAMES_10, ""]).encode()
    else:
        members["cifar-10-batches-py/batches.meta"] = pickle.dumps(
            {"label_names": NAMES_10, "num_vis": 3072}, protocol=2
        )
    return members


def members_100(form):
    generator = np.random.default_rng(1)
    fine, coarse = [f"class{at}" for at in range(100)], [f"super{at}" for at in range(20)]
    members = {}
    for file, n in (("train", 5), ("test", 2)):
        data = generator.integers(0, 256, (n, 3072), dtype=np.uint8)
        fines, coarses = generator.integers(0, 100, n), generator.integers(0, 20, n)
        if form == "binary":
            members[f"cifar-100-binary/{file}.bin"] = (
                np.column_stack([coarses, fines, data]).astype(np.uint8).tobytes()
            )
        else:
            labels = [fines.tolist(), coarses.tolist()]
            members[f"cifar-100-python/{file}"] = python_2_pickle(
                data, labels, [b"fine_labels", b"coarse_labels"]
            )
    if form == "binary":
        members["cifar-100-binary/fine_label_names.txt"] = "\n".join(fine).encode()
        members["cifar-100-binary/coarse_label_names.txt"] = "\n".join(coarse).encode()
    else:
        members["cifar-100-python/meta"] = pickle.dumps(
            {b"fine_label_names": fine, b"coarse_label_names": coarse}, protocol=2
        )
    return members


def pack(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def unpack(folder, members):
    for name, content in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def all_pixels(pool):
    return np.stack([pool.images.read(row) for row in range(len(pool))])


@pytest.mark.parametrize("pickled", ["python 2", 2, 3, 5])
def test_both_forms_of_cifar_10_hold_the_same(tmp_path, pickled):
    python = Pool.from_cifar(
        pack(tmp_path / "cifar-10-python.tar.gz", members_10("python", pickled)), verify=False
    )
    binary = Pool.from_cifar(
        pack(tmp_path / "cifar-10-binary.tar.gz", members_10("binary")), verify=False
    )
    assert python.frame.equals(binary.frame)
    assert np.array_equal(all_pixels(python), all_pixels(binary))
    truth = batches_10()
    assert python.frame["split"].tolist() == ["train"] * 15 + ["test"] * 3
    assert python.frame["label"].tolist() == [
        NAMES_10[label] for _, labels in truth.values() for label in labels
    ]
    assert python.frame["id"].tolist()[14:16] == ["cifar-10/train/14", "cifar-10/test/0"]
    # Red, green, blue, each in 32 rows of 32.
    data = truth["data_batch_2"][0][1]
    assert np.array_equal(
        python.images.read(4),
        np.dstack([data[:1024], data[1024:2048], data[2048:]]).reshape(32, 32, 3),
    )
    assert python.images.read(4).dtype == np.uint8


def test_both_forms_of_cifar_100_hold_the_same(tmp_path):
    python = Pool.from_cifar(pack(tmp_path / "a.tar.gz", members_100("python")), verify=False)
    binary = Pool.from_cifar(pack(tmp_path / "b.tar.gz", members_100("binary")), verify=False)
    assert python.frame.equals(binary.frame)
    assert np.array_equal(all_pixels(python), all_pixels(binary))
    assert python.frame["label"].str.startswith("class").all()
    assert python.frame["superclass"].str.startswith("super").all()
    coarse = Pool.from_cifar(tmp_path / "b.tar.gz", verify=False, label="superclass", split="test")
    assert coarse.frame["label"].tolist() == python.frame["superclass"].tolist()[5:]
    assert len(coarse) == 2


def test_unpacked_folders_and_folders_that_hold_one(tmp_path):
    for form in ("python", "binary"):
        unpack(tmp_path / form, members_10(form))
        inner = next((tmp_path / form).iterdir())
        whole = Pool.from_cifar(inner, verify=False)
        assert len(whole) == 18
        assert whole.frame.equals(Pool.from_cifar(tmp_path / form, verify=False).frame)
    (tmp_path / "packed").mkdir()
    pack(tmp_path / "packed" / "cifar-10-binary.tar.gz", members_10("binary"))
    pool = read_sources({"cifar": {"left": "packed", "right": "python"}, "verify": False}, tmp_path)
    assert pool.names == ("left", "right")
    assert pool.frame["id"].tolist()[0] == "left/train/0"


def test_what_is_not_the_official_file_is_refused(tmp_path):
    archive = pack(tmp_path / "cifar-10-python.tar.gz", members_10("python"))
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    with refused(DataError, value=md5, allowed="c58f30108f718f92721af3b95e74349a"):
        Pool.from_cifar(archive)
    folder = unpack(tmp_path / "unpacked", members_10("binary"))
    with refused(
        DataError, path=f"{folder}/data_batch_1.bin", allowed="5dd7e06a14cb22eb9f671a540d1b7c25"
    ):
        Pool.from_cifar(folder)


def test_the_official_checksum_passes(tmp_path, monkeypatch):
    archive = pack(tmp_path / "cifar-10-binary.tar.gz", members_10("binary"))
    official = cifar_files.DISTRIBUTIONS[1]
    known = cifar_files.CifarForm(
        **{**official.__dict__, "md5": hashlib.md5(archive.read_bytes()).hexdigest()}
    )
    monkeypatch.setattr(cifar_files, "DISTRIBUTIONS", (known,))
    assert len(Pool.from_cifar(archive)) == 18


def test_archives_that_cannot_be_read(tmp_path):
    archive = pack(tmp_path / "a.tar.gz", members_10("binary"))
    (tmp_path / "cut.tar.gz").write_bytes(archive.read_bytes()[:5000])
    (tmp_path / "text.tar.gz").write_text("not an archive")
    pack(tmp_path / "other.tar.gz", {"holiday/photo.jpg": b"x"})
    members = members_10("binary")
    members.pop("cifar-10-batches-bin/data_batch_3.bin")
    pack(tmp_path / "lacking.tar.gz", members)
    pack(
        tmp_path / "odd.tar.gz",
        members_10("binary") | {"cifar-10-batches-bin/test_batch.bin": b"123"},
    )
    pack(
        tmp_path / "label.tar.gz",
        members_10("binary") | {"cifar-10-batches-bin/test_batch.bin": bytes([10]) + bytes(3072)},
    )
    for name in ("cut.tar.gz", "text.tar.gz", "other.tar.gz"):
        with refused(DataError, path=str(tmp_path / name)):
            Pool.from_cifar(tmp_path / name, verify=False)
    for name, facts in {
        "lacking.tar.gz": {"value": ["data_batch_3.bin"]},
        "odd.tar.gz": {"path": str(tmp_path / "odd.tar.gz/test_batch.bin"), "count": 3},
        "label.tar.gz": {"value": 10, "limit": 9},
    }.items():
        with refused(DataError, **facts):
            Pool.from_cifar(tmp_path / name, verify=False)
    with refused(ConfigError, path="nowhere.tar.gz") as caught:
        read_sources({"cifar": "nowhere.tar.gz"}, tmp_path)
    assert "download = true" in str(caught.value)
    with refused(ConfigError, option="split", value="trian") as caught:
        read_sources({"cifar": "a.tar.gz", "split": "trian"}, tmp_path)
    assert "Did you mean 'train'" in str(caught.value)
    (tmp_path / "empty").mkdir()
    with refused(DataError, path=str(tmp_path / "empty"), value=[]):
        Pool.from_cifar(tmp_path / "empty")


class Evil:
    """What a hostile pickle looks like: it calls a function when it is read."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (
            pickle.dumps({"a": Evil(os.mkdir, "broken-in")}),
            "posix.mkdir",
        ),
        (pickle.dumps({"a": Evil(eval, "1+1")}), "asks for builtins.eval"),
        (pickle.dumps({"a": Evil(getattr, "x", "upper")}), "asks for builtins.getattr"),
        (b"cos\nsystem\n(S'touch broken-in'\ntR.", "asks for os.system"),
        (b"cnumpy\nload\n(S'x'\ntR.", "asks for numpy.load"),
        (b"cnumpy.core.multiarray\nscalar\n(S'x'\ntR.", "asks for numpy.core.multiarray.scalar"),
        (pickle.dumps({"a": np.array([{}], dtype=object)}), "not numbers"),
        (pickle.dumps({"a": np.zeros(2, dtype=[("x", "u1")])}), "not numbers"),
        (b"\x80\x02Pabc\n.", "outside of itself"),
        (pickle.dumps([1, 2]), "pickle of list"),
        (b"\x80\x02}U\x01acnumpy\nndarray\ns.", "'a' is neither an array nor a plain value"),
        (
            b"\x80\x02}U\x01acnumpy\ndtype\nU\x02u1\x85Rs.",
            "'a' is neither an array nor a plain value",
        ),
        (b"", "EOFError"),
        (b"\x80\x05garbage", "UnpicklingError"),
        (pickle.dumps({"a": np.arange(5)})[:-9], "UnpicklingError"),
    ],
)
def test_hostile_and_broken_pickles_are_refused(content, culprit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused(DataError, path="batch") as caught:
        load_arrays(content, "batch")
    assert culprit in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_array_that_was_never_filled_is_empty():
    """Made by NEWOBJ, without the state that a real array has."""
    assert load_arrays(b"\x80\x02}U\x01acnumpy\nndarray\n)\x81s.", "batch")["a"].size == 0


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "f8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numbers_come_back_as_they_were(protocol, dtype, order):
    array = np.asarray(np.arange(12).reshape(3, 4) % 2, dtype=dtype, order=order)
    back = load_arrays(pickle.dumps({"a": array, "b": [1, "x"]}, protocol=protocol), "batch")
    assert np.array_equal(back["a"], array)
    assert back["a"].dtype == array.dtype
    assert back["b"] == [1, "x"]


def served(monkeypatch, content, *, error=None):
    asked = []

    def urlopen(address, timeout):
        asked.append(address)
        if error is not None:
            raise error
        return io.BytesIO(content)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return asked


def test_fetching_writes_a_complete_archive_or_none(tmp_path, monkeypatch):
    content = pack(tmp_path / "x.tar.gz", members_10("binary")).read_bytes()
    official = cifar_files.DISTRIBUTIONS[1]
    known = cifar_files.CifarForm(**{**official.__dict__, "md5": hashlib.md5(content).hexdigest()})
    monkeypatch.setattr(cifar_files, "DISTRIBUTIONS", (known,))
    asked = served(monkeypatch, content)
    settings = {"cifar": "cifar-10-binary.tar.gz", "download": True}
    assert len(read_sources(settings, tmp_path)) == 18
    assert asked == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]
    assert len(read_sources(settings, tmp_path)) == 18
    assert len(asked) == 1  # it was there
    (tmp_path / "cifar-10-binary.tar.gz").unlink()
    served(monkeypatch, content[:-7])
    with refused(DataError, path="cifar-10-binary.tar.gz", allowed=known.md5):
        read_sources(settings, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("Name or service not known"),
        TimeoutError("timed out"),
        ConnectionResetError("reset"),
    ],
)
def test_fetching_without_a_network_says_what_to_do(tmp_path, monkeypatch, error):
    served(monkeypatch, b"", error=error)
    with refused(DataError, path="cifar-10-python.tar.gz") as caught:
        read_sources({"cifar": "cifar-10-python.tar.gz", "download": True}, tmp_path)
    assert "connected to the network" in str(caught.value)
    assert not list(tmp_path.iterdir())
    with refused(ConfigError, option="download", path="mine.tar.gz"):
        read_sources({"cifar": "mine.tar.gz", "download": True}, tmp_path)
