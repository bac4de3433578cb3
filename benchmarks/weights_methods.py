"""The methods of the table: which library computes them, what they are given, and above which size
they are not tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weights_problems import Problem


@dataclass(frozen=True)
class Method:
    """One row of a problem's table. ``given``: "omega", "margin", "sample", "source" or "nothing"
    beyond the pool.
    """

    key: str
    title: str
    library: str
    given: str
    largest: int = 1_000_000
    reason: str = ""
    draws: int = 5  # at least so many, however long they take
    only_direction: bool = (
        False  # shown in the check of directions, as released, and not run on the problems
    )


SQUARE = "memory or time grows with the square of n"
OURS = (
    Method("known", "unskew, Known(ω)", "unskew", "omega"),
    Method("known_shrunk", "unskew, Known(ω), shrunk", "unskew", "omega"),
    Method("strata", "unskew, Strata(label)", "unskew", "margin"),
    Method(
        "strata_sample", "unskew, Strata(label), the labelled sample as target", "unskew", "sample"
    ),
    Method(
        "strata_sample_shrunk",
        "unskew, Strata(label), the labelled sample as target, shrunk",
        "unskew",
        "sample",
    ),
    Method("soft_box", "unskew, SoftBox", "unskew", "nothing"),
    Method("soft_box_shrunk", "unskew, SoftBox, shrunk", "unskew", "nothing"),
    Method("soft_box_sample", "unskew, SoftBox with the target sample", "unskew", "sample"),
    Method(
        "soft_box_sample_shrunk",
        "unskew, SoftBox with the target sample, shrunk",
        "unskew",
        "sample",
    ),
    Method(
        "strata_source", "unskew, Strata(label), the unbiased source as target", "unskew", "source"
    ),
    Method("tilt", "unskew, Tilt", "unskew", "sample"),
    Method("tilt_shrunk", "unskew, Tilt, shrunk", "unskew", "sample"),
    Method(
        "tilt_judged", "unskew, Tilt, with its verdict on the sample", "unskew", "sample", draws=1
    ),
    Method("propensity", "unskew, Propensity", "unskew", "sample"),
)
PEERS = (
    Method("naive", "naive pooling", "naive", "nothing"),
    Method("skada_density", "skada, density", "skada", "sample", 10_000, SQUARE),
    Method("skada_gaussian", "skada, Gaussian", "skada", "sample"),
    Method("skada_discriminator", "skada, discriminator (inverted)", "skada", "sample"),
    Method(
        "skada_discriminator_released",
        "skada, discriminator as released",
        "skada",
        "sample",
        only_direction=True,
    ),
    Method("skada_kliep", "skada, KLIEP", "skada", "sample"),
    Method("skada_kmm", "skada, KMM", "skada", "sample", 3_000, SQUARE),
    Method("skada_nearest", "skada, nearest neighbour (repaired)", "skada", "sample"),
    Method(
        "skada_nearest_released",
        "skada, nearest neighbour as released",
        "skada",
        "sample",
        only_direction=True,
    ),
    Method("adapt_classifier", "adapt, IWC (discriminator)", "adapt", "sample"),
    Method("adapt_nearest", "adapt, nearest neighbours", "adapt", "sample"),
    Method("adapt_ulsif", "adapt, uLSIF", "adapt", "sample"),
    Method("adapt_rulsif", "adapt, RuLSIF", "adapt", "sample"),
    Method("adapt_kliep", "adapt, KLIEP", "adapt", "sample"),
    Method(
        "adapt_kmm",
        "adapt, KMM",
        "adapt",
        "sample",
        10_000,
        "a quadratic program for each block of 1,000 images",
    ),
    Method("adapt_ldm", "adapt, LDM", "adapt", "sample", 3_000, SQUARE),
    Method(
        "adapt_network",
        "adapt, IWN (network)",
        "adapt",
        "sample",
        10_000,
        "time grows with n times the epochs",
        draws=2,
    ),
    Method("balance_rake", "balance, raking to the sample", "balance", "sample"),
    Method("balance_cbps", "balance, CBPS", "balance", "sample"),
    Method(
        "balance_ipw_raw", "balance, IPW, 25 penalties, features not binned", "balance", "sample"
    ),
    Method("balance_ipw", "balance, IPW, 25 penalties", "balance", "sample"),
    Method("balance_rake_margin", "balance, raking to the margin", "balance", "margin"),
    Method("balance_poststratify", "balance, post-stratification", "balance", "margin"),
)
BY_KEY = {method.key: method for method in (*OURS, *PEERS)}
GIVEN = {
    "omega": "true ω, no target sample",
    "margin": "the target's label shares, no target sample",
    "source": "which source is unbiased",
    "sample": "target sample",
    "nothing": "nothing",
}


def methods_for(problem: Problem) -> Iterator[Method]:
    """Ours whose assumptions hold, then the peers that can be given what the problem has."""
    for method in OURS:
        if method.key in problem.ours:
            yield method
    for method in PEERS:
        if not method.only_direction and (method.given != "margin" or "strata" in problem.ours):
            yield method
