"""Wrong arguments of every public function: a typed error, nothing wrong accepted, no hang.

Each argument of each call in `public_calls` is replaced by each of some 40 values: a few of them in
``make test``, all by ``make fuzz``.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fuzz.public_calls import (
    CALLED_BY_US,
    FRAME,
    LOOKUPS,
    RECORDS,
    N,
    World,
    parameters,
    public_calls,
    public_names,
    signature_of,
)
from unskew import UnskewError

ALL = "UNSKEW_MUTANTS" in os.environ
SECONDS = 60.0  # an import of torch on a busy machine takes 20
# Values of each argument that `make test` tries; they take turns.
FEW = 3

# No argument takes one of these.
NEVER: dict[str, Any] = {
    "nan": float("nan"),
    "float32 nan": np.float32("nan"),
    "1j": 1j,
    "10**400": 10**400,
    "bytes": b"x",
    "object": object(),
    "complex array": np.full(N, 1j),
    "complex column": FRAME.assign(z=1j),
}
VALUES: dict[str, Any] = {
    **NEVER,
    **{"None": None, "True": True, "-1": -1, "0": 0, "1.5": 1.5, "2**63": 2**63, "1e308": 1e308},
    **{"-2**63 - 1": -(2**63) - 1, "inf": float("inf"), "-inf": -float("inf")},
    **{"'False'": "False", "''": "", "NUL": "x\0y", "path": Path("/nonexistent/x")},
    **{"[]": [], "{}": {}, "[None]": [None], "['x']": ["no such name"], "{'a': None}": {"a": None}},
    **{"{1: {}}": {1: {}}, "ragged": [[1.0], [1.0, 2.0]], "set": {1}, "class": int},
    **{"function": lambda *values: values, "no rows": pd.DataFrame(), "three": np.zeros(3)},
    **{"rank 3": np.zeros((2, 2, 2)), "objects": np.full(N, None), "nans": np.full(N, np.nan)},
}
# Arguments that take some of them: what they hold is nobody's business, or is read later.
TAKES_ANYTHING = {
    *(("Pool", "set_aside"), ("Pool.from_arrays", "images")),
    *(("evaluate_pairs", "attributes"), ("evaluate_predictions", "attributes")),
    *(("learn.LabelProbes.predict_table", "ids"), ("learn.update_batch_norm", "batches")),
    ("learn.WeightedDataset", "dataset"),
}
# Tables of which some columns are read; others may hold anything.
READS_SOME_COLUMNS = ("Target.", "Weights.weigh", "bias.FittedBias.")
# What scikit-learn refuses, in its own words.
_ESTIMATORS = ("DebiasedClassifier", "DebiasedRegressor")
OF_SCIKIT_LEARN = {
    *(("learn.AdjustedClassifier." + name, "X") for name in ("decision_function", "predict")),
    *(("learn.AdjustedClassifier." + name, "X") for name in ("predict_proba", "score")),
    *(("learn.AdjustedClassifier.predict_log_proba", "X"), ("learn.Baseline.fit", "X")),
    ("learn.Baseline.fit", "y"),
    *(("learn.AdjustedClassifier.score", name) for name in ("y", "sample_weight")),
    *(
        (f"{name}.{call}", of)
        for name in _ESTIMATORS
        for call in ("fit", "target_score")
        for of in "Xy"
    ),
    *((f"{name}.target_score", of) for name in _ESTIMATORS for of in ("cv", "scoring")),
}
# A text may be the name of a dataset on the hub, which would be asked for it.
ASKS_THE_NETWORK = ("Pool.from_huggingface", "dataset")
# Without files of theirs, or by what they are for, these calls end in a typed error.
REFUSED = {
    *("Pool.from_cifar", "Pool.from_coco", "Pool.from_folders", "Pool.from_huggingface"),
    *("bias.Product", "evaluate_run_targets", "learn.AdjustedClassifier.fit", "learn.load_trained"),
}
# Loads Lightning, which takes longer than all others together.
SLOW = {"learn.train_model"}


class _HangError(BaseException):
    pass


def _outcome(call: Callable[[], object]) -> str:
    """Return "accepted", "refused", or what else happened."""

    def stop(*_: object) -> None:
        raise _HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except UnskewError as error:
        return "refused" if str(error) else "an error without a message"
    except _HangError:
        return f"no end after {SECONDS} seconds"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return "accepted"


def _is_wrong(name: str, parameter: str, value: str, default: Any) -> bool:
    """Tell whether this value must be refused, from the default of the argument."""
    is_unused = name.startswith(READS_SOME_COLUMNS) and value == "complex column"
    if (name, parameter) in TAKES_ANYTHING or is_unused:
        return False
    if isinstance(default, bool):
        return value != "True"
    is_number = isinstance(default, int | float)
    return value in NEVER or (is_number and not isinstance(VALUES[value], int | float | None))


def _trials(calls: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, parameter, value): all, or a few that take turns."""
    turn, names = 0, list(VALUES)
    for name, (function, arguments) in calls.items():
        for parameter in dict.fromkeys((*parameters(function), *arguments)):
            count = len(names) if ALL else FEW
            for at in range(turn, turn + count):
                if (name, parameter) != ASKS_THE_NETWORK or "'" not in names[at % len(names)]:
                    yield name, parameter, names[at % len(names)]
            turn += count


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return public_calls(World(tmp_path_factory.mktemp("world")))


def test_every_public_function_has_a_call(calls: dict[str, Any]) -> None:
    inherited = {name for name in calls if name.startswith(("bias.Bias.", "bias.FittedBias."))}
    listed = {*calls, *RECORDS, *CALLED_BY_US, *LOOKUPS}
    assert set(public_names()) == listed - inherited


def test_the_calls_are_legitimate(calls: dict[str, Any]) -> None:
    outcomes = {
        name: _outcome(lambda: function(**arguments))  # noqa: B023
        for name, (function, arguments) in calls.items()
        if ALL or name not in SLOW
    }
    wrong = {name: what for name, what in outcomes.items() if what != "accepted"}
    assert wrong == dict.fromkeys(REFUSED, "refused")


def test_wrong_arguments_are_refused_by_a_typed_error(
    calls: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a text that is a path leads to
    wrong = []
    for name, parameter, value in _trials(calls):
        function, arguments = calls[name]
        default = signature_of(function).parameters.get(parameter)
        is_wrong = _is_wrong(name, parameter, value, getattr(default, "default", None))
        if name in SLOW and not (ALL or is_wrong):
            continue
        given = {**arguments, parameter: VALUES[value]}
        outcome = _outcome(lambda: function(**given))  # noqa: B023
        is_of_others = (name, parameter) in OF_SCIKIT_LEARN and "Error: " in outcome
        may = "accepted" if not is_wrong else "refused"
        if outcome not in ("refused", may) and not is_of_others:
            wrong.append(f"{name}({parameter}={value}): {outcome}")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:50])
