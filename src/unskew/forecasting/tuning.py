"""What is chosen before arms are compared: the ridge of every probe, and the way to learn.

All arms get the same grid, so that none wins by its penalty. What is chosen is what
`unskew.learn.probe_grid.tune_probe` chooses from the same images, folds and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.engine.progress import show_progress
from unskew.errors import ConfigError
from unskew.forecasting.cross_fitting import (
    Deal,
    Hits,
    ProbeArm,
    arms_by_fit,
    count_fits,
    cross_fit_arms,
    merge_copies,
    number_units,
)
from unskew.forecasting.learners import Learner, ProbeLearner
from unskew.forecasting.probe_data import ProbeData
from unskew.learn.dial import Dialled, temper_within, turn_dial
from unskew.learn.presets import TAUS, Way
from unskew.learn.probe_grid import (
    RIDGES,
    WITHIN,
    choose_within,
    cross_fit_logits,
    join_candidates,
    judge_ridges,
    some_rows,
    varies_within,
)
from unskew.learn.ways import START, HeldOutHits, WayChoice, check_way, choose_way
from unskew.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class Tuned:
    """Arms with their ridges, and how they were chosen.

    Attributes
    ----------
    arms : as given, each with its ridge.
    choices : by arm, of its ridge alone.
    choice : of the way, from all of them.
    """

    arms: tuple[ProbeArm, ...]
    choices: dict[str, WayChoice]
    choice: WayChoice


def ways_to_try(way: Any, learner: Learner, called: str) -> tuple[Way, ...]:
    """Return the ways that a forecast compares: one that is asked for, or all that can be learned.

    Without probabilities no logit can be shifted.
    """
    allowed = ("auto", *TAUS)
    why = "a forecast trains no network, whose last layer could be refitted"
    if way != "head" and not learner.shifts_logits:
        allowed, why = ("auto", "weights"), f"{called} has no predict_proba"
    checked = check_way(way, allowed, why=why)
    if checked != "auto":
        return (checked,)
    return tuple(TAUS) if learner.shifts_logits else ("weights",)


def ridges_to_try(ridge: float | None) -> tuple[float, ...]:
    """Return the grid for None, or the ridge that is given."""
    if ridge is not None and not ridge > 0:
        raise ConfigError(
            f"ridge is the strength of a penalty, above 0, or None (chosen); got {ridge!r}.",
            option="ridge",
            value=ridge,
        )
    return RIDGES if ridge is None else (float(ridge),)


def train_arms(
    arms: Sequence[ProbeArm],
    data: ProbeData,
    weight_n: Floats,
    deal: Deal,
    learner: Learner,
    ridges: Sequence[float],
    seed: int,
    progress: bool | None,
) -> tuple[list[ProbeArm], dict[str, Hits], WayChoice]:
    """Return the arms with their ridges, their hits (those of "debiased", too), and the way."""
    tuned = None
    if isinstance(learner, ProbeLearner):
        n_tried = len(WITHIN) + 1 if sum(arm.way is not None for arm in arms) > 1 else 0
        n_fits = (len(arms) + n_tried) * len(ridges) * deal.n_folds
        with show_progress("choosing ridges", n_fits, progress) as advance:
            tuned = tune_arms(arms, data, weight_n, deal.fold, ridges, seed=seed, advance=advance)
        arms = tuned.arms
    with show_progress("training probes", count_fits(len(arms), deal.n_folds), progress) as advance:
        hits = cross_fit_arms(
            arms, data.X, data.label, data.unit, len(data.classes), deal, learner, advance
        )
    if tuned is None:
        tried = {arm.way: hits[arm.name].full for arm in arms if arm.way is not None}
        choice = choose_from_hits(tried, weight_n, data.unit, seed)
    else:
        choice = tuned.choice
        hits = {
            name: replace(own, optimism=tuned.choices[name].optimism) for name, own in hits.items()
        }
    hits["debiased"] = replace(hits[choice.way], optimism=choice.optimism)
    return list(arms), hits, choice


def tune_arms(
    arms: Sequence[ProbeArm],
    data: ProbeData,
    target_n: Floats,
    fold_n: Ints,
    ridges: Sequence[float],
    *,
    seed: int,
    advance: Callable[[int], None] = lambda count: None,
) -> Tuned:
    """Choose the ridge of every arm, and the way, by weighted accuracy on held-out images.

    They are weighted by ``target_n`` (n,), those of naive, which knows of no target, by its own
    weights. Of several ways the power of the weights within classes is chosen first, as by
    `tune_probe`.
    """
    # By id, so that the order of the rows does not matter; copies are one row; and as many of these
    # as are enough to choose by.
    n_classes = len(data.classes)
    X_nd, label_n, unit_n = data.X[data.order], data.label[data.order], data.unit[data.order]
    unit_n = number_units(unit_n)
    kept, row_n = merge_copies(X_nd, label_n, unit_n)
    row_n = row_n[np.argsort(data.order)]
    some = some_rows(unit_n[kept], np.ones(kept.size), seed)
    rows = kept[some]
    X_md, label_m, unit_m = X_nd[rows], label_n[rows], unit_n[rows]
    fold_m = fold_n[data.order][rows]
    target_m = np.bincount(row_n, weights=target_n).astype(np.float64)[some]

    def judge(group: Sequence[ProbeArm]) -> dict[str, HeldOutHits]:
        weight_m = group[0].weight[some]
        logit_rnm = cross_fit_logits(
            X_md,
            label_m,
            Dialled(0.0, weight_m, np.zeros(n_classes)),
            fold_m,
            ridges,
            advance=lambda count: advance(count * len(group)),
        )
        judged = {}
        for arm in group:
            judge_m = weight_m if arm.name == "naive" else target_m
            offset_m = 0.0 if arm.logit_offset is None else arm.logit_offset
            tau = START if arm.way is None else TAUS[arm.way]
            judged[arm.name] = judge_ridges(
                logit_rnm - offset_m, label_m, tau, ridges, judge_m, unit_m
            )
        return judged

    within, words, middle = 1.0, "", [arm for arm in arms if arm.way == "half"]
    if len({arm.way for arm in arms} - {None}) > 1 and middle:
        if varies_within(target_n, data.label, n_classes):
            tried = {
                power: _tempered(middle[0], target_n, data.label, n_classes, power).merge(row_n)
                for power in (1.0, *WITHIN)
            }
            within, words = choose_within(
                {power: judge([arm])[arm.name] for power, arm in tried.items()}
            )
        arms = [_tempered(arm, target_n, data.label, n_classes, within) for arm in arms]
    judged: dict[str, HeldOutHits] = {}
    for group in arms_by_fit([arm.merge(row_n) for arm in arms]):
        judged |= judge(group)
    choices = {arm.name: choose_way(judged[arm.name], seed=seed) for arm in arms}
    choice = choose_way(
        join_candidates([judged[arm.name] for arm in arms if arm.way is not None]), seed=seed
    )
    return Tuned(
        tuple(replace(arm, ridge=choices[arm.name].ridge) for arm in arms),
        choices,
        replace(choice, within=within, reason=choice.reason + words),
    )


def _tempered(
    arm: ProbeArm, weight_n: Floats, label_n: Ints, n_classes: int, power: float
) -> ProbeArm:
    """Return the arm of a way, the weights taken to a power within classes; another as it is."""
    if arm.way is None or power == 1.0:
        return arm
    tempered_n = temper_within(weight_n, label_n, n_classes, power)
    dialled = turn_dial(tempered_n, label_n, n_classes, TAUS[arm.way])
    return replace(arm, weight=dialled.weight)


def choose_from_hits(
    hits: dict[Way, Floats], weight_n: Floats, unit_n: Ints, seed: int
) -> WayChoice:
    """Choose the way of a learner without a ridge from (n,) hits on held-out images."""
    tau_c = np.array([TAUS[way] for way in hits])
    judged = HeldOutHits(
        tau_c, np.full(tau_c.size, np.nan), np.array(list(hits.values())), weight_n, unit_n
    )
    return choose_way(judged, seed=seed)
