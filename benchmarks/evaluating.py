"""How long `unskew evaluate` takes: python benchmarks/evaluating.py [images replicates]. Seconds of
one core, second run of two.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

from unskew.evaluation.predictions import evaluate_predictions


def measure(n: int, n_classes: int, replicates: int) -> float:
    rng = np.random.default_rng(0)
    truth = rng.integers(n_classes, size=n)
    logit = rng.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[truth]
    probability = np.exp(logit) / np.exp(logit).sum(axis=1, keepdims=True)
    id = [f"photos/{at}.jpg" for at in range(n)]
    table = pd.DataFrame(
        {
            "id": id,
            "source": rng.choice(list("abcde"), n),
            "label": truth,
            "sample_weight": rng.exponential(size=n),
        }
    )
    table = table.assign(sex=rng.choice(["f", "m"], n), age=rng.normal(50, 10, n))
    predictions = pd.DataFrame(
        {"id": id} | {f"score_{k}": probability[:, k] for k in range(n_classes)}
    )
    # The first run compiles.
    for _ in range(2):
        start = time.process_time()
        evaluate_predictions(table, predictions, by=["sex", "age"], replicates=replicates)
    return time.process_time() - start


if __name__ == "__main__":
    n, replicates = (
        (int(argument) for argument in sys.argv[1:3]) if len(sys.argv) == 3 else (100_000, 500)
    )
    for n_classes in (2, 10):
        print(
            f"{n:,} images, {n_classes} classes, {replicates} replicates: "
            f"{measure(n, n_classes, replicates):.1f} s"
        )
