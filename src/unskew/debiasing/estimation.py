"""What `debias` leaves behind: the fitted bias model, and errors, scores and updates that account
for its estimation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unskew.engine.progress import show_progress
from unskew.errors import ConvergenceError, CoverageError, DataError, OverlapError, UnskewWarning
from unskew.records import Estimate, Floats, Ints, Pool, Target, Weights
from unskew.solve.logarithms import log_sums
from unskew.weigh.estimated_omega import (
    EstimatedRows,
    beside_rival,
    estimated_covariance,
    estimated_mean,
)
from unskew.weigh.pool_comparison import MeanNoise, estimated_noise, replicated_noise
from unskew.weigh.sampling_units import Units, find_units
from unskew.weigh.uncertainty import Bootstrap, draw_counts

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.fitted import FittedBias
    from unskew.bias.resemblance import Resemblance

# Replicates behind the standard error of a model without derivatives.
_REPLICATES = 100
# A rival with a smaller share of the fit's effective number of images rests on a few of them at the
# rim of all supports: noise that the search for a fit rules out by the cost of each parameter.
# Measured shares were below 0.02 or above 0.1.
_LEAST_ESS = 0.05


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
    resemblance : how well a classifier tells the target's images from the weighted pool; None
        without a sample of the target.
    seed : of the fit.
    max_unlike : the share of target images that no source resembles, above which the target is not
        identifiable.
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
    _replicates: dict[tuple[int, int], list[_Replicate | str]] = field(
        repr=False, default_factory=dict
    )

    @property
    def omega_is_known(self) -> bool:
        """Was nothing estimated and no image left out? Then the errors of known ω hold."""
        return self.fitted.omega_is_known

    def mean(self, value_n: Floats, level: float) -> Estimate:
        """Target mean; from influence functions, or from a bootstrap where the model has no
        derivatives.
        """
        if not self._is_smooth:
            return self.bootstrap(_REPLICATES, self.seed, value_n).estimate(level)
        value_r = self._of_rows(value_n)
        estimate, rival = estimated_mean(self.rows, value_r, level), self._rival_rows
        return (
            estimate
            if rival is None
            else beside_rival(estimate, estimated_mean(rival, value_r, level))
        )

    @property
    def _is_smooth(self) -> bool:
        return all(factor.is_smooth for factor in self.fitted.factors)

    def _of_rows(self, value_n: Floats) -> Floats:
        """Values of the images as values of the rows of the fit; 0 for the target's sample."""
        value_r = np.zeros((self.rows.weight.size, *value_n.shape[1:]))
        value_r[: self.fitted.row.size] = value_n[self.fitted.row]
        return value_r

    def noise_beside_pool(self, value_nj: Floats) -> MeanNoise:
        """How weighted and pooled means vary together; from influence functions, or from a
        bootstrap as for `mean`.
        """
        if self._is_smooth:
            return estimated_noise(self.rows, self._of_rows(value_nj))
        drawn = [
            each
            for each in self._replicated(_REPLICATES, self.seed)
            if isinstance(each, _Replicate)
        ]
        weighted_bj = np.reshape(
            [each.weight_m @ value_nj[each.row_m] for each in drawn], (-1, value_nj.shape[1])
        )
        pooled_bj = np.reshape(
            [value_nj[each.row_m].mean(axis=0) for each in drawn], (-1, value_nj.shape[1])
        )
        return replicated_noise(weighted_bj, pooled_bj)

    def feature_values(self) -> dict[str, Floats]:
        """(n,) values of every feature that the bias model reads; of a categorical one the
        indicators of all levels but the first.

        Strata have none: their target shares are given. Images that the fit leaves out have 0.
        """
        from unskew.bias.features import expand_features, learn_column, read_numbers
        from unskew.bias.known import Known
        from unskew.bias.strata import Strata

        row_m = self.fitted.row
        frame = self.pool.frame.iloc[row_m]
        named = [
            name
            for part in self.fitted.model.parts
            if not isinstance(part, Known | Strata)
            for name in part.columns
        ]
        values = {}
        for name in expand_features(frame, list(dict.fromkeys(named))) if named else []:
            column = learn_column(frame, name)
            read_mj = (
                read_numbers(frame[name], name)[:, None]
                if column.is_numeric
                else column.read(frame)
            )
            for label, read_m in zip(column.labels, read_mj.T, strict=True):
                values[label] = np.zeros(len(self.pool))
                values[label][row_m] = read_m
        return values

    @cached_property
    def _rival_rows(self) -> EstimatedRows | None:
        """The rows with the weights of a model that the data hardly tell from the fitted one; None
        where they leave no doubt.
        """
        from unskew.bias.fitting import fit_rival
        from unskew.debiasing.pool_weights import estimated_rows, evaluate_fitted

        try:
            fitted = fit_rival(self.fitted)
        except (OverlapError, ConvergenceError):
            # It says nothing of the target, and so nothing against the estimate.
            return None
        if fitted is None:
            return None
        weight_r, own_r = evaluate_fitted(fitted)[0], self.rows.weight
        return (
            estimated_rows(fitted, weight_r)
            if own_r @ own_r > _LEAST_ESS * (weight_r @ weight_r)
            else None
        )

    def covariance(self) -> Floats:
        """(K, K) of log Ω̂; with strata the normalizers are 1 by definition, and it is 0."""
        n_sources = len(self.fitted.names)
        if self.fitted.normalizers_known:
            return np.zeros((n_sources, n_sources))
        return estimated_covariance(self.rows)[:n_sources, :n_sources]

    def score(self, table: Pool | pd.DataFrame) -> Floats:
        """(m,) n π(z) = n/(Z Σ_{k kept} e^{u_k} ω_k(z)); 0 in strata without mass.

        If the target counts groups, the images of a group of the table share its weight, as they do
        in the pool.
        """
        if not isinstance(table, Pool) and not hasattr(table, "columns"):
            raise DataError(
                "weights.score takes a Pool or a DataFrame with the columns of the bias model; "
                f"got {type(table).__name__}."
            )
        log_mk = self.fitted.log_omega(table) + self.u_k[: len(self.fitted.names)]
        total_m = log_sums(log_mk)
        unit_m = np.ones(total_m.size)
        if self.fitted.strata is not None:
            unit_m = self.fitted.strata.units(
                table.frame if isinstance(table, Pool) else table, self._counts_groups
            )
        impossible = np.flatnonzero(np.isneginf(total_m) & (unit_m > 0))
        if impossible.size:
            raise CoverageError(
                f"no source could have produced {impossible.size} of {total_m.size} images, such "
                f"as row {impossible[0]}: omega is 0 in "
                "every column, so they have no weight. They are outside what the sources cover."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(
                unit_m > 0, len(self.pool) * unit_m * np.exp(-total_m - self.log_total), 0.0
            )

    @property
    def _counts_groups(self) -> bool:
        return self.fitted.target is not None and self.fitted.target.unit == "group"

    def update(self, pool: Pool) -> Weights:
        """The same model on another pool, begun where this fit ended."""
        from unskew.bias.fitting import fit_parts
        from unskew.debiasing.pool_weights import weigh_fitted

        if not isinstance(pool, Pool):
            raise DataError(
                f"weights.update takes a Pool; got {type(pool).__name__}. Make one with "
                "Pool.from_frame."
            )
        # Features are learned anew, too (their levels, scales, and which of them repeat others), as
        # if the pool were a new one.
        model = self.fitted.model
        fitted = fit_parts(
            model,
            model.parts,
            pool,
            self.fitted.target,
            seed=self.seed,
            start=self.fitted,
            learn_anew=True,
        )
        return weigh_fitted(pool, fitted, seed=self.seed, max_unlike=self.max_unlike)

    def bootstrap(self, n: int, seed: int, value_n: Floats | None) -> Bootstrap:
        """Draw the images of every source, and of the target's sample, anew, fit the model again
        and solve, ``n`` times.

        Whole groups are drawn where there are groups; the masses of strata are drawn within their
        error. Replicates that lack a link or leave a stratum of the target without images are
        counted and left out.
        """
        units, drawn = find_units(self.rows), self._replicated(n, seed)
        solved = [each for each in drawn if isinstance(each, _Replicate)]
        return Bootstrap(
            names=self.fitted.names,
            log_normalizer=np.reshape(
                [each.log_normalizer_k for each in solved], (-1, len(self.fitted.names))
            ),
            mean=None
            if value_n is None
            else np.array([float(each.weight_m @ value_n[each.row_m]) for each in solved]),
            value=None
            if value_n is None
            else float(self.rows.weight[: self.fitted.row.size] @ value_n[self.fitted.row]),
            n_replicates=n,
            n_disconnected=sum(each == "disconnected" for each in drawn),
            n_failed=sum(each == "failed" for each in drawn),
            n_strata=units.size_s.size,
            n_single=int(np.count_nonzero(units.size_s == 1)),
        )

    def _replicated(self, n: int, seed: int) -> list[_Replicate | str]:
        if (n, seed) not in self._replicates:
            self._replicates.clear()
            self._replicates[n, seed] = self._draw_replicates(find_units(self.rows), n, seed)
        return self._replicates[n, seed]

    def _draw_replicates(self, units: Units, n: int, seed: int) -> list[_Replicate | str]:
        # A hundred fits of boosted trees take minutes, of 3,000 images already.
        drawn = []
        with show_progress("model fitted anew", n) as advance:
            for count_r, rng in _draws(units, n, seed):
                drawn.append(self._replicate(count_r, rng))
                advance(1)
        return drawn

    def _replicate(self, count_r: Floats, rng: np.random.Generator) -> _Replicate | str:
        from unskew.bias.fitting import fit_parts
        from unskew.debiasing.pool_weights import evaluate_fitted

        model = self.fitted.model
        at = np.repeat(np.arange(count_r.size), count_r.astype(np.int64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            try:
                pool, target, row_m = self._drawn(at)
                masses = self._draw_masses(rng)
                fitted = fit_parts(
                    model,
                    model.parts,
                    pool,
                    target,
                    seed=self.seed,
                    start=self.fitted,
                    masses=masses,
                )
                if self._speaks_of_less(fitted):
                    return "disconnected"
                weight_m, _, log_normalizer_k = evaluate_fitted(fitted)
            except (OverlapError, CoverageError, DataError):
                return "disconnected"
            except ConvergenceError:
                return "failed"
        # A factor may leave out images of the replicate.
        return _Replicate(row_m[fitted.row], weight_m, log_normalizer_k)

    def _speaks_of_less(self, fitted: FittedBias) -> bool:
        """Was the target of a replicate made smaller than this one, because an image of some
        stratum was not drawn?
        """
        own, drawn = self.fitted.strata, fitted.strata
        return (
            own is not None
            and drawn is not None
            and set(drawn.target.uncovered) != set(own.target.uncovered)
        )

    def _draw_masses(self, rng: np.random.Generator) -> dict[tuple[str, ...], float] | None:
        """Masses of the strata within their error; None where they are exact, or come from images
        alone, which are drawn anew.
        """
        target, strata = self.fitted.target, self.fitted.strata
        if strata is not None and target is not None and target.kind == "uniform":
            # Uniform over the levels of this pool: a replicate without one of them would speak of
            # another target.
            return dict(zip(strata.target.strata, strata.target.mass.tolist(), strict=True))
        if (
            strata is None
            or strata.target.covariance is None
            or target is None
            or target.kind in ("sample", "source")
        ):
            return None
        # Masses raked from the pool's counts vary with these, too.
        mass_c, covariance_cc = strata.target.mass, self.rows.mass_covariance
        assert covariance_cc is not None
        drawn_c = np.where(
            mass_c > 0,
            np.maximum(rng.multivariate_normal(mass_c, covariance_cc, check_valid="ignore"), 0.0),
            0.0,
        )
        return dict(zip(strata.target.strata, (drawn_c / drawn_c.sum()).tolist(), strict=True))

    def _drawn(self, at: Ints) -> tuple[Pool, Target | None, Ints]:
        """A pool and a target made of the drawn rows, with ids of their own, and where each row
        stands in the pool.
        """
        import pandas as pd

        from unskew.splits.folds import COPY_OF, FOLD_GROUP

        data, target = self.fitted.data, self.fitted.target
        drawn = data.frame.iloc[at].reset_index(drop=True)
        # A group that is drawn twice is two groups, but both stay on one side of every fold, as
        # copies of an image do.
        fold_group = data.fold_group[at]
        group = fold_group + _copy_number(at) * (int(data.fold_group.max()) + 1)
        drawn[COPY_OF], drawn[FOLD_GROUP], drawn["id"] = drawn["id"], fold_group, np.arange(at.size)
        if "group" in drawn.columns:
            drawn["group"] = group
        is_pool = at < data.n_pool
        row_n, frame = self.fitted.row[at[is_pool]], drawn[is_pool]
        frame = frame.assign(
            source=pd.Categorical(frame["source"], categories=list(self.fitted.names))
        )
        if data.sample is not None and target is not None:
            target = replace(target, reference=Pool(drawn[~is_pool]), holdout=0.0)
        elif target is not None and target.kind == "source":
            target = replace(target, holdout=0.0)
        return Pool(frame), target, row_n


def _copy_number(at: Ints) -> Ints:
    """(m,) 0, 1, … for the copies of each row, which stand side by side in ``at``."""
    first = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    return np.asarray(
        np.arange(at.size) - np.repeat(first, np.diff([*first, at.size])), dtype=np.int64
    )


def _draws(units: Units, n: int, seed: int) -> Iterator[tuple[Floats, np.random.Generator]]:
    rng = np.random.default_rng(seed)
    for count_r in draw_counts(units, n, rng):
        yield count_r, rng
