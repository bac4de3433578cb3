"""One weight for every image; an estimate with its error."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import AnyValues, OneOrMore, OpenShare, Replicates, checked
from unskew.errors import ConfigError, first_few, short_name
from unskew.records.agreement import Agreement, Interval, SourceEstimate
from unskew.records.arrays import Codes, Floats, Ints, Randomness
from unskew.records.solution import Overlap, Solution, count_of

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Description
    from unskew.debiasing.estimation import Estimation
    from unskew.records.diagnostics import Diagnostics
    from unskew.records.pool import Pool
    from unskew.report.notebook import InlinePage
    from unskew.weigh.bootstrap import Bootstrap
    from unskew.weigh.effective_size import Diagnosis
    from unskew.weigh.sensitivity import Sensitivity


_Record = TypeVar("_Record")


@dataclass(frozen=True, repr=False)
class Estimate:
    """A number with its standard error and a two-sided interval at ``level``.

    It formats and converts like a number: ``float(e)``, ``f"{e:.2f}"`` is ``0.53 ± 0.02``.

    Attributes
    ----------
    value, stderr : the mean over all sources, with its error if they agree.
    interval : the interval that heads: ``agreed``, or ``new_source`` where the sources disagree. Of
        two sources that disagree it reaches from the lower end of the one to the upper end of the
        other.
    level : of the intervals.
    agreement : how the sources compare; None where they were not compared.
    """

    value: float
    stderr: float
    interval: Interval
    level: float = 0.95
    agreement: Agreement | None = field(default=None, compare=False)

    @property
    def by_source(self) -> Mapping[str, SourceEstimate]:
        """What each source alone says, after adjustment; empty if they were not compared."""
        return {} if self.agreement is None else self.agreement.by_source

    @property
    def agreement_p(self) -> float:
        """P-value of the hypothesis that all sources measure alike; NaN without a comparison."""
        return math.nan if self.agreement is None else self.agreement.p

    @property
    def between_sd(self) -> float:
        """Spread of the sources beyond their sampling errors; on the logit scale for shares."""
        return math.nan if self.agreement is None else self.agreement.between_sd

    @property
    def agreed(self) -> Interval:
        """The interval if the sources agree."""
        return self.interval if self.agreement is None else self.agreement.agreed

    @property
    def new_source(self) -> Interval | None:
        """The interval for a source like none of these; None: cannot say (fewer than three)."""
        return None if self.agreement is None else self.agreement.new_source

    @property
    def sources_disagree(self) -> bool:
        """Whether the sources differ by more than matters, beyond their sampling errors."""
        return self.agreement is not None and self.agreement.disagree

    @checked
    def withhold(self, names: Collection[str]) -> Estimate:
        """Return the estimate without the numbers of some of its sources, and what tells them."""
        if self.agreement is None:
            return self
        agreement = self.agreement.withhold(names)
        spans_sources = agreement.disagree and agreement.new_source is None
        hidden = (math.nan, math.nan) if agreement.withheld and spans_sources else self.interval
        return replace(self, interval=hidden, agreement=agreement)

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} ± {self.stderr:{spec}}" if spec else str(self)

    def __str__(self) -> str:
        number = f"{self._rounded(self.value)} ± {self._rounded(self.stderr)}"
        if not self.sources_disagree:
            return number
        low, high = (f"{end:.3g}" for end in self.interval)
        return f"{number} if the sources agreed; they do not: {low} to {high}"

    def __repr__(self) -> str:
        ends = [
            self._rounded(end) if not self.sources_disagree else f"{end:.3g}"
            for end in self.interval
        ]
        number = f"{self._rounded(self.value)} ± {self._rounded(self.stderr)}"
        shown = f"{number}, {100 * self.level:.4g}% interval {ends[0]} to {ends[1]}"
        if self.agreement is None or len(self.agreement.by_source) < 2:
            return f"Estimate({shown})"
        return f"Estimate({shown}; {self.agreement.message.rstrip('.')})"

    def _rounded(self, number: float) -> str:
        """Round to two significant digits of the standard error."""
        if not 0.0 < self.stderr < math.inf:
            return f"{number:.6g}"
        digits = max(1 - math.floor(math.log10(self.stderr)), 0)
        return f"{number:.{digits}f}" if digits <= 6 and abs(number) < 1e12 else f"{number:.6g}"


@dataclass(frozen=True, repr=False)
class RobustEstimate(Estimate):
    """A target mean that an outcome model's predictions m augment: Σ π h + λ (T̂ − Σ π m).

    Attributes
    ----------
    weighted : the mean without the predictions, Σ π h.
    tuning : λ; 0 where the predictions are constant.
    slope : β of the weighted regression of the values on the predictions. λ is between β and the
        factor with the smallest variance.
    shift : T̂ − Σ π m, the target's mean of the predictions beyond the weighted pool's.
    shift_p : p-value of shift = 0; None where the predictions are constant. If it is small, weights
        or predictions do not fit the target.
    """

    weighted: Estimate | None = None
    tuning: float = 0.0
    slope: float = 0.0
    shift: float = 0.0
    shift_p: float | None = None


class _IdField:
    def __get__(self, record: Any, owner: type | None = None) -> Any:
        if record is None:
            return self
        held = record.__dict__["id"]
        if not isinstance(held, np.ndarray):
            held = record.__dict__["id"] = held.to_numpy()
        return held

    def __set__(self, record: Any, ids: npt.NDArray[Any] | pd.Series[Any]) -> None:
        record.__dict__["id"] = ids


def ids_on_demand(record: type[_Record]) -> type[_Record]:
    """Let the field ``id`` be given as a column of a table, an array only where it is first read.

    A million texts are 70 MB as Python objects, and 10 MB in their table.
    """
    record.id = _IdField()  # type: ignore[attr-defined]
    return record


@checked
@ids_on_demand
@dataclass(frozen=True, eq=False, repr=False)
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
    unit : (n,) images with the same number are not independent: those of one group, copies of one
        image (``content``), and whatever these tie together. Errors count each unit once. None
        where every image is independent; by default the groups.
    rows : ω as the solver reads it (not a copy: don't change ω afterwards); the uncertainty methods
        read memberships from it.
    design_weight : (n,) d_i, mean 1 over the images of each source with d > 0; None without design
        weights. ``weight`` contains them.
    estimation : how ω was estimated, if `unskew.debias` did; errors then account for it. None where
        ω was handed in.
    """

    weight: Floats
    id: npt.NDArray[Any]
    source: Codes
    names: tuple[str, ...]
    solution: Solution
    overlap: Overlap
    group: Ints | None = None
    group_names: npt.NDArray[Any] | None = None
    unit: Ints | None = None
    rows: Any = None
    estimation: Estimation | None = None
    design_weight: Floats | None = None

    def __post_init__(self) -> None:
        if self.unit is None:
            object.__setattr__(self, "unit", self.group)

    def __repr__(self) -> str:
        n = self.weight.size
        size_k = np.bincount(self.source, minlength=len(self.names))
        sources = [
            f"{short_name(name)} ({size})" for name, size in zip(self.names, size_k, strict=True)
        ]
        counted = (
            "" if self.group_names is None else f" in {count_of(len(self.group_names), 'group')}"
        )
        lines = [
            f"Weights of {count_of(n, 'image')}{counted} from {count_of(len(sources), 'source')}: "
            f"{first_few(sources)}"
        ]
        ess = 1.0 / float(self.weight @ self.weight)
        if np.isfinite(ess):
            lines.append(f"  effective number of images {ess:.1f} ({ess / n:.0%})")
        if self.estimation is not None:
            parts = self.estimation.fitted.model.parts
            names = [f"{type(part).__name__}({', '.join(part.columns)})" for part in parts]
            lines.append(f"  bias model {' × '.join(names)}")
        lines.append(f"  overlap {self.overlap.verdict}; {self.solution.outcome}")
        return "\n".join(lines)

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
        """Kish's effective number of images, 1/Σ_i π_i²: 1 to n, and n iff weights are equal."""
        return self.diagnosis.ess

    @property
    def ess_groups(self) -> float | None:
        """Kish's effective number of groups, 1/Σ_g (Σ_{i in g} π_i)²; None without groups.

        Copies of one image (``unit``) are one group, and join the groups that they are in.
        """
        return self.diagnosis.ess_groups

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """ESS, design effect, share of weight per source and Pareto-k of the tail."""
        from unskew.weigh.methods import diagnose_weights

        return diagnose_weights(self)

    def mean(
        self,
        values: npt.ArrayLike,
        predicted: AnyValues = None,
        target_predicted: AnyValues = None,
        *,
        level: OpenShare = 0.95,
    ) -> Estimate:
        """Estimate the target mean Σ_i π_i h_i of ``values`` with its asymptotic standard error.

        The error is robust to groups and to copies of an image (``unit``), and accounts for the
        estimation of ω where `unskew.debias` estimated it. The sources are compared after
        adjustment; where they disagree, ``interval`` is that for a source like none of these
        (`Estimate.agreement`).

        With predictions m of an outcome model the result is a `RobustEstimate`, Σ π h + λ (T̂ − Σ π
        m): right if either the weights or the model is right, and hardly ever less precise.

        Parameters
        ----------
        values : (n,) h_i, finite.
        predicted : (n,) m_i, from a model that did not learn from these values. Or what
            `unskew.predict_outcome` returns, with the predictions for the target. Or "cross-fit",
            or a scikit-learn estimator: that function on the bias model's features.
        target_predicted : (m,) the same model's predictions for the target: as many as
            `Target.sample` has images are taken as theirs, in their order, any other number as
            further images drawn from the target, independently of the pool. Or T̂ itself: a number
            if it is known, an `Estimate` if it has an error. Not needed if the target is a source
            of the pool. Or a `Target` with known shares of attributes: without ``predicted`` the
            values are regressed on them (the generalised regression estimator).
        level : coverage of the interval.
        """
        from unskew.weigh.methods import compare_sources, doubly_robust_mean, weighted_mean

        if predicted is None and target_predicted is None:
            estimate = weighted_mean(self, values, level=level)
        else:
            estimate = doubly_robust_mean(self, values, predicted, target_predicted, level=level)
        return compare_sources(self, values, estimate)

    def covariance(self) -> Floats:
        """Compute the (K, K) asymptotic covariance of log Ω̂, cluster-robust if there are groups.

        Without groups it is that of Gill et al. (1988) and Kong et al. (2003) for known ω; where
        `unskew.debias` estimated ω, it accounts for that.
        """
        from unskew.weigh.methods import log_normalizer_covariance

        return log_normalizer_covariance(self)

    def bootstrap(
        self, replicates: Replicates = 200, rng: Randomness = 0, values: npt.ArrayLike | None = None
    ) -> Bootstrap:
        """Draw the images again within sources, groups and copies together, and solve again.

        A model that was fitted is fitted again. Replicates that are disconnected are counted.
        """
        from unskew.weigh.methods import bootstrap_weights

        return bootstrap_weights(self, replicates, rng, values)

    def align(self, ids: Sequence[object] | npt.NDArray[Any]) -> Floats:
        """Return (len(ids),) the weights of the images ``ids``, joined by id, never by row order.

        An unknown id is an error, and so are duplicate ids among the weights. An image may be asked
        for twice.
        """
        from unskew.weigh.methods import align_weights

        return align_weights(self, ids)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each image.

        Its columns are id, source, group (if there are groups), weight and sample_weight.
        """
        from unskew.weigh.methods import make_weights_frame

        return make_weights_frame(self)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write weights.parquet, which ``unskew evaluate`` and ``unskew export`` read, atomically.

        Its columns are id, source, path, label, group, split, weight and sample_weight, empty where
        they are unknown.
        """
        from unskew.weigh.methods import write_weights

        write_weights(self, path)

    def sensitivity(
        self, values: npt.ArrayLike, factor: OneOrMore = 2.0, **options: Any
    ) -> Sensitivity:
        """Bound a target mean when c(z), which the images cannot tell, varies within ``factor``.

        The options are those of `unskew.weigh.sensitivity.bound_weights_mean`.
        """
        from unskew.weigh.methods import bound_weights_mean

        return bound_weights_mean(self, values, factor, **options)

    def weigh(self, table: Pool | pd.DataFrame) -> Floats:
        """Weigh new images without a new solve: (m,) 1/Σ_k λ_k ω_k(z)/Ω_k, as ``sample_weight``.

        A new image like image i of the pool gets the same weight as that one; one that the model
        leaves out, or no source covers, is an error.
        """
        from unskew.weigh.methods import weigh_new_images

        self._model("weigh")
        return weigh_new_images(self, table)

    def refit(self, pool: Pool) -> Weights:
        """Weigh a changed pool (images added or removed), fitted from where the last fit ended."""
        return self._model("refit").refit(pool)

    def describe(self) -> Description:
        """Describe what the bias model assumed and estimated, and where the factor c(z) comes from.

        That factor is what the images cannot tell.
        """
        return self._model("describe").fitted.describe()

    def report(
        self,
        pool: Pool | None = None,
        *,
        diagnostics: Diagnostics | None = None,
        title: str = "Debiasing report",
        privacy: Literal["full", "aggregate"] = "full",
    ) -> InlinePage:
        """Show the page of `unskew.write_report` inline, in a notebook; no file is written.

        Parameters
        ----------
        pool : the images that were weighed; None: those that `unskew.debias` weighed.
        diagnostics, title, privacy : as for `unskew.write_report`.
        """
        from unskew.diagnosis.inline_report import inline_report

        images = self._model("report").pool if pool is None else pool
        return inline_report(self, images, diagnostics, title, privacy)

    def _repr_html_(self) -> str:
        from unskew.diagnosis.inline_report import weights_html

        return weights_html(self)

    def _model(self, method: str) -> Estimation:
        if self.estimation is None:
            raise ConfigError(
                f"weights.{method} needs the bias model behind the weights, and these came from "
                "numbers (debias_weights, or a file). "
                "Compute them with unskew.debias(pool, bias, target).",
                option=method,
            )
        return self.estimation


def holds_ids(column: pd.Series[Any], weights: Weights) -> bool:
    """Tell whether a column holds the ids of the weights, in their order."""
    held = weights.__dict__["id"]
    if hasattr(held, "array") and held.array.equals(column.array):
        return True
    return np.array_equal(weights.id, column.to_numpy())
