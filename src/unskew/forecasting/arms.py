"""The arms of a forecast: naive, the ways of the debiasing weights, baselines, the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, UnskewError, did_you_mean
from unskew.forecasting.cross_fitting import ProbeArm
from unskew.learn.baseline_record import Baseline
from unskew.learn.baselines import BASELINES, make_baseline
from unskew.learn.dial import turn_dial
from unskew.learn.presets import TAUS, WAYS, Way
from unskew.learn.sklearn_fit import offset_of
from unskew.records import Floats, Ints, Pool, Target


def check_probe_arms(arms: str | Sequence[str], own: Mapping[str, npt.ArrayLike]) -> list[str]:
    """List naive and debiased, then the baselines that were asked for."""
    asked = [arms] if isinstance(arms, str) else list(arms)
    known = tuple(dict.fromkeys(["naive", "debiased", *BASELINES, "all"]))
    for name in asked:
        if name not in known:
            raise ConfigError(
                f"there is no arm {name!r}; the arms are "
                f"{', '.join(known)}.{did_you_mean(name, known)}",
                option="arms",
                value=name,
                allowed=list(known),
            )
    taken = [name for name in own if name in (*known, *WAYS)]
    if taken:
        raise ConfigError(
            f"an arm of your own cannot be called {taken[0]!r}, which is a built-in arm; give it "
            "another name.",
            option="own",
            value=taken[0],
        )
    return list(dict.fromkeys(["naive", "debiased", *(BASELINES if "all" in asked else asked)]))


def make_ways(
    ways: Sequence[Way], weight_n: Floats, label_n: Ints, n_classes: int, *, calibrated: bool
) -> list[ProbeArm]:
    """Return an arm for each way to learn from the debiasing weights, of the way's name."""
    arms = []
    for way in ways:
        dialled = turn_dial(weight_n, label_n, n_classes, TAUS[way])
        arms.append(
            ProbeArm(
                way,
                dialled.weight,
                dialled.logit_shift if dialled.shifts else None,
                way=way,
                calibrate=weight_n if calibrated else None,
            )
        )
    return arms


def make_arms(
    pool: Pool,
    target: Target | None,
    ways: Sequence[ProbeArm],
    classes: Sequence[str],
    asked: Sequence[str],
    own: Mapping[str, npt.ArrayLike],
    options: Mapping[str, Mapping[str, Any]],
    *,
    lenient: bool,
) -> tuple[list[ProbeArm], list[str]]:
    """Return the arms that can be made, and sentences on those that cannot.

    In place of "debiased" there are the ``ways``. Unless ``lenient`` ("all" were asked for), one
    that cannot be made is an error.
    """
    made: list[ProbeArm] = []
    unavailable: list[str] = []
    for name in asked:
        if name == "debiased":
            made.extend(ways)
            continue
        try:
            baseline = make_baseline(name, pool, target, **options.get(name, {}))
            made.append(_baseline_arm(baseline, classes))
        except UnskewError as error:
            if name in options or not lenient:
                raise
            unavailable.append(f"{name} cannot be made: {error}")
    return [
        *made,
        *(_own_arm(name, weight, len(pool)) for name, weight in own.items()),
    ], unavailable


def _baseline_arm(baseline: Baseline, classes: Sequence[str]) -> ProbeArm:
    if baseline.logit_offset is None or baseline.classes is None:
        return ProbeArm(baseline.name, baseline.weight)
    if baseline.form != "posthoc":
        instead = {
            "logit_adjustment": "use form='posthoc'",
            "classifier_retraining": "which is nothing but a last layer",
        }.get(baseline.name, "compare the networks themselves with `unskew train`")
        raise ConfigError(
            f"{baseline.name} in the form {baseline.form!r} is for networks, and a forecast is "
            f"made with a probe: {instead}.",
            option="form",
            value=baseline.form,
        )
    offset_m = np.zeros(len(classes))
    kept = [name for name in classes if name in baseline.classes]
    offset_m[[classes.index(name) for name in kept]] = offset_of(
        kept, baseline.classes, baseline.logit_offset
    )
    return ProbeArm(baseline.name, baseline.weight, offset_m)


def _own_arm(name: str, weight: npt.ArrayLike, n_images: int) -> ProbeArm:
    weight_n = np.asarray(weight, dtype=np.float64)
    if (
        weight_n.shape != (n_images,)
        or not np.isfinite(weight_n).all()
        or weight_n.min() < 0
        or not weight_n.any()
    ):
        raise DataError(
            f"the arm {name!r} needs one weight for each of the {n_images} images, finite, not "
            "negative and not all zero.",
            option="own",
            value=name,
            limit=n_images,
        )
    return ProbeArm(name, weight_n / weight_n.sum())
