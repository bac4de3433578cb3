"""Shares of classes by the methods of one package: run by benchmarks/label_shift.py in the
package's own environment.

python benchmarks/label_shift_worker.py PACKAGE DRAWS.npz SHARES.npz

DRAWS has target (R, m, C), validation (R, v, C), label (R, v) and, for those that take them, weight
(R, v). SHARES gets an array (R, C) for each method, and its seconds; NaN where a method fails.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Method = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def of_unskew() -> dict[str, Method]:
    import unskew

    def estimate(target: Any, validation: Any, label: Any, weight: Any) -> np.ndarray:
        made = unskew.Target.from_predictions(target, validation, label, validation_weights=weight)
        assert made.label_shift is not None
        return np.asarray(made.label_shift.share)

    return {"unskew": estimate}


def of_abstention() -> dict[str, Method]:
    from abstention.calibration import TempScaling, VectorScaling
    from abstention.label_shift import BBSEImbalanceAdapter, EMImbalanceAdapter

    def adapted(calibrator: Any, adapter: Any) -> Method:
        # EMImbalanceAdapter(calibrator_factory=…) of 0.1.3.1 leaves the target's scores as they
        # are; calibrated beforehand, both sets are.
        def estimate(target: Any, validation: Any, label: Any, weight: Any) -> np.ndarray:
            is_label = np.eye(target.shape[1])[label]
            calibrate = calibrator(
                valid_preacts=validation, valid_labels=is_label, posterior_supplied=True
            )
            validation = calibrate(validation)
            ratio = adapter(
                valid_labels=is_label,
                tofit_initial_posterior_probs=calibrate(target),
                valid_posterior_probs=validation,
            ).multipliers
            share = np.maximum(np.asarray(ratio) * is_label.mean(axis=0), 0.0)
            return share / share.sum()

        return estimate

    temperature = TempScaling(bias_positions="all")
    return {
        "abstention EM, BCTS": adapted(temperature, EMImbalanceAdapter()),
        "abstention EM, vector": adapted(VectorScaling(), EMImbalanceAdapter()),
        "abstention BBSE, BCTS": adapted(temperature, BBSEImbalanceAdapter(soft=True)),
    }


def of_quapy() -> dict[str, Method]:
    from quapy.method.aggregative import EMQ, PACC, KDEyML
    from sklearn.base import BaseEstimator

    class Given(BaseEstimator):  # type: ignore[misc]
        """A classifier whose images are their scores."""

        def __init__(self, n_classes: int = 2) -> None:
            self.n_classes = n_classes
            self.classes_ = np.arange(n_classes)

        def fit(self, scores: Any, label: Any) -> Given:
            return self

        def predict_proba(self, scores: Any) -> Any:
            return scores

    def fitted(kind: Any, **options: Any) -> Method:
        def estimate(target: Any, validation: Any, label: Any, weight: Any) -> np.ndarray:
            classifier = Given(target.shape[1])
            quantifier = kind(
                classifier, fit_classifier=False, val_split=(validation, label), **options
            )
            return np.asarray(quantifier.fit(validation, label).predict(target))

        return estimate

    return {
        "QuaPy EMQ, BCTS": fitted(EMQ, calib="bcts", exact_train_prev=False),
        "QuaPy EMQ, vector": fitted(EMQ, calib="vs", exact_train_prev=False),
        "QuaPy PACC": fitted(PACC),
        "QuaPy KDEy-ML": fitted(KDEyML),
    }


def of_mlquantify() -> dict[str, Method]:
    from mlquantify.counting import GPACC
    from mlquantify.likelihood import EMQ
    from mlquantify.matching import KDEyML

    def aggregated(quantifier: Any) -> Method:
        def estimate(target: Any, validation: Any, label: Any, weight: Any) -> np.ndarray:
            share = quantifier.aggregate(target, validation, label)
            return np.asarray(list(share.values()) if isinstance(share, dict) else share)

        return estimate

    return {
        "mlquantify EMQ, BCTS": aggregated(EMQ(calib_function="bcts", on_calib_error="raise")),
        "mlquantify EMQ, vector": aggregated(EMQ(calib_function="vs", on_calib_error="raise")),
        "mlquantify GPACC": aggregated(GPACC()),
        "mlquantify KDEy-ML": aggregated(KDEyML()),
    }


PACKAGES = {
    "unskew": of_unskew,
    "abstention": of_abstention,
    "quapy": of_quapy,
    "mlquantify": of_mlquantify,
}


def main() -> None:
    package, source, output = sys.argv[1:]
    warnings.simplefilter("ignore")
    draws, results = np.load(source), {}
    names = ("target", "validation", "label", "weight")
    for name, method in PACKAGES[package]().items():
        start, shares = time.process_time(), []
        for draw in zip(*(draws[key] for key in names), strict=True):
            try:
                shares.append(method(*draw))
            except Exception as error:
                print(f"{name}: {error!r}"[:300], file=sys.stderr)
                shares.append(np.full(draw[0].shape[1], np.nan))
        results[name] = np.array(shares)
        results[f"{name} seconds"] = np.array((time.process_time() - start) / len(shares))
    np.savez(output, **results)


if __name__ == "__main__":
    main()
