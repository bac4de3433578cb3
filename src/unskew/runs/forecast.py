"""A configuration looked at ahead of training: its forecast, and what forecast.json contains."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.threads import one_blas_thread
from unskew.errors import ConfigError, UnskewError, first_few
from unskew.files.plain_json import json_value
from unskew.files.user_code import import_reference
from unskew.forecasting.sentences import PIXELS
from unskew.records import Pool
from unskew.records.levels import INDICATOR, level_text
from unskew.report.summary.privacy import private_provenance
from unskew.runs.inputs import (
    Inputs,
    describe_origin,
    images_to_train_on,
    usable_cache,
    warn_of_placeholder,
)
from unskew.runs.page_panels import with_forecast
from unskew.runs.pipeline import Run

if TYPE_CHECKING:
    import pandas as pd

    from unskew.config.run_config import RunConfig
    from unskew.forecasting.record import Forecast
    from unskew.learn.presets import Way

log = logging.getLogger(__name__)

# A representation with so many numbers (pixels, a histogram) says more about an image than a few
# properties of another scale.
_MANY = 8
# Of the squares that images are reduced to where a probe has no better features.
_SIDE = 16
_WORTH_THREADS = 20_000


def forecast_inputs(
    inputs: Inputs,
    arms: Sequence[str],
    learner: str | None = None,
    way: Way | None = None,
    *,
    progress: bool | None = None,
) -> Forecast:
    """Forecast what reweighting will bring, from probes on the features of `probe_input`.

    Only the training split is used, where there are splits. ``learner`` is ``module:name`` of a
    scikit-learn classifier, made without arguments, in place of the linear probe. ``way`` is that
    of `[learn]` by default; for "head", which needs a network, the best of the others.
    """
    from unskew.forecasting.gain import forecast_gain

    warn_of_placeholder(inputs)
    pool, features = probe_input(inputs, progress)
    config = inputs.config
    # scikit-learn's solvers pass over few numbers so often that threads mostly wait for one
    # another.
    few = len(inputs.pool) < _WORTH_THREADS
    with one_blas_thread() if learner is not None and few else nullcontext():
        return forecast_gain(
            images_to_train_on(pool),
            inputs.bias,
            inputs.target,
            features=features,
            arms=arms,
            learner=None if learner is None else make_learner(learner),
            way=way or learn_way(config),
            ridge=config.learn.ridge,
            rng=config.engine.seed,
            progress=progress,
            **config.solve.settings(),
        )


def learn_way(config: RunConfig) -> Way:
    way: Way | None = getattr(config.learn, "way", None)
    return "auto" if way in (None, "head") else way


def make_learner(reference: str) -> Any:
    """Call what ``module:name`` names, such as ``sklearn.linear_model:LogisticRegression``."""
    if ":" not in reference:
        raise ConfigError(
            "a learner is given as module:name, such as sklearn.linear_model:LogisticRegression; "
            f"got {reference!r}. Without one it is a linear probe.",
            option="--learner",
            value=reference,
        )
    try:
        return import_reference(reference)()
    except TypeError as error:
        raise ConfigError(
            f"the learner {reference!r} is called without arguments, and it cannot be ({error}).",
            option="--learner",
            value=reference,
        ) from error


def probe_input(inputs: Inputs, progress: bool | None = None) -> tuple[Pool, list[str]]:
    """Return what a forecast's probe learns from: the pool, and names of its columns.

    They are those of `probe_features` if there are at least eight, or a probe is what will be
    trained, or there is nothing but a table. A few properties such as brightness tell classes
    apart badly: in their place every image is reduced to 16 × 16 pixels.
    """
    pool, config = inputs.pool, inputs.config
    has_pixels = pool.images is not None and config.learn.preset != "probe"
    try:
        columns = probe_features(inputs)
    except ConfigError:
        columns = []
        if not has_pixels:
            raise
    if len(columns) >= _MANY or not has_pixels:
        return pool, columns
    import pandas as pd

    from unskew.represent.square_pixels import square_images

    pool, square_n = square_images(
        pool,
        _SIDE,
        config.learn.resize,
        cache=usable_cache(config),
        jobs=config.engine.jobs,
        tolerance=config.sources.tolerance,
        max_pixels=config.sources.max_pixels,
        progress=progress,
    )
    pixel_nd = np.asarray(square_n, dtype=np.float32).reshape(len(pool), -1) / 255
    names = [f"{PIXELS}_{d}" for d in range(pixel_nd.shape[1])]
    table = pd.DataFrame(pixel_nd, columns=names, index=pool.frame.index)
    return replace(pool, frame=pd.concat([pool.frame, table], axis=1)), names


def probe_features(inputs: Inputs) -> list[str]:
    """Choose the columns that a probe learns from.

    They are those of the embedding, else of the representation with the most numbers (pixels, a
    histogram) if it has at least eight, else all that the representations added, or without any the
    numbers of the table. Columns with gaps are left out, with a warning.
    """
    frame, represent = inputs.pool.frame, inputs.config.represent
    # The numbers of a table have no name in common.
    features = [] if represent.tables else represent.computed
    gaps = {
        name: int(frame[name].isna().sum())
        for name in inputs.pool.attributes
        if frame[name].dtype.kind in "fiu" and not name.startswith(INDICATOR)
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


def forecast_record(
    inputs: Inputs,
    arms: Sequence[str],
    learner: str | None = None,
    way: Way | None = None,
    *,
    command: str | None = None,
    progress: bool | None = None,
) -> tuple[Forecast, dict[str, Any]]:
    """Return the forecast, and what `forecast.json` contains.

    That is the forecast, the arms, the learner and the way that were asked for, how many groups
    (images, without groups) each class has, and where it comes from.
    """
    forecast = forecast_inputs(inputs, arms, learner, way, progress=progress)
    origin = describe_origin(inputs, command)
    if inputs.config.report.privacy == "aggregate":
        origin = private_provenance(origin, inputs.pool)
    frame = images_to_train_on(inputs.pool).frame
    unit = frame["group" if "group" in frame.columns else "id"]
    # An image with several labels counts for each.
    labels = frame["label"] if forecast.labels is None else frame["label"].explode()
    units = unit.loc[labels.index].groupby(labels.map(level_text).to_numpy()).nunique()
    size = {str(name): int(count) for name, count in units.items()}
    record: dict[str, Any] = json_value(
        {
            **forecast.to_dict(),
            "class_size": {name: size.get(name, 0) for name in forecast.class_share},
            "asked": list(arms),
            "learner_reference": learner,
            "asked_way": way,
            "provenance": origin,
        }
    )
    return forecast, record


def add_forecast(
    run: Run,
    arms: Sequence[str] = ("naive", "debiased"),
    learner: str | None = None,
    way: Way | None = None,
    *,
    progress: bool | None = None,
) -> Run:
    """Add a forecast to a run, or a note on its page that says why there is none.

    Weights are never lost because of a forecast.
    """
    try:
        command = run.summary.provenance.get("command")
        _, record = forecast_record(
            run.inputs, arms, learner, way, command=command, progress=progress
        )
        return replace(run, summary=with_forecast(run.summary, record), forecast=record)
    except Exception as error:  # whatever happens in a probe, the weights shall be written
        known = isinstance(error, UnskewError)
        log.warning(
            "no forecast: %s",
            error if known else f"{type(error).__name__}: {error}",
            exc_info=not known and log.isEnabledFor(10),
        )
        # The message may name an image or count some.
        reason = (
            str(error)
            if known and run.summary.privacy == "full"
            else "`unskew forecast` with the same configuration says why"
        )
        note = f"A forecast was asked for, and none can be made: {reason.rstrip('.')}."
        notes = {**run.summary.notes, "forecast": note}
        return replace(run, summary=replace(run.summary, notes=notes))
