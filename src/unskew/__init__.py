"""unskew: learn from several biased image databases as if they were one unbiased one."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"  # the one place: pyproject.toml reads it, `unskew --version` prints it

if TYPE_CHECKING:
    from unskew import bias, learn, represent, scenarios
    from unskew.bias.fit_check import FitCheck, check_fit
    from unskew.bias.fit_tests import FeatureCheck, JointCheck
    from unskew.choosing.choice import BiasChoice
    from unskew.choosing.ranking import choose_bias
    from unskew.config.run_config import RunConfig, read_config
    from unskew.debiasing.margin_sets import MeanOverMargins, bound_over_margins
    from unskew.debiasing.outcome_model import OutcomePredictions, predict_outcome
    from unskew.debiasing.pool_weights import SplitPart, SplitWeights, debias, weigh_splits
    from unskew.debiasing.several_targets import MeansByTarget, WeightsByTarget, debias_targets
    from unskew.diagnosis.advice import advise_collection
    from unskew.diagnosis.advice_record import Advice, CollectOption, Goal, MissingLink
    from unskew.diagnosis.pool_diagnostics import diagnose
    from unskew.diagnosis.report import write_report
    from unskew.errors import (
        ConfigError,
        ConvergenceError,
        CoverageError,
        DataError,
        ImageError,
        InvalidConfigError,
        LockedError,
        MixedResultsError,
        OverlapError,
        RowCountError,
        UnreadableError,
        UnskewError,
        UnskewWarning,
        WeakOverlapWarning,
    )
    from unskew.estimators.debiased import DebiasedClassifier, DebiasedRegressor
    from unskew.evaluation.pair_cells import PairCell, PairGap
    from unskew.evaluation.pair_intervals import PairFigure
    from unskew.evaluation.pairs import PairEvaluation, evaluate_pairs
    from unskew.evaluation.predictions import Evaluation, evaluate_predictions
    from unskew.forecasting.gain import forecast_gain
    from unskew.forecasting.record import Forecast
    from unskew.forecasting.rehearsal import rehearse
    from unskew.forecasting.rehearsal_record import Rehearsal
    from unskew.records import (
        Agreement,
        Diagnostics,
        Estimate,
        Images,
        Overlap,
        Pool,
        RobustEstimate,
        Solution,
        SourceEstimate,
        Status,
        Step,
        Target,
        Weights,
        WithoutSource,
    )
    from unskew.records.diagnostics import OutcomeMean, OutcomeRange
    from unskew.records.monitoring import Monitoring
    from unskew.report.summary.record import Summary
    from unskew.represent.pool_features import represent_images
    from unskew.runs.differences import Check
    from unskew.runs.evaluate import EvaluationsByTarget, evaluate_run, evaluate_run_targets
    from unskew.runs.export_tables import Export, export_run, export_weights
    from unskew.runs.inputs import Inputs
    from unskew.runs.monitor import monitor_run
    from unskew.runs.pipeline import Run, run
    from unskew.runs.verification import verify_run
    from unskew.solve.normalizers import check_overlap, solve_normalizers
    from unskew.sources.description import PoolDescription, describe_pool
    from unskew.sources.label_sets import label_indicators
    from unskew.splits.assignment import check_splits, split_pool
    from unskew.target.label_shift_record import LabelShift
    from unskew.target.strata import TargetReference, TargetStrata
    from unskew.weigh.bootstrap import Bootstrap
    from unskew.weigh.calibrate import Calibration, calibrate_weights
    from unskew.weigh.effective_size import Diagnosis, SourceDiagnosis
    from unskew.weigh.sensitivity import Sensitivity, bound_weights_mean
    from unskew.weigh.shrink import Shrinkage, shrink_weights
    from unskew.weigh.solved_weights import debias_weights
    from unskew.weigh.trim import Trimming, trim_weights
    from unskew.weigh.weights_table import read_weights_table, write_weights_table

__all__ = [
    "Advice",
    "Agreement",
    "BiasChoice",
    "Bootstrap",
    "Calibration",
    "Check",
    "CollectOption",
    "ConfigError",
    "ConvergenceError",
    "CoverageError",
    "DataError",
    "DebiasedClassifier",
    "DebiasedRegressor",
    "Diagnosis",
    "Diagnostics",
    "Estimate",
    "Evaluation",
    "EvaluationsByTarget",
    "Export",
    "FeatureCheck",
    "FitCheck",
    "Forecast",
    "Goal",
    "ImageError",
    "Images",
    "Inputs",
    "InvalidConfigError",
    "JointCheck",
    "LabelShift",
    "LockedError",
    "MeanOverMargins",
    "MeansByTarget",
    "MissingLink",
    "MixedResultsError",
    "Monitoring",
    "OutcomeMean",
    "OutcomePredictions",
    "OutcomeRange",
    "Overlap",
    "OverlapError",
    "PairCell",
    "PairEvaluation",
    "PairFigure",
    "PairGap",
    "Pool",
    "PoolDescription",
    "Rehearsal",
    "RobustEstimate",
    "RowCountError",
    "Run",
    "RunConfig",
    "Sensitivity",
    "Shrinkage",
    "Solution",
    "SourceDiagnosis",
    "SourceEstimate",
    "SplitPart",
    "SplitWeights",
    "Status",
    "Step",
    "Summary",
    "Target",
    "TargetReference",
    "TargetStrata",
    "Trimming",
    "UnreadableError",
    "UnskewError",
    "UnskewWarning",
    "WeakOverlapWarning",
    "Weights",
    "WeightsByTarget",
    "WithoutSource",
    "__version__",
    "advise_collection",
    "bias",
    "bound_over_margins",
    "bound_weights_mean",
    "calibrate_weights",
    "check_fit",
    "check_overlap",
    "check_splits",
    "choose_bias",
    "debias",
    "debias_targets",
    "debias_weights",
    "describe_pool",
    "diagnose",
    "evaluate_pairs",
    "evaluate_predictions",
    "evaluate_run",
    "evaluate_run_targets",
    "export_run",
    "export_weights",
    "forecast_gain",
    "label_indicators",
    "learn",
    "monitor_run",
    "predict_outcome",
    "read_config",
    "read_weights_table",
    "rehearse",
    "represent",
    "represent_images",
    "run",
    "scenarios",
    "shrink_weights",
    "solve_normalizers",
    "split_pool",
    "trim_weights",
    "verify_run",
    "weigh_splits",
    "write_report",
    "write_weights_table",
]

# Each name is fetched from its home when it is first asked for: `import unskew` costs next to
# nothing, also in processes that need little.
_NAMES = {
    "bias.fit_check": ("FitCheck", "check_fit"),
    "bias.fit_tests": ("FeatureCheck", "JointCheck"),
    "choosing.choice": ("BiasChoice",),
    "choosing.ranking": ("choose_bias",),
    "config.run_config": ("RunConfig", "read_config"),
    "debiasing.margin_sets": ("MeanOverMargins", "bound_over_margins"),
    "debiasing.outcome_model": ("OutcomePredictions", "predict_outcome"),
    "debiasing.pool_weights": ("SplitPart", "SplitWeights", "debias", "weigh_splits"),
    "debiasing.several_targets": ("MeansByTarget", "WeightsByTarget", "debias_targets"),
    "diagnosis.advice": ("advise_collection",),
    "diagnosis.advice_record": ("Advice", "CollectOption", "Goal", "MissingLink"),
    "diagnosis.pool_diagnostics": ("diagnose",),
    "diagnosis.report": ("write_report",),
    "errors": (
        "ConfigError",
        "ConvergenceError",
        "CoverageError",
        "DataError",
        "ImageError",
        "InvalidConfigError",
        "LockedError",
        "MixedResultsError",
        "OverlapError",
        "RowCountError",
        "UnreadableError",
        "UnskewError",
        "UnskewWarning",
        "WeakOverlapWarning",
    ),
    "estimators.debiased": ("DebiasedClassifier", "DebiasedRegressor"),
    "evaluation.pair_cells": ("PairCell", "PairGap"),
    "evaluation.pair_intervals": ("PairFigure",),
    "evaluation.pairs": ("PairEvaluation", "evaluate_pairs"),
    "evaluation.predictions": ("Evaluation", "evaluate_predictions"),
    "forecasting.gain": ("forecast_gain",),
    "forecasting.record": ("Forecast",),
    "forecasting.rehearsal": ("rehearse",),
    "forecasting.rehearsal_record": ("Rehearsal",),
    "records": (
        "Agreement",
        "Diagnostics",
        "Estimate",
        "Images",
        "Overlap",
        "Pool",
        "RobustEstimate",
        "Solution",
        "SourceEstimate",
        "Status",
        "Step",
        "Target",
        "Weights",
        "WithoutSource",
    ),
    "records.diagnostics": ("OutcomeMean", "OutcomeRange"),
    "records.monitoring": ("Monitoring",),
    "report.summary.record": ("Summary",),
    "represent.pool_features": ("represent_images",),
    "runs.differences": ("Check",),
    "runs.evaluate": ("EvaluationsByTarget", "evaluate_run", "evaluate_run_targets"),
    "runs.export_tables": ("Export", "export_run", "export_weights"),
    "runs.inputs": ("Inputs",),
    "runs.monitor": ("monitor_run",),
    "runs.pipeline": ("Run", "run"),
    "runs.verification": ("verify_run",),
    "solve.normalizers": ("check_overlap", "solve_normalizers"),
    "sources.description": ("PoolDescription", "describe_pool"),
    "sources.label_sets": ("label_indicators",),
    "splits.assignment": ("check_splits", "split_pool"),
    "target.label_shift_record": ("LabelShift",),
    "target.strata": ("TargetReference", "TargetStrata"),
    "weigh.bootstrap": ("Bootstrap",),
    "weigh.calibrate": ("Calibration", "calibrate_weights"),
    "weigh.effective_size": ("Diagnosis", "SourceDiagnosis"),
    "weigh.sensitivity": ("Sensitivity", "bound_weights_mean"),
    "weigh.shrink": ("Shrinkage", "shrink_weights"),
    "weigh.solved_weights": ("debias_weights",),
    "weigh.trim": ("Trimming", "trim_weights"),
    "weigh.weights_table": ("read_weights_table", "write_weights_table"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_ROOMS = ("bias", "learn", "represent", "scenarios", "errors", "records")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"unskew.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'unskew' has no attribute {name!r}")
    value = getattr(import_module(f"unskew.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
