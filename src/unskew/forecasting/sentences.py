"""A forecast as sentences: the verdict with its reason, and the lines that are printed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from unskew.errors import first_few
from unskew.forecasting.record import HEAVY, ArmForecast, Forecast
from unskew.records import Estimate

# A gain below half a point is not worth the trouble; one that cannot exceed two points is not worth
# more images to find out.
_WORTH = 0.005
_NO_MATTER = 0.02
# Weights that cost no more than this factor of variance are close to equal.
_CLOSE = 1.5
# So few images carry 60% of the weight, or so few are the effective ones, that a handful decides.
_FEW_CARRY = 0.05
_FEW_EFFECTIVE = 50.0
# A probe that wins less of what guessing leaves is poor.
_GOOD = 0.5
# How the columns of small images begin.
PIXELS = "pixels"


def points(value: float, signed: bool = False) -> str:
    """Write an accuracy, or a difference of two, in points: from 10 on without decimals."""
    if not math.isfinite(value):
        return "?"
    shown = 100.0 * value
    digits = 0 if abs(round(shown, 1)) >= 10 else 1
    text = f"{shown:+.{digits}f}" if signed else f"{shown:.{digits}f}"
    return text.replace("-", "−").replace("−0.0", "0.0").replace("+0.0", "0.0")


def plus_minus(estimate: Estimate, signed: bool = False) -> str:
    """Write "+11 ± 1", the error with as many decimals as the value."""
    if not math.isfinite(estimate.stderr):
        return f"{points(estimate.value, signed)} ± ?"
    whole = abs(round(100 * estimate.value, 1)) >= 10 and round(100 * estimate.stderr) >= 1
    error = f"{100 * estimate.stderr:.0f}" if whole else f"{100 * estimate.stderr:.1f}"
    value = (
        points(estimate.value, signed)
        if whole or abs(estimate.value) < 0.1
        else f"{100 * estimate.value:{'+' if signed else ''}.1f}"
    )
    return f"{value.replace('-', '−')} ± {error}"


def recommend(
    naive: ArmForecast,
    debiased: ArmForecast,
    heavy: float,
    design_effect: float,
    ess: float,
    learner: str,
) -> tuple[str, str]:
    """Return the verdict, and the verdict with its reason."""
    gain = debiased.gain
    assert gain is not None
    low, high = gain.interval
    expected = f"{plus_minus(gain, signed=True)} points expected for {learner}"
    carried = f"{_share(heavy)} of the images carry {HEAVY:.0%} of the weight"
    if heavy > _FEW_CARRY:
        carried = f"the weighted pool is worth {ess:,.0f} images"
    # Few images of nearly equal weight are few with and without weights.
    few = heavy <= _FEW_CARRY or (ess < _FEW_EFFECTIVE and design_effect >= _CLOSE)
    worst = worst_words(naive, debiased)
    if low > 0 and gain.value >= _WORTH:
        worth = f" (worth {ess:,.0f} equally weighted ones)" if heavy <= _FEW_CARRY else ""
        caution = (
            f"; but {carried}{worth}: more images like the heavy ones would help most"
            if few
            else ""
        )
        by = "" if debiased.way is None else f" (way {debiased.way})"
        return "reweight", f"reweight: {expected}{by}, {worst}{caution}"
    if high < 0 and gain.value <= -_WORTH:
        why = (
            carried
            if few
            else f"the images differ so much in weight that the pool is worth {ess:,.0f} of them"
        )
        return "don't", f"don't: {expected}; {why}"
    if few and gain.value < _WORTH:
        return (
            "don't",
            f"don't: {carried}, and no gain is in sight ({plus_minus(gain, signed=True)} points "
            f"for {learner})",
        )
    if high < _NO_MATTER or low > 0:
        if design_effect < _CLOSE:
            return "don't bother", f"don't bother: the pool is already close ({expected}, {worst})"
        return (
            "don't bother",
            f"don't bother: it hardly makes a difference to {learner} "
            f"({plus_minus(gain, signed=True)} points, {worst})",
        )
    doubt = f"{carried}, and " if few else ""
    return (
        "unclear",
        f"unclear: {expected}, {worst}; {doubt}the held-out images do not show whether reweighting "
        "helps",
    )


def worst_words(naive: ArmForecast, debiased: ArmForecast) -> str:
    """Write "worst class 32 → 73 (name)", with both names where the worst class changes."""
    before, after = points(naive.worst.value), points(debiased.worst.value)
    if naive.worst_class == debiased.worst_class:
        return f"worst class {before} → {after} ({naive.worst_class})"
    return f"worst class {before} → {after} ({naive.worst_class} → {debiased.worst_class})"


def compare_arms(differences: Sequence[tuple[str, Estimate]]) -> list[str]:
    """Name the baselines that are expected to do better than debiased.

    ``differences`` are their paired gains over debiased.
    """
    return [
        f"{name} is expected to do better than debiased: {plus_minus(difference, signed=True)} "
        "points."
        for name, difference in differences
        if difference.interval[0] > 0 and difference.value >= _WORTH
    ]


def describe_features(columns: Sequence[str], size: int) -> str:
    """Name what a probe learns from; numbered columns of one representation are counted.

    >>> describe_features(["brightness", "hue_0", "hue_1", "hue_2"], 4)
    'brightness, hue (3 numbers)'
    >>> describe_features([], 768)
    'a matrix of 768 columns'
    """
    if not columns:
        return f"a matrix of {size:,} columns"
    counts = Counter(
        name.rpartition("_")[0] if name.rpartition("_")[2].isdecimal() else name for name in columns
    )
    if set(counts) == {PIXELS}:
        side = math.isqrt(counts[PIXELS] // 3)
        return f"images of {side} × {side} pixels"
    named = [f"{name} ({n:,} numbers)" if n > 1 else name for name, n in counts.items()]
    return first_few(named, 8)


def poor_words(accuracy: float, class_share: Mapping[str, float], features: str) -> str:
    """Say that a probe hardly beats guessing the most frequent class; "" where it does.

    It does where it wins half of what guessing leaves: (a − g)/(1 − g) ≥ ½.
    """
    guess = max(class_share.values(), default=1.0)
    if guess >= 1 or (accuracy - guess) / (1 - guess) >= _GOOD:
        return ""
    return (
        f"the probe is poor: {points(accuracy)}% right from {features}, where always guessing the "
        f"most frequent class is {points(guess)}% right; a better model may gain more or less"
    )


def summarize_forecast(forecast: Forecast) -> str:
    """Write a forecast in a few lines, for ``repr``."""
    shown = [
        f"{arm.name} {100 * arm.accuracy.value:.1f} ± {100 * arm.accuracy.stderr:.1f}"
        for arm in forecast.arms
    ]
    lines = [
        f"Forecast: {forecast.recommendation}",
        f"  accuracy on the target: {first_few(shown, 4)}",
        f"  {forecast.images:,} images, worth {forecast.ess:,.0f} equally weighted ones; "
        f"{forecast.learner}, {forecast.n_folds} folds",
    ]
    if forecast.objection:
        lines.append(
            f"  the test of its fit objects to the bias model (p = {forecast.fit_p_value:.2g})"
        )
    return "\n".join(lines)


def forecast_lines(forecast: Forecast) -> list[str]:
    """List recommendation, table, cost of the weights, condition, objection, method and notes."""
    width = max(len(arm.name) for arm in forecast.arms)
    lines = [_sentence(forecast.recommendation), ""]
    noun = "class" if forecast.labels is None else "label"
    if forecast.labels is not None:
        lines.append(f"Accuracies are means over {forecast.labels} labels, in points.")
    lines.append(
        f"  {'':{width}}  accuracy      95% interval  worst {noun}  gain over naive  worth images"
        + ("" if all(arm.ridge is None for arm in forecast.arms) else "   ridge")
    )
    for arm in forecast.arms:
        low, high = (100 * bound for bound in arm.accuracy.interval)
        gain = "" if arm.gain is None else plus_minus(arm.gain, signed=True)
        accuracy = f"{100 * arm.accuracy.value:.1f} ± {100 * arm.accuracy.stderr:.1f}"
        worst = f"{100 * arm.worst.value:.0f}"
        lines.append(
            f"  {arm.name:{width}}  {accuracy:>10}  {low:6.1f} – {high:5.1f}  {worst:>11}  "
            f"{gain:>15}  {arm.ess:>12,.0f}" + ("" if arm.ridge is None else f"  {arm.ridge:>6g}")
        )
    lines += _label_lines(forecast)
    units = "" if forecast.ess_units is None else f", {forecast.ess_units:,.0f} independent ones"
    tail = (
        ""
        if forecast.pareto_k is None or not forecast.pareto_k > 0.7
        else f" The tail index is {forecast.pareto_k:.2f}: unreliable."
    )
    lines += [
        "",
        f"Way of debiased: {forecast.choice.reason}",
        f"The weighted pool is worth {forecast.ess:,.0f} of its {forecast.images:,} images{units} "
        f"(design effect {forecast.design_effect:.3g}); {_share(forecast.heavy_share)} of the "
        f"images carry {HEAVY:.0%} of the weight.{tail}",
        forecast.condition,
    ]
    lines += [f"Objection: {forecast.objection}"] if forecast.objection else []
    return [*lines, forecast.method, *(f"Note: {note}" for note in forecast.notes)]


def _label_lines(forecast: Forecast) -> list[str]:
    """Return the accuracy of every label, naive and debiased, and its gain."""
    naive, debiased = forecast.arms[:2]
    if not debiased.gain_by_label:
        return []
    rows = []
    for name, gain in debiased.gain_by_label.items():
        before, after = (100 * arm.by_class[name].value for arm in (naive, debiased))
        low, high = (points(end, signed=True) for end in gain.interval)
        shown = f"{before:.1f} → {after:.1f}, {plus_minus(gain, signed=True)} ({low} to {high})"
        rows.append(f"  {name}: {shown}")
    return ["", "By label, naive → debiased, and the gain with its 95% interval:", *rows]


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{100 * share:.2g}%"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
