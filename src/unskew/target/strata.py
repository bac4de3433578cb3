"""What a target asks of a pool: the mass of every stratum, or the reference to resemble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints, Pool


@dataclass(frozen=True, eq=False)
class TargetStrata:
    """The strata of a pool with their target mass.

    Attributes
    ----------
    by : the attributes.
    strata : C tuples of levels.
    mass : (C,) target mass, sums to 1; strata outside the target's scope hold their pool share.
    in_scope : (C,) False for those.
    code : (n,) stratum of every row, -1 for dropped rows.
    unit : (n,) how much of a unit a row is: 1, or 1/(images of its group in its stratum); 0 for
        dropped rows.
    covariance : (C, C) covariance of ``mass`` from the error of the facts; None where they are
        exact.
    uncovered : strata with target mass and no images, left out (``uncovered="restrict"``), and
        their mass before.
    dropped : number of rows dropped, by reason.
    population : which population results describe.
    sentences : what was given, assumed and done.
    share_jacobian : (C, C) ∂mass_c/∂ log N_d where the masses are raked from the pool's own counts
        N; None where they do not depend on N.
    """

    by: tuple[str, ...]
    strata: tuple[tuple[str, ...], ...] = field(repr=False)
    mass: Floats = field(repr=False)
    in_scope: npt.NDArray[np.bool_] = field(repr=False)
    code: Ints = field(repr=False)
    unit: Floats = field(repr=False)
    covariance: Floats | None = field(repr=False)
    uncovered: Mapping[str, float]
    dropped: Mapping[str, int]
    population: str
    sentences: tuple[str, ...] = field(repr=False)
    share_jacobian: Floats | None = field(repr=False, default=None)

    @cached_property
    def size(self) -> Floats:
        """(C,) N_c, units (images or groups) of the pool in each stratum."""
        kept_n = self.code >= 0
        return np.asarray(
            np.bincount(self.code[kept_n], weights=self.unit[kept_n], minlength=len(self.strata)),
            dtype=np.float64,
        )

    @property
    def weight(self) -> Floats:
        """(n,) post-stratified weights p_c/N_c × unit, sum 1; 0 for dropped rows and mass 0."""
        kept_n = self.code >= 0
        weight_n = np.zeros(self.code.size)
        weight_n[kept_n] = (self.mass / self.size)[self.code[kept_n]] * self.unit[kept_n]
        return weight_n

    def describe(self) -> tuple[str, ...]:
        """Return what was given, assumed and done, and which population results describe."""
        return self.sentences


@dataclass(frozen=True, eq=False)
class TargetReference:
    """A sample of the target, or the name of the source of the pool that is one.

    The share ``holdout`` of it judges and does not fit.
    """

    sample: Pool | None
    source: str | None
    holdout: float
    sentences: tuple[str, ...] = field(repr=False)

    def describe(self) -> tuple[str, ...]:
        """Return what was given and what is assumed."""
        return self.sentences
