"""A target from the scores of a classifier on unlabelled images: its input, and the estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import (
    ConfigError,
    CoverageError,
    DataError,
    did_you_mean,
    first_few,
    warn_caller,
    wrong_option,
)
from unskew.files.reading import read_csv, read_parquet
from unskew.records import Floats, Target
from unskew.target.building import read_target_options
from unskew.target.classifier_scores import ClassifierScores, read_scores
from unskew.target.facts import Distribution
from unskew.target.label_shift import (
    ShareErrors,
    check_black_box,
    profile_interval,
    share_errors,
    solve_shares,
)
from unskew.target.label_shift_record import AGREEMENT_LIMIT, LabelShift, read_label_shift
from unskew.target.score_calibration import ScoreCalibration, fit_calibration

# A share with a larger standard error may be anything: that of a uniform draw is 0.29.
_LARGEST_STDERR = 0.25
# Images of a class whose share is estimated as 0 keep a weight, so that what they are like counts
# in the error of the share.
_LEAST_MASS = 1e-6
# With more classes the profile follows the linear approximation of the other shares.
_FEW_CLASSES = 20
_CALIBRATIONS = ("auto", "temperature", "vector", "matrix")


def predictions_target(
    target_scores: Any,
    validation_scores: Any,
    validation_labels: Any,
    *,
    classes: Sequence[Any] | None,
    validation_weights: Any,
    group: Any,
    validation_group: Any,
    by: str,
    calibrate: str,
    level: float,
    options: Mapping[str, Any],
) -> Target:
    """Estimate the shares of the classes, their error, and check the assumption."""
    _check_settings(by, calibrate, level)
    read = read_target_options((by,), options)
    scores = read_scores(
        target_scores,
        validation_scores,
        validation_labels,
        classes,
        validation_weights,
        group,
        validation_group,
    )
    record, covariance_cc = estimate_shift(scores, calibrate, level)
    return _made(by, record, covariance_cc, read)


def _check_settings(by: Any, calibrate: Any, level: Any) -> None:
    if not isinstance(by, str) or not by:
        raise wrong_option("by names the attribute that the classes are levels of, as text", by=by)
    if calibrate not in _CALIBRATIONS:
        raise wrong_option(
            f"calibrate is one of {', '.join(map(repr, _CALIBRATIONS))}",
            calibrate=calibrate,
            allowed=list(_CALIBRATIONS),
        )
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise wrong_option("level is a number between 0 and 1", level=level)


def _made(by: str, record: LabelShift, covariance_cc: Floats, options: Mapping[str, Any]) -> Target:
    mass_c = np.maximum(np.asarray(record.share), _LEAST_MASS)
    fact = Distribution(
        (by,),
        tuple((name,) for name in record.classes),
        tuple((mass_c / mass_c.sum()).tolist()),
        covariance=tuple(tuple(row) for row in covariance_cc.tolist()),
    )
    return Target(kind="predictions", facts=(fact,), label_shift=record, **options)


def estimate_shift(
    scores: ClassifierScores, calibrate: str, level: float
) -> tuple[LabelShift, Floats]:
    """Return the record of the estimated shares, and their (C, C) covariance."""
    validation = scores.validation
    calibration = fit_calibration(
        validation.log_score, validation.label, validation.weight, validation.unit, calibrate
    )
    log_ratio_mc = calibration.log_ratio(scores.target)
    share_c = solve_shares(log_ratio_mc)
    errors = share_errors(share_c, calibration, scores.target, scores.unit, validation)
    _refuse_blindness(scores.classes, share_c, errors)
    check = check_black_box(share_c, calibration, errors, scores.target, scores.unit, validation)
    covariance_cc = errors.covariance
    if check.p_value < AGREEMENT_LIMIT:
        apart_c = check.share - share_c
        covariance_cc = covariance_cc + np.outer(apart_c, apart_c)
    stderr_c = np.sqrt(np.diag(covariance_cc))
    record = LabelShift(
        scores.classes,
        tuple(share_c.tolist()),
        tuple(stderr_c.tolist()),
        _intervals(log_ratio_mc, share_c, covariance_cc, calibration, scores, level),
        float(level),
        calibration.family,
        tuple((1 - np.diag(errors.of_images) / np.diag(errors.covariance)).tolist()),
        errors.condition,
        scores.target.shape[0],
        validation.label.size,
        tuple(check.share.tolist()),
        check.p_value,
    )
    if check.p_value < AGREEMENT_LIMIT:
        warn_caller(record.describe("label")[-1])
    return record, covariance_cc


def _refuse_blindness(classes: tuple[str, ...], share_c: Floats, errors: ShareErrors) -> None:
    stderr_c = np.maximum(np.sqrt(np.diag(errors.covariance)), errors.least)
    unknown = np.flatnonzero(~(stderr_c <= _LARGEST_STDERR))
    if unknown.size == 0:
        return
    unknown = unknown[np.argsort(-stderr_c[unknown])]
    shown = first_few([f"{classes[c]} ({share_c[c]:.2g} ± {stderr_c[c]:.2g})" for c in unknown])
    raise CoverageError(
        f"the scores say next to nothing about the share of {shown}: the standard error is above "
        f"{_LARGEST_STDERR}. The classifier hardly tells these classes apart, or there are too few "
        "images. Merge classes that it confuses, take a better classifier, more labelled images "
        "or more images of the target.",
        levels=[classes[c] for c in unknown],
        value=float(stderr_c[unknown[0]]),
        limit=_LARGEST_STDERR,
    )


def _intervals(
    log_ratio_mc: Floats,
    share_c: Floats,
    covariance_cc: Floats,
    calibration: ScoreCalibration,
    scores: ClassifierScores,
    level: float,
) -> tuple[tuple[float, float], ...]:
    """Compute the profile interval of every share."""
    from scipy.special import ndtri

    # The variance that the likelihood of independent images with known densities counts.
    alone = share_errors(
        share_c,
        _known(calibration),
        scores.target,
        np.arange(scores.target.shape[0]),
        scores.validation,
    )
    variance_c, counted_c = np.diag(covariance_cc), np.diag(alone.covariance)
    half_c = ndtri(0.5 + level / 2) * np.sqrt(variance_c)
    intervals = []
    for c, share in enumerate(share_c):
        inflation = float(variance_c[c] / counted_c[c]) if counted_c[c] > 0 else 1.0
        direction_c = (
            None if share_c.size <= _FEW_CLASSES else alone.covariance[:, c] / counted_c[c]
        )
        low, high = profile_interval(log_ratio_mc, share_c, c, level, inflation, direction_c)
        # Of a count of 0 the likelihood alone ends at 1.9 images, which one in seven draws with
        # as many in expectation would miss.
        intervals.append((low, max(high, min(share + half_c[c], 1.0))))
    return tuple((float(low), float(high)) for low, high in intervals)


def _known(calibration: ScoreCalibration) -> ScoreCalibration:
    """Return the calibration as if it had no error."""
    return replace(calibration, influence=np.zeros_like(calibration.influence))


_FILE_KEYS = (
    *("target_scores", "validation_scores"),  # files
    *("label", "weight", "group", "classes", "by", "calibrate", "level"),
)
# Columns of a table of scores that are no class unless named.
_OTHER_COLUMNS = ("id", "path", "source", "label", "group", "split", "weight", "sample_weight")


def read_scored_target(settings: Any, base: Path, options: Mapping[str, Any]) -> Target:
    """Read ``[target.predictions]``: two tables of scores, or the estimate that was written."""
    if not isinstance(settings, Mapping):
        raise ConfigError(
            "predictions is a table with target_scores and validation_scores, two files; got "
            f"{settings!r}.",
            key="predictions",
            value=settings,
        )
    if "share" in settings:
        return _read_written(settings, options)
    unknown = [key for key in settings if key not in _FILE_KEYS]
    lacking = [key for key in _FILE_KEYS[:2] if not isinstance(settings.get(key), str)]
    if unknown or lacking:
        wrong = f"has no key {unknown[0]!r}" if unknown else f"needs the file {lacking[0]}"
        raise ConfigError(
            f"[target.predictions] {wrong}; its keys are {', '.join(_FILE_KEYS)}."
            f"{did_you_mean(unknown[0], _FILE_KEYS) if unknown else ''}",
            key=f"predictions.{(unknown or lacking)[0]}",
            allowed=list(_FILE_KEYS),
        )
    by = settings.get("by", "label")
    target, validation = (_read_table(base / settings[key]) for key in _FILE_KEYS[:2])
    label, weight, group = (
        settings.get("label", "label"),
        settings.get("weight"),
        settings.get("group"),
    )
    for column in (label, weight, group):
        if column is not None and column not in validation.columns:
            raise DataError(
                f"{settings['validation_scores']} has no column {column!r}; its columns are "
                f"{first_few(list(validation.columns), 12)}.",
                path=settings["validation_scores"],
                column=column,
                columns=list(validation.columns),
            )
    taken = {*_OTHER_COLUMNS, label, weight, group}
    return predictions_target(
        target,
        validation,
        validation[label].to_numpy(),
        classes=settings.get("classes")
        or [column for column in target.columns if column not in taken],
        validation_weights=None if weight is None else validation[weight].to_numpy(),
        group=target[group].to_numpy() if group in target.columns else None,
        validation_group=None if group is None else validation[group].to_numpy(),
        by=by,
        calibrate=settings.get("calibrate", "auto"),
        level=settings.get("level", 0.95),
        options=options,
    )


def _read_table(path: Path) -> Any:
    if not path.is_file():
        raise ConfigError(
            f"[target] names the file {str(path)!r}, which does not exist.", path=str(path)
        )
    if path.suffix.lower() == ".parquet":
        return read_parquet(path)
    return read_csv(path, keep_default_na=False, na_values=[""])


def _read_written(settings: Mapping[str, Any], options: Mapping[str, Any]) -> Target:
    rest = {key: value for key, value in settings.items() if key not in ("by", "covariance")}
    record = read_label_shift(rest)
    by = settings.get("by", "label")
    _check_settings(by, "auto", record.level)
    covariance_cc = np.asarray(settings.get("covariance"), dtype=np.float64)
    if covariance_cc.shape != (len(record.classes), len(record.classes)):
        raise ConfigError(
            "predictions.covariance is the covariance of the shares, a row for each class; got "
            f"the shape {covariance_cc.shape}.",
            key="predictions.covariance",
            value=list(covariance_cc.shape),
        )
    return _made(by, record, covariance_cc, read_target_options((by,), options))


def written_scored_target(target: Target) -> dict[str, Any]:
    """Return the estimate as plain values, from which `read_scored_target` makes the same."""
    assert target.label_shift is not None
    covariance = target.facts[0].covariance
    assert covariance is not None
    return {
        "by": target.by[0],
        "covariance": [list(row) for row in covariance],
        **target.label_shift.to_dict(),
    }
