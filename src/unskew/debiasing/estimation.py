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
from unskew.records.design_weights import DESIGN_WEIGHT
from unskew.records.levels import codes_or_alone
from unskew.target.facts import Distribution
from unskew.target.mass_covariance import redrawn_fact
from unskew.weigh.bootstrap import Replicate
from unskew.weigh.count_covariance import strata_errors
from unskew.weigh.estimated_omega import EstimatedRows

if TYPE_CHECKING:
    from unskew.bias.base import BiasData
    from unskew.bias.fitted import FittedBias
    from unskew.bias.resemblance import Resemblance
    from unskew.debiasing.outcome_model import OutcomePredictions


class FittedWeights(NamedTuple):
    """The weights of a fitted model.

    weight : (number of pool rows in the fit,) π.
    log_total : log Z of π_i = d_i/(Z Σ_{k kept} e^{u_k} ω_ik), d_i = 1 without design weights.
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
    log_counted = log_v + _log_design(data, slice(n))
    log_total = log_sum(log_counted)
    # Ω_k = n_k e^{−u_k}/Σ_i v_i over all rows, those of the target's sample included.
    log_all = log_counted
    if data.sample is not None:
        log_pool = -np.logaddexp(
            -log_v, profile.log_omega[:n, data.sample] + profile.u[0, data.sample]
        )
        log_all = np.concatenate([log_pool, -log_sums(profile.log_omega[n:] + profile.u[0])])
        log_all = log_all + _log_design(data, slice(None))
    log_normalizer_k = np.log(data.size_k) - profile.u[0] - log_sum(log_all)
    return FittedWeights(
        np.exp(log_counted - log_total), log_total, log_normalizer_k[: len(fitted.names)]
    )


def _log_design(data: BiasData, rows: slice) -> Floats | float:
    return 0.0 if data.design is None else np.asarray(np.log(data.design[rows]))


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
    """Return the rows of the fit with their weights, from which errors are computed."""
    data = fitted.data
    return EstimatedRows(
        data.names,
        data.source.astype(np.int32),
        np.concatenate([weight_r, np.zeros(data.source.size - weight_r.size)]),
        None
        if data.unit is None
        else np.unique(data.unit, return_inverse=True)[1].astype(np.int64),
        replace(fitted.profile, solved=None),
        np.arange(data.n_sources) != data.sample,
        () if fitted.strata is None else strata_errors(fitted.strata.target),
        data.design,
    )


# A rival with a smaller share of the fit's effective number of images rests on a few of them at the
# rim of all supports: noise that the search for a fit rules out by the cost of each parameter.
# Measured shares were below 0.02 or above 0.1.
_LEAST_ESS = 0.05


@dataclass(frozen=True, eq=False)
class Estimation:
    """How ω was estimated: data that the functions of `unskew.weigh` read.

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

    @property
    def stratum(self) -> Ints | None:
        """(n,) the stratum of every image, -1 where the target drops it; None without strata."""
        return None if self.fitted.strata is None else self.fitted.strata.target.code

    def values_of_rows(self, value_n: Floats) -> Floats:
        """Arrange values of the images by the rows of the fit; 0 for the target's sample."""
        value_r = np.zeros((self.rows.weight.size, *value_n.shape[1:]))
        value_r[: self.fitted.row.size] = value_n[self.fitted.row]
        return value_r

    def means_without_mass(self, value_n: Floats) -> Floats | None:
        """Return (C,) the plain mean of every stratum without mass, 0 for others."""
        strata = None if self.fitted.strata is None else self.fitted.strata.target
        if strata is None or not strata.errors or (strata.mass > 0).all():
            return None
        kept_n = strata.code >= 0
        total_c = np.bincount(
            strata.code[kept_n], (strata.unit * value_n)[kept_n], strata.mass.size
        )
        return np.where(strata.mass > 0, 0.0, total_c / strata.size)

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
    ) -> OutcomePredictions:
        """Predict values from the features of the bias model, by cross-fitting."""
        from unskew.debiasing.outcome_model import predict_outcome

        return predict_outcome(weights, value_n, learner=learner, rng=self.seed)

    @cached_property
    def unpenalised_rows(self) -> EstimatedRows | None:
        """The rows of the model fitted without its penalty; None where it has none."""
        from unskew.bias.fitting import fit_unpenalised

        fitted = fit_unpenalised(self.fitted)
        return None if fitted is None else estimated_rows(fitted, evaluate_fitted(fitted).weight)

    def refit(self, pool: Pool) -> Weights:
        """Weigh another pool by the same model, fitted from where this fit ended."""
        from unskew.bias.fitting import fit_parts
        from unskew.debiasing.fitted_weights import weigh_fitted

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
        """Fit the model to rows that count ``count_r`` times, or say why that is impossible."""
        from unskew.bias.fitting import fit_parts

        model = self.fitted.model
        at = np.repeat(np.arange(count_r.size), count_r.astype(np.int64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            try:
                pool, target, row_m = self._drawn(at)
                fitted = fit_parts(
                    model,
                    model.parts,
                    pool,
                    self._draw_facts(target, rng),
                    seed=self.seed,
                    start=self.fitted,
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
            and bool(set(drawn.target.uncovered) - set(own.target.uncovered))
        )

    def _draw_facts(self, target: Target | None, rng: np.random.Generator) -> Target | None:
        """Draw what surveys found again; what follows the pool's counts is computed again."""
        if self.fitted.strata is None or target is None:
            return target
        strata = self.fitted.strata.target
        if target.kind != "uniform":
            facts = tuple(redrawn_fact(fact, rng) for fact in target.facts)
            return replace(target, facts=facts)
        # Uniform over the levels of this pool: a replicate without one of them would have another
        # target.
        at = np.flatnonzero(strata.in_scope)
        mass_c = strata.mass[at] / strata.mass[at].sum()
        cells = tuple(strata.strata[c] for c in at.tolist())
        fact = Distribution(strata.by, cells, tuple(mass_c.tolist()))
        return replace(target, kind="table", by=strata.by, facts=(fact,))

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
        drawn = drawn.drop(columns=DESIGN_WEIGHT, errors="ignore")
        if data.design is not None:
            drawn[DESIGN_WEIGHT] = data.design[at]
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
