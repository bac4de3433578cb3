"""`Strata` against post-stratification: closed form, solver, coverage, errors."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from simulation_measures import measure_coverage
from two_sources import two_sources
from unskew import ConfigError, CoverageError, DataError, Pool, Target, debias, debias_weights
from unskew.bias import Known, Product, Strata, Tilt
from unskew.errors import UnskewWarning, WeakOverlapWarning
from worlds_variance import strata_sample_groups, strata_sample_unlike

MASS = {"cat": 0.5, "dog": 0.3, "fox": 0.2}
MARGIN = Target.margins({"label": MASS})


def biased_pool(seed=0, n=900, **columns):
    rng = np.random.default_rng(seed)
    source = rng.choice(["north", "south", "east"], n)
    chance = {"north": [0.7, 0.2, 0.1], "south": [0.1, 0.3, 0.6], "east": [0.3, 0.4, 0.3]}
    label = np.array([rng.choice(list(MASS), p=chance[each]) for each in source])
    light = np.where(rng.random(n) < 0.4 + 0.3 * (source == "north"), "day", "night")
    value = rng.normal(size=n) + 2.0 * (label == "cat") + (light == "day")
    return Pool.from_arrays(
        source, label, light=light, value=value, age=rng.uniform(0, 80, n), **columns
    )


def post_stratified(code, mass):
    """p(y_i)/N_{y_i}."""
    return (
        np.array([mass[each] for each in code])
        / pd.Series(code).map(pd.Series(code).value_counts()).to_numpy()
    )


def test_closed_form_solver_and_known_normalizers_agree():
    pool = biased_pool()
    fitted = Strata("label").fit(pool, MARGIN)
    omega = fitted.omega(pool)
    weights = debias(pool, Strata("label"), MARGIN)
    expected = post_stratified(pool.frame["label"], MASS)
    np.testing.assert_allclose(weights.weight, expected, rtol=1e-12)
    np.testing.assert_allclose(debias_weights(omega, pool.source).weight, expected, rtol=1e-8)
    np.testing.assert_allclose(weights.weight @ omega, 1.0, rtol=1e-12)
    np.testing.assert_allclose(weights.normalizer, 1.0, rtol=1e-12)
    counts = pd.crosstab(pool.frame["source"], pool.frame["label"])
    for name, k in zip(pool.names, range(3), strict=True):
        for label, mass in MASS.items():
            row = int(np.flatnonzero(pool.frame["label"] == label)[0])
            assert omega[row, k] == pytest.approx(
                counts.loc[name, label] / counts.loc[name].sum() / mass, rel=1e-12
            )


def test_disconnected_sources_are_no_obstacle_and_the_verdict_says_so():
    pool = Pool.from_arrays(["a"] * 30 + ["b"] * 20, ["cat"] * 30 + ["dog"] * 20)
    weights = debias(pool, Strata("label"), Target.margins({"label": {"cat": 0.8, "dog": 0.2}}))
    np.testing.assert_allclose(weights.weight, np.repeat([0.8 / 30, 0.2 / 20], [30, 20]))
    assert weights.overlap.verdict == "ok"
    assert not weights.overlap.connected
    assert "they need not" in weights.overlap.message
    notes = " ".join(weights.describe().notes)
    assert "seen by one source only" in notes
    assert "label = cat (a)" in notes


def test_uncovered_strata_are_named_with_their_mass_or_the_population_is_restricted():
    pool = biased_pool()
    mass = {"cat": 0.4, "dog": 0.3, "fox": 0.2, "owl": 0.1}
    with refused(CoverageError, levels=["label = owl"]):
        debias(pool, Strata("label"), Target.margins({"label": mass}))
    weights = debias(pool, Strata("label"), Target.margins({"label": mass}, uncovered="restrict"))
    np.testing.assert_allclose(
        weights.weight,
        post_stratified(pool.frame["label"], {k: v / 0.9 for k, v in mass.items()}),
        rtol=1e-12,
    )
    population = weights.describe().population
    assert "owl" in population
    assert "that is not left out" in weights.overlap.message
    assert population in str(weights.describe())


def test_several_attributes_numeric_bins_and_fewer_attributes_than_the_target():
    pool = biased_pool()
    table = pd.DataFrame(
        {
            "label": np.repeat(list(MASS), 2),
            "age": ["[0, 40)", "[40, 80]"] * 3,
            "count": [30, 20, 10, 20, 15, 5],
        }
    )
    target = Target.table(table, bins={"age": [0, 40, 80]})
    cell = [
        (label, "[0, 40)" if age < 40 else "[40, 80]")
        for label, age in zip(pool.frame["label"], pool.frame["age"], strict=True)
    ]
    mass = {
        (row.label, row.age): row.count_ / 100
        for row in table.rename(columns={"count": "count_"}).itertuples()
    }
    np.testing.assert_allclose(
        debias(pool, Strata(["label", "age"]), target).weight,
        post_stratified(cell, mass),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        debias(pool, Strata(), target).weight, post_stratified(cell, mass), rtol=1e-12
    )
    np.testing.assert_allclose(
        debias(pool, Strata("label"), target).weight,
        post_stratified(pool.frame["label"], MASS),
        rtol=1e-12,
    )
    both = Target.margins({"label": MASS, "light": {"day": 0.5, "night": 0.5}})
    np.testing.assert_allclose(
        debias(pool, Strata("label"), both).weight,
        post_stratified(pool.frame["label"], MASS),
        rtol=1e-12,
    )


def test_the_margin_of_a_sample_counts_only_images_that_fit():
    pool, other = biased_pool(), biased_pool(1, 200)
    plain = debias(pool, Strata("label"), Target.sample(other), check_sample=False)
    share = other.frame["label"].value_counts(normalize=True)
    np.testing.assert_allclose(
        plain.weight, post_stratified(pool.frame["label"], share), rtol=1e-12
    )
    held = debias(pool, Strata("label"), Target.sample(other, holdout=0.5), check_sample=False)
    fitted = held.estimation.fitted
    share = fitted.data.frame.iloc[fitted.data.n_pool :]["label"].value_counts(normalize=True)
    np.testing.assert_allclose(held.weight, post_stratified(pool.frame["label"], share), rtol=1e-12)


def test_the_margin_of_a_source_is_that_source_and_binned_attributes_come_with_edges():
    pool = biased_pool()
    weights = debias(pool, Strata("label"), Target.source("east"))
    share = pool.frame.loc[pool.frame["source"] == "east", "label"].value_counts(normalize=True)
    np.testing.assert_allclose(
        weights.weight, post_stratified(pool.frame["label"], share), rtol=1e-12
    )
    with refused(ConfigError, column="age", limit=100):
        debias(pool, Strata("age"), Target.source("east"))
    with pytest.raises(ConfigError, match=r"Target\.uniform\(\['age'\], bins="):
        debias(pool, Strata("age"), Target.uniform("age"))
    halves = debias(pool, Strata("age"), Target.uniform("age", bins={"age": [0, 40, 80]}))
    assert halves.weight[pool.frame["age"] < 40].sum() == pytest.approx(0.5, rel=1e-12)
    binned = debias(pool, Strata("age", bins={"age": [0, 40, 80]}), Target.source("east"))
    young = pool.frame["age"] < 40
    assert binned.weight[young].sum() == pytest.approx(
        young[pool.frame["source"] == "east"].mean(), rel=1e-12
    )


def test_groups_as_units_share_their_weight_and_score_agrees():
    group = np.arange(900) // 3
    pool = biased_pool()
    frame = pool.frame.assign(group=group, label=np.array(list(MASS))[group % 3])
    pool = Pool(frame)
    weights = debias(pool, Strata("label"), Target.margins({"label": MASS}, unit="group"))
    per_group = pd.Series(weights.weight).groupby(group).sum()
    np.testing.assert_allclose(
        per_group, [list(MASS.values())[g % 3] / 100 for g in range(300)], rtol=1e-12
    )
    np.testing.assert_allclose(weights.weigh(pool), weights.sample_weight, rtol=1e-12)
    value = frame["value"].to_numpy()
    # 100 replicates: the spread of a standard deviation is 7%.
    assert weights.bootstrap(100, 1, value).mean.std() == pytest.approx(
        weights.mean(value).stderr, rel=0.2
    )


def test_strata_without_mass_get_weight_0_and_are_counted():
    pool = biased_pool()
    weights = debias(
        pool, Strata("label"), Target.margins({"label": {"cat": 0.7, "dog": 0.3, "fox": 0}})
    )
    fox = (pool.frame["label"] == "fox").to_numpy()
    assert weights.weight[fox].max() == 0
    assert any(
        note.startswith(f"{fox.sum()} images get weight 0") for note in weights.describe().notes
    )
    np.testing.assert_allclose(weights.weigh(pool), weights.sample_weight, rtol=1e-12)


def test_duplication_within_groups_changes_no_standard_error():
    pool = biased_pool(group=np.arange(900))
    frame = pd.concat([pool.frame, pool.frame.assign(id=pool.frame["id"] + 10_000)])
    value, doubled = pool.frame["value"], frame["value"]
    one, two = (
        debias(pool, Strata("label"), MARGIN).mean(value),
        debias(Pool(frame), Strata("label"), MARGIN).mean(doubled),
    )
    assert two.value == pytest.approx(one.value, rel=1e-12)
    assert two.stderr == pytest.approx(one.stderr, rel=1e-9)


@pytest.mark.parametrize("n", [50, 400])
def test_standard_errors_are_post_stratified_and_the_margins_error_enters_by_the_delta_method(n):
    pool = biased_pool()
    value, label = pool.frame["value"].to_numpy(), pool.frame["label"].to_numpy()
    within = sum(
        mass**2 * value[label == each].var(ddof=1) / (label == each).sum()
        for each, mass in MASS.items()
    )
    assert debias(pool, Strata("label"), MARGIN).mean(value).stderr == pytest.approx(
        np.sqrt(within), rel=1e-9
    )
    mass = np.array(list(MASS.values()))
    mean = np.array([value[label == each].mean() for each in MASS])
    smooth = (n * mass + 0.5) / (n + 0.5 * mass.size)
    between = (smooth @ mean**2 - (smooth @ mean) ** 2) / (n - 1)
    survey = Target.margins({"label": {"mass": MASS, "n": n}})
    weights = debias(pool, Strata("label"), survey)
    assert weights.mean(value).stderr == pytest.approx(np.sqrt(within + between), rel=1e-9)
    assert weights.bootstrap(100, 0, value).mean.std() == pytest.approx(
        np.sqrt(within + between), rel=0.25
    )
    # A standard error given level by level, of levels that vary freely but for their sum.
    stderr = dict(zip(MASS, np.sqrt(mass * (1 - mass) / n), strict=True))
    given = (
        debias(pool, Strata("label"), Target.margins({"label": {"mass": MASS, "stderr": stderr}}))
        .mean(value)
        .stderr
    )
    assert given > np.sqrt(within)


def test_the_bootstrap_knows_strata_by_their_levels_not_their_order():
    """The first image, alone in its stratum of mass 0, is never drawn; a rare second stratum is
    lost in some replicates.
    """
    pool = biased_pool()
    label = pool.frame["label"].to_numpy(dtype=object).copy()
    label[0], label[1:4] = "rare", "seldom"
    table = pd.DataFrame({"label": ["rare", "seldom", *MASS], "count": [0, 5, 70, 15, 10]})
    weights = debias(
        Pool(pool.frame.assign(label=label)), Strata("label"), Target.table(table, n=100)
    )
    drawn = weights.bootstrap(100, 0, label == "cat")
    assert drawn.mean.mean() == pytest.approx(0.7, abs=0.015)
    assert drawn.mean.std() == pytest.approx(np.sqrt(0.7 * 0.3 / 100), rel=0.2)
    assert 0 < drawn.n_disconnected < 20


def test_a_target_or_an_attribute_that_is_not_there():
    pool = biased_pool()
    with refused(ConfigError, option="target"):
        debias(pool, Strata("label"))
    with refused(ConfigError, option="by", columns=["light"]):
        debias(pool, Strata("light"), MARGIN)
    with refused(ConfigError, option="by", value=None):
        debias(pool, Strata(), Target.source("east"))
    unlabelled = Pool.from_arrays(["t"] * 50, light=["day"] * 50)
    with pytest.raises(DataError, match=r"'label'.*Tilt or Propensity"):
        debias(pool, Strata("label"), Target.sample(unlabelled))
    with refused(DataError, columns=["label"], levels=["label = owl"]):
        debias(pool, Strata("label"), MARGIN).weigh(pool.frame.assign(label="owl"))
    with refused(DataError, columns=["label"]):
        debias(pool, Strata("label"), MARGIN).weigh(pool.frame.drop(columns="label"))
    with refused(ConfigError, columns=["label", "light"]):
        debias(pool, Product(Strata("label"), Strata("light")), MARGIN)


def test_a_known_factor_of_1_changes_nothing_but_the_message():
    pool = biased_pool()
    product = debias(pool, Product(Strata("label"), Known(dict.fromkeys(pool.names, 1.0))), MARGIN)
    np.testing.assert_allclose(
        product.weight, debias(pool, Strata("label"), MARGIN).weight, rtol=1e-10
    )


@pytest.mark.parametrize("by", [("p", "r"), ("r", "p"), ("r", "q", "p"), ("q",)])
@pytest.mark.parametrize("kind", ["margins", "table"])
def test_the_order_of_attributes_does_not_matter(by, kind):
    """Levels have the same names in every attribute, so that a swap of masses would go
    unnoticed.
    """
    shares = {"p": 0.1, "q": 0.3, "r": 0.6}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {name: rng.choice(["0", "1"], 800) for name in shares}
        | {"source": rng.choice(["a", "b"], 800)}
    )
    if kind == "margins":
        target = Target.margins(
            {name: {"0": share, "1": 1 - share} for name, share in shares.items()}
        )
    else:
        cells = pd.MultiIndex.from_product([["0", "1"]] * 3, names=list(shares)).to_frame(
            index=False
        )
        target = Target.table(
            cells.assign(
                mass=np.prod(
                    [np.where(cells[name] == "0", s, 1 - s) for name, s in shares.items()], axis=0
                )
            )
        )
    weights = debias(Pool.from_frame(frame), Strata(by), target)
    for name in by:
        assert weights.mean(frame[name] == "0").value == pytest.approx(shares[name], abs=1e-9)


def test_strata_that_nearly_identify_the_source_are_flagged():
    rng = np.random.default_rng(0)
    source = np.repeat(["a", "b"], 500)
    mark = np.where(rng.random(1000) < 0.006, "b", source)
    pool = Pool.from_arrays(source, mark=mark, light=rng.choice(["day", "night"], 1000))
    with pytest.warns(UnskewWarning, match=r"mark identifies the source of 99\.\d% of the images"):
        weights = debias(pool, Strata("mark"), Target.uniform("mark"))
    assert any("identifies the source" in note for note in weights.describe().notes)
    debias(pool, Strata("light"), Target.uniform("light"))


def test_missing_labels_of_the_target_sample_are_an_error():
    frame, sample = two_sources(), two_sources(120, seed=1)
    sample.loc[3, "label"] = None
    with pytest.raises(DataError, match=r"label.* 1 of 120 images"):
        debias(Pool.from_frame(frame), Strata("label"), Target.sample(Pool.from_frame(sample)))


def test_one_image_in_every_stratum_shows_no_spread() -> None:
    frame = pd.DataFrame(
        {"source": list("ppqqq"), "label": list("abcde"), "x": [1.0, 5.0, 2.0, 9.0, 4.0]}
    )
    with pytest.warns(WeakOverlapWarning, match="has a single one"):
        weights = debias(Pool.from_frame(frame), Strata("label"), Target.uniform("label"))
    assert weights.mean(frame["x"]).stderr == np.inf
    assert weights.mean(np.ones(5)).stderr == 0.0


@pytest.mark.parametrize("reference", ["sample", "source"])
def test_the_groups_of_a_sample_count_as_in_a_saturated_tilt(reference):
    """The same weights have the same errors, whichever way the model is written."""
    rng = np.random.default_rng(6)
    pool = biased_pool(n=450, group=np.arange(1000, 1450))
    group = np.arange(120) // 5
    label = np.array(list(MASS))[rng.integers(0, 3, 24)[np.arange(120) // 5]]
    sampled = Pool.from_arrays(["t"] * 120, label, group=group)
    target = Target.sample(sampled)
    if reference == "source":
        both = pd.concat([pool.frame, sampled.frame])
        pool = Pool.from_frame(both.assign(id=np.arange(570), light="day", age=1.0))
        target = Target.source("t")
    value = 2.0 * (pool.frame["label"] == "cat").to_numpy() + rng.normal(size=len(pool))
    plain, tilted = (
        debias(pool, model, target, check_sample=False)
        for model in (Strata("label"), Tilt(["label"]))
    )
    np.testing.assert_allclose(plain.weight, tilted.weight, rtol=1e-5)
    # A source is also weighed, and its own spread is counted a little differently.
    rel = 1e-4 if reference == "sample" else 0.03
    assert plain.mean(value).stderr == pytest.approx(tilted.mean(value).stderr, rel=rel)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [strata_sample_groups, strata_sample_unlike])
def test_intervals_hold_with_a_sample_in_groups(recipe):
    coverage = measure_coverage(recipe, 500, 3)
    assert 0.92 <= coverage.share <= 0.985
    assert 0.9 <= coverage.stderr / coverage.spread <= 1.2


def test_sources_that_disagree_on_interactions_are_named():
    rng = np.random.default_rng(0)
    source = np.repeat(["a", "b", "odd"], 400)
    first = rng.random(1200) < 0.5
    same = rng.random(1200) < np.where(source == "odd", 0.9, 0.5)
    columns = {"A": first.astype(str), "B": (first == same).astype(str)}
    half = {"True": 0.5, "False": 0.5}
    target = Target.margins({"A": half, "B": half})
    with pytest.warns(UnskewWarning, match="odds ratios of odd alone"):
        weights = debias(Pool.from_arrays(source, **columns), Strata(), target)
    assert any("disagree on these interactions" in note for note in weights.describe().notes)
