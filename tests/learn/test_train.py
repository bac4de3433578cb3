"""Training: what the weights mean, the same seed, runs that are stopped and resumed, what is
refused.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from unskew.errors import ConfigError, ConvergenceError, DataError

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from raising import refused  # noqa: E402
from unskew.learn import TrainingData, load_trained, settings_of, train_model  # noqa: E402
from unskew.learn.probe import fit_probe, scale_features  # noqa: E402
from unskew.learn.training_loop import TrainingLoop  # noqa: E402

RNG = np.random.default_rng(0)
N = 24
LABEL = np.arange(N) % 2
# Class b is darker, so that there is something to learn; some noise, so that not everything can be.
IMAGES = (RNG.integers(60, 256, (N, 6, 6, 3)) // (1 + LABEL[:, None, None, None])).astype(np.uint8)
WEIGHT = RNG.integers(1, 4, N).astype(float)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _data(X=IMAGES, label=LABEL, weight=WEIGHT, *, validation: bool = False) -> TrainingData:
    ids = np.array([f"{i}.png" for i in range(len(X))])
    held = (
        TrainingData(X[::2], label[::2], ("a", "b"), np.arange(1.0, len(X[::2]) + 1), ids[::2])
        if validation
        else None
    )
    return TrainingData(X, label, ("a", "b"), weight, ids, held)


def _settings(**overrides):
    usual = {
        "model": "training_networks:convolutional",
        "epochs": 3,
        "batch": 8,
        "cutout": 2,
        "device": "cpu",
    }
    return settings_of("fast", **{**usual, **overrides})


# One batch, no chance, double precision: what is learned depends on Σ_i π_i ℓ_i alone.
FULL_BATCH = {
    **{
        "model": "training_networks:linear",
        "batch": 10**6,
        "augment": False,
        "schedule": "constant",
        "precision": "64-true",
    },
    **{"learning_rate": 0.05, "epochs": 4, "cutout": 0, "weighting": "loss"},
}


def _tensors(model) -> dict:
    return dict(model.network.state_dict())


def _same_bits(first, second) -> bool:
    one, other = _tensors(first), _tensors(second)
    without_time = [[{**row, "seconds": 0} for row in model.history] for model in (first, second)]
    return (
        one.keys() == other.keys()
        and all(torch.equal(one[name], other[name]) for name in one)
        and without_time[0] == without_time[1]
    )


def _train_and_stop(monkeypatch: pytest.MonkeyPatch, epochs: int, *arguments, **options) -> None:
    """`train_model` with a Ctrl-C just after the checkpoint of this epoch was written."""
    save = TrainingLoop._save

    def save_and_stop(self) -> None:
        save(self)
        if len(self.history) == epochs:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "_save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            train_model(*arguments, **options)


# What weights mean


def test_weight_two_is_the_image_twice(tmp_path) -> None:
    times = WEIGHT.astype(int)
    repeated = _data(
        np.repeat(IMAGES, times, axis=0), np.repeat(LABEL, times), np.ones(times.sum())
    )
    weighted = train_model(_data(), _settings(**FULL_BATCH), tmp_path / "weighted", logs=False)
    unweighted = train_model(repeated, _settings(**FULL_BATCH), tmp_path / "repeated", logs=False)
    for name, value in _tensors(weighted).items():
        # Pixels are float32 while mean and deviation are measured: a few millionths.
        torch.testing.assert_close(value, _tensors(unweighted)[name], rtol=1e-5, atol=1e-7)
    assert weighted.history[-1]["train_loss"] == pytest.approx(
        unweighted.history[-1]["train_loss"], rel=1e-6
    )


@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_weight_zero_is_the_image_removed(tmp_path, weighting: str) -> None:
    kept = np.arange(N) % 3 > 0
    with_zeros = train_model(
        _data(weight=WEIGHT * kept), _settings(weighting=weighting), tmp_path / "zeros", logs=False
    )
    removed = train_model(
        _data(IMAGES[kept], LABEL[kept], WEIGHT[kept]),
        _settings(weighting=weighting),
        tmp_path / "gone",
        logs=False,
    )
    assert _same_bits(with_zeros, removed)


@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_probabilities_follow_the_weights(tmp_path, weighting: str) -> None:
    """All features alike, three quarters of the weight on class a, a quarter of the rows: P(a) =
    3/4. Each of a is drawn three times.
    """
    label = (np.arange(40) >= 10).astype(int)
    data = _data(np.ones((40, 2), dtype=np.float32), label, np.where(label, 1.0, 9.0))
    chosen = {
        "model": "training_networks:linear",
        "epochs": 60,
        "batch": 40,
        "learning_rate": 1.0,
        "label_smoothing": 0.0,
    }
    model = train_model(
        data,
        settings_of("fast", weighting=weighting, weight_decay=0.0, **chosen),
        tmp_path,
        logs=False,
    )
    np.testing.assert_allclose(model.scores(data.X[:1]), [[0.75, 0.25]], atol=2e-3)


def test_running_statistics_are_those_of_the_target(tmp_path) -> None:
    """The images are scaled to the target's mean 0 and variance 1; a layer that averages over the
    pool as it is would have others.
    """
    dark = np.arange(64) < 56
    X = np.where(dark[:, None, None, None], 40, 200) + RNG.integers(0, 40, (64, 6, 6, 3))
    data = _data(X.astype(np.uint8), np.arange(64) % 2, np.where(dark, 0.5 / 56, 0.5 / 8))
    model = train_model(
        data,
        _settings(model="training_networks:normalised", batch=16, epochs=1),
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


# The same seed, and runs that were stopped


@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_the_same_seed_gives_the_same_bits_and_another_others(tmp_path, weighting: str) -> None:
    runs = [
        train_model(
            _data(), _settings(seed=seed, weighting=weighting), tmp_path / str(i), logs=False
        )
        for i, seed in enumerate([1, 1, 2])
    ]
    assert _same_bits(runs[0], runs[1])
    assert not _same_bits(runs[0], runs[2])


def test_the_callers_random_numbers_go_on_as_if_nothing_had_happened(tmp_path) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    train_model(_data(), _settings(epochs=1), tmp_path, logs=False)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "changes",
    [{"weighting": "loss"}, {"schedule": "steps", "milestones": (1,)}],
    ids=["loss", "sampler"],
)
@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_run_ends_in_the_same_bits(
    tmp_path, monkeypatch, changes: dict, stop: int
) -> None:
    data, settings = _data(validation=True), _settings(**changes)
    straight = train_model(data, settings, tmp_path / "straight", logs=False)
    _train_and_stop(monkeypatch, stop, data, settings, tmp_path / "stopped", logs=False)
    with pytest.raises(DataError, match="resume it"):
        load_trained(tmp_path / "stopped")
    resumed = train_model(data, settings, tmp_path / "stopped", logs=False, resume=True)
    assert _same_bits(straight, resumed)
    assert (tmp_path / "straight" / "model.pt").read_bytes() == (
        tmp_path / "stopped" / "model.pt"
    ).read_bytes()
    assert sorted(path.name for path in (tmp_path / "stopped").iterdir()) == [
        "model.pt",
        "settings.json",
    ]
    # A finished run is returned as it is.
    assert _same_bits(
        train_model(data, settings, tmp_path / "stopped", logs=False, resume=True), straight
    )


def test_other_data_or_settings_cannot_resume_a_run(tmp_path, monkeypatch) -> None:
    _train_and_stop(monkeypatch, 1, _data(), _settings(), tmp_path, logs=False)
    other = replace(_data(), weight=WEIGHT[::-1], label=LABEL[::-1])
    with pytest.raises(ConfigError) as caught:
        train_model(
            other,
            _settings(epochs=5, model="fast"),
            tmp_path,
            logs=False,
            resume=True,
            watch={"test": _data()},
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
    finished = train_model(_data(), _settings(), tmp_path, logs=False, resume=True)
    with refused(ConfigError, value=["the weights"]):
        train_model(
            replace(_data(), weight=WEIGHT[::-1]), _settings(), tmp_path, logs=False, resume=True
        )
    assert _same_bits(finished, load_trained(tmp_path))


def test_a_folder_that_holds_a_run_is_not_overwritten_without_force(tmp_path, monkeypatch) -> None:
    first = train_model(_data(), _settings(), tmp_path, logs=False)
    with refused(ConfigError, path=str(tmp_path), value=["model.pt"]):
        train_model(_data(), _settings(seed=1), tmp_path, logs=False)
    assert _same_bits(load_trained(tmp_path), first)
    with refused(ConfigError, option="resume"):
        train_model(_data(), _settings(), tmp_path, logs=False, force=True, resume=True)
    _train_and_stop(monkeypatch, 1, _data(), _settings(seed=1), tmp_path, logs=False, force=True)
    with refused(ConfigError, path=str(tmp_path), value=["checkpoint.pt"]):
        train_model(_data(), _settings(seed=1), tmp_path, logs=False)
    assert not _same_bits(
        train_model(_data(), _settings(seed=1), tmp_path, logs=False, force=True), first
    )


def test_logs_of_a_resumed_run_have_every_epoch_once(tmp_path, monkeypatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    data = _data(validation=True)
    _train_and_stop(monkeypatch, 2, data, _settings(), tmp_path)
    model = train_model(data, _settings(), tmp_path, resume=True, watch=None)
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


# What is kept, and what is told of it


def test_history_and_scores_tell_the_same(tmp_path) -> None:
    """The loss and accuracies of the kept epoch, computed anew from the scores."""
    data = _data(validation=True)
    test = replace(_data(), weight=np.ones(N))
    model = train_model(data, _settings(), tmp_path, logs=False, watch={"test": test})
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
    wrong = replace(_data(), label=1 - LABEL)
    data = replace(_data(), validation=wrong)
    model = train_model(
        data,
        _settings(**{**FULL_BATCH, "epochs": 20}, patience=2),
        tmp_path / "patient",
        logs=False,
    )
    loss = [row["validation_loss"] for row in model.history]
    assert (model.epoch, len(loss)) == (0, 3)
    assert loss == sorted(loss)
    short = train_model(
        data, _settings(**{**FULL_BATCH, "epochs": 1}), tmp_path / "short", logs=False
    )
    assert all(torch.equal(value, _tensors(model)[name]) for name, value in _tensors(short).items())


def test_without_validation_the_last_epoch_is_kept(tmp_path) -> None:
    assert train_model(_data(), _settings(patience=1), tmp_path, logs=False).epoch == 2


def test_a_memmap_is_learned_from_as_an_array_is(tmp_path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    some = WEIGHT * (np.arange(N) % 4 > 0)
    for weight in (WEIGHT, some):
        runs = [
            train_model(
                _data(X, weight=weight), _settings(), tmp_path / "run", logs=False, force=True
            )
            for X in (IMAGES, mapped)
        ]
        assert _same_bits(*runs)


def test_nothing_is_printed_where_there_is_no_terminal(tmp_path, capfd) -> None:
    train_model(_data(), _settings(epochs=1), tmp_path, logs=False)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_bar_shows_on_demand(tmp_path, capfd) -> None:
    train_model(_data(), _settings(epochs=1), tmp_path, logs=False, progress=True)
    assert "images trained on" in capfd.readouterr().err


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_other_precisions(tmp_path, precision: str) -> None:
    model = train_model(
        _data(validation=True), _settings(precision=precision), tmp_path, logs=False
    )
    assert math.isfinite(model.history[-1]["validation_loss"])
    assert model.scores(IMAGES).shape == (N, 2)


def test_the_preset_article_makes_two_steps(tmp_path) -> None:
    data = _data(IMAGES[:8], LABEL[:8], WEIGHT[:8])
    model = train_model(
        data, settings_of("article", epochs=1, batch=4, device="cpu"), tmp_path, logs=False
    )
    assert (model.settings.model, model.history[0]["learning_rate"]) == ("resnet56", 0.1)


def test_the_fast_network_learns_an_easy_task(tmp_path) -> None:
    X = np.repeat(np.repeat(IMAGES, 2, axis=1), 2, axis=2)
    model = train_model(
        _data(X), settings_of("fast", epochs=6, batch=8, device="cpu"), tmp_path, logs=False
    )
    assert (model.scores(X).argmax(1) == LABEL).all()


# The probe


def test_the_probe_is_the_exact_one(tmp_path) -> None:
    X = RNG.normal(size=(60, 5)).astype(np.float32) * np.arange(1, 6, dtype=np.float32)
    label = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)
    data = TrainingData(X, label, ("a", "b", "never"), np.ones(60), np.arange(60).astype(str))
    model = train_model(data, settings_of("probe"), tmp_path)
    scaled = scale_features(X, "fourth_root")
    expected = np.exp(fit_probe(scaled, label, np.ones(60), 3).logits(scaled))
    np.testing.assert_allclose(
        model.scores(X), expected / expected.sum(1, keepdims=True), atol=2e-4
    )
    assert (model.scores(X)[:, 2] == 0).all()
    assert model.history[0]["train_loss"] == pytest.approx(
        -np.log(model.scores(X)[np.arange(60), label]).mean(), rel=1e-6
    )
    again = train_model(data, settings_of("probe"), tmp_path, resume=True)
    assert _same_bits(model, again)


def test_a_probe_of_pixels(tmp_path) -> None:
    model = train_model(_data(validation=True), settings_of("probe"), tmp_path, logs=False)
    assert (model.scores(IMAGES).argmax(1) == LABEL).all()
    assert model.history[0]["validation_accuracy"] == 1


# What is refused


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "training_networks:always_three",
            "(b, 2); for 2 rows it gave the shape (2, 3)",
        ),
        ("training_networks:not_a_module", "torch.nn.Module; it returned str"),
        ("training_networks:too_small", "(6, 6, 3)"),
        ("training_networks:convolutionall", "Did you mean 'convolutional'?"),
        ("training_networks:NUMBER", "cannot be called"),
        ("training_networks:needs_two", "TypeError"),
        ("training_networks:frozen", "freeze"),
        ("training_networks:fails_in_training", "(6, 6, 3) fails: ValueError: only judging"),
        ("training_networks:whole_numbers", "cannot be trained"),
        ("no_such_module:make", "'no_such_module'"),
        ("fast", "9 × 9 pixels; got (6, 6)"),
    ],
)
def test_a_model_that_does_not_fit(tmp_path, model: str, words: str) -> None:
    with refused(ConfigError, option="model", value=model) as caught:
        train_model(_data(), _settings(model=model), tmp_path / "run", logs=False)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def make(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_module_that_fails_at_import(tmp_path, monkeypatch, text: str, words: str) -> None:
    name = f"fails_with_{words.lower()}"
    (tmp_path / f"{name}.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=words):
        train_model(_data(), _settings(model=f"{name}:make"), tmp_path / "run", logs=False)


def test_networks_of_images_do_not_learn_from_features(tmp_path) -> None:
    with refused(ConfigError, option="model", value="resnet20"):
        train_model(
            _data(np.ones((N, 4), dtype=np.float32)),
            _settings(model="resnet20"),
            tmp_path,
            logs=False,
        )


def test_a_diverging_run_says_so_and_keeps_its_last_checkpoint(tmp_path) -> None:
    with pytest.raises(
        ConvergenceError,
        match=r"diverged in epoch \d.*learning rate that is too high \(it is 1e\+30",
    ):
        train_model(_data(), _settings(learning_rate=1e30, epochs=9), tmp_path, logs=False)
    assert not (tmp_path / "model.pt").exists()


@pytest.mark.parametrize("model", ["training_networks:convolutional", "probe"])
def test_equal_runs_write_equal_files_and_still_tell_how_long_epochs_took(tmp_path, model) -> None:
    """The model card states the SHA-256 of model.pt: two who train the same can compare."""
    runs = [
        train_model(_data(), _settings(model=model), tmp_path / name, logs=False)
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
    with refused(DataError, value=None, allowed=[1]):
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
    train_model(_data(), _settings(), tmp_path, logs=False)
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    state["settings"]["model"] = "training_networks:normalised"
    torch.save(state, tmp_path / "model.pt")
    with refused(DataError, value="training_networks:normalised"):
        load_trained(tmp_path)


def test_scores_of_other_shapes_are_refused(tmp_path) -> None:
    model = train_model(_data(), _settings(epochs=1), tmp_path, logs=False)
    with refused(DataError, value=[5, 5, 3, "uint8"], allowed=[6, 6, 3, "uint8"]):
        model.scores(IMAGES[:, :5, :5])
    with refused(DataError, value=[6, 6, 3, "float64"]):
        model.scores(IMAGES / 255)
    assert model.scores(IMAGES[:0]).shape == (0, 2)


def test_a_batch_that_devices_cannot_share_and_a_card_that_is_not_there(tmp_path) -> None:
    with refused(ConfigError, option="batch", value=9):
        train_model(_data(), _settings(batch=9, devices=2), tmp_path / "a", logs=False)
    if not torch.cuda.is_available():
        with refused(ConfigError, option="device", value="cuda"):
            train_model(_data(), _settings(device="cuda"), tmp_path / "b", logs=False)


@pytest.mark.parametrize("package", ["torch", "lightning"])
def test_what_is_missing_is_named(tmp_path, monkeypatch, package: str) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    for settings in (_settings(), settings_of("probe")):
        with pytest.raises(
            ConfigError, match=rf"training needs the package '{package}.*unskew\[torch\]"
        ):
            train_model(_data(), settings, tmp_path / "run")


def test_names_of_watched_images_that_the_history_uses(tmp_path) -> None:
    with refused(ConfigError, option="watch", value="validation"):
        train_model(_data(), _settings(), tmp_path, watch={"validation": _data()})
    with refused(DataError, levels=["b", "a"], allowed=["a", "b"]):
        train_model(
            _data(), _settings(), tmp_path, watch={"test": replace(_data(), classes=("b", "a"))}
        )


def test_a_path_that_cannot_be_a_folder(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with refused(DataError, path=str(tmp_path / "file")):
        train_model(_data(), _settings(), tmp_path / "file", logs=False)


def test_one_image_of_positive_weight_is_not_enough_for_a_network(tmp_path):
    weight = np.zeros(WEIGHT.size)
    weight[0] = 1.0
    with refused(DataError, count=1, limit=2):
        train_model(_data(weight=weight), _settings(), tmp_path / "one", logs=False)
    assert not (tmp_path / "one").exists()
