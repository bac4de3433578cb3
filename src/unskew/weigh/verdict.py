"""The verdict on the weights: not only links between sources, but how many images carry them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unskew.records import Floats, Overlap
from unskew.weigh.effective_size import fit_pareto_k

# Fewer effective images than this are no sample. From a tail index of 1 on the weights have no mean
# (Vehtari et al. 2024); it is computed only where the effective sample size is below a twentieth of
# the images.
_FEW_EFFECTIVE = 10.0
_NO_MEAN = 1.0
_FEW_SHARE = 0.05
# Vehtari et al. (2024): above 0.7 averages over the weights are unreliable at any practical sample
# size.
_PARETO_K = 0.7
_SPECTRAL_GAP = 0.01


def judge_weights(overlap: Overlap, weight_n: Floats) -> Overlap:
    """Turn the verdict to "weak" where a handful of images carries the weight.

    Links between sources say nothing about that.
    """
    ess = 1.0 / float(weight_n @ weight_n) if np.all(np.isfinite(weight_n)) else float("nan")
    thresholds = {**overlap.thresholds, "ess": _FEW_EFFECTIVE, "pareto_k": _NO_MEAN}
    overlap = replace(overlap, thresholds=thresholds)
    if (
        overlap.verdict != "ok"
        or weight_n.size < 2 * _FEW_EFFECTIVE
        or not ess < _FEW_SHARE * weight_n.size
    ):
        return overlap
    tail = fit_pareto_k(weight_n)
    if ess >= _FEW_EFFECTIVE and (tail is None or tail < _NO_MEAN):
        return overlap
    shown = "" if tail is None else f", tail index {tail:.2g}"
    message = (
        f"The sources are linked, but the pool is worth only {ess:.3g} of its {weight_n.size:,} "
        f"images (effective sample size{shown}): "
        "few images resemble the target, and everything rests on them. Collect images nearer to "
        "it, or use milder biasing functions."
    )
    return replace(overlap, verdict="weak", message=message)


def judge_positive(overlap: Overlap, weight_r: Floats) -> Overlap:
    """Judge by spectral gap, ESS and tail index where every ω is positive.

    The graph is always connected then, and says nothing.
    """
    ess = 1.0 / float(weight_r @ weight_r)
    tail = fit_pareto_k(weight_r)
    gap = overlap.spectral_gap
    thresholds = {**overlap.thresholds, "spectral_gap": _SPECTRAL_GAP, "pareto_k": _PARETO_K}
    overlap = replace(overlap, thresholds=thresholds)
    faults = []
    if gap is not None and gap < _SPECTRAL_GAP:
        faults.append(f"the sources hardly mix (spectral gap {gap:.2g})")
    if tail is not None and tail > _PARETO_K:
        faults.append(f"a few images carry the weight (tail index {tail:.2g})")
    if not faults or overlap.verdict != "ok":
        return overlap
    message = (
        "Every omega is positive, so the links between sources say nothing; but "
        f"{' and '.join(faults)}: the pool is worth {ess:,.0f} of "
        f"its {weight_r.size:,} images. Errors may be larger than they look; compare weights.mean "
        "with weights.bootstrap."
    )
    return replace(overlap, verdict="weak", message=message)
