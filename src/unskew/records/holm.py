"""Several tests of one model: p-values that stay right however many there are (Holm 1979)."""

from __future__ import annotations

import math
from collections.abc import Iterable

# A model is objected to below this. Holm's p-values of exact tests would object to a right model
# with at most this chance; those of a bootstrap on few images reject a point or two too often, and
# a right model must be objected to on at most 5% of pages.
OBJECTION = 0.025


def holm(tests: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Adjust p-values: max over j ≤ i of (m + 1 − j) p_(j), p_(1) ≤ … ≤ p_(m), at most 1.

    Whatever the tests' dependence, the chance that any true hypothesis has an adjusted p-value
    below α is at most α. Tests that could not be made (NaN) count for nothing and are left out.

    >>> holm([("a", 0.01), ("b", 0.04), ("c", 0.03)])
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    made = sorted(
        ((name, float(p_value)) for name, p_value in tests if not math.isnan(p_value)),
        key=lambda test: test[1],
    )
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, p_value) in enumerate(made):
        largest = max(largest, min(1.0, (len(made) - rank) * p_value))
        adjusted[name] = largest
    return adjusted
