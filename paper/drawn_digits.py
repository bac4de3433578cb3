"""Draw figure 1 from its table and the databases, and summarise it in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.digit_databases import SIDE, Digits
from paper.plotting import COLOURS, mean_and_spread, new_figure

_SHOWN = 10
_ARMS = {
    "naive": ("naive", "no weights"),
    "weights": ("soft_box", "weights"),
    "unbiased": ("target", "images of the target itself"),
}


def draw_digits(frame: Any, databases: Sequence[Digits]) -> Any:
    """Draw figure 1: ten images of each database, and what weights bring for each kind of bias."""
    figure, axes = new_figure(1, 2, 9.0, 3.2, width_ratios=[1.0, 1.3])
    rows = [_row_of_images(database) for database in databases]
    axes[0, 0].imshow(np.vstack(rows), cmap="gray", interpolation="nearest", vmin=0, vmax=1)
    axes[0, 0].set_yticks(
        [(at + 0.5) * (SIDE + 2) for at in range(len(rows))], [one.name for one in databases]
    )
    axes[0, 0].set_xticks([])
    axes[0, 0].tick_params(length=0)
    axis = axes[0, 1]
    cases = _cases(frame)
    for shift, (arm, (colour, label)) in zip((-0.27, 0.0, 0.27), _ARMS.items(), strict=True):
        heights = [_mean(part, arm) for _, part in cases]
        axis.bar(np.arange(len(cases)) + shift, heights, 0.25, color=COLOURS[colour], label=label)
    axis.set_xticks(range(len(cases)), [title for title, _ in cases], fontsize=7)
    axis.set_ylabel("accuracy on the target, %")
    axis.set_ylim(0, 118)
    axis.legend(fontsize=7, ncols=3, loc="upper center")
    return figure


def say_digits(frame: Any) -> list[str]:
    """Give the accuracies of each case."""
    lines = []
    for title, part in _cases(frame):
        weighted = part[part["arm"] == "weights"]
        lines.append(
            f"{title.replace(chr(10), ' ')}: "
            + ", ".join(f"{label} {_mean(part, arm):.1f}" for arm, (_, label) in _ARMS.items())
            + f"; the weights leave {weighted['ess'].mean():.0f} effective of "
            f"{weighted['n'].iloc[0]} images"
        )
    return lines


def _cases(frame: Any) -> list[tuple[str, Any]]:
    grouped = frame.groupby(["kind", "source", "target"], sort=False)
    return [
        (
            f"selection,\n{source}" if kind == "selection" else f"looks,\n{source} → {target}",
            part,
        )
        for (kind, source, target), part in grouped
    ]


def _mean(part: Any, arm: str) -> float:
    _, mean, _ = mean_and_spread(part[part["arm"] == arm].assign(one=1), "one", "accuracy")
    return float(mean[0])


def _row_of_images(database: Digits) -> Any:
    """Return one image of each class, ten at most, side by side."""
    row = np.ones((SIDE + 2, _SHOWN * (SIDE + 2)))
    for at, name in enumerate(sorted(set(database.label))[:_SHOWN]):
        image = database.images[np.flatnonzero(database.label == name)[0]]
        row[1 : SIDE + 1, at * (SIDE + 2) + 1 : at * (SIDE + 2) + SIDE + 1] = image
    return row
