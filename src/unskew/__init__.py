"""unskew: learn from several biased image databases as if they were one unbiased one."""

from typing import Any

from unskew import bias, learn, scenarios
from unskew.bias.fit_check import check_fit
from unskew.choosing import BiasChoice, choose_bias
from unskew.debiasing import debias
from unskew.errors import ConfigError, ConvergenceError, CoverageError, DataError, OverlapError, UnskewError
from unskew.records import Estimate, Overlap, Pool, Solution, Status, Target, Weights
from unskew.report.entry import write_report
from unskew.represent.entry import represent_images
from unskew.solve.entry import check_overlap, solve_normalizers
from unskew.weigh.calibrate import calibrate_weights
from unskew.weigh.entry import debias_weights
from unskew.weigh.trim import trim_weights

__all__ = [
    "BiasChoice",
    "ConfigError",
    "ConvergenceError",
    "CoverageError",
    "DataError",
    "DebiasedClassifier",
    "DebiasedRegressor",
    "Estimate",
    "Overlap",
    "OverlapError",
    "Pool",
    "Solution",
    "Status",
    "Target",
    "UnskewError",
    "Weights",
    "bias",
    "calibrate_weights",
    "check_fit",
    "check_overlap",
    "choose_bias",
    "debias",
    "debias_weights",
    "learn",
    "rehearse",
    "represent_images",
    "scenarios",
    "solve_normalizers",
    "trim_weights",
    "write_report",
]


def __getattr__(name: str) -> Any:
    # Their base classes are scikit-learn's, which takes longer to load than all the rest.
    if name in ("DebiasedClassifier", "DebiasedRegressor"):
        from unskew import estimator

        return getattr(estimator, name)
    if name == "rehearse":
        from unskew.rehearsal import rehearse

        return rehearse
    raise AttributeError(f"module 'unskew' has no attribute {name!r}")
