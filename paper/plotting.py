"""The look of all figures: colours and names of the arms, axes, and files as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import ConfigError
from unskew.files.atomic import written_whole

# One colour for each arm wherever it appears (Okabe & Ito's, which the colour-blind tell apart).
COLOURS = {
    "target": "#000000",
    "test": "#000000",
    "naive": "#8a8a8a",
    "article": "#d55e00",
    "as_published": "#cc79a7",
    "exact": "#0072b2",
    "soft_box": "#009e73",
    "true": "#56b4e9",
    "newton": "#0072b2",
    "root_n": "#e69f00",
    "constant": "#d55e00",
    "boxes": "#0072b2",
    "one_source": "#cc79a7",
    "fair_ref": "#000000",
}
NAMES = {
    "target": "target",
    "test": "test split",
    "naive": "naive pooling",
    "article": "article's procedure (SGD)",
    "as_published": "as published",
    "exact": "exact, article's ω̂",
    "soft_box": "exact, soft box",
    "true": "exact, true ω",
    "newton": "Newton",
    "root_n": "ω̂ off by C/√n",
    "constant": "ω̂ off by a constant",
    "boxes": "min–max boxes",
    "one_source": "importance sampling of one source",
    "fair_ref": "unbiased sample of size n",
}
_DPI = 120
_STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # The same data give the same file.
    "svg.hashsalt": "unskew",
}


def new_figure(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Any, Any]:
    """Make (figure, (rows, columns) array of axes) without a window or global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply the look of all figures inside the block; matplotlib's settings return after it."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError(
            "drawing figures needs the package matplotlib, which is not installed: pip install "
            "matplotlib",
            package="matplotlib",
        ) from error
    with matplotlib.rc_context(_STYLE):
        yield


def save_figure(figure: Any, folder: Path, slug: str) -> None:
    """Write ``slug.png`` and ``slug.svg``, each atomically."""
    with written_whole(folder / f"{slug}.png") as temporary:
        figure.savefig(temporary, format="png", dpi=_DPI, metadata={"Software": None})
    with written_whole(folder / f"{slug}.svg") as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def legend_below(figure: Any, arms: Iterable[str], columns: int, dashed: bool = False) -> None:
    """Put one legend for all panels below them.

    ``dashed``: arms are dashed lines and the target a full one.
    """
    from matplotlib.lines import Line2D

    lines = [
        Line2D(
            [],
            [],
            color=COLOURS[arm],
            linestyle="--" if dashed and arm not in ("target", "test", "naive") else "-",
            label=NAMES[arm],
        )
        for arm in arms
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, fontsize=8)


def mean_and_spread(frame: Any, by: str, value: str) -> tuple[Any, Any, Any]:
    """Return (sorted levels of ``by``, mean of ``value`` over runs, two standard deviations).

    Runs without a value do not count.
    """
    grouped = frame.dropna(subset=[value]).groupby(by)[value]
    mean = grouped.mean()
    return (
        mean.index.to_numpy(dtype=float),
        mean.to_numpy(),
        2.0 * grouped.std(ddof=1).fillna(0.0).to_numpy(),
    )


def log_slope(x: Any, y: Any) -> float:
    """Return the slope of log y against log x, by least squares."""
    return float(
        np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)), 1)[0]
    )


def reference_slope(axis: Any, x: Any, y0: float, slope: float, label: str) -> None:
    """Draw a dotted line of this slope through (x[0], y0) on logarithmic axes, with its name."""
    line = y0 * (np.asarray(x, dtype=float) / float(x[0])) ** slope
    axis.plot(x, line, color="#555555", linestyle=":", linewidth=0.9)
    axis.annotate(
        label,
        (x[-1], line[-1]),
        textcoords="offset points",
        xytext=(-2, -9),
        ha="right",
        color="#555555",
        fontsize=7,
    )
