"""Is a model as good on every source? Means over images compared between sources, adjusted.

The breakdown by source shows what each source's own images say, and those differ. Here each source
is weighted to the target by itself, by the memberships of its images, as `weights.mean` does. The
weights and the memberships are taken as known, as in all figures of predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import DataError, first_few
from unskew.evaluation.bootstrap import Sampled
from unskew.evaluation.cells import JudgedImages
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.metrics import Answers, Truth
from unskew.evaluation.multi_label import all_labels_right, ask_each_label
from unskew.evaluation.target_images import find_losses
from unskew.records import Estimate, Floats, Ints
from unskew.records.levels import level_text
from unskew.report.summary.privacy import count_units, hidden_cells, sources_with_few
from unskew.weigh.agreement import compare_fixed

if TYPE_CHECKING:
    import pandas as pd

_PREFIX = "membership_"


def take_memberships(table: pd.DataFrame, key: np.ndarray) -> pd.DataFrame:
    """Return the memberships of the images ``key``, one column for each source."""
    columns = [name for name in table.columns if str(name).startswith(_PREFIX)]
    if "id" not in table.columns or not columns:
        raise DataError(
            f"memberships are a table with the columns id and {_PREFIX}<source>, as "
            f"memberships.parquet of a run; this one has {first_few(list(table.columns), 12)}.",
            columns=[str(name) for name in table.columns],
        )
    own = table.set_axis(table["id"].map(level_text).to_numpy(dtype=object), axis=0)[columns]
    lacking = [name for name in key if name not in own.index]
    if lacking:
        raise DataError(
            f"{len(lacking)} of {len(key)} images have no memberships: {first_few(lacking)}. Are "
            "they those of these weights?",
            count=len(lacking),
            ids=lacking,
        )
    return own.loc[key].set_axis([str(name)[len(_PREFIX) :] for name in columns], axis=1)


def compare_metrics(
    images: JudgedImages,
    memberships: pd.DataFrame,
    figures: Mapping[str, MetricValue],
    level: float,
    private: bool,
) -> dict[str, Estimate]:
    """Compare the sources on (subset) accuracy and log-loss, or on the mean absolute error.

    ``memberships`` has the rows of ``images``; ``figures`` are the metrics over all of them, of the
    (first) model. One without an interval is not compared.
    """
    kept = images.kept
    source_n = images.source[kept].astype(str)
    names = tuple(name for name in memberships.columns if (source_n == name).any())
    if set(source_n) - set(names):
        unknown = sorted(set(source_n) - set(names))
        raise DataError(
            f"the memberships do not name the sources {first_few(unknown)}.", sources=unknown
        )
    code_n = np.array([names.index(name) for name in source_n], dtype=np.int64)
    q_nk = memberships[list(names)].to_numpy(dtype=np.float64)[kept]
    q_nk /= np.maximum(q_nk.sum(axis=1, keepdims=True), 1e-300)
    weight_n = images.weight[kept] / images.weight[kept].sum()
    unit_n = None if images.unit is None else images.unit[kept]
    rows = Sampled(names, code_n.astype(np.int32), weight_n, unit_n)
    group_n = None if images.group is None else images.group[kept]
    compared = {}
    for name, value_n in _means_of_trainings(images, kept).items():
        figure = figures.get(name)
        if figure is None or figure.interval is None or figure.value is None:
            continue
        stderr = math.nan if figure.stderr is None else figure.stderr
        plain = Estimate(figure.value, stderr, figure.interval, level)
        estimate = compare_fixed(rows, q_nk, value_n, plain)
        if private:
            few_k = hidden_cells(count_units(group_n, code_n, len(names)))
            hidden_k = sources_with_few(value_n, code_n, len(names), group_n, few_k)
            estimate = estimate.withhold([names[k] for k in np.flatnonzero(hidden_k)])
        compared[name] = estimate
    return compared


def _means_of_trainings(images: JudgedImages, kept: Ints) -> dict[str, Floats]:
    """Return the (n,) values of the first model, each the mean over its trainings."""
    truth = images.truth.take(kept)
    by_training = [_means(truth, answers.take(kept)) for answers in images.answers[0]]
    names = [name for name in by_training[0] if all(name in values for values in by_training)]
    return {name: np.mean([values[name] for values in by_training], axis=0) for name in names}


def _means(truth: Truth, answers: Answers) -> dict[str, Floats]:
    """Return the (n,) values whose means are metrics."""
    if truth.present is not None:
        (asked, (answered,)) = ask_each_label(truth, [answers])
        assert asked.code is not None
        assert answered.probability is not None
        values = {"subset_accuracy": np.asarray(all_labels_right(truth, answers), dtype=np.float64)}
        if truth.known is None:  # else it is no mean over images
            loss_n = find_losses(answered.probability, asked.code).reshape(truth.present.shape)
            values["log_loss"] = np.asarray(loss_n.mean(axis=1))
        return values
    if truth.code is None:
        assert truth.value is not None
        assert answers.value is not None
        return {"mae": np.abs(answers.value - truth.value)}
    values = {"accuracy": np.asarray(answers.predicted == truth.code).astype(np.float64)}
    if answers.probability is not None:
        values["log_loss"] = find_losses(answers.probability, truth.code)
    return values
