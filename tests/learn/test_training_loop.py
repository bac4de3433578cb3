"""The epochs of a training: judged, kept, resumed in the same bits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from small_trainings import (
    FULL_BATCH,
    LABEL,
    N,
    same_bits,
    small_data,
    small_settings,
    tensors,
    train_and_stop,
)
from unskew.errors import ConvergenceError, DataError

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
from unskew.learn import load_trained, train_model  # noqa: E402
from unskew.learn.network_ways import judge_rows  # noqa: E402
from unskew.learn.training_data import DeviceRows, TrainingData  # noqa: E402
from unskew.learn.training_loop import TrainingRun  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def test_running_statistics_are_those_of_the_target(tmp_path) -> None:
    """The images are scaled to the target's mean 0 and variance 1; a layer that averages over the
    pool as it is would have others.
    """
    rng = np.random.default_rng(0)
    dark = np.arange(64) < 56
    X = np.where(dark[:, None, None, None], 40, 200) + rng.integers(0, 40, (64, 6, 6, 3))
    data = small_data(X.astype(np.uint8), np.arange(64) % 2, np.where(dark, 0.5 / 56, 0.5 / 8))
    model = train_model(
        data,
        small_settings(model="training_networks:normalised", batch=16, epochs=1),
        tmp_path,
        logs=False,
    )
    layer = model.network.network[0]
    # Half of the draws are dark, exactly (64 × 0.5/56 × 56); within each half chance decides, of 64
    # images.
    np.testing.assert_allclose(layer.running_mean, 0, atol=0.1)
    np.testing.assert_allclose(layer.running_var, 1, atol=0.25)
    pool_mean = (X.mean(axis=(0, 1, 2)) - model.network.mean.numpy()) * model.network.factor.numpy()
    assert (np.abs(pool_mean) > 0.5).all()


@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_the_same_seed_gives_the_same_bits_and_another_others(tmp_path, weighting: str) -> None:
    runs = [
        train_model(
            small_data(),
            small_settings(seed=seed, weighting=weighting),
            tmp_path / str(i),
            logs=False,
        )
        for i, seed in enumerate([1, 1, 2])
    ]
    assert same_bits(runs[0], runs[1])
    assert not same_bits(runs[0], runs[2])


@pytest.mark.parametrize(
    "changes",
    [{"weighting": "loss"}, {"schedule": "steps", "milestones": (1 / 3,)}],
    ids=["loss", "sampler"],
)
@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_run_ends_in_the_same_bits(
    tmp_path, monkeypatch, changes: dict, stop: int
) -> None:
    data, settings = small_data(validation=True), small_settings(**changes)
    straight = train_model(data, settings, tmp_path / "straight", logs=False)
    train_and_stop(monkeypatch, stop, data, settings, tmp_path / "stopped", logs=False)
    with pytest.raises(DataError, match="resume it"):
        load_trained(tmp_path / "stopped")
    resumed = train_model(data, settings, tmp_path / "stopped", logs=False, resume=True)
    assert same_bits(straight, resumed)
    assert (tmp_path / "straight" / "model.pt").read_bytes() == (
        tmp_path / "stopped" / "model.pt"
    ).read_bytes()
    assert sorted(path.name for path in (tmp_path / "stopped").iterdir()) == [
        "model.pt",
        "settings.json",
    ]
    # A finished run is returned as it is.
    assert same_bits(
        train_model(data, settings, tmp_path / "stopped", logs=False, resume=True), straight
    )


def test_history_and_scores_tell_the_same(tmp_path) -> None:
    """The loss and accuracies of the kept epoch, computed anew from the scores."""
    data = small_data(validation=True)
    test = replace(small_data(), weight=np.ones(N))
    settings = small_settings(way="half")
    model = train_model(data, settings, tmp_path, logs=False, watch={"test": test})
    for name, judged in {"validation": data.validation, "test": test}.items():
        score = model.scores(judged.X)
        np.testing.assert_allclose(score.sum(1), 1, rtol=1e-12)
        hit, lost = (
            score.argmax(1) == judged.label,
            -np.log(score[np.arange(len(judged)), judged.label]),
        )
        row = model.history[model.epoch]
        assert row[f"{name}_loss"] == pytest.approx(
            np.average(lost, weights=judged.weight), rel=1e-5
        )
        assert row[f"{name}_accuracy"] == pytest.approx(np.average(hit, weights=judged.weight))
        assert row[f"{name}_accuracy_unweighted"] == pytest.approx(hit.mean())
    assert [row["epoch"] for row in model.history] == [0, 1, 2]
    told = json.loads((tmp_path / "settings.json").read_text())
    assert (told["model"], told["classes"], told["epoch"]) == (
        "training_networks:convolutional",
        ["a", "b"],
        model.epoch,
    )
    assert told["fingerprint"] == model.fingerprint == data.without_zeros().fingerprint()


def test_patience_ends_a_run_and_keeps_its_best_epoch(tmp_path) -> None:
    """The validation images have the wrong labels: every epoch makes it worse, so the first is the
    best.
    """
    wrong = replace(small_data(), label=1 - LABEL)
    data = replace(small_data(), validation=wrong)
    model = train_model(
        data,
        small_settings(**{**FULL_BATCH, "epochs": 20}, patience=2),
        tmp_path / "patient",
        logs=False,
    )
    loss = [row["validation_loss"] for row in model.history]
    assert (model.epoch, len(loss)) == (0, 3)
    assert loss == sorted(loss)
    short = train_model(
        data, small_settings(**{**FULL_BATCH, "epochs": 1}), tmp_path / "short", logs=False
    )
    assert all(torch.equal(value, tensors(model)[name]) for name, value in tensors(short).items())


def test_without_validation_the_last_epoch_is_kept(tmp_path) -> None:
    assert train_model(small_data(), small_settings(patience=1), tmp_path, logs=False).epoch == 2


def test_a_diverging_run_says_so_and_keeps_its_last_checkpoint(tmp_path) -> None:
    with pytest.raises(
        ConvergenceError,
        match=r"diverged in epoch \d.*learning rate that is too high \(it is 1e\+30",
    ):
        train_model(
            small_data(), small_settings(learning_rate=1e30, epochs=9), tmp_path, logs=False
        )
    assert not (tmp_path / "model.pt").exists()


def test_no_epoch_depends_on_what_happens_afterwards(tmp_path) -> None:
    """`auto` trains as `half`; only its last layer, and what is made of logits, may differ."""
    one, other = (
        train_model(
            small_data(validation=True), small_settings(way=way), tmp_path / way, logs=False
        )
        for way in ("auto", "half")
    )
    without_time = [[{**row, "seconds": 0} for row in model.history] for model in (one, other)]
    assert without_time[0] == without_time[1]


def test_rows_are_judged_under_their_weights_and_without() -> None:
    """A network whose logits are the features themselves."""
    X = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    label, weight = np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 3.0, 4.0])
    data = TrainingData(X, label, ("a", "b"), weight, np.arange(4).astype(str))
    found = judge_rows(torch.nn.Identity(), DeviceRows(data, torch.device("cpu")))
    lost = np.log(np.exp(X).sum(axis=1)) - X[np.arange(4), label]
    assert found["loss"] == pytest.approx(weight @ lost / 10, rel=1e-6)
    assert found["accuracy"] == pytest.approx(0.3)
    assert found["accuracy_unweighted"] == 0.5


def test_a_run_tells_what_it_judges_and_what_it_was_begun_with(tmp_path) -> None:
    data = small_data(validation=True)
    settings = small_settings()
    run = TrainingRun(
        data, settings, tmp_path, {"test": small_data()}, {"images": "f"}, None, False
    )
    assert list(run.judged) == ["validation", "test"]
    assert run.judged["validation"] is data.validation
    assert list(replace(run, data=small_data(), watched={}).judged) == []
    facts = run.facts()
    assert facts["settings"]["batch"] == 8
    assert (facts["classes"], facts["shape"]) == (["a", "b"], [6, 6, 3])
    assert (facts["fingerprint"], facts["watched"]) == ({"images": "f"}, ["test"])
