"""What a scikit-learn user has (X, y, source …) → a `Pool`, and one target weight for every image
of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Estimate, Floats, Pool, Target, Weights
from unskew.records.pool_table import ROLES

if TYPE_CHECKING:
    import pandas as pd

    from unskew.weigh.calibrate import Calibration

# The name of the one source where none is given.
ONE_SOURCE = "pool"


@dataclass(frozen=True, eq=False)
class GivenImages:
    """What `fit` and `target_score` are told about the images, as it was given: one entry of each
    for every image.

    ``has_classes``: y holds classes, also where these are numbers, and a bias model that reads it
    must not take them for measurements.
    """

    X: Any
    y: Any
    source: Any = None
    group: Any = None
    sample_weight: Any = None
    attributes: Any = None
    has_classes: bool = False

    def __len__(self) -> int:
        shape = getattr(self.X, "shape", None) or np.asarray(self.X).shape
        if not shape:
            raise DataError(
                "X holds one row for each image; got a single value of type "
                f"{type(self.X).__name__}."
            )
        return int(shape[0])


@dataclass(frozen=True, eq=False)
class TargetWeights:
    """p_i = g_i π_i: the debiasing weights π, times the design weights, calibrated to known
    moments.

    Attributes
    ----------
    weights : π, with what its standard errors need.
    factor : (n,) g_i, such that Σ_i g_i π_i = 1; all 1 without design weights and moments.
    calibration : the account of the calibration; None without moments.
    moment : (n, m) the values whose means are known; m = 0 without moments.
    design : Σ_i π_i d_i, the mean of the design weights d on the target; 1 without them.
    """

    weights: Weights
    factor: Floats = field(repr=False)
    calibration: Calibration | None
    moment: Floats = field(repr=False)
    design: float = 1.0

    @property
    def weight(self) -> Floats:
        """(n,) p_i, sum 1."""
        return self.factor * self.weights.weight

    @property
    def sample_weight(self) -> Floats:
        """(n,) what a model learns from: n π_i d_i, d_i the design weights, so that one source
        without moments hands on d_i as it is.
        """
        return self.weight * (self.factor.size * self.design)

    def mean(self, values: Floats, level: float = 0.95) -> Estimate:
        """Target mean μ̂ = Σ_i p_i h_i with a standard error.

        A small change dπ of the debiasing weights moves the calibrated mean by Σ_i dπ_i g_i r_i,
        with the residuals r_i = h_i − μ̂ − B·(x_i − x̄) of the regression of h on the moments x
        under p. So its standard error is that of the debiased mean of g_i r_i, which accounts for
        all that went into π; and a mean that is known has none.
        """
        if np.all(self.factor == 1.0):
            return self.weights.mean(values, level)
        weight_n = self.weight
        mean = float(weight_n @ values)
        residual_n = values - mean
        if self.moment.shape[1]:
            root_n = np.sqrt(weight_n)
            deviation_nm = self.moment - weight_n @ self.moment
            slope_m = np.linalg.lstsq(
                root_n[:, None] * deviation_nm, root_n * residual_n, rcond=None
            )[0]
            # What rounding leaves of a mean that is known is not an error.
            explained_n = deviation_nm @ slope_m
            residual_n = np.where(
                np.abs(residual_n - explained_n) <= 1e-12 * np.abs(residual_n).max(),
                0.0,
                residual_n - explained_n,
            )
        moved = self.weights.mean(self.factor * residual_n, level)
        low, high = moved.interval
        return Estimate(
            mean, moved.stderr, (mean + low - moved.value, mean + high - moved.value), level
        )


def weigh_images(
    images: GivenImages,
    bias: Any,
    target: Target | None,
    moments: Mapping[str, Any] | None,
    *,
    max_unlike: float = 0.2,
    seed: int = 0,
) -> TargetWeights:
    """Debias, multiply by the design weights, calibrate to the moments: in that order."""
    n = len(images)
    design_n = _design_weights(images.sample_weight, n)
    pool = None if bias is None and target is None and not moments else pool_images(images)
    weights = (
        _as_they_are(images, pool)
        if bias is None and target is None
        else _debias(pool, bias, target, max_unlike, seed)
    )
    base_n = weights.weight if design_n is None else weights.weight * design_n
    total = float(base_n.sum())
    if not total > 0:
        raise DataError(
            "sample_weight is zero on every image that the debiasing weights keep, so nothing is "
            "left to learn from."
        )
    if not moments:
        factor_n = np.ones(n) if design_n is None else design_n / total
        return TargetWeights(
            weights, factor_n, None, np.empty((n, 0)), 1.0 if design_n is None else total
        )
    from unskew.weigh.calibrate import calibrate_weights

    assert pool is not None
    means = _read_moments(moments, pool)
    calibration = calibrate_weights(base_n, means=means)
    factor_n = np.divide(
        calibration.weight, weights.weight, out=np.zeros(n), where=weights.weight > 0
    )
    moment_nm = np.column_stack([value_n for value_n, _ in means.values()])
    return TargetWeights(
        weights, factor_n, calibration, moment_nm, 1.0 if design_n is None else total
    )


def _debias(
    pool: Pool | None, bias: Any, target: Target | None, max_unlike: float, seed: int
) -> Weights:
    from unskew.bias.strata import Strata
    from unskew.debiasing.pool_weights import debias

    assert pool is not None
    given: Any = target  # of any kind where it comes from a user
    if given is not None and not isinstance(given, Target):
        raise ConfigError(
            f"target is an unskew.Target, such as Target.margins({{…}}); got {given!r}."
        )
    if bias is None and target is not None and target.kind in ("sample", "source"):
        raise ConfigError(
            f"the target is a {target.kind}, which says whom the images shall resemble but not in "
            "what; say it by the bias model, for "
            "instance bias=Tilt(features) or bias=Propensity(features)."
        )
    return debias(
        pool, Strata() if bias is None else bias, target, max_unlike=max_unlike, seed=seed
    )


def _as_they_are(images: GivenImages, pool: Pool | None) -> Weights:
    """ω ≡ 1: π_i = 1/n. Of several sources only where moments move the weights afterwards."""
    from unskew.weigh.solved_weights import debias_weights

    n = len(images)
    if pool is None and images.source is None:
        names, source_n = [ONE_SOURCE], np.zeros(n, dtype=np.int64)
    else:
        bare = (
            pool
            if pool is not None
            else pool_images(GivenImages(images.X, None, images.source), features=False)
        )
        names, source_n = list(bare.names), bare.source.astype(np.int64)
        if pool is None and len(names) > 1:
            raise ConfigError(
                f"source names {len(names)} databases ({first_few(names)}), but nothing says how "
                "they are biased or whom they shall speak "
                "of. Give bias (for instance unskew.bias.Strata('label')), target, or both; to "
                "pool them as they are, leave source out."
            )
    ids = None if pool is None else np.asarray(pool.frame["id"])
    return debias_weights(
        np.ones((n, len(names))), source_n, group=images.group, names=names, id=ids
    )


def pool_images(images: GivenImages, *, features: bool = True) -> Pool:
    """X, y and what goes with them as a pool.

    Columns: those of a DataFrame X, or x_0, x_1, … of an array; ``label``, or label_0, … for
    several outputs; ``source``, ``group``, and the columns of ``attributes``. An X that is no table
    (sparse, text, arrays of images) adds no columns. The ids are the column id of ``attributes``,
    else the index of a DataFrame X where it is unique, else the row numbers.
    """
    import pandas as pd

    n = len(images)
    index = images.X.index if isinstance(images.X, pd.DataFrame) else None
    role = {
        "source": [ONE_SOURCE] * n if images.source is None else images.source,
        "group": images.group,
    }
    columns = {
        name: _one_column(values, name, n, index)
        for name, values in role.items()
        if values is not None
    }
    columns |= _label_columns(images.y, n, images.has_classes)
    parts = [pd.DataFrame({name: pd.Series(values).array for name, values in columns.items()})]
    given = {
        "X": _feature_frame(images.X) if features else None,
        "attributes": _attribute_frame(images.attributes, n, index),
    }
    for where, frame in given.items():
        if frame is not None:
            _check_names(where, frame, [name for part in parts for name in part.columns])
            parts.append(
                frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
            )
    if "id" not in parts[-1].columns:
        parts[0]["id"] = index if index is not None and index.is_unique else np.arange(n)
    return Pool(pd.concat(parts, axis=1))


def _one_column(values: Any, name: str, n: int, index: pd.Index | None) -> Any:
    _check_order(values, name, index)
    # pandas' categories carry the order of the sources; anything else is read as an array.
    column = values.array if hasattr(values, "array") and hasattr(values, "index") else values
    column = column if hasattr(column, "categories") else np.asarray(column)
    if column.ndim != 1 or len(column) != n:
        raise DataError(
            f"{name} has one entry for each of the {n} images, in one dimension; got shape "
            f"{column.shape}."
        )
    return column


def _label_columns(y: Any, n: int, has_classes: bool) -> dict[str, Any]:
    import pandas as pd

    if y is None:
        return {}
    label = np.asarray(y)
    if label.shape[:1] != (n,) or label.ndim > 2:
        raise DataError(f"y has one entry for each of the {n} images; got shape {label.shape}.")
    outputs = (
        {"label": label.reshape(n)}
        if label.size == n
        else {f"label_{d}": label[:, d] for d in range(label.shape[1])}
    )
    return {
        name: pd.Categorical(values) if has_classes else values for name, values in outputs.items()
    }


def _feature_frame(X: Any) -> pd.DataFrame | None:
    import pandas as pd
    import scipy.sparse

    if isinstance(X, pd.DataFrame) or hasattr(X, "to_pandas"):
        return X if isinstance(X, pd.DataFrame) else X.to_pandas()
    if scipy.sparse.issparse(X):
        return None
    array = np.asarray(X)
    return (
        pd.DataFrame(array, columns=[f"x_{d}" for d in range(array.shape[1])])
        if array.ndim == 2
        else None
    )


def _attribute_frame(attributes: Any, n: int, index: pd.Index | None) -> pd.DataFrame | None:
    import pandas as pd

    if attributes is None:
        return None
    if not isinstance(attributes, pd.DataFrame | Mapping):
        raise DataError(
            "attributes is a DataFrame, or a dict with an array for each column; got "
            f"{type(attributes).__name__}."
        )
    _check_order(attributes, "attributes", index)
    frame = pd.DataFrame(attributes)
    if len(frame) != n:
        raise DataError(f"attributes has one row for each of the {n} images; got {len(frame)}.")
    return frame


def _check_order(given: Any, what: str, index: pd.Index | None) -> None:
    own: Any = getattr(given, "index", None)
    if index is None or not hasattr(own, "equals") or len(own) != len(index) or own.equals(index):
        return
    if sorted(map(str, own)) == sorted(map(str, index)):
        raise DataError(
            f"{what} and X have the same index in another order; reorder one of them, e.g. {what} "
            f"= {what}.loc[X.index]."
        )


def _check_names(where: str, frame: pd.DataFrame, taken: Sequence[str]) -> None:
    roles = set(ROLES) - {"split", "path", "content"} - ({"id"} if where == "attributes" else set())
    twice = [str(name) for name in frame.columns if str(name) in taken or str(name) in roles]
    if twice:
        raise DataError(
            f"{where} has a column {twice[0]!r}, a name that is already taken: label is y, source "
            "and group are arguments of their own, id "
            "is a column of attributes, and a column of attributes must not be one of X. Rename it."
        )


def _design_weights(sample_weight: Any, n: int) -> Floats | None:
    if sample_weight is None:
        return None
    design_n = np.asarray(sample_weight, dtype=np.float64)
    if design_n.shape != (n,):
        raise DataError(
            f"sample_weight has one number for each of the {n} images, in one dimension; got shape "
            f"{design_n.shape}."
        )
    if not np.isfinite(design_n).all() or design_n.min(initial=0.0) < 0:
        row = int(np.flatnonzero(~(np.isfinite(design_n) & (design_n >= 0)))[0])
        raise DataError(
            f"sample_weight is finite and not negative, but image {row} has {design_n[row]}."
        )
    return design_n


def _read_moments(moments: Mapping[str, Any], pool: Pool) -> dict[str, tuple[Floats, float]]:
    """For each known moment the values of the images and their target mean; a standard deviation s
    is the mean s² of (v − mean)².
    """
    means: dict[str, tuple[Floats, float]] = {}
    whole: Any = moments  # of any kind where it comes from a user
    if not isinstance(whole, Mapping):
        raise ConfigError(
            f"moments is a table {{column: mean}} or {{column: {{'mean': …, 'sd': …}}}}; got "
            f"{whole!r}."
        )
    for column, known in moments.items():
        value_n = _numbers(pool, column)
        given = dict(known) if isinstance(known, Mapping) else {"mean": known}
        numbers = all(
            isinstance(each, Real) and np.isfinite(float(each)) for each in given.values()
        )
        if "mean" not in given or not set(given) <= {"mean", "sd"} or not numbers:
            raise ConfigError(
                f"a moment is a mean, or {{'mean': …, 'sd': …}}; for {column!r} it is {known!r}."
            )
        if given.get("sd", 0.0) < 0:
            raise ConfigError(
                f"sd is a standard deviation, which is not negative; for {column!r} it is "
                f"{given['sd']!r}."
            )
        mean = float(given["mean"])
        means[f"{column}: mean"] = (value_n, mean)
        if "sd" in given:
            means[f"{column}: variance"] = (np.square(value_n - mean), float(given["sd"]) ** 2)
    return means


def _numbers(pool: Pool, column: str) -> Floats:
    if column not in pool.frame.columns:
        raise DataError(
            f"moments names {column!r}, but the images have no such column; theirs are "
            f"{first_few(list(pool.frame.columns), 12)}."
            f"{did_you_mean(column, pool.frame.columns)}"
        )
    try:
        value_n = pool.frame[column].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"moments speaks of the mean of {column!r}, whose values are no numbers."
        ) from error
    if not np.isfinite(value_n).all():
        raise DataError(
            f"moments speaks of {column!r}, which is missing or infinite for "
            f"{int((~np.isfinite(value_n)).sum())} images."
        )
    return value_n
