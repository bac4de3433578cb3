"""One weight for every image; an estimate with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError
from unskew.records.arrays import Floats
from unskew.records.solution import Overlap, Solution

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Description
    from unskew.debiasing.estimation import Estimation
    from unskew.records.pool import Pool
    from unskew.weigh.effective_size import Diagnosis
    from unskew.weigh.sensitivity import Sensitivity
    from unskew.weigh.uncertainty import Bootstrap


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and a two-sided interval at ``level``."""

    value: float
    stderr: float
    interval: tuple[float, float]
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Weights:
    """One weight for every image, so that the weighted pool behaves like a sample of the target.

    Attributes
    ----------
    weight : (n,) π_i, non-negative, sums to 1.
    id : (n,) the ids of the images, in the order of ``weight``; ``align`` joins by them.
    source : (n,) code of each image's source, an index into ``names``.
    names : names of the K sources.
    solution : the solved equations behind the weights.
    overlap : the overlap graph with κ, overlap matrix, spectral gap and σ₂ at the solution.
    group : (n,) code of each image's group (patient, burst), an index into ``group_names``; None
        without groups.
    group_names : the groups as they were given.
    rows : ω as the solver reads it (not a copy: don't change ω afterwards); the uncertainty methods
        read memberships from it.
    estimation : how ω was estimated, if `unskew.debias` did; errors then account for it. None where
        ω was handed in.
    """

    weight: Floats = field(repr=False)
    id: npt.NDArray[Any] = field(repr=False)
    source: npt.NDArray[np.int32] = field(repr=False)
    names: tuple[str, ...]
    solution: Solution
    overlap: Overlap = field(repr=False)
    group: npt.NDArray[np.int64] | None = field(repr=False, default=None)
    group_names: npt.NDArray[Any] | None = field(repr=False, default=None)
    rows: Any = field(repr=False, default=None)
    estimation: Estimation | None = field(repr=False, default=None)

    @property
    def sample_weight(self) -> Floats:
        """(n,) n π_i: mean 1, as scikit-learn's ``sample_weight`` expects."""
        return self.weight * self.weight.size

    @property
    def normalizer(self) -> Floats:
        """(K,) Ω_k = Σ_i π_i ω_ik."""
        return self.solution.normalizer

    @property
    def ess(self) -> float:
        """Kish's effective number of images, 1/Σ_i π_i²; between 1 and n, equal to n iff all
        weights are equal.
        """
        return self.diagnosis.ess

    @property
    def ess_groups(self) -> float | None:
        """Kish's effective number of groups, 1/Σ_g (Σ_{i in g} π_i)²; None without groups."""
        return self.diagnosis.ess_groups

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """ESS, design effect, share of weight per source and Pareto-k of the tail."""
        from unskew.weigh.effective_size import diagnose_weights

        return diagnose_weights(self)

    def mean(self, values: npt.ArrayLike, level: float = 0.95) -> Estimate:
        """Target mean Σ_i π_i h_i of ``values`` with its asymptotic standard error, cluster-robust
        if there are groups.

        The error accounts for the estimation of ω where `unskew.debias` estimated it.
        """
        from unskew.weigh.uncertainty import weighted_mean

        return weighted_mean(self, values, level=level)

    def covariance(self) -> Floats:
        """(K, K) asymptotic covariance of log Ω̂ for known ω (Gill et al. 1988; Kong et al. 2003),
        cluster-robust if there are groups.
        """
        from unskew.weigh.uncertainty import log_normalizer_covariance

        return log_normalizer_covariance(self)

    def bootstrap(
        self, n: int = 200, seed: int = 0, values: npt.ArrayLike | None = None
    ) -> Bootstrap:
        """``n`` bootstrap replicates within sources, by group where there are groups; disconnected
        replicates are counted.
        """
        from unskew.weigh.uncertainty import bootstrap_weights

        return bootstrap_weights(self, n=n, seed=seed, values=values)

    def align(self, ids: Sequence[object] | npt.NDArray[Any]) -> Floats:
        """(len(ids),) the weights of the images ``ids``, joined by id, never by row order; an
        unknown id is an error.

        So is an id that stands for more than one image. An image may be asked for twice.
        """
        from unskew.weigh.solved_weights import align_weights

        return align_weights(self, ids)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write id, source, group, weight and sample_weight to ``path``, atomically."""
        from unskew.weigh.solved_weights import write_weights

        write_weights(self, path)

    def sensitivity(
        self, values: npt.ArrayLike, factor: float = 2.0, **options: Any
    ) -> Sensitivity:
        """The range of a target mean when c(z), which the images cannot tell, may vary within
        ``factor``; see `bound_weights_mean`.
        """
        from unskew.weigh.sensitivity import bound_weights_mean

        return bound_weights_mean(self, values, factor, **options)

    def score(self, table: Pool | pd.DataFrame) -> Floats:
        """(m,) weights for new images without a new solve, 1/Σ_k λ_k ω_k(z)/Ω_k on the scale of
        ``sample_weight``.

        A new image like image i of the pool gets the same weight as that one; one that the model
        leaves out, or no source covers, is an error.
        """
        return self._estimation("score").score(table)

    def update(self, pool: Pool) -> Weights:
        """The weights of a changed pool (images added or removed), the model fitted anew from where
        the last fit ended.
        """
        return self._estimation("update").update(pool)

    def describe(self) -> Description:
        """What the bias model assumed and estimated, and where the factor c(z) comes from that the
        images cannot tell.
        """
        return self._estimation("describe").fitted.describe()

    def _estimation(self, method: str) -> Estimation:
        if self.estimation is None:
            raise ConfigError(
                f"weights.{method} needs the bias model behind the weights, and these came from "
                "numbers (debias_weights, or a file). "
                "Compute them with unskew.debias(pool, bias, target)."
            )
        return self.estimation
