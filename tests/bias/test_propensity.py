"""`Propensity`: cross-fitted really, and right where the classifier is."""

import numpy as np
import pytest

from raising import refused
from two_sources import two_sources
from unskew import ConfigError, DataError, Pool, Target, choose_bias, debias
from unskew.bias import Box, Known, Product, Propensity, SoftBox, Strata, Tilt
from unskew.errors import UnskewWarning

CLASSIFIERS = ("logistic", "boosting", "sklearn.naive_bayes:GaussianNB", "forest")


def make(classifier):
    from sklearn.ensemble import RandomForestClassifier

    return (
        RandomForestClassifier(30, min_samples_leaf=20, random_state=0)
        if classifier == "forest"
        else classifier
    )


def shifted_pool(seed=0, n=1200, **columns):
    rng = np.random.default_rng(seed)
    source = np.where(rng.random(n) < 0.5, "plain", "bright")
    x = rng.normal(size=n) + 0.7 * (source == "bright")
    return Pool.from_arrays(
        source, np.where(x > 0.3, "cat", "dog"), x=x, y=rng.normal(size=n), **columns
    )


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_weights_move_the_mean_to_that_of_the_reference(classifier):
    """E x = 0 in the reference, 0.35 in the pool; a mean over 1,200 images has a standard error
    near 0.05.
    """
    pool = shifted_pool()
    weights = debias(pool, Propensity(["x"], classifier=make(classifier), reference="plain"))
    assert abs(weights.weight @ pool.frame["x"]) < 0.15
    fitted = weights.estimation.fitted
    np.testing.assert_array_equal(fitted.omega(pool)[:, pool.names.index("plain")], 1.0)
    described = weights.describe()
    assert "cross-fitted classifier" in described.estimated[0]
    assert "plain" in described.anchor


def test_logistic_is_nearly_a_tilt_and_so_are_its_errors():
    pool = shifted_pool()
    ours, tilt = (debias(pool, model(["x"], reference="plain")) for model in (Propensity, Tilt))
    np.testing.assert_allclose(ours.weight, tilt.weight, rtol=0.2)
    y = pool.frame["x"]
    assert ours.mean(y).stderr == pytest.approx(tilt.mean(y).stderr, rel=0.1)


class Recorder:
    """A classifier that knows which rows it saw: the share of sources there, and chance 0.9 for
    rows that it saw.
    """

    def __init__(self):
        self.seen = set()

    def get_params(self, deep=True):
        return {}

    def fit(self, x, y):
        self.seen, self.classes_ = set(x[:, 0].tolist()), np.unique(y)
        return self

    def predict_proba(self, x):
        first = np.where([value in self.seen for value in x[:, 0].tolist()], 0.9, 0.5)
        return np.column_stack([first, 1 - first])


def test_values_are_out_of_fold():
    pool = shifted_pool(1, 200)
    fitted = Propensity(["x"], classifier=Recorder(), reference="plain").fit(pool)
    np.testing.assert_allclose(np.ptp(fitted.profile.log_omega, axis=0), 0.0, atol=1e-9)
    other = fitted.log_omega(pool)[:, pool.names.index("bright")]
    assert np.ptp(other) == pytest.approx(0.0, abs=1e-6)
    assert abs(other[0] - fitted.profile.log_omega[0, pool.names.index("bright")]) > 0.5


@pytest.mark.slow
def test_strata_times_propensity_has_the_margin_and_the_bootstrap_gives_errors():
    pool = shifted_pool(2, 400)
    target = Target.margins({"label": {"cat": 0.4, "dog": 0.6}})
    for classifier in ("logistic", "sklearn.naive_bayes:GaussianNB"):
        weights = debias(
            pool,
            Product(Strata("label"), Propensity(["y"], classifier=classifier, reference="plain")),
            target,
        )
        assert weights.weight[(pool.frame["label"] == "cat").to_numpy()].sum() == pytest.approx(
            0.4, rel=1e-9
        )
    alone = debias(
        pool,
        Propensity(["x"], classifier="sklearn.naive_bayes:GaussianNB", reference="plain", folds=2),
    )
    tilt = debias(pool, Tilt(["x"], reference="plain")).mean(pool.frame["x"])
    assert alone.mean(pool.frame["x"]).stderr == pytest.approx(tilt.stderr, rel=0.5)


@pytest.mark.parametrize("classifier", ["boosting", "sklearn.naive_bayes:GaussianNB"])
def test_a_classifier_that_saw_strata_gives_omega_of_any_table(classifier):
    pool = shifted_pool(4, 600)
    target = Target.margins({"label": {"cat": 0.4, "dog": 0.6}})
    model = Product(
        Strata("label"), Propensity(["y"], classifier=classifier, reference="plain", folds=2)
    )
    weights = debias(pool, model, target)
    fitted = weights.estimation.fitted
    omega = fitted.omega(pool)
    np.testing.assert_allclose(fitted.omega(pool.frame.iloc[::-7]), omega[::-7], rtol=1e-12)
    assert fitted.omega(pool.frame.head(0)).shape == (0, 2)
    # In-fold and out-of-fold values differ, and by more the more freely the classifier fits: y says
    # nothing of the source here.
    assert np.median(np.abs(np.log(weights.weigh(pool) / weights.sample_weight))) < 0.3
    with refused(DataError, levels=["label = fox"]):
        fitted.omega(pool.frame.assign(label="fox"))
    table = choose_bias(pool, [model, Strata("label")], target, check=False, folds=2)
    assert "cannot be fitted" not in str(table)


def test_impossible_classifiers_are_refused():
    from sklearn.linear_model import RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier

    pool = shifted_pool(3, 100)
    for settings, value, message in (
        ({"classifier": "logstic"}, "logstic", "Did you mean 'logistic'"),
        (
            {"classifier": RidgeClassifier},
            "RidgeClassifier",
            r"classifier=RidgeClassifier\(…\), or 'sklearn.*:RidgeClassifier'",
        ),
        ({"classifier": 3}, "3", "fit"),
        ({"folds": 1}, 1, "2"),
        ({"floor": 0.0}, 0.0, "above 0"),
    ):
        with refused(ConfigError, option=next(iter(settings)), value=value) as caught:
            Propensity(["x"], **settings)
        caught.match(message)
    with refused(ConfigError, option="classifier", value="RidgeClassifier"):
        Propensity(["x"], classifier=RidgeClassifier(), reference="plain").fit(pool)
    with refused(ConfigError, option="classifier", value="Propensity"):
        Product(
            Propensity(["x"], classifier="boosting", reference="plain"),
            Tilt(["y"], reference="plain"),
        ).fit(pool)
    known = Known({"plain": 1.0, "bright": lambda frame: np.exp(frame["y"])})
    neighbours = Propensity(["x"], classifier=KNeighborsClassifier(), reference="plain")
    with refused(ConfigError, option="classifier", value="KNeighborsClassifier"):
        Product(known, neighbours).fit(pool)
    lone = pool.frame.assign(source=["lone", *pool.frame["source"].tolist()[1:]])
    with refused(DataError, source="lone", count=1, limit=2):
        Propensity(["x"], reference="plain").fit(Pool(lone))


def test_one_source_that_is_its_own_reference_needs_no_classifier():
    pool = Pool.from_frame(two_sources().query("source == 'p'"))
    weights = debias(pool, Propensity(["x"], "boosting"), Target.source("p"), check_sample=False)
    np.testing.assert_allclose(weights.sample_weight, 1.0)


ROWS = np.random.default_rng(8)
SITE = np.repeat(["s", "q", "r"], [90, 60, 50])
SHADE = ROWS.normal(size=200) + 0.5 * (SITE == "s")
# Of two levels: many images are alike in all that a model reads.
KIND = np.where(ROWS.random(200) < np.where(SITE == "r", 0.7, 0.4), "u", "v")
SPAN = np.clip(SHADE + ROWS.normal(size=200), -2, 2)
FAMILIES = {
    "logistic": Propensity(["shade", "kind"]),
    "levels": Propensity(["kind"]),
    "boosting": Propensity(["shade", "kind"], classifier="boosting", folds=2),
    "product": Product(Propensity(["kind"]), Tilt(["span"])),
    "tilt": Tilt(["shade", "kind"]),
    "strata": Strata("kind"),
    "strata × propensity": Product(Strata("kind"), Propensity(["shade"])),
    "box": Box(["shade"]),
    "soft box": SoftBox(["span"]),
}


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_the_rows_has_no_say(family, grouped):
    """Rows of pool and sample in another order, with new ids: the weights go with the images."""

    def weigh(at, sample_at):
        group = (np.arange(200) // 4)[at] if grouped else None
        pool = Pool.from_arrays(
            SITE[at], group=group, shade=SHADE[at], kind=KIND[at], span=SPAN[at]
        )
        others = {"shade": np.sort(SHADE)[::4][sample_at], "kind": KIND[::4][sample_at]}
        sample = Pool.from_arrays(["t"] * 50, span=SPAN[::4][sample_at], **others)
        return debias(pool, FAMILIES[family], Target.sample(sample), check_sample=False).weight

    rng = np.random.default_rng(1)
    order, weight = rng.permutation(200), weigh(np.arange(200), np.arange(50))
    np.testing.assert_allclose(weigh(order, rng.permutation(50)), weight[order], rtol=1e-12)


def test_intervals_count_the_penalty_of_the_logistic_regression():
    """A rare level: the penalty moves its odds far, and the mean of Propensity with it."""
    rng = np.random.default_rng(3)
    kind = np.array(list("uvw"))
    code = rng.choice(3, 240, p=[0.75, 0.2, 0.05])
    pool = Pool.from_arrays(np.repeat(["p", "q"], 120), kind=kind[code])
    target = Target.sample(Pool.from_arrays(["t"] * 150, kind=kind[np.arange(150) % 3]))
    value = code + rng.normal(size=240)
    plain = debias(pool, Tilt(["kind"]), target, check_sample=False).mean(value)
    with pytest.warns(UnskewWarning, match="ridge"):
        found = debias(pool, Propensity(["kind"]), target, check_sample=False).mean(value)
    assert found.value < plain.value - plain.stderr
    # Folds apart, the fit without the penalty is the tilt.
    assert found.interval[1] == pytest.approx(plain.interval[1], rel=0.05)
    assert found.interval[0] < found.value
