"""Links between the sources as tables, and the weakest in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.report.page.tables import (
    PageTable,
    TableCell,
    count_cell,
    list_rows,
    name_cell,
    number_cell,
    share_cell,
    shorten,
    show_number,
    table,
    words,
)
from unskew.report.summary.record import Number, OverlapPanel

# A heat map of more sources than this has unreadable labels.
MOST_IN_MAP = 60
# The title of a measure, its field and its meaning.
_CONSTANTS = (
    ("Link error", "link_error", "share of the target that the error of the normalizers moves"),
    ("Heaviest unit", "heaviest", "share of the variance that one image (or group) has"),
    (
        "Unseen",
        "unseen",
        "share of the target's sample that is heavier than nearly all of the pool",
    ),
    ("Lone strata", "lone", "share of the variance in strata with a single image (or group)"),
    ("Weakest link, images", "weakest_count", "images behind the weakest link"),
    ("Weakest pair, κ", "kappa", "target mass that the weakest pair of linked sources shares"),
    (
        "Smallest chance, ε",
        "epsilon",
        "relative to the largest chance of the same source",
    ),
    (
        "Mixing (spectral gap)",
        "spectral_gap",
        "0: the sources fall apart; 1: all see the same",
    ),
    ("Curvature, σ₂", "sigma2", "curvature along the weakest direction"),
)
Matrix = Sequence[Sequence[Number]]


def constant_table(panel: OverlapPanel) -> PageTable:
    """List what the verdict judges, with its limits, and the constants of the theory."""
    known = [
        (title, getattr(panel, name), panel.thresholds.get(name), text)
        for title, name, text in _CONSTANTS
        if getattr(panel, name) is not None
    ]
    return list_rows(
        "How strong the overlap is",
        known,
        ("Measure", lambda row: TableCell(row[0])),
        ("Value", lambda row: number_cell(row[1])),
        ("Weak above", lambda row: number_cell(row[2])),
        (words("Meaning", wide=True), lambda row: TableCell(row[3])),
    )


def link_table(panel: OverlapPanel) -> PageTable | None:
    """Count the images behind every link: row k, column l: images of l that k could have taken."""
    if panel.link_count is None:
        return None
    kept = sources_in_map(panel)
    values = [[panel.link_count[k][other] for other in kept] for k in kept]
    return matrix_table(
        "Images of the column's source that the row's source could have taken",
        [panel.names[k] for k in kept],
        values,
        counts=True,
    )


def common_table(panel: OverlapPanel) -> PageTable | None:
    """Show the share of the pooled images that two sources could both have taken."""
    if panel.common_mass is None or panel.matrix is None:
        return None
    kept = sources_in_map(panel)
    values = [[panel.common_mass[k][other] for other in kept] for k in kept]
    return matrix_table(
        "Share of all images that both sources could have taken",
        [panel.names[k] for k in kept],
        values,
    )


def weak_link_table(panel: OverlapPanel) -> PageTable | None:
    """List the weakest links by name."""
    links = weakest_links(panel)
    if not links:
        return None
    return list_rows(
        "The links with the fewest images",
        links,
        ("Source that could have taken them", lambda link: name_cell(panel.names[link[0]])),
        (words("Source that holds them"), lambda link: name_cell(panel.names[link[1]])),
        ("Images", lambda link: count_cell(link[2])),
        (
            "Chance of confusion",
            lambda link: share_cell(
                None if panel.matrix is None else panel.matrix[link[0]][link[1]]
            ),
        ),
        note="The solution depends on the first. Links without any image are not listed.",
    )


def weakest_links(panel: OverlapPanel, most: int = 12) -> list[tuple[int, int, float]]:
    """Return the links with the fewest images, the panel's weakest link first."""
    if panel.link_count is None:
        return []
    size = len(panel.names)
    links = [
        (k, other, float(count))
        for k in range(size)
        for other in range(size)
        if k != other and (count := panel.link_count[k][other]) is not None and count > 0
    ]
    named = (
        None
        if panel.weakest_link is None
        else tuple(panel.names.index(name) for name in panel.weakest_link if name in panel.names)
    )
    return sorted(links, key=lambda link: ((link[0], link[1]) != named, link[2]))[:most]


def strength_text(panel: OverlapPanel) -> str:
    """Describe the weakest link in one sentence; empty where there is none."""
    if panel.weakest_link is None:
        return ""
    first, second = (shorten(name, 60) for name in panel.weakest_link)
    count = show_number(panel.weakest_count)
    return f"{count} images of {second} could have been taken by {first}."


def sources_in_map(panel: OverlapPanel) -> list[int]:
    if len(panel.names) <= MOST_IN_MAP:
        return list(range(len(panel.names)))
    ranked: dict[int, None] = {}
    for k, other, _ in weakest_links(panel, most=MOST_IN_MAP):
        ranked.update({k: None, other: None})
    ranked.update(dict.fromkeys(range(MOST_IN_MAP)))
    return sorted(list(ranked)[:MOST_IN_MAP])


def matrix_table(
    caption: str, names: Sequence[str], values: Matrix, *, counts: bool = False
) -> PageTable:
    show = count_cell if counts else share_cell
    return table(
        caption,
        ("Source", *(shorten(name, 40) for name in names)),
        ([name_cell(name), *map(show, line)] for name, line in zip(names, values, strict=True)),
    )
