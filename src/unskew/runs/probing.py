"""A configuration looked at ahead of training: the forecast of the gain, and the rehearsal with
each source as the target.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from unskew.engine.threads import one_blas_thread
from unskew.errors import ConfigError, first_few
from unskew.records import Pool
from unskew.runs.inputs import Inputs

if TYPE_CHECKING:
    from unskew.forecasting.record import Forecast
    from unskew.forecasting.rehearsal_record import Rehearsal

log = logging.getLogger(__name__)

# A representation with so many numbers (pixels, a histogram) says more of an image than a few
# properties, whose scale is another.
_MANY = 8
_WORTH_THREADS = 20_000


def forecast_inputs(
    inputs: Inputs, arms: Sequence[str], learner: str | None = None, *, progress: bool | None = None
) -> Forecast:
    """What reweighting will bring, from probes on the features of the configuration; the training
    split only, where there are splits.

    ``learner``: ``module:name`` of a scikit-learn classifier, made without arguments, in place of
    the linear probe.
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
    """What ``module:name`` gives when it is called, such as
    ``sklearn.linear_model:LogisticRegression``.
    """
    from unskew.represent.user_functions import find_function

    if ":" not in reference:
        raise ConfigError(
            "a learner is given as module:name, such as sklearn.linear_model:LogisticRegression; "
            f"got {reference!r}. Without one it is a "
            "linear probe."
        )
    try:
        return find_function(reference)()
    except TypeError as error:
        raise ConfigError(
            f"the learner {reference!r} is called without arguments, and it cannot be ({error})."
        ) from error


def rehearse_inputs(inputs: Inputs, *, progress: bool | None = None) -> Rehearsal:
    """Each source in turn as the target."""
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
    """Those of the split train, or all."""
    split = pool.frame["split"] if "split" in pool.frame.columns else None
    return (
        pool.take((split == "train").to_numpy())
        if split is not None and (split == "train").any()
        else pool
    )


def probe_features(inputs: Inputs) -> list[str]:
    """Columns of the embedding, else of the representation with the most numbers (pixels, a
    histogram) if it has at least eight, else all that the representations added, or without any the
    numbers of the table.
    """
    frame = inputs.pool.frame
    named = [
        each["name"] if isinstance(each, dict) else each
        for each in inputs.config.represent.features
    ]
    named = [each.rpartition(":")[2] for each in named]
    numeric = {
        name: int(frame[name].isna().sum())
        for name in inputs.pool.attributes
        if frame[name].dtype.kind in "fiu"
    }
    numbers = [name for name, gaps in numeric.items() if not gaps]
    asked = [
        name
        for name in numeric
        if not named or any(name == each or name.startswith(f"{each}_") for each in named)
    ]
    gappy = [
        f"{name} ({numeric[name]:,} of {len(frame):,} images have none)"
        for name in asked
        if numeric[name]
    ]
    if gappy:
        log.warning(
            "a probe learns from numbers that every image has, so it leaves out %s. Fill the gaps "
            "to use them.",
            first_few(gappy),
        )
    found = {
        each: [name for name in numbers if name == each or name.startswith(f"{each}_")]
        for each in named
    }
    columns = [name for own in found.values() for name in own] if named else numbers
    widest = (
        "embedding"
        if found.get("embedding")
        else max(found, key=lambda each: len(found[each]), default="")
    )
    if widest and len(found[widest]) >= (1 if widest == "embedding" else _MANY):
        columns = found[widest]
    if not columns:
        raise ConfigError(
            "a probe learns from numbers, and the images have none: name representations, such as "
            'represent.features = ["embedding"].'
        )
    return columns
