"""The official archives in small: both forms, packed and unpacked, hold the same images; changed or
hostile ones are refused.
"""

import numpy as np
import pytest

from sources.cifar_archives import NAMES_10, batches_10, members_10, members_100, pack, unpack
from unskew import Pool
from unskew.sources.readers import read_sources


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
