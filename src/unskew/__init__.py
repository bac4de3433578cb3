"""unskew: learn from several biased image databases as if they were one unbiased one."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"  # the one place: pyproject.toml reads it, `unskew --version` prints it

if TYPE_CHECKING:
    from unskew import bias, learn, scenarios
    from unskew.bias.fit_check import check_fit
    from unskew.choosing.choice import BiasChoice
    from unskew.choosing.ranking import choose_bias
    from unskew.debiasing.pool_weights import debias
    from unskew.diagnosis.report import write_report
    from unskew.errors import (
        ConfigError,
        ConvergenceError,
        CoverageError,
        DataError,
        OverlapError,
        UnskewError,
    )
    from unskew.estimators.debiased import DebiasedClassifier, DebiasedRegressor
    from unskew.forecasting.gain import forecast_gain
    from unskew.forecasting.rehearsal import rehearse
    from unskew.records import Estimate, Overlap, Pool, Solution, Status, Target, Weights
    from unskew.represent.pool_features import represent_images
    from unskew.runs.pipeline import run
    from unskew.solve.normalizers import check_overlap, solve_normalizers
    from unskew.weigh.calibrate import calibrate_weights
    from unskew.weigh.shrink import shrink_weights
    from unskew.weigh.solved_weights import debias_weights
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
    "forecast_gain",
    "learn",
    "rehearse",
    "represent_images",
    "run",
    "scenarios",
    "shrink_weights",
    "solve_normalizers",
    "trim_weights",
    "write_report",
]


# Each name is fetched from its home when it is first asked for: `import unskew` costs next to
# nothing, also in processes that need little.
_HOME = {
    "check_fit": "bias.fit_check",
    "BiasChoice": "choosing.choice",
    "choose_bias": "choosing.ranking",
    "debias": "debiasing.pool_weights",
    "DebiasedClassifier": "estimators.debiased",
    "DebiasedRegressor": "estimators.debiased",
    "forecast_gain": "forecasting.gain",
    "rehearse": "forecasting.rehearsal",
    "write_report": "diagnosis.report",
    "represent_images": "represent.pool_features",
    "run": "runs.pipeline",
    "check_overlap": "solve.normalizers",
    "solve_normalizers": "solve.normalizers",
    "calibrate_weights": "weigh.calibrate",
    "debias_weights": "weigh.solved_weights",
    "shrink_weights": "weigh.shrink",
    "trim_weights": "weigh.trim",
    **dict.fromkeys(
        (
            "ConfigError",
            "ConvergenceError",
            "CoverageError",
            "DataError",
            "OverlapError",
            "UnskewError",
        ),
        "errors",
    ),
    **dict.fromkeys(
        ("Estimate", "Overlap", "Pool", "Solution", "Status", "Target", "Weights"), "records"
    ),
}
_FOLDERS = ("bias", "learn", "scenarios", "errors", "records")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FOLDERS:
        return import_module(f"unskew.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'unskew' has no attribute {name!r}")
    value = getattr(import_module(f"unskew.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
