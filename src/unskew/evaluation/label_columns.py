"""Truth and predictions of images with any number of labels: columns y_<label>, score_<label>."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, first_few
from unskew.evaluation.answers import read_finite, sort_levels
from unskew.evaluation.columns import Case
from unskew.evaluation.matching import Judged
from unskew.evaluation.metrics import Answers, Truth
from unskew.records import Floats
from unskew.records.levels import INDICATOR, level_text
from unskew.weigh.weights_table import is_list

if TYPE_CHECKING:
    import pandas as pd

_TRUTH, _SCORE = "y_", "score_"


def with_label_gaps(judged: Judged, attributes: pd.DataFrame) -> Judged:
    """Add the columns ``label=<name>`` of the attributes, whose gaps are unknown labels."""
    gaps = [name for name in attributes.columns if str(name).startswith(INDICATOR)]
    if not gaps:
        return judged
    values = {str(name): attributes[name].to_numpy() for name in gaps}
    return replace(judged, frame=judged.frame.assign(**values))


def has_label_sets(judged: Judged, aligned: Sequence[pd.DataFrame], choice: str | None) -> bool:
    """Tell whether images have any number of labels: lists, or y_<label> in the predictions.

    A column y of the predictions asks for one label at a time.
    """
    names = {str(name) for table in aligned for name in table.columns}
    if "y" in names and choice != "label":
        return False
    asked = bool(_labels_in(names, _TRUTH) & _labels_in(names, _SCORE))
    return (asked and choice != "label") or (choice != "y" and _holds_sets(judged.frame))


def _holds_sets(frame: pd.DataFrame) -> bool:
    return "label" in frame.columns and any(is_list(value) for value in frame["label"].tolist())


def _labels_in(names: Any, prefix: str) -> set[str]:
    return {str(name)[len(prefix) :] for name in names if str(name).startswith(prefix)}


def read_label_case(
    judged: Judged,
    table: pd.DataFrame,
    aligned: Sequence[pd.DataFrame],
    names: Sequence[str],
    trainings: int,
    choice: str | None,
    regression: bool | None,
    positive: str | None,
) -> Case:
    """Read the labels that every image has, and a probability of each, as `read_case` does."""
    for option, value in (("regression", regression), ("positive", positive)):
        if value is not None:
            raise ConfigError(
                f"{option} does not go with images of several labels: each label is present or "
                "absent.",
                option=option,
                value=value,
            )
    labels = _all_labels(table, aligned, choice)
    present_nm, known_nm, origin = _read_truth(judged, aligned, labels, choice)
    answers = [_read_scores(one, labels, name) for one, name in zip(aligned, names, strict=True)]
    reasons = [("have no truth", np.asarray(~known_nm.any(axis=1)))]
    for own, name in zip(answers, names, strict=True):
        assert own.probability is not None
        lacking_n = np.asarray(np.isnan(own.probability).any(axis=1))
        reasons.append((f"have no {name.replace('predictions', 'prediction', 1)}", lacking_n))
    usable_n = ~np.any([lacking_n for _, lacking_n in reasons], axis=0)
    by_model = [
        tuple(answers[start : start + trainings]) for start in range(0, len(answers), trainings)
    ]
    all_known = bool(known_nm[usable_n].all())
    truth = Truth(labels, present=present_nm, known=None if all_known else known_nm)
    notes = _undefined_notes(truth, usable_n & (judged.weight > 0))
    return Case(truth, by_model, origin, usable_n, reasons, notes)


def _all_labels(
    table: pd.DataFrame, aligned: Sequence[pd.DataFrame], choice: str | None
) -> tuple[str, ...]:
    """List the labels: those of all splits, and those that have a column."""
    labels = set().union(*(_labels_in(one.columns, _SCORE) for one in aligned))
    if choice != "label":
        labels |= set().union(*(_labels_in(one.columns, _TRUTH) for one in aligned)) & labels
    if choice != "y" and _holds_sets(table):
        labels |= {name for value in table["label"].tolist() for name in _label_texts(value) or ()}
    return tuple(sort_levels(labels))


def _label_texts(value: Any) -> list[str] | None:
    """Return the labels of one image as text; None where they are unknown."""
    import pandas as pd

    if is_list(value):
        return [level_text(name) for name in value]
    return None if pd.isna(value) else [level_text(value)]


def _read_truth(
    judged: Judged, aligned: Sequence[pd.DataFrame], labels: tuple[str, ...], choice: str | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], str]:
    """Return (n, M) which labels images have, whether that is known, and where it is from."""
    n, frame = len(judged.key), judged.frame
    truths = []
    if choice != "y" and _holds_sets(frame):
        lists = [_label_texts(value) for value in frame["label"].tolist()]
        known_n = np.array([names is not None for names in lists], dtype=np.bool_)
        known_nm = np.repeat(known_n[:, None], len(labels), axis=1)
        code = {name: m for m, name in enumerate(labels)}
        present_nm = np.zeros((n, len(labels)), dtype=np.bool_)
        for row, names in enumerate(lists):
            present_nm[row, [code[name] for name in names or ()]] = True
        for name in [name for name in labels if f"{INDICATOR}{name}" in frame.columns]:
            known_nm[:, code[name]] &= frame[f"{INDICATOR}{name}"].notna().to_numpy()
        truths.append((present_nm, known_nm, "label"))
    for own in aligned if choice != "label" else ():
        if _labels_in(own.columns, _TRUTH) & set(labels):
            truths.append((*_read_indicators(own, labels), "y"))
    for other in truths[1:]:
        _check_same(truths[0], other, judged.key)
    return truths[-1] if truths[-1][2] == "y" else truths[0]


def _read_indicators(
    table: pd.DataFrame, labels: Sequence[str]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    columns = [f"{_TRUTH}{name}" for name in labels]
    lacking = [name for name in columns if name not in table.columns]
    if lacking:
        raise DataError(
            f"the truth of {len(lacking)} of {len(labels)} labels is missing: there is no column "
            f"{first_few(lacking)}. Predictions have y_<label> (0 or 1) for every score_<label>.",
            columns=lacking,
        )
    value_nm = np.column_stack([read_finite(_as_numbers(table[name]), name) for name in columns])
    wrong = np.argwhere(~np.isin(value_nm, (0.0, 1.0)) & ~np.isnan(value_nm))
    if wrong.size:
        row, m = wrong[0]
        raise DataError(
            f"the column {columns[m]!r} is 1 where an image has the label and 0 where not; that of "
            f"{table.index[row]} is {value_nm[row, m]:g}.",
            column=columns[m],
            id=table.index[row],
            value=float(value_nm[row, m]),
        )
    return value_nm == 1.0, ~np.isnan(value_nm)


def _as_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Read booleans, which joining tables may have turned into objects, as 0 and 1."""
    return column.map(lambda value: float(value) if isinstance(value, bool) else value)


def _check_same(one: Any, other: Any, key: npt.NDArray[Any]) -> None:
    """Refuse two truths that differ."""
    wrong = np.flatnonzero((one[1] & other[1] & (one[0] != other[0])).any(axis=1))
    if wrong.size:
        raise DataError(
            f"the labels of {wrong.size} of {key.size} images differ between the weights and the "
            f"columns y_<label>, or between two tables of predictions: "
            f"{first_few(key[wrong].tolist())}. Choose the truth with --truth y or --truth label.",
            option="truth",
            count=int(wrong.size),
            ids=key[wrong].tolist(),
        )


def _read_scores(table: pd.DataFrame, labels: tuple[str, ...], name: str) -> Answers:
    columns = [f"{_SCORE}{label}" for label in labels]
    lacking = [column for column in columns if column not in table.columns]
    if lacking:
        raise DataError(
            f"the {name} have no score of {len(lacking)} of {len(labels)} labels: there is no "
            f"column {first_few(lacking)}. Each label has a column score_<label>, spelled as in "
            "the labels; a label that the model does not know gets a column of zeros.",
            columns=lacking,
            levels=[column[len(_SCORE) :] for column in lacking],
        )
    score_nm: Floats = np.column_stack([read_finite(table[column], column) for column in columns])
    wrong = np.argwhere((score_nm < 0) | (score_nm > 1))
    if wrong.size:
        row, m = wrong[0]
        raise DataError(
            f"the score of a label is the probability that an image has it, from 0 to 1; "
            f"{columns[m]!r} of {table.index[row]} is {score_nm[row, m]:.4g}. Are they logits? "
            "Then apply a sigmoid first.",
            column=columns[m],
            id=table.index[row],
            value=float(score_nm[row, m]),
        )
    return Answers((score_nm >= 0.5).astype(np.int64), score_nm)


def _undefined_notes(truth: Truth, counted_n: npt.NDArray[np.bool_]) -> list[str]:
    """Name the labels in which all judged images are alike, and those that are unknown of some."""
    code_nm, notes = truth.present_code[counted_n], []
    for value, words in ((1, "No judged image has"), (0, "Every judged image has")):
        absent_m = ~(code_nm == value).any(axis=0) & (code_nm >= 0).any(axis=0)
        names = [truth.classes[m] for m in np.flatnonzero(absent_m)]
        if names:
            notes.append(
                f"{words} {first_few([repr(name) for name in names], 6)}: AUROC, average precision "
                "and F1 are undefined there, and left out of the means."
            )
    count_m = (code_nm < 0).sum(axis=0)
    gaps = [f"{truth.classes[m]} ({count_m[m]:,})" for m in np.flatnonzero(count_m)]
    if gaps:
        notes.append(
            f"Labels that are unknown for some of {len(code_nm):,} images are judged on the rest: "
            f"{first_few(gaps, 6)}."
        )
    return notes
