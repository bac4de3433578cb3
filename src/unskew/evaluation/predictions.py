"""How good is a model on the target? Predictions judged with weights: `evaluate_predictions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unskew.engine.arguments import Bins, OpenShare, ReplicatesOrZero, checked
from unskew.errors import ConfigError, DataError, first_few
from unskew.evaluation.cells import Cell, CellJudge, JudgedImages
from unskew.evaluation.columns import Case, read_case
from unskew.evaluation.label_breakdown import judge_labels, withhold_labels
from unskew.evaluation.label_columns import has_label_sets, read_label_case, with_label_gaps
from unskew.evaluation.matching import (
    Coverage,
    Judged,
    align_predictions,
    check_weights,
    choose_images,
    cover,
    read_predictions,
)
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.metrics import FEW_EFFECTIVE
from unskew.evaluation.source_agreement import compare_metrics, take_memberships
from unskew.evaluation.subgroups import View, make_views, withhold_cells
from unskew.evaluation.target_images import augment_figures
from unskew.files.plain_json import json_value
from unskew.records import Estimate, Ints, RobustEstimate
from unskew.records.arrays import Randomness, seed_of
from unskew.records.levels import level_text
from unskew.records.target import TARGET_OF_NUMBERS, THE_TARGET
from unskew.splits.folds import unit_codes

if TYPE_CHECKING:
    import pandas as pd

# A table of predictions, or its file.
Predictions: TypeAlias = "pd.DataFrame | str | PathLike[str]"
# The metrics that `repr` of an evaluation shows, where they exist.
_SHOWN_FIRST = (
    *("accuracy", "balanced_accuracy", "auroc", "mae", "rmse", "r2"),
    *("subset_accuracy", "macro_auroc", "macro_average_precision", "worst_label"),
)


@dataclass(frozen=True)
class Breakdown:
    """The cells of one column; ``withheld`` more are not shown, to protect privacy.

    ``worst`` is the smallest accuracy of the (first) model among the cells, ``worst.where`` the
    name of that cell; cells that rest on few images (``few``) are skipped if there are two others.
    None for a regression, or with one cell only. By label it is the smallest AUROC.
    """

    column: str
    cells: tuple[Cell, ...]
    withheld: int = 0
    worst: MetricValue | None = None


@dataclass(frozen=True)
class Evaluation:
    """One or two models judged on the target.

    Attributes
    ----------
    task : "classification", "regression" or "multi-label".
    classes, positive : names of the classes (labels); of two classes, the one whose recall is the
        sensitivity.
    truth : "y" of the predictions or "label" of the weights.
    split : which images were judged.
    coverage : how many of them, and what did not match.
    overall : all judged images.
    breakdowns : by source, by label, by the columns asked for.
    level, replicates, seed : of the intervals.
    few_effective : figures that rest on fewer effective units are flagged.
    private : cells under ten are withheld.
    notes : sentences that a reader of the figures should know.
    origin : fingerprints of the files and versions of the software, where there are files.
    compared : accuracy and log-loss, or the mean absolute error, of the (first) model with the
        comparison of the sources (`Estimate.agreement`); ``interval`` is the one that heads. Empty
        without memberships, or without intervals.
    models : the names of the models, the first one first.
    trainings : how many trainings of each model were judged; figures are means over them, and their
        intervals count training noise.
    augmented : accuracy and log-loss of the (first) model with its answers on unlabelled images of
        the target; ``weighted`` is the figure without them. Empty without such images.
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
    augmented: Mapping[str, RobustEstimate] = field(default_factory=dict)
    compared: Mapping[str, Estimate] = field(default_factory=dict)
    models: tuple[str, ...] = ("first",)
    trainings: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold; what does not exist is None."""
        record: dict[str, Any] = json_value(asdict(self))
        for name, estimate in self.compared.items():
            assert estimate.agreement is not None
            record["compared"][name]["agreement"] |= {
                "message": estimate.agreement.message,
                "odd_source": estimate.agreement.odd_source,
            }
        return record

    @checked
    def breakdown(self, column: str) -> Breakdown:
        """Find the cells of a column."""
        by_column = {part.column: part for part in self.breakdowns}
        if column not in by_column:
            raise ConfigError(
                f"there is no breakdown by {column!r}; there are {first_few(list(by_column), 12)}.",
                column=column,
                allowed=list(by_column),
            )
        return by_column[column]

    def __repr__(self) -> str:
        coverage = self.coverage
        among = "" if coverage.images is None else f" of {coverage.images:,}"
        lines = [f"Evaluation: {self.task}, {coverage.judged:,}{among} images ({self.split})"]
        second = f"{self.models[-1]}: "
        models = [("", self.overall.figures), (second, self.overall.second or {})]
        lines += [
            f"  {name}" + ", ".join(_figure_text(key, figures[key]) for key in shown)
            for name, figures in models
            if (shown := [key for key in _SHOWN_FIRST if key in figures])
        ]
        lines += [
            f"  with images of the target: {name.replace('_', ' ')} {figure}"
            for name, figure in self.augmented.items()
            if name == "accuracy"
        ]
        columns = [f"{part.column} ({len(part.cells)})" for part in self.breakdowns]
        lines += [f"  breakdowns: {first_few(columns, 8)}"] if columns else []
        return "\n".join(lines)


def _figure_text(name: str, figure: MetricValue) -> str:
    """``accuracy 0.812 [0.774, 0.848] (unweighted 0.903)``."""
    value = "unknown" if figure.value is None else f"{figure.value:.3g}"
    interval = "" if figure.interval is None else " [{:.3g}, {:.3g}]".format(*figure.interval)
    unweighted = "" if figure.unweighted is None else f" (unweighted {figure.unweighted:.3g})"
    return f"{name.replace('_', ' ')} {value}{interval}{unweighted}"


@checked
def evaluate_predictions(
    weights_table: pd.DataFrame,
    predictions: Predictions | Sequence[Predictions],
    *,
    second: Predictions | Sequence[Predictions] | None = None,
    names: Sequence[str] | None = None,
    target_predictions: pd.DataFrame | str | PathLike[str] | None = None,
    by: Sequence[str] = (),
    attributes: pd.DataFrame | None = None,
    bins: Bins | None = None,
    memberships: pd.DataFrame | None = None,
    split: str | None = None,
    truth: str | None = None,
    regression: bool | None = None,
    positive: str | None = None,
    allow_missing: bool = False,
    allow_extra: bool = False,
    private: bool = False,
    replicates: ReplicatesOrZero = 1000,
    level: OpenShare = 0.95,
    rng: Randomness = 0,
) -> Evaluation:
    """Estimate a model's metrics on the target from predictions and weights, with intervals.

    A metric of weighted images is that metric with v_i = sample_weight_i in place of the count of
    image i: accuracy Σ v_i 1[right]/Σ v_i, and so on. Facts: with equal weights it is the plain
    metric; an image of weight 2 counts as two, one of weight 0 not at all; only ratios of weights
    matter; the order of rows does not.

    Intervals: ``replicates`` times, whole groups (images, without groups) are drawn within their
    sources with replacement, and counted with their weights; copies of one image (the same
    ``content``) are drawn together. They show how much the figures depend
    on which images were sampled; the weights are taken as fixed.

    Parameters
    ----------
    weights_table : `unskew.weigh.weights_table.read_weights_table` of a run; id and sample_weight
        (or weight), and source, label, group, split.
    predictions : table or file: id; y (the truth, where the weights have no label); prediction, and
        scores if there are any: score (of the positive class of two) or score_<class> of each
        class. A second model: prediction_b, score_b, score_b_<class>. Where images have any number
        of labels: score_<label>, the probability of each, and y_<label> of 0 and 1 where the
        weights have no lists of labels; a second model has its own table. A list of such tables are
        trainings of one model with several seeds: the figures are means over them, and intervals
        count training noise (`unskew.evaluation.training_noise` has the equation).
    second : the second model in a table or file of its own, with the columns of the first; of
        several trainings, as many, and those of the same number are compared.
    names : what to call the model, or both; default: first and second.
    target_predictions : the (first) model's probabilities on unlabelled images of the target, drawn
        independently of the sources: id, score or score_<class>, prediction if there is one, group.
        They make accuracy and log-loss more precise, and right even if the weights are not, where
        the model knows how sure it may be (``Evaluation.augmented``).
    by : columns of ``attributes``, of the weights or of the predictions: a breakdown by each;
        ``a*b``: by every combination of the two. Those by source and label are always included.
    attributes : features.parquet of the run: id and one column for each attribute; ``content``
        tells copies.
    bins : {column: edges} for numbers; otherwise numbers of many values are cut at their quartiles.
    memberships : memberships.parquet of the run (`SplitWeights.memberships`): id and
        membership_<source>. With them the sources are compared after adjustment
        (``Evaluation.compared``).
    split : the images to judge. Default: test; else all splits but train; else all images.
        "all": all of them.
    truth : "y" or "label", where both exist and differ.
    regression : are numbers to be predicted? Default: where truth and predictions are numbers, not
        all of them whole.
    positive : of two classes, the one that score and sensitivity refer to. Default: the last in the
        order of numbers or the alphabet.
    allow_missing : judge the images that have a prediction, and state the coverage; otherwise a
        missing one is an error.
    allow_extra : ignore predictions of unknown images; otherwise they are an error.
    private : withhold cells of fewer than ten groups (images), and what would give them away.
    replicates, level, rng : of the intervals; 0 replicates: none.
    """
    seed = seed_of(rng)
    table = check_weights(weights_table)
    judged = choose_images(table, split)
    by_model = [_trainings(model) for model in (predictions, second) if model is not None]
    trainings = _count_trainings(by_model, target_predictions is not None)
    tables = [read_predictions(one) for model in by_model for one in model]
    titles = _titles(len(by_model), trainings, names)
    aligned = [
        align_predictions(table, judged, one, allow_extra=allow_extra, name=title)
        for one, title in zip(tables, titles, strict=True)
    ]
    own = None if attributes is None else attributes_of(judged, attributes)
    judged = judged if own is None else with_label_gaps(judged, own)
    has_sets = has_label_sets(judged, aligned, truth)
    if has_sets and target_predictions is not None:
        raise ConfigError(
            "target_predictions are for models that predict one class; these images have any "
            "number of labels. Leave them out, or judge one label at a time.",
            option="target_predictions",
        )
    read = read_label_case if has_sets else read_case
    case = read(judged, table, aligned, titles, trainings, truth, regression, positive)
    coverage = cover(table, judged, tables, case.usable, case.reasons, allow_missing)
    columns = [judged.frame, *aligned]
    if own is not None:
        columns.insert(1, own)
    images = _judged_images(judged, case, columns)
    views, notes = make_views(columns, case.origin, images.truth, by, bins or {}, case.usable)
    withheld = 0
    if private:
        images.check_private()
        images, withheld = withhold_labels(images) if has_sets else (images, 0)
        views, coverage = withhold_cells(views, images.group), coverage.withheld()
    judge = CellJudge(images, images.plan_drawing(replicates, seed, level), private)
    overall, breakdowns = _judge_views(judge, views)
    if has_sets:
        worst = overall.figures.get("worst_label")
        labels = Breakdown(case.origin, judge_labels(judge, case.origin, worst), withheld, worst)
        at = sum(part.column == "source" for part in breakdowns)
        breakdowns = (*breakdowns[:at], labels, *breakdowns[at:])
    compared: Mapping[str, Estimate] = {}
    if memberships is not None:
        rows = take_memberships(memberships, judged.key[case.usable])
        compared = compare_metrics(images, rows, overall.figures, level, private)
    augmented: Mapping[str, RobustEstimate] = {}
    if target_predictions is not None:
        augmented = augment_figures(table, images, target_predictions, level)
    return Evaluation(
        task=_task(case),
        classes=_shown_classes(case, breakdowns) if private else case.truth.classes,
        positive=case.truth.positive_class,
        truth=case.origin,
        split=judged.split,
        coverage=coverage,
        overall=overall,
        breakdowns=breakdowns,
        level=level,
        replicates=replicates,
        seed=seed,
        private=private,
        notes=(
            *judged.notes,
            *([] if private and has_sets else case.notes),
            *coverage.notes(),
            *notes,
            *judge.notes(),
        ),
        augmented=augmented,
        compared=compared,
        models=tuple(names or ("first", "second"))[: len(case.answers)],
        trainings=trainings,
    )


def _task(case: Case) -> str:
    if case.truth.present is not None:
        return "multi-label"
    return "regression" if case.truth.code is None else "classification"


def _trainings(predictions: Predictions | Sequence[Predictions]) -> list[Predictions]:
    if isinstance(predictions, Sequence) and not isinstance(predictions, str):
        return list(predictions)
    return [predictions]


def _count_trainings(by_model: Sequence[Sequence[Predictions]], augmented: bool) -> int:
    """Count the trainings of each model, which must be equally many."""
    counts = [len(model) for model in by_model]
    if min(counts) == 0 or len(set(counts)) > 1:
        raise ConfigError(
            "two models are compared training by training, so each has one table of predictions "
            f"or more, and both equally many; got {' and '.join(map(str, counts))}.",
            option="second",
            value=counts,
        )
    if augmented and counts[0] > 1:
        raise ConfigError(
            "target_predictions are those of one model; several trainings were given.",
            option="target_predictions",
        )
    return counts[0]


def _titles(n_models: int, trainings: int, names: Sequence[str] | None) -> list[str]:
    """Name the tables of all trainings for messages."""
    if n_models == trainings == 1:
        return ["predictions"]
    models = names or ("the first model", "the second model")
    seeds = [
        f", training {s + 1} of {trainings}" if trainings > 1 else "" for s in range(trainings)
    ]
    return [f"predictions of {model}{seed}" for model in models[:n_models] for seed in seeds]


def _judge_views(judge: CellJudge, views: Sequence[View]) -> tuple[Cell, tuple[Breakdown, ...]]:
    """Judge all on the same draws: (the cell of all images, the cells of every view)."""
    everything = View("all", ("all",), np.zeros(judge.images.weight.size, dtype=np.int64))
    (all_cells, _), *parts = judge.judge([everything, *views])
    breakdowns = tuple(
        Breakdown(view.name, cells, view.withheld, worst)
        for view, (cells, worst) in zip(views, parts, strict=True)
    )
    return all_cells[0], breakdowns


def _shown_classes(case: Case, breakdowns: Sequence[Breakdown]) -> tuple[str, ...]:
    """List the classes that may be named: a rare class may identify who has it."""
    return tuple(
        cell.name for part in breakdowns if part.column == case.origin for cell in part.cells
    )


def _judged_images(judged: Judged, case: Case, tables: Sequence[pd.DataFrame]) -> JudgedImages:
    """Take the images of the split that have a truth and predictions.

    ``tables`` have the columns of the images; the first with a ``content`` tells copies.
    """
    import pandas as pd

    rows = np.flatnonzero(case.usable)
    group_n = _group_codes(judged.frame["group"]) if "group" in judged.frame.columns else None
    linked = {} if group_n is None else {"group": group_n}
    content = [table["content"].to_numpy() for table in tables if "content" in table.columns][:1]
    if content:
        linked["content"] = content[0]
    unit_n = unit_codes(pd.DataFrame(linked)) if linked else None
    return JudgedImages(
        judged.frame["source"].to_numpy(dtype=object)[rows],
        # Only ratios matter; squares of huge weights would not be numbers any more.
        judged.weight[rows] / judged.weight.max(),
        None if group_n is None else group_n[rows],
        None if unit_n is None else unit_n[rows],
        case.truth.take(rows),
        [tuple(one.take(rows) for one in model) for model in case.answers],
    )


def attributes_of(judged: Judged, attributes: pd.DataFrame) -> pd.DataFrame:
    """Bring a table of attributes into the order of the judged images."""
    if "id" not in attributes.columns:
        raise DataError("attributes has no column 'id', by which it is joined.", column="id")
    keyed = attributes.set_axis(attributes["id"].map(level_text).to_numpy(dtype=object), axis=0)
    return keyed[~keyed.index.duplicated()].reindex(judged.key)


def _group_codes(column: pd.Series[Any]) -> Ints | None:
    """Give every group a code, (n,), in the order of the ids; None if there are no groups.

    An image without a group is a group of its own.
    """
    import pandas as pd

    if column.isna().all():
        return None
    code_n = np.asarray(pd.factorize(column.map(level_text))[0], dtype=np.int64)
    alone = np.flatnonzero(column.isna().to_numpy())
    code_n[alone] = int(code_n.max()) + 1 + np.arange(alone.size)
    return code_n


def population_sentences(population: str) -> list[str]:
    """Say it in a sentence where the weights represent another population than the target."""
    is_target = population in (THE_TARGET, TARGET_OF_NUMBERS)
    return [] if is_target else [f"The weights, and so these figures, describe {population}."]
