"""`WeightedDataset`: the items of an epoch are one weighted sample, whoever shuffles them."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError, UnskewWarning

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from unskew.learn import WeightedDataset, WeightedSampler  # noqa: E402

WEIGHT = np.random.default_rng(0).exponential(size=50) * (np.arange(50) % 5 > 0)
SIZE = 96


class Rows:
    """A dataset whose items are their own rows, with a transform that a framework may set."""

    def __init__(self) -> None:
        self.transform = None
        self.targets = list(range(50))
        self.last_epoch = None

    def __len__(self) -> int:
        return 50

    def __getitem__(self, row: int) -> int:
        return row if self.transform is None else self.transform(row)

    def set_epoch(self, epoch: int) -> None:
        self.last_epoch = epoch


class BatchRows(Rows):
    def __getitems__(self, rows: list[int]) -> list[int]:
        return [1000 + row for row in rows]


def _view(dataset=None, **options) -> WeightedDataset:
    return WeightedDataset(dataset or Rows(), WEIGHT, size=SIZE, **options)


def _draw(epoch: int, **options) -> Counter:
    return Counter(WeightedSampler(WEIGHT, size=SIZE, **options).draw_epoch(epoch).tolist())


def _read(loader) -> Counter:
    return Counter(row for batch in loader for row in batch.tolist())


def test_items_are_the_draws_of_the_sampler_in_their_order() -> None:
    view = _view(seed=3)
    sampler = WeightedSampler(WEIGHT, size=SIZE, seed=3)
    assert len(view) == SIZE
    for epoch in (0, 5, 1):
        view.set_epoch(epoch)
        assert view.epoch == epoch
        assert list(view) == sampler.draw_epoch(epoch).tolist()
        assert view[-1] == view[SIZE - 1]
    with pytest.raises(IndexError):
        view[SIZE]


def test_weights_are_joined_by_id() -> None:
    ids = [f"{row}.jpg" for row in range(50)]
    backwards = dict(zip(reversed(ids), reversed(WEIGHT), strict=True))
    view = WeightedDataset(Rows(), backwards, ids, size=SIZE)
    assert Counter(view) == _draw(0)


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
# Forking a process with threads is the user's choice, and torch's default.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_set_epoch_reaches_persistent_workers(start: str) -> None:
    view = _view()
    loader = DataLoader(
        view,
        batch_size=8,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=start,
    )
    for epoch in range(3):
        view.set_epoch(epoch)
        assert _read(loader) == _draw(epoch)


def test_a_distributed_sampler_shares_one_weighted_sample_out() -> None:
    view = _view()
    for epoch in range(2):
        union: Counter = Counter()
        for rank in range(2):
            sampler = DistributedSampler(view, num_replicas=2, rank=rank)
            sampler.set_epoch(epoch)
            view.set_epoch(epoch)
            union += _read(DataLoader(view, batch_size=8, sampler=sampler))
        assert union == _draw(epoch)


def test_a_dataset_that_reads_batches_at_once_is_asked_for_batches() -> None:
    rows = _read(DataLoader(_view(BatchRows()), batch_size=8))
    assert rows == Counter({1000 + row: count for row, count in _draw(0).items()})


def test_attributes_are_those_of_the_dataset_for_reading_and_setting() -> None:
    inner = Rows()
    view = _view(inner)
    assert view.targets is inner.targets
    view.transform = str
    assert inner.transform is str
    assert isinstance(view[0], str)
    view.set_epoch(4)
    assert inner.last_epoch == 4
    assert not hasattr(view, "no_such_name")


@pytest.mark.parametrize("copied", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy])
def test_a_copy_has_the_epoch_and_goes_its_own_way(copied) -> None:
    view = _view()
    view.set_epoch(2)
    other = copied(view)
    assert list(other) == list(view)
    other.set_epoch(3)
    assert view.epoch == 2
    assert other.dataset is not view.dataset
    assert Counter(other) == _draw(3)
    # Views may be nested, and copied half-made: neither may ask itself for ever.
    assert not hasattr(WeightedDataset.__new__(WeightedDataset), "transform")


def test_epochs_that_are_never_set_are_warned_of_once() -> None:
    view = _view()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(view)
        list(view)
        view.set_epoch(1)
        list(view)
    with pytest.warns(UnskewWarning, match="set_epoch") as caught:
        _ = [list(view) for _ in range(3)]
    assert len(caught) == 1


def test_what_cannot_be_viewed_is_refused() -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with refused(ConfigError, option="dataset", value="Stream"):
        WeightedDataset(Stream(), WEIGHT)
    with refused(DataError, count=50, limit=3):
        WeightedDataset([1, 2, 3], WEIGHT)
    with refused(ConfigError, option="epoch", value=-1):
        _view().set_epoch(-1)
