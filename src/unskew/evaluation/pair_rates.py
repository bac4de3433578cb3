"""Error rates of comparisons: weighted pairs, thresholds, the ROC, and how rates vary together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse

from unskew.records import Floats, Ints
from unskew.weigh.effective_size import add_by_code

Mask = npt.NDArray[np.bool_]
# Sums in another order differ by this much.
_ROUNDING = 1e-12
# A unit in nearly all pairs leaves nothing to compare it with.
_LARGEST_LEVERAGE, _LARGEST_ADDED = 0.3, 0.9


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs of images, and the units (persons) that they are of.

    Attributes
    ----------
    score : (P,) the larger, the more alike.
    genuine : (P,) whether both images are of one person.
    weight : (P,) above 0; only ratios among genuine, and among impostor, pairs matter.
    first, second : (P,) units of the two images.
    stratum : (U,) stratum of every unit: a source, or sources linked by units.
    """

    score: Floats = field(repr=False)
    genuine: Mask = field(repr=False)
    weight: Floats = field(repr=False)
    first: Ints = field(repr=False)
    second: Ints = field(repr=False)
    stratum: Ints = field(repr=False)

    @cached_property
    def dyads(self) -> tuple[Ints, Ints, Ints]:
        """Find the pairs of units: ((P,) its number, (D,) one unit, (D,) the other)."""
        low_p, high_p = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        code_d, dyad_p = np.unique(low_p * self.stratum.size + high_p, return_inverse=True)
        return dyad_p.reshape(-1), code_d // self.stratum.size, code_d % self.stratum.size

    @cached_property
    def incidence(self) -> scipy.sparse.csr_array:
        """(U, D) 1 where a dyad contains the unit."""
        _, low_d, high_d = self.dyads
        both = np.flatnonzero(low_d != high_d)
        unit = np.concatenate([low_d, high_d[both]])
        dyad = np.concatenate([np.arange(low_d.size), both])
        shape = (self.stratum.size, low_d.size)
        return scipy.sparse.coo_array((np.ones(unit.size), (unit, dyad)), shape=shape).tocsr()


@dataclass(frozen=True, eq=False)
class ScoreTail:
    """Weighted scores of one kind of pairs: sorted, with the share of the weight from each on."""

    rows: Ints = field(repr=False)
    score: Floats = field(repr=False)
    tail: Floats = field(repr=False)

    def from_on(self, threshold: npt.ArrayLike) -> Floats:
        """Compute the share of the weight at scores ≥ ``threshold``."""
        return np.asarray(self.tail[np.searchsorted(self.score, threshold, side="left")])


def sort_scores(sample: PairSample, rows: Ints, weight_p: Floats) -> ScoreTail:
    """Sort the scores of these rows of the pairs."""
    order = np.argsort(sample.score[rows], kind="stable")
    weight_r = weight_p[rows][order]
    below = np.concatenate([[0.0], np.cumsum(weight_r)])
    total = below[-1] if rows.size else 1.0
    tail = np.clip(1.0 - below / total, 0.0, 1.0)
    # Ends are exact, and so are equal weights.
    tail[-1] = 0.0
    return ScoreTail(rows, sample.score[rows][order], tail)


@dataclass(frozen=True, eq=False)
class PairRates:
    """The rates of a set of pairs at any threshold: a pair matches where score ≥ threshold.

    False match rate FMR(t) = Σ_impostor w 1[x ≥ t]/Σ_impostor w; false non-match rate FNMR(t) =
    Σ_genuine w 1[x < t]/Σ_genuine w. Both need pairs of their kind.
    """

    impostor: ScoreTail
    genuine: ScoreTail

    def fmr(self, threshold: npt.ArrayLike) -> Floats:
        """Compute the false match rate."""
        return self.impostor.from_on(threshold)

    def fnmr(self, threshold: npt.ArrayLike) -> Floats:
        """Compute the false non-match rate."""
        return 1.0 - self.genuine.from_on(threshold)

    @cached_property
    def thresholds(self) -> Floats:
        """All scores, ascending, and one above them: the thresholds at which a rate changes."""
        score = np.unique(np.concatenate([self.impostor.score, self.genuine.score]))
        return np.append(score, np.nextafter(score[-1], np.inf))

    @cached_property
    def _fmr(self) -> Floats:
        return self.fmr(self.thresholds)

    def threshold_at(self, fmr: float) -> float:
        """Find the smallest threshold whose false match rate is at most ``fmr``."""
        allowed = self._fmr <= fmr * (1.0 + 1e-9) + _ROUNDING
        return float(self.thresholds[int(np.argmax(allowed))])

    def equal_error(self) -> tuple[float, float]:
        """Find where the two rates cross: (threshold, rate), on the line between two points."""
        fmr, fnmr = self.fmr(self.thresholds), self.fnmr(self.thresholds)
        after = int(np.argmax(fmr <= fnmr))  # rates start at (1, 0) and end at (0, 1)
        before = max(after - 1, 0)
        gap_before, gap_after = fmr[before] - fnmr[before], fnmr[after] - fmr[after]
        part = gap_before / (gap_before + gap_after) if gap_before + gap_after > 0 else 1.0
        rate = fmr[before] + part * (fmr[after] - fmr[before])
        threshold = self.thresholds[after if part > 0.5 else before]
        return float(threshold), float(rate)


def make_rates(sample: PairSample, rows: Ints, weight_p: Floats | None = None) -> PairRates:
    """Prepare the rates of these pairs, with weights of their own if ``weight_p`` is given."""
    weight_p = sample.weight if weight_p is None else weight_p
    is_genuine = sample.genuine[rows]
    return PairRates(
        sort_scores(sample, rows[~is_genuine], weight_p),
        sort_scores(sample, rows[is_genuine], weight_p),
    )


@dataclass(frozen=True, eq=False)
class RateError:
    """The error of a rate, or of a combination of rates, in two parts.

    Attributes
    ----------
    of_units, of_dyads : variance of what pairs of a unit share, and of the noise of single dyads,
        or of single pairs of one unit.
    units, dyads : degrees of freedom of the two.
    """

    of_units: float
    of_dyads: float
    units: float
    dyads: float

    @property
    def variance(self) -> float:
        """Compute their sum."""
        return self.of_units + self.of_dyads

    @property
    def freedom(self) -> float:
        """Compute the degrees of freedom of the sum (Satterthwaite)."""
        varies = self.of_units**2 / self.units + self.of_dyads**2 / self.dyads
        return self.variance**2 / varies if varies > 0 else min(self.units, self.dyads)


@dataclass(frozen=True, eq=False)
class Errors:
    """How J rates vary together.

    Attributes
    ----------
    spread : (U, J) what every unit adds to the error of each rate.
    twice : (J, J) what the squares of ``spread`` count twice.
    alone : (J, J) the covariance as if dyads, or pairs of one unit, were independent.
    freedom : (J,) degrees of freedom of that noise.
    next_error : (2, J) E e and E e² of an error e = f s: s the share of the weight of a dyad drawn
        by its share, f the part of a dyad that errs where it does, Σ_d h_d²/Σ_d h_d s_d.
    """

    spread: Floats = field(repr=False)
    twice: Floats = field(repr=False)
    alone: Floats = field(repr=False)
    freedom: Floats = field(repr=False)
    next_error: Floats = field(repr=False)

    def combine(self, combination_j: Floats) -> RateError:
        """Compute the error of Σ_j a_j rate_j.

        Its degrees of freedom of units are those of S = Σ_u T_u², 2 S²/var(S) (Satterthwaite),
        var(S) = Σ_u T_u⁴ − S²/U: few where a few persons make most of the variance.
        """
        spread_u = self.spread @ combination_j
        square = float(spread_u @ spread_u)
        alone = max(float(combination_j @ self.alone @ combination_j), 0.0)
        units = max(square - float(combination_j @ self.twice @ combination_j) - alone, 0.0)
        varies = float((spread_u**4).sum()) - square**2 / spread_u.size
        freedom = 2.0 * square**2 / varies if varies > 0 else spread_u.size - 1.0
        used_j = combination_j != 0
        return RateError(
            units, alone, min(max(freedom, 1.0), spread_u.size), float(self.freedom[used_j].min())
        )

    def correlation(self, first_j: Floats, second_j: Floats) -> float:
        """Compute the correlation of the errors of two combinations of rates."""
        both = self.combine(first_j).variance * self.combine(second_j).variance
        shared = float((self.spread @ first_j) @ (self.spread @ second_j))
        shared -= float(first_j @ self.twice @ second_j)
        return min(max(shared / math.sqrt(both), -1.0), 1.0) if both > 0 else 0.0


def estimate_rate_errors(
    sample: PairSample, cells: Sequence[PairRates], threshold: npt.ArrayLike
) -> Errors:
    """Estimate the covariance of FMR and FNMR of every cell: FMR₁, FNMR₁, FMR₂, FNMR₂, ….

    A rate R = Σ_p w_p h_p/Σ w has the influences ψ_p = w_p (h_p − R)/Σ w. Two pairs are dependent
    where they share a unit. With T_u the sum of ψ over the pairs of unit u, and D_d that over the
    pairs of the same two units d,

        variance = Σ_u T_u² − Σ_d D_d²,

    the variance of an incomplete U-statistic, robust to any dependence through units (Aronow, Samii
    and Assenova 2015): Σ_u T_u² counts D_d² twice where d has two different units. T_u is centred
    within its stratum, and both are divided by what fitting the rates takes from them, see
    `_corrections`: where every two of the units are compared once the variance is unbiased. Where
    noise would make it smaller than Σ_d D_d², as if dyads were independent, it is that.
    ``threshold``: one, or (C, 2) one for each rate.
    """
    limit_c2 = np.broadcast_to(np.asarray(threshold, dtype=np.float64), (len(cells), 2))
    dyad_p, low_d, high_d = sample.dyads
    share_pj, hit_pj = _shares(sample, cells, limit_c2)
    to_dyad = scipy.sparse.coo_array(
        (np.ones(dyad_p.size), (dyad_p, np.arange(dyad_p.size))), shape=(low_d.size, dyad_p.size)
    ).tocsr()
    share_dj, hit_dj = (to_dyad @ share_pj).tocsr(), (to_dyad @ hit_pj).tocsr()
    psi_dj = _influences(share_dj, hit_dj)
    order_j = np.tile([2.0, 1.0], len(cells))
    leverage_uj = (sample.incidence @ share_dj).toarray() / order_j
    unit_uj, dyad_uj = _corrections(sample, leverage_uj, order_j)
    total_uj = _centred(sample, (sample.incidence @ psi_dj).toarray()) * unit_uj
    part = psi_dj.tocoo(copy=True)
    part.data *= (dyad_uj[low_d[part.row], part.col] + dyad_uj[high_d[part.row], part.col]) / 2
    between_d = scipy.sparse.diags_array((low_d != high_d).astype(np.float64))
    twice_jj = (part.T @ between_d @ part.tocsr()).toarray()
    alone_jj = (psi_dj.T @ psi_dj).toarray()
    # Pairs of one person: what they share is of the person, and their noise that of single pairs.
    psi_pj = _influences(share_pj, hit_pj)[:, 1::2]
    alone_jj[1::2, 1::2] = (psi_pj.T @ psi_pj).toarray()
    freedom_j = np.where(order_j == 2.0, _freedom(share_dj), _freedom(share_pj))
    return Errors(total_uj, twice_jj, alone_jj, freedom_j, _next_error(share_dj, hit_dj))


def _shares(
    sample: PairSample, cells: Sequence[PairRates], limit_c2: Floats
) -> tuple[scipy.sparse.csc_array, scipy.sparse.csc_array]:
    """Compute (P, 2C) the share of the weight of every pair, and of that the part that errs."""
    rows, share, hit = [], [], []
    for rates, limits in zip(cells, limit_c2.tolist(), strict=True):
        kinds = ((rates.impostor, True), (rates.genuine, False))
        for (tail, above), limit in zip(kinds, limits, strict=True):
            share_r = sample.weight[tail.rows]
            share_r = share_r / share_r.sum() if tail.rows.size else share_r
            hit_r = (sample.score[tail.rows] >= limit) == above
            rows.append(tail.rows)
            share.append(share_r)
            hit.append(share_r * hit_r)
    column = np.repeat(np.arange(len(rows)), [part.size for part in rows])
    place, shape = (np.concatenate(rows), column), (sample.score.size, len(rows))
    share_pj, hit_pj = (
        scipy.sparse.coo_array((np.concatenate(values), place), shape=shape).tocsc()
        for values in (share, hit)
    )
    return share_pj, hit_pj


def _influences(share: scipy.sparse.sparray, hit: scipy.sparse.sparray) -> scipy.sparse.csc_array:
    """Compute what each pair, or dyad, moves the rates by: hit − share · rate."""
    return (hit - share @ scipy.sparse.diags_array(hit.sum(axis=0))).tocsc()


def _next_error(share_dj: scipy.sparse.csr_array, hit_dj: scipy.sparse.csr_array) -> Floats:
    """Compute (2, J) E e and E e², see `Errors`."""
    most_j, whole_j = hit_dj.multiply(share_dj).sum(axis=0), hit_dj.power(2).sum(axis=0)
    part_j = np.where(most_j > 0, whole_j / np.maximum(most_j, 1e-300), 1.0)
    return np.stack([part_j**power * share_dj.power(power + 1).sum(axis=0) for power in (1, 2)])


def _centred(sample: PairSample, total_uj: Floats) -> Floats:
    """Subtract from the sums of units the mean of their stratum, where it has several."""
    size_s = np.bincount(sample.stratum)
    sum_sj = np.column_stack([add_by_code(sample.stratum, t_u, size_s.size) for t_u in total_uj.T])
    mean_sj = np.where((size_s > 1)[:, None], sum_sj / np.maximum(size_s, 1)[:, None], 0.0)
    centred_uj: Floats = total_uj - mean_sj[sample.stratum]
    return centred_uj


def _corrections(sample: PairSample, leverage_uj: Floats, order_j: Floats) -> tuple[Floats, Floats]:
    """Compute the factors of the sums of units, (U, J), and of dyads by their units, (U, J).

    Let ℓ be the leverage of a unit, and c what centring within its stratum adds. Genuine pairs, of
    one unit: T_u² is divided by 1 − 2 ℓ + Σ ℓ² − c, which is exact where means of units vary alike
    (and is 1 − 1/U − c where they have equal weights). Impostor pairs, of two units: T_u² and D_d²
    are multiplied by f = (1 − ℓ)/((1 − 2 ℓ)(1 − 3 ℓ)), T_u² by (1 − ℓ)/(1 − ℓ − c), too. If U units
    are compared, every two of them once, E Σ T² = (U − S)((U − 2) A + E)(U − 2) w² and E Σ D² =
    ((U − 1)(U − 2) A + (U (U − 1)/2 − 1) E) w², with A and E the variances of what a unit and of
    what a dyad does, S strata of one size, and w = 2/(U (U − 1)): with ℓ = 1/U and c = (S − 1)/U
    their difference is the variance, U ((U − 1)² A + (U − 1) E/2) w².
    """
    size_s = np.bincount(sample.stratum)
    part_sj = np.column_stack(
        [add_by_code(sample.stratum, l_u, size_s.size) for l_u in leverage_uj.T]
    )
    fitted_sj = np.where((size_s > 1)[:, None], (1.0 - part_sj) / size_s[:, None].clip(1), 0.0)
    at_most_uj = np.minimum(leverage_uj, _LARGEST_LEVERAGE)
    left_uj = np.where(
        order_j == 1.0,
        np.maximum(1.0 - 2.0 * leverage_uj + (leverage_uj**2).sum(axis=0), _ROUNDING),
        1.0 - at_most_uj,
    )
    of_dyads_uj = (1.0 - at_most_uj) / ((1.0 - 2.0 * at_most_uj) * (1.0 - 3.0 * at_most_uj))
    of_units_uj = np.where(order_j == 1.0, 1.0 / left_uj, of_dyads_uj)
    added_uj = np.minimum(fitted_sj[sample.stratum] / left_uj, _LARGEST_ADDED)
    return np.sqrt(of_units_uj / (1.0 - added_uj)), np.sqrt(of_dyads_uj)


def _freedom(share_pj: scipy.sparse.sparray) -> Floats:
    """Compute degrees of freedom of the noise, (J,): Kish's number of squares, minus one."""
    square_pj = share_pj.power(2)
    sum_j, square_j = square_pj.sum(axis=0), square_pj.power(2).sum(axis=0)
    freedom_j: Floats = np.maximum(sum_j**2 / np.maximum(square_j, 1e-300) - 1.0, 1.0)
    return freedom_j
