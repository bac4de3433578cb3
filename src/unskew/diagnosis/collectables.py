"""What can be collected: more of a source, of a stratum or class, or of the target itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.diagnosis.expected_problem import Collectable, ExpectedProblem
from unskew.records.levels import level_text
from unskew.target.facts import cell_text

if TYPE_CHECKING:
    from unskew.records import Weights

# Of more strata or classes the ones with most of the target's mass are offered.
_MOST_LEVELS = 24
TARGET = "target"
SAMPLE = "target sample"


def list_collectables(weights: Weights, problem: ExpectedProblem) -> list[Collectable]:
    """List the kinds of images whose effect can be predicted.

    These are all sources in proportion; each source, drawn as it draws; the target's sample; each
    stratum; and images drawn from the target, or from one class of it. The latter are a new source
    with a known ω, so they are there only where no ω is estimated (its classes: where every ω is
    given, as a box of features would be fitted to the class). A model without derivatives tells
    nothing but the first.
    """
    assert weights.estimation is not None
    fitted = weights.estimation.fitted
    every_ck = np.full((problem.n_cells, fitted.data.n_sources), 1.0 / fitted.data.size_k.sum())
    every = Collectable("every", "", every_ck)
    if not weights.estimation.is_smooth:
        return [every]
    kinds = [every, *_sources(weights, problem), *_strata(weights, problem)]
    if problem.penalty.shape[0] or not problem.kept_k.all():
        return kinds
    law_r = problem.weight_r / problem.weight_r.sum()
    return [*kinds, *_classes(weights, problem), Collectable("target", TARGET, None, law_r)]


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
    from unskew.bias.known import Known

    assert weights.estimation is not None
    fitted = weights.estimation.fitted
    frame = fitted.data.frame
    is_given = all(isinstance(part, Known) for part in fitted.model.parts)
    if "label" not in frame.columns or not is_given:
        return []
    label_r = frame["label"].iloc[problem.row_r].map(level_text, na_action="ignore")
    kinds = []
    for level in label_r.value_counts().index[:_MOST_LEVELS]:
        law_r = problem.weight_r * (label_r == level).to_numpy(dtype=np.float64)
        if 0.0 < law_r.sum() < 1.0 - 1e-9:
            kinds.append(Collectable("class", f"label = {level}", None, law_r / law_r.sum()))
    return kinds
