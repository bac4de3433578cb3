"""What varies independently: images or groups, the strata they are drawn in, their spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy
import scipy.sparse
import scipy.sparse.csgraph

from unskew.errors import DataError
from unskew.records import Estimate, Floats
from unskew.records.arrays import check_length, refuse_entries
from unskew.weigh.effective_size import add_by_code

if TYPE_CHECKING:
    from unskew.records import Codes, Floats, Ints, Weights


class SampledRows(Protocol):
    """What units are found from."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def source(self) -> Codes: ...
    @property
    def unit(self) -> Ints | None: ...


class WeightedRows(SampledRows, Protocol):
    """What errors are computed from: `Weights`, or the rows behind estimated weights."""

    @property
    def weight(self) -> Floats: ...
    @property
    def design_weight(self) -> Floats | None: ...


@dataclass(frozen=True)
class Units:
    """The independent units behind the weights: images, or images that belong together.

    Images of one group belong together, and so do copies of one image and whatever these tie
    together (`unskew.splits.folds.unit_codes`). Units are exchangeable within strata. A stratum is
    a source; sources that share a unit form one stratum together, since their units cannot be
    drawn apart.

    unit_n : (n,) unit of each image.
    stratum_m : (m,) stratum of each unit.
    size_s : (S,) number of units in each stratum.
    are_images : whether every image is a unit.
    """

    unit_n: Ints
    stratum_m: Ints
    size_s: Ints
    are_images: bool = False

    @property
    def cannot_vary(self) -> bool:
        """Whether there is one unit altogether, or one group of images in every stratum.

        Then the data do not show how much units differ.
        """
        n_units = self.stratum_m.size
        return n_units == 1 or bool(self.size_s.max() == 1 and n_units < self.unit_n.size)


def find_units(weights: SampledRows) -> Units:
    """Find the units of the sources: images or, where there are groups or copies, those."""
    n_sources = len(weights.names)
    source_n = weights.source.astype(np.int64)
    if weights.unit is None:
        size_k = np.bincount(source_n, minlength=n_sources)
        return Units(np.arange(source_n.size), source_n, size_k, are_images=True)
    _, unit_n = np.unique(weights.unit, return_inverse=True)
    size = n_sources + int(unit_n.max()) + 1
    link = scipy.sparse.coo_array(
        (np.ones(source_n.size), (source_n, n_sources + unit_n)), shape=(size, size)
    )
    _, stratum = scipy.sparse.csgraph.connected_components(link.tocsr(), directed=False)
    stratum_m = stratum[n_sources:].astype(np.int64)
    return Units(unit_n, stratum_m, np.bincount(stratum_m))


def counts_of(weights: WeightedRows) -> Floats:
    """(n,) d_i, how often each image counts: its design weight, or 1."""
    if weights.design_weight is None:
        return np.ones(weights.weight.size)
    return weights.design_weight


def design_effect(weights: WeightedRows, units: Units, deviation_n: Floats) -> float:
    """Compute the factor by which groups multiply the model-based variance; 1 without groups.

    It is Σ_j (Σ_{i in j} r_i)²/Σ_i r_i². r_i is the image's own influence π_i (h_i − μ̂), centred
    within its source. An image of design weight d_i is a group of d_i copies: it adds d_i r_i and
    d_i r_i², r_i that of one copy. Duplicating every image within its group doubles the factor
    while it halves the variance of independent images: their product stays. A source with one group
    is left out, as its sum is 0 by construction. Where no r is left (h and π do not vary within
    sources) nothing tells how alike the images of a group are, and they count as copies of one
    another: Σ_j m_j²/n, m_j the size of group j.
    """
    if units.are_images and weights.design_weight is None:
        return 1.0
    pull_n, count_n = weights.weight * deviation_n, counts_of(weights)
    n_sources = len(weights.names)
    mean_k = add_by_code(weights.source, pull_n, n_sources) / np.bincount(
        weights.source, weights=count_n, minlength=n_sources
    )
    pull_n = np.divide(pull_n, count_n, out=np.zeros_like(pull_n), where=count_n > 0)
    first_k, last_k = np.full(mean_k.size, units.stratum_m.size), np.full(mean_k.size, -1)
    np.minimum.at(first_k, weights.source, units.unit_n)
    np.maximum.at(last_k, weights.source, units.unit_n)
    rest_n = np.where((first_k < last_k)[weights.source], pull_n - mean_k[weights.source], 0.0)
    # Rounding is no variation.
    if float(count_n @ rest_n**2) <= 1e-24 * float(count_n @ pull_n**2):
        rest_n = np.ones_like(pull_n)
    rest_m = add_by_code(units.unit_n, count_n * rest_n, units.stratum_m.size)
    return float(rest_m @ rest_m) / float(count_n @ rest_n**2)


def centre_units(
    weights: WeightedRows, units: Units, total_mj: Floats, mean_kj: Floats, expected_kj: Floats
) -> Floats:
    """Compute (m, J) T_j/(n (1 − leverage_j)^{a_j/2}), whose squares add up to the variance.

    That is the spread of unit sums of influence functions. ``total_mj`` is the sum over every unit,
    ``mean_kj`` the mean in each source, ``expected_kj`` the expectation there under the model. T_j
    is centred at the mean of each source, or at the expectation where a single unit makes up the
    source.

    The data fit themselves a little: with p_jk and m_jk the weight and the number of images of unit
    j in source k, P_k and n_k those of the source, centring takes 1 − P_k times the share m_jk/n_k
    out of T_j and the estimated mean takes p_jk. The leverage is their sum, p_jk + (1 − P_k)
    m_jk/n_k, averaged over the images of the unit. In one source with equal weights it is 1/n. With
    design weights m_jk and n_k are sums of d_i, and T_j is one of d_i ψ_i.

    a_j is the leverage in units of its mean in the stratum, cut to [1, 2] (after HC4 of
    Cribari-Neto 2004). At 1, units alike, the variance is unbiased; at 2 a unit counts by what the
    estimate would be without it, as the jackknife has it. Without that, one image that carries all
    the weight would have no error at all: the mean is its value.
    """
    n = weights.weight.size
    if units.are_images:
        leverage_m, centred_mj = _centre_images(weights, total_mj, mean_kj, expected_kj)
    else:
        leverage_m, centred_mj = _centre_groups(weights, units, total_mj, mean_kj, expected_kj)
    mean_s = add_by_code(units.stratum_m, leverage_m, units.size_s.size) / np.maximum(
        units.size_s, 1
    )
    power_m = np.clip(leverage_m / np.maximum(mean_s, 1e-300)[units.stratum_m], 1.0, 2.0)
    # Leverage 1: all the weight, and nothing left to spread.
    spread_mj: Floats = (
        centred_mj / (n * np.maximum(1.0 - leverage_m, 1e-12) ** (0.5 * power_m))[:, None]
    )
    return spread_mj


def _centre_images(
    weights: WeightedRows, total_nj: Floats, mean_kj: Floats, expected_kj: Floats
) -> tuple[Floats, Floats]:
    """Return ((n,) leverages, (n, J) centred sums) where every image is a unit."""
    count_n, source_n = counts_of(weights), weights.source
    size_k = np.bincount(source_n, minlength=len(weights.names))
    total_k = np.bincount(source_n, weights=count_n, minlength=size_k.size)
    centred_k = np.where(size_k == 1, 0.0, 1.0 - add_by_code(source_n, weights.weight, size_k.size))
    leverage_n = (
        weights.weight + count_n * (centred_k / np.where(total_k > 0, total_k, 1.0))[source_n]
    )
    centre_kj = np.where((size_k == 1)[:, None], expected_kj, mean_kj)
    return leverage_n, total_nj - count_n[:, None] * centre_kj[source_n]


def _centre_groups(
    weights: WeightedRows, units: Units, total_mj: Floats, mean_kj: Floats, expected_kj: Floats
) -> tuple[Floats, Floats]:
    """Return ((m,) leverages, (m, J) centred sums) where units are groups."""
    source_n, count_n = weights.source, counts_of(weights)
    shape = (units.stratum_m.size, len(weights.names))
    images_mk = scipy.sparse.coo_array((count_n, (units.unit_n, source_n)), shape=shape).tocsr()
    weight_mk = scipy.sparse.coo_array(
        (weights.weight, (units.unit_n, source_n)), shape=shape
    ).tocsr()
    unit_p, source_p = np.repeat(np.arange(shape[0]), np.diff(images_mk.indptr)), images_mk.indices
    lone_k = np.bincount(source_p, minlength=shape[1]) == 1
    centred_k = np.where(lone_k, 0.0, 1.0 - add_by_code(source_n, weights.weight, shape[1]))
    leverage_p = (
        weight_mk.data
        + centred_k[source_p] * images_mk.data / np.bincount(source_n, weights=count_n)[source_p]
    )
    leverage_m = add_by_code(unit_p, leverage_p * images_mk.data, shape[0]) / np.bincount(
        units.unit_n, weights=count_n
    )
    return leverage_m, total_mj - images_mk @ np.where(lone_k[:, None], expected_kj, mean_kj)


def centre_within_sources(weights: WeightedRows, units: Units, influence_n: Floats) -> Floats:
    """Compute (m,) the spread of the unit sums of one influence function."""
    n_sources = len(weights.names)
    total_m = influence_n
    if not units.are_images:
        total_m = add_by_code(units.unit_n, influence_n, units.stratum_m.size)
    mean_k = add_by_code(weights.source, influence_n, n_sources) / np.bincount(
        weights.source, weights=weights.design_weight, minlength=n_sources
    )
    return centre_units(
        weights, units, total_m[:, None], mean_k[:, None], np.zeros((n_sources, 1))
    )[:, 0]


def degrees_of_freedom(variance_s: Floats, size_s: Ints | Floats) -> float:
    """Compute the degrees of freedom of Welch and Satterthwaite, (Σ_s v_s)²/Σ_s (v_s²/(m_s − 1)).

    Where no stratum has a spread of its own, they are those of all strata together.
    """
    # A million are as good as infinitely many.
    free_s = np.clip(size_s - 1, 1, 1e6)
    largest = float(variance_s.max())
    if not 0.0 < largest < math.inf:
        return float(free_s.sum())
    # Relative to the largest, so that squares neither overflow nor vanish.
    relative_s = variance_s / largest
    return float(relative_s.sum() ** 2 / (relative_s**2 / free_s).sum())


def student_estimate(mean: float, stderr: float, freedom: float, level: float) -> Estimate:
    """Return the mean with the interval of Student's t, infinite where it is too wide to tell."""
    half_width = stderr * float(scipy.special.stdtrit(freedom, 0.5 + level / 2))
    if not math.isfinite(half_width):
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    return Estimate(mean, stderr, (mean - half_width, mean + half_width), level)


def check_order(values: Any, weights: Weights, name: str = "values") -> None:
    """Refuse a pandas Series in another order: by position its values go to wrong images."""
    index: Any = getattr(values, "index", None)
    if not hasattr(index, "equals") or len(index) != weights.weight.size:
        return
    label_n, id_n = np.asarray(index), weights.id
    if not np.array_equal(label_n, id_n) and set(label_n.tolist()) == set(id_n.tolist()):
        raise DataError(
            f"the index of {name} holds the ids of the weights in another order; pass "
            f"{name}.loc[weights.id].",
            option=name,
        )


def check_values(values: npt.ArrayLike, n: int, name: str = "values") -> Floats:
    """Return ``values`` as n finite floats; anything else is a `DataError` about ``name``."""
    try:
        value_n = np.asarray(values)
    except ValueError as error:  # rows of several lengths
        raise DataError(f"{name} must be numbers, one per image: {error}") from None
    if value_n.dtype.kind not in "biuf":
        raise DataError(
            f"{name} must be numbers, one per image; got an array of type {value_n.dtype}.",
            value=str(value_n.dtype),
        )
    in_order = " They are taken in the order of weights.id; for several quantities call repeatedly."
    check_length(value_n, n, name, in_order)
    value_n = value_n.astype(np.float64)
    way_out = " Leave such images out before the weights are computed."
    refuse_entries(~np.isfinite(value_n), value_n, name, "finite", way_out)
    return value_n
