"""Draw figures 2, 3, B3 and B4 from their tables, and summarise them in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper.plotting import COLOURS, NAMES, log_slope, mean_and_spread, new_figure, reference_slope
from paper.synthetic import CASES
from paper.theorem import N_OF_OVERLAPS

# Beyond this the noise of the sample itself is what is left.
SMALL = 0.02
_CURVES = {
    "source 1": "#e69f00",
    "source 2": "#56b4e9",
    "debiased": "#0072b2",
    "combined 0.1": "#cc79a7",
    "combined 0.9": "#009e73",
}
_TITLES = {
    "not covered": "a) not covered: beyond S₁ ∪ S₂ nothing is known",
    "no overlap": "b) covered, no overlap: any combination fits",
    "fine": "c) covered and overlapping: debiased",
}


def draw_supports(frame: Any) -> Any:
    """Draw figure 2: target and sources above, what can be said about the target below."""
    figure, axes = new_figure(2, 3, 10.0, 4.4, sharex=True, sharey="row")
    for column, case in enumerate(CASES):
        part = frame[frame["case"] == case]
        for axis in axes[:, column]:
            target = part[part["curve"] == "target"]
            axis.plot(
                target["z"],
                target["density"],
                color=COLOURS["target"],
                linewidth=1.4,
                label="target",
            )
        for curve, own in part.groupby("curve"):
            if curve == "target":
                continue
            axis = axes[0 if curve.startswith("source") else 1, column]
            label = (
                f"{curve.replace('combined ', '')} · source 1 + {1 - float(curve.split()[1]):g} · "
                "source 2"
                if "comb" in curve
                else curve
            )
            shown = own[own["density"] > 0]
            axis.step(shown["z"], shown["density"], where="mid", color=_CURVES[curve], label=label)
        for number, (low, high) in enumerate(CASES[case], start=1):
            height = -0.12 - 0.14 * number
            axes[0, column].plot(
                [low, high],
                [height, height],
                color=_CURVES[f"source {number}"],
                linewidth=4,
                solid_capstyle="butt",
            )
        axes[0, column].set_title(_TITLES[case])
        axes[1, column].set_xlabel("z")
        for axis in axes[:, column]:
            axis.legend(fontsize=6.5, loc="upper right", ncols=1)
            axis.set_ylim(-0.55, 4.4)
    axes[0, 0].set_ylabel("density; S₁, S₂ below")
    axes[1, 0].set_ylabel("estimate of the target")
    return figure


def say_supports(frame: Any) -> list[str]:
    """Give the verdict of each case, the target mass that no source sees, and the errors."""
    lines = []
    for case in CASES:
        part = frame[frame["case"] == case]
        target = part[part["curve"] == "target"].set_index("z")["density"]
        errors = []
        for curve in part["curve"].unique():
            if curve.startswith(("debiased", "combined")):
                own = part[part["curve"] == curve].set_index("z")["density"]
                errors.append(f"{curve}: ∫|estimate − target| = {(own - target).abs().mean():.2f}")
        verdict, lost = part["verdict"].iloc[0], part["uncovered"].iloc[0]
        lines.append(
            f"{case}: overlap {verdict}, {100 * lost:.0f}% of the target uncovered; "
            f"{'; '.join(errors)}"
        )
    return lines


def draw_functions(frame: Any) -> Any:
    """Draw figure 3: two biasing functions, which share at least the surface κ·ε."""
    figure, axes = new_figure(1, 1, 5.0, 2.8)
    axis = axes[0, 0]
    first, second = (frame[f"omega_{k}"].where(frame[f"omega_{k}"] > 0) for k in (1, 2))
    axis.plot(frame["z"], first, color="#e69f00", label="ω₁")
    axis.plot(frame["z"], second, color="#56b4e9", label="ω₂")
    both = (frame["omega_1"] > 0) & (frame["omega_2"] > 0)
    low, high = frame["z"][both].min(), frame["z"][both].max()
    epsilon = min(float(first.min()), float(second.min()))
    axis.fill_between([low, high], 0, epsilon, color="#000000", alpha=0.15, linewidth=0)
    axis.axhline(epsilon, color="#555555", linestyle=":", linewidth=0.8)
    axis.annotate("ε", (0.0, epsilon), xytext=(3, 3), textcoords="offset points")
    axis.annotate("", (low, 0.04), (high, 0.04), arrowprops={"arrowstyle": "<->", "linewidth": 0.8})
    axis.text((low + high) / 2, 0.07, "κ", ha="center")
    axis.set_ylim(0, 1.1)
    axis.set_xlabel("z")
    axis.set_ylabel("biasing function")
    axis.legend()
    return figure


def say_functions(frame: Any) -> list[str]:
    """Give the constants of the two functions under a uniform target."""
    both = (frame["omega_1"] > 0) & (frame["omega_2"] > 0)
    positive = np.concatenate(
        [frame["omega_1"][frame["omega_1"] > 0], frame["omega_2"][frame["omega_2"] > 0]]
    )
    kappa, epsilon = float(both.mean()), float(positive.min())
    return [
        f"κ = {kappa:.2f}, ε = {epsilon:.2f}: they share at least the surface κ·ε = "
        f"{kappa * epsilon:.2f}"
    ]


def draw_sizes(frame: Any) -> Any:
    """Draw figure B3: the theorem against n."""
    figure, axes = new_figure(1, 1, 5.2, 3.6)
    axis = axes[0, 0]
    for arm in ("naive", "constant", "root_n", "true"):
        x, mean, _ = mean_and_spread(frame[frame["arm"] == arm], "n", "error")
        axis.plot(x, mean, color=COLOURS[arm], marker="o", markersize=3, label=NAMES[arm])
    x, mean, _ = mean_and_spread(frame[frame["arm"] == "true"], "n", "error")
    reference_slope(axis, x, float(mean[0]) * 0.55, -0.5, "slope −½")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("n, images of three sources")
    axis.set_ylabel("sup over losses of |debiased risk − risk|")
    axis.legend(fontsize=7)
    return figure


def say_sizes(frame: Any) -> list[str]:
    """Give slopes and floors."""
    lines = []
    for arm in ("true", "root_n", "constant", "naive"):
        x, mean, _ = mean_and_spread(frame[frame["arm"] == arm], "n", "error")
        lines.append(
            f"{NAMES[arm]}: error {mean[0]:.3g} at n = {x[0]:,.0f}, {mean[-1]:.3g} at n = "
            f"{x[-1]:,.0f}, slope {log_slope(x, mean):+.2f}"
        )
    return lines


def draw_overlaps(frame: Any) -> Any:
    """Draw figure B4: the theorem against κ and ε."""
    figure, axes = new_figure(1, 2, 7.4, 3.2, sharey=True)
    titles = {
        "kappa": "two intervals that share the mass κ",
        "epsilon": "two sources whose ω falls to ε",
    }
    for axis, (constant, title) in zip(axes[0], titles.items(), strict=True):
        x, mean, _ = mean_and_spread(frame[frame["constant"] == constant], "value", "error")
        axis.plot(x, mean, color=COLOURS["exact"], marker="o", markersize=3)
        reference_slope(axis, x[x <= SMALL], float(mean[0]) * 0.7, -0.5, "slope −½")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"{title}, n = {N_OF_OVERLAPS:,}")
        axis.set_xlabel({"kappa": "κ", "epsilon": "ε"}[constant])
    axes[0, 0].set_ylabel("sup over losses of |debiased risk − risk|")
    return figure


def say_overlaps(frame: Any) -> list[str]:
    """Give the slopes where the overlap is small, and disconnected draws."""
    lines = []
    for constant, sign in (("kappa", "κ"), ("epsilon", "ε")):
        own = frame[frame["constant"] == constant]
        x, mean, _ = mean_and_spread(own, "value", "error")
        small = x <= SMALL
        lost = int(own["error"].isna().sum())
        lines.append(
            f"against {sign}: error {mean[0]:.3g} at {x[0]:g}, {mean[-1]:.3g} at {x[-1]:g}, slope "
            f"{log_slope(x[small], mean[small]):+.2f} "
            f"up to {SMALL:g}{f'; {lost} draws were not connected' if lost else ''}"
        )
    return lines
