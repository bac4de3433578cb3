"""What to collect for a run: `unskew advise`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unskew.debiasing.pool_weights import find_train_split
from unskew.diagnosis.advice import advise_collection
from unskew.diagnosis.advice_record import Advice
from unskew.errors import wrong_option
from unskew.records import Pool
from unskew.records.levels import level_text
from unskew.runs.inputs import Inputs, warn_of_placeholder


def advise_inputs(
    inputs: Inputs,
    *,
    stderr: float | None = None,
    outcomes: Sequence[str] = (),
    ess: float | None = None,
    overlap: float | bool | None = None,
    cost: Mapping[str, float] | None = None,
) -> Advice:
    """Give the advice of `unskew.advise_collection` for a run, fitted on train if there are splits.

    ``outcomes`` are those of the run unless columns are named.
    """
    warn_of_placeholder(inputs)
    config = inputs.config
    named = list(outcomes) or (list(config.report.outcomes) if stderr is not None else None)
    if named is None and ess is None and overlap is None:
        named = list(config.report.outcomes)
    return advise_collection(
        _fitted_images(inputs.pool),
        inputs.bias,
        inputs.target,
        stderr=stderr,
        outcomes=named or None,
        ess=ess,
        overlap=overlap,
        cost=cost,
        private=config.report.privacy == "aggregate",
        rng=config.engine.seed,
        **config.solve.settings(),
    )


def _fitted_images(pool: Pool) -> Pool:
    """Return the images that the bias model is fitted on."""
    if "split" not in pool.frame.columns:
        return pool
    split_n = pool.frame["split"].map(level_text).to_numpy(dtype=object)
    row_of = {name: np.flatnonzero(split_n == name) for name in dict.fromkeys(split_n.tolist())}
    return pool.take(row_of[find_train_split(row_of)])


def read_costs(texts: Sequence[str]) -> dict[str, float]:
    """Read ``north=2.5`` as the cost of an image; the last = counts, names may contain others."""
    costs = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            costs[name.strip()] = float(number)
        except ValueError:
            name = ""
        if not name.strip():
            raise wrong_option(
                "--cost is a name and the cost of one image, such as north=2.5", cost=text
            )
    return costs
