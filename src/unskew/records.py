"""The nouns that the stages hand to one another: frozen, with methods that compute delegated by a lazy import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

    from unskew.targeting.building import TargetOptions
    from unskew.targeting.facts import Distribution
    from unskew.targeting.strata import TargetReference, TargetStrata
    from unskew.weigh.diagnose import Diagnosis
    from unskew.weigh.uncertainty import Bootstrap

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Codes = npt.NDArray[np.int32]

Verdict = Literal["ok", "weak", "disconnected"]


@dataclass(frozen=True, eq=False)
class Overlap:
    """Are the sources linked to one another, and how well?

    The overlap graph has an edge k→l iff some image of source l has ω_k > 0. The normalizers exist and are unique (up to one
    common factor) iff that directed graph is strongly connected (Gill, Vardi & Wellner 1988, theorem 1.1).

    Known before the solve: everything but the last four fields, which exist only at a solution (None before).

    Attributes
    ----------
    names : names of the K sources.
    verdict : "disconnected" (no solution), "weak" (a solution that rests on few images) or "ok".
    components : the groups of sources that are linked in both directions; one group iff connected.
    message : the verdict in words, with the weakest or the missing link named.
    link_count : (K, K), ``link_count[k, l]`` = number of images of source l with ω_k > 0 (the edge k→l).
    common_mass : (K, K), share of the pooled images on which both ω_k and ω_l are positive (None, and ``bottleneck`` NaN, for
        thousands of sources that overlap almost everywhere: it would cost more than the solve).
    bottleneck : the largest t such that the undirected graph of ``common_mass >= t`` is connected.
    weakest_link : (k, l), the sources at the bottleneck of the directed graph: l's images that k could have produced.
    weakest_count : number of images on that link.
    epsilon : smallest positive ω after each ω_k is scaled to maximum 1 (the article's ε).
    thresholds : the values below which the verdict turns to "weak", under the names of the fields they judge.
    kappa : the bottleneck under the weights, that is under the estimated target (the article's κ).
    matrix : (K, K), Λ⁻¹QᵀQ/n: the chance that an image drawn as source k draws would be taken for one of source l. Rows sum to 1.
    spectral_gap : 1 − second eigenvalue of ``matrix``; 0 = disconnected, 1 = all ω proportional.
    sigma2 : second smallest eigenvalue of the Hessian (the article's σ).
    """

    names: tuple[str, ...]
    verdict: Verdict
    components: tuple[tuple[str, ...], ...]
    message: str
    link_count: Any
    common_mass: Any
    bottleneck: float
    weakest_link: tuple[str, str] | None
    weakest_count: float | None
    epsilon: float
    thresholds: Mapping[str, float]
    kappa: float | None = None
    matrix: Any = None
    spectral_gap: float | None = None
    sigma2: float | None = None

    @property
    def connected(self) -> bool:
        """Is the directed graph strongly connected? Then, and only then, the normalizers are identifiable."""
        return len(self.components) == 1


class Status(Enum):
    """How a solve ended. The member's value is the message that a user reads."""

    CONVERGED = "converged"
    PRESCRIBED = "made the prescribed number of stochastic steps, as the article does; that is no proof of convergence, see error_estimate"
    MAX_STEPS = "stopped after max_steps before the tolerance was met; raise max_steps, or use another start or method"
    STALLED = (
        "no step along the search direction lowers the objective any further, although the Newton step is still larger than "
        "the tolerance; the link between some sources is too weak for double precision (see overlap.weakest_link)"
    )
    TOO_WEAK = (
        "the overlap is positive but so small that it vanishes in double precision, so the relative normalizers of some sources "
        "cannot be computed; treat the sources as disconnected (see overlap.weakest_link)"
    )
    DISCONNECTED = "the overlap graph is not strongly connected: the normalizers are not identifiable"


@dataclass(frozen=True)
class Step:
    """One line of a solver's trace: where it stood before the step and how far it then went."""

    objective: float
    gradient_norm: float
    step_norm: float
    kind: str


@dataclass(frozen=True, eq=False)
class Solution:
    """The solved biased-sampling equations.

    At the minimum of D(u) = (1/n) Σ_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k the normalizers are Ω_k = λ_k e^{−u_k}, with the free constant
    in u fixed so that the weights π_i = 1/(n Σ_k e^{u_k} ω_ik) sum to one. Then Σ_i π_i ω_ik = Ω_k and n π_i Σ_k λ_k ω_ik/Ω_k = 1.

    Attributes
    ----------
    names : names of the K sources.
    share : (K,) λ_k = n_k/n.
    u : (K,) log(λ_k/Ω_k).
    log_normalizer : (K,) log Ω_k.
    method : "newton", "fixed_point" or "sgd".
    status : how the solve ended; its value is the message.
    gradient_norm : largest absolute component of the gradient, a defect in shares.
    error_estimate : estimated absolute error of log(Ω_k/Ω_l), the largest over pairs.
    n_steps : steps taken on the full data.
    n_passes : passes over the stored rows (of collapsed data, over the distinct ones), without those of a subsample.
    trace : one ``Step`` for each step.
    hessian : (K, K) Hessian of D at u (a SciPy sparse matrix for sparse ω with thousands of sources).
    hessian_exact : False where it was estimated from a subsample (many sources, dense ω), or never formed and None (thousands of
        sources that overlap almost everywhere).
    """

    names: tuple[str, ...]
    share: Floats
    u: Floats
    log_normalizer: Floats
    method: str
    status: Status
    gradient_norm: float
    error_estimate: float
    n_steps: int
    n_passes: int
    trace: tuple[Step, ...] = field(repr=False)
    hessian: Any = field(repr=False)
    hessian_exact: bool = True

    @property
    def converged(self) -> bool:
        """Was the tolerance met?"""
        return self.status is Status.CONVERGED

    @property
    def normalizer(self) -> Floats:
        """(K,) Ω_k = Σ_i π_i ω_ik. May overflow where ω itself does; ``log_normalizer`` never does."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_normalizer))

    @property
    def relative_normalizer(self) -> Floats:
        """(K,) W_k = Ω_k/Ω_K."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_normalizer - self.log_normalizer[-1]))


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
    group : (n,) code of each image's group (patient, burst), an index into ``group_names``; None without groups.
    group_names : the groups as they were given.
    rows : ω as the solver reads it (not a copy: don't change ω afterwards); the uncertainty methods read memberships from it.
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
        """Kish's effective number of images, 1/Σ_i π_i²; between 1 and n, equal to n iff all weights are equal."""
        return self.diagnosis.ess

    @property
    def ess_groups(self) -> float | None:
        """Kish's effective number of groups, 1/Σ_g (Σ_{i in g} π_i)²; None without groups."""
        return self.diagnosis.ess_groups

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """ESS, design effect, share of weight per source and Pareto-k of the tail."""
        from unskew.weigh.diagnose import diagnose_weights

        return diagnose_weights(self)

    def mean(self, values: npt.ArrayLike, level: float = 0.95) -> Estimate:
        """Target mean Σ_i π_i h_i of ``values`` with its asymptotic standard error, cluster-robust if there are groups."""
        from unskew.weigh.uncertainty import weighted_mean

        return weighted_mean(self, values, level=level)

    def covariance(self) -> Floats:
        """(K, K) asymptotic covariance of log Ω̂ for known ω (Gill et al. 1988; Kong et al. 2003), cluster-robust if there are groups."""
        from unskew.weigh.uncertainty import log_normalizer_covariance

        return log_normalizer_covariance(self)

    def bootstrap(self, n: int = 200, seed: int = 0, values: npt.ArrayLike | None = None) -> Bootstrap:
        """``n`` bootstrap replicates within sources, by group where there are groups; disconnected replicates are counted."""
        from unskew.weigh.uncertainty import bootstrap_weights

        return bootstrap_weights(self, n=n, seed=seed, values=values)

    def align(self, ids: Sequence[object] | npt.NDArray[Any]) -> Floats:
        """(len(ids),) the weights of the images ``ids``, joined by id, never by row order; an unknown id is an error.

        So is an id that stands for more than one image. An image may be asked for twice.
        """
        from unskew.weigh.entry import align_weights

        return align_weights(self, ids)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write id, source, group, weight and sample_weight to ``path``, atomically."""
        from unskew.weigh.entry import write_weights

        write_weights(self, path)


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """The images of all sources in one table, one row for each.

    ``Pool(frame)`` checks: every image has a source, and an id that no other has (weights are joined to images by id, never by row order).

    Attributes
    ----------
    frame : pandas DataFrame with the columns id, source (categorical), and where known label, group, split; then attributes and features.
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        from unskew.pooling import checked_frame

        object.__setattr__(self, "frame", checked_frame(self.frame))

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        source: str = "source",
        label: str | None = "label",
        id: str | None = None,
        group: str | None = None,
        split: str | None = None,
    ) -> Pool:
        """A table whose columns have the given names; they are renamed to their roles.

        Without ``id`` a column of that name is taken, else the index. Labels are optional. Sources keep the order of their categories,
        or of first appearance.
        """
        from unskew.pooling import pool_from_frame

        return pool_from_frame(frame, source, label, id, group, split)

    @classmethod
    def from_arrays(cls, source: Any, label: Any = None, **columns: Any) -> Pool:
        """One array for each column (id, group and split among them); ``x`` of shape (n, d) becomes the columns x_0, x_1, …"""
        from unskew.pooling import pool_from_arrays

        return pool_from_arrays(source, label, columns)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in zip(self.names[:8], self.sizes.tolist(), strict=False))
        return f"Pool({len(self)} images from {len(self.names)} sources: {sizes}{' …' if len(self.names) > 8 else ''})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the K sources."""
        return tuple(self.frame["source"].cat.categories)

    @cached_property
    def source(self) -> Codes:
        """(n,) code of each image's source, an index into ``names``."""
        return np.asarray(self.frame["source"].cat.codes, dtype=np.int32)

    @property
    def sizes(self) -> Ints:
        """(K,) n_k, number of images of each source."""
        return np.bincount(self.source, minlength=len(self.names)).astype(np.int64)


@dataclass(frozen=True)
class Target:
    """The population that results shall speak of, said once: use the class methods.

    Numbers: whole numbers are counts and are normalised; all others are probabilities and must sum to 1 (to 1e-9). Levels are compared as
    text: 3, 3.0 and "3" are one level.

    Attributes
    ----------
    kind : "uniform", "margins", "table", "sample" or "source".
    by : the attributes whose distribution is given.
    facts : the given distributions.
    interactions : the table that margins are raked from; None: the pool's own.
    bins : edges for numeric attributes: [a, b), the last one closed.
    outside : for levels beyond the target's scope, "keep" (at their pool share) or "drop": one rule per attribute, or one per level.
        Values beyond the bins of an attribute with edges 0 … 120 are the levels "< 0" and "> 120". A level without a rule is an error.
    missing : for missing values of an attribute "error" (default), "level" (a level of its own, "(missing)"), "drop", or "keep" (at their
        pool share).
    unit : "image", or "group": masses count groups; a group counts once in every stratum it has images in, and shares that among them.
    uncovered : target mass on a stratum without images is an "error", or the target is made smaller: "restrict".
    reference : the sample (a `Pool`, or where one lies) or the name of the source known to be unbiased.
    holdout : share of the reference that judges and does not fit.
    """

    kind: Literal["uniform", "margins", "table", "sample", "source"]
    by: tuple[str, ...] = ()
    facts: tuple[Distribution, ...] = ()
    interactions: Distribution | None = None
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    outside: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    unit: str = "image"
    uncovered: str = "error"
    reference: Pool | str | None = None
    holdout: float = 0.0

    @classmethod
    def uniform(cls, by: str | Sequence[str], **options: Unpack[TargetOptions]) -> Target:
        """Every level of ``by`` has the same mass; of several attributes, every combination of their levels."""
        from unskew.targeting.building import uniform_target

        return uniform_target(by, options)

    @classmethod
    def margins(cls, margins: Mapping[str, Any], *, interactions: pd.DataFrame | None = None, **options: Unpack[TargetOptions]) -> Target:
        """``{attribute: {level: number}}``; with the error of the survey, ``{attribute: {"mass": {level: number}, "n": 400}}`` or "stderr".

        Several margins are raked from ``interactions`` (a joint table, default the pool's), whose odds ratios are thereby assumed.
        """
        from unskew.targeting.building import margins_target

        return margins_target(margins, interactions, options)

    @classmethod
    def table(
        cls, table: pd.DataFrame, by: Sequence[str] | None = None, n: float | None = None, **options: Unpack[TargetOptions]
    ) -> Target:
        """The joint distribution: a column for each attribute and one called count, mass, probability or share; ``n`` as in a survey."""
        from unskew.targeting.building import table_target

        return table_target(table, by, n, options)

    @classmethod
    def sample(cls, sample: Pool | str, holdout: float = 0.0) -> Target:
        """The population that ``sample`` was drawn from, labelled or not."""
        from unskew.targeting.building import sample_target

        return sample_target(sample, holdout)

    @classmethod
    def source(cls, name: str, holdout: float = 0.0) -> Target:
        """The population that the source ``name`` was drawn from, because that source is known to be unbiased."""
        from unskew.targeting.building import source_target

        return source_target(name, holdout)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], folder: str | PathLike[str] = ".") -> Target:
        """The ``[target]`` part of a configuration; files are read from ``folder``."""
        from unskew.targeting.schema import read_target

        return read_target(settings, folder)

    def to_dict(self) -> dict[str, Any]:
        """Values that TOML and JSON can hold, from which `from_dict` makes the same target."""
        from unskew.targeting.schema import written_target

        return written_target(self)

    def resolve(self, pool: Pool | pd.DataFrame) -> TargetStrata | TargetReference:
        """What the target asks of this pool: the mass of every stratum, or the reference to resemble."""
        return self.compare(pool) if self.kind in ("sample", "source") else self.stratify(pool)

    def stratify(self, pool: Pool | pd.DataFrame) -> TargetStrata:
        """The target mass of every stratum of the pool; an error for a sample or a source."""
        from unskew.targeting.resolution import stratify_pool

        return stratify_pool(self, pool)

    def compare(self, pool: Pool | pd.DataFrame) -> TargetReference:
        """The sample, or the source of the pool, that stands for the target; an error for masses."""
        from unskew.targeting.resolution import find_reference

        return find_reference(self, pool)

    def describe(self) -> tuple[str, ...]:
        """What was given and what is assumed, in plain sentences."""
        from unskew.targeting.wording import target_sentences

        return target_sentences(self)
