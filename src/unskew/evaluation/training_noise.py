"""Several trainings of one model, which differ in their seed alone: how far do their figures vary?

A figure a(s, i) of training s on image i is μ + α_s + β_i + γ_si: what the seed changes everywhere,
what the image does, and what the seed changes on that image. The figure shown is the mean m̄ over S
trainings. Its replicates, in which images are drawn again and the trainings are kept, vary by
Var β/n + Var γ/(S n); the trainings vary among each other, on the same images, by
s² = Var α + Var γ/n. So the variance of m̄ is estimated by

    V = Var_b(m̄_b) + max(0, s² − c)/S,    c = S/(S − 1) · mean_s Var_b(m_sb − m̄_b),

where c estimates Var γ/n, which the first term already counts. Each side of the interval reaches

    h = sqrt(h_b² + max(0, t² s² − z² c)/S)

from m̄, with h_b the reach of the percentiles of the replicates, t and z the quantiles of Student's
distribution with S − 1 degrees of freedom and of the normal one: the squares of two reaches are
added (Zou and Donner 2008), and where training noise is all there is, it is Student's interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.special

from unskew.evaluation.metric_value import MetricValue
from unskew.records import Floats

# Replicates from which c is estimated: a variance of so many is known to a tenth.
NOISE_REPLICATES = 250


@dataclass(frozen=True)
class TrainingNoise:
    """How far one figure varies between trainings.

    Attributes
    ----------
    values : (S,) the figure of each training.
    between : s², their variance.
    crossed : c, the part of it that comes from which images are there; 0 where that is unknown.
    """

    values: tuple[float, ...]
    between: float
    crossed: float

    def widen(
        self, figure: MetricValue, level: float, lowest: float, highest: float
    ) -> MetricValue:
        """Let interval and standard error of the mean over trainings count the training noise."""
        trainings = len(self.values)
        figure = replace(figure, by_seed=self.values, spread=math.sqrt(self.between))
        if figure.interval is None or figure.value is None:
            return figure
        student = float(scipy.special.stdtrit(trainings - 1, 0.5 + level / 2))
        normal = float(scipy.special.ndtri(0.5 + level / 2))
        excess = max(0.0, student**2 * self.between - normal**2 * self.crossed) / trainings
        low, high = figure.interval
        # An interval that was moved may end before the value: its reach on that side is 0.
        reaches = [max(0.0, figure.value - low), max(0.0, high - figure.value)]
        below, above = (math.hypot(reach, math.sqrt(excess)) - reach for reach in reaches)
        own = max(0.0, self.between - self.crossed) / trainings
        return replace(
            figure,
            interval=(max(low - below, lowest), min(high + above, highest)),
            stderr=math.sqrt((figure.stderr or 0.0) ** 2 + own),
        )


def measure_noise(value_s: Floats, replicate_sb: Floats | None) -> TrainingNoise | None:
    """Measure how far a figure varies between trainings; None with one, or where one lacks it."""
    if value_s.size < 2 or not np.isfinite(value_s).all():
        return None
    crossed = 0.0
    if replicate_sb is not None:
        known_sb = replicate_sb[:, np.isfinite(replicate_sb).all(axis=0)]
        if known_sb.shape[1] >= 2:
            own_s = (known_sb - known_sb.mean(axis=0)).var(axis=1, ddof=1)
            crossed = float(own_s.mean() * value_s.size / (value_s.size - 1))
    return TrainingNoise(tuple(value_s.tolist()), float(value_s.var(ddof=1)), crossed)
