"""What `debias` leaves behind: the rows of a fit, for errors that count the estimation of omega,
new images and refits.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unskew.errors import ConvergenceError, CoverageError, DataError, OverlapError, UnskewWarning
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.arrays import log_sum, log_sums
from unskew.records.levels import codes_or_alone
from unskew.weigh.bootstrap import Replicate
from unskew.weigh.estimated_omega import EstimatedRows, count_covariance

if TYPE_CHECKING:
    from unskew.bias.fitted import FittedBias
    from unskew.bias.resemblance import Resemblance


class FittedWeights(NamedTuple):
    """The weights of a fitted model.

    Attributes
    ----------
    weight : (number of pool rows in the fit,) π.
    log_total : log Z of π_i = 1/(Z Σ_{k kept} e^{u_k} ω_ik).
    log_normalizer : (K,) log Ω̂ of the pool's sources.
    """

    weight: Floats
    log_total: float
    log_normalizer: Floats


def evaluate_fitted(fitted: FittedBias) -> FittedWeights:
    """Compute weights and normalizers from the fitted ω and u."""
    log_v = _log_inverse_density(fitted)
    if fitted.strata is not None:
        return FittedWeights(_stratified(fitted, log_v), 0.0, np.zeros(len(fitted.names)))
    data, profile, n = fitted.data, fitted.profile, fitted.data.n_pool
    log_total = log_sum(log_v)
    # Ω_k = n_k e^{−u_k}/Σ_i v_i over all rows, those of the target's sample included.
    log_all = log_v
    if data.sample is not None:
        log_pool = -np.logaddexp(
            -log_v, profile.log_omega[:n, data.sample] + profile.u[0, data.sample]
        )
        log_all = np.concatenate([log_pool, -log_sums(profile.log_omega[n:] + profile.u[0])])
    size_k = np.bincount(data.source, minlength=data.n_sources)
    log_normalizer_k = np.log(size_k) - profile.u[0] - log_sum(log_all)
    return FittedWeights(
        np.exp(log_v - log_total), log_total, log_normalizer_k[: len(fitted.names)]
    )


def _log_inverse_density(fitted: FittedBias) -> Floats:
    """Compute log v_i, v_i = 1/Σ_{k kept} e^{u_ck} ω_ik, of the pool's rows."""
    data, profile, n = fitted.data, fitted.profile, fitted.data.n_pool
    if fitted.strata is not None and not fitted.factors:
        # Without further factors all images of a stratum weigh the same.
        return np.zeros(n)
    # The sample, if there is one, is the last of the sources.
    log_omega_nk, u_ck = profile.log_omega[:n, : data.sample], profile.u[:, : data.sample]
    return -log_sums(log_omega_nk + (u_ck if data.n_cells == 1 else u_ck[data.cell[:n]]))


def _stratified(fitted: FittedBias, log_v: Floats) -> Floats:
    """Scale v so that every stratum has the target's mass."""
    assert fitted.strata is not None
    strata, cell = fitted.strata.target, fitted.data.cell[: fitted.data.n_pool]
    part = np.exp(log_v) * strata.unit[fitted.row]
    total_c = np.bincount(cell, weights=part, minlength=fitted.data.n_cells)
    weight = strata.mass[cell] * part / total_c[cell]
    return np.asarray(weight / weight.sum())


def estimated_rows(fitted: FittedBias, weight_r: Floats) -> EstimatedRows:
    """Return the rows of the fit with their weights, from which errors are computed.

    ``weight_r`` holds the weights of the pool's rows.
    """
    data = fitted.data
    rows = EstimatedRows(
        data.names,
        data.source.astype(np.int32),
        np.concatenate([weight_r, np.zeros(data.source.size - weight_r.size)]),
        None
        if data.unit is None
        else np.unique(data.unit, return_inverse=True)[1].astype(np.int64),
        replace(fitted.profile, solved=None),
        np.arange(data.n_sources) != data.sample,
        fitted.strata.target.covariance if fitted.strata is not None else None,
    )
    if fitted.strata is None or fitted.strata.target.share_jacobian is None:
        return rows
    return _with_raking_error(rows, fitted)


def _with_raking_error(rows: EstimatedRows, fitted: FittedBias) -> EstimatedRows:
    """Add the error of masses that were raked from the pool's own counts.

    Another draw of the sources would change the counts N, and with them the masses p by J d log N.
    """
    assert fitted.strata is not None
    strata = fitted.strata.target
    assert strata.share_jacobian is not None
    unit_r = np.concatenate([strata.unit[fitted.row], np.zeros(rows.weight.size - fitted.row.size)])
    jacobian_cc = np.divide(
        strata.share_jacobian,
        strata.size,
        out=np.zeros_like(strata.share_jacobian),
        where=strata.size > 0,
    )
    raked_cc = jacobian_cc @ count_covariance(rows, unit_r) @ jacobian_cc.T
    given_cc = 0.0 if rows.mass_covariance is None else rows.mass_covariance
    return replace(rows, mass_covariance=given_cc + raked_cc)


# A rival with a smaller share of the fit's effective number of images rests on a few of them at the
# rim of all supports: noise that the search for a fit rules out by the cost of each parameter.
# Measured shares were below 0.02 or above 0.1.
_LEAST_ESS = 0.05


@dataclass(frozen=True, eq=False)
class Estimation:
    """How ω was estimated: data that the functions of `unskew.weigh` read.

    Attributes
    ----------
    pool : the images.
    fitted : the bias model.
    rows : the rows of the fit with their weights, those of the target's sample included.
    u_k : (K,) u of the fit; with strata log n_k.
    log_total : log Z of π_i = 1/(Z Σ_{k kept} e^{u_k} ω_ik).
    resemblance : how well a classifier tells the target's images from the weighted pool; None
        without a sample of the target.
    seed : of the fit.
    max_uncovered : the share of target images that no source resembles, above which the target is
        not identifiable.
    replicates : the fits of the last bootstrap, {(replicates, seed): fits}, so that means of
        several values share them; a text says why there is no fit.
    """

    pool: Pool = field(repr=False)
    fitted: FittedBias = field(repr=False)
    rows: EstimatedRows = field(repr=False)
    u_k: Floats = field(repr=False)
    log_total: float = 0.0
    resemblance: Resemblance | None = None
    seed: int = 0
    max_uncovered: float = 1.0
    replicates: dict[tuple[int, int], list[Replicate | str]] = field(
        repr=False, default_factory=dict
    )

    @property
    def omega_is_known(self) -> bool:
        """Say whether nothing was estimated and no image left out: errors of known ω hold then."""
        return self.fitted.omega_is_known

    @property
    def is_smooth(self) -> bool:
        """Say whether the model has derivatives; without them errors come from a bootstrap."""
        return all(factor.is_smooth for factor in self.fitted.factors)

    def values_of_rows(self, value_n: Floats) -> Floats:
        """Arrange values of the images by the rows of the fit; 0 for the target's sample."""
        value_r = np.zeros((self.rows.weight.size, *value_n.shape[1:]))
        value_r[: self.fitted.row.size] = value_n[self.fitted.row]
        return value_r

    def feature_values(self) -> dict[str, Floats]:
        """Return (n,) values of every feature that the bias model reads.

        Of a categorical feature these are the indicators of all levels but the first. Strata have
        none: their target shares are given. Images that the fit leaves out have 0.
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
    def rival_rows(self) -> EstimatedRows | None:
        """The rows of a model that fits nearly as well as the fitted one; None if there is none."""
        from unskew.bias.fitting import fit_rival

        try:
            fitted = fit_rival(self.fitted)
        except (OverlapError, ConvergenceError):
            # A model without a solution is no evidence against the estimate.
            return None
        if fitted is None:
            return None
        weight_r, own_r = evaluate_fitted(fitted).weight, self.rows.weight
        rests_on_few = not own_r @ own_r > _LEAST_ESS * (weight_r @ weight_r)
        return None if rests_on_few else estimated_rows(fitted, weight_r)

    def predict_outcome(
        self, weights: Weights, value_n: Floats, learner: Any
    ) -> tuple[Floats, Floats | None]:
        """Predict values from the features of the bias model, by cross-fitting."""
        from unskew.debiasing.outcome_model import predict_outcome

        outcome = predict_outcome(weights, value_n, learner=learner, rng=self.seed)
        return outcome.predicted, outcome.target_predicted

    def refit(self, pool: Pool) -> Weights:
        """Weigh another pool by the same model, fitted from where this fit ended."""
        from unskew.bias.fitting import fit_parts
        from unskew.debiasing.fitted_weights import weigh_fitted

        if not isinstance(pool, Pool):
            raise DataError(
                f"weights.refit takes a Pool; got {type(pool).__name__}. Make one with "
                "Pool.from_frame.",
                option="pool",
                value=type(pool).__name__,
            )
        # Features are learned again, too (their levels, scales, and which of them repeat others).
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
        return weigh_fitted(pool, fitted, seed=self.seed, max_uncovered=self.max_uncovered)

    def fit_again(self, count_r: Floats, rng: np.random.Generator) -> Replicate | str:
        """Fit the model to rows that count ``count_r`` times, or say why that is impossible.

        "disconnected": they lack a link or a stratum of the target; "failed": no convergence.
        """
        from unskew.bias.fitting import fit_parts

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
                if self._covers_less(fitted):
                    return "disconnected"
                evaluated = evaluate_fitted(fitted)
            except (OverlapError, CoverageError, DataError):
                return "disconnected"
            except ConvergenceError:
                return "failed"
        # A factor may leave out images of the replicate.
        reference_m = at[self.fitted.is_reference_r[at]]
        return Replicate(row_m[fitted.row], evaluated.weight, evaluated.log_normalizer, reference_m)

    def _covers_less(self, fitted: FittedBias) -> bool:
        """Say whether a replicate covers less of the target, as no image of a stratum was drawn."""
        own, drawn = self.fitted.strata, fitted.strata
        return (
            own is not None
            and drawn is not None
            and set(drawn.target.uncovered) != set(own.target.uncovered)
        )

    def _draw_masses(self, rng: np.random.Generator) -> dict[tuple[str, ...], float] | None:
        """Draw masses of the strata within their error.

        None where they are exact, or come from images alone, which are drawn again.
        """
        target, strata = self.fitted.target, self.fitted.strata
        if strata is not None and target is not None and target.kind == "uniform":
            # Uniform over the levels of this pool: a replicate without one of them would have
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
        """Make a pool and a target of the drawn rows, with new ids; also their rows in the pool."""
        import pandas as pd

        from unskew.splits.folds import COPY_OF, FOLD_GROUP

        data, target = self.fitted.data, self.fitted.target
        drawn = data.frame.iloc[at].reset_index(drop=True)
        # A group that is drawn twice is two groups, but both stay on one side of every fold, as
        # copies of an image do.
        drawn[COPY_OF], drawn[FOLD_GROUP] = drawn["id"], data.fold_group[at]
        drawn["id"] = np.arange(at.size)
        if "group" in drawn.columns:
            group_r = codes_or_alone(data.frame["group"])
            drawn["group"] = group_r[at] + _copy_number(at) * (int(group_r.max()) + 1)
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
    """Give copies of each row, which follow one another in ``at``, the numbers 0, 1, …: (m,)."""
    first = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    return np.asarray(
        np.arange(at.size) - np.repeat(first, np.diff([*first, at.size])), dtype=np.int64
    )
