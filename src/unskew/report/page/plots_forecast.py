"""The forecast: accuracy of every arm, gains, and class by class, in points from 0 to 100."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from unskew.report.page import svg, tables
from unskew.report.summary.record import ForecastArm, ForecastClass, ForecastPanel, Number

# Arms that have a mark of their own elsewhere on the page; all others share one.
_MARKS = {"naive": "pool", "debiased": "debiased"}
_LEVELS = {"reweight": "ok", "unclear": "weak", "don't": "no"}


def forecast_level(panel: ForecastPanel) -> str:
    """Return "ok", "weak", "no" or nothing; never "ok" if check_fit objects."""
    level = _LEVELS.get(panel.verdict, "")
    return "weak" if panel.objection is not None and level == "ok" else level


def show_points(value: Number, *, signed: bool = False) -> str:
    """Show a share of 1 in points.

    >>> show_points(0.7803), show_points(None)
    ('78.0', '–')
    >>> show_points(-0.0123, signed=True), show_points(0.0, signed=True)
    ('−1.2', '0.0')
    """
    if value is None:
        return tables.MISSING
    points = round(100 * value, 1)
    return "0.0" if points == 0 else f"{points:{'+' if signed else ''}.1f}".replace("-", "−")


def show_error(value: Number, stderr: Number, *, signed: bool = False) -> str:
    """Show a value with its standard error, as in ``+1.5 ± 1.7``."""
    if value is None:
        return tables.MISSING
    return f"{show_points(value, signed=signed)} ± {'?' if stderr is None else show_points(stderr)}"


def show_interval(interval: tuple[Number, Number], *, signed: bool = False) -> str:
    """Show an interval, as in ``71.9 to 84.1``."""
    low, high = interval
    if low is None or high is None:
        return tables.MISSING
    return f"{show_points(low, signed=signed)} to {show_points(high, signed=signed)}"


def nouns(panel: ForecastPanel) -> tuple[str, str]:
    """Return what ``classes`` are called, one and several."""
    return ("class", "classes") if panel.labels is None else ("label", "labels")


def plot_arms(panel: ForecastPanel) -> svg.Figure:
    """Draw the accuracy of every arm on the target with its 95% interval."""
    drawing, shown = _draw_arms(
        panel.arms, lambda arm: (arm.accuracy, arm.stderr, arm.interval), signed=False
    )
    return svg.Figure(
        title="Predicted accuracy on the target",
        drawing=drawing,
        label=f"Predicted accuracy in points, with 95% intervals: {shown}.",
        table=arm_table(panel),
        meaning=("" if panel.labels is None else f"The mean of {panel.labels} labels. ")
        + "In points: correct of 100 images of the target, each arm trained on all images. "
        "Lines are 95% intervals. Arms share their "
        "images, so intervals may overlap although the gain is certain: see the gain.",
        keys=_keys(panel),
    )


def plot_gains(panel: ForecastPanel) -> svg.Figure | None:
    """Draw gains over naive with their 95% intervals; None where there is none."""
    arms = [arm for arm in panel.arms if arm.gain is not None]
    if not arms:
        return None
    drawing, shown = _draw_arms(
        arms, lambda arm: (arm.gain, arm.gain_stderr, arm.gain_interval), signed=True
    )
    return svg.Figure(
        title="Predicted gain over naive",
        drawing=drawing,
        label=f"Gain in points over training on all images alike, with 95% intervals: {shown}.",
        table=tables.list_rows(
            "Gain over naive, in points",
            arms,
            ("Arm", lambda arm: tables.name_cell(arm.name)),
            ("Gain", _gain_cell),
            ("95% interval", _gain_interval_cell),
        ),
        meaning="In points, compared image by image. Where the interval contains 0, the images do "
        "not show whether it helps.",
        keys=(*(key for key in _keys(panel) if key.mark != "pool"), svg.Key("guide", "No gain")),
    )


def _draw_arms(
    arms: Sequence[ForecastArm],
    read: Callable[[ForecastArm], tuple[Number, Number, tuple[Number, Number]]],
    *,
    signed: bool,
) -> tuple[Markup, str]:
    """Draw a number of every arm with its interval, and write the first ones out."""
    figures = [(arm.name, *read(arm)) for arm in arms]
    scale = svg.scale_of(
        [_times(end) for _, value, _, interval in figures for end in (value, *interval)],
        include=(-0.5, 0.5) if signed else (),
    )
    rows = []
    for name, value, _, (low, high) in figures:
        kind = _MARKS.get(name, "baseline")
        line = svg.interval_line((_times(low), _times(high)), scale, f"interval of-{kind}")
        marks = line + svg.value_mark(kind, _times(value), scale)
        rows.append(svg.Row(name, marks, show_points(value, signed=signed)))
    shown = "; ".join(
        f"{tables.shorten(name, 40)} {show_error(value, stderr, signed=signed)}"
        for name, value, stderr, _ in figures[:12]
    )
    return svg.draw_rows(rows, scale, guides=(0.0,) if signed else ()), shown


def plot_classes(panel: ForecastPanel) -> svg.Figure | None:
    """Draw the accuracy within every class, naive and debiased, the worst under naive first."""
    known = [row for row in panel.classes if any(value is not None for value in row.accuracy)]
    if not known:
        return None
    ordered = sorted(known, key=lambda row: (row.accuracy[0] is None, row.accuracy[0], row.label))
    scale = svg.scale_of([_times(value) for row in ordered for value in row.accuracy[:2]])
    rows = [
        svg.Row(
            row.label,
            svg.joined_marks(
                zip(("pool", "debiased"), map(_times, row.accuracy), strict=False), scale
            ),
            " → ".join(map(_whole, row.accuracy[:2])),
        )
        for row in ordered
    ]
    worst, (one, many) = ordered[0], nouns(panel)
    return svg.Figure(
        title=f"{one.capitalize()} by {one}",
        drawing=svg.draw_rows(rows, scale),
        label=f"Predicted accuracy of {len(ordered)} {many}, naive and debiased. Worst under "
        f"naive: {tables.shorten(worst.label, 40)}, "
        f"{' then '.join(map(_whole, worst.accuracy[:2]))} points.",
        table=class_table(panel, ordered),
        meaning=f"{many.capitalize()} that a model trained on all images alike gets wrong most are "
        f"on top. A rare {one} rests on few images: the table has the errors.",
        keys=(svg.Key("pool", "naive"), svg.Key("debiased", "debiased")),
        wide=len(ordered) > 16,
    )


def arm_table(panel: ForecastPanel) -> tables.PageTable:
    """Tabulate all numbers of the arms."""
    return tables.list_rows(
        "What is expected of each arm, in points",
        panel.arms,
        ("Arm", lambda arm: tables.name_cell(arm.name)),
        (
            "Accuracy",
            lambda arm: tables.TableCell(show_error(arm.accuracy, arm.stderr), arm.accuracy),
        ),
        ("95% interval", lambda arm: tables.TableCell(show_interval(arm.interval), arm.accuracy)),
        ("Gain over naive", _gain_cell),
        ("95% interval of the gain", _gain_interval_cell),
        (
            tables.words(f"Worst {nouns(panel)[0]}"),
            lambda arm: tables.name_cell(
                tables.MISSING if arm.worst_class is None else arm.worst_class, 60
            ),
        ),
        (
            "Accuracy there",
            lambda arm: tables.TableCell(show_error(arm.worst, arm.worst_stderr), arm.worst),
        ),
        ("Effective images", lambda arm: tables.count_cell(arm.ess)),
        (
            "Ridge",
            lambda arm: tables.TableCell(
                tables.MISSING if arm.ridge is None else f"{arm.ridge:g}", arm.ridge
            ),
        ),
    ).without_empty()


def class_table(panel: ForecastPanel, classes: Sequence[ForecastClass]) -> tables.PageTable:
    """Tabulate the accuracy in every class under every arm."""
    columns = [
        nouns(panel)[0].capitalize(),
        *(arm.name for arm in panel.arms),
        "Share of the target",
        "Effective images",
    ]
    rows = (
        [
            tables.name_cell(row.label),
            *(
                tables.TableCell(show_error(value, error), value)
                for value, error in zip(row.accuracy, row.stderr, strict=True)
            ),
            tables.share_cell(row.share),
            tables.count_cell(row.ess),
        ]
        for row in classes
    )
    note = (
        "Points, ± one standard error given the weights. Effective images: what the images of the "
        f"{nouns(panel)[0]} are worth, groups and copies as one."
    )
    return tables.table(
        f"Predicted accuracy by {nouns(panel)[0]}", columns, rows, note=note
    ).without_empty()


def worst_text(panel: ForecastPanel) -> str:
    """Show the worst class under naive and under debiased, as ``51 → 55``."""
    return " → ".join(_whole(arm.worst) for arm in panel.arms[:2])


def _whole(value: Number) -> str:
    return tables.MISSING if value is None else f"{100 * value:.0f}"


def _times(value: Number) -> Number:
    return None if value is None else 100 * value


def _gain_cell(arm: ForecastArm) -> tables.TableCell:
    return tables.TableCell(show_error(arm.gain, arm.gain_stderr, signed=True), arm.gain)


def _gain_interval_cell(arm: ForecastArm) -> tables.TableCell:
    return tables.TableCell(show_interval(arm.gain_interval, signed=True), arm.gain)


def _keys(panel: ForecastPanel) -> tuple[svg.Key, ...]:
    keys = [
        svg.Key("pool", "naive: all images alike"),
        svg.Key("debiased", "debiased: the weights of this run"),
    ]
    others = [arm for arm in panel.arms if arm.name not in _MARKS]
    kinds = {
        "other arms" if arm.way is None else "the ways that debiased is chosen from": None
        for arm in others
    }
    return (*keys, svg.Key("baseline", ", ".join(kinds))) if others else tuple(keys)
