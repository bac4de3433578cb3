"""unskew: learn from several biased image databases as if they were one unbiased one."""

from unskew import scenarios
from unskew.errors import ConfigError, ConvergenceError, CoverageError, DataError, OverlapError, UnskewError
from unskew.records import Estimate, Overlap, Solution, Status, Weights
from unskew.solve.entry import check_overlap, solve_normalizers
from unskew.weigh.entry import debias_weights

__all__ = [
    "ConfigError",
    "ConvergenceError",
    "CoverageError",
    "DataError",
    "Estimate",
    "Overlap",
    "OverlapError",
    "Solution",
    "Status",
    "UnskewError",
    "Weights",
    "check_overlap",
    "debias_weights",
    "scenarios",
    "solve_normalizers",
]
