"""A process that computes weights for benchmarks/weights.py: ``python weights_worker.py LIBRARY``,
one question and answer a line.

Runs in the environment of the library, so it needs nothing but NumPy and the library itself. A
question is a JSON object with ``method``, ``input`` (an npz file) and ``output`` (where the weights
go); the answer holds ``seconds`` and ``cpu``, or ``raised`` and ``message``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import time
import warnings
from typing import Any

import numpy as np


def answer(methods: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """Prepare what the method reads (a table, one-hot labels), start the clock, compute the
    weights, stop it, write them.
    """
    with np.load(question["input"]) as file:
        data = {name: file[name] for name in file.files}
    try:
        compute = methods[question["method"]](data)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        weight = compute()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    except Exception as error:  # a method that fails is a cell of the table, not the end of the run
        return {"raised": type(error).__name__, "message": str(error)[:300]}
    np.save(question["output"], np.asarray(weight, dtype=np.float64).ravel())
    return {"seconds": seconds, "cpu": cpu}


def main() -> None:
    # Answers go through a channel of their own: libraries print what they like.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    module = importlib.import_module(f"weights_run_{sys.argv[1]}")
    versions = {}
    for name in module.PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "from source"
    print(json.dumps({"ready": versions}), file=channel, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(module.METHODS, json.loads(line))), file=channel, flush=True)


if __name__ == "__main__":
    main()
