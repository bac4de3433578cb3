"""What comes true: naive and debiased on images that no source drew, of the population itself and
of the test split.

Forecasts speak of the population that the sources draw from, CIFAR's training images. Those that
happened to be drawn by no source are unseen, and image i is among them with a known chance u_i:
weighted by 1/u_i they are that population. The test images are another sample.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from learning_results import Record, Results
from learning_ways import tuned_probes
from solver_table import commit_facts

from paper.features import Features
from paper.settings import Population, Setting, unseen_chance
from unskew.records import Floats
from unskew.records.clustered_mean import plain_mean


def measure_truth(
    features: Features, settings: Sequence[Setting], seeds: Sequence[int], results: Results
) -> None:
    """Accuracy of both arms and their difference, in points with standard errors, on the population
    and on the test images.
    """
    population = Population(features.train_label, features.border)
    even_t = np.full(features.test_label.size, 1.0 / features.test_label.size)
    for seed in seeds:
        for setting in settings:
            if (setting.key, seed) in results.read():
                continue
            draw = setting.draw(population, seed)
            chance_n = unseen_chance(setting.population_omega(population), draw.pool.sizes)
            unseen = np.setdiff1d(np.arange(population.label.size), draw.index)
            weight_u = 1.0 / chance_n[unseen]
            hit: dict[str, tuple[Floats, Floats]] = {}
            for name, probe in tuned_probes(draw, features, seed).items():
                hit[name] = (
                    (probe.predict(features.train[unseen]) == features.train_label[unseen]).astype(
                        np.float64
                    ),
                    (probe.predict(features.test) == features.test_label).astype(np.float64),
                )
            hit["gain"] = tuple(
                after - before for after, before in zip(hit["debiased"], hit["naive"], strict=True)
            )
            record: Record = {
                "setting": setting.key,
                "seed": seed,
                "unseen": unseen.size,
                "commit": commit_facts(),
            }
            for at, (place, weight_n) in enumerate(
                (("population", weight_u / weight_u.sum()), ("test", even_t))
            ):
                record[place] = {
                    name: _points(weight_n, values[at]) for name, values in hit.items()
                }
            results.add(record)
            print(
                f"{setting.key} seed {seed} {record['population']} {record['test']}",
                file=sys.stderr,
                flush=True,
            )


def _points(weight_n: Floats, value_n: Floats) -> dict[str, float]:
    estimate = plain_mean(weight_n, value_n, np.arange(value_n.size))
    return {"value": 100 * estimate.value, "stderr": 100 * estimate.stderr}
