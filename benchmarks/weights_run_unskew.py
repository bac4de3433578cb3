"""unskew itself, in the environment that runs the benchmark: ``debias`` with what each row of the
table says is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import unskew
from unskew.bias import Bias

PACKAGES = ("unskew", "numpy", "scipy", "numba", "pandas", "scikit-learn")
Data = dict[str, np.ndarray]
Compute = Callable[[], np.ndarray]


def _pool(features: np.ndarray, source: np.ndarray, label: np.ndarray | None) -> unskew.Pool:
    return unskew.Pool.from_arrays(
        source, label=label, **{f"x{j}": column for j, column in enumerate(features.T)}
    )


def _names(data: Data) -> list[str]:
    return [f"x{j}" for j in range(data["features"].shape[1])]


def _sample(data: Data) -> unskew.Target:
    """The target sample that the peers get; it takes no part in the weighted means."""
    return unskew.Target.sample(
        _pool(data["sample"], np.full(len(data["sample"]), "target"), data.get("sample_label"))
    )


def _margin(data: Data) -> unskew.Target:
    return unskew.Target.margins(
        {"label": {level: float(share) for level, share in enumerate(data["margin"])}}
    )


def _debias(
    bias: Callable[[Data], Bias],
    target: Callable[[Data], unskew.Target] | None = None,
    judge: bool = False,
    shrink: Callable[[Data], dict[str, np.ndarray] | None] | None = None,
) -> Callable[[Data], Compute]:
    """``shrink``: the values whose means shall be shrunk, or None for the features of the model."""

    def prepare(data: Data) -> Compute:
        pool = _pool(data["features"], np.char.add("s", data["source"].astype(str)), data["label"])
        model, aim = bias(data), None if target is None else target(data)
        if shrink is None:
            return lambda: np.asarray(unskew.debias(pool, model, aim, check_sample=judge).weight)
        means = shrink(data)
        return lambda: np.asarray(
            unskew.shrink_weights(unskew.debias(pool, model, aim, check_sample=judge), means).weight
        )

    return prepare


def _features_of_model(data: Data) -> None:
    return None


def _what_selection_depends_on(data: Data) -> dict[str, np.ndarray]:
    """The features, or the labels where ω is the same for all images of a label (a matrix of ω does
    not tell).
    """
    _, first, code = np.unique(data["label"], return_index=True, return_inverse=True)
    if np.array_equal(data["log_omega"][first][code], data["log_omega"]):
        return _labels(data)
    return dict(zip(_names(data), data["features"].T, strict=True))


def _labels(data: Data) -> dict[str, np.ndarray]:
    return {f"label {level}": data["label"] == level for level in np.unique(data["label"])}


def _known(data: Data) -> Bias:
    return unskew.bias.Known(data["log_omega"], log=True)


METHODS: dict[str, Callable[[dict[str, Any]], Compute]] = {
    "known": _debias(_known),
    "known_shrunk": _debias(_known, shrink=_what_selection_depends_on),
    "strata": _debias(lambda data: unskew.bias.Strata("label"), _margin),
    "strata_sample": _debias(lambda data: unskew.bias.Strata("label"), _sample),
    "strata_sample_shrunk": _debias(
        lambda data: unskew.bias.Strata("label"), _sample, shrink=_labels
    ),
    "strata_source": _debias(
        lambda data: unskew.bias.Strata("label"), lambda data: unskew.Target.source("s1")
    ),
    "tilt": _debias(lambda data: unskew.bias.Tilt(_names(data)), _sample),
    "tilt_shrunk": _debias(
        lambda data: unskew.bias.Tilt(_names(data)), _sample, shrink=_features_of_model
    ),
    "tilt_judged": _debias(lambda data: unskew.bias.Tilt(_names(data)), _sample, judge=True),
    "propensity": _debias(lambda data: unskew.bias.Propensity(_names(data)), _sample),
    "soft_box": _debias(lambda data: unskew.bias.SoftBox(_names(data))),
    "soft_box_shrunk": _debias(
        lambda data: unskew.bias.SoftBox(_names(data)), shrink=_features_of_model
    ),
    "soft_box_sample": _debias(lambda data: unskew.bias.SoftBox(_names(data)), _sample),
    "soft_box_sample_shrunk": _debias(
        lambda data: unskew.bias.SoftBox(_names(data)), _sample, shrink=_features_of_model
    ),
}
