"""Draw figures 7, 8, 9 and B2 from their tables, and summarise them in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paper.acquisition_experiments import CHANNELS, DECAYS, EXAMPLES, N_BINS, RATIO
from paper.cifar_copies import BLOCK
from paper.cifar_data import get_copy
from paper.cifar_sheets import SIDE
from paper.plotting import COLOURS, NAMES, legend_below, new_figure

MARGINAL_ARMS = ("article", "as_published", "exact", "soft_box", "true")
DISTANCE_ARMS = ("naive", "article", "as_published", "exact", "soft_box", "true")


def draw_examples(frame: Any, data: Path | None) -> Any:
    """Draw figure 7: ten images of each bin, as one mosaic."""
    assert data is not None
    copy = get_copy(data, str(frame["data"].iloc[0]))
    step = SIDE + 2
    mosaic = np.full((N_BINS * step, EXAMPLES * step, 3), 255, dtype=np.uint8)
    for at, part in frame.groupby(frame["image"] // BLOCK):
        images = copy.block("train", int(at))
        for row in part.itertuples():
            top, left = row.bin * step, row.position * step
            mosaic[top : top + SIDE, left : left + SIDE] = images[row.image % BLOCK]
    figure, axes = new_figure(1, 1, 5.6, 3.4)
    axes[0, 0].imshow(mosaic, interpolation="nearest")
    halves = [
        " ".join(
            f"{channel} {'high' if k >> (2 - at) & 1 else 'low'}"
            for at, channel in enumerate(CHANNELS)
        )
        for k in range(N_BINS)
    ]
    axes[0, 0].set_yticks(
        [k * step + SIDE / 2 for k in range(N_BINS)],
        [f"bin {k}: {half}" for k, half in enumerate(halves)],
    )
    axes[0, 0].set_xticks([])
    axes[0, 0].tick_params(length=0)
    for spine in axes[0, 0].spines.values():
        spine.set_visible(False)
    return figure


def say_examples(frame: Any) -> list[str]:
    """Say how many images of each bin are shown."""
    return [
        f"{len(frame)} images of {frame['bin'].nunique()} bins; their numbers in the training "
        "split are in the table"
    ]


def draw_bin_sizes(frame: Any) -> Any:
    """Draw figure 9: bars are the sizes, dots the bins of the drawn images for every γ."""
    figure, axes = new_figure(1, 3, 8.5, 2.6, sharey=True)
    titles = {
        "train": "training split",
        "balanced": "balanced databases",
        "imbalanced": f"imbalanced databases, n_k ∝ {RATIO:g}^k",
    }
    for axis, (sizes, title) in zip(axes[0], titles.items(), strict=True):
        part = frame[frame["sizes"] == sizes]
        bars = part[part["decay"].isna()]
        axis.bar(
            bars["bin"],
            bars["images"],
            0.75,
            color="#c9d8e6",
            label="images of the bin" if sizes == "train" else "n_k",
        )
        for marker, decay in zip("ov^", DECAYS, strict=True):
            own = part[part["decay"] == decay]
            if len(own):
                axis.plot(
                    own["bin"],
                    own["images"],
                    marker,
                    markersize=3.5,
                    color="#333333",
                    fillstyle="none",
                    label=f"in bin, γ = {decay:g}",
                )
        axis.set_title(title)
        axis.set_xticks(range(N_BINS))
        axis.set_xlabel("bin")
    axes[0, 0].set_ylabel("images")
    axes[0, 2].legend(fontsize=6.5)
    return figure


def say_bin_sizes(frame: Any) -> list[str]:
    """List the sizes."""
    bars = frame[frame["decay"].isna()]
    return [
        f"{sizes}: {', '.join(f'{n:,}' for n in part.sort_values('bin')['images'])}"
        for sizes, part in bars.groupby("sizes", sort=False)
    ]


def draw_marginals(frame: Any) -> Any:
    """Draw figure 8: densities of H, S and V, a dashed line for each run, and the test split's."""
    decays = sorted(frame["decay"].unique())
    columns = [(decay, channel) for decay in decays for channel in CHANNELS]
    figure, axes = new_figure(
        len(MARGINAL_ARMS), len(columns), 12.0, 6.6, sharex=True, sharey="col"
    )
    for row, arm in enumerate(MARGINAL_ARMS):
        for column, (decay, channel) in enumerate(columns):
            axis = axes[row, column]
            here = frame[(frame["decay"] == decay) & (frame["channel"] == channel)]
            for other, width in (("naive", 1.0), ("test", 1.5)):
                line = here[here["arm"] == other].groupby("value")["density"].mean()
                axis.plot(line.index, line, color=COLOURS[other], linewidth=width)
            for _, run in here[here["arm"] == arm].groupby("run"):
                axis.plot(
                    run["value"],
                    run["density"],
                    color=COLOURS[arm],
                    linestyle="--",
                    linewidth=0.7,
                    alpha=0.9,
                )
            axis.set_xlim(0, 1)
            axis.set_ylim(0, 1.05 * here["density"].max())
            axis.set_xticks([0, 0.5, 1], ["0", "½", "1"])
            axis.set_yticks([])
            if row == 0:
                axis.set_title(f"γ = {decay:g}: {channel}")
            if column == 0:
                axis.set_ylabel(NAMES[arm].replace(" (", "\n(").replace(", ", ",\n"))
    legend_below(figure, ("test", "naive", *MARGINAL_ARMS), 4, dashed=True)
    return figure


def say_marginals(frame: Any) -> list[str]:
    """Give the mean over runs of ∫ |density − that of the test split|, summed over H, S, V."""
    test = frame[frame["arm"] == "test"].set_index(["decay", "channel", "value"])["density"]
    lines = []
    for decay, part in frame[frame["arm"] != "test"].groupby("decay"):
        distances = []
        for arm in ("naive", *MARGINAL_ARMS):
            own = (
                part[part["arm"] == arm]
                .groupby(["decay", "channel", "value", "run"])["density"]
                .mean()
                .unstack("run")
            )
            if own.size:
                apart = (
                    own.sub(test.reindex(own.index), axis=0).abs().groupby("channel").mean().sum()
                )
                distances.append(f"{NAMES[arm]} {apart.mean():.3f}")
        lines.append(
            f"γ = {decay:g}, ∫|density − test| summed over H, S, V: {'; '.join(distances)}"
        )
    return lines


def draw_channel_distances(frame: Any) -> Any:
    """Draw figure B2: Wasserstein distance over H, S, V from the population.

    Mean over runs with two standard deviations.
    """
    kinds = [kind for kind in ("balanced", "imbalanced") if kind in set(frame["sizes"])]
    figure, axes = new_figure(1, len(kinds), 8.6, 3.2, sharey=True)
    for axis, sizes in zip(axes[0], kinds, strict=True):
        part = frame[frame["sizes"] == sizes]
        decays = sorted(part["decay"].unique())
        for at, arm in enumerate(DISTANCE_ARMS):
            grouped = (
                part[part["arm"] == arm].dropna(subset=["distance"]).groupby("decay")["distance"]
            )
            mean = grouped.mean().reindex(decays)
            spread = 2 * grouped.std(ddof=1).reindex(decays).fillna(0)
            position = np.arange(len(decays)) + (at - 2.5) * 0.13
            axis.bar(
                position,
                mean,
                0.12,
                yerr=spread,
                color=COLOURS[arm],
                error_kw={"linewidth": 0.7},
                label=NAMES[arm],
            )
        axis.set_xticks(range(len(decays)), [f"γ = {decay:g}" for decay in decays])
        axis.set_title(f"{sizes} databases")
        axis.set_yscale("log")
    axes[0, 0].set_ylabel("Wasserstein distance over H, S, V")
    axes[0, -1].legend(fontsize=7)
    return figure


def say_channel_distances(frame: Any) -> list[str]:
    """Give the mean distances, and the soft box relative to the true ω."""
    lines = []
    for (sizes, decay), part in frame.groupby(["sizes", "decay"]):
        mean = part.groupby("arm")["distance"].mean()
        distances = "; ".join(
            f"{NAMES[arm]} {mean[arm]:.4f}"
            for arm in DISTANCE_ARMS
            if arm in mean and np.isfinite(mean[arm])
        )
        used = part.groupby("arm")["images"].mean()
        lines.append(
            f"{sizes}, γ = {decay:g}: {distances}; "
            f"soft box {mean['soft_box'] / mean['true']:.2f} × "
            "true ω; as published "
            f"weighs {used['as_published']:,.0f} distinct images, the others {used['naive']:,.0f}"
        )
    return lines
