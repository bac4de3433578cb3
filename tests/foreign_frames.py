"""Doors that take a pandas frame, each called with a table made by a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import unskew
from unskew.learn import WeightedSampler

RNG = np.random.default_rng(3)
LABEL = np.repeat(["cat", "dog", "cat", "dog"], [40, 10, 15, 35])
FRAME = pd.DataFrame(
    {
        "id": [f"{i}.jpg" for i in range(100)],
        "source": np.repeat(["north", "south"], 50),
        "label": LABEL,
        "x": RNG.normal(size=100) + (LABEL == "cat"),
        "z": RNG.normal(size=100),
    }
)
JOINT = pd.DataFrame({"label": ["cat", "dog"], "count": [30, 70]})
POOL = unskew.Pool.from_frame(FRAME)
TARGET = unskew.Target.table(JOINT)
WEIGHTS = unskew.debias(POOL, unskew.bias.Strata("label"), TARGET)
OMEGA = pd.DataFrame({"north": 1 + (LABEL == "cat"), "south": 1.0 + (LABEL == "dog")})
P_CAT = 0.5 + 0.4 * np.tanh(np.where(LABEL == "cat", 2, -2) + FRAME["z"])
SCORES = pd.DataFrame({"cat": P_CAT, "dog": 1 - P_CAT})
PREDICTED = pd.DataFrame(
    {"id": FRAME["id"], "y": LABEL, "prediction": np.where(FRAME["z"] > 0, "cat", "dog")}
)
TABLE = WEIGHTS.to_frame().assign(label=LABEL)
Make = Callable[[pd.DataFrame], Any]


def _predictions(make: Make) -> Any:
    both = {"weights_table": make(TABLE), "attributes": make(FRAME[["id", "z"]])}
    results = unskew.evaluate_predictions(
        predictions=[make(PREDICTED)], second=make(PREDICTED), replicates=0, **both
    )
    return results.to_dict()


def _pairs(make: Make) -> Any:
    pairs = pd.DataFrame({"id_a": FRAME["id"][:99], "id_b": FRAME["id"].to_numpy()[1:]})
    pairs["score"] = P_CAT[:99]
    pairs["same"] = np.arange(99) % 2 == 0
    return unskew.evaluate_pairs(make(TABLE), make(pairs)).to_dict()


def _classifier(make: Make) -> Any:
    model = unskew.DebiasedClassifier(target=TARGET, way="weights")
    model.fit(make(FRAME[["x", "z"]]), LABEL, source=FRAME["source"], attributes=make(JOINED))
    return model.predict_proba(make(FRAME[["x", "z"]])), list(model.feature_names_in_)


JOINED = pd.DataFrame({"country": np.where(FRAME["z"] > 1, "fr", "de")})
DOORS: Mapping[str, Callable[[Make], Any]] = {
    "Pool.from_frame": lambda make: unskew.Pool.from_frame(make(FRAME)).frame,
    "Pool": lambda make: unskew.Pool(make(FRAME)).frame,
    "Target.table": lambda make: unskew.Target.table(make(JOINT)).describe(),
    "Target.stratify": lambda make: TARGET.stratify(make(FRAME)).mass,
    "Target.margins": lambda make: unskew.Target.margins(
        {"label": {"cat": 0.3, "dog": 0.7}}, interactions=make(JOINT)
    ).describe(),
    "Target.from_predictions": lambda make: unskew.Target.from_predictions(
        make(SCORES), make(SCORES), LABEL
    ).describe(),
    "check_overlap": lambda make: unskew.check_overlap(make(OMEGA), FRAME["source"]).common_mass,
    "debias_weights": lambda make: unskew.debias_weights(make(OMEGA), FRAME["source"]).weight,
    "Known": lambda make: (
        unskew.bias.Known(make(OMEGA.assign(id=FRAME["id"]))).fit(POOL).omega(POOL)
    ),
    "omega": lambda make: unskew.bias.Strata("label").fit(POOL, TARGET).omega(make(FRAME)),
    "weights.weigh": lambda make: WEIGHTS.weigh(make(FRAME.head(7))),
    "calibrate_weights": lambda make: (
        unskew.calibrate_weights(
            WEIGHTS.weight, margins={"label": {"cat": 0.4, "dog": 0.6}}, by=make(FRAME[["label"]])
        ).weight
    ),
    "evaluate_predictions": _predictions,
    "evaluate_pairs": _pairs,
    "DebiasedClassifier": _classifier,
    "WeightedSampler": lambda make: list(
        WeightedSampler(make(WEIGHTS.to_frame()), FRAME["id"], seed=1)
    ),
}


def assert_same(got: Any, wanted: Any) -> None:
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(got, wanted, check_dtype=False)
    else:
        np.testing.assert_equal(_rounded(got), _rounded(wanted))


def _rounded(value: Any) -> Any:
    """Round numbers: the order of columns in memory changes the last digit of sums."""
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return np.round(value, 12) if isinstance(value, np.ndarray | float) else value
