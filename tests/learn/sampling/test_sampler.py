"""`WeightedSampler`: one weighted sample over all processes, resumed as if nothing had happened;
weights joined by id.
"""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from unskew.learn import WeightedSampler  # noqa: E402

WEIGHT = np.random.default_rng(0).exponential(size=101) * (np.arange(101) % 5 > 0)
SCHEMES = [{"scheme": "systematic"}, {"scheme": "multinomial"}, {"replacement": False, "size": 40}]

# With fewer cores than workers torch warns that it may be slow.
ONE_CORE_IS_ENOUGH = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


def _samplers(n_ranks: int, **options) -> list[WeightedSampler]:
    return [
        WeightedSampler(WEIGHT, num_replicas=n_ranks, rank=rank, **options)
        for rank in range(n_ranks)
    ]


@pytest.mark.parametrize("options", SCHEMES, ids=str)
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 7])
def test_the_union_over_ranks_is_one_weighted_sample(n_ranks: int, options) -> None:
    """The draw of one process, but for at most ranks − 1 draws at its end; all ranks get equally
    many.
    """
    alone = WeightedSampler(WEIGHT, seed=3, **options)
    for epoch in range(3):
        alone.set_epoch(epoch)
        sample = list(alone)
        parts = []
        for sampler in _samplers(n_ranks, seed=3, **options):
            sampler.set_epoch(epoch)
            parts.append(list(sampler))
            assert len(parts[-1]) == len(sampler) == sampler.num_samples == alone.size // n_ranks
        union = [row for turn in zip(*parts, strict=True) for row in turn]
        assert union == sample[: len(union)]
        assert 0 <= len(sample) - len(union) < n_ranks
        assert WEIGHT[sample].all()


def test_the_sample_follows_the_weights_and_differs_from_epoch_to_epoch() -> None:
    sampler = WeightedSampler(WEIGHT, size=1000)
    first, second = list(sampler), list(sampler)
    assert first != second
    expected = 1000 * WEIGHT / WEIGHT.sum()
    for drawn in (first, second):
        count = np.bincount(drawn, minlength=WEIGHT.size)
        assert np.all((count == np.floor(expected)) | (count == np.ceil(expected)))
        assert drawn != sorted(drawn)


def test_the_draw_depends_on_seed_and_epoch_only() -> None:
    sampler = WeightedSampler(WEIGHT)
    drawn = {}
    for seed in range(3):
        for epoch in range(3):
            sampler = WeightedSampler(WEIGHT, seed=seed)
            sampler.set_epoch(epoch)
            drawn[seed, epoch] = tuple(sampler)
            sampler.set_epoch(epoch)
            assert tuple(sampler) == drawn[seed, epoch]
    # torch adds seed and epoch, so that seed 0 in epoch 1 is seed 1 in epoch 0.
    assert len(set(drawn.values())) == 9
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert tuple(WeightedSampler(WEIGHT)) == drawn[0, 0]


def test_an_epoch_read_to_its_end_is_followed_by_the_next_one_and_a_broken_off_one_by_itself() -> (
    None
):
    """Who forgets set_epoch does not see the same images again and again."""
    sampler = WeightedSampler(WEIGHT)
    epochs = [list(sampler) for _ in range(3)]
    assert sampler.epoch == 3
    for epoch in range(3):
        sampler.set_epoch(epoch)
        iterator = iter(sampler)
        assert [next(iterator) for _ in range(5)] == epochs[epoch][:5]
        assert list(sampler) == epochs[epoch]


@pytest.mark.parametrize("options", SCHEMES, ids=str)
@pytest.mark.parametrize("n_ranks", [1, 2, 3])
@pytest.mark.parametrize("read", [0, 1, 7, 13])
def test_resume_equals_no_interruption(read: int, n_ranks: int, options) -> None:
    for sampler in _samplers(n_ranks, **options):
        sampler.set_epoch(4)
        whole, following = list(sampler), list(sampler)
        sampler.set_epoch(4)
        iterator = iter(sampler)
        before = [next(iterator) for _ in range(read)]
        state = pickle.loads(pickle.dumps(sampler.state_dict()))
        again = WeightedSampler(WEIGHT, num_replicas=n_ranks, rank=sampler.rank, **options)
        again.load_state_dict(state)
        assert before + list(again) == whole
        assert list(again) == following
        assert list(iterator) == whole[read:]  # taking the state disturbed nothing


def test_a_resumed_epoch_goes_on_over_another_number_of_ranks() -> None:
    """Two processes read 20 each; three go on with what is left of the same draw."""
    first = _samplers(2)
    iterators = [iter(sampler) for sampler in first]
    used = [next(iterator) for _ in range(20) for iterator in iterators]
    states = [sampler.state_dict() for sampler in first]
    assert states[0] == states[1]
    rest = []
    for sampler in _samplers(3):
        sampler.load_state_dict(states[0])
        rest.append(list(sampler))
    union = used + [row for turn in zip(*rest, strict=True) for row in turn]
    assert union == WeightedSampler(WEIGHT).draw_epoch(0).tolist()[: len(union)]
    assert len(union) > WEIGHT.size - 3


def test_the_state_can_be_said_where_a_loader_reads_ahead() -> None:
    """With workers, batches are read before they are trained on: the state of the sampler is ahead
    of the training.
    """
    sampler = WeightedSampler(WEIGHT)
    whole = list(sampler)
    state = sampler.state_dict(epoch=0, consumed=3 * 8)
    again = WeightedSampler(WEIGHT)
    again.load_state_dict(state)
    assert list(again) == whole[24:]
    with refused(ConfigError, option="consumed"):
        sampler.state_dict(epoch=1)


def test_the_state_between_epochs_is_the_beginning_of_the_next() -> None:
    sampler = WeightedSampler(WEIGHT)
    list(sampler)
    again = WeightedSampler(WEIGHT)
    again.load_state_dict(sampler.state_dict())
    assert list(again) == list(sampler)


def test_the_state_right_before_the_end_resumes_with_nothing_left_of_the_epoch() -> None:
    sampler = WeightedSampler(WEIGHT)
    iterator = iter(sampler)
    for _ in range(len(sampler)):
        next(iterator)
    again = WeightedSampler(WEIGHT)
    again.load_state_dict(sampler.state_dict())
    assert list(again) == []
    assert again.epoch == 1


def test_epochs_counted_from_zero_after_a_resume_go_on_from_the_resumed_one() -> None:
    """Fabric's loaders count their iterations from 0 in every process that starts."""
    sampler = WeightedSampler(WEIGHT)
    epochs = [list(sampler) for _ in range(6)]
    resumed = WeightedSampler(WEIGHT)
    resumed.load_state_dict(sampler.state_dict(epoch=3, consumed=10))
    for counted, expected in enumerate([epochs[3][10:], epochs[4], epochs[5]]):
        resumed.set_epoch(counted)
        resumed.set_epoch(counted)  # once for the sampler, once for the batch sampler's
        assert list(resumed) == expected
    resumed.load_state_dict(sampler.state_dict(epoch=3, consumed=10))
    for epoch, expected in (
        (3, epochs[3][10:]),
        (4, epochs[4]),
        (2, epochs[2]),
    ):  # who counts truly is believed
        resumed.set_epoch(epoch)
        assert list(resumed) == expected


def test_it_is_a_distributed_sampler_as_torch_knows_it() -> None:
    sampler = WeightedSampler(WEIGHT, num_replicas=3, rank=1)
    assert isinstance(sampler, DistributedSampler)
    assert (sampler.num_replicas, sampler.rank, sampler.num_samples, sampler.total_size) == (
        3,
        1,
        33,
        99,
    )
    assert len(sampler.dataset) == WEIGHT.size
    assert (WeightedSampler(WEIGHT).num_replicas, WeightedSampler(WEIGHT).rank) == (1, 0)


def test_ranks_are_asked_for_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made before the processes are connected, as a script does that hands its loader to a
    Trainer.
    """
    sampler = WeightedSampler(WEIGHT)
    assert len(sampler) == 101
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    assert len(sampler) == 25
    assert list(sampler) == WeightedSampler(WEIGHT).draw_epoch(0)[2:100:4].tolist()


@ONE_CORE_IS_ENOUGH
@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_loader_of_torch_delivers_it(n_workers: int) -> None:
    data = TensorDataset(torch.arange(101))
    sampler = WeightedSampler(WEIGHT)
    seen = [
        row
        for (batch,) in DataLoader(data, batch_size=8, sampler=sampler, num_workers=n_workers)
        for row in batch.tolist()
    ]
    assert seen == sampler.draw_epoch(0).tolist()


def test_more_than_one_piece_is_read_and_the_place_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows become Python numbers in pieces; the place within them is told from the iterator, not
    counted.
    """
    monkeypatch.setattr("unskew.learn.sampling.sampler._PIECE", 10)
    sampler = WeightedSampler(WEIGHT)
    for read, _ in enumerate(sampler, start=1):
        assert sampler.state_dict()["consumed"] == read
    assert read == 101


def test_what_was_given_is_not_changed_and_later_changes_do_not_matter() -> None:
    own = WEIGHT.copy()
    sampler = WeightedSampler(own)
    first = sampler.draw_epoch(0)
    np.testing.assert_array_equal(own, WEIGHT)
    own[:] = 0
    np.testing.assert_array_equal(sampler.draw_epoch(0), first)
    assert sampler.state_dict()["weights"] == WeightedSampler(WEIGHT).state_dict()["weights"]


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"replacement": False}, {"option": "size"}),
        ({"seed": -1}, {"option": "seed", "value": -1}),
        ({"seed": 0.5}, {"option": "seed", "value": 0.5}),
        ({"rank": 1}, {"option": "num_replicas"}),
        ({"rank": 2, "num_replicas": 2}, {"option": "rank", "value": 2, "limit": 2}),
    ],
)
def test_wrong_options_are_refused(options, facts) -> None:
    with refused(ConfigError, **facts):
        WeightedSampler(WEIGHT, **options)


def test_an_epoch_too_small_for_the_processes_is_refused() -> None:
    with refused(DataError, option="size", value=2, limit=3):
        len(WeightedSampler(WEIGHT, size=2, num_replicas=3, rank=0))


def test_a_state_of_another_sampler_is_refused() -> None:
    state = WeightedSampler(WEIGHT, seed=1).state_dict()
    with refused(DataError, value=["seed"]):
        WeightedSampler(WEIGHT).load_state_dict(state)
    with refused(DataError, value=["weights"]):
        WeightedSampler(WEIGHT + 1, seed=1).load_state_dict(state)
    with refused(DataError, value=["consumed", "size", "scheme", "replacement", "seed", "weights"]):
        WeightedSampler(WEIGHT, seed=1).load_state_dict({"epoch": 3, "yielded": 4})


@ONE_CORE_IS_ENOUGH
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("n_workers", [0, 2])
def test_torchdata_resumes_in_mid_epoch(n_workers: int) -> None:
    """Its loader reads ahead with workers, and takes the state of the sampler as of the batch that
    it delivered.
    """
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    data = TensorDataset(torch.arange(101))
    epochs = [WeightedSampler(WEIGHT).draw_epoch(epoch).tolist() for epoch in range(4)]

    def make_loader() -> Iterable[list[torch.Tensor]]:
        return stateful(data, batch_size=8, sampler=WeightedSampler(WEIGHT), num_workers=n_workers)

    def rows(batches: Iterable[list[torch.Tensor]]) -> list[int]:
        return [row for batch in batches for row in batch[0].tolist()]

    loader = make_loader()
    assert rows(loader) == epochs[0]
    between = loader.state_dict()
    assert rows(loader) == epochs[1]
    before = rows(itertools.islice(loader, 4))
    state = loader.state_dict()
    assert before == epochs[2][:32]
    again = make_loader()
    again.load_state_dict(state)
    assert rows(again) == epochs[2][32:]
    assert rows(again) == epochs[3]
    again = make_loader()
    again.load_state_dict(between)
    assert rows(again) == epochs[1]


def test_without_torch_the_error_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "class NotInstalled:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'torch': raise ModuleNotFoundError('no torch', name=name)\n"
        "sys.meta_path.insert(0, NotInstalled())\n"
        "import unskew\n"
        "for name in ('WeightedSampler', 'WeightedLoss'):\n"
        "    try: getattr(unskew.learn, name)\n"
        "    except unskew.ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Counter(line.split("not installed: ")[1] for line in done.stdout.splitlines()) == {
        "pip install 'unskew[torch]'": 2
    }


def test_accelerate_shares_out_what_it_reads_and_the_sampler_does_not_share_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In two processes a prepared loader trained on half of the draws."""
    data_loader = pytest.importorskip("accelerate.data_loader")
    distributed = torch.distributed
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    union: Counter[int] = Counter()
    for rank in range(2):
        monkeypatch.setattr(distributed, "get_rank", lambda rank=rank: rank)
        sampler = WeightedSampler(WEIGHT, size=96)
        assert len(list(sampler)) == len(sampler) == 48
        sampler.set_epoch(0)
        batches = torch.utils.data.BatchSampler(sampler, 8, drop_last=False)
        shard = data_loader.BatchSamplerShard(batches, num_processes=2, process_index=rank)
        assert len(shard) == 6
        union += Counter(row for batch in shard for row in batch)
    assert union == Counter(WeightedSampler(WEIGHT, size=96).draw_epoch(0).tolist())
