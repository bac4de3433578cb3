"""The solved equations, and what links the sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np

from unskew.errors import first_few, short_name
from unskew.records.arrays import Floats

Verdict = Literal["ok", "weak", "disconnected"]


def count_of(number: int, noun: str) -> str:
    """Write ``1 source`` or ``3 sources``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


@dataclass(frozen=True, eq=False, repr=False)
class Overlap:
    """Whether the sources are linked to one another, and how well.

    The overlap graph has an edge k→l iff some image of source l has ω_k > 0. The normalizers exist
    and are unique (up to one common factor) iff that directed graph is strongly connected (Gill,
    Vardi & Wellner 1988, theorem 1.1).

    Known before the solve: everything but the last fields, which exist only at a solution, or
    where they apply (None otherwise). ``check_overlap`` adds ``link_error``, from a solve of its
    own.

    Attributes
    ----------
    names : names of the K sources.
    verdict : "disconnected" (no solution), "weak" (one of the values judged is above its threshold:
        errors may be larger than they look) or "ok".
    components : the groups of sources that are linked in both directions; one group iff connected.
    message : the verdict as a sentence, with the weakest or the missing link named.
    link_count : (K, K), ``link_count[k, l]`` = number of images of source l with ω_k > 0 (the edge
        k→l).
    common_mass : (K, K), share of the pooled images on which both ω_k and ω_l are positive (None,
        and ``bottleneck`` NaN, for thousands of sources that overlap almost everywhere: it would
        cost more than the solve).
    bottleneck : the largest t such that the undirected graph of ``common_mass >= t`` is connected.
    weakest_link : (k, l), the sources at the bottleneck of the directed graph: l's images that k
        could have produced.
    weakest_count : number of images on that link.
    epsilon : smallest positive ω after each ω_k is scaled to maximum 1 (the article's ε).
    thresholds : the values above which the verdict turns to "weak", under the names of the fields
        they judge.
    kappa : the bottleneck under the weights, that is under the estimated target (the article's κ).
    matrix : (K, K), Λ⁻¹QᵀQ/n: the chance that an image drawn as source k draws would be taken for
        one of source l. Rows sum to 1.
    spectral_gap : 1 − second eigenvalue of ``matrix``; 0 = disconnected, 1 = all ω proportional.
    sigma2 : second smallest eigenvalue of the Hessian at the solution (the article's σ bounds it
        over a box of u from below).
    link_error : share of the target's mass that the error of the normalizers is expected to move,
        Σ_i π_i sd(log π_i)/√(2π), the standard deviation being that from log Ω̂ alone. 0 where all ω
        are proportional, however small a source is.
    heaviest : max_j w_j²/Σ_j w_j², w_j the weight of unit j (an image, or a group): what the
        heaviest unit alone adds to the variance. It stays large, however many images there are, iff
        the weights have no finite variance, that is if a part of the target is hardly ever drawn.
        None for strata alone, where images of a stratum weigh the same.
    unseen : of a sample of the target, the share that is heavier than all but the few heaviest
        units of the pool, less 1.28 standard errors.
    lone : of strata alone, the share of Σ_j w_j² in strata of which one unit holds more than half:
        how much units differ there, nobody has seen.
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
    link_error: float | None = None
    heaviest: float | None = None
    unseen: float | None = None
    lone: float | None = None

    @property
    def connected(self) -> bool:
        """Whether the directed graph is strongly connected: normalizers are identifiable then."""
        return len(self.components) == 1

    def _repr_html_(self) -> str:
        from unskew.report.notebook import overlap_html

        return overlap_html(self)

    def __repr__(self) -> str:
        lines = [f"Overlap of {count_of(len(self.names), 'source')}: {self.verdict}"]
        if self.connected and self.weakest_link is not None and self.weakest_count is not None:
            link = " → ".join(map(short_name, self.weakest_link))
            lines[0] += f"; weakest link {link} ({count_of(int(self.weakest_count), 'image')})"
        return "\n  ".join([*lines, short_name(self.message, 400)])


class Status(Enum):
    """How a solve ended. The member's value is the message that a user reads."""

    CONVERGED = "converged"
    PRESCRIBED = (
        "made the prescribed number of stochastic steps, as the article does; that is no "
        "proof of convergence, see error_estimate"
    )
    MAX_STEPS = (
        "stopped after max_steps before the tolerance was met; raise max_steps, or use "
        "another start or method"
    )
    STALLED = (
        "no step along the search direction lowers the objective any further, although the Newton "
        "step is still larger than the tolerance; the link between some sources is too weak for "
        "double precision (see overlap.weakest_link)"
    )
    TOO_WEAK = (
        "the overlap is positive but so small that it vanishes in double precision, so the "
        "relative normalizers of some sources "
        "cannot be computed; treat the sources as disconnected (see overlap.weakest_link)"
    )
    DISCONNECTED = (
        "the overlap graph is not strongly connected: the normalizers are not identifiable"
    )


@dataclass(frozen=True)
class Step:
    """One line of a solver's trace: where it was before the step, and how far the step went."""

    objective: float
    gradient_norm: float
    step_norm: float
    kind: str


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The solved biased-sampling equations.

    At the minimum of D(u) = (1/n) Σ_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k the normalizers are Ω_k =
    λ_k e^{−u_k}, with the free constant in u fixed so that the weights π_i = 1/(n Σ_k e^{u_k} ω_ik)
    sum to one. Then Σ_i π_i ω_ik = Ω_k and n π_i Σ_k λ_k ω_ik/Ω_k = 1.

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
    n_passes : passes over the stored rows (of collapsed data, over the distinct ones), without
        those of a subsample.
    trace : one ``Step`` for each step.
    hessian : (K, K) Hessian of D at u (a SciPy sparse matrix for sparse ω with thousands of
        sources).
    hessian_exact : False where it was estimated from a subsample (many sources, dense ω), or never
        formed and None (thousands of sources that overlap almost everywhere).
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
    trace: tuple[Step, ...]
    hessian: Any
    hessian_exact: bool = True

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.status is Status.CONVERGED

    @property
    def outcome(self) -> str:
        """How the solve ended, in a few words: ``newton converged after 4 steps``."""
        if self.method == "known":
            return "normalizers known, nothing to solve"
        how = "converged" if self.converged else f"{self.status.name.lower()}, not converged"
        return f"{self.method} {how} after {count_of(self.n_steps, 'step')}"

    def __repr__(self) -> str:
        values = [
            f"{short_name(name)}: {value:.4g}"
            for name, value in zip(self.names, self.log_normalizer, strict=True)
        ]
        return (
            f"Solution for {count_of(len(self.names), 'source')}: {self.outcome} (error estimate "
            f"{self.error_estimate:.1g})\n  log normalizers: {first_few(values)}"
        )

    @property
    def normalizer(self) -> Floats:
        """(K,) Ω_k = Σ_i π_i ω_ik; it may overflow where ω does, ``log_normalizer`` never does."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_normalizer))

    @property
    def relative_normalizer(self) -> Floats:
        """(K,) W_k = Ω_k/Ω_K."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_normalizer - self.log_normalizer[-1]))
