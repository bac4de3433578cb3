"""Membership, weight and distance of an image, from one half of the old images.

A score that was fitted on the images it is then compared on would flatter them. Hence one half of
the units of every source fits the bias model again and fixes the distances, and new units are
ranked among the other half.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.pool_weights import debias
from unskew.errors import UnskewError
from unskew.monitoring.variables import DISTANCE, MEMBERSHIP, WEIGHT
from unskew.records import Pool, Target, Weights
from unskew.records.arrays import Bools, Floats, Ints, log_sums

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias

# Images of the fitted half that distances are measured to, and which neighbour is meant.
_MOST_NEIGHBOURS, _NEIGHBOUR = 4000, 3


@dataclass(frozen=True, eq=False)
class ReferenceScores:
    """Scores as fixed functions of an image.

    Attributes
    ----------
    weights : of the fitted half; None where they cannot be computed, and ``note`` says why.
    columns : the numeric columns of the distance; empty: no distance.
    centre, scale, point : (D,), (D,), (m, D) of the fitted half.
    """

    weights: Weights | None
    note: str
    columns: tuple[str, ...]
    centre: Floats
    scale: Floats
    point: Floats

    def compute(self, frame: pd.DataFrame, source: str | None) -> dict[str, Floats]:
        """Compute (n,) every score that the columns of the table allow.

        ``source``: the source of all rows; None where they are images of the target.
        """
        scores: dict[str, Floats] = {}
        log_nk = self._log_rates(frame)
        if log_nk is not None and self.weights is not None:
            total_n = log_sums(log_nk)
            estimation = self.weights.estimation
            assert estimation is not None
            with np.errstate(over="ignore", invalid="ignore"):
                size = self.weights.weight.size
                scores[WEIGHT] = size * np.exp(-total_n - estimation.log_total)
                if source is not None and len(self.weights.names) > 1:
                    own_n = log_nk[:, self.weights.names.index(source)]
                    scores[MEMBERSHIP] = np.nan_to_num(np.exp(own_n - total_n), nan=0.0)
        if self.columns and set(self.columns) <= set(map(str, frame.columns)):
            scores[DISTANCE] = self.distance(frame)
        return scores

    def uncovered(self, frame: pd.DataFrame) -> Bools:
        """Tell (n,) which images no source could have produced."""
        log_nk = self._log_rates(frame)
        if log_nk is None:
            return np.zeros(len(frame), dtype=np.bool_)
        return np.asarray(np.isneginf(log_sums(log_nk)))

    def distance(self, frame: pd.DataFrame) -> Floats:
        """Compute (n,) the distance to the third nearest image of the fitted half."""
        from sklearn.neighbors import NearestNeighbors

        neighbours = NearestNeighbors(n_neighbors=min(_NEIGHBOUR, len(self.point)))
        neighbours.fit(self.point)
        value_nd = _numbers(frame, self.columns)
        return np.asarray(
            neighbours.kneighbors(_standardized(value_nd, self.centre, self.scale))[0][:, -1]
        )

    def _log_rates(self, frame: pd.DataFrame) -> Floats | None:
        """(n, K) u_k + log ω_k; −inf where the model knows no such image; None without a model."""
        if self.weights is None or not len(frame):
            return None
        estimation = self.weights.estimation
        assert estimation is not None
        fitted, n_sources = estimation.fitted, len(self.weights.names)

        def rates(rows: Ints) -> Floats:
            return fitted.log_omega(frame.iloc[rows]) + estimation.u_k[:n_sources]

        log_nk = np.full((len(frame), n_sources), -np.inf)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_usable = _fill(rates, log_nk, _alike_together(frame))
        return log_nk if is_usable else None


def _alike_together(frame: pd.DataFrame) -> Ints:
    """(n,) rows ordered by their levels, so that rows with an unknown level are neighbours."""
    texts = frame.select_dtypes(exclude="number")
    names = [name for name in texts.columns if name not in ("id", "path", "content", "group")]
    keys = [
        np.unique(texts[name].map(str).to_numpy(dtype=str), return_inverse=True)[1]
        for name in names
    ]
    return np.lexsort([np.zeros(len(frame)), *keys])


def _fill(rates: Any, log_nk: Floats, rows: Ints) -> bool:
    """Fill in what the model can evaluate, by halving what it refuses; False if it is nothing."""
    try:
        log_nk[rows] = rates(rows)
    except UnskewError:
        if rows.size == 1:
            return False
        half = rows.size // 2
        return any([_fill(rates, log_nk, part) for part in (rows[:half], rows[half:])])
    return True


def learn_scores(
    pool: Pool, bias: Bias, target: Target | None, columns: tuple[str, ...], *, seed: int
) -> ReferenceScores:
    """Fit the bias model to ``pool``, one half of the old images, and keep its numbers."""
    weights, note = None, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = debias(pool, bias, target, rng=seed, max_uncovered=1.0, check_sample=False)
    except UnskewError as error:
        note = (
            "Memberships and weights are not compared: the bias model cannot be fitted to one half "
            f"of the images ({error})"
        )
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(pool))[:_MOST_NEIGHBOURS]
    value_md = _numbers(pool.frame.iloc[kept], columns)
    centre = np.array([_finite_mean(value) for value in value_md.T])
    scale = np.array([np.nanstd(value) or 1.0 for value in value_md.T])
    point = _standardized(value_md, centre, scale)
    return ReferenceScores(weights, note, columns, centre, scale, point)


def half_target(target: Target | None, rows: Ints | None) -> Target | None:
    """Return the target with these rows of its sample, where it has one."""
    if target is None or rows is None or not isinstance(target.reference, Pool):
        return target
    return replace(target, reference=target.reference.take(rows))


def _numbers(frame: pd.DataFrame, columns: tuple[str, ...]) -> Floats:
    import pandas as pd

    values = [np.asarray(pd.to_numeric(frame[name], errors="coerce"), float) for name in columns]
    stacked = np.column_stack(values) if values else np.zeros((len(frame), 0))
    return np.where(np.isfinite(stacked), stacked, np.nan)


def _finite_mean(value: Floats) -> float:
    known = value[np.isfinite(value)]
    return float(known.mean()) if known.size else 0.0


def _standardized(value_nd: Floats, centre: Floats, scale: Floats) -> Floats:
    """Missing numbers are taken as average."""
    return np.asarray(np.nan_to_num((value_nd - centre) / scale, nan=0.0))
