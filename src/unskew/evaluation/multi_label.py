"""Metrics of images with any number of labels: by label, and over all labels.

Row (i, m) asks whether image i has label m, a question of two classes, so that all but F1, average
precision and the subset accuracy are metrics of `ClassMetrics`, in cells of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unskew.evaluation.metrics import (
    FEW_EFFECTIVE,
    MOST_RANKED,
    OF_LABEL,
    SORTING,
    Answers,
    Cells,
    ClassMetrics,
    Truth,
)
from unskew.evaluation.ranking import (
    Ranking,
    average_precisions,
    divide,
    rank_scores,
    sum_ranked,
)
from unskew.records import Floats

_ABSENT_PRESENT = ("absent", "present")


def ask_each_label(truth: Truth, answers: Sequence[Answers]) -> tuple[Truth, list[Answers]]:
    """Turn (n, M) labels into n·M questions of two classes, image after image."""
    assert truth.present is not None
    code = truth.present.ravel().astype(np.int64)
    asked = []
    for one in answers:
        assert one.predicted is not None
        assert one.probability is not None
        p = one.probability.ravel()
        asked.append(
            Answers(one.predicted.ravel().astype(np.int64), np.column_stack([1.0 - p, p]), p)
        )
    return Truth(_ABSENT_PRESENT, code, positive=1), asked


def all_labels_right(truth: Truth, answers: Answers) -> Any:
    """Tell of every image, (n,), whether all labels that are known of it are predicted right."""
    code_nm = truth.present_code
    return np.all((answers.predicted == code_nm) | (code_nm < 0), axis=1)


class LabelMetrics:
    """Metrics of whether a label is present, in every cell; each its mean over the trainings.

    AUROC, average precision, F1, sensitivity and specificity do not exist in a cell where all
    images have the label, or none has it.
    """

    def __init__(self, cells: Cells, truth: Truth, answers: Sequence[Answers]) -> None:
        self.cells, self.truth, self.answers = cells, truth, answers
        self.trainings = [ClassMetrics(cells, truth, [one]) for one in answers]
        self.comparable_c = self.trainings[0].comparable_c
        self.rankings: list[Ranking] | None = None

    @property
    def n_sums(self) -> int:
        """Numbers that each replicate needs at once."""
        return sum(own.n_sums for own in self.trainings)

    def can_rank(self, n_replicates: int) -> bool:
        """Tell whether AUROC and average precision of so many replicates are affordable."""
        n_ranked = 2 * len(self.answers) * self.cells.code.size
        return n_ranked * (n_replicates + SORTING) <= MOST_RANKED

    def rank_images(self) -> None:
        """Sort once for all replicates."""
        if self.rankings is None:
            self.rankings = self._rank()

    def _rank(self) -> list[Ranking]:
        assert self.truth.code is not None
        cells, is_present = self.cells, self.truth.code == 1
        return [
            rank_scores(one.score, is_present, cells.code, cells.size, cells.unit, cells.weight)
            for one in self.answers
            if one.score is not None
        ]

    def figures(self, count_mb: Floats, ranked: bool = True) -> dict[str, Floats]:
        """Compute {metric: (C, B)}, NaN where it does not exist; AUROC only if ``ranked``."""
        rankings: Sequence[Ranking | None] = [None] * len(self.answers)
        if ranked:
            rankings = self._rank() if self.rankings is None else self.rankings
        by_training = [
            self._figures_of(own, ranking, count_mb)
            for own, ranking in zip(self.trainings, rankings, strict=True)
        ]
        return {
            name: np.mean([figures[name] for figures in by_training], axis=0)
            for name in by_training[0]
        }

    def _figures_of(
        self, own: ClassMetrics, ranking: Ranking | None, count_mb: Floats
    ) -> dict[str, Floats]:
        known, figures = self.comparable_c[:, None], dict[str, Floats]()
        if ranking is not None:
            areas = {
                "auroc": sum_ranked(ranking, count_mb),
                "average_precision": average_precisions(ranking, count_mb),
            }
            figures = {name: np.where(known, area, np.nan) for name, area in areas.items()}
        shape = (self.cells.size, 2, count_mb.shape[1])
        weight_c2b, right_c2b = (
            np.asarray(own.term[name] @ count_mb).reshape(shape) for name in ("weight", "right")
        )
        # 2 TP/(2 TP + FN + FP) at the threshold ½.
        flagged_cb = right_c2b[:, 1] + weight_c2b[:, 0] - right_c2b[:, 0]
        f1_cb = divide(2.0 * right_c2b[:, 1], weight_c2b[:, 1] + flagged_cb)
        figures["f1"] = np.where(known & (weight_c2b[:, 1] > 0), f1_cb, np.nan)
        others = own.figures(count_mb, ranked=False)
        names = ("sensitivity", "specificity", "log_loss", "calibration_error")
        figures["label_accuracy"] = others["accuracy"]
        return figures | {name: others[name] for name in names}

    def worst(self) -> list[str | None]:
        """Return None for every cell: a label has no worst class."""
        return [None] * self.cells.size

    def of_one_training(self, number: int) -> LabelMetrics:
        """Return the metrics of one of the trainings."""
        return LabelMetrics(self.cells, self.truth, [self.answers[number]])

    def effective(self) -> dict[str, Floats]:
        """Count the effective units behind every metric, {metric: (C,)}."""
        own = self.trainings[0].effective()
        alike = {name: own["auroc"] for name in OF_LABEL}
        return own | alike | {"label_accuracy": own["accuracy"]}


class LabelSetMetrics:
    """Metrics of sets of labels in every cell: means over labels (macro), pooled (micro), worst.

    Macro means are over the labels that some images of the cell have and others lack; in a
    replicate, over those of them that were drawn; that of the label accuracy is over all labels. A
    label counts on the images of which it is known. The worst label has the smallest AUROC among
    ``worst_among`` (C, M): those of `FEW_EFFECTIVE` units, if there are two, or all. Calibration
    error and log-loss are means over all labels.
    """

    def __init__(
        self, cells: Cells, truth: Truth, answers: Sequence[Answers], worst_among: Any = None
    ) -> None:
        assert truth.present is not None
        self.cells, self.truth, self.answers = cells, truth, answers
        self.n_labels = M = len(truth.classes)
        asked = ask_each_label(truth, answers)
        wide = replace(
            cells,
            code=np.where(truth.present_code.ravel() >= 0, np.repeat(cells.code, M), -1),
            unit=np.repeat(cells.unit, M),
            weight=np.repeat(cells.weight, M),
        )
        label_w = np.tile(np.arange(M), cells.code.size)
        by_label = replace(wide, code=wide.within(label_w, M), size=cells.size * M)
        self.each, self.pooled = LabelMetrics(by_label, *asked), LabelMetrics(wide, *asked)
        all_right_n = np.mean([all_labels_right(truth, one) for one in answers], axis=0)
        self.weight_cm = cells.sums(cells.code, cells.size, cells.weight)
        self.right_cm = cells.sums(cells.code, cells.size, cells.weight * all_right_n)
        self.known_cm = self.each.comparable_c.reshape(cells.size, M)
        self.among_cm = self._well_known() if worst_among is None else worst_among

    def _well_known(self) -> Any:
        """Find the labels that may be the worst one, (C, M)."""
        many_cm = self.known_cm & (self._effective_by_label() >= FEW_EFFECTIVE)
        return np.where(many_cm.sum(axis=1, keepdims=True) >= 2, many_cm, self.known_cm)

    def _effective_by_label(self) -> Floats:
        return self.each.effective()["auroc"].reshape(self.cells.size, self.n_labels)

    @property
    def n_sums(self) -> int:
        """Numbers that each replicate needs at once."""
        return self.each.n_sums + self.pooled.n_sums

    def can_rank(self, n_replicates: int) -> bool:
        """Tell whether AUROC and average precision of so many replicates are affordable."""
        return self.each.can_rank(2 * n_replicates)

    def rank_images(self) -> None:
        """Sort once for all replicates."""
        self.each.rank_images()
        self.pooled.rank_images()

    def figures(self, count_mb: Floats, ranked: bool = True) -> dict[str, Floats]:
        """Compute {metric: (C, B)}, NaN where it does not exist."""
        each, pooled = (part.figures(count_mb, ranked) for part in (self.each, self.pooled))
        shape = (self.cells.size, self.n_labels, count_mb.shape[1])
        figures = {
            "subset_accuracy": divide(
                np.asarray(self.right_cm @ count_mb), np.asarray(self.weight_cm @ count_mb)
            ),
            "label_accuracy": _mean_over_labels(each["label_accuracy"].reshape(shape)),
        }
        for name in OF_LABEL:
            if name in each:
                figures[f"macro_{name}"] = _mean_over_labels(each[name].reshape(shape))
                figures[f"micro_{name}"] = pooled[name]
        if "auroc" in each:
            among_cm1 = self.among_cm[:, :, None]
            area_cmb = np.where(among_cm1, each["auroc"].reshape(shape), np.inf)
            # NaN where one of them was not drawn.
            figures["worst_label"] = np.where(among_cm1.any(axis=1), area_cmb.min(axis=1), np.nan)
        figures["log_loss"] = pooled["log_loss"]
        error_cmb = each["calibration_error"].reshape(shape)
        return figures | {"calibration_error": _mean_over_labels(error_cmb)}

    def worst_codes(self) -> Any:
        """Find the label of the smallest AUROC in every cell, (C,); −1 where there is none."""
        if not self.can_rank(0):
            return np.full(self.cells.size, -1)
        figures = self.each.figures(np.ones((self.cells.n_units, 1)))
        area_cm = figures["auroc"].reshape(self.cells.size, self.n_labels)
        worst_c = np.where(self.among_cm, area_cm, np.inf).argmin(axis=1)
        return np.where(self.among_cm.any(axis=1), worst_c, -1)

    def worst(self) -> list[str | None]:
        """Name the label of the smallest AUROC in every cell; None where there is none."""
        return [None if m < 0 else self.truth.classes[m] for m in self.worst_codes().tolist()]

    def of_one_training(self, number: int) -> LabelSetMetrics:
        """Return the metrics of one of the trainings; its worst label is that of all of them."""
        among_cm = self.worst_codes()[:, None] == np.arange(self.n_labels)
        return LabelSetMetrics(self.cells, self.truth, [self.answers[number]], among_cm)

    def effective(self) -> dict[str, Floats]:
        """Count the effective units behind every metric, {metric: (C,)}.

        They are those of the cell; of macro means, of the label with the fewest that have it, or
        that lack it.
        """
        cells, by_label_cm = self.cells, self._effective_by_label()
        all_c = cells.effective(cells.code, cells.size)
        fewest_c = np.where(self.known_cm, by_label_cm, np.inf).min(axis=1, initial=np.inf)
        code_c = self.worst_codes()
        worst_c = np.where(code_c < 0, 0.0, by_label_cm[np.arange(cells.size), code_c])
        whole = ("subset_accuracy", "label_accuracy", "log_loss", "calibration_error")
        return {
            **dict.fromkeys((*whole, *(f"micro_{name}" for name in OF_LABEL)), all_c),
            **{f"macro_{name}": fewest_c for name in OF_LABEL},
            "worst_label": worst_c,
        }


def _mean_over_labels(value_cmb: Floats) -> Floats:
    """Take the (C, B) mean over the labels for which there is a value."""
    known_cmb = np.isfinite(value_cmb)
    return divide(np.where(known_cmb, value_cmb, 0.0).sum(axis=1), known_cmb.sum(axis=1))
