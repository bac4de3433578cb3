"""One small legitimate call of every public function, method and constructor."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unskew
from unskew import Pool, Target, bias, learn, represent, scenarios
from unskew.learn import Recipe, TrainSettings, WeightedDataset, WeightedSampler

Call = tuple[Callable[..., Any], dict[str, Any]]
N = 48
_rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "id": [f"i{row}" for row in range(N)],
        "source": ["a", "b", "c"] * (N // 3),
        "label": [*("cat", "dog", "dog"), *("dog", "cat", "cat")] * (N // 6),
        "group": [f"g{row // 2}" for row in range(N)],
        "z": _rng.normal(size=N) + np.tile([0.0, 0.3, 0.6], N // 3),
        "w": _rng.uniform(size=N),
        "y": _rng.normal(size=N),
        "split": ["train"] * 30 + ["test"] * 18,
    }
)
LABEL = (FRAME["label"] == "dog").to_numpy().astype(np.int64)
X = FRAME[["z", "w"]].to_numpy(np.float64)
Y = FRAME["y"].to_numpy()
ONES = np.full(N, 1.0 / N)
OMEGA = np.exp(np.outer(X[:, 0], [0.0, 0.3, 0.6]))
SOURCE = FRAME["source"].to_numpy()
SQUARES = _rng.integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
TOML = """folder = "."
[sources]
manifest = "t.csv"
images = false
split = "split"
[target]
margins.label = { cat = 0.5, dog = 0.5 }
[bias]
family = "strata"
by = ["label"]
"""


class World:
    """What the calls need, made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        FRAME.to_csv(folder / "t.csv", index=False)
        FRAME.to_parquet(folder / "t.parquet", index=False)
        (folder / "run.toml").write_text(TOML)
        predictions = FRAME.assign(prediction="cat")[["id", "prediction"]]
        predictions.to_csv(folder / "p.csv", index=False)
        new = FRAME.assign(id="new " + FRAME["id"], group="new " + FRAME["group"])
        new.to_csv(folder / "new.csv", index=False)

    pool = functools.cached_property(
        lambda self: Pool.from_frame(FRAME.drop(columns="split"), id="id", group="group")
    )
    split_pool = functools.cached_property(
        lambda self: Pool.from_frame(FRAME, id="id", group="group", split="split")
    )
    target = functools.cached_property(
        lambda self: Target.margins({"label": {"cat": 0.5, "dog": 0.5}})
    )
    strata = functools.cached_property(lambda self: bias.Strata(by="label"))
    weights = functools.cached_property(
        lambda self: unskew.debias(self.pool, self.strata, self.target)
    )
    tilt = functools.cached_property(lambda self: bias.Tilt(["z"], reference="a"))
    tilted = functools.cached_property(
        lambda self: unskew.debias(self.pool, bias.Tilt(["z"]), Target.source("a"))
    )
    by_target = functools.cached_property(
        lambda self: unskew.debias_targets(
            self.pool, self.strata, {"one": self.target, "two": Target.uniform("label")}
        )
    )
    splits = functools.cached_property(
        lambda self: unskew.weigh_splits(self.split_pool, self.strata, self.target)
    )
    fitted = functools.cached_property(lambda self: self.strata.fit(self.pool, self.target))
    inputs = functools.cached_property(lambda self: self.run.inputs)
    table = functools.cached_property(
        lambda self: unskew.read_weights_table(self.out / "weights.parquet")
    )
    predictions = functools.cached_property(
        lambda self: FRAME.assign(prediction="cat")[["id", "prediction"]]
    )
    pairs = functools.cached_property(
        lambda self: pd.DataFrame(
            {
                "id_a": FRAME["id"][:40],
                "id_b": list(FRAME["id"][8:]),
                "same": [True, False] * 20,
                "score": Y[:40],
            }
        )
    )
    probe = functools.cached_property(lambda self: learn.fit_probe(X, LABEL, ONES, 2))
    pixels = functools.cached_property(
        lambda self: Pool.from_arrays(["a", "b", "a"], images=SQUARES)
    )

    @functools.cached_property
    def run(self) -> unskew.Run:
        return unskew.run(self.folder / "run.toml", self.folder / "out")

    @functools.cached_property
    def out(self) -> Path:
        assert self.run
        return self.folder / "out"


def public_calls(world: World) -> dict[str, Call]:
    """Return {name: (function, arguments)}; arguments that are left out have defaults."""
    w = world
    model = {"pool": w.pool, "bias": w.strata, "target": w.target}
    quick = {"features": ["z", "w"], "learner": None, "folds": 2}
    data = learn.TrainingData(
        X.astype(np.float32), LABEL, ("cat", "dog"), ONES, FRAME["id"].to_numpy()
    )
    baseline = learn.make_baseline("naive", w.pool)
    sampler = WeightedSampler(ONES)
    estimate = w.weights.mean(Y)
    calls: dict[str, Call] = {
        "advise_collection": (unskew.advise_collection, {**model, "ess": 30.0}),
        "bound_over_margins": (unskew.bound_over_margins, {**model, "values": Y, "within": 0.1}),
        "bound_weights_mean": (unskew.bound_weights_mean, {"weights": w.weights, "values": Y}),
        "calibrate_weights": (
            unskew.calibrate_weights,
            {"weights": w.weights, "means": {"z": (X[:, 0], 0.3)}},
        ),
        "check_fit": (unskew.check_fit, {**model, "weights": w.weights, "replicates": 19}),
        "check_overlap": (unskew.check_overlap, {"omega": OMEGA, "source": SOURCE}),
        "check_splits": (unskew.check_splits, {"pool": w.split_pool}),
        "choose_bias": (
            unskew.choose_bias,
            {"pool": w.pool, "candidates": [w.strata], "target": w.target, "folds": 2},
        ),
        "debias": (unskew.debias, model),
        "debias_targets": (
            unskew.debias_targets,
            {"pool": w.pool, "bias": w.strata, "targets": {"one": w.target}},
        ),
        "debias_weights": (unskew.debias_weights, {"omega": OMEGA, "source": SOURCE}),
        "describe_pool": (unskew.describe_pool, {"pool": w.pool}),
        "diagnose": (unskew.diagnose, {"pool": w.pool, "weights": w.weights, "replicates": 5}),
        "evaluate_pairs": (
            unskew.evaluate_pairs,
            {"weights_table": w.table, "pairs": w.pairs, "split": "all"},
        ),
        "evaluate_predictions": (
            unskew.evaluate_predictions,
            {"weights_table": w.table, "predictions": w.predictions, "replicates": 5},
        ),
        "evaluate_run": (
            unskew.evaluate_run,
            {"folder": w.out, "predictions": w.folder / "p.csv", "replicates": 5},
        ),
        "evaluate_run_targets": (
            unskew.evaluate_run_targets,
            {"folder": w.out, "predictions": w.folder / "p.csv", "replicates": 5},
        ),
        "export_run": (
            unskew.export_run,
            {"folder": w.out, "to": "csv", "path": w.folder / "e.csv", "overwrite": True},
        ),
        "export_weights": (
            unskew.export_weights,
            {"table": w.table, "to": "csv", "path": w.folder / "f.csv", "overwrite": True},
        ),
        "forecast_gain": (unskew.forecast_gain, {**model, **quick}),
        "label_indicators": (unskew.label_indicators, {"pool": w.pool}),
        "monitor_run": (unskew.monitor_run, {"folder": w.out, "new": w.folder / "new.csv"}),
        "predict_outcome": (
            unskew.predict_outcome,
            {"weights": w.tilted, "values": Y, "features": ["z"], "folds": 2},
        ),
        "read_config": (unskew.read_config, {"path": w.folder / "run.toml"}),
        "read_weights_table": (unskew.read_weights_table, {"path": w.out / "weights.parquet"}),
        "rehearse": (unskew.rehearse, {**model, **quick}),
        "represent_images": (
            unskew.represent_images,
            {"pool": w.pixels, "features": "brightness", "progress": False},
        ),
        "run": (unskew.run, {"config": w.folder / "run.toml"}),
        "shrink_weights": (unskew.shrink_weights, {"weights": w.weights, "means": {"y": Y}}),
        "solve_normalizers": (unskew.solve_normalizers, {"omega": OMEGA, "source": SOURCE}),
        "split_pool": (unskew.split_pool, {"pool": w.pool}),
        "trim_weights": (unskew.trim_weights, {"weights": w.weights, "at": 2.0}),
        "verify_run": (unskew.verify_run, {"folder": w.out}),
        "weigh_splits": (unskew.weigh_splits, {**model, "pool": w.split_pool}),
        "write_report": (
            unskew.write_report,
            {"pool": w.pool, "weights": w.weights, "path": w.folder / "page.html", "replicates": 0},
        ),
        "write_weights_table": (
            unskew.write_weights_table,
            {"pool": w.pool, "frame": w.weights.to_frame(), "path": w.folder / "w.parquet"},
        ),
        # Records and their methods.
        "Pool": (Pool, {"frame": w.pool.frame}),
        "Pool.from_arrays": (Pool.from_arrays, {"source": SOURCE, "label": LABEL}),
        "Pool.from_cifar": (Pool.from_cifar, {"place": w.folder / "none"}),
        "Pool.from_coco": (Pool.from_coco, {"file": w.folder / "none.json"}),
        "Pool.from_dataset": (Pool.from_dataset, {"datasets": {"a": [(SQUARES[0], 1)]}}),
        "Pool.from_folders": (Pool.from_folders, {"folders": {"a": w.folder / "none"}}),
        "Pool.from_frame": (Pool.from_frame, {"frame": FRAME, "id": "id"}),
        "Pool.from_parquet": (Pool.from_parquet, {"paths": world.folder / "t.parquet"}),
        "Pool.from_huggingface": (Pool.from_huggingface, {"dataset": w.folder / "none"}),
        "Pool.from_manifest": (
            Pool.from_manifest,
            {
                **{"manifest": w.folder / "t.csv", "images": False, "delimiter": ","},
                **{"source": "source", "label": "label", "id": "id", "group": "group"},
                **{"split": "split", "root": None, "allow_outside": False, "path": None},
                **{"label_separator": None, "design_weight": None},
            },
        ),
        "Pool.take": (w.pool.take, {"rows": [0, 1]}),
        "Pool.with_columns": (w.pool.with_columns, {"columns": {"new": Y}}),
        "Target.compare": (Target.source("a").compare, {"pool": w.pool}),
        "Target.from_dict": (Target.from_dict, {"settings": w.target.to_dict()}),
        "Target.from_predictions": (
            Target.from_predictions,
            {
                "target_scores": np.column_stack([ONES * 10, 1 - ONES * 10]),
                "validation_scores": np.column_stack([1 - LABEL * 0.6 - 0.2, LABEL * 0.6 + 0.2]),
                "validation_labels": LABEL,
                "classes": [0, 1],
            },
        ),
        "Target.margins": (
            Target.margins,
            {"margins": {"label": {"cat": 0.5, "dog": 0.5}}, "unit": "image", "bins": {}},
        ),
        "Target.resolve": (w.target.resolve, {"pool": w.pool}),
        "Target.sample": (Target.sample, {"sample": w.pool}),
        "Target.source": (Target.source, {"name": "a"}),
        "Target.stratify": (w.target.stratify, {"pool": w.pool}),
        "Target.table": (
            Target.table,
            {"table": pd.DataFrame({"label": ["cat", "dog"], "mass": [0.5, 0.5]})},
        ),
        "Target.uniform": (Target.uniform, {"by": "label"}),
        "Weights.align": (w.weights.align, {"ids": FRAME["id"].tolist()}),
        "Weights.bootstrap": (w.weights.bootstrap, {"replicates": 3}),
        "Weights.mean": (w.weights.mean, {"values": Y}),
        "Weights.refit": (w.weights.refit, {"pool": w.pool}),
        "Weights.report": (w.weights.report, {"privacy": "full"}),
        "Weights.sensitivity": (w.weights.sensitivity, {"values": Y, "threshold": None}),
        "Weights.to_parquet": (w.weights.to_parquet, {"path": w.folder / "v.parquet"}),
        "Weights.weigh": (w.weights.weigh, {"table": w.pool}),
        "WeightsByTarget.difference": (
            w.by_target.difference,
            {"first": "one", "second": "two", "values": Y},
        ),
        "WeightsByTarget.distance": (w.by_target.distance, {"first": "one", "second": "two"}),
        "WeightsByTarget.mean": (w.by_target.mean, {"values": Y}),
        "SplitWeights.part": (w.splits.part, {"name": "test"}),
        "Bootstrap.estimate": (w.weights.bootstrap(20, values=Y).estimate, {}),
        "Estimate.withhold": (estimate.withhold, {"names": ["a"]}),
        "Agreement.withhold": (_agreement().withhold, {"names": ["a"]}),
        "RobustEstimate.withhold": (_robust().withhold, {"names": ["a"]}),
        "RunConfig.for_target": (w.inputs.config.for_target, {}),
        "RunConfig.place": (w.inputs.config.place, {"path": "x"}),
        "Evaluation.breakdown": (
            unskew.evaluate_predictions(
                w.table, w.predictions, by=["label"], replicates=5
            ).breakdown,
            {"column": "label"},
        ),
        "LabelShift.describe": (
            unskew.LabelShift(
                *(("a", "b"), (0.5, 0.5), (0.1, 0.1), ((0.4, 0.6),) * 2, 0.95, "temperature"),
                *((0.0, 0.0), 1.0, 9, 9, (0.5, 0.5), 0.5),
            ).describe,
            {"by": "label"},
        ),
        # Bias models.
        "bias.Box": (bias.Box, {"features": ["z"]}),
        "bias.ClassShift": (bias.ClassShift, {"features": ["z"]}),
        "bias.ClassTilt": (bias.ClassTilt, {"features": ["z"]}),
        "bias.Known": (bias.Known, {"omega": OMEGA}),
        "bias.Product": (bias.Product, {}),
        "bias.Propensity": (bias.Propensity, {"features": ["z"]}),
        "bias.SoftBox": (bias.SoftBox, {"features": ["z"]}),
        "bias.Strata": (bias.Strata, {"by": ["label"]}),
        "bias.Subpopulation": (bias.Subpopulation, {"queries": {"a": "z > 0"}}),
        "bias.Tilt": (bias.Tilt, {"features": ["z"], "reference": "a"}),
        "bias.Bias.fit": (w.strata.fit, {"pool": w.pool, "target": w.target}),
        "bias.Bias.from_dict": (bias.Strata.from_dict, {"settings": w.strata.to_dict()}),
        "bias.FittedBias.omega": (w.fitted.omega, {"table": w.pool}),
        "bias.FittedBias.log_omega": (w.fitted.log_omega, {"table": FRAME}),
        "bias.read_feature_column": (bias.read_feature_column, {"frame": FRAME, "name": "z"}),
        # Learning.
        "learn.AdjustedClassifier": (
            learn.AdjustedClassifier,
            {
                **{"estimator": _logistic().fit(X, LABEL.astype(str)), "classes": ("0", "1")},
                "logit_offset": np.zeros(2),
            },
        ),
        **{
            f"learn.AdjustedClassifier.{name}": (getattr(_adjusted(), name), {"X": X})
            for name in ("decision_function", "predict", "predict_log_proba", "predict_proba")
        },
        "learn.AdjustedClassifier.fit": (_adjusted().fit, {"X": X, "y": LABEL}),
        "learn.AdjustedClassifier.score": (_adjusted().score, {"X": X, "y": LABEL.astype(str)}),
        "learn.Baseline.align": (baseline.align, {"ids": FRAME["id"].tolist()}),
        "learn.Baseline.fit": (baseline.fit, {"estimator": _logistic(), "X": X, "y": LABEL}),
        "learn.Probe.logits": (w.probe.logits, {"X_nd": X}),
        "learn.Probe.predict": (w.probe.predict, {"X_nd": X}),
        "learn.LabelProbes.scores": (_label_probes().scores, {"X_nd": X}),
        "learn.LabelProbes.predict_table": (
            _label_probes().predict_table,
            {"ids": FRAME["id"], "X_nd": X},
        ),
        "learn.Recipe": (Recipe, {}),
        "learn.Recipe.class_weight": (
            Recipe("loss", np.zeros(2), np.ones(2)).class_weight,
            {"label_n": LABEL},
        ),
        "learn.TrainSettings": (TrainSettings, {}),
        "learn.TrainingData": (
            learn.TrainingData,
            {
                **{"X": X.astype(np.float32), "label": LABEL, "classes": ("cat", "dog")},
                **{"weight": ONES, "id": FRAME["id"].to_numpy()},
            },
        ),
        "learn.TrainingData.take": (data.take, {"rows": np.arange(3)}),
        "learn.WayChoice.from_dict": (
            learn.WayChoice.from_dict,
            {"values": learn.WayChoice("weights", 0.1, "why").to_dict()},
        ),
        "learn.WeightedDataset": (
            WeightedDataset,
            {"dataset": range(N), "weights": ONES},
        ),
        "learn.WeightedDataset.draw_epoch": (
            WeightedDataset(range(N), ONES).draw_epoch,
            {"epoch": 0},
        ),
        "learn.WeightedDataset.set_epoch": (
            WeightedDataset(range(N), ONES).set_epoch,
            {"epoch": 0},
        ),
        "learn.WeightedSampler": (WeightedSampler, {"weights": ONES}),
        "learn.WeightedSampler.draw_epoch": (sampler.draw_epoch, {"epoch": 0}),
        "learn.WeightedSampler.load_state_dict": (
            WeightedSampler(ONES).load_state_dict,
            {"state": sampler.state_dict()},
        ),
        "learn.WeightedSampler.set_epoch": (WeightedSampler(ONES).set_epoch, {"epoch": 0}),
        "learn.WeightedSampler.state_dict": (sampler.state_dict, {}),
        "learn.WeightedLoss": (learn.WeightedLoss, {"loss": _torch_loss(), "weights": ONES}),
        "learn.fit_probe": (
            learn.fit_probe,
            {"X_nd": X, "label_n": LABEL, "weight_n": ONES, "n_classes": 2},
        ),
        "learn.load_trained": (learn.load_trained, {"folder": w.folder / "none"}),
        "learn.make_baseline": (
            learn.make_baseline,
            {"name": "naive", "pool": w.pool, "target": w.target},
        ),
        "learn.make_baselines": (
            learn.make_baselines,
            {"pool": w.pool, "target": w.target, "names": ["naive"]},
        ),
        "learn.scale_features": (learn.scale_features, {"X_nd": X}),
        "learn.settings_of": (learn.settings_of, {"preset": "fast", "epochs": 3}),
        "learn.train_model": (
            learn.train_model,
            {
                **{"data": data, "settings": learn.settings_of("probe", ridge=0.1, way="weights")},
                **{"folder": w.folder / "model", "force": True, "logs": False, "progress": False},
            },
        ),
        "learn.tune_label_probes": (
            learn.tune_label_probes,
            {
                **{"X_nd": X, "present_nm": np.column_stack([LABEL, 1 - LABEL])},
                **{"weight_n": ONES, "labels": ["dog", "cat"], "taus": [1.0], "ridges": [0.1]},
            },
        ),
        "learn.tune_probe": (
            learn.tune_probe,
            {
                **{"X_nd": X, "label_n": LABEL, "weight_n": ONES, "n_classes": 2},
                **{"taus": [1.0], "ridges": [0.1]},
            },
        ),
        "learn.turn_dial": (
            learn.turn_dial,
            {"weight_n": ONES, "label_n": LABEL, "n_classes": 2, "tau": 0.5},
        ),
        "learn.update_batch_norm": (
            learn.update_batch_norm,
            {"model": _torch_model(), "batches": []},
        ),
        # Images.
        **{
            f"represent.{name}": (getattr(represent, name), {"images": SQUARES})
            for name in ("border_hsv", "brightness", "colourfulness", "contrast", "mean_hsv")
        },
        "represent.noise": (represent.noise, {"images": SQUARES}),
        "represent.sharpness": (represent.sharpness, {"images": SQUARES}),
        "represent.decode_image": (represent.decode_image, {"raw": SQUARES[0]}),
        "represent.square_images": (
            represent.square_images,
            {"pool": w.pixels, "size": 4, "progress": False},
        ),
        # Scenarios.
        "scenarios.acquisition": (scenarios.acquisition, {"features": X, "decay": 0.5, "rng": 0}),
        "scenarios.censored": (
            scenarios.censored,
            {"label": LABEL, "hidden": [1], "sizes": [9, 9], "rng": 0},
        ),
        "scenarios.class_mixtures": (
            scenarios.class_mixtures,
            {"probability": np.full((2, 2), 0.5), "sizes": 9, "rng": 0},
        ),
        "scenarios.geometric_sizes": (
            scenarios.geometric_sizes,
            {"n": 90, "n_sources": 3, "ratio": 2.0},
        ),
        "scenarios.nested_sets": (scenarios.nested_sets, {"n": 30, "rng": 0}),
        "scenarios.nested_sets_solution": (
            scenarios.nested_sets_solution,
            {"stratum": [0, 0, 1, 0], "source": [0, 1, 1, 0]},
        ),
        "scenarios.overlapping_classes": (
            scenarios.overlapping_classes,
            {"overlap": 0.5, "sizes": 20, "rng": 0},
        ),
        "scenarios.tilts": (scenarios.tilts, {"n": 30, "rng": 0}),
        "scenarios.Scenario": (
            scenarios.Scenario,
            {
                **{"description": "x", "log_omega": np.log(OMEGA), "source": LABEL},
                **{"log_normalizer": np.zeros(3), "target_mean": {}},
            },
        ),
    }
    for name in ("DebiasedClassifier", "DebiasedRegressor"):
        kind = functools.partial(getattr(unskew, name), bias=w.tilt, way="weights")
        fit = {**FIT, "y": LABEL if name == "DebiasedClassifier" else Y}
        calls[name] = (functools.partial(_fit, getattr(unskew, name)), {"bias": w.tilt})
        calls[f"{name}.fit"] = (kind().fit, fit)
        calls[f"{name}.target_score"] = (kind().target_score, {**fit, "cv": 2})
    return calls


FIT = {"X": X, "source": SOURCE, "attributes": FRAME[["z"]]}


def _fit(kind: Any, **settings: Any) -> Any:
    """Estimators check their settings when they fit."""
    y = LABEL if kind is unskew.DebiasedClassifier else Y
    return kind(**{"way": "weights", **settings}).fit(**FIT, y=y)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature; of an estimator that of its constructor."""
    is_estimator = isinstance(function, functools.partial)
    return inspect.signature(function.args[0] if is_estimator else function)


def parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that can be passed by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    given = signature_of(function).parameters.values()
    return [parameter.name for parameter in given if parameter.kind in kinds]


# What unskew makes and hands out: their fields hold results, not options.
RECORDS = (
    *("Advice", "Agreement", "BiasChoice", "Bootstrap", "Calibration", "Check", "CollectOption"),
    *("Diagnosis", "Diagnostics", "Estimate", "Evaluation", "EvaluationsByTarget", "Export"),
    *("FeatureCheck", "FitCheck", "Forecast", "Goal", "Inputs", "JointCheck", "LabelShift"),
    *("MeanOverMargins", "MeansByTarget", "MissingLink", "Monitoring", "OutcomeMean"),
    *("OutcomePredictions", "OutcomeRange", "Overlap", "PairCell", "PairEvaluation", "PairFigure"),
    *("PairGap", "PoolDescription", "Rehearsal", "RobustEstimate", "Run", "RunConfig"),
    *("Sensitivity", "Shrinkage", "Solution", "SourceDiagnosis", "SourceEstimate", "SplitPart"),
    *("SplitWeights", "Status", "Step", "Summary", "Target", "TargetReference", "TargetStrata"),
    *("Trimming", "Weights", "WeightsByTarget", "WithoutSource", "bias.BiasData"),
    *("bias.Description", "learn.Baseline", "learn.Baselines", "learn.LabelProbes", "learn.Probe"),
    *("learn.TrainedModel", "learn.WayChoice", "scenarios.NestedSolution"),
)
# What a user's own class implements and unskew calls, or scikit-learn, pydantic and torch do.
CALLED_BY_US = (
    *("Images", "bias.Bias", "bias.Factor", "represent.Representation"),
    *("Images.place", "Images.read", "Images.take"),
    *("bias.BiasData.find_source", "bias.BiasData.kept", "learn.WeightedLoss.forward"),
    *(f"bias.Factor.{name}" for name in ("jacobian", "linear_derivative", "log_omega", "rival")),
    *("bias.Factor.unpenalised", "learn.TrainedModel.scores"),
    *(f"represent.Representation.{name}" for name in ("compute", "finish", "placed", "prepare")),
    *(
        f"Debiased{kind}.{name}"
        for kind in ("Classifier", "Regressor")
        for name in ("get_params", "set_params")
    ),
)
# Looked up by a name that is a key of the record.
LOOKUPS = (
    *("Advice.option", "EvaluationsByTarget.worst", "Forecast.arm", "PairEvaluation.breakdown"),
    "Rehearsal.source",
)


def public_names() -> Iterator[str]:
    """Yield every public function, constructor, and method that takes arguments."""
    for module in (unskew, bias, learn, represent, scenarios):
        prefix = module.__name__.partition(".")[2]
        for name in module.__all__:
            thing = getattr(module, name)
            dotted = f"{prefix}.{name}" if prefix else name
            if isinstance(thing, types.ModuleType) or not callable(thing):
                continue
            if inspect.isclass(thing) and issubclass(thing, BaseException):
                continue
            yield dotted
            if inspect.isclass(thing):
                yield from (f"{dotted}.{method}" for method in _methods(thing))


def _methods(kind: type) -> Iterator[str]:
    """Yield the methods with arguments that a class of ours defines itself, not its base."""
    inherited = {"estimate", "fit", "from_dict"} if issubclass(kind, bias.Bias) else set()
    for name in sorted({name for base in kind.__mro__ for name in vars(base)} - inherited):
        member = getattr(inspect.getattr_static(kind, name), "__func__", None)
        member = member or inspect.getattr_static(kind, name)
        if name.startswith("_") or not isinstance(member, types.FunctionType):
            continue
        if (
            member.__module__.startswith("unskew.")
            and len(inspect.signature(member).parameters) > 1
        ):
            yield name


def _agreement() -> unskew.Agreement:
    return unskew.Agreement({}, 0.5, 0.0, "odds", 0.1, False, (0.0, 1.0), None, 0.5)


def _robust() -> unskew.RobustEstimate:
    return unskew.RobustEstimate(0.0, 1.0, (-2.0, 2.0))


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def _adjusted() -> learn.AdjustedClassifier:
    fitted = _logistic().fit(X, LABEL.astype(str))
    return learn.AdjustedClassifier(fitted, ("0", "1"), np.zeros(2))


@functools.cache
def _label_probes() -> learn.LabelProbes:
    return learn.tune_label_probes(
        X, np.column_stack([LABEL, 1 - LABEL]), ONES, ["a", "b"], taus=[1.0], ridges=[0.1]
    )


def _torch_loss() -> Any:
    import torch

    return torch.nn.CrossEntropyLoss(reduction="none")


def _torch_model() -> Any:
    import torch

    return torch.nn.Linear(2, 2)
