"""The scikit-learn door: what reaches the inner estimator, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.metrics
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import unskew
from raising import refused
from unskew import DebiasedClassifier, DebiasedRegressor
from unskew.errors import ConfigError
from unskew.learn.sklearn_routing import find_weight_path


class Recorder(ClassifierMixin, BaseEstimator):
    """Learns nothing and keeps what it was given."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, hint: Any = None) -> Recorder:
        self.classes_ = np.unique(y)
        self.given_, self.hint_, self.columns_ = sample_weight, hint, getattr(X, "columns", None)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


class ProbableRecorder(Recorder):
    """With probabilities, which calibration asks for."""

    def predict_proba(self, X: Any) -> Any:
        return np.column_stack(
            [1 / (1 + np.exp(np.asarray(X)[:, 0])), 1 / (1 + np.exp(-np.asarray(X)[:, 0]))]
        )


class Wrapper(ClassifierMixin, BaseEstimator):
    """Somebody's own: takes weights, and keeps them to itself."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Wrapper:
        self.estimator_ = clone(self.estimator).fit(X, y)
        return self


@pytest.fixture
def labelled() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300)
    return y[:, None] * [1.0, -0.5, 0.0] + rng.standard_normal((300, 3)), y


# What the model learns from


def test_one_source_is_the_plain_estimator(labelled: Any) -> None:
    X, y = labelled
    model = DebiasedClassifier().fit(X, y, source=["only"] * 300)
    np.testing.assert_allclose(model.weights_.weight, 1 / 300, rtol=1e-14)
    np.testing.assert_allclose(
        model.estimator_.coef_, LogisticRegression().fit(X, y).coef_, rtol=1e-6
    )
    assert model.source_names_ == ("only",)
    assert model.calibration_ is None
    assert model.n_features_in_ == 3
    assert model.classes_.tolist() == [0, 1]


def test_design_weights_reach_one_source_as_they_are(labelled: Any) -> None:
    X, y = labelled
    design = np.random.default_rng(2).uniform(0.1, 4.0, 300)
    model = DebiasedClassifier(Recorder()).fit(X, y, sample_weight=design)
    np.testing.assert_allclose(model.estimator_.given_, design, rtol=1e-12)
    np.testing.assert_array_equal(model.estimator_.given_, model.sample_weight_)


# How X becomes a pool


def test_the_model_does_not_see_the_attributes(labelled: Any) -> None:
    X, y = labelled
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    model = DebiasedClassifier(Recorder(), moments={"age": 40.0}).fit(
        frame, y, attributes=pd.DataFrame({"age": np.linspace(20, 50, 300)})
    )
    assert list(model.estimator_.columns_) == ["u", "v", "w"]
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    age = np.average(np.linspace(20, 50, 300), weights=model.sample_weight_)
    assert age == pytest.approx(40.0)


# How the weights get there


@pytest.mark.parametrize(
    "inner",
    [
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3]}),
        CalibratedClassifierCV(KNeighborsClassifier()),
        VotingClassifier([("a", LogisticRegression()), ("b", KNeighborsClassifier())]),
        Pipeline([("scale", StandardScaler()), ("end", "passthrough")]),
    ],
)
def test_an_estimator_that_would_drop_the_weights_is_refused(labelled: Any, inner: Any) -> None:
    with refused(ConfigError, option="estimator") as caught:
        DebiasedClassifier(inner).fit(*labelled)
    assert caught.value.facts["value"] in ("KNeighborsClassifier", "end")


SCALED = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.mark.parametrize(
    ("inner", "lost"),
    [
        (
            CalibratedClassifierCV(SCALED),
            "CalibratedClassifierCV .* which Pipeline.fit does not have",
        ),
        (
            CalibratedClassifierCV(GridSearchCV(LogisticRegression(), {})),
            "CalibratedClassifierCV .* which GridSearchCV.fit does not have",
        ),
        (
            make_pipeline(PCA(2), CalibratedClassifierCV(SCALED)),
            "CalibratedClassifierCV .* which Pipeline",
        ),
        (
            GridSearchCV(CalibratedClassifierCV(SCALED), {}),
            "CalibratedClassifierCV .* which Pipeline",
        ),
        (
            FixedThresholdClassifier(CalibratedClassifierCV(SCALED)),
            "CalibratedClassifierCV .* which Pipeline",
        ),
        (
            BaggingClassifier(CalibratedClassifierCV(SCALED)),
            "CalibratedClassifierCV .* which Pipeline",
        ),
        (
            VotingClassifier([("a", LogisticRegression()), ("b", SCALED)]),
            "VotingClassifier .* which Pipeline",
        ),
        (
            VotingClassifier([("a", CalibratedClassifierCV(SCALED))]),
            "CalibratedClassifierCV .* which Pipeline",
        ),
        (AdaBoostClassifier(SCALED), "AdaBoostClassifier .* which Pipeline"),
        (Wrapper(SCALED), "Wrapper .* which Pipeline"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_weights_that_a_wrapper_would_drop_inside_are_refused_without_routing(
    labelled: Any, inner: Any, lost: str
) -> None:
    with pytest.raises(ConfigError, match=lost):
        DebiasedClassifier(inner).fit(*labelled)


def test_weights_reach_a_pipeline_in_a_wrapper_by_routing(labelled: Any) -> None:
    X, y = labelled
    design = np.random.default_rng(6).uniform(0.1, 4.0, 300)
    inside = make_pipeline(StandardScaler(), ProbableRecorder())
    with sklearn.config_context(enable_metadata_routing=True):
        model = DebiasedClassifier(CalibratedClassifierCV(inside, ensemble=False, cv=3)).fit(
            X, y, sample_weight=design
        )
        asked = make_pipeline(
            StandardScaler(), ProbableRecorder().set_fit_request(sample_weight=True)
        )
        again = DebiasedClassifier(CalibratedClassifierCV(asked, ensemble=False, cv=3)).fit(
            X, y, sample_weight=design
        )
    for each in (model, again):
        fitted = each.estimator_.calibrated_classifiers_[0].estimator
        np.testing.assert_allclose(fitted[-1].given_, design, rtol=1e-12)


def test_wrappers_that_hand_weights_on_are_not_refused(labelled: Any) -> None:
    X, y = labelled
    design = np.random.default_rng(6).uniform(0.1, 4.0, 300)
    model = DebiasedClassifier(
        CalibratedClassifierCV(ProbableRecorder(), ensemble=False, cv=3)
    ).fit(X, y, sample_weight=design)
    np.testing.assert_allclose(
        model.estimator_.calibrated_classifiers_[0].estimator.given_, design, rtol=1e-12
    )
    outside = make_pipeline(StandardScaler(), CalibratedClassifierCV(LogisticRegression()))
    for inner in (
        outside,
        BaggingClassifier(SCALED),
        AdaBoostClassifier(),
        VotingClassifier([("a", GridSearchCV(Recorder(), {}, cv=2))]),
    ):
        assert DebiasedClassifier(inner).fit(X, y, sample_weight=design).estimator_ is not None
    assert find_weight_path(CalibratedClassifierCV(FrozenEstimator(SCALED))).keywords == (
        "sample_weight",
    )


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize(
    ("inner", "reach"),
    [
        (Recorder(), lambda m: m),
        (make_pipeline(PCA(2), Recorder()), lambda m: m[-1]),
        (
            make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Recorder())),
            lambda m: m[-1][-1],
        ),
        (
            GridSearchCV(make_pipeline(StandardScaler(), Recorder()), {}, cv=2),
            lambda m: m.best_estimator_[-1],
        ),
        (VotingClassifier([("one", Recorder())]), lambda m: m.estimators_[0]),
    ],
)
def test_weights_reach_the_predictor(labelled: Any, inner: Any, reach: Any, routing: bool) -> None:
    X, y = labelled
    design = np.random.default_rng(6).uniform(0.1, 4.0, 300)
    with sklearn.config_context(enable_metadata_routing=routing):
        model = DebiasedClassifier(inner).fit(X, y, sample_weight=design)
    np.testing.assert_allclose(reach(model.estimator_).given_, design, rtol=1e-12)


def test_weights_reach_wrapped_regressors_and_bagged_classifiers(labelled: Any) -> None:
    X, y = labelled
    weight = np.random.default_rng(6).uniform(0.1, 4.0, 300)
    model = DebiasedRegressor(
        TransformedTargetRegressor(LinearRegression(), func=np.exp, inverse_func=np.log)
    ).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        model.estimator_.regressor_.coef_, LinearRegression().fit(X, np.exp(y), weight).coef_
    )
    assert find_weight_path(BaggingClassifier(KNeighborsClassifier())).keywords == (
        "sample_weight",
    )


@pytest.mark.parametrize("routing", [False, True])
def test_a_scaler_on_the_way_is_weighted_too(labelled: Any, routing: bool) -> None:
    X, y = labelled
    design = np.random.default_rng(7).uniform(0.1, 4.0, 300)
    with sklearn.config_context(enable_metadata_routing=routing):
        model = DebiasedClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(
            X, y, sample_weight=design
        )
    np.testing.assert_allclose(model.estimator_[0].mean_, np.average(X, axis=0, weights=design))
    np.testing.assert_allclose(
        model.estimator_[1].coef_,
        LogisticRegression().fit(model.estimator_[0].transform(X), y, design).coef_,
    )


def test_requests_are_heard(labelled: Any) -> None:
    X, y = labelled
    design = np.random.default_rng(7).uniform(0.1, 4.0, 300)
    with sklearn.config_context(enable_metadata_routing=True):
        plain = StandardScaler().set_fit_request(sample_weight=False)
        model = DebiasedClassifier(make_pipeline(plain, Recorder())).fit(X, y, sample_weight=design)
        np.testing.assert_allclose(model.estimator_[0].mean_, X.mean(axis=0))
        refusing = make_pipeline(StandardScaler(), Recorder().set_fit_request(sample_weight=False))
        with refused(ConfigError, option="estimator", value="Recorder"):
            DebiasedClassifier(refusing).fit(X, y)
        with pytest.raises(TypeError, match="hint"):
            DebiasedClassifier(LogisticRegression()).fit(X, y, hint="unknown")
        asking = Recorder().set_fit_request(hint=True)
        assert DebiasedClassifier(asking).fit(X, y, hint="known").estimator_.hint_ == "known"


def test_other_fit_parameters_reach_the_inner_estimator(labelled: Any) -> None:
    assert DebiasedClassifier(Recorder()).fit(*labelled, hint="x").estimator_.hint_ == "x"
    inside = make_pipeline(StandardScaler(), Recorder())
    assert DebiasedClassifier(inside).fit(*labelled, recorder__hint="x").estimator_[-1].hint_ == "x"
    with refused(ConfigError, option="recorder__sample_weight"):
        DebiasedClassifier(inside).fit(*labelled, recorder__sample_weight=np.ones(300))


# As one piece of scikit-learn among others


@pytest.mark.parametrize("routing", [False, True])
def test_last_step_of_a_pipeline_and_grid_search(labelled: Any, routing: bool) -> None:
    X, y = labelled
    source = np.repeat(["a", "b"], 150)
    with sklearn.config_context(enable_metadata_routing=routing):
        door = DebiasedClassifier(LogisticRegression(), moments={"label": 0.3})
        outer = make_pipeline(StandardScaler(), door)
        key = "source" if routing else "debiasedclassifier__source"
        assert outer.fit(X, y, **{key: source})[-1].source_names_ == ("a", "b")
        search = GridSearchCV(
            door, {"estimator__C": [0.01, 1.0], "moments": [{"label": 0.3}, {"label": 0.6}]}, cv=3
        ).fit(X, y, source=source)
        assert search.best_estimator_.source_names_ == ("a", "b")


def test_design_weights_are_routed_through_an_outer_pipeline(labelled: Any) -> None:
    X, y = labelled
    design = np.random.default_rng(8).uniform(0.1, 4.0, 300)
    with sklearn.config_context(enable_metadata_routing=True):
        door = DebiasedClassifier(make_pipeline(StandardScaler(), Recorder())).set_fit_request(
            sample_weight=True
        )
        outer = make_pipeline(PCA(2), door).fit(
            X, y, sample_weight=design, source=["a"] * 300, group=np.arange(300)
        )
    np.testing.assert_allclose(outer[-1].estimator_[-1].given_, design, rtol=1e-12)
    assert outer[-1].weights_.group is not None


def test_a_wrapper_that_hands_weights_on_only_by_routing(labelled: Any) -> None:
    inner = OneVsRestClassifier(LogisticRegression())
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        DebiasedClassifier(inner).fit(*labelled)
    with sklearn.config_context(enable_metadata_routing=True):
        model = DebiasedClassifier(inner).fit(*labelled, sample_weight=1.0 + labelled[1])
    exact = LogisticRegression().fit(*labelled, sample_weight=1.0 + labelled[1])
    np.testing.assert_allclose(model.estimator_.estimators_[0].coef_, exact.coef_, rtol=1e-6)


def test_a_door_can_be_shown() -> None:
    door = DebiasedClassifier(
        bias=unskew.bias.Strata("label"), target=unskew.Target.uniform("label")
    )
    assert "Strata" in repr(door)
    assert "Strata" in door._repr_html_()


def test_weights_survive_pickling(labelled: Any) -> None:
    X, y = labelled
    model = DebiasedClassifier(moments={"label": 0.4}).fit(X, y, group=np.arange(300) // 3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.weights_.mean(y) == model.weights_.mean(y)


def test_methods_are_those_of_the_inner_estimator(labelled: Any) -> None:
    model = DebiasedClassifier(Recorder()).fit(*labelled)
    assert not hasattr(model, "predict_proba")
    assert hasattr(DebiasedClassifier(), "predict_log_proba")
    assert not hasattr(clone(model), "estimator_")


def test_both_doors_have_tags_of_their_kind() -> None:
    assert sklearn.base.is_classifier(DebiasedClassifier())
    assert sklearn.base.is_regressor(DebiasedRegressor())


def test_an_estimator_of_the_other_kind_is_refused(labelled: Any) -> None:
    # The accuracy of a regressor is 0, exactly, and nothing would say why.
    with pytest.raises(ConfigError, match="Ridge is a regressor; wrap it in DebiasedRegressor"):
        DebiasedClassifier(Ridge()).fit(*labelled)
    with refused(ConfigError, option="estimator", value="Pipeline"):
        DebiasedRegressor(make_pipeline(StandardScaler(), LogisticRegression())).target_score(
            *labelled
        )
    with refused(ConfigError, option="moments", value=[0.4]):
        DebiasedClassifier(moments=[0.4]).fit(*labelled)  # type: ignore[arg-type]
    with refused(ConfigError, option="target"):
        DebiasedClassifier(target={"label": {0: 0.5, 1: 0.5}}).fit(*labelled)  # type: ignore[arg-type]


def test_scores_and_folds_are_checked_before_any_model_is_trained(labelled: Any) -> None:
    door = DebiasedClassifier(Recorder())
    for options, value in (
        ({"scoring": "accurcy"}, "accurcy"),
        ({"scoring": ["accuracy", "f1"]}, "['accuracy', 'f1']"),
        ({"scoring": sklearn.metrics.f1_score}, "f1_score"),
        ({"cv": 0}, 0),
        ({"cv": [(np.arange(150), np.arange(150, 300))]}, "a list"),
    ):
        with refused(ConfigError, option=next(iter(options)), value=value):
            door.target_score(*labelled, **options)
    with pytest.raises(ConfigError, match="Did you mean 'accuracy'"):
        door.target_score(*labelled, scoring="accurcy")
    with pytest.raises(ConfigError, match=r"scoring=make_scorer\(f1_score\)"):
        door.target_score(*labelled, scoring=sklearn.metrics.f1_score)


def test_classes_that_are_numbers_are_classes_for_the_bias_model() -> None:
    rng = np.random.default_rng(0)
    source = np.repeat(["a", "b"], 150)
    y = np.concatenate(
        [rng.choice(3, 150, p=[0.4, 0.2, 0.4]), rng.choice(3, 150, p=[0.1, 0.8, 0.1])]
    )
    X = rng.normal(size=(300, 1))
    door = DebiasedClassifier(bias=unskew.bias.Tilt(["label"], reference="a"))
    expected = door.fit(X, np.array(["cat", "dog", "emu"])[y], source=source).sample_weight_
    for same in (y, y.astype(float), y.astype("int8")):
        np.testing.assert_allclose(
            door.fit(X, same, source=source).sample_weight_, expected, rtol=1e-9
        )
    # A target's sample whose classes are numbers does not make them measurements again.
    drawn = rng.choice(3, 100)
    sampled = DebiasedClassifier(bias=unskew.bias.Tilt(["label"]))
    weights = []
    for labels, own in ((drawn, y), (drawn.astype(str), y.astype(str))):
        target = unskew.Target.sample(unskew.Pool.from_arrays(["t"] * 100, label=labels))
        weights.append(
            clone(sampled).set_params(target=target).fit(X, own, source=source).sample_weight_
        )
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-9)


# random_state and n_jobs, by scikit-learn's conventions


def _shifted(n: int = 120) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, n)
    return y[:, None] + rng.normal(size=(n, 2)), y, np.repeat(["a", "b"], n // 2)


@pytest.mark.parametrize("door", [DebiasedClassifier, DebiasedRegressor])
def test_random_state_and_n_jobs_are_parameters_that_clones_keep(door: Any) -> None:
    params = door().get_params()
    assert params["random_state"] == 0
    assert params["n_jobs"] is None
    assert "seed" not in params
    assert "jobs" not in params
    copied = clone(door(random_state=7, n_jobs=2))
    assert copied.get_params()["random_state"] == 7
    assert copied.get_params()["n_jobs"] == 2
    assert copied.set_params(random_state=None, n_jobs=-1).random_state is None
    assert copied.n_jobs == -1


def test_a_whole_random_state_repeats_the_folds_and_another_changes_them() -> None:
    X, y, source = _shifted()
    target = unskew.Target.uniform("label")

    def score(random_state: Any) -> float:
        model = DebiasedClassifier(target=target, random_state=random_state)
        return float(model.target_score(X, y, source).value)

    assert score(3) == score(np.int64(3))
    assert len({score(seed) for seed in range(3)}) > 1
    assert score(np.random.RandomState(3)) == score(np.random.RandomState(3))


def test_a_generator_goes_on_from_call_to_call() -> None:
    X, y, source = _shifted()
    target = unskew.Target.uniform("label")
    model = DebiasedClassifier(target=target, random_state=np.random.RandomState(0))
    assert len({model.target_score(X, y, source).value for _ in range(3)}) > 1
    assert DebiasedClassifier(target=target, random_state=None).fit(X, y, source=source)


@pytest.mark.parametrize("random_state", ["seven", -1, 1.5])
def test_an_unusable_random_state_is_refused(random_state: Any) -> None:
    X, y, source = _shifted()
    model = DebiasedClassifier(target=unskew.Target.uniform("label"), random_state=random_state)
    with refused(ConfigError, option="random_state", value=repr(random_state)):
        model.fit(X, y, source=source)


def test_scores_do_not_depend_on_the_number_of_jobs() -> None:
    X, y, source = _shifted()
    target = unskew.Target.uniform("label")
    # Threads, because processes take seconds to start.
    with joblib.parallel_config(backend="threading"):
        one, two = (
            DebiasedClassifier(target=target, n_jobs=n_jobs).target_score(X, y, source)
            for n_jobs in (1, 2)
        )
    assert one == two


def test_n_jobs_trains_that_many_models_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, source = _shifted()
    asked = []
    start = joblib.Parallel.__init__

    def noted(self: Any, n_jobs: Any = None, **options: Any) -> None:
        asked.append(n_jobs)
        start(self, n_jobs=1, **options)

    monkeypatch.setattr(joblib.Parallel, "__init__", noted)
    model = DebiasedClassifier(target=unskew.Target.uniform("label"), n_jobs=3)
    model.target_score(X, y, source)
    assert asked == [3]
