"""The article's own procedure for the normalizers, for fidelity: stochastic gradient descent on D.

4000 iterations, batches of 100 images, learning rate 1e-2, momentum 0.9 (section 4.1 of the
article), from a random start; batches come from shuffled epochs. It makes the prescribed number of
steps and never claims more than its error estimate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.errors import ConfigError
from unskew.records import Floats, Step
from unskew.solve.omega_rows import Rows

STEPS = 4000
_BATCH = 100
_LEARNING_RATE = 1e-2
_MOMENTUM = 0.9


def _in_one_piece(rows: Rows) -> Any:
    """Return ω for random access; copied only where its storage had to be converted in blocks."""
    blocks = [block.omega for block in rows.blocks()]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def descend(
    rows: Rows, start_k: Floats, n_steps: int, seed: int
) -> tuple[Floats, tuple[Step, ...]]:
    """Make ``n_steps`` steps: v ← 0.9 v + gradient of the batch, u ← u − 0.01 v.

    Returns (u, trace).
    """
    if not rows.reader.in_memory:
        raise ConfigError(
            "method='sgd' draws images at random, so omega must be in memory; use method='newton' "
            "for row blocks.",
            option="method",
            value="sgd",
        )
    omega = _in_one_piece(rows)
    rng = np.random.default_rng(seed)
    share_k = rows.size_k / rows.size_k.sum()
    u_k, velocity_k = np.array(start_k, dtype=np.float64), np.zeros(rows.n_sources)
    order, position = rng.permutation(rows.n_rows), 0
    trace: list[Step] = []
    for step in range(n_steps):
        if position + _BATCH > order.size and position > 0:
            order, position = rng.permutation(rows.n_rows), 0
        chosen = order[position : position + _BATCH]
        position += _BATCH
        batch = omega[chosen if rows.inverse_n is None else rows.inverse_n[chosen]]
        a_k = rows.coefficients(u_k)
        sum_n = batch @ a_k
        gradient_k = a_k * (batch.T @ (1 / sum_n)) / chosen.size - share_k
        velocity_k = _MOMENTUM * velocity_k + gradient_k
        u_k = u_k - _LEARNING_RATE * velocity_k
        if step % 100 == 0:
            value = float(np.mean(np.log(sum_n)) - share_k @ u_k)
            trace.append(
                Step(
                    value,
                    float(np.max(np.abs(gradient_k))),
                    _LEARNING_RATE * float(np.ptp(velocity_k)),
                    "sgd",
                )
            )
    return u_k, tuple(trace)
