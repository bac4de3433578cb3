"""Error rates of compared pairs: identities, scikit-learn's curve, closed forms, and privacy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_curve

from raising import refused
from unskew import ConfigError, DataError, PairEvaluation, evaluate_pairs

Tables = tuple[pd.DataFrame, pd.DataFrame]


def make_pairs(persons: int = 24, images: int = 3, seed: int = 0, rounded: bool = False) -> Tables:
    """All pairs of some persons in two sources, with weights that differ between images."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), images)
    table = pd.DataFrame(
        {
            "id": [f"i{at:03d}" for at in range(person.size)],
            "source": np.where(person % 2, "a", "b"),
            "group": person,
            "gender": np.where(person % 3, "f", "m"),
            "sample_weight": rng.exponential(size=person.size) + 0.1,
        }
    )
    a, b = np.triu_indices(person.size, 1)
    same = person[a] == person[b]
    hub = rng.normal(size=person.size)
    score = 2.0 * same + 0.4 * (hub[a] + hub[b]) + rng.normal(size=a.size)
    ids = table["id"].to_numpy()
    score = np.round(score, 1) if rounded else score
    return table, pd.DataFrame({"id_a": ids[a], "id_b": ids[b], "same": same, "score": score})


def judge(table: pd.DataFrame, pairs: pd.DataFrame, **options: Any) -> PairEvaluation:
    return evaluate_pairs(table, pairs, **({"roc": False, "thresholds": (1.5,)} | options))


def rates(result: PairEvaluation) -> list[float]:
    point = result.overall.points[0]
    figures = (result.overall.equal_error, point.fmr, point.fnmr)
    return [float(part) for f in figures for part in (f.value, f.stderr, *f.interval)]


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_those_of_scikit_learn(weighted: bool) -> None:
    table, pairs = make_pairs(rounded=True)
    weight = table["sample_weight"] if weighted else np.ones(len(table))
    table = table.assign(sample_weight=weight)
    by_id = table.set_index("id")["sample_weight"]
    product = by_id[pairs["id_a"]].to_numpy() * by_id[pairs["id_b"]].to_numpy()
    fpr, tpr, limits = roc_curve(
        pairs["same"], pairs["score"], sample_weight=product, drop_intermediate=False
    )
    chosen = limits[1::5]
    result = judge(table, pairs, thresholds=chosen, genuine_by="image")
    points = result.overall.points
    np.testing.assert_allclose([p.fmr.value for p in points], fpr[1::5], atol=1e-12)
    np.testing.assert_allclose([p.fnmr.value for p in points], 1 - tpr[1::5], atol=1e-12)
    if not weighted:
        by_person = judge(table, pairs, thresholds=chosen, genuine_by="person")
        assert by_person.overall.points == points
        assert all(p.fmr.unweighted == pytest.approx(p.fmr.value, abs=1e-12) for p in points)


def test_the_threshold_of_a_false_match_rate_is_the_smallest_that_keeps_it() -> None:
    table, pairs = make_pairs(rounded=True)
    point = judge(table, pairs, thresholds=(), fmr=(0.05,)).overall.points[0]
    lower = judge(table, pairs, thresholds=(point.threshold - 0.1,)).overall.points[0]
    assert point.fmr.value <= 0.05 < lower.fmr.value


def test_scale_order_and_swapped_images_change_nothing() -> None:
    table, pairs = make_pairs()
    expected = rates(judge(table, pairs))
    scaled = table.assign(sample_weight=1e6 * table["sample_weight"])
    swapped = pairs.rename(columns={"id_a": "id_b", "id_b": "id_a"}).sample(frac=1, random_state=0)
    for other in (judge(scaled, pairs), judge(table.iloc[::-1], swapped)):
        np.testing.assert_allclose(rates(other), expected, rtol=1e-9)
    doubled = judge(table, pairs.assign(weight=7.0))
    np.testing.assert_allclose(rates(doubled), expected, rtol=1e-9)


def _repeat(table: pd.DataFrame, pairs: pd.DataFrame, ids: set[str]) -> Tables:
    """Repeat images with the pairs that they are in, but for that of an image and its copy."""
    again = table[table["id"].isin(ids)]
    table = pd.concat([table, again.assign(id=again["id"] + "'")])
    for column in ("id_a", "id_b"):
        copy = pairs[pairs[column].isin(ids)]
        pairs = pd.concat([pairs, copy.assign(**{column: copy[column] + "'"})])
    return table, pairs


def test_weight_two_is_an_image_repeated() -> None:
    table, pairs = make_pairs(persons=9)
    ids = set(table["id"][::4])
    table["sample_weight"] = 1.0
    twice = table.assign(sample_weight=np.where(table["id"].isin(ids), 2.0, 1.0))
    repeated = judge(*_repeat(table, pairs, ids), genuine_by="image")
    # Values and errors agree; the noise of pairs that are copies is counted by persons.
    weighted = judge(twice, pairs, genuine_by="image")
    point, other = weighted.overall.points[0], repeated.overall.points[0]
    for one, copy in ((point.fmr, other.fmr), (point.fnmr, other.fnmr)):
        assert one.value == pytest.approx(copy.value, rel=1e-12)
        assert one.stderr == pytest.approx(copy.stderr, rel=1e-9)


def test_a_person_of_weight_two_is_a_person_repeated() -> None:
    table, pairs = make_pairs(persons=9)
    table["sample_weight"] = 1.0
    heavy = table["group"] == 4
    twice = table.assign(sample_weight=np.where(heavy, 2.0, 1.0))
    own = pairs[pairs["same"] & pairs["id_a"].isin(set(table["id"][heavy]))]
    copies = own.assign(id_a=own["id_a"] + "'", id_b=own["id_b"] + "'")
    person = table[heavy].assign(id=table["id"][heavy] + "'", group=99)
    value = judge(twice, pairs).overall.points[0].fnmr.value
    repeated = judge(pd.concat([table, person]), pd.concat([pairs, copies])).overall.points[0]
    assert value == pytest.approx(repeated.fnmr.value, rel=1e-12)


def test_repeating_every_image_within_its_person_changes_no_standard_error() -> None:
    table, pairs = make_pairs(persons=12)
    expected = judge(table, pairs, genuine_by="image").overall.points[0]
    point = judge(*_repeat(table, pairs, set(table["id"])), genuine_by="image").overall.points[0]
    assert point.fmr.stderr == pytest.approx(expected.fmr.stderr, rel=1e-9)
    assert point.fnmr.stderr == pytest.approx(expected.fnmr.stderr, rel=1e-9)


def test_distances_are_scores_with_the_opposite_sign() -> None:
    table, pairs = make_pairs()
    expected = judge(table, pairs, thresholds=(), fmr=(0.05,), by=["gender"])
    far = judge(
        table,
        pairs.assign(score=-pairs["score"]),
        thresholds=(),
        fmr=(0.05,),
        by=["gender"],
        distance=True,
    )
    assert far.overall.points[0].threshold == -expected.overall.points[0].threshold
    assert far.overall.equal_error == expected.overall.equal_error
    wrong = judge(table, pairs, distance=True)
    assert any("--distance" in note for note in wrong.notes)


def test_subgroups_are_of_both_images_or_either_and_gaps_are_differences() -> None:
    table, pairs = make_pairs()
    gender = table.set_index("id")["gender"]
    one, other = gender[pairs["id_a"]].to_numpy(), gender[pairs["id_b"]].to_numpy()
    for within, inside in (
        ("both", (one == "f") & (other == "f")),
        ("either", (one == "f") | (other == "f")),
    ):
        part = judge(table, pairs, by=["gender"], within=within).breakdown("gender")
        alone = judge(table, pairs[inside])
        cell = part.cells[0]
        assert (cell.name, cell.genuine + cell.impostor) == ("f", int(inside.sum()))
        assert cell.points[0].fmr.value == pytest.approx(alone.overall.points[0].fmr.value)
        rate = {cell.name: cell.points[0].fmr.value for cell in part.cells}
        gap = part.gaps[0]
        assert gap.figure.value == pytest.approx(rate[gap.first] - rate[gap.second])
        assert gap.figure.value >= 0
        assert gap.figure.interval[0] < gap.figure.value < gap.figure.interval[1]
        # Of two subgroups there is one gap: nothing was chosen.
        assert asdict(part.largest[0]) == asdict(gap)


def test_a_subgroup_without_impostors_has_no_false_match_rate_and_a_note() -> None:
    table, pairs = make_pairs(persons=6)
    table["kind"] = np.where(table["group"] == 0, "lone", "others")
    result = judge(table, pairs, by=["kind"])
    lone = result.breakdowns[0].cells[0]
    assert lone.impostor == 0
    assert lone.points[0].fmr.value is None
    assert lone.equal_error.value is None
    assert lone.points[0].fnmr.value is not None
    assert any("impostor" in note and "lone" in note for note in result.notes)
    assert "NaN" not in str(result.to_dict())


def test_a_rate_of_zero_has_an_interval_that_errors_of_a_milder_threshold_tell() -> None:
    table, pairs = make_pairs()
    result = judge(table, pairs, thresholds=(99.0,)).overall.points[0]
    assert result.fmr.value == 0.0
    assert result.fmr.interval[0] == 0.0
    assert 0.0 < result.fmr.interval[1] < 0.2
    assert result.fnmr.value == 1.0


def test_one_person_alone_says_nothing_about_others() -> None:
    table, pairs = make_pairs(persons=2, images=2)
    low, high = judge(table, pairs).overall.points[0].fmr.interval
    assert high - low > 0.8


def test_private_results_withhold_subgroups_of_few_persons() -> None:
    table, pairs = make_pairs(persons=40)
    table["kind"] = np.where(table["group"] < 4, "rare", "frequent")
    table["fine"] = (table["group"] % 3).astype(str)
    result = judge(table, pairs, by=["kind", "fine"], private=True)
    assert "rare" not in str(result.to_dict())
    assert result.breakdowns[0].withheld == 2
    assert len(result.breakdowns[1].cells) == 3
    assert not any(cell.roc for cell in result.breakdowns[1].cells)
    with refused(ConfigError, count=6, limit=10):
        judge(*make_pairs(persons=6), private=True)


def test_options_are_checked() -> None:
    table, pairs = make_pairs(persons=4)
    for options, name in (
        ({"within": "one"}, "within"),
        ({"genuine_by": "pair"}, "genuine_by"),
        ({"fmr": (0.0,)}, "fmr"),
        ({"thresholds": (np.nan,)}, "thresholds"),
        ({"level": 1.0}, "level"),
    ):
        with refused(ConfigError, option=name):
            judge(table, pairs, **options)
    with refused(ConfigError, option="by"):
        judge(table, pairs, by=["colour"])
    with refused(DataError, level="genuine"):
        judge(table, pairs[~pairs["same"]])
    with refused(DataError, level="impostor"):
        judge(table, pairs[pairs["same"]])
