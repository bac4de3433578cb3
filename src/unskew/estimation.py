"""What `debias` leaves behind: the fitted bias model, and errors, scores and updates that account for its estimation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from unskew.errors import ConvergenceError, CoverageError, DataError, OverlapError, UnskewWarning
from unskew.records import Estimate, Floats, Ints, Pool, Target, Weights
from unskew.weigh.estimated import EstimatedRows, estimated_covariance, estimated_mean
from unskew.weigh.uncertainty import Bootstrap, draw_counts
from unskew.weigh.units import Units, find_units

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.fitted import FittedBias
    from unskew.bias.resemblance import Resemblance

# Replicates behind the standard error of a model without derivatives.
_REPLICATES = 100


@dataclass(frozen=True, eq=False)
class _Replicate:
    """Weights of the drawn images, where each stands in the pool, and log Ω̂."""

    row_m: Ints
    weight_m: Floats
    log_normalizer_k: Floats


@dataclass(frozen=True, eq=False)
class Estimation:
    """How ω was estimated.

    Attributes
    ----------
    pool : the images.
    fitted : the bias model.
    rows : the rows of the fit with their weights, those of the target's sample included.
    log_total : log Z of π_i = 1/(Z Σ_{k kept} e^{u_k} ω_ik).
    resemblance : how well a classifier tells the target's images from the weighted pool; None without a sample of the target.
    seed : of the fit.
    max_unlike : the share of target images that no source resembles, above which the target is not identifiable.
    """

    pool: Pool = field(repr=False)
    fitted: FittedBias = field(repr=False)
    rows: EstimatedRows = field(repr=False)
    u_k: Floats = field(repr=False)
    log_total: float = 0.0
    resemblance: Resemblance | None = None
    seed: int = 0
    max_unlike: float = 1.0
    # The last bootstrap, so that means of several values share its fits.
    _replicates: dict[tuple[int, int], list[_Replicate | str]] = field(repr=False, default_factory=dict)

    @property
    def omega_is_known(self) -> bool:
        """Was nothing estimated and no image left out? Then the errors of known ω hold."""
        return (
            self.fitted.strata is None
            and self.fitted.data.sample is None
            and not self.fitted.left_out
            and all(not factor.n_parameters and factor.is_smooth for factor in self.fitted.factors)
        )

    def mean(self, value_n: Floats, level: float) -> Estimate:
        """Target mean; from influence functions, or from a bootstrap where the model has no derivatives."""
        if not all(factor.is_smooth for factor in self.fitted.factors):
            return self.bootstrap(_REPLICATES, self.seed, value_n).estimate(level)
        value_r = np.zeros(self.rows.weight.size)
        value_r[: self.fitted.row.size] = value_n[self.fitted.row]
        return estimated_mean(self.rows, value_r, level)

    def covariance(self) -> Floats:
        """(K, K) of log Ω̂; with strata the normalizers are 1 by definition, and it is 0."""
        n_sources = len(self.fitted.names)
        if self.fitted.normalizers_known:
            return np.zeros((n_sources, n_sources))
        return estimated_covariance(self.rows)[:n_sources, :n_sources]

    def score(self, table: Pool | pd.DataFrame) -> Floats:
        """(m,) n π(z) = n/(Z Σ_{k kept} e^{u_k} ω_k(z))."""
        log_mk = self.fitted.log_omega(table) + self.u_k[: len(self.fitted.names)]
        total_m = scipy.special.logsumexp(log_mk, axis=1)
        impossible = np.flatnonzero(np.isneginf(total_m))
        if impossible.size:
            raise CoverageError(
                f"no source could have produced {impossible.size} of {total_m.size} images, such as row {impossible[0]}: omega is 0 in "
                "every column, so they have no weight. They are outside what the sources cover."
            )
        return np.asarray(len(self.pool) * np.exp(-total_m - self.log_total))

    def update(self, pool: Pool) -> Weights:
        """The same model on another pool, from where this fit ended."""
        from unskew.debiasing import weigh_fitted

        fitted = self._refit(pool, self.fitted.target, None, self.seed)
        return weigh_fitted(pool, fitted, seed=self.seed, max_unlike=self.max_unlike)

    def _refit(self, pool: Pool, target: Target | None, mass_c: Floats | None, seed: int) -> FittedBias:
        from unskew.bias.fitting import fit_parts

        start = self.fitted if pool.names == self.fitted.names else None
        return fit_parts(self.fitted.model, self.fitted.model.parts, pool, target, seed=seed, start=start, mass_c=mass_c)

    def bootstrap(self, n: int, seed: int, value_n: Floats | None) -> Bootstrap:
        """Draw the images of every source, and of the target's sample, anew, fit the model again and solve, ``n`` times.

        Whole groups are drawn where there are groups; the masses of strata are drawn within their error. Replicates that lack a link or
        leave a stratum of the target without images are counted and left out.
        """
        units = find_units(self.rows)
        key = (n, seed)
        if key not in self._replicates:
            self._replicates.clear()
            self._replicates[key] = [self._replicate(count_r, rng) for count_r, rng in _draws(units, n, seed)]
        drawn = self._replicates[key]
        solved = [each for each in drawn if isinstance(each, _Replicate)]
        return Bootstrap(
            names=self.fitted.names,
            log_normalizer=np.reshape([each.log_normalizer_k for each in solved], (-1, len(self.fitted.names))),
            mean=None if value_n is None else np.array([float(each.weight_m @ value_n[each.row_m]) for each in solved]),
            value=None if value_n is None else float(self.rows.weight[: self.fitted.row.size] @ value_n[self.fitted.row]),
            n_replicates=n,
            n_disconnected=sum(each == "disconnected" for each in drawn),
            n_failed=sum(each == "failed" for each in drawn),
            n_strata=units.size_s.size,
            n_single=int(np.count_nonzero(units.size_s == 1)),
        )

    def _replicate(self, count_r: Floats, rng: np.random.Generator) -> _Replicate | str:
        from unskew.debiasing import evaluate_fitted

        at = np.repeat(np.arange(count_r.size), count_r.astype(np.int64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            try:
                pool, target, row_m = self._drawn(at)
                fitted = self._refit(pool, target, self._draw_masses(rng), self.seed)
                weight_m, _, log_normalizer_k = evaluate_fitted(fitted)
            except (OverlapError, CoverageError, DataError):
                return "disconnected"
            except ConvergenceError:
                return "failed"
        # A factor may leave out images of the replicate.
        return _Replicate(row_m[fitted.row], weight_m, log_normalizer_k)

    def _draw_masses(self, rng: np.random.Generator) -> Floats | None:
        if self.rows.mass_covariance is None or self.fitted.strata is None:
            return None
        mass_c = self.fitted.strata.target.mass
        drawn_c = np.where(
            mass_c > 0, np.maximum(rng.multivariate_normal(mass_c, self.rows.mass_covariance, check_valid="ignore"), 0.0), 0.0
        )
        return np.asarray(drawn_c / drawn_c.sum())

    def _drawn(self, at: Ints) -> tuple[Pool, Target | None, Ints]:
        """A pool and a target made of the drawn rows, with ids of their own, and where each row stands in the pool."""
        data, target = self.fitted.data, self.fitted.target
        of_pool = at[at < data.n_pool]
        row_n = self.fitted.row[of_pool]
        frame = self.pool.frame.iloc[row_n].reset_index(drop=True)
        # Copies of an image stay on one side of every fold.
        frame["group"] = data.fold_group[of_pool]
        frame["id"] = np.arange(len(frame))
        if data.sample is not None and target is not None:
            sample = data.frame.iloc[at[at >= data.n_pool]].reset_index(drop=True)
            sample = sample.assign(group=data.fold_group[at[at >= data.n_pool]], id=np.arange(len(sample)))
            target = replace(target, reference=Pool(sample), holdout=0.0)
        elif target is not None and target.kind == "source":
            target = replace(target, holdout=0.0)
        return Pool(frame), target, row_n


def _draws(units: Units, n: int, seed: int) -> Iterator[tuple[Floats, np.random.Generator]]:
    rng = np.random.default_rng(seed)
    for count_r in draw_counts(units, n, rng):
        yield count_r, rng
