"""What can be collected: more of a source, of a stratum or class, or images of the target itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.diagnosis.expected_problem import Collectable, ExpectedProblem
from unskew.records import Floats
from unskew.records.arrays import log_sums
from unskew.records.levels import level_text
from unskew.target.facts import cell_text
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.sampling_units import counts_of

if TYPE_CHECKING:
    from unskew.records import Weights

# Of more strata or classes the ones with most of the target's mass are offered.
_MOST_LEVELS = 24
TARGET = "target"
SAMPLE = "target sample"


def list_collectables(weights: Weights, problem: ExpectedProblem) -> list[Collectable]:
    """List the kinds of images whose effect can be predicted.

    These are images of each source, drawn as it draws; of the target's sample; of each stratum; of
    each class, drawn from the target (where strata do not tell the classes apart, and no unlabelled
    sample is among the rows); and images drawn from the target as a whole.
    """
    return [
        *_sources(weights, problem),
        *_strata(weights, problem),
        *_classes(weights, problem),
        Collectable("target", TARGET, None, *_target_law(weights, problem)),
    ]


def _sources(weights: Weights, problem: ExpectedProblem) -> list[Collectable]:
    assert weights.estimation is not None
    data = weights.estimation.fitted.data
    kinds = []
    for k, name in enumerate(data.names):
        rate_ck = np.zeros((problem.n_cells, data.n_sources))
        rate_ck[:, k] = 1.0 / data.size_k[k]
        is_sample = k == data.sample
        kinds.append(
            Collectable("sample", SAMPLE, rate_ck)
            if is_sample
            else Collectable("source", name, rate_ck)
        )
    return kinds


def _strata(weights: Weights, problem: ExpectedProblem) -> list[Collectable]:
    """List images of one stratum, from the sources that have it in their present proportion."""
    assert weights.estimation is not None
    fitted = weights.estimation.fitted
    if fitted.strata is None or problem.n_cells < 2:
        return []
    strata = fitted.strata.target
    size_c = (problem.size_ck * problem.kept_k).sum(axis=1)
    heaviest = np.argsort(-strata.mass, kind="stable")[:_MOST_LEVELS]
    kinds = []
    for c in sorted(heaviest.tolist()):
        if strata.mass[c] > 0 and size_c[c] > 0:
            rate_ck = np.zeros_like(problem.size_ck)
            rate_ck[c] = problem.kept_k / size_c[c]
            kinds.append(Collectable("stratum", cell_text(strata.by, strata.strata[c]), rate_ck))
    return kinds


def _classes(weights: Weights, problem: ExpectedProblem) -> list[Collectable]:
    assert weights.estimation is not None
    fitted = weights.estimation.fitted
    frame = fitted.data.frame
    if "label" not in frame.columns or fitted.data.sample is not None or fitted.strata is not None:
        return []
    label_r = frame["label"].iloc[problem.row_r]
    mass = label_r.map(level_text, na_action="ignore").dropna()
    share = {
        str(level): problem.weight_r * (label_r.map(level_text, na_action="ignore") == level)
        for level in mass.value_counts().index[:_MOST_LEVELS]
    }
    kinds = []
    for level, weighted in share.items():
        law_r = np.asarray(weighted, dtype=np.float64)
        if 0.0 < law_r.sum() < 1.0 - 1e-9:
            law_r = law_r / law_r.sum()
            kinds.append(Collectable("class", f"label = {level}", None, law_r, law_r))
    return kinds


def _target_law(weights: Weights, problem: ExpectedProblem) -> tuple[Floats, Floats]:
    """Return the target's law over the rows of the pool, and over all rows of the fit.

    The latter is p_c d_i v_i/Z_c, v_i = 1/Σ_k e^{u_ck} ω_ik, Z_c the sum over its stratum.
    """
    law_r = problem.weight_r / problem.weight_r.sum()
    if problem.kept_k.all():
        return law_r, law_r
    assert weights.estimation is not None
    rows, at = weights.estimation.rows, problem.row_r
    profile = rows.profile
    log_r = -log_sums(profile.log_omega[at] + profile.u[profile.cell[at]])
    finite_r = np.isfinite(log_r)
    inverse_r = np.where(finite_r, np.exp(np.where(finite_r, log_r - log_r[finite_r].max(), 0)), 0)
    all_r = inverse_r * counts_of(rows)[at] * problem.inflate_r
    mass_c = add_by_code(problem.cell_r, law_r, problem.n_cells)
    total_c = add_by_code(problem.cell_r, all_r, problem.n_cells)
    share_c = np.divide(mass_c, total_c, out=np.zeros_like(mass_c), where=total_c > 0)
    return law_r, all_r * share_c[problem.cell_r]
