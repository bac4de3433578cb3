"""Networks: what they compute by torch and by onnxruntime, and outputs that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raising import refused
from represent.small_networks import ONE, colour_images, write_onnx, write_torchscript
from unskew.errors import ConfigError, DataError
from unskew.represent.embedding_models import find_model
from unskew.represent.networks import Network, RunsOn, torch_device

torch = pytest.importorskip("torch", reason="networks run by torch: pip install 'unskew[embed]'")


def test_a_module_a_torchscript_file_and_an_onnx_file_compute_the_same(
    tmp_path: Path, factories: str
) -> None:
    """Twice the mean colour, whoever computes it; the module's dropout is off."""
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    names = [
        f"{factories}:net",
        str(write_torchscript(tmp_path / "net.pt")),
        str(write_onnx(tmp_path / "net.onnx")),
    ]
    images = colour_images()
    for name in names:
        value = find_model(name).load(6, ONE).embed(images)
        assert value.dtype == np.float32
        np.testing.assert_allclose(
            value, 2 * images.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("n", [1, 3, 4, 5])
def test_an_onnx_file_made_for_a_fixed_number_of_images_takes_any_number(
    tmp_path: Path, n: int
) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    network = find_model(str(write_onnx(tmp_path / "two.onnx", batch=2, side=6))).load(6, ONE)
    images = colour_images(n)
    np.testing.assert_allclose(
        network.embed(images), 2 * images.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(("dtype", "digits"), [("FLOAT16", 2e-3), ("DOUBLE", 1e-6)])
def test_an_onnx_file_of_another_precision_gets_what_it_takes(
    tmp_path: Path, dtype: str, digits: float
) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    value = (
        find_model(str(write_onnx(tmp_path / "net.onnx", dtype=dtype)))
        .load(6, ONE)
        .embed(colour_images())
    )
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, 2 * colour_images().mean(axis=(2, 3)), atol=digits)


def test_a_map_of_features_is_averaged_and_half_precision_widened(factories: str) -> None:
    images = colour_images()
    np.testing.assert_allclose(
        find_model(f"{factories}:as_map").load(6, ONE).embed(images),
        images.mean(axis=(2, 3)),
        rtol=1e-5,
        atol=1e-7,
    )
    assert find_model(f"{factories}:half").load(6, ONE).embed(images).dtype == np.float32


def test_torch_gets_the_threads_it_is_given_and_keeps_none_of_that(
    factories: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = find_model(f"{factories}:net")
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(
        type(model.module),
        "forward",
        lambda self, x: (seen.append(torch.get_num_threads()), x.mean((2, 3)))[1],
    )
    model.load(6, RunsOn("cpu", 3)).embed(colour_images())
    assert seen == [3]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("factory", "facts", "hint"),
    [
        ("one_row", {"value": [3]}, "pooling"),
        ("as_dict", {"value": "dict"}, "tensor"),
        ("not_finite", {"count": 5}, "mean and std"),
        ("failing", {"value": [5, 3, 6, 6]}, "RuntimeError"),
    ],
)
def test_a_network_that_gives_something_else_is_refused(
    factories: str, factory: str, facts: dict[str, Any], hint: str
) -> None:
    network = find_model(f"{factories}:{factory}").load(6, ONE)
    with refused(DataError, **facts) as caught:
        network.embed(-np.ones((5, 3, 6, 6), dtype=np.float32))
    assert hint in str(caught.value)


def test_onnx_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    (tmp_path / "text.onnx").write_text("not a network")
    with refused(ConfigError, option="model", value=str(tmp_path / "text.onnx")):
        find_model(str(tmp_path / "text.onnx")).load(6, ONE)
    grey = str(write_onnx(tmp_path / "grey.onnx", channels=1))
    with refused(ConfigError, option="model", value=grey) as caught:
        find_model(grey).load(6, ONE)
    assert "images ['batch', 1, 'side', 'side']" in str(caught.value)
    with refused(ConfigError, option="size", value=6, allowed=8):
        find_model(str(write_onnx(tmp_path / "fixed.onnx", side=8))).load(6, ONE).embed(
            colour_images()
        )


def test_a_missing_device_is_refused(tmp_path: Path, factories: str) -> None:
    with refused(ConfigError, option="device", value="gpu", allowed=["cpu", "cuda"]):
        RunsOn("gpu")
    if torch.cuda.is_available():
        pytest.skip("this machine has a graphics card")
    with refused(ConfigError, option="device", value="cuda"):
        find_model(f"{factories}:net").load(6, RunsOn("cuda"))
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    with refused(ConfigError, option="device", value="cuda"):
        find_model(str(write_onnx(tmp_path / "net.onnx"))).load(6, RunsOn("cuda"))


class _Given(Network):
    """Gives what it was told to, whatever it sees."""

    name = "given"

    def __init__(self, value: Any) -> None:
        self.value = value

    def _run(self, images: Any) -> Any:
        return self.value(images)


def test_rows_are_float32_and_maps_their_means_whoever_runs_them() -> None:
    images = colour_images(4, 5).astype(np.float64)[:, :, ::-1]
    seen: list[Any] = []
    row = _Given(lambda taken: (seen.append(taken), taken)[1]).embed(images)
    assert row.dtype == seen[0].dtype == np.float32
    assert seen[0].flags["C_CONTIGUOUS"]
    np.testing.assert_allclose(row, images.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6)


def test_rows_that_are_not_finite_are_counted() -> None:
    value = np.ones((5, 2))
    value[1, 0], value[3] = np.nan, np.inf
    with refused(DataError, count=2):
        _Given(lambda _: value).embed(colour_images())
    with refused(DataError, value=[4, 2]):
        _Given(lambda _: value[:4]).embed(colour_images())


def test_errors_of_a_network_keep_their_kind() -> None:
    def fail(error: Exception) -> Any:
        raise error

    with refused(ConfigError, option="size", value=6):
        _Given(lambda _: fail(ConfigError("no", option="size", value=6))).embed(colour_images())
    with refused(DataError, value=[5, 3, 6, 6]):
        _Given(lambda _: fail(ZeroDivisionError("no"))).embed(colour_images())


def test_the_device_of_torch_is_the_one_asked_for() -> None:
    assert torch_device(RunsOn("cpu", 2)) == "cpu"
