"""What the panels of a page show besides figures.

Strata, splits, trained models, copies, unreadable images, check_fit, galleries, provenance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from markupsafe import Markup

from unskew.report.page.svg import Scale, canvas, joined_marks, tag
from unskew.report.page.tables import (
    MISSING,
    PageTable,
    TableCell,
    TableColumn,
    count_cell,
    list_cell,
    list_rows,
    name_cell,
    number_cell,
    p_value_cell,
    share_cell,
    shorten,
    show_count,
    show_share,
    signed_cell,
    table,
    words,
)
from unskew.report.summary.record import (
    BalanceRow,
    Gallery,
    StratumRow,
    Summary,
    Thumbnail,
    TrainingPanel,
)

T = TypeVar("T")

# Pictures of all galleries together, in characters; further ones are left out and counted.
PICTURE_BUDGET = 2_500_000
_PICTURE = re.compile(r"data:image/(?:jpeg|png|webp|gif);base64,[A-Za-z0-9+/]+=*")
_LONGEST_TEXT = 60_000
_NO_INTERVAL = (None, None)


def strata_table(summary: Summary) -> PageTable:
    """List the strata: uncovered first, then by target mass, those outside the scope last."""
    rows = sorted(
        summary.strata, key=lambda row: (row.covered, not row.in_scope, -(row.target or 0.0))
    )
    shares = [share for row in rows for share in (row.target, row.pool, row.weighted)]
    top = max((share for share in shares if share is not None), default=1.0) or 1.0
    of_groups: tuple[tuple[str, Callable[[StratumRow], TableCell]], ...] = ()
    if any(row.groups is not None for row in rows):
        of_groups = (("Groups", lambda row: count_cell(row.groups)),)
    return list_rows(
        "Strata of the target",
        rows,
        ("Stratum", lambda row: name_cell(row.stratum)),
        (words("Covered"), _covered_cell),
        ("Target", _target_cell),
        ("Pool", lambda row: share_cell(row.pool)),
        ("Debiased", lambda row: share_cell(row.weighted)),
        (words("Shares"), lambda row: TableCell("", drawing=_shares_of(row, top))),
        ("Images", lambda row: count_cell(row.images)),
        *of_groups,
        (
            words("Sources that see it", wide=True),
            lambda row: list_cell(row.sources, len(summary.sources)),
        ),
        ("Effective images", lambda row: count_cell(row.ess)),
        ("Largest weight", lambda row: number_cell(row.largest_weight)),
        marked=lambda row: not row.covered,
    ).without_empty()


def _covered_cell(row: StratumRow) -> TableCell:
    if not row.in_scope:
        return TableCell("outside the target", 2.0)
    return TableCell("yes", 1.0) if row.covered else TableCell("no: no image", 0.0, mark="no")


def _target_cell(row: StratumRow) -> TableCell:
    error = f" ± {show_share(row.target_stderr)}" if row.target_stderr else ""
    return TableCell(show_share(row.target) + error, row.target)


def _shares_of(row: StratumRow, top: float) -> Markup:
    shares = (("pool", row.pool), ("debiased", row.weighted), ("target", row.target))
    return share_strip(shares, top)


def share_strip(shares: Sequence[tuple[str, float | None]], top: float) -> Markup:
    """Draw shares on one line, by series; the numbers are in the columns next to it."""
    base = tag("line", x1="0%", x2="100%", y1=11, y2=11, class_="grid")
    marks = joined_marks(shares, Scale(0.0, top), 11)
    return canvas(base, marks, height=22, class_="strip")


def split_table(summary: Summary) -> PageTable:
    """List the splits, each with its own weights."""
    return list_rows(
        "Splits",
        summary.splits,
        ("Split", lambda row: name_cell(row.name)),
        ("Images", lambda row: count_cell(row.images)),
        ("Groups", lambda row: count_cell(row.groups)),
        ("Effective images", lambda row: count_cell(row.ess)),
        (words("Note"), lambda row: TableCell(row.note)),
    )


def training_table(panel: TrainingPanel) -> PageTable:
    """List the trained arms, each figure with its interval: main − arm comes last."""
    level = f"{100 * panel.level:g}%"
    spread = ("Spread of a training, points",) if len(panel.seeds) > 1 else ()
    mean = "" if panel.labels is None else f", mean of {panel.labels} labels"
    worst = "label: 100 × AUROC" if mean else "class"
    is_known = any(arm.calibration is not None for arm in panel.arms)
    error = (f"Calibration error ({level})",) if is_known else ()
    columns = ("Arm", f"Accuracy{mean} ({level})", *spread, f"Worst {worst} ({level})", *error)
    rows = [
        [
            name_cell(arm.name),
            _interval_cell(arm.accuracy, arm.accuracy_interval),
            *([_interval_cell(arm.spread, _NO_INTERVAL)] if spread else []),
            _interval_cell(arm.worst, arm.worst_interval, arm.worst_class),
            *([_interval_cell(arm.calibration, arm.calibration_interval)] if error else []),
            _interval_cell(arm.gain, arm.gain_interval, signed=True),
        ]
        for arm in panel.arms
    ]
    gain = TableColumn(f"{shorten(panel.main, 40)} − arm, points ({level})")
    return table("Models on held-out images, in %", (*columns, gain), rows)


def ways_table(panel: TrainingPanel) -> PageTable:
    """List the ways that the main arm was chosen from, on held-out images of train."""
    return list_rows(
        "Ways to learn from the weights, on images of train that were held out in turn",
        panel.ways,
        ("Way", lambda row: name_cell(f"{row.name} (chosen)" if row.is_chosen else row.name)),
        ("Accuracy", lambda row: share_cell(row.accuracy)),
        ("Gain, points", lambda row: _interval_cell(row.gain, _NO_INTERVAL, signed=True)),
        ("Standard error", lambda row: _interval_cell(row.stderr, _NO_INTERVAL)),
    )


def _interval_cell(
    value: float | None,
    interval: tuple[float | None, float | None],
    name: str | None = None,
    *,
    signed: bool = False,
) -> TableCell:
    """Show a share as ``84.1 (83.0 to 85.2)``, in percent or, signed, in points."""
    if value is None:
        return TableCell(MISSING)
    low, high = interval
    sign, ends = "+" if signed else "", ""
    if low is not None and high is not None:
        ends = f" ({100 * low:{sign}.1f} to {100 * high:{sign}.1f})"
    prefix = "" if name is None else f"{shorten(name, 40)}: "
    return TableCell(f"{prefix}{100 * value:{sign}.1f}{ends}", value)


def fit_table(summary: Summary) -> PageTable:
    """Show `check_fit`, feature by feature."""
    return list_rows(
        "Do the sources look as the model expects?",
        () if summary.bias is None else summary.bias.fit_rows,
        ("Feature", lambda row: name_cell(row.feature)),
        ("p-value", lambda row: p_value_cell(row.p_value)),
        (words("Off most in"), lambda row: name_cell(row.source)),
        (words("Where"), lambda row: name_cell(row.place)),
        ("Observed − expected share", lambda row: signed_cell(row.excess)),
    )


def parameter_table(summary: Summary) -> PageTable:
    """List the fitted parameters."""
    rows = [] if summary.bias is None else summary.bias.parameters
    return table(
        "Fitted parameters",
        ("Parameter", words("Value")),
        ([name_cell(name), TableCell(shorten(text, 400))] for name, text in rows),
    )


def unreadable_tables(summary: Summary) -> tuple[PageTable, PageTable]:
    """List why images were set aside, and the first of them."""
    panel = summary.unreadable
    reasons = table(
        "Why images were set aside",
        ("Reason", "Images"),
        ([name_cell(text, 200), count_cell(count)] for text, count in panel.reasons),
    )
    columns = [TableColumn(name, numeric=False) for name in ("Id", "Source", "Path", "Reason")]
    return reasons, table(
        "Images set aside",
        columns,
        ([name_cell(text, 200) for text in row] for row in panel.rows),
        most=200,
    )


def copy_table(summary: Summary) -> PageTable:
    """Count exact copies within and across sources."""
    rows = [
        [name_cell(one), name_cell("itself" if one == other else other), count_cell(count)]
        for one, other, count in summary.copies
    ]
    columns = ("Source", words("With a copy in"), "Images of the source")
    return table("Exact copies", columns, rows, most=200)


def split_balance(summary: Summary) -> tuple[list[BalanceRow], list[BalanceRow], list[BalanceRow]]:
    """Return the rows of the love plots: fitted, not fitted, and fitted without a known target."""
    known = [row for row in summary.balance if row.target is not None]
    moved = [row for row in summary.balance if row.target is None and row.fitted]
    return [row for row in known if row.fitted], [row for row in known if not row.fitted], moved


@dataclass(frozen=True)
class GalleryGroup:
    """All galleries of one kind."""

    title: str
    meaning: str
    galleries: tuple[Gallery, ...]


_KINDS = {
    "heaviest": (
        "Heaviest images",
        "Each counts for many images of the target: if one is wrong (mislabelled, damaged), so is "
        "the result.",
    ),
    "lightest": (
        "Lightest images",
        "The pool has more of these than the target: they count for little.",
    ),
    "one source only": (
        "Seen by one source only",
        "No other source could have taken these: for them there is no second opinion.",
    ),
    "copies": ("Exact copies", "The same file found more than once."),
}


def group_galleries(
    summary: Summary, budget: int = PICTURE_BUDGET
) -> tuple[list[GalleryGroup], int]:
    """Group galleries by kind, with as many pictures as the budget allows."""
    allowed: set[tuple[int, int]] = set()
    size = left_out = 0
    deepest = max((len(gallery.pictures) for gallery in summary.galleries), default=0)
    for depth in range(deepest):
        for k, gallery in enumerate(summary.galleries):
            if depth < len(gallery.pictures):
                cost = _cost(gallery.pictures[depth])
                if size + cost <= budget:
                    size, allowed = size + cost, allowed | {(k, depth)}
                else:
                    left_out += 1
    kept = [
        replace(
            gallery,
            pictures=tuple(
                _checked(picture)
                for depth, picture in enumerate(gallery.pictures)
                if (k, depth) in allowed
            ),
        )
        for k, gallery in enumerate(summary.galleries)
    ]
    kinds = dict.fromkeys(gallery.kind for gallery in kept)
    named = {kind: _KINDS.get(kind, (kind.capitalize(), "")) for kind in kinds}
    return [
        GalleryGroup(
            title=named[kind][0],
            meaning=named[kind][1],
            galleries=tuple(own for own in kept if own.kind == kind and own.pictures),
        )
        for kind in kinds
    ], left_out


def picture_cost(summary: Summary) -> int:
    """Return the size of all pictures with their captions, in characters."""
    return sum(_cost(picture) for gallery in summary.galleries for picture in gallery.pictures)


def _cost(picture: Thumbnail) -> int:
    # A caption takes about three hundred characters.
    return 300 + len(picture.picture or "")


def thin_out(summary: Summary) -> Summary:
    """Drop half of the distributions, curves and balanced columns of a page that is too large."""
    note = "Some columns are in report.json only: with them this page would be too large."
    bias = summary.bias
    return replace(
        summary,
        distributions=_half(summary.distributions),
        balance=_half(summary.balance),
        bias=None
        if bias is None
        else replace(bias, curves=_half(bias.curves), parameters=_half(bias.parameters)),
        notes={**summary.notes, "distributions": note},
    )


def _half(items: tuple[T, ...]) -> tuple[T, ...]:
    return items[: len(items) // 2]


def _checked(picture: Thumbnail) -> Thumbnail:
    """Drop everything that is not plainly a picture inside the page: never show an address."""
    usable = picture.picture is not None and _PICTURE.fullmatch(picture.picture) is not None
    return replace(picture, picture=Markup(picture.picture) if usable else None)


def settings_text(summary: Summary) -> str:
    """Return the settings as TOML: as they were written, or one dotted key per line."""
    settings = summary.provenance.get("settings")
    if settings is None:
        return ""
    text = settings if isinstance(settings, str) else "\n".join(_toml_lines(settings))
    return (
        text
        if len(text) <= _LONGEST_TEXT
        else text[:_LONGEST_TEXT] + "\n# … cut here; report.json has all of it"
    )


def _toml_lines(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in settings.items():
        name = prefix + (
            str(key)
            if re.fullmatch(r"[A-Za-z0-9_-]+", str(key))
            else json.dumps(str(key), ensure_ascii=False)
        )
        if isinstance(value, Mapping) and value:
            yield from _toml_lines(value, f"{name}.")
        elif value is not None:
            yield f"{name} = {_toml_value(value)}"


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(
                f"{json.dumps(str(key))} = {_toml_value(entry)}" for key, entry in value.items()
            )
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(entry) for entry in value) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


def provenance_tables(summary: Summary) -> list[PageTable]:
    """List everything about the run except the settings."""
    facts, tables = [], []
    for key, value in summary.provenance.items():
        if key == "settings":
            continue
        if isinstance(value, Mapping):
            tables.append(
                _facts_table(
                    _sentence(key), [(str(name), _fact(entry)) for name, entry in value.items()]
                )
            )
        else:
            facts.append((_sentence(key), _fact(value)))
    return [_facts_table("The run", facts), *tables] if facts else tables


def _facts_table(caption: str, facts: Sequence[tuple[str, str]]) -> PageTable:
    return table(
        caption,
        ("What", words("Value")),
        ([name_cell(name, 200), TableCell(text)] for name, text in facts),
        most=200,
    )


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_fact(entry) for entry in value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_fact(entry)}" for key, entry in value.items())
    # A seed or a number of rows is read and copied: no thousands separators.
    return MISSING if value is None else shorten(value, 1000)


def _sentence(key: str) -> str:
    text = key.replace("_", " ")
    return text[:1].upper() + text[1:]


def picture_alt(picture: Thumbnail) -> str:
    """Describe a thumbnail to a screen reader."""
    label = "" if picture.label is None else f"{shorten(picture.label, 40)}, "
    return f"{label}from {shorten(picture.source, 40)}"


def uncovered_text(summary: Summary) -> str:
    """State how much target mass no source covers; empty where all is covered."""
    missing = [row for row in summary.strata if not row.covered]
    if not missing:
        return ""
    mass = sum(row.target or 0.0 for row in missing)
    strata = f"{show_count(len(missing))} of {show_count(len(summary.strata))} strata"
    return f"{strata}, {show_share(mass)} of the target, have no image in any source."
