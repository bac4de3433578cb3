"""Predictions that do not match, columns that say something else, options that cannot be: each a
clear error, or counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.evaluation.predictions import Evaluation, evaluate_predictions
from unskew.evaluation.subgroups import View, withhold_cells

N = 60


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"a/{at:02d}.jpg" for at in range(N)],
            "source": ["a", "b"] * (N // 2),
            "path": [f"photos/{at:02d}.jpg" for at in range(N)],
            "label": rng.choice(["cat", "dog"], N),
            "group": None,
            "split": (["train", "test", "validation"] * N)[:N],
            "weight": 1 / N,
            "sample_weight": rng.exponential(1, N),
        }
    )


@pytest.fixture
def said(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"id": table["id"], "prediction": table["label"]})


def judge(table: pd.DataFrame, predictions: Any, **options: Any) -> Evaluation:
    return evaluate_predictions(table, predictions, **({"replicates": 0} | options))


def test_missing_predictions_are_counted_and_the_first_named(
    table: pd.DataFrame, said: pd.DataFrame
) -> None:
    lacking = said[~said["id"].isin(["a/01.jpg", "a/04.jpg"])]
    with pytest.raises(
        DataError,
        match=r"2 of 20 images \(test\) cannot be judged\. 2 have no prediction: a/01\.jpg, "
        r"a/04\.jpg",
    ):
        judge(table, lacking)
    found = judge(table, lacking, allow_missing=True)
    assert (found.coverage.judged, found.coverage.missing, found.coverage.images) == (18, 2, 20)
    test = table[table["split"] == "test"].set_index("id")["sample_weight"]
    assert found.coverage.weight == pytest.approx(
        1 - test[["a/01.jpg", "a/04.jpg"]].sum() / test.sum()
    )
    assert any("2 of 20 images" in note for note in found.notes)
    # An empty field is no prediction either, and no more is an empty truth.
    with pytest.raises(DataError, match="1 have no prediction: a/01"):
        judge(table, said.assign(prediction=said["prediction"].where(said["id"] != "a/01.jpg")))
    with pytest.raises(DataError, match="1 have no truth: a/01"):
        judge(table.assign(label=table["label"].where(table["id"] != "a/01.jpg")), said)
    with pytest.raises(
        DataError, match=r"3 of 20 .* cannot be judged. 3 have none of the second: a/01"
    ):
        judge(table, said, second=said[~said["id"].isin(["a/01.jpg", "a/04.jpg", "a/07.jpg"])])


def test_unknown_ids_and_ids_twice_are_counted_and_the_first_named(
    table: pd.DataFrame, said: pd.DataFrame
) -> None:
    more = pd.concat([said, pd.DataFrame({"id": ["x1", "x2"], "prediction": "cat"})])
    with pytest.raises(
        DataError, match="2 of 62 predictions have an id that no image of the weights has: x1, x2"
    ):
        judge(table, more)
    found = judge(table, more, allow_extra=True)
    assert found.coverage.extra == 2
    assert found.coverage.elsewhere == 40
    with pytest.raises(DataError, match=r"2 ids occur more than once .*: a/00\.jpg, a/01\.jpg"):
        judge(table, pd.concat([said, said.head(2)]))
    with pytest.raises(DataError, match="1 ids of the weights occur more than once: a/00"):
        judge(pd.concat([table, table.head(1)]), said)


def test_ids_of_another_kind_are_recognised(table: pd.DataFrame, said: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"not one of the 60 .* column 'path'"):
        judge(table, said.assign(id=table["path"]))
    with pytest.raises(DataError, match="whole id, including the source"):
        judge(table, said.assign(id=[id.split("/")[1] for id in said["id"]]))
    with pytest.raises(DataError, match="no column 'id'"):
        judge(table, said.rename(columns={"id": "image"}))


def test_ids_are_joined_as_text(table: pd.DataFrame, said: pd.DataFrame, tmp_path: Path) -> None:
    """Numbers in the weights, text in a CSV file; 007 stays 007."""
    place = tmp_path / "preds.csv"
    said.assign(id=range(N)).to_csv(place, index=False)
    assert judge(table.assign(id=range(N)), place).overall.figures["accuracy"].value == 1.0
    codes = [f"{at:03d}" for at in range(N)]
    said.assign(id=codes).to_csv(place, index=False)
    assert judge(table.assign(id=codes), place).coverage.judged == 20
    for name, write in (
        ("preds.jsonl", lambda path: said.to_json(path, orient="records", lines=True)),
        ("preds.parquet", said.to_parquet),
    ):
        write(tmp_path / name)
        assert judge(table, tmp_path / name).overall == judge(table, said).overall
    with pytest.raises(ConfigError, match="not there"):
        judge(table, tmp_path / "pred.csv")


@pytest.mark.parametrize("bad", [np.nan, -0.5, np.inf])
def test_weights_that_are_none_are_errors(
    table: pd.DataFrame, said: pd.DataFrame, bad: float
) -> None:
    with pytest.raises(DataError, match=r"finite and not negative, but 1 of 60 are not: a/03\.jpg"):
        judge(
            table.assign(
                sample_weight=table["sample_weight"].where(table["id"] != "a/03.jpg", bad)
            ),
            said,
        )


def test_weights_of_any_size_and_no_text(table: pd.DataFrame, said: pd.DataFrame) -> None:
    scored = pd.DataFrame({"id": table["id"], "score": np.linspace(0, 1, N)})
    plain = judge(table, scored, replicates=10).overall
    for factor in (2.0**900, 2.0**-900):
        assert (
            judge(
                table.assign(sample_weight=factor * table["sample_weight"]), scored, replicates=10
            ).overall
            == plain
        )
    with refused(DataError, column="sample_weight"):
        judge(table.assign(sample_weight="heavy"), said)


def test_empty_predictions_and_two_second_models(table: pd.DataFrame, said: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="no rows"):
        judge(table, said.head(0))
    with pytest.raises(ConfigError, match="keep one of them"):
        judge(table, said.assign(prediction_b="cat"), second=said)


def test_a_split_without_weight_is_an_error(table: pd.DataFrame, said: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="all 20 images of the split 'test' have weight 0"):
        judge(
            table.assign(sample_weight=table["sample_weight"].where(table["split"] != "test", 0.0)),
            said,
        )
    with pytest.raises(DataError, match="all 60 images"):
        judge(table.assign(sample_weight=0.0, split=None), said)


def test_which_images_are_judged(table: pd.DataFrame, said: pd.DataFrame) -> None:
    assert judge(table, said).split == "test"
    assert judge(table, said, split="validation").coverage.images == 20
    assert judge(table, said, split="all").coverage.images == 60
    renamed = table.assign(split=table["split"].replace({"test": "holdout"}))
    found = judge(renamed, said)
    assert found.split == "holdout + validation"
    assert any("no split called test" in note for note in found.notes)
    assert judge(table.assign(split=None), said).coverage.images == 60
    with pytest.raises(ConfigError, match=r"no split 'tests'.*Did you mean 'test'"):
        judge(table, said, split="tests")
    with pytest.raises(ConfigError, match="no splits"):
        judge(table.assign(split=None), said, split="test")


def test_truth_of_two_places_must_agree(table: pd.DataFrame, said: pd.DataFrame) -> None:
    agreeing = said.assign(y=table["label"])
    assert judge(table, agreeing).truth == "y"
    assert [part.column for part in judge(table, agreeing, by=["label"]).breakdowns] == [
        "source",
        "y",
        "label",
    ]
    other = agreeing.assign(y=agreeing["y"].where(agreeing["id"] != "a/01.jpg", "fox"))
    with pytest.raises(
        DataError, match=r"differ for 1 of 20 images: a/01\.jpg \(label (cat|dog), y fox\)"
    ):
        judge(table, other)
    assert judge(table, other, truth="label").overall.figures["accuracy"].value == 1.0
    assert judge(table, other, truth="y").overall.figures["accuracy"].value < 1.0
    assert judge(table.assign(label=None), agreeing).truth == "y"
    with pytest.raises(DataError, match="nothing says what is true"):
        judge(table.assign(label=None), said)
    with pytest.raises(ConfigError, match="truth is 'y'"):
        judge(table, said, truth="labels")
    with pytest.raises(DataError, match="different y for 1 of 20"):
        judge(table, agreeing, second=other, truth="y")


def test_errors_count_all_images_and_the_label_is_the_truth_of_those_without_y(
    table: pd.DataFrame, said: pd.DataFrame
) -> None:
    with pytest.raises(DataError, match=r"differ for 20 of 20 images: a/01\.jpg .* and 17 more\."):
        judge(table, said.assign(y="fox"))
    with pytest.raises(DataError, match=r"different y for 20 of 20 images: .* and 15 more\."):
        judge(table, said.assign(y="cat"), second=said.assign(y="dog"), truth="y")
    with pytest.raises(DataError, match=r"are not: a/00\.jpg \(nan\)"):
        judge(
            table.assign(sample_weight=table["sample_weight"].where(table["id"] != "a/00.jpg")),
            said,
        )
    agreeing = said.assign(y=table["label"])
    with pytest.raises(
        DataError, match=r"cannot be judged\. 1 have no prediction: a/01\.jpg\. Predict"
    ):
        judge(table, agreeing[agreeing["id"] != "a/01.jpg"])
    found = judge(table, agreeing.assign(y=agreeing["y"].where(agreeing["id"] != "a/01.jpg")))
    assert (found.coverage.judged, found.overall.figures["accuracy"].value) == (20, 1.0)


def test_classes_that_do_not_match(table: pd.DataFrame, said: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"not one of the classes .* they say (CAT, DOG|DOG, CAT)"):
        judge(table, said.assign(prediction=said["prediction"].str.upper()))
    found = judge(
        table, said.assign(prediction=said["prediction"].where(said["id"] != "a/01.jpg", "fox"))
    )
    assert any("1 predictions name classes that no image has" in note for note in found.notes)
    with pytest.raises(
        DataError, match=r"no column of scores for the class dog; they have score_cat, score_Dog\."
    ):
        judge(table, said.assign(score_cat=0.5, score_Dog=0.5))
    with pytest.raises(DataError, match=r"one column 'score'.* there are 3"):
        judge(
            table.assign(label=(["cat", "dog", "fox"] * 40)[10 : 10 + N], split=None),
            pd.DataFrame({"id": table["id"], "score": 0.5}),
        )
    with pytest.raises(DataError, match="column 'prediction', 'score' or 'score_<class>'"):
        judge(table, said.rename(columns={"prediction": "predicted"}))
    lists = pd.Series([["cat", "dog"]] * N, dtype=object)
    with pytest.raises(DataError, match="several labels"):
        judge(table.assign(label=lists), said)


def test_scores_that_are_no_probabilities(table: pd.DataFrame, said: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match=r"20 of 20 images are not; the first is a/01.*softmax"):
        judge(table, said.assign(score_cat=rng.normal(size=N), score_dog=3.0))
    ranks = judge(table, pd.DataFrame({"id": table["id"], "score": rng.normal(size=N)}))
    assert set(ranks.overall.figures) == {"auroc"}
    assert any("no probability" in note for note in ranks.notes)
    with pytest.raises(DataError, match="infinite"):
        judge(table, said.assign(score=np.inf))
    with refused(DataError, column="score"):
        judge(table, said.assign(score="high"))


def test_which_class_is_positive_is_said(table: pd.DataFrame) -> None:
    score = np.where(table["label"] == "dog", 0.8, 0.3)
    found = judge(table, pd.DataFrame({"id": table["id"], "score": score}))
    assert found.positive == "dog"
    assert any("'dog'" in note for note in found.notes)
    assert found.overall.figures["auroc"].value == 1.0
    turned = judge(table, pd.DataFrame({"id": table["id"], "score": 1 - score}), positive="cat")
    assert turned.overall.figures["auroc"].value == 1.0
    assert turned.overall.figures["log_loss"].value == pytest.approx(
        found.overall.figures["log_loss"].value
    )
    with pytest.raises(ConfigError, match="Did you mean 'dog'"):
        judge(table, pd.DataFrame({"id": table["id"], "score": score}), positive="dogs")
    numbers = table.assign(label=np.where(table["label"] == "dog", 10, 9))
    assert judge(numbers, pd.DataFrame({"id": table["id"], "score": score})).positive == "10"


def test_a_class_called_b_is_no_second_model(table: pd.DataFrame) -> None:
    letters = table.assign(label=np.where(table["label"] == "dog", "b", "a"))
    scores = pd.DataFrame({"id": table["id"], "score_a": 0.4, "score_b": 0.6})
    assert judge(letters, scores).overall.second is None
    two = scores.assign(score_b_a=0.9, score_b_b=0.1)
    assert judge(letters, two).overall.second is not None


def test_numbers_or_classes(table: pd.DataFrame) -> None:
    id = table["id"]
    whole = table.assign(label=np.arange(N) % 5)
    assert judge(whole, pd.DataFrame({"id": id, "prediction": 3})).task == "classification"
    assert judge(whole, pd.DataFrame({"id": id, "prediction": 3.5})).task == "regression"
    assert (
        judge(whole, pd.DataFrame({"id": id, "prediction": 3}), regression=True).task
        == "regression"
    )
    with pytest.raises(DataError, match="look like scores"):
        judge(table.assign(label=np.arange(N) % 2), pd.DataFrame({"id": id, "prediction": 0.7}))
    with pytest.raises(DataError, match="needs a column 'prediction'"):
        judge(whole, pd.DataFrame({"id": id, "score": 0.5}), regression=True)
    constant = judge(
        table.assign(label=2.5), pd.DataFrame({"id": id, "prediction": 2.0}), regression=True
    )
    assert "r2" not in constant.overall.figures
    assert constant.overall.figures["mae"].value == pytest.approx(0.5)


def test_subgroups_by_columns_of_all_tables(table: pd.DataFrame, said: pd.DataFrame) -> None:
    attributes = pd.DataFrame(
        {
            "id": table["id"][::-1],
            "age": np.arange(N)[::-1] * 1.0,
            "sex": ["f", "m", None] * (N // 3),
        }
    )
    found = judge(
        table,
        said.assign(scanner="x"),
        attributes=attributes,
        by=["sex", "age", "scanner"],
        split="all",
    )
    assert [part.column for part in found.breakdowns] == [
        "source",
        "label",
        "sex",
        "age",
        "scanner",
    ]
    assert [cell.name for cell in found.breakdown("sex").cells] == ["f", "m", "(missing)"]
    assert [cell.name for cell in found.breakdown("age").cells] == [
        "< 14.8",
        "[14.8, 29.5)",
        "[29.5, 44.2]",
        "> 44.2",
    ]
    assert [cell.images for cell in found.breakdown("age").cells] == [15] * 4
    binned = judge(
        table, said, attributes=attributes, by=["age"], bins={"age": [0, 30, 59]}, split="all"
    )
    assert [(cell.name, cell.images) for cell in binned.breakdown("age").cells] == [
        ("[0, 30)", 30),
        ("[30, 59]", 30),
    ]
    for part in found.breakdowns:
        assert sum(cell.images for cell in part.cells) == N
        assert sum(cell.weight_share for cell in part.cells) == pytest.approx(1)
    with pytest.raises(ConfigError, match=r"no such column; there are .*Did you mean 'sex'"):
        judge(table, said, attributes=attributes, by=["sexe"])


def test_a_subgroup_without_weight_has_naive_figures_only(
    table: pd.DataFrame, said: pd.DataFrame
) -> None:
    zero = table.assign(sample_weight=table["sample_weight"].where(table["source"] == "a", 0.0))
    cell = judge(zero, said, replicates=20).breakdown("source").cells[1]
    assert (cell.name, cell.weight_share, cell.ess, cell.few) == ("b", 0.0, 0.0, True)
    assert cell.figures["accuracy"].value is None
    assert cell.figures["accuracy"].naive == 1.0


def test_privacy_withholds_small_cells_and_what_would_tell(
    table: pd.DataFrame, said: pd.DataFrame
) -> None:
    site = np.array(["big"] * 30 + ["middle"] * 25 + ["tiny"] * 5)
    found = judge(table, said.assign(site=site), by=["site"], split="all", private=True)
    part = found.breakdown("site")
    # The total is known: the next smallest goes, too.
    assert [cell.name for cell in part.cells] == ["big"]
    assert part.withheld == 2
    assert "tiny" not in str(found.to_dict())
    # By group: 30 images of three patients are three.
    patients = table.assign(group=[f"p{at // 10}" for at in range(N)])
    with pytest.raises(ConfigError, match="fewer than 10 groups; 6 are judged"):
        judge(patients, said, split="all", private=True)
    zero = table.assign(sample_weight=table["sample_weight"].where(table.index > 2, 0.0))
    assert judge(zero, said, split="all").coverage.zero == 3
    assert judge(zero, said, split="all", private=True).coverage.zero is None
    lacking = judge(table, said[3:], split="all", allow_missing=True, private=True)
    assert (lacking.coverage.missing, lacking.coverage.images) == (None, None)
    assert any(note.startswith("A few images have no prediction") for note in lacking.notes)
    rare = table.assign(label=["cat"] * 55 + ["dog"] * 5)
    figures = judge(rare, said, split="all", private=True).overall.figures
    assert "accuracy" in figures
    assert not {"balanced_accuracy", "worst_class", "sensitivity", "specificity"} & set(figures)


def test_options_that_cannot_be(table: pd.DataFrame, said: pd.DataFrame) -> None:
    for options in ({"replicates": -1}, {"level": 1.0}, {"seed": -1}):
        with pytest.raises(ConfigError):
            judge(table, said, **options)


def test_one_group_in_every_source_has_no_interval(table: pd.DataFrame, said: pd.DataFrame) -> None:
    found = judge(table.assign(group=table["source"]), said, replicates=20)
    assert found.overall.figures["accuracy"].interval is None
    assert any("no intervals" in note for note in found.notes)


@given(
    light=st.lists(st.integers(0, 2), min_size=60, max_size=60),
    kind=st.lists(st.integers(0, 1), min_size=60, max_size=60),
    grouped=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_small_cell_follows_from_two_views(
    light: list[int], kind: list[int], grouped: bool
) -> None:
    """Cells by light and class add up to the class and to the light: what is left of a shown one is
    nobody, or ten and more.
    """
    light_n, kind_n = np.array(light), np.array(kind)
    group_n = np.arange(60) // 2 if grouped else None
    crossed = View(
        "kind*light", tuple(f"{a} {b}" for a in range(2) for b in range(3)), 3 * kind_n + light_n
    )
    views = [View("kind", ("a", "b"), kind_n), crossed, View("light", ("x", "y", "z"), light_n)]
    kind_view, fine, light_view = withhold_cells(views, group_n)
    for coarse, code_n in ((kind_view, kind_n), (light_view, light_n)):
        for level in np.unique(code_n[coarse.code >= 0]):
            rest_n = (code_n == level) & (fine.code < 0)
            units = rest_n.sum() if group_n is None else np.unique(group_n[rest_n]).size
            assert units == 0 or units >= 10
