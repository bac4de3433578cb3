"""Stage 6, weighted training; so far the baselines that the weights are compared with."""

from unskew.learn.baselines import BASELINES, Baseline, Baselines, make_baseline, make_baselines

__all__ = ["BASELINES", "Baseline", "Baselines", "make_baseline", "make_baselines"]
