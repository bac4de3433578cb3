"""Draw figures B5, B6 and B7 from their tables, and summarise them in sentences."""

from __future__ import annotations

from typing import Any

from paper.plotting import COLOURS, NAMES, log_slope, mean_and_spread, new_figure, reference_slope

_OMEGAS = {"box": "ω is a box", "soft": "ω falls softly, as in 4.3"}
_BOX_ARMS = ("one_source", "naive", "boxes", "true")
_RULE_ARMS = ("naive", "root_n", "true", "fair_ref")
_SIGNS = {"kappa": "κ", "epsilon": "ε"}


def draw_boxes(frame: Any) -> Any:
    """Draw figure B5: min–max boxes against n, where ω is a box and where it is not."""
    figure, axes = new_figure(1, 2, 8.0, 3.4, sharey=True)
    for axis, (kind, title) in zip(axes[0], _OMEGAS.items(), strict=True):
        _draw_arms(axis, frame[frame["omega"] == kind], _BOX_ARMS, "error")
        axis.set_title(title)
    axes[0, 0].set_ylabel("sup over losses of |debiased risk − risk|")
    return figure


def say_boxes(frame: Any) -> list[str]:
    """Give errors at both ends, and how far ω̂ is from ω."""
    lines = []
    for kind, title in _OMEGAS.items():
        own = frame[frame["omega"] == kind]
        lines += _say_arms(own, _BOX_ARMS, "error", f"{title}; ")
        sup = own[own["arm"] == "boxes"].groupby("n")["sup"].mean()
        lines.append(
            f"{title}: sup |ω̂ − ω| of the boxes is {sup.iloc[0]:.2f} at n = {sup.index[0]:,} and "
            f"{sup.iloc[-1]:.2f} at n = {sup.index[-1]:,}"
        )
    return lines


def draw_rule(frame: Any) -> Any:
    """Draw figure B6: the excess risk of a learned rule against n."""
    figure, axes = new_figure(1, 1, 5.2, 3.6)
    axis = axes[0, 0]
    _draw_arms(axis, frame, _RULE_ARMS, "excess")
    x, mean, _ = mean_and_spread(frame[frame["arm"] == "fair_ref"], "n", "excess")
    reference_slope(axis, x, float(mean[0]) * 0.5, -0.5, "slope −½")
    axis.set_ylabel("excess risk of the learned threshold")
    return figure


def say_rule(frame: Any) -> list[str]:
    """Give the excess risks, and those of the weights over those of an unbiased sample."""
    means = {arm: mean_and_spread(frame[frame["arm"] == arm], "n", "excess") for arm in _RULE_ARMS}
    ratio = means["true"][1] / means["fair_ref"][1]
    return [
        *_say_arms(frame, _RULE_ARMS, "excess", ""),
        f"excess risk with the true ω over that of an unbiased sample of the same n: "
        f"{ratio.min():.2f} to {ratio.max():.2f}",
    ]


def draw_links(frame: Any) -> Any:
    """Draw figure B7: the share of draws without a link against n; lines are the closed form."""
    figure, axes = new_figure(1, 2, 7.6, 3.2, sharey=True)
    titles = {
        "kappa": "known ω, intervals that share the mass κ",
        "epsilon": "class counts as ω̂, ω falls to ε",
    }
    colours = ("#d55e00", "#e69f00", "#56b4e9", "#0072b2")
    for axis, (constant, title) in zip(axes[0], titles.items(), strict=True):
        own = frame[frame["constant"] == constant]
        for colour, (value, part) in zip(colours, own.groupby("value"), strict=True):
            label = f"{_SIGNS[constant]} = {value:g}"
            axis.plot(part["n"], part["expected"], color=colour, label=label)
            axis.plot(part["n"], part["unconnected"], "o", color=colour, markersize=3)
        axis.set_xscale("log")
        axis.set_title(title)
        axis.set_xlabel("n, images of two sources")
        axis.legend(fontsize=7)
    axes[0, 0].set_ylabel("share of draws that are not connected")
    return figure


def say_links(frame: Any) -> list[str]:
    """Give the share for each constant, and the n beyond which it is below 1%."""
    lines = []
    for (constant, value), part in frame.groupby(["constant", "value"], sort=False):
        linked = part[part["expected"] < 0.01]["n"]
        beyond = f"below 1% from n = {linked.min():,}" if len(linked) else "1% or more up to there"
        shares = ", ".join(
            f"{row.unconnected:.2f} ({row.expected:.2f})" for row in part.itertuples()
        )
        sizes = f"n = {part['n'].min():,} to {part['n'].max():,}"
        lines.append(f"{_SIGNS[constant]} = {value:g}, {sizes}: {shares}; {beyond}")
    gap = (frame["unconnected"] - frame["expected"]).abs().max()
    draws = int(frame["draws"].iloc[0])
    lines.append(
        f"in brackets the closed form; largest difference from it {gap:.2f} with {draws} draws"
    )
    return lines


def _draw_arms(axis: Any, frame: Any, arms: tuple[str, ...], value: str) -> None:
    for arm in arms:
        own = frame[frame["arm"] == arm]
        if len(own):
            x, mean, _ = mean_and_spread(own, "n", value)
            axis.plot(x, mean, color=COLOURS[arm], marker="o", markersize=3, label=NAMES[arm])
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("n, images of three sources")
    axis.legend(fontsize=7)


def _say_arms(frame: Any, arms: tuple[str, ...], value: str, prefix: str) -> list[str]:
    lines = []
    for arm in arms:
        own = frame[frame["arm"] == arm]
        if len(own):
            x, mean, _ = mean_and_spread(own, "n", value)
            lines.append(
                f"{prefix}{NAMES[arm]}: {mean[0]:.3g} at n = {x[0]:,.0f}, {mean[-1]:.3g} at n = "
                f"{x[-1]:,.0f}, slope {log_slope(x, mean):+.2f}"
            )
    return lines
