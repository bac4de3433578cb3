"""The density ratio of target and pool from a classifier that tells their images apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Floats

if TYPE_CHECKING:
    import pandas as pd


def odds_of_target(
    pool: pd.DataFrame, sample: pd.DataFrame, features: Sequence[str], C: float
) -> Floats:
    """Return the (n,) odds P(target | x)/P(pool | x) of the images of the pool, scaled to sum 1.

    By Bayes' rule the odds are p_target(x)/p_pool(x) up to a constant. The classifier is logistic
    regression with ridge penalty 1/C on standardised numbers and on indicators of levels, so log
    weights are linear in them: Gaussians of one covariance are fitted exactly, and so, without
    penalty, is a single attribute, with weights p_target(level)/p_pool(level).

    Parameters
    ----------
    pool, sample : tables with the columns ``features``, numbers or levels.
    C : inverse strength of the penalty.
    """
    import pandas as pd

    for table, what in ((pool, "the pool"), (sample, "the sample of the target")):
        _check_features(table, features, what)
    both = pd.concat([pool[list(features)], sample[list(features)]], ignore_index=True)
    is_target_m = np.repeat([0, 1], [len(pool), len(sample)])
    log_odds_n = _logistic(both, C).fit(both, is_target_m).decision_function(both[: len(pool)])
    weight_n = np.exp(log_odds_n - log_odds_n.max())
    return np.asarray(weight_n / weight_n.sum(), dtype=np.float64)


def _check_features(table: pd.DataFrame, features: Sequence[str], what: str) -> None:
    columns = list(table.columns)
    for name in features:
        if name not in columns:
            raise DataError(
                f"{what} has no column {name!r}; it has "
                f"{first_few(columns, 12)}.{did_you_mean(name, columns)}",
                column=name,
                columns=columns,
            )
        missing = int(table[name].isna().sum())
        if missing:
            raise DataError(
                f"{name} is missing for {missing} of {len(table)} images of {what}; fill it in, or "
                "leave those images out.",
                column=name,
                count=missing,
            )


def _logistic(both: pd.DataFrame, C: float) -> Any:
    """Make logistic regression on standardised numbers and indicators of levels."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if not C > 0:
        raise ConfigError(
            f"C is the inverse strength of the penalty, above 0; got {C!r}.", option="C", value=C
        )
    is_number = {
        name: bool(pd.api.types.is_numeric_dtype(both[name]))
        and not pd.api.types.is_bool_dtype(both[name])
        for name in both.columns
    }
    numbers = [name for name, number in is_number.items() if number]
    levels = [name for name, number in is_number.items() if not number]
    infinite = [
        name for name in numbers if not np.isfinite(both[name].to_numpy(dtype=np.float64)).all()
    ]
    if infinite:
        raise DataError(
            f"features must be finite; {first_few(infinite)} has infinite values.",
            columns=infinite,
        )
    steps = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), levels)
    )
    # Few features, so Newton's method: it converges to the last digits, and weights are compared
    # with closed forms.
    return make_pipeline(
        steps, LogisticRegression(C=C, solver="newton-cholesky", max_iter=1000, tol=1e-8)
    )
