"""Intervals of shares that rest on a few images: near 0 and 1 a normal one is too short."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy

from unskew.records import Estimate, Floats, Ints
from unskew.records.clustered_mean import effective_size
from unskew.weigh.effective_size import add_by_unit

# Up to so many images of the rarer kind the interval is the score interval, from twice as many on
# the normal one, and a mixture between.
_FEW = 10.0
# A standard error that is 0 but for rounding: strata determine the value.
_ROUNDING = 1e-9


def bound_share(
    estimate: Estimate, weight_n: Floats, value_n: Floats, unit_n: Ints | None
) -> Estimate:
    """Return the estimate with an interval that holds for rare outcomes, too.

    For values of 0 and 1 the variance depends on the share itself. The interval holds the shares p
    with (p̂ − p)² ≤ t² (se² + f (p (1 − p) − p̂ (1 − p̂))/n), t Student's quantile: Wilson's (1927)
    where f = 1, the normal one where f = 0. f falls from 1 to 0 between 10 and 20 images of the
    rarer kind. n = p̂ (1 − p̂)/se², but no less than Kish's number of units and no more than that of
    images; the former where all values are equal: of 100 images without a single 1 the interval is
    0 to 0.037. The standard error stays as it is. So do values that strata determine, and the
    intervals of models that are compared with a rival's.
    """
    used_n = value_n[weight_n > 0]
    half = (estimate.interval[1] - estimate.interval[0]) / 2
    middle = (estimate.interval[1] + estimate.interval[0]) / 2
    if not math.isfinite(half) or not ((used_n == 0.0) | (used_n == 1.0)).all():
        return estimate
    share = min(max(estimate.value, 0.0), 1.0)
    variance, binomial = estimate.stderr**2, share * (1.0 - share)
    varies = np.ptp(used_n) > 0
    if (varies and estimate.stderr <= _ROUNDING) or abs(middle - estimate.value) > 1e-6 * half:
        return estimate
    n_images = effective_size(weight_n)
    n_units = n_images
    if unit_n is not None:
        n_units = effective_size(add_by_unit(unit_n, weight_n))
    n = min(max(binomial / variance, n_units), n_images) if varies else n_units
    quantile = (
        half / estimate.stderr
        if estimate.stderr > 0
        else float(scipy.special.ndtri(0.5 + estimate.level / 2))
    )
    few = min(max(2.0 - n * min(share, 1.0 - share) / _FEW, 0.0), 1.0)
    c = few * quantile**2 / n
    centre = (share + c / 2) / (1.0 + c)
    reach = math.sqrt(c**2 * (0.25 - binomial) + (1.0 + c) * quantile**2 * variance) / (1.0 + c)
    return replace(estimate, interval=(max(centre - reach, 0.0), min(centre + reach, 1.0)))
