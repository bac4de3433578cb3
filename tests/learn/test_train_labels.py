"""Training on images with any number of labels: the same as two classes where there is one."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from unskew.learn import TrainingData, load_trained, settings_of, train_model  # noqa: E402
from unskew.learn.network_ways import hits_of, split_head  # noqa: E402
from unskew.learn.recipes import Recipe  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
N = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
LABEL = (X @ RNG.normal(size=(4, 3)) + RNG.logistic(size=(N, 3)) > 0.5).astype(np.float32)
WEIGHT = RNG.exponential(1.0, N)


def make_data(label=LABEL, classes=("a", "b", "c"), weight=WEIGHT, rows=slice(0, 160), own=True):
    later = slice(160, N)
    parts = [
        TrainingData(X[part], label[part], classes, weight[part], np.arange(N)[part])
        for part in (rows, later)
    ]
    return TrainingData(
        *(parts[0].X, parts[0].label, classes, parts[0].weight, parts[0].id),
        validation=parts[1] if own else None,
    )


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The settings of a small network on features."""
    (tmp_path / "tiny_labels.py").write_text(
        "import torch\n\n\ndef make(n_classes):\n    return torch.nn.Sequential(\n"
        "        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, n_classes)\n    )\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {"model": "tiny_labels:make", "batch": 40, "epochs": 2, "logger": "none"}
    sys.modules.pop("tiny_labels", None)


def test_one_label_is_the_probe_of_two_classes(tmp_path) -> None:
    settings = settings_of("probe", logger="none")
    label = LABEL[:, 0]
    one = train_model(make_data(label[:, None], ("a",)), settings, tmp_path / "one")
    two = train_model(make_data(label.astype(int), ("no", "yes")), settings, tmp_path / "two")
    assert one.scores(X)[:, 0] == pytest.approx(two.scores(X)[:, 1], abs=1e-6)
    for measure in ("validation_loss", "validation_accuracy", "validation_accuracy_unweighted"):
        assert one.history[0][measure] == pytest.approx(two.history[0][measure], rel=1e-5)
    assert one.choice.way == two.choice.way


def test_a_network_is_trained_kept_and_loaded(tmp_path, tiny) -> None:
    label = LABEL.copy()
    label[RNG.random(label.shape) < 0.2] = np.nan
    settings = settings_of("fast", **tiny)
    trained = train_model(make_data(label), settings, tmp_path / "run")
    loaded = load_trained(tmp_path / "run", allow_code=["tiny_labels:make"])
    assert loaded.has_label_sets
    score = loaded.scores(X)
    assert np.array_equal(score, trained.scores(X))
    assert ((score > 0) & (score < 1)).all()
    assert not np.allclose(score.sum(axis=1), 1.0)
    with refused(ConfigError):  # other labels are other data
        train_model(make_data(), settings, tmp_path / "run", resume=True)


def test_duplicated_images_are_weight_two_and_ones_are_naive(tmp_path, tiny) -> None:
    twice = np.where(np.arange(160) < 40, 2.0, 1.0)
    rows = np.repeat(np.arange(160), twice.astype(int))
    options = {**tiny, "weighting": "loss", "way": "weights", "batch": 400, "precision": "64-true"}
    settings = settings_of("fast", **options)
    weighted = make_data(weight=np.r_[twice, np.ones(80)], own=False)
    repeated = make_data(weight=np.ones(N), rows=rows, own=False)
    models = [
        train_model(data, settings, tmp_path / name)
        for name, data in (("weighted", weighted), ("repeated", repeated))
    ]
    assert models[0].scores(X) == pytest.approx(models[1].scores(X), abs=1e-6)
    # Equal weights are none, whatever the recipe says.
    equal = make_data(weight=np.full(N, 3.0))
    naive = train_model(equal, settings, tmp_path / "naive", recipe=Recipe())
    plain = train_model(make_data(weight=np.ones(N)), settings, tmp_path / "plain")
    assert np.array_equal(naive.scores(X), plain.scores(X))


def test_the_share_of_known_labels_that_is_right() -> None:
    label = np.array([[1.0, 0.0, np.nan], [np.nan, 1.0, 0.0]])
    logit = np.array([[2.0, 1.0, -1.0], [5.0, 1.0, -2.0]])
    assert hits_of(logit, label).tolist() == [0.5, 1.0]


def test_what_cannot_be_learned_is_refused(tmp_path, tiny) -> None:
    settings = settings_of("fast", **tiny)
    constant = np.ones_like(LABEL)
    with refused(DataError, column="label", levels=["a", "b", "c"]):
        train_model(make_data(constant), settings, tmp_path / "constant")
    with refused(ConfigError, option="recipe", value="posthoc"):
        recipe = Recipe("posthoc", np.zeros(3))
        train_model(make_data(), settings, tmp_path / "shift", recipe=recipe)
    with refused(DataError, option="present_nm"):
        make_data(LABEL * 2)
    with refused(DataError, option="way", value="head"):  # 2 of 11 of these are too few
        split_head(make_data(own=False), 0)


def test_a_label_without_images_is_never_predicted(tmp_path) -> None:
    label = LABEL.copy()
    label[:, 1] = 0.0
    model = train_model(make_data(label), settings_of("probe", logger="none"), tmp_path / "run")
    assert (model.scores(X)[:, 1] == 0.0).all()
    assert np.isfinite(model.history[0]["validation_loss"])
