"""Calibration, trimming and shrinking in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unskew.errors import ConfigError, first_few
from unskew.report.summary.suppression import too_small
from unskew.report.summary.wording import count_text, share_text, without_counts


def adjustment_sentences(adjustments: Sequence[Any], private: bool) -> tuple[str, ...]:
    """What `calibrate_weights`, `trim_weights` and `shrink_weights` did, each in one sentence;
    texts stay as they are.

    The records are known by what they carry, because a report imports no other stage.
    """
    return tuple(_sentence(each, private) for each in adjustments)


def _sentence(adjustment: Any, private: bool) -> str:
    if isinstance(adjustment, str):
        return without_counts(adjustment) if private else adjustment
    if hasattr(adjustment, "n_trimmed"):
        trimmed = (
            "some"
            if private and too_small(adjustment.n_trimmed)
            else count_text(adjustment.n_trimmed)
        )
        moved = (
            ""
            if private and too_small(adjustment.n_trimmed)
            else f", which moved {share_text(adjustment.moved)} of the weight to the others"
        )
        return (
            f"Trimmed: weights are capped at {adjustment.at:.3g} times the mean ({trimmed} images "
            f"at the cap){moved}. "
            f"Effective sample size {count_text(adjustment.ess_before)} before and "
            f"{count_text(adjustment.ess_after)} after. "
            "Trimming trades variance for bias: the weighted pool no longer follows the target "
            "exactly."
        )
    if hasattr(adjustment, "kl"):
        held = [*adjustment.margins, *adjustment.means]
        ratio = (
            ""
            if private
            else f"; the image that gained most has {adjustment.largest_ratio:.3g} times its weight"
        )
        return (
            "Calibrated: the weights were moved as little as possible so that "
            f"{' and '.join(map(str, held))} are as known in the target "
            f"(Kullback–Leibler divergence {adjustment.kl:.3g}{ratio}). Effective sample size "
            f"{count_text(adjustment.ess_before)} before "
            f"and {count_text(adjustment.ess_after)} after."
        )
    if hasattr(adjustment, "kept"):
        kept = first_few([f"{name} {share_text(share)}" for name, share in adjustment.kept.items()])
        return (
            "Shrunk: of the way that the weights move the means away from the plain pool, the "
            "part is kept that the data are sure of "
            f"({kept}). "
            f"Effective sample size {count_text(adjustment.ess_before)} before and "
            f"{count_text(adjustment.ess_after)} after. "
            "Shrinking trades variance for bias: these means lie nearer to the pool than the "
            "target's may."
        )
    raise ConfigError(
        "adjustments are results of calibrate_weights, trim_weights and shrink_weights, or "
        f"sentences; got {type(adjustment).__name__}."
    )
