"""Draw figures 4, 5, 6 and B1 from their tables, and summarise them in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.plotting import COLOURS, NAMES, legend_below, log_slope, mean_and_spread, new_figure

ARMS = ("article", "as_published", "exact", "true")
_SOURCE_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")


def draw_counts(frame: Any) -> Any:
    """Draw figure 4: stacked bars, images per class and source."""
    overlaps = sorted(frame["overlap"].unique())
    figure, axes = new_figure(1, len(overlaps), 8.0, 2.6, sharey=True)
    for axis, overlap in zip(axes[0], overlaps, strict=True):
        table = frame[frame["overlap"] == overlap].pivot(
            index="source", columns="label", values="images"
        )
        bottom = np.zeros(table.shape[1])
        for at, (source, row) in enumerate(table.iterrows()):
            axis.bar(
                table.columns,
                row,
                0.8,
                bottom=bottom,
                color=_SOURCE_COLOURS[at % 5],
                label=f"source {source}",
            )
            bottom += row.to_numpy()
        axis.set_title(f"overlap γ = {overlap:g}")
        axis.set_xlabel("class")
        if table.shape[1] <= 20:
            axis.set_xticks(table.columns)
    axes[0, 0].set_ylabel("images")
    axes[0, -1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)
    return figure


def say_counts(frame: Any) -> list[str]:
    """Count the images that link neighbouring sources."""
    lines = []
    for overlap, part in frame.groupby("overlap"):
        total = part.groupby("source")["images"].sum()
        lines.append(
            f"γ = {overlap:g}: {', '.join(f'source {k}: {n:,} images' for k, n in total.items())}"
        )
    return lines


def draw_masses(frame: Any) -> Any:
    """Draw figure 5: class distribution of the debiased sample, a dashed line for each run."""
    overlaps = sorted(frame["overlap"].unique())
    figure, axes = new_figure(len(ARMS), len(overlaps), 9.5, 6.4, sharex=True, sharey="col")
    for row, arm in enumerate(ARMS):
        for column, overlap in enumerate(overlaps):
            axis = axes[row, column]
            part = frame[(frame["arm"] == arm) & (frame["overlap"] == overlap)]
            target = frame.drop_duplicates("label").sort_values("label")
            axis.plot(target["label"], target["target"], color=COLOURS["target"], linewidth=1.6)
            for _, run in part.groupby("run"):
                axis.plot(
                    run["label"],
                    run["mass"],
                    color=COLOURS[arm],
                    linestyle="--",
                    linewidth=0.8,
                    alpha=0.9,
                )
            axis.set_ylim(0.0, 1.08 * frame[frame["overlap"] == overlap]["mass"].max())
            if row == 0:
                axis.set_title(f"overlap γ = {overlap:g}")
            if row == len(ARMS) - 1:
                axis.set_xlabel("class")
            if not len(part):
                axis.text(
                    0.5,
                    0.5,
                    "no run has linked sources",
                    transform=axis.transAxes,
                    ha="center",
                    fontsize=7,
                )
    for row, arm in enumerate(ARMS):
        axes[row, 0].set_ylabel(f"{NAMES[arm]}\nshare of the weight")
    legend_below(figure, ("target", *ARMS), 5, dashed=True)
    return figure


def say_masses(frame: Any) -> list[str]:
    """Give smallest and largest class mass and the largest error, for every arm and γ."""
    lines = []
    for overlap, part in frame.groupby("overlap"):
        for arm in ARMS:
            own = part[part["arm"] == arm]
            if len(own):
                error = (own["mass"] - own["target"]).abs().max()
                lines.append(
                    f"γ = {overlap:g}, {NAMES[arm]}: class masses {own['mass'].min():.4f} to "
                    f"{own['mass'].max():.4f} for a target of "
                    f"{own['target'].iloc[0]:.4g}; largest error {error:.2g}"
                )
        lines += _disconnected(
            overlap, part["run"].nunique(), part[part["arm"] == "exact"]["run"].nunique()
        )
    return lines


def draw_distances(frame: Any) -> Any:
    """Draw figure 6: L2 distance of the weights from uniform ones against γ."""
    figure, axes = new_figure(1, 1, 5.2, 3.4)
    axis = axes[0, 0]
    for arm in ARMS:
        x, mean, spread = mean_and_spread(_solved(frame, arm), "overlap", "distance")
        low = np.maximum(mean - spread, mean / 10.0)
        axis.plot(x, mean, color=COLOURS[arm], marker="o", markersize=3, label=NAMES[arm])
        axis.fill_between(x, low, mean + spread, color=COLOURS[arm], alpha=0.12, linewidth=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    broken = _share_disconnected(frame)
    if (broken > 0).any():
        axis.axvspan(
            frame["overlap"].min() / 1.5,
            float(broken[broken > 0].index.max()),
            color="#000000",
            alpha=0.06,
            linewidth=0,
        )
        axis.annotate(
            "some draws not connected",
            (frame["overlap"].min(), axis.get_ylim()[0]),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=7,
        )
    axis.set_xlabel("overlap γ")
    axis.set_ylabel("‖π − 1/n‖₂")
    legend_below(figure, ARMS, 2)
    return figure


def say_distances(frame: Any) -> list[str]:
    """Give the mean distance at the ends, the slope with the true ω, and disconnected draws."""
    lines = []
    linked = frame[(frame["overlap"] >= 1e-3) & (frame["overlap"] <= 0.3)]
    for arm in ARMS:
        x, mean, _ = mean_and_spread(_solved(frame, arm), "overlap", "distance")
        slope_x, slope_mean, _ = mean_and_spread(_solved(linked, arm), "overlap", "distance")
        slope = (
            f"; slope {log_slope(slope_x, slope_mean):+.2f} for γ from 0.001 to 0.3"
            if slope_x.size > 1
            else ""
        )
        lines.append(
            f"{NAMES[arm]}: distance {mean[0]:.3g} at γ = {x[0]:g}, {mean[-1]:.3g} at γ = "
            f"{x[-1]:g}{slope}"
        )
    worst = frame[frame["arm"] == "exact"]["class_error"].max()
    lines.append(
        f"{NAMES['exact']}: largest error of a class mass over all connected draws {worst:.2g}"
    )
    for overlap, part in frame[frame["arm"] == "exact"].groupby("overlap"):
        lines += _disconnected(
            overlap, len(part), int(part["connected"].sum()), part["unlinked"].dropna()
        )
    return lines


def _solved(frame: Any, arm: str) -> Any:
    """Select the runs of an arm that have a solution.

    Of the exact arms those whose draw is connected.
    """
    own = frame[frame["arm"] == arm]
    return own[own["connected"]] if arm in ("exact", "true") else own


def _share_disconnected(frame: Any) -> Any:
    exact = frame[frame["arm"] == "exact"]
    return 1.0 - exact.groupby("overlap")["connected"].mean()


def _disconnected(
    overlap: float, runs: int, connected: int, unlinked: Sequence[str] = ()
) -> list[str]:
    """Say which draws lack a link, and between which groups of sources in the first of them."""
    if connected == runs:
        return []
    named = next((f" (of the first: {groups})" for groups in unlinked), "")
    return [
        f"γ = {overlap:g}: {runs - connected} of {runs} draws are not connected{named}: some "
        "source shows no image of the next one's "
        "classes, so no procedure can find its normalizer"
    ]


def draw_descents(frame: Any) -> Any:
    """Draw figure B1: error of the log normalizers against the number of steps."""
    overlaps = sorted(frame["overlap"].unique())
    figure, axes = new_figure(1, len(overlaps), 9.0, 2.9, sharey=True)
    for axis, overlap in zip(axes[0], overlaps, strict=True):
        for method in ("article", "as_published"):
            part = frame[(frame["overlap"] == overlap) & (frame["method"] == method)]
            x, mean, _ = mean_and_spread(part, "steps", "error")
            axis.plot(x, mean, color=COLOURS[method], marker="o", markersize=3, label=NAMES[method])
        newton = frame[(frame["overlap"] == overlap) & (frame["method"] == "newton")].dropna()
        if len(newton):
            axis.plot(
                newton["steps"],
                np.maximum(newton["error"], 1e-16),
                "s",
                color=COLOURS["newton"],
                markersize=4,
                label=NAMES["newton"],
            )
        axis.axvline(4000, color="#555555", linestyle=":", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"overlap γ = {overlap:g}")
        axis.set_xlabel("steps (the article makes 4000)")
    axes[0, 0].set_ylabel("error of log W")
    axes[0, -1].legend(fontsize=7)
    return figure


def say_descents(frame: Any) -> list[str]:
    """Give the error after 4000 steps, and the number of Newton's steps."""
    lines = []
    for overlap, part in frame.groupby("overlap"):
        newton = part[part["method"] == "newton"].dropna()
        late = part[part["steps"] == 4000].groupby("method")["error"].mean()
        errors = ", ".join(
            f"{NAMES[arm]} {late[arm]:.2g}" for arm in ("article", "as_published") if arm in late
        )
        lines.append(
            f"γ = {overlap:g}: error of log W after 4000 steps: {errors}; Newton "
            f"{newton['error'].max():.1g} after "
            f"{newton['steps'].max():.0f} steps"
        )
    return lines
