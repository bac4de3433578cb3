"""The forecast: accuracy of every arm, gains, and class by class, in points from 0 to 100."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.svg import (
    Figure,
    Key,
    Row,
    Scale,
    draw_rows,
    joined_marks,
    mark,
    scale_of,
    span_line,
)
from unskew.report.page.tables import (
    MISSING,
    PageTable,
    TableCell,
    TableColumn,
    count_cell,
    name_cell,
    share_cell,
    shorten,
    table,
)
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
        return MISSING
    points = round(100 * value, 1)
    return "0.0" if points == 0 else f"{points:{'+' if signed else ''}.1f}".replace("-", "−")


def show_error(value: Number, stderr: Number, *, signed: bool = False) -> str:
    """Show a value with its standard error, as in ``+1.5 ± 1.7``."""
    return (
        MISSING
        if value is None
        else f"{show_points(value, signed=signed)} ± "
        f"{'?' if stderr is None else show_points(stderr)}"
    )


def show_interval(interval: tuple[Number, Number], *, signed: bool = False) -> str:
    """Show an interval, as in ``71.9 to 84.1``."""
    low, high = interval
    return (
        MISSING
        if low is None or high is None
        else f"{show_points(low, signed=signed)} to {show_points(high, signed=signed)}"
    )


def nouns(panel: ForecastPanel) -> tuple[str, str]:
    """Return what ``classes`` are called, one and several."""
    return ("class", "classes") if panel.labels is None else ("label", "labels")


def plot_arms(panel: ForecastPanel) -> Figure:
    """Draw the accuracy of every arm on the target with its 95% interval."""
    scale = scale_of(
        [_times(value) for arm in panel.arms for value in (arm.accuracy, *arm.interval)]
    )
    rows = [
        Row(
            arm.name,
            _interval_mark(arm.name, arm.accuracy, arm.interval, scale),
            show_points(arm.accuracy),
        )
        for arm in panel.arms
    ]
    shown = "; ".join(
        f"{shorten(arm.name, 40)} {show_error(arm.accuracy, arm.stderr)}" for arm in panel.arms[:12]
    )
    return Figure(
        title="Predicted accuracy on the target",
        drawing=draw_rows(rows, scale),
        label=f"Predicted accuracy in points, with 95% intervals: {shown}.",
        table=arm_table(panel),
        meaning=("" if panel.labels is None else f"The mean of {panel.labels} labels. ")
        + "In points: correct of 100 images of the target, each arm trained on all images. "
        "Lines are 95% intervals. Arms share their "
        "images, so intervals may overlap although the gain is certain: see the gain.",
        keys=_keys(panel),
    )


def plot_gains(panel: ForecastPanel) -> Figure | None:
    """Draw gains over naive with their 95% intervals; None where there is none."""
    arms = [arm for arm in panel.arms if arm.gain is not None]
    if not arms:
        return None
    scale = scale_of(
        [_times(value) for arm in arms for value in (arm.gain, *arm.gain_interval)],
        include=(-0.5, 0.5),
    )
    rows = [
        Row(
            arm.name,
            _interval_mark(arm.name, arm.gain, arm.gain_interval, scale),
            show_points(arm.gain, signed=True),
        )
        for arm in arms
    ]
    shown = "; ".join(
        f"{shorten(arm.name, 40)} {show_error(arm.gain, arm.gain_stderr, signed=True)}"
        for arm in arms[:12]
    )
    return Figure(
        title="Predicted gain over naive",
        drawing=draw_rows(rows, scale, guides=(0.0,)),
        label=f"Gain in points over training on all images alike, with 95% intervals: {shown}.",
        table=table(
            "Gain over naive, in points",
            ("Arm", "Gain", "95% interval"),
            (
                [
                    name_cell(arm.name),
                    _gain_cell(arm),
                    TableCell(show_interval(arm.gain_interval, signed=True), arm.gain),
                ]
                for arm in arms
            ),
        ),
        meaning="In points, compared image by image. Where the interval contains 0, the images do "
        "not show whether it helps.",
        keys=(*(key for key in _keys(panel) if key.mark != "pool"), Key("guide", "No gain")),
    )


def plot_classes(panel: ForecastPanel) -> Figure | None:
    """Draw the accuracy within every class, naive and debiased, the worst under naive first."""
    known = [row for row in panel.classes if any(value is not None for value in row.accuracy)]
    if not known:
        return None
    ordered = sorted(known, key=lambda row: (row.accuracy[0] is None, row.accuracy[0], row.label))
    scale = scale_of([_times(value) for row in ordered for value in row.accuracy[:2]])
    rows = [
        Row(row.label, _move(row.accuracy, scale), " → ".join(map(_whole, row.accuracy[:2])))
        for row in ordered
    ]
    worst, (one, many) = ordered[0], nouns(panel)
    return Figure(
        title=f"{one.capitalize()} by {one}",
        drawing=draw_rows(rows, scale),
        label=f"Predicted accuracy of {len(ordered)} {many}, naive and debiased. Worst under "
        f"naive: {shorten(worst.label, 40)}, "
        f"{' then '.join(map(_whole, worst.accuracy[:2]))} points.",
        table=class_table(panel, ordered),
        meaning=f"{many.capitalize()} that a model trained on all images alike gets wrong most are "
        f"on top. A rare {one} rests on few images: the table has the errors.",
        keys=(Key("pool", "naive"), Key("debiased", "debiased")),
        wide=len(ordered) > 16,
    )


def arm_table(panel: ForecastPanel) -> PageTable:
    """Tabulate all numbers of the arms."""
    columns = (
        "Arm",
        "Accuracy",
        "95% interval",
        "Gain over naive",
        "95% interval of the gain",
        TableColumn(f"Worst {nouns(panel)[0]}", numeric=False),
    )
    rows = (
        [
            name_cell(arm.name),
            TableCell(show_error(arm.accuracy, arm.stderr), arm.accuracy),
            TableCell(show_interval(arm.interval), arm.accuracy),
            _gain_cell(arm),
            TableCell(show_interval(arm.gain_interval, signed=True), arm.gain),
            name_cell(MISSING if arm.worst_class is None else arm.worst_class, 60),
            TableCell(show_error(arm.worst, arm.worst_stderr), arm.worst),
            count_cell(arm.ess),
            TableCell(MISSING if arm.ridge is None else f"{arm.ridge:g}", arm.ridge),
        ]
        for arm in panel.arms
    )
    return table(
        "What is expected of each arm, in points",
        (*columns, "Accuracy there", "Effective images", "Ridge"),
        rows,
    ).without_empty()


def class_table(panel: ForecastPanel, classes: Sequence[ForecastClass]) -> PageTable:
    """Tabulate the accuracy in every class under every arm."""
    columns = [
        nouns(panel)[0].capitalize(),
        *(arm.name for arm in panel.arms),
        "Share of the target",
        "Effective images",
    ]
    rows = (
        [
            name_cell(row.label),
            *(
                TableCell(show_error(value, error), value)
                for value, error in zip(row.accuracy, row.stderr, strict=True)
            ),
            share_cell(row.share),
            count_cell(row.ess),
        ]
        for row in classes
    )
    note = (
        "Points, ± one standard error given the weights. Effective images: what the images of the "
        f"{nouns(panel)[0]} are worth, groups and copies as one."
    )
    return table(
        f"Predicted accuracy by {nouns(panel)[0]}", columns, rows, note=note
    ).without_empty()


def worst_text(panel: ForecastPanel) -> str:
    """Show the worst class under naive and under debiased, as ``51 → 55``."""
    return " → ".join(_whole(arm.worst) for arm in panel.arms[:2])


def _whole(value: Number) -> str:
    return MISSING if value is None else f"{100 * value:.0f}"


def _times(value: Number) -> Number:
    return None if value is None else 100 * value


def _gain_cell(arm: ForecastArm) -> TableCell:
    return TableCell(show_error(arm.gain, arm.gain_stderr, signed=True), arm.gain)


def _keys(panel: ForecastPanel) -> tuple[Key, ...]:
    keys = [
        Key("pool", "naive: all images alike"),
        Key("debiased", "debiased: the weights of this run"),
    ]
    others = [arm for arm in panel.arms if arm.name not in _MARKS]
    kinds = {
        "other arms" if arm.way is None else "the ways that debiased is chosen from": None
        for arm in others
    }
    return (*keys, Key("baseline", ", ".join(kinds))) if others else tuple(keys)


def _interval_mark(
    name: str, value: Number, interval: tuple[Number, Number], scale: Scale
) -> Markup:
    kind, (low, high) = _MARKS.get(name, "baseline"), interval
    line = Markup("")
    if low is not None and high is not None:
        line = span_line(scale.at(100 * low), scale.at(100 * high), 13, f"interval of-{kind}")
    return line + (Markup("") if value is None else mark(kind, scale.at(100 * value), 13))


def _move(accuracy: Sequence[Number], scale: Scale) -> Markup:
    points = zip(("pool", "debiased"), map(_times, accuracy), strict=False)
    return joined_marks(points, scale)
