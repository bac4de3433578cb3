"""The fast network: small, and its first layer whitens."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from unskew.learn.architectures.fast_network import FastNetwork  # noqa: E402


def _size(network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_first_layer_of_the_fast_network_whitens_what_it_looked_at() -> None:
    """Outputs are uncorrelated, of variance λ/(λ + ε) ≈ 1; the second half is the negative of the
    first.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3, 16, 16, generator=generator)
    x = x + 0.9 * x.roll(1, 3) + 0.8 * x.mean(1, keepdim=True)
    network = FastNetwork(10)
    network.look_at(x)
    convolution = network.first[0]
    out = (convolution(x) - convolution.bias[:, None, None]).permute(1, 0, 2, 3).flatten(1)
    torch.testing.assert_close(torch.cov(out[:12]), torch.eye(12), atol=0.02, rtol=0)
    torch.testing.assert_close(out[12:], -out[:12])
    assert not convolution.weight.requires_grad
    again = FastNetwork(10)
    again.look_at(x)
    assert torch.equal(again.first[0].weight, convolution.weight)
    again.look_at(torch.zeros(4, 3, 16, 16))  # nothing varies
    assert again.first[0].weight.isfinite().all()


def test_the_fast_network_is_small() -> None:
    """First convolution 3·24·4 + 24; three blocks; 128 × M."""
    blocks = sum(
        9 * n_in * n_out + 9 * n_out * n_out + 4 * n_out
        for n_in, n_out in [(24, 32), (32, 128), (128, 128)]
    )
    assert _size(FastNetwork(10)) == 3 * 24 * 4 + 24 + blocks + 1280
