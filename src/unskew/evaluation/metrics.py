"""Weighted metrics of predictions, for all cells of a breakdown and all bootstrap replicates.

A replicate counts unit u (an image, or a group of images) c_u times. All metrics but AUROC are
functions of sums Σ_u c_u T_pu, with T_pu the sum of something over the images of unit u, so that
one sparse product gives them for all cells and replicates; AUROC sorts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.evaluation.ranking import Ranking, divide, rank_scores, sum_ranked
from unskew.records import Floats, Ints

# Figures that rest on fewer effective units than this are flagged: even their interval is rough.
FEW_EFFECTIVE = 30.0
# Bins of the confidence, of equal width (Guo et al. 2017).
CALIBRATION_BINS = 15
_OF_CLASSES = (
    "accuracy",
    "balanced_accuracy",
    "worst_class",
    "auroc",
    "sensitivity",
    "specificity",
)
# What tells the labels of images with several apart: of one label, and over all of them.
OF_LABEL = ("auroc", "average_precision", "f1")
OVER_LABELS = (*(f"{m}_{name}" for name in OF_LABEL for m in ("macro", "micro")), "worst_label")
SHARES = (*_OF_CLASSES, "subset_accuracy", "label_accuracy", *OF_LABEL[1:], *OVER_LABELS)
# What tells classes apart, and does not exist where all images are of one class.
BY_CLASS = (*_OF_CLASSES[1:], *OF_LABEL[1:], *OVER_LABELS)
# Extremes or absolute values: replicates are on one side of the estimate, and are moved back by
# their mean excess.
EXTREMES = ("worst_class", "worst_label", "calibration_error")
CLASSIFICATION = (*_OF_CLASSES, "log_loss", "calibration_error")
REGRESSION = ("mae", "rmse", "r2")
# Images × classes × replicates beyond which AUROC has no interval: several seconds. To sort costs
# as much as so many replicates.
MOST_RANKED = 2**32
SORTING = 80


@dataclass(frozen=True, eq=False)
class Answers:
    """What one model predicted for every image; None where it did not.

    Attributes
    ----------
    predicted : (n,) code of the predicted class, −1 for a class that is none of the truth's; for
        regression None. Of several labels (n, M) booleans.
    probability : (n, K) of each class; of several labels (n, M), each by itself.
    score : (n,) score of the positive class, on any scale: what AUROC of two classes needs.
    value : (n,) the predicted number of a regression.
    """

    predicted: Ints | None = field(repr=False, default=None)
    probability: Floats | None = field(repr=False, default=None)
    score: Floats | None = field(repr=False, default=None)
    value: Floats | None = field(repr=False, default=None)

    def take(self, rows: Any) -> Answers:
        """Take the answers about some of the images."""
        columns = (self.predicted, self.probability, self.score, self.value)
        return Answers(*[None if column is None else column[rows] for column in columns])


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of every image.

    Attributes
    ----------
    classes : names of the K classes, or of the M labels; () for regression.
    code : (n,) class of every image; None for regression and for several labels.
    value : (n,) the number to be predicted; None for classification.
    positive : the class whose recall is the sensitivity; None unless there are two classes.
    present : (n, M) the labels that every image has; None where it has one class.
    known : (n, M) whether that is known; None: of all. What is unknown counts nowhere.
    """

    classes: tuple[str, ...] = ()
    code: Ints | None = field(repr=False, default=None)
    value: Floats | None = field(repr=False, default=None)
    positive: int | None = None
    present: npt.NDArray[np.bool_] | None = field(repr=False, default=None)
    known: npt.NDArray[np.bool_] | None = field(repr=False, default=None)

    @property
    def present_code(self) -> Ints:
        """(n, M) 1 where an image has a label, 0 where not, −1 where that is unknown."""
        assert self.present is not None
        return np.where(True if self.known is None else self.known, self.present, -1)

    @property
    def positive_class(self) -> str | None:
        """Name of the positive class."""
        return None if self.positive is None else self.classes[self.positive]

    def take(self, rows: Any) -> Truth:
        """Take the truth of some of the images."""
        code = None if self.code is None else self.code[rows]
        value = None if self.value is None else self.value[rows]
        present = None if self.present is None else self.present[rows]
        known = None if self.known is None else self.known[rows]
        return Truth(self.classes, code, value, self.positive, present, known)


@dataclass(frozen=True, eq=False)
class Cells:
    """Which images are in which cell of a breakdown, of which unit, with which weight.

    Attributes
    ----------
    code : (n,) cell of every image, −1 for none.
    size : number of cells.
    unit : (n,) unit of every image.
    n_units : number of units.
    weight : (n,) not negative.
    """

    code: Ints = field(repr=False)
    size: int
    unit: Ints = field(repr=False)
    n_units: int
    weight: Floats = field(repr=False)

    def sums(self, code_n: Ints, n_codes: int, value_n: Floats) -> Any:
        """Sum ``value_n`` over the images of each code and unit: sparse, (n_codes, m).

        Images of code −1 count nowhere.
        """
        import scipy.sparse

        kept = np.flatnonzero((code_n >= 0) & (value_n != 0))
        shape = (n_codes, self.n_units)
        return scipy.sparse.coo_array(
            (value_n[kept], (code_n[kept], self.unit[kept])), shape=shape
        ).tocsr()

    def within(self, code_n: Ints, n_codes: int) -> Ints:
        """Combine cell and ``code_n`` into one code, (n,), −1 where either is."""
        return np.where((self.code >= 0) & (code_n >= 0), self.code * n_codes + code_n, -1)

    def effective(self, code_n: Ints, n_codes: int) -> Floats:
        """Find Kish's effective number of units of each code, (Σ_u W_u)²/Σ_u W_u², (n_codes,).

        W_u is the weight of unit u in the code; 0 without weight.
        """
        sum_cm = self.sums(code_n, n_codes, self.weight)
        total, square = sum_cm.sum(axis=1), sum_cm.power(2).sum(axis=1)
        return np.asarray(np.divide(total**2, square, out=np.zeros(n_codes), where=square > 0))


class ClassMetrics:
    """Metrics of a classifier in every cell: `figures` gives them for replicates.

    Of several trainings of a model each metric is the mean; the worst class has the smallest mean
    recall among ``worst_among`` (C, K): those of `FEW_EFFECTIVE` units, if there are two, or all.
    """

    def __init__(
        self, cells: Cells, truth: Truth, answers: Sequence[Answers], worst_among: Any = None
    ) -> None:
        assert truth.code is not None
        self.cells, self.truth, self.answers = cells, truth, answers
        self.n_classes = len(truth.classes)
        self.pair_n = cells.within(truth.code, self.n_classes)
        weight_cm = cells.sums(self.pair_n, cells.size * self.n_classes, cells.weight)
        self.present_ck = np.asarray(weight_cm.sum(axis=1) > 0).reshape(cells.size, self.n_classes)
        self.comparable_c = self.present_ck.sum(axis=1) >= 2
        self.term = {"weight": weight_cm} | self._terms(truth.code)
        self.among_ck = self._well_known() if worst_among is None else worst_among
        # A class that is alone in every cell enters no mean.
        self.ranked_k = np.flatnonzero((self.present_ck & self.comparable_c[:, None]).any(axis=0))
        self.rankings: list[list[Ranking]] | None = None

    def _well_known(self) -> npt.NDArray[np.bool_]:
        """Find the classes that may be the worst one, (C, K)."""
        many_ck = self.present_ck & (self._effective_by_class() >= FEW_EFFECTIVE)
        return np.where(many_ck.sum(axis=1, keepdims=True) >= 2, many_ck, self.present_ck)

    def _terms(self, truth_n: Ints) -> dict[str, Any]:
        """Sum what the metrics need, each (codes, m).

        Images predicted right, log-losses, and right − confidence in each bin of each training.
        """
        cells, weight_n, terms = self.cells, self.cells.weight, dict[str, Any]()
        if all(one.predicted is not None for one in self.answers):
            right_n = np.mean([one.predicted == truth_n for one in self.answers], axis=0)
            terms["right"] = cells.sums(
                self.pair_n, cells.size * self.n_classes, weight_n * right_n
            )
        probabilities = [one.probability for one in self.answers if one.probability is not None]
        if len(probabilities) < len(self.answers):
            return terms
        # As scikit-learn clips.
        tiny, rows = float(np.finfo(np.float64).eps), np.arange(truth_n.size)
        loss_n = np.mean(
            [-np.log(np.clip(p_nk[rows, truth_n], tiny, 1.0 - tiny)) for p_nk in probabilities],
            axis=0,
        )
        terms["loss"] = cells.sums(cells.code, cells.size, weight_n * loss_n)
        for number, p_nk in enumerate(probabilities):
            confidence_n = p_nk.max(axis=1)
            bin_n = np.clip(
                np.ceil(confidence_n * CALIBRATION_BINS).astype(np.int64) - 1,
                0,
                CALIBRATION_BINS - 1,
            )
            excess_n = weight_n * ((p_nk.argmax(axis=1) == truth_n) - confidence_n)
            terms[f"excess{number}"] = cells.sums(
                cells.within(bin_n, CALIBRATION_BINS), cells.size * CALIBRATION_BINS, excess_n
            )
        return terms

    @property
    def ranked_classes(self) -> list[int]:
        """The positive class of two; of more, all that share a cell; none without scores."""
        if self.truth.positive is not None:
            lacks = any(one.score is None for one in self.answers)
            return [] if lacks else [self.truth.positive]
        lacks = any(one.probability is None for one in self.answers)
        return [] if lacks else [int(k) for k in self.ranked_k]

    def rank_images(self) -> None:
        """Sort once for all replicates; without this every call of `figures` sorts again."""
        if self.rankings is None:
            self.rankings = [self._rank(k) for k in self.ranked_classes]

    def _rank(self, k: int) -> list[Ranking]:
        return [self._ranking(k, one) for one in self.answers]

    def _ranking(self, k: int, answers: Answers) -> Ranking:
        assert self.truth.code is not None
        of_class = None if answers.probability is None else answers.probability[:, k]
        score_n = of_class if self.truth.positive is None else answers.score
        assert score_n is not None
        cells = self.cells
        return rank_scores(
            score_n, self.truth.code == k, cells.code, cells.size, cells.unit, cells.weight
        )

    @property
    def n_sums(self) -> int:
        """Numbers that each replicate needs at once."""
        return sum(int(term.shape[0]) for term in self.term.values())

    def can_rank(self, n_replicates: int) -> bool:
        """Tell whether AUROC of so many replicates is affordable; 0: that of the images only."""
        return (
            len(self.ranked_classes)
            * len(self.answers)
            * self.cells.code.size
            * (n_replicates + SORTING)
            <= MOST_RANKED
        )

    def figures(self, count_mb: Floats, ranked: bool = True) -> dict[str, Floats]:
        """Compute {metric: (C, B)} in every cell and replicate, NaN where it does not exist.

        AUROC only if ``ranked``.
        """
        sums = {name: np.asarray(term @ count_mb) for name, term in self.term.items()}
        shape = (self.cells.size, self.n_classes, count_mb.shape[1])
        weight_ckb = sums["weight"].reshape(shape)
        weight_cb = weight_ckb.sum(axis=1)
        figures: dict[str, Floats] = {}
        if "right" in sums:
            right_ckb = sums["right"].reshape(shape)
            figures["accuracy"] = divide(right_ckb.sum(axis=1), weight_cb)
            figures |= self._by_class(divide(right_ckb, weight_ckb))
        if ranked and self.ranked_classes:
            figures["auroc"] = self._areas(count_mb)
        if "loss" in sums:
            figures["log_loss"] = divide(sums["loss"], weight_cb)
            bins = (self.cells.size, CALIBRATION_BINS, -1)
            excess_cb = np.mean(
                [
                    np.abs(sums[f"excess{number}"].reshape(bins)).sum(axis=1)
                    for number in range(len(self.answers))
                ],
                axis=0,
            )
            figures["calibration_error"] = divide(excess_cb, weight_cb)
        return figures

    def _by_class(self, recall_ckb: Floats) -> dict[str, Floats]:
        """Find mean and smallest recall over the classes of the cell.

        A replicate that lost one of these classes has none.
        """
        among_ck1 = self.among_ck[:, :, None]
        present_ck1 = self.present_ck[:, :, None]
        lost_cb = (np.isnan(recall_ckb) & present_ck1).any(axis=1)
        nowhere_cb = lost_cb | ~self.comparable_c[:, None]
        n_present_c1 = np.maximum(self.present_ck.sum(axis=1), 1)[:, None]
        known_ckb = np.where(present_ck1, np.nan_to_num(recall_ckb), 0.0)
        figures = {
            "balanced_accuracy": np.where(nowhere_cb, np.nan, known_ckb.sum(axis=1) / n_present_c1),
            "worst_class": np.where(
                (np.isnan(recall_ckb) & among_ck1).any(axis=1) | ~self.comparable_c[:, None],
                np.nan,
                np.where(among_ck1, known_ckb, np.inf).min(axis=1),
            ),
        }
        if self.truth.positive is not None:
            for name, k in (
                ("sensitivity", self.truth.positive),
                ("specificity", 1 - self.truth.positive),
            ):
                figures[name] = np.where(self.comparable_c[:, None], recall_ckb[:, k], np.nan)
        return figures

    def _areas(self, count_mb: Floats) -> Floats:
        """Find AUROC, (C, B): of two classes, or its mean over the classes of the cell.

        With more than two, each class is taken against the rest.
        """
        total_cb = np.zeros((self.cells.size, count_mb.shape[1]))
        n_c1 = np.zeros((self.cells.size, 1))
        for at, k in enumerate(self.ranked_classes):
            rankings = self._rank(k) if self.rankings is None else self.rankings[at]
            area_cb = np.mean([sum_ranked(ranking, count_mb) for ranking in rankings], axis=0)
            used_c = self.comparable_c & self.present_ck[:, k]
            total_cb += np.where(used_c[:, None], area_cb, 0.0)
            n_c1 += used_c[:, None]
        return divide(total_cb, np.broadcast_to(n_c1, total_cb.shape))

    def worst_codes(self) -> Ints:
        """Find the class of the smallest recall in every cell, (C,); −1 where there is none."""
        if "right" not in self.term:
            return np.full(self.cells.size, -1)
        recall_ck = divide(self.term["right"].sum(axis=1), self.term["weight"].sum(axis=1)).reshape(
            self.cells.size, self.n_classes
        )
        worst_c = np.where(self.among_ck, recall_ck, np.inf).argmin(axis=1)
        return np.where(self.comparable_c, worst_c, -1)

    def worst(self) -> list[str | None]:
        """Name the class of the smallest recall in every cell; None where `figures` has none."""
        return [None if k < 0 else self.truth.classes[k] for k in self.worst_codes().tolist()]

    def of_one_training(self, number: int) -> ClassMetrics:
        """Return the metrics of one of the trainings; its worst class is that of all of them."""
        among_ck = self.worst_codes()[:, None] == np.arange(self.n_classes)
        return ClassMetrics(self.cells, self.truth, [self.answers[number]], among_ck)

    def _effective_by_class(self) -> Floats:
        cells = self.cells
        return cells.effective(self.pair_n, cells.size * self.n_classes).reshape(
            cells.size, self.n_classes
        )

    def effective(self) -> dict[str, Floats]:
        """Count the effective units behind every metric, {metric: (C,)}.

        They are those of the cell, of the class, or of the smallest class.
        """
        cells = self.cells
        class_ck = self._effective_by_class()
        smallest_c = np.where(self.present_ck, class_ck, np.inf).min(axis=1, initial=np.inf)
        code_c = self.worst_codes()
        worst_c = np.where(code_c < 0, 0.0, class_ck[np.arange(cells.size), code_c])
        effective = dict.fromkeys(CLASSIFICATION, cells.effective(cells.code, cells.size))
        effective |= {"balanced_accuracy": smallest_c, "auroc": smallest_c, "worst_class": worst_c}
        if self.truth.positive is not None:
            effective |= {
                "sensitivity": class_ck[:, self.truth.positive],
                "specificity": class_ck[:, 1 - self.truth.positive],
            }
        return effective


class NumberMetrics:
    """Metrics of a regression in every cell, each its mean over the trainings of the model."""

    def __init__(self, cells: Cells, truth: Truth, answers: Sequence[Answers]) -> None:
        assert truth.value is not None
        self.cells, self.truth, self.answers = cells, truth, answers
        weight_n = cells.weight
        errors = [one.value - truth.value for one in answers if one.value is not None]
        inside = np.flatnonzero(cells.code >= 0)
        cell_i = cells.code[inside]
        total_c = np.bincount(cell_i, weights=weight_n[inside], minlength=cells.size)
        centre_c = divide(
            np.bincount(cell_i, weights=(weight_n * truth.value)[inside], minlength=cells.size),
            total_c,
        )
        # Relative to the cell's mean, so that squares of large numbers do not cancel.
        deviation_n = truth.value - np.nan_to_num(centre_c)[np.maximum(cells.code, 0)]
        values = {
            "weight": np.ones_like(weight_n),
            "error": np.mean(np.abs(errors), axis=0),
            **{f"square{number}": error_n**2 for number, error_n in enumerate(errors)},
            "deviation": deviation_n,
            "spread": deviation_n**2,
        }
        self.term = {
            name: cells.sums(cells.code, cells.size, weight_n * value_n)
            for name, value_n in values.items()
        }

    @property
    def n_sums(self) -> int:
        """Numbers that each replicate needs at once."""
        return len(self.term) * self.cells.size

    def can_rank(self, n_replicates: int) -> bool:
        """Return True: there is nothing to rank."""
        return True

    def figures(self, count_mb: Floats, ranked: bool = True) -> dict[str, Floats]:
        """Compute {metric: (C, B)} in every cell and replicate.

        R² = 1 − Σ w e²/Σ w (y − ȳ)², NaN where y does not vary.
        """
        sums = {name: np.asarray(term @ count_mb) for name, term in self.term.items()}
        weight_cb = sums["weight"]
        squares = [
            divide(sums[f"square{number}"], weight_cb) for number in range(len(self.answers))
        ]
        variance_cb = divide(sums["spread"], weight_cb) - divide(sums["deviation"], weight_cb) ** 2
        # What rounding leaves of a constant is no variance.
        variance_cb[variance_cb <= 1e-14 * divide(sums["spread"], weight_cb)] = 0.0
        return {
            "mae": divide(sums["error"], weight_cb),
            "rmse": np.mean([np.sqrt(square_cb) for square_cb in squares], axis=0),
            "r2": 1.0 - divide(np.mean(squares, axis=0), variance_cb),
        }

    def rank_images(self) -> None:
        """Do nothing: there is nothing to rank."""

    def of_one_training(self, number: int) -> NumberMetrics:
        """Return the metrics of one of the trainings."""
        return NumberMetrics(self.cells, self.truth, [self.answers[number]])

    def worst(self) -> list[str | None]:
        """Return None for every cell: there are no classes."""
        return [None] * self.cells.size

    def effective(self) -> dict[str, Floats]:
        """Count the effective units of every cell, {metric: (C,)}."""
        return dict.fromkeys(REGRESSION, self.cells.effective(self.cells.code, self.cells.size))
