"""Running statistics of batch normalisation on a weighted sample: those of the target, by whatever
the network was trained.
"""

from __future__ import annotations

import numpy as np
import pytest

from raising import refused
from unskew.errors import DataError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from unskew.learn import WeightedSampler, update_batch_norm  # noqa: E402

RNG = np.random.default_rng(0)
# Dark images are nine tenths of the pool and half of the target.
DARK = np.arange(1000) < 900
X = torch.from_numpy(np.where(DARK, -1.0, 3.0)[:, None] + RNG.normal(size=(1000, 2))).float()
WEIGHT = np.where(DARK, 0.5 / 900, 0.5 / 100)
TARGET_MEAN = (WEIGHT[:, None] * X.numpy()).sum(0)
TARGET_VARIANCE = (WEIGHT[:, None] * (X.numpy() - TARGET_MEAN) ** 2).sum(0)


def _weighted_batches(batch_size: int = 500) -> DataLoader:
    return DataLoader(
        TensorDataset(X, torch.from_numpy(DARK)),
        batch_size=batch_size,
        sampler=WeightedSampler(WEIGHT, size=2000),
    )


def test_the_statistics_become_those_of_the_target() -> None:
    """After training on the pool as it is they are the pool's, four tenths of 4 too dark."""
    layer = torch.nn.BatchNorm1d(2)
    for batch in X[torch.from_numpy(RNG.permutation(1000))].repeat(20, 1).split(500):
        layer(batch)
    assert np.all(np.abs(layer.running_mean.numpy() - TARGET_MEAN) > 1)
    update_batch_norm(layer, _weighted_batches())
    # Dark and bright are drawn in exact halves (mπ is 10/9 and 10); what is left is which of the
    # dark come twice, and the batches' spread.
    np.testing.assert_allclose(layer.running_mean, TARGET_MEAN, atol=0.03)
    np.testing.assert_allclose(layer.running_var, TARGET_VARIANCE, rtol=0.03)


def test_batches_count_by_their_size() -> None:
    layer = torch.nn.BatchNorm1d(2, momentum=0.3)
    update_batch_norm(layer, X.split(300))
    torch.testing.assert_close(layer.running_mean, X.mean(0))
    assert layer.momentum == 0.3


def test_only_statistics_change_and_modes_are_restored() -> None:
    """Dropout is as in evaluation, where the statistics will be used: twice the same sample gives
    twice the same.
    """
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )
    model.train()
    model[3].eval()
    before = {name: value.clone() for name, value in model.named_parameters()}
    found = []
    for _ in range(2):
        update_batch_norm(model, X.split(100), inputs=lambda batch: batch * 1.0)
        found.append(model[2].running_var.clone())
    assert torch.equal(*found)
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    assert [module.training for module in model] == [True, True, True, False]
    assert all(value.grad is None for value in model.parameters())


def test_modes_are_restored_after_a_failure() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(3, 3)).train()
    with pytest.raises(RuntimeError):
        update_batch_norm(model, X.split(100))
    assert model.training
    assert model[0].momentum == 0.1


def test_a_model_without_batch_normalisation_is_left_alone() -> None:
    update_batch_norm(torch.nn.Linear(2, 2), iter(()))
    update_batch_norm(torch.nn.BatchNorm1d(2, track_running_stats=False), iter(()))


def test_no_batch_is_an_error() -> None:
    with refused(DataError, option="batches", count=0):
        update_batch_norm(torch.nn.BatchNorm1d(2), [])


def test_statistics_of_all_processes_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(
        torch.distributed, "all_reduce", lambda statistic: statistic.add_(10)
    )  # the other process found 10
    layer = torch.nn.BatchNorm1d(2)
    update_batch_norm(layer, X.split(500))
    torch.testing.assert_close(layer.running_mean, (X.mean(0) + 10) / 2)
