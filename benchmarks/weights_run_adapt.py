"""adapt's instance-based methods that weigh a pool to look like an unlabelled target sample."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from adapt.instance_based import IWC, IWN, KLIEP, KMM, LDM, RULSIF, ULSIF, NearestNeighborsWeighting
from sklearn.linear_model import RidgeClassifier
from weights_columns import columns

PACKAGES = ("adapt", "tensorflow", "keras", "scikit-learn", "numpy", "cvxopt")
Compute = Callable[[], np.ndarray]
GAMMAS = [0.01, 0.1, 1.0, 10.0]
LAMBDAS = [0.01, 0.1, 1.0]
LARGEST_CROSS_VALIDATION = (
    5000  # (R)ULSIF's cross-validation builds dense diagonal matrices of the target sample's size
)


def _weighting(
    make: Callable[[np.ndarray, np.ndarray], Any], **fit: Any
) -> Callable[[dict[str, np.ndarray]], Compute]:
    def prepare(data: dict[str, np.ndarray]) -> Compute:
        pool, sample = columns(data)

        def compute() -> np.ndarray:
            model = make(pool, sample)
            return model.fit_weights(pool, sample, **fit)

        return compute

    return prepare


def _least_squares(method: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    def make(pool: np.ndarray, sample: np.ndarray) -> Any:
        if len(sample) > LARGEST_CROSS_VALIDATION:
            return method(
                Xt=sample,
                kernel="rbf",
                gamma=1.0 / pool.shape[1],
                lambdas=0.1,
                verbose=0,
                random_state=0,
            )
        return method(
            Xt=sample, kernel="rbf", gamma=GAMMAS, lambdas=LAMBDAS, verbose=0, random_state=0
        )

    return make


def _network(pool: np.ndarray, sample: np.ndarray) -> Any:
    return IWN(
        RidgeClassifier(0.0),
        Xt=sample,
        verbose=0,
        random_state=0,
        pretrain=True,
        pretrain__epochs=20,
        pretrain__verbose=0,
    )


METHODS = {
    "adapt_kliep": _weighting(
        lambda pool, sample: KLIEP(
            Xt=sample, kernel="rbf", gamma=[0.1, 1.0], verbose=0, random_state=0
        )
    ),
    "adapt_kmm": _weighting(
        lambda pool, sample: KMM(Xt=sample, kernel="rbf", verbose=0, random_state=0)
    ),
    "adapt_nearest": _weighting(
        lambda pool, sample: NearestNeighborsWeighting(
            Xt=sample, n_neighbors=5, verbose=0, random_state=0
        )
    ),
    "adapt_ulsif": _weighting(_least_squares(ULSIF)),
    "adapt_rulsif": _weighting(_least_squares(RULSIF)),
    "adapt_classifier": _weighting(lambda pool, sample: IWC(Xt=sample, verbose=0, random_state=0)),
    "adapt_ldm": _weighting(lambda pool, sample: LDM(Xt=sample, verbose=0, random_state=0)),
    "adapt_network": _weighting(_network, epochs=20, batch_size=256),
}
