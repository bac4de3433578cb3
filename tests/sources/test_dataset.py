"""Datasets like those of torch: fetched when needed; labels; what cannot work."""

import pickle
import threading

import numpy as np
import pytest
from PIL import Image

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.errors import ImageError
from unskew.sources.pixels import as_pixels

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)


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
