"""How good is a model on the target? Anybody's predictions, judged with the weights of a run:
`evaluate_predictions`, `evaluate_run`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.evaluation.bootstrap import FEW_EFFECTIVE, MetricValue
from unskew.evaluation.cells import Cell, CellJudge, JudgedImages
from unskew.evaluation.columns import Case, read_case
from unskew.evaluation.matching import (
    Coverage,
    Judged,
    align_predictions,
    check_weights,
    choose_images,
    cover,
    read_predictions,
)
from unskew.evaluation.subgroups import View, make_views, withhold_cells
from unskew.records import Ints
from unskew.records.target import TARGET_OF_NUMBERS, THE_TARGET
from unskew.target.levels import level_text

if TYPE_CHECKING:
    import pandas as pd

METRICS_FILE = "metrics.json"


@dataclass(frozen=True)
class Breakdown:
    """The cells of one column; ``withheld`` more are not shown where privacy asks for that.

    ``worst`` is the smallest accuracy among the cells of the (first) model, ``worst.where`` the
    name of that cell; cells that are hardly known (``few``) are passed over if there are two
    others. None for a regression, or with one cell only.
    """

    column: str
    cells: tuple[Cell, ...]
    withheld: int = 0
    worst: MetricValue | None = None


@dataclass(frozen=True)
class Evaluation:
    """A model judged on the target, or two.

    Attributes
    ----------
    task : "classification" or "regression".
    classes, positive : names of the classes; the one that sensitivity speaks of, of two.
    truth : "y" of the predictions or "label" of the weights.
    split : which images were judged.
    coverage : how many of them, and what did not match.
    overall : all judged images.
    breakdowns : by source, by label, by the columns asked for.
    level, replicates, seed : of the intervals.
    few_effective : figures that rest on fewer effective units are flagged.
    private : cells under ten are withheld.
    notes : what to know, in sentences.
    """

    task: str
    classes: tuple[str, ...]
    positive: str | None
    truth: str
    split: str
    coverage: Coverage
    overall: Cell
    breakdowns: tuple[Breakdown, ...]
    level: float
    replicates: int
    seed: int
    private: bool
    notes: tuple[str, ...]
    few_effective: float = FEW_EFFECTIVE
    origin: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON holds; what does not exist is None."""
        from unskew.runs.tables import json_value

        record: dict[str, Any] = json_value(asdict(self))
        return record

    def breakdown(self, column: str) -> Breakdown:
        """The cells of that column."""
        for each in self.breakdowns:
            if each.column == column:
                return each
        raise ConfigError(
            f"there is no breakdown by {column!r}; there are "
            f"{first_few([each.column for each in self.breakdowns], 12)}."
        )


def evaluate_predictions(
    weights_table: pd.DataFrame,
    predictions: pd.DataFrame | str | PathLike[str],
    *,
    second: pd.DataFrame | str | PathLike[str] | None = None,
    by: Sequence[str] = (),
    attributes: pd.DataFrame | None = None,
    bins: Mapping[str, Sequence[float]] | None = None,
    split: str | None = None,
    truth: str | None = None,
    regression: bool | None = None,
    positive: str | None = None,
    allow_missing: bool = False,
    allow_extra: bool = False,
    private: bool = False,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Judge predictions with the weights of a run: what the metrics would be on the target, overall
    and in subgroups, with intervals.

    A metric of weighted images is that metric with v_i = sample_weight_i in place of the count of
    image i: accuracy Σ v_i 1[right]/Σ v_i, and so on. Facts: with equal weights it is the plain
    metric; an image of weight 2 counts as two, one of weight 0 not at all; only ratios of weights
    matter, and no order of rows does.

    Intervals: ``replicates`` times, whole groups (images, without groups) are drawn within their
    sources with replacement, and counted with their weights. They tell how much depends on which
    images happen to be there; the weights are taken as they are.

    Parameters
    ----------
    weights_table : `unskew.weigh.weights_table.read_weights_table` of a run; id and sample_weight
        (or weight), and source, label, group, split.
    predictions : table or file: id; y (the truth, where the weights hold no label); prediction, and
        scores if there are any: score (of the positive class of two) or score_<class> of each
        class. A second model: prediction_b, score_b, score_b_<class>.
    second : the second model in a table or file of its own, with the columns of the first.
    by : columns of ``attributes``, of the weights or of the predictions: a breakdown by each;
        ``a*b``: by every combination of the two. Those by source and label always come.
    attributes : features.parquet of the run: id and one column for each attribute.
    bins : {column: edges} for numbers; otherwise numbers of many values are cut at their quartiles.
    split : the images to judge. Default: test; else all splits but train; else all images. "all":
        all of them.
    truth : "y" or "label", where both are there and differ.
    regression : are numbers to be predicted? Default: where truth and predictions are numbers, not
        all of them whole.
    positive : of two classes, the one that score and sensitivity speak of. Default: the last in the
        order of numbers or the alphabet.
    allow_missing : judge the images that have a prediction, and state the coverage; otherwise a
        missing one is an error.
    allow_extra : leave predictions of unknown images aside; otherwise they are an error.
    private : withhold cells of fewer than ten groups (images), and what would give them away.
    replicates, level, seed : of the intervals; 0 replicates: none.
    """
    _check_options(replicates, level, seed)
    table = check_weights(weights_table)
    judged = choose_images(table, split)
    tables = [read_predictions(each) for each in (predictions, second) if each is not None]
    said = (
        ["predictions"]
        if len(tables) == 1
        else ["predictions of the first model", "predictions of the second model"]
    )
    aligned = [
        align_predictions(table, judged, each, allow_extra=allow_extra, said=name)
        for each, name in zip(tables, said, strict=True)
    ]
    case = read_case(judged, table, aligned, truth, regression, positive)
    coverage = cover(table, judged, tables, case.usable, case.reasons, allow_missing)
    images = _judged_images(judged, case)
    frames = [
        judged.frame,
        *([] if attributes is None else [_attributes(attributes, judged)]),
        *aligned,
    ]
    views, notes = make_views(frames, case.origin, images.truth, by, bins or {}, case.usable)
    if private:
        images.check_private()
        views, coverage = withhold_cells(views, images.group), coverage.withheld()
    judge = CellJudge(images, images.plan_drawing(replicates, seed, level), private)
    everything = View("all", ("all",), np.zeros(images.weight.size, dtype=np.int64))
    overall, *parts = judge.judge([everything, *views])
    breakdowns = tuple(
        Breakdown(view.name, cells, view.withheld, worst)
        for view, (cells, worst) in zip(views, parts, strict=True)
    )
    shown = case.truth.classes
    if private:
        # A rare class may tell who has it, and is not named.
        shown = tuple(
            cell.name for part in breakdowns if part.column == case.origin for cell in part.cells
        )
    return Evaluation(
        task="regression" if case.truth.code is None else "classification",
        classes=shown,
        positive=None if case.truth.positive is None else case.truth.classes[case.truth.positive],
        truth=case.origin,
        split=judged.split,
        coverage=coverage,
        overall=overall[0][0],
        breakdowns=breakdowns,
        level=level,
        replicates=replicates,
        seed=seed,
        private=private,
        notes=tuple(
            [
                *([judged.note] if judged.note else []),
                *case.notes,
                *coverage.notes(),
                *notes,
                *judge.notes(),
            ]
        ),
    )


def _judged_images(judged: Judged, case: Case) -> JudgedImages:
    """The images of the split that have a truth and predictions."""
    rows = np.flatnonzero(case.usable)
    group_n = _group_codes(judged.frame["group"]) if "group" in judged.frame.columns else None
    return JudgedImages(
        judged.frame["source"].to_numpy(dtype=object)[rows],
        # Only ratios matter; squares of huge weights would not be numbers any more.
        judged.weight[rows] / judged.weight.max(),
        None if group_n is None else group_n[rows],
        case.truth.take(rows),
        [each.take(rows) for each in case.answers],
    )


def _check_options(replicates: int, level: float, seed: int) -> None:
    if replicates < 0:
        raise ConfigError(
            f"the number of replicates is 0 (no intervals) or more; got {replicates}."
        )
    if not 0.0 < level < 1.0:
        raise ConfigError(
            "level is the coverage of the intervals, strictly between 0 and 1 (for instance "
            f"0.95); got {level!r}."
        )
    if seed < 0:
        raise ConfigError(f"a seed is 0 or more; got {seed}.")


def _attributes(attributes: pd.DataFrame, judged: Judged) -> pd.DataFrame:
    keyed = attributes.set_axis(attributes["id"].map(level_text).to_numpy(dtype=object), axis=0)
    return keyed[~keyed.index.duplicated()].reindex(judged.key)


def _group_codes(column: pd.Series[Any]) -> Ints | None:
    """(n,) group of every image, numbered in the order of the ids; an image without a group is one
    by itself. None without groups.
    """
    import pandas as pd

    if column.isna().all():
        return None
    code_n = np.asarray(pd.factorize(column.map(level_text))[0], dtype=np.int64)
    alone = np.flatnonzero(column.isna().to_numpy())
    code_n[alone] = int(code_n.max()) + 1 + np.arange(alone.size)
    return code_n


def evaluate_run(
    folder: str | PathLike[str],
    predictions: str | PathLike[str],
    *,
    second: str | PathLike[str] | None = None,
    **settings: Any,
) -> Evaluation:
    """`evaluate_predictions` with the weights, attributes, bins and privacy of an output folder of
    `unskew weigh`.
    """
    from unskew.files.fingerprints import find_versions, fingerprint_file
    from unskew.weigh.weights_table import read_weights_table

    out = Path(folder)
    table = read_weights_table(out / "weights.parquet")
    private, bins = run_rules(out)
    attributes = _read_attributes(out / "features.parquet", settings.get("by", ()), table)
    options: dict[str, Any] = {
        "private": private,
        "bins": bins,
        "attributes": attributes,
    } | settings
    evaluation = evaluate_predictions(table, predictions, second=second, **options)
    files = {"weights": out / "weights.parquet", "predictions": predictions} | (
        {} if second is None else {"second": second}
    )
    origin = {
        "fingerprints": {name: fingerprint_file(Path(path)) for name, path in files.items()},
        "versions": find_versions(),
    }
    return replace(
        evaluation, notes=(*_part_notes(out, evaluation.split), *evaluation.notes), origin=origin
    )


def _part_notes(out: Path, judged: str) -> list[str]:
    """What the report says of weights, and of judged splits, that speak of a part of the target
    only.
    """
    from unskew.debiasing.train_fit import LACKING

    report, names = _read_report(out), judged.split(" + ")
    verdict, rows = (
        report.get("verdict", {}),
        [row for row in report.get("splits", []) if isinstance(row, dict)],
    )
    population = verdict.get("population", THE_TARGET) if isinstance(verdict, dict) else THE_TARGET
    parts = [
        f"{row['name']}: {row['note']}"
        for row in rows
        if row.get("name") in names and LACKING in str(row.get("note"))
    ]
    return population_sentences(str(population)) + parts


def population_sentences(population: str) -> list[str]:
    """A sentence on figures whose weights speak of another population than the target."""
    is_target = population in (THE_TARGET, TARGET_OF_NUMBERS)
    return [] if is_target else [f"The weights, and so these figures, speak of {population}."]


def _read_attributes(features: Path, by: Sequence[str], table: pd.DataFrame) -> pd.DataFrame | None:
    """The columns of features.parquet that are asked for (embeddings are large); all of them, where
    one is not found.
    """
    import pandas as pd
    import pyarrow.parquet as pq

    if not by or not features.is_file():
        return None
    there = set(pq.read_schema(features).names)
    columns = [part for name in by for part in ([name] if name in there else name.split("*"))]
    wanted = [name for name in dict.fromkeys(columns) if name in there and name != "id"]
    known = all(name in there or name in table.columns for name in columns)
    return pd.read_parquet(features, columns=["id", *wanted] if known else None)


def run_rules(out: Path) -> tuple[bool, dict[str, list[float]]]:
    """What the run says of privacy, and the bins of its target; the stricter of its settings and
    its report holds.
    """
    import tomllib

    private, bins = False, dict[str, list[float]]()
    if (out / "run.toml").is_file():
        try:
            settings = tomllib.loads((out / "run.toml").read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(
                f"{out / 'run.toml'} cannot be read ({error}); was it changed after the run?"
            ) from error
        private = settings.get("report", {}).get("privacy") == "aggregate"
        bins = dict(settings.get("target", {}).get("bins", {}))
    return private or _read_report(out).get("privacy") == "aggregate", bins


def _read_report(out: Path) -> dict[str, Any]:
    """report.json; empty where there is none."""
    path = out / "report.json"
    if not path.is_file():
        return {}
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read ({error}); was it changed after the run?"
        ) from error
    return report if isinstance(report, dict) else {}


def write_metrics(
    evaluation: Evaluation, folder: str | PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write metrics.json into the folder, whole or not at all; the file."""
    from unskew.files.atomic import write_text

    place = Path(folder) / METRICS_FILE
    check_place(folder, overwrite)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(
        place,
        json.dumps(evaluation.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    )
    return place


def check_place(folder: str | PathLike[str], overwrite: bool) -> None:
    """May metrics.json be written there? Asked before the work."""
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise ConfigError(
            f"{str(place)!r} is a file; {METRICS_FILE} is written into a folder. Give another one "
            "with -o."
        )
    if (place / METRICS_FILE).exists() and not overwrite:
        raise ConfigError(
            f"{str(place / METRICS_FILE)!r} is there already. Add --overwrite to replace it, or "
            "name another folder by -o."
        )
