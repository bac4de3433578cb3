"""A forecast for images with any number of labels: each label as two classes, absent and present.

Every label has its own probes, ridges and way, on the images of which it is known. Its accuracy on
the target is the ratio a = Σ_i π_i k_i h_i/Σ_i π_i k_i, k_i = 1 where the label is known, and
the mean over all images of a + k_i (h_i − a)/K, K = Σ_i π_i k_i, which has the same error to first
order. What is forecast is the mean of the labels' accuracies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unskew.forecasting.arms import make_ways
from unskew.forecasting.cross_fitting import Deal, Hits, ProbeArm
from unskew.forecasting.learners import Learner
from unskew.forecasting.probe_data import ProbeData
from unskew.forecasting.tuning import train_arms
from unskew.learn.dial import turn_dial
from unskew.learn.presets import TAUS, Way
from unskew.learn.ways import WayChoice, join_choices
from unskew.records import Floats, Ints


def train_label_arms(
    others: Sequence[ProbeArm],
    ways: Sequence[Way],
    data: ProbeData,
    weight_n: Floats,
    deal: Deal,
    learner: Learner,
    ridges: Sequence[float],
    seed: int,
    progress: bool | None,
    *,
    calibrated: bool,
) -> tuple[list[ProbeArm], dict[str, Hits], WayChoice]:
    """Train every arm for every label: (the arms, their hits, the choices of ways as one).

    ``others`` are naive first and baselines; the arms come back with the ways after naive. The hits
    are means over the labels, with those of each label.
    """
    by_label: list[dict[str, Hits]] = []
    choices, ridge_of = dict[str, WayChoice](), dict[str, set[float | None]]()
    for m, name in enumerate(data.classes):
        rows, own = data.of_label(m)
        own_ways = make_ways(ways, weight_n[rows], own.label, 2, calibrated=calibrated)
        naive, *rest = (replace(arm, weight=arm.weight[rows]) for arm in others)
        made, hits, choices[name] = train_arms(
            [naive, *own_ways, *rest],
            own,
            weight_n[rows],
            deal.take(rows),
            learner,
            ridges,
            seed,
            progress,
        )
        by_label.append({arm: _over_all(own, rows, weight_n) for arm, own in hits.items()})
        for arm in made:
            ridge_of.setdefault(arm.name, set()).add(arm.ridge)
    hits = {name: _mean([own[name] for own in by_label]) for name in by_label[0]}
    arms = [others[0], *_ways_of_images(ways, weight_n, data), *others[1:]]
    return [_with_ridge(arm, ridge_of[arm.name]) for arm in arms], hits, join_choices(choices)


def _ways_of_images(ways: Sequence[Way], weight_n: Floats, data: ProbeData) -> list[ProbeArm]:
    """Return the ways with the weights of images, means over the labels, for their worth."""
    return [
        ProbeArm(
            way,
            turn_dial(weight_n, data.label, len(data.classes), TAUS[way]).image_weight,
            way=way,
        )
        for way in ways
    ]


def _with_ridge(arm: ProbeArm, ridges: set[float | None]) -> ProbeArm:
    return replace(arm, ridge=next(iter(ridges)) if len(ridges) == 1 else None)


def _over_all(hits: Hits, rows: Ints, weight_n: Floats) -> Hits:
    """Spread the hits of the images of ``rows`` over all images, their weighted mean unchanged."""
    share = float(weight_n[rows].sum() / weight_n.sum())

    def spread(value_r: Floats) -> Floats:
        if rows.size == weight_n.size or not share:
            value_n = np.zeros(weight_n.size)
            value_n[rows] = value_r
            return value_n
        mean = float(weight_n[rows] @ value_r / weight_n[rows].sum())
        value_n = np.full(weight_n.size, mean)
        value_n[rows] += (value_r - mean) / share
        return value_n

    return replace(hits, full=spread(hits.full), half=spread(hits.half), split=spread(hits.split))


def _mean(labels: Sequence[Hits]) -> Hits:
    """Average the hits of the labels."""
    full_n, half_n, split_n = (
        np.mean([getattr(own, name) for own in labels], axis=0)
        for name in ("full", "half", "split")
    )
    optimism = float(np.mean([own.optimism for own in labels]))
    return Hits(full_n, half_n, split_n, optimism, tuple(labels))
