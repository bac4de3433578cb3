"""The tests of one comparison: each column by itself, and all columns together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from unskew.bias.comparisons import Comparison
from unskew.bias.probe_functions import Column, JointFunctions, make_joint
from unskew.bias.redrawn_sources import Sums, sum_residuals
from unskew.bias.residual_draws import Singles
from unskew.records import Floats, Ints
from unskew.solve.profile_likelihood import Profile

# A residual whose variance is this small relative to that of the labels themselves is rounding:
# nothing there can be tested.
_NO_VARIANCE = 1e-8


@dataclass(frozen=True)
class FeatureCheck:
    """One feature: its p-value, and where the model is off most.

    That is the source and the ``place`` (a level, or below a threshold); ``excess`` is the share of
    that source's images there minus the share that the model expects.
    """

    feature: str
    statistic: float
    p_value: float
    source: str
    place: str
    excess: float


@dataclass(frozen=True)
class JointCheck:
    """All columns together: what no column shows by itself.

    Attributes
    ----------
    columns : that were compared.
    sources : that were compared; those without one of the columns are not.
    p_value : of products of two columns and of random functions of all columns together.
    source, place : where a product is off most, such as ``x × y`` or ``label = dog × x``.
    excess : mean of that product in the source minus the mean that the model expects; numbers count
        by their ranks, levels as indicators, each scaled to mean 0 and variance 1.
    """

    columns: tuple[str, ...]
    sources: tuple[str, ...]
    p_value: float
    source: str
    place: str
    excess: float


@dataclass(frozen=True, eq=False)
class Statistic:
    """A statistic and (B,) what it is in the replicates; large ones speak against the model."""

    observed: float
    null: Floats = field(repr=False)

    @property
    def p_value(self) -> float:
        return float((1 + np.count_nonzero(self.null >= self.observed)) / (1 + self.null.size))

    @property
    def standardised(self) -> Statistic:
        """Minus the mean, over the standard deviation.

        Of the replicates and the observed one: a scale from the replicates alone would fit these
        better, and the largest of many observed ones would look too large.
        """
        centre, scale = float(self._every.mean()), max(float(self._every.std()), 1e-300)
        return Statistic((self.observed - centre) / scale, (self.null - centre) / scale)

    @property
    def relative(self) -> Statistic:
        """Over the mean of the replicates and the observed one."""
        scale = max(float(self._every.mean()), 1e-300)
        return Statistic(self.observed / scale, self.null / scale)

    @property
    def _every(self) -> Floats:
        return np.append(self.null, self.observed)


@dataclass(frozen=True, eq=False)
class ComparisonTests:
    """The tests of one comparison; ``p_value`` is None where nothing can be tested.

    ``n_redrawn``: images whose sources were drawn again.
    """

    features: tuple[FeatureCheck, ...]
    n_redrawn: int
    joint: JointCheck | None = None
    p_value: float | None = None


def smallest_p(statistics: Sequence[Statistic]) -> Statistic:
    """Combine statistics into one: minus the logarithm of the smallest of their p-values.

    These are read off a gamma distribution with the mean, variance and skewness of the replicates,
    for the replicates as for the data, so that the p-value of the combination is right whatever the
    dependence of the statistics (Westfall & Young 1993), and however rough this distribution is.
    """
    return (
        statistics[0] if len(statistics) == 1 else _maximum([_surprise(one) for one in statistics])
    )


def _surprise(statistic: Statistic) -> Statistic:
    """Compute −log P(statistic or larger) under the shifted gamma distribution."""
    centre, scale = float(statistic.null.mean()), max(float(statistic.null.std()), 1e-300)
    z_b = (np.append(statistic.null, statistic.observed) - centre) / scale
    shape = 4.0 / float(np.clip(np.mean(z_b[:-1] ** 3), 0.05, 5.0)) ** 2
    # A gamma distribution of shape k has mean and variance k. Beyond ``far`` its tail would be 0 in
    # doubles; there it falls like e^−y.
    y_b = np.maximum(shape + z_b * np.sqrt(shape), 0.0)
    far = shape + 30 * np.sqrt(shape)
    tail_b = np.maximum(scipy.special.gammaincc(shape, np.minimum(y_b, far)), 1e-300)
    log_b = np.maximum(y_b - far, 0.0) - np.log(tail_b)
    return Statistic(float(log_b[-1]), log_b[:-1])


def run_tests(
    profile: Profile,
    group_r: Ints | None,
    names: Sequence[str],
    comparison: Comparison,
    *,
    replicates: int,
    seed: int,
) -> ComparisonTests:
    """Test every column of a comparison by itself, and all of them together."""
    alone = [column for column in comparison.columns if column.name in comparison.alone]
    if profile.is_saturated and _are_of_strata(comparison.columns, profile.cell):
        return ComparisonTests(tuple(_not_tested(column, names) for column in alone), 0)
    joint = make_joint(comparison.columns, "label", seed)
    end_c = np.cumsum([0, *[len(column.places) for column in alone]])

    def functions(at: Ints) -> Singles:
        parts = [column.indicators(at) for column in alone]
        return np.concatenate(parts if joint is None else [*parts, joint(at)], axis=1)

    sums = sum_residuals(
        profile,
        group_r,
        comparison.sources,
        functions,
        replicates=replicates,
        seed=seed,
        # The edges of soft boxes, found by a search, are near the maximum of the likelihood, and
        # replicates at it. With a penalty the fit is meant to be elsewhere.
        refit=not profile.penalty.any(),
    )
    tests = [
        _test_feature(column, sums.take(slice(begin, end)), names)
        for column, begin, end in zip(alone, end_c[:-1], end_c[1:], strict=True)
    ]
    checks = tuple(check for check, _ in tests)
    together = _largest([statistic for _, statistic in tests if statistic is not None])
    joint_check = None
    if joint is not None:
        joint_check, statistic = _test_joint(
            joint, sums.take(slice(end_c[-1], None)), names, comparison
        )
        together += [] if statistic is None else [statistic]
    if not together:
        return ComparisonTests(checks, sums.n_redrawn)
    return ComparisonTests(checks, sums.n_redrawn, joint_check, smallest_p(together).p_value)


def _are_of_strata(columns: Sequence[Column], cell_r: Ints) -> bool:
    """Tell whether all columns are the same for all rows of a stratum.

    A model of strata alone expects in each what each source has there, so that S_k(f) = 0 for every
    function f of the strata, in the data as in the replicates.
    """
    row_c = np.zeros(int(cell_r.max()) + 1, dtype=np.int64)
    row_c[cell_r] = np.arange(cell_r.size)
    return all(
        np.array_equal(value_r, value_r[row_c][cell_r], equal_nan=value_r.dtype.kind == "f")
        for column in columns
        for value_r in column.values()
    )


def _not_tested(column: Column, names: Sequence[str]) -> FeatureCheck:
    place = column.places[0] if column.places else f"{column.name} (constant)"
    return FeatureCheck(column.name, 0.0, 1.0, names[0], place, 0.0)


def _largest(statistics: Sequence[Statistic]) -> list[Statistic]:
    """Combine features into one statistic, the largest relative to its mean; [] without any."""
    if not statistics:
        return []
    return [_maximum([statistic.relative for statistic in statistics])]


def _maximum(statistics: Sequence[Statistic]) -> Statistic:
    return Statistic(
        max(statistic.observed for statistic in statistics),
        np.max([statistic.null for statistic in statistics], axis=0),
    )


def _source_weights(sums: Sums) -> Floats:
    """(K,) 1/variance of each source's sums, on average over the functions; 0 where there is none.

    One scale for each source: thresholds near the ends, where little varies, count little.
    """
    square_k = np.square(sums.null, dtype=np.float64).mean(axis=2).sum(axis=0)
    scale_k = (square_k + np.square(sums.observed).mean(axis=1)) / (1 + len(sums.null))
    # What does not vary in the replicates cannot be tested, whatever is observed.
    scale_k = np.where(square_k > _NO_VARIANCE * len(sums.null) * sums.size, scale_k, 0.0)
    weight_k = np.zeros(scale_k.size)
    np.divide(1.0, scale_k, out=weight_k, where=scale_k > 0)
    return weight_k


def _squares(sums: Sums, weight_k: Floats) -> Statistic:
    """Σ_k Σ_t S_kt²/variance."""
    observed = float((np.square(sums.observed).sum(axis=1) * weight_k).sum())
    return Statistic(observed, np.einsum("bkt,bkt,k->b", sums.null, sums.null, weight_k))


def _test_feature(
    column: Column, sums: Sums, names: Sequence[str]
) -> tuple[FeatureCheck, Statistic | None]:
    """(outcome, statistic); None where nothing can be tested."""
    if not column.places:
        return _not_tested(column, names), None
    excess_kt = sums.observed / np.maximum(sums.size, 1)[:, None]
    worst_k, worst_t = np.unravel_index(int(np.argmax(np.abs(excess_kt))), excess_kt.shape)
    outcome = (names[int(worst_k)], column.places[int(worst_t)], float(excess_kt[worst_k, worst_t]))
    weight_k = _source_weights(sums)
    if not weight_k.any():
        return FeatureCheck(column.name, 0.0, 1.0, *outcome), None
    statistic = _squares(sums, weight_k)
    return FeatureCheck(column.name, statistic.observed, statistic.p_value, *outcome), statistic


def _test_joint(
    joint: JointFunctions, sums: Sums, names: Sequence[str], comparison: Comparison
) -> tuple[JointCheck | None, Statistic | None]:
    """Combine the families of functions; products also by the pair and source that is off most."""
    statistics, pairs = [], []
    for family in joint.families:
        own = sums.take(family.part)
        weight_k = _source_weights(own)
        if weight_k.any():
            statistics.append(_squares(own, weight_k))
        pairs += [
            (part.start, *pair) for part in family.pairs for pair in _by_source(sums.take(part))
        ]
    if not pairs:
        return None, None
    start, k, t, _ = max(pairs, key=lambda pair: pair[3].observed)
    t += start
    statistics.append(_maximum([statistic for *_, statistic in pairs]))
    combined = smallest_p(statistics)
    check = JointCheck(
        tuple(column.name for column in comparison.columns),
        tuple(name for name, is_own in zip(names, comparison.sources, strict=True) if is_own),
        combined.p_value,
        names[k],
        joint.places[t],
        float(sums.observed[k, t] / sums.size[k]),
    )
    return check, combined


def _by_source(sums: Sums) -> Iterator[tuple[int, int, Statistic]]:
    """Yield (source, its function that is off most, standardised statistic) of a pair."""
    weight_k = _source_weights(sums)
    for k in np.flatnonzero(weight_k).tolist():
        worst = int(np.argmax(np.abs(sums.observed[k])))
        yield k, worst, _squares(sums.of_source(k), weight_k[[k]]).standardised
