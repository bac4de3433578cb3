"""What probes tell before training: the forecast of the gain, and the rehearsal of transfer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from unskew.engine.threads import one_blas_thread
from unskew.errors import ConfigError, first_few
from unskew.records import Pool
from unskew.runs.inputs import Inputs

if TYPE_CHECKING:
    import pandas as pd

    from unskew.forecasting.record import Forecast
    from unskew.forecasting.rehearsal_record import Rehearsal

log = logging.getLogger(__name__)

# A representation with so many numbers (pixels, a histogram) says more about an image than a few
# properties of another scale.
_MANY = 8
_WORTH_THREADS = 20_000


def forecast_inputs(
    inputs: Inputs, arms: Sequence[str], learner: str | None = None, *, progress: bool | None = None
) -> Forecast:
    """Forecast what reweighting will bring, from probes on the features of the configuration.

    Only the training split is used, where there are splits. ``learner`` is ``module:name`` of a
    scikit-learn classifier, made without arguments, in place of the linear probe.
    """
    from unskew.forecasting.gain import forecast_gain

    config = inputs.config
    # scikit-learn's solvers pass over few numbers so often that threads mostly wait for one
    # another.
    few = len(inputs.pool) < _WORTH_THREADS
    with one_blas_thread() if learner is not None and few else nullcontext():
        return forecast_gain(
            images_to_train_on(inputs.pool),
            inputs.bias,
            inputs.target,
            features=probe_features(inputs),
            arms=arms,
            learner=None if learner is None else make_learner(learner),
            max_uncovered=config.solve.max_uncovered,
            seed=config.engine.seed,
            progress=progress,
            **{
                name: value
                for name, value in config.solve.settings().items()
                if name != "max_uncovered"
            },
        )


def make_learner(reference: str) -> Any:
    """Call what ``module:name`` names, such as ``sklearn.linear_model:LogisticRegression``."""
    from unskew.represent.user_functions import find_function

    if ":" not in reference:
        raise ConfigError(
            "a learner is given as module:name, such as sklearn.linear_model:LogisticRegression; "
            f"got {reference!r}. Without one it is a "
            "linear probe.",
            option="--learner",
            value=reference,
        )
    try:
        return find_function(reference)()
    except TypeError as error:
        raise ConfigError(
            f"the learner {reference!r} is called without arguments, and it cannot be ({error}).",
            option="--learner",
            value=reference,
        ) from error


def rehearse_inputs(inputs: Inputs, *, progress: bool | None = None) -> Rehearsal:
    """Rehearse with each source in turn as the target."""
    from unskew.forecasting.rehearsal import rehearse

    config = inputs.config
    return rehearse(
        images_to_train_on(inputs.pool),
        inputs.bias,
        inputs.target,
        features=probe_features(inputs),
        max_uncovered=config.solve.max_uncovered,
        seed=config.engine.seed,
        progress=progress,
    )


def images_to_train_on(pool: Pool) -> Pool:
    """Return the images of the split train, or all where there is no such split."""
    if "split" not in pool.frame.columns:
        return pool
    in_train = pool.frame["split"] == "train"
    return pool.take(in_train.to_numpy()) if in_train.any() else pool


def probe_features(inputs: Inputs) -> list[str]:
    """Choose the columns that a probe learns from.

    They are those of the embedding, else of the representation with the most numbers (pixels, a
    histogram) if it has at least eight, else all that the representations added, or without any the
    numbers of the table. Columns with gaps are left out, with a warning.
    """
    frame, features = inputs.pool.frame, inputs.config.represent.features
    gaps = {
        name: int(frame[name].isna().sum())
        for name in inputs.pool.attributes
        if frame[name].dtype.kind in "fiu"
    }
    names = [feature["name"] if isinstance(feature, dict) else feature for feature in features]
    names = [name.rpartition(":")[2] for name in names]
    columns_of = {name: [column for column in gaps if _is_of(column, name)] for name in names}
    added = {column for columns in columns_of.values() for column in columns}
    _warn_of_gaps({name: gap for name, gap in gaps.items() if not names or name in added}, frame)
    full = {
        name: [column for column in columns if not gaps[column]]
        for name, columns in columns_of.items()
    }
    if full.get("embedding"):
        return full["embedding"]
    widest = max(full.values(), key=len, default=[])
    if len(widest) >= _MANY:
        return widest
    columns = [column for columns in full.values() for column in columns]
    if not names:
        columns = [column for column, gap in gaps.items() if not gap]
    if not columns:
        raise ConfigError(
            "a probe learns from numbers, and the images have none: name representations, such as "
            'represent.features = ["embedding"].',
            key="represent.features",
        )
    return columns


def _is_of(column: str, representation: str) -> bool:
    return column == representation or column.startswith(f"{representation}_")


def _warn_of_gaps(gaps: Mapping[str, int], frame: pd.DataFrame) -> None:
    left_out = [
        f"{name} ({gap:,} of {len(frame):,} images have none)" for name, gap in gaps.items() if gap
    ]
    if left_out:
        log.warning(
            "a probe learns from numbers that every image has, so it leaves out %s. Fill the gaps "
            "to use them.",
            first_few(left_out),
        )
