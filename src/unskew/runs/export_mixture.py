"""Weights for tools that take one number per stream: images in cells, and the share of each."""

from __future__ import annotations

import csv
import heapq
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError
from unskew.files.atomic import folder_written_whole
from unskew.files.plain_json import write_json
from unskew.records import Floats, Ints
from unskew.records.levels import level_text
from unskew.report.summary.mixture_panel import even_weights, share_error
from unskew.runs.export_tables import CsvCells, Export, plain_rows, split_rows
from unskew.weigh.weights_table import is_list

if TYPE_CHECKING:
    import pandas as pd

# Weights within a cell differ by at most this, relatively.
SPREAD = 0.05


def cut_cells(
    weight_n: Floats, source_n: Ints, *, spread: float = SPREAD, most: int | None = None
) -> Ints:
    """(n,) the cell of every image: of one source, with nearly the same weight.

    Facts: the largest weight of a cell is at most 1 + ``spread`` times its smallest, in the fewest
    cells for which that holds; images of weight 0 are in none (−1). With ``most``, neighbours
    within a source are merged, those first that add least to the total variation that cells leave,
    until so many cells are left.
    """
    n_sources = np.unique(source_n[weight_n > 0]).size
    if most is not None and (isinstance(most, bool) or most < n_sources):
        raise ConfigError(
            f"an image belongs to a cell of its own source, so there are at least {n_sources} "
            f"cells, one for each source; got {most}.",
            option="--cells",
            value=most,
            limit=int(n_sources),
        )
    order = np.lexsort((weight_n, source_n))
    order = order[weight_n[order] > 0]
    sorted_m, source_m = weight_n[order], source_n[order]
    starts = _starts(sorted_m, source_m, spread)
    if most is not None:
        starts = _merge(sorted_m, source_m, starts, most)
    cell_n = np.full(weight_n.size, -1, dtype=np.int64)
    cell_n[order] = np.searchsorted(starts, np.arange(order.size), side="right") - 1
    return cell_n


def _starts(sorted_m: Floats, source_m: Ints, spread: float) -> Ints:
    """Return where cells begin, in images sorted by source and weight."""
    starts: list[int] = []
    ends = np.append(np.flatnonzero(np.diff(source_m)) + 1, source_m.size)
    at = 0
    for end in ends.tolist():
        while at < end:
            starts.append(at)
            # Rounding of the weights must not open a cell.
            limit = sorted_m[at] * (1 + spread) * (1 + 1e-12)
            at += int(np.searchsorted(sorted_m[at:end], limit, side="right"))
    return np.array(starts, dtype=np.int64)


def _merge(sorted_m: Floats, source_m: Ints, starts: Ints, most: int) -> Ints:
    """Merge neighbours of one source, the cheapest first, until ``most`` cells are left."""
    sums = np.append(0.0, np.cumsum(sorted_m))

    def cost(first: int, end: int) -> float:
        """Σ_i |w_i − mean| of the images first … end − 1."""
        mean = (sums[end] - sums[first]) / (end - first)
        below = first + int(np.searchsorted(sorted_m[first:end], mean))
        return float(2 * (mean * (below - first) - (sums[below] - sums[first])))

    bounds = [*starts.tolist(), source_m.size]
    after = dict(itertools.pairwise(bounds))
    before = {end: first for first, end in after.items()}

    def offer(first: int) -> None:
        second = after[first]
        if second < source_m.size and source_m[second] == source_m[first]:
            end = after[second]
            added = cost(first, end) - cost(first, second) - cost(second, end)
            heapq.heappush(heap, (added, first, second, end))

    heap: list[tuple[float, int, int, int]] = []
    for first in bounds[:-1]:
        offer(first)
    while len(after) > most and heap:
        _, first, second, end = heapq.heappop(heap)
        if after.get(first) != second or after.get(second) != end:
            continue  # one of the two has been merged since
        del after[second]
        after[first] = end
        before[end] = first
        offer(first)
        if first in before:
            offer(before[first])
    return np.array(sorted(after), dtype=np.int64)


def write_mixture(
    table: pd.DataFrame,
    path: Path,
    guard: bool,
    *,
    cells: int | None = None,
    bias_left: dict[str, Any] | None = None,
) -> Export:
    """Write ``mixture.json`` and a list of the images of each cell, in a folder for each split.

    ``bias_left``: what the page of the run says one number per source misses, by what it is known
    for.
    """
    splits = split_rows(table)
    parts = {split: _cut(rows, cells) for split, rows in splits.items()}
    record: dict[str, Any] = {}
    text = CsvCells(guard)
    with folder_written_whole(path) as folder:
        for number, (split, rows) in enumerate(splits.items()):
            # Names of splits may be anything; those of folders are numbers where there are several.
            home = f"split-{number + 1}" if len(splits) > 1 else "cells"
            (folder / home).mkdir()
            record[split] = _record(rows, parts[split], home)
            if bias_left and number == 0:
                record[split]["one_number_per_source"]["bias_left"] |= bias_left
            for cell, listed in enumerate(record[split]["cells"]):
                own = rows.iloc[np.flatnonzero(parts[split] == cell)]
                with (folder / listed["list"]).open("w", encoding="utf-8", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerow(("path", "id"))
                    writer.writerows(
                        (text(row["path"]), text(row["id"])) for row in plain_rows(own)
                    )
        write_json(folder / "mixture.json", record)
    return Export(path, len(table), (*_notes(record), *text.notes()))


def _cut(rows: pd.DataFrame, cells: int | None) -> Ints:
    return cut_cells(rows["weight"].to_numpy(np.float64), _codes(rows["source"])[0], most=cells)


def _codes(column: pd.Series[Any]) -> tuple[Ints, list[str]]:
    import pandas as pd

    code_n, levels = pd.factorize(column.map(level_text), sort=True)
    return np.asarray(code_n, dtype=np.int64), [str(level) for level in levels]


def _record(rows: pd.DataFrame, cell_n: Ints, home: str) -> dict[str, Any]:
    """Return the cells of one split, and their shares in the spelling of each tool."""
    weight_n = rows["weight"].to_numpy(np.float64)
    weight_n = weight_n / weight_n.sum()
    source_n, names = _codes(rows["source"])
    n_cells = int(cell_n.max()) + 1
    used_n = cell_n >= 0
    size_c = np.bincount(cell_n[used_n], minlength=n_cells)
    sum_c = np.bincount(cell_n[used_n], weights=weight_n[used_n], minlength=n_cells)
    share_c: Floats = np.asarray(sum_c / sum_c.sum(), dtype=np.float64)
    low_c, high_c = np.full(n_cells, np.inf), np.zeros(n_cells)
    np.minimum.at(low_c, cell_n[used_n], weight_n[used_n])
    np.maximum.at(high_c, cell_n[used_n], weight_n[used_n])
    source_c = np.zeros(n_cells, dtype=np.int64)
    source_c[cell_n[used_n]] = source_n[used_n]
    names_c = [f"{cell + 1:04d}" for cell in range(n_cells)]
    cells = [
        {
            "name": names_c[cell],
            "source": names[source_c[cell]],
            "list": f"{home}/{names_c[cell]}.csv",
            "images": int(size_c[cell]),
            "share": float(share_c[cell]),
            "sample_weight": [
                float(low_c[cell] * weight_n.size),
                float(high_c[cell] * weight_n.size),
            ],
        }
        for cell in range(n_cells)
    ]
    return {
        "images": len(rows),
        "never_drawn": int(np.count_nonzero(~used_n)),
        "largest_spread": float((high_c / low_c).max() - 1),
        "bias_left": share_error(weight_n, even_weights(weight_n, cell_n)),
        "cells": cells,
        "tools": _spellings(names_c, share_c, size_c),
        "one_number_per_source": _by_source(rows, weight_n, source_n, names),
    }


def _spellings(names: list[str], share_c: Floats, size_c: Ints) -> dict[str, Any]:
    """Return the shares of the cells, in their order, as the arguments of other tools."""
    shares = [float(share) for share in share_c]
    by_name = dict(zip(names, shares, strict=True))
    factor_c = share_c / size_c
    factor_c = factor_c / factor_c.min()
    times_c = np.rint(factor_c)
    repeated_c = times_c * size_c / (times_c * size_c).sum()
    return {
        "mosaicml_streaming": {"Stream": [{"proportion": share} for share in shares]},
        "webdataset": {"RandomMix": {"probs": shares}},
        "datasets": {"interleave_datasets": {"probabilities": shares}},
        "torchdata": {"MultiNodeWeightedSampler": {"weights": by_name}},
        # With its default, litData ignores shares and refuses them.
        "litdata": {"CombinedStreamingDataset": {"weights": shares, "iterate_over_all": False}},
        "repeat": {
            "factor": [float(factor) for factor in factor_c],
            "times": [int(times) for times in times_c],
            "bias_left": float(np.abs(repeated_c - share_c).sum() / 2),
        },
    }


def _by_source(
    rows: pd.DataFrame, weight_n: Floats, source_n: Ints, names: list[str]
) -> dict[str, Any]:
    """Return the shares of whole sources, and how far they miss the weights' own distributions."""
    even_n = even_weights(weight_n, source_n)
    bias = {"any group of images": share_error(weight_n, even_n)}
    if not rows["label"].isna().all() and not any(map(is_list, rows["label"])):
        label_n = np.where(rows["label"].isna(), -1, _codes(rows["label"])[0])
        bias = {"the distribution of label": share_error(weight_n, even_n, label_n), **bias}
    share_k = np.bincount(source_n, weights=weight_n, minlength=len(names))
    return {
        "sources": names,
        "today": (np.bincount(source_n, minlength=len(names)) / len(rows)).tolist(),
        "shares": share_k.tolist(),
        "bias_left": bias,
    }


def _notes(record: dict[str, Any]) -> tuple[str, ...]:
    notes = []
    for split, part in record.items():
        where = f"{split}: " if len(record) > 1 else ""
        worst = max(
            (bias, what)
            for what, bias in part["one_number_per_source"]["bias_left"].items()
            if what != "any group of images" or len(part["one_number_per_source"]["bias_left"]) == 1
        )
        notes.append(
            f"{where}{len(part['cells'])} cells; drawn by their shares, no group of images is off "
            f"by more than {100 * part['bias_left']:.2g} points. With one number per source, "
            f"{worst[1]} would be off by {100 * worst[0]:.2g} points."
        )
        if part["never_drawn"]:
            notes.append(f"{where}{part['never_drawn']} images of weight 0 are in no cell.")
    return tuple(notes)
