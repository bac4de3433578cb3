"""A trained model: its scores, its files, and what is refused of them."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from small_trainings import (
    IMAGES,
    LABEL,
    WEIGHT,
    same_bits,
    small_data,
    small_settings,
    train_and_stop,
)
from unskew.errors import ConfigError, DataError

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
from raising import refused  # noqa: E402
from unskew.learn import load_trained, train_model  # noqa: E402
from unskew.learn.trained_model import (  # noqa: E402
    TrainedModel,
    found_device,
    load_seconds,
    load_state,
    prepare_folder,
    save_settings,
    save_state,
    with_seconds,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_data_or_settings_cannot_resume_a_run(tmp_path, monkeypatch) -> None:
    train_and_stop(monkeypatch, 1, small_data(), small_settings(), tmp_path, logs=False)
    other = replace(small_data(), weight=WEIGHT[::-1], label=LABEL[::-1])
    with pytest.raises(ConfigError) as caught:
        train_model(
            other,
            small_settings(epochs=5, model="fast"),
            tmp_path,
            logs=False,
            resume=True,
            watch={"test": small_data()},
        )
    differing = caught.value.facts["value"]
    assert {
        "epochs (3 there, 5 now)",
        "model ('training_networks:convolutional' there, 'fast' now)",
        "the labels",
        "the weights",
        "the watched sets (none there, test now)",
    } <= set(differing)
    assert all(part in str(caught.value) for part in differing)
    assert "the images" not in differing
    assert not any(part.startswith("batch") for part in differing)
    finished = train_model(small_data(), small_settings(), tmp_path, logs=False, resume=True)
    with refused(ConfigError, value=["the weights"]):
        train_model(
            replace(small_data(), weight=WEIGHT[::-1]),
            small_settings(),
            tmp_path,
            logs=False,
            resume=True,
        )
    assert same_bits(finished, load_trained(tmp_path))


def test_a_folder_that_holds_a_run_is_not_overwritten_without_force(tmp_path, monkeypatch) -> None:
    first = train_model(small_data(), small_settings(), tmp_path, logs=False)
    with refused(ConfigError, path=str(tmp_path), value=["model.pt"]):
        train_model(small_data(), small_settings(seed=1), tmp_path, logs=False)
    assert same_bits(load_trained(tmp_path), first)
    with refused(ConfigError, option="resume"):
        train_model(small_data(), small_settings(), tmp_path, logs=False, force=True, resume=True)
    train_and_stop(
        monkeypatch, 1, small_data(), small_settings(seed=1), tmp_path, logs=False, force=True
    )
    with refused(ConfigError, path=str(tmp_path), value=["checkpoint.pt"]):
        train_model(small_data(), small_settings(seed=1), tmp_path, logs=False)
    assert not same_bits(
        train_model(small_data(), small_settings(seed=1), tmp_path, logs=False, force=True), first
    )


def test_logs_of_a_resumed_run_have_every_epoch_once(tmp_path, monkeypatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    data = small_data(validation=True)
    train_and_stop(monkeypatch, 2, data, small_settings(), tmp_path)
    model = train_model(data, small_settings(), tmp_path, resume=True, watch=None)
    found = EventAccumulator(str(tmp_path / "logs")).Reload()
    names = [
        "train/learning_rate",
        "train/loss",
        "validation/accuracy",
        "validation/accuracy_unweighted",
        "validation/loss",
    ]
    assert sorted(found.Tags()["scalars"]) == names
    events = found.Scalars("validation/loss")
    assert [event.step for event in events] == [0, 1, 2]
    np.testing.assert_allclose(
        [event.value for event in events],
        [row["validation_loss"] for row in model.history],
        rtol=1e-6,
    )


@pytest.mark.parametrize("model", ["training_networks:convolutional", "probe"])
def test_equal_runs_write_equal_files_and_still_tell_how_long_epochs_took(tmp_path, model) -> None:
    """The model card states the SHA-256 of model.pt: two who train the same can compare."""
    runs = [
        train_model(small_data(), small_settings(model=model), tmp_path / name, logs=False)
        for name in ("one", "other")
    ]
    assert (tmp_path / "one" / "model.pt").read_bytes() == (
        tmp_path / "other" / "model.pt"
    ).read_bytes()
    assert all(row["seconds"] > 0 for run in runs for row in run.history)
    (tmp_path / "one" / "settings.json").unlink()
    assert "seconds" not in load_trained(tmp_path / "one").history[0]


def test_checkpoints_that_are_none(tmp_path) -> None:
    with refused(DataError, path=str(tmp_path / "model.pt")):
        load_trained(tmp_path)
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04 torn")
    with refused(DataError, path=str(tmp_path / "model.pt")):
        load_trained(tmp_path)
    torch.save({"network": {}}, tmp_path / "model.pt")
    with refused(DataError, value=None, allowed=[2]):
        load_trained(tmp_path)
    torch.save({"format": 2, "settings": {}}, tmp_path / "model.pt")
    with refused(DataError, path=str(tmp_path / "model.pt")):
        load_trained(tmp_path)
    (tmp_path / "model.pt").unlink()
    os.mkfifo(tmp_path / "model.pt")
    with refused(DataError, path=str(tmp_path / "model.pt")):
        load_trained(tmp_path)


class _Trap:
    def __reduce__(self):
        return (open, ("trapped.txt", "w"))


def test_nothing_in_a_checkpoint_is_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"format": 1, "network": _Trap()}, tmp_path / "model.pt")
    with refused(DataError, path=str(tmp_path / "model.pt")):
        load_trained(tmp_path)
    assert not (tmp_path / "trapped.txt").exists()


def test_weights_of_another_model_are_an_error(tmp_path) -> None:
    train_model(small_data(), small_settings(), tmp_path, logs=False)
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    state["settings"]["model"] = "training_networks:normalised"
    torch.save(state, tmp_path / "model.pt")
    with refused(DataError, value="training_networks:normalised"):
        load_trained(tmp_path)


def test_scores_of_other_shapes_are_refused(tmp_path) -> None:
    model = train_model(small_data(), small_settings(epochs=1), tmp_path, logs=False)
    with refused(DataError, value=[5, 5, 3, "uint8"], allowed=[6, 6, 3, "uint8"]):
        model.scores(IMAGES[:, :5, :5])
    with refused(DataError, value=[6, 6, 3, "float64"]):
        model.scores(IMAGES / 255)
    assert model.scores(IMAGES[:0]).shape == (0, 2)


def test_a_path_that_cannot_be_a_folder(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with refused(DataError, path=str(tmp_path / "file")):
        train_model(small_data(), small_settings(), tmp_path / "file", logs=False)


def test_state_survives_the_disk_and_nothing_else_is_left(tmp_path) -> None:
    state = {"network": {"w": torch.arange(3.0)}, "history": [{"epoch": 0}], "name": "a"}
    save_state(tmp_path / "model.pt", state)
    found = load_state(tmp_path / "model.pt")
    assert torch.equal(found["network"]["w"], torch.arange(3.0))
    assert (found["history"], found["name"], found["format"]) == ([{"epoch": 0}], "a", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_seconds_come_back_from_the_settings_or_are_left_out(tmp_path) -> None:
    history = [{"epoch": 0}, {"epoch": 1}]
    assert with_seconds(history, tmp_path) == tuple(history)
    save_settings(tmp_path, {"model": "fast"}, seconds=[1.5, 2.5])
    assert load_seconds(tmp_path) == [1.5, 2.5]
    assert [row["seconds"] for row in with_seconds(history, tmp_path)] == [1.5, 2.5]
    # Another number of epochs: times of another run.
    assert "seconds" not in with_seconds(history[:1], tmp_path)[0]
    (tmp_path / "settings.json").write_text("{torn")
    assert load_seconds(tmp_path) == []


def test_what_a_killed_process_left_is_swept_and_force_replaces_all(tmp_path) -> None:
    part = tmp_path / ".model.pt.123.part"
    part.write_text("torn")
    prepare_folder(tmp_path, resume=False, force=False)
    assert not part.exists()
    for name in ("model.pt", "checkpoint.pt", "settings.json"):
        (tmp_path / name).write_text("")
    prepare_folder(tmp_path, resume=True, force=False)
    assert (tmp_path / "model.pt").exists()
    with refused(ConfigError, path=str(tmp_path), value=["model.pt", "checkpoint.pt"]):
        prepare_folder(tmp_path, resume=False, force=False)
    (tmp_path / "note.txt").write_text("mine")
    prepare_folder(tmp_path, resume=False, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_device_is_one_that_is_there(monkeypatch) -> None:
    for card, found in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda card=card: card)
        assert found_device("auto") == found
        assert found_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with refused(ConfigError, option="device", value="cuda"):
        found_device("cuda")
    with refused(ConfigError, option="device", value="gpu"):
        found_device("gpu")


def test_scores_are_the_softmax_of_the_networks_logits() -> None:
    settings = small_settings()
    X = np.array([[1.0, 3.0], [0.0, 0.0]], dtype=np.float32)
    model = TrainedModel(settings, ("a", "b"), 0, (), (2,), {}, torch.nn.Identity())
    np.testing.assert_allclose(
        model.scores(X, device="cpu"), np.exp(X) / np.exp(X).sum(axis=1, keepdims=True), rtol=1e-6
    )
