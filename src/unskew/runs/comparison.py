"""Two runs side by side: `compare_runs`, and the page of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import DataError
from unskew.files.checksums import check_files
from unskew.files.reading import read_text
from unskew.report.page.compare_page import WeightAgreement, render_comparison
from unskew.report.summary.plain import summary_from_json
from unskew.report.summary.record import Summary
from unskew.runs.output import SUMMARY
from unskew.weigh.weights_table import read_weights_table

_WEIGHTS = "weights.parquet"


@dataclass(frozen=True)
class RunComparison:
    """Two runs.

    Attributes
    ----------
    names : the folders, as they were named.
    summaries : what the page of each shows.
    settings : (key, setting of the first, setting of the second) where these differ; None where a
        run lacks the key.
    weights : how far the weights agree; None where a run has none.
    """

    names: tuple[str, str]
    summaries: tuple[Summary, Summary]
    settings: tuple[tuple[str, str | None, str | None], ...]
    weights: WeightAgreement | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts for JSON."""
        runs: list[dict[str, Any]] = [
            {
                "folder": name,
                "level": one.verdict.level,
                "headline": one.verdict.headline,
                "figures": dict(one.verdict.figures),
                "recommendation": None if one.forecast is None else one.forecast.recommendation,
            }
            for name, one in zip(self.names, self.summaries, strict=True)
        ]
        changed = [{"key": key, "values": [a, b]} for key, a, b in self.settings]
        weights = None if self.weights is None else vars(self.weights)
        return {"runs": runs, "settings": changed, "weights": weights}

    def page(self) -> str:
        """Return the page: one HTML document that requests nothing."""
        return render_comparison(self.names, self.summaries, self.settings, self.weights)


def compare_runs(
    first: str | PathLike[str], second: str | PathLike[str], *, force: bool = False
) -> RunComparison:
    """Read two folders of results; weights are joined by id.

    ``force``: also files that are not those that one run wrote.
    """
    folders = [Path(first), Path(second)]
    summaries = [_read_summary(folder, force) for folder in folders]
    settings = [dict(_flat(one.provenance.get("settings") or {})) for one in summaries]
    changed = [
        (key, settings[0].get(key), settings[1].get(key))
        for key in sorted({*settings[0], *settings[1]})
        if settings[0].get(key) != settings[1].get(key)
    ]
    return RunComparison(
        (str(first), str(second)),
        (summaries[0], summaries[1]),
        tuple(changed),
        _agreement(*folders),
    )


def _read_summary(folder: Path, force: bool) -> Summary:
    path = folder / SUMMARY
    if not path.is_file():
        raise DataError(
            f"{str(folder)!r} holds no {SUMMARY}: name a folder that `unskew weigh` wrote.",
            path=str(folder),
        )
    check_files(folder, [SUMMARY, _WEIGHTS], force=force)
    return summary_from_json(read_text(path))


def _flat(settings: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """List settings as (dotted key, text)."""
    if isinstance(settings, Mapping) and settings:
        for name, value in settings.items():
            yield from _flat(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, str(settings)


def _agreement(first: Path, second: Path) -> WeightAgreement | None:
    """Compare the weights of images that both runs weighed, each scaled to sum 1 over these."""
    from scipy.stats import spearmanr

    files = [folder / _WEIGHTS for folder in (first, second)]
    if not all(file.is_file() for file in files):
        return None
    a, b = (read_weights_table(file).set_index("id")["weight"] for file in files)
    both = a.index.intersection(b.index)
    a_m, b_m = (np.asarray(one.loc[both], dtype=np.float64) for one in (a, b))
    apart = rank = None
    if both.size and a_m.sum() > 0 and b_m.sum() > 0:
        apart = float(0.5 * np.abs(a_m / a_m.sum() - b_m / b_m.sum()).sum())
        if both.size > 2 and np.ptp(a_m) > 0 and np.ptp(b_m) > 0:
            rank = float(spearmanr(a_m, b_m).statistic)
    return WeightAgreement(int(both.size), a.size - both.size, b.size - both.size, apart, rank)
