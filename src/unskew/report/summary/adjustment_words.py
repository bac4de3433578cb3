"""How the weights were adjusted after they were solved, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unskew.errors import ConfigError, first_few
from unskew.report.summary.privacy import count_text, share_text, too_small, without_counts


def adjustment_sentences(adjustments: Sequence[Any], private: bool) -> tuple[str, ...]:
    """Describe what `calibrate_weights`, `trim_weights` and `shrink_weights` did.

    One sentence for each; texts are kept as they are. The records are known by their fields,
    because a report imports no other stage.
    """
    return tuple(_sentence(adjustment, private) for adjustment in adjustments)


def _sentence(adjustment: Any, private: bool) -> str:
    if isinstance(adjustment, str):
        return without_counts(adjustment) if private else adjustment
    if hasattr(adjustment, "n_trimmed"):
        return _trimmed(adjustment, private)
    if hasattr(adjustment, "kl"):
        return _calibrated(adjustment, private)
    if hasattr(adjustment, "kept"):
        return _shrunk(adjustment)
    raise ConfigError(
        "adjustments are results of calibrate_weights, trim_weights and shrink_weights, or "
        f"sentences; got {type(adjustment).__name__}.",
        option="adjustments",
        value=type(adjustment).__name__,
    )


def _trimmed(adjustment: Any, private: bool) -> str:
    hide = private and too_small(adjustment.n_trimmed)
    trimmed = "some" if hide else count_text(adjustment.n_trimmed)
    moved = "" if hide else f", which moved {share_text(adjustment.moved)} of the weight to others"
    return (
        f"Trimmed: weights are capped at {adjustment.at:.3g} times the mean ({trimmed} images at "
        f"the cap){moved}. {_sizes(adjustment)} Trimming trades variance for bias: the weighted "
        "pool no longer follows the target exactly."
    )


def _calibrated(adjustment: Any, private: bool) -> str:
    known = " and ".join(map(str, [*adjustment.margins, *adjustment.means]))
    ratio = (
        ""
        if private
        else f"; the image that gained most has {adjustment.largest_ratio:.3g} times its weight"
    )
    return (
        f"Calibrated: the weights were moved as little as possible so that {known} are as known in "
        f"the target (Kullback–Leibler divergence {adjustment.kl:.3g}{ratio}). {_sizes(adjustment)}"
    )


def _shrunk(adjustment: Any) -> str:
    kept = first_few([f"{name} {share_text(share)}" for name, share in adjustment.kept.items()])
    return (
        "Shrunk: the weights move the means away from the plain pool only as far as the data are "
        f"sure of ({kept}). {_sizes(adjustment)} Shrinking trades variance for bias: these means "
        "may be nearer to the pool than the target's are."
    )


def _sizes(adjustment: Any) -> str:
    return (
        f"Effective sample size {count_text(adjustment.ess_before)} before and "
        f"{count_text(adjustment.ess_after)} after."
    )
