"""The networks: sizes as in the papers they come from, shortcuts without parameters."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from unskew.learn.architectures.fast_network import FastNetwork  # noqa: E402
from unskew.learn.architectures.resnet import DEPTHS, ResNet, _Block  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _size(network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _counted_by_hand(depth: int) -> int:
    """Convolutions 9·in·out, two numbers per normalised channel, 64·10 + 10 at the end."""
    n = (depth - 2) // 6
    widths = (
        [(3, 16)]
        + [(16, 16)] * 2 * n
        + [(16, 32)]
        + [(32, 32)] * (2 * n - 1)
        + [(32, 64)]
        + [(64, 64)] * (2 * n - 1)
    )
    return sum(9 * n_in * n_out + 2 * n_out for n_in, n_out in widths) + 650


@pytest.mark.parametrize(
    ("depth", "exactly", "printed"),
    [
        (20, 269722, 0.27),
        (32, 464154, 0.46),
        (44, 658586, 0.66),
        (56, 853018, 0.85),
        (110, 1727962, 1.7),
    ],
)
def test_parameters_as_in_table_6_of_he_et_al(depth: int, exactly: int, printed: float) -> None:
    size = _size(ResNet(depth, 10))
    assert size == exactly == _counted_by_hand(depth)
    assert round(size / 1e6, 1 if depth == 110 else 2) == printed


@pytest.mark.parametrize("depth", DEPTHS)
def test_layers_as_many_as_the_name_says(depth: int) -> None:
    layers = [
        each
        for each in ResNet(depth, 10).modules()
        if isinstance(each, torch.nn.Conv2d | torch.nn.Linear)
    ]
    assert len(layers) == depth


def test_any_size_of_images_and_number_of_classes() -> None:
    for shape in [(2, 3, 32, 32), (2, 3, 9, 17)]:
        assert ResNet(20, 7)(torch.zeros(shape)).shape == (2, 7)
        assert FastNetwork(7)(torch.zeros(shape)).shape == (2, 7)


def test_a_block_whose_convolutions_are_zero_passes_its_input_on() -> None:
    """Option A: every second position, new channels zero, half of them before and half after."""
    x = torch.rand(2, 16, 8, 8)
    block = _Block(16, 32, 2)
    torch.nn.init.zeros_(block.residual[-1].weight)
    found = block(x)
    assert torch.equal(found[:, 8:24], x[:, :, ::2, ::2])
    assert not found[:, :8].any()
    assert not found[:, 24:].any()
    same = _Block(16, 16, 1)
    torch.nn.init.zeros_(same.residual[-1].weight)
    assert torch.equal(same(x), x)


@pytest.mark.parametrize("depth", [2, 21, -4])
def test_depths_that_do_not_exist(depth: int) -> None:
    with pytest.raises(ValueError, match=r"6n \+ 2"):
        ResNet(depth, 10)
