"""Names of sources become columns of ω, or an error that names what is wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from problems import random_problem
from raising import refused
from unskew.solve.source_codes import check_same_order, source_codes

GOOD = random_problem(0, 90, 3, zeros=0.2)
NAMES = np.array(["attic", "barn", "cellar"])
EXACT = unskew.solve_normalizers(GOOD.omega, GOOD.source)


def test_a_source_without_images_is_named() -> None:
    with refused(unskew.DataError, sources=["cellar"]):
        unskew.solve_normalizers(np.ones((4, 3)), [0, 1, 0, 1], names=NAMES)


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        (["attic", "barn", "loft"], {"sources": ["loft"]}),
        ([0, 1, 7], {"sources": [7]}),
        ([0, 1, -1], {"sources": [-1]}),
        (["attic", "barn", None], {"option": "source", "count": 1}),
        ([0.0, 1.0, np.nan], {"option": "source", "count": 1}),
        (["attic", 1, "barn"], {"option": "source"}),
        ([[0, 1, 2]], {"option": "source", "value": [1, 3]}),
    ],
)
def test_unknown_sources_are_named(source, facts) -> None:
    source = np.array(source, dtype=object) if any(isinstance(s, str) for s in source) else source
    with refused(unskew.DataError, **facts):
        unskew.solve_normalizers(np.ones((3, 3)), source, names=NAMES)


def test_more_names_than_columns() -> None:
    with refused(unskew.DataError, sources=sorted(NAMES), count=3, limit=2):
        unskew.solve_normalizers(np.ones((3, 2)), NAMES)
    with refused(unskew.DataError, sources=["a", "b"], count=2, limit=3):
        unskew.solve_normalizers(np.ones((3, 3)), ["a", "b", "a"])


def test_names_come_from_categories_in_their_order() -> None:
    source = pd.Categorical(NAMES[GOOD.source], categories=["cellar", "attic", "barn"])
    solution = unskew.solve_normalizers(GOOD.omega[:, [2, 0, 1]], source)
    assert solution.names == ("cellar", "attic", "barn")
    np.testing.assert_allclose(solution.log_normalizer[[1, 2, 0]], EXACT.log_normalizer, atol=1e-12)


def test_categories_keep_their_order_when_one_does_not_occur() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    names = np.array(["night", "day"])[problem.source]
    used = unskew.debias_weights(
        problem.omega, pd.Categorical(names, categories=["night", "dusk", "day"])
    )
    assert used.names == ("night", "day")


def test_the_same_index_in_another_order_is_refused() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    frame = pd.DataFrame(problem.omega, index=[f"i{i}" for i in range(120)])
    source = pd.Series(problem.source, index=frame.index)
    unskew.debias_weights(frame, source)
    with refused(unskew.DataError, option="source"):
        unskew.debias_weights(frame, source.iloc[::-1])


@pytest.mark.parametrize(
    ("source", "names", "codes", "shown"),
    [
        ([0, 1, 0], None, [0, 1, 0], ("0", "1")),
        ([0, 1, 0], ["night", "day"], [0, 1, 0], ("night", "day")),
        (["b", "a", "b"], None, [1, 0, 1], ("a", "b")),
        (["b", "a", "b"], ["b", "a"], [0, 1, 0], ("b", "a")),
        ([7, 3, 7], [7, 3], [0, 1, 0], ("7", "3")),  # columns that are labelled by integers
        ([1.0, 0.0, 1.0], None, [1, 0, 1], ("0", "1")),
        ([True, False, True], None, [1, 0, 1], ("0", "1")),
    ],
)
def test_codes_are_the_columns_of_the_names(source, names, codes, shown) -> None:
    found, found_names = source_codes(np.array(source), 2, names)
    assert found.tolist() == codes
    assert found.dtype == np.int32
    assert found_names == shown


@pytest.mark.parametrize(
    ("n_columns", "names", "facts"),
    [
        (0, None, {"option": "omega"}),
        (3, ["a", "b"], {"option": "names", "count": 2, "limit": 3}),
        (2, ["a", "a"], {"columns": ["a", "a"]}),
    ],
)
def test_names_that_do_not_fit_the_columns_are_refused(n_columns, names, facts) -> None:
    with refused(unskew.DataError, **facts):
        source_codes(np.array([0, 1]), n_columns, names)


def test_only_the_same_index_in_another_order_is_taken_for_a_mistake() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=["p", "q", "r"])
    for column in (
        [1, 2, 3],
        frame["x"],
        frame["x"].set_axis(["s", "t", "u"]),
        frame["x"].iloc[:2],
    ):
        check_same_order(column, "group", frame)
    with refused(unskew.DataError, option="group"):
        check_same_order(frame["x"].iloc[::-1], "group", frame)
