"""A pool: roles of columns, ids, names and sizes; input that cannot work."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import DataError, Pool


def scans():
    return pd.DataFrame(
        {
            "hospital": ["north", "south", "north", "east"],
            "scan": ["a", "b", "c", "d"],
            "species": ["cat", None, "dog", "cat"],
            "patient": [1, 1, 2, 3],
            "age": [1.5, 2.5, 3.5, 4.5],
        }
    )


def test_columns_are_renamed_to_their_roles_and_come_first():
    pool = Pool.from_frame(scans(), source="hospital", label="species", id="scan", group="patient")
    assert list(pool.frame.columns) == ["id", "source", "label", "group", "age"]
    assert pool.frame["id"].tolist() == ["a", "b", "c", "d"]
    assert len(pool) == 4
    assert repr(pool) == "Pool(4 images from 3 sources: north 2, south 1, east 1)"


def test_sources_stand_in_order_of_first_appearance():
    pool = Pool.from_frame(scans(), source="hospital", id="scan")
    assert pool.names == ("north", "south", "east")
    assert pool.source.tolist() == [0, 1, 0, 2]
    assert pool.sizes.tolist() == [2, 1, 1]
    assert np.array_equal(np.array(pool.names)[pool.source], scans()["hospital"])


def test_sources_stand_in_the_order_of_their_categories_without_the_empty_ones():
    frame = scans()
    frame["hospital"] = pd.Categorical(
        frame["hospital"], categories=["east", "nowhere", "north", "south"]
    )
    pool = Pool.from_frame(frame, source="hospital", id="scan")
    assert pool.names == ("east", "north", "south")
    assert pool.sizes.tolist() == [1, 2, 1]


def test_labels_are_optional():
    assert "label" not in Pool.from_frame(scans(), source="hospital").frame
    assert "label" not in Pool.from_arrays(["a", "b"]).frame


def test_ids_are_the_index_unless_named():
    frame = scans().set_index(pd.Index([10, 20, 30, 40]))
    pool = Pool.from_frame(frame, source="hospital")
    assert pool.frame["id"].tolist() == [10, 20, 30, 40]
    assert pool.frame.index.tolist() == [0, 1, 2, 3]


def test_the_users_table_is_left_alone():
    frame = scans()
    pool = Pool.from_frame(frame, source="hospital")
    pool.frame["age"] = 0.0
    pd.testing.assert_frame_equal(frame, scans())


def test_arrays_become_columns_and_matrices_several():
    pool = Pool.from_arrays(
        [3, 1, 3],
        ["x", "y", "x"],
        group=[7, 7, 8],
        colour=np.arange(6.0).reshape(3, 2),
        age=pd.Series([1, 2, 3], index=[9, 8, 7]),
    )
    assert list(pool.frame.columns) == [
        "id",
        "source",
        "label",
        "group",
        "colour_0",
        "colour_1",
        "age",
    ]
    assert pool.names == ("3", "1")
    assert pool.frame["colour_1"].tolist() == [1.0, 3.0, 5.0]
    assert pool.frame["age"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "call", "message"),
    [
        (
            {"hospital": ["north", None, "north", "east"]},
            {},
            "source is missing for 1 of 4 images .id 1.. Every image needs",
        ),
        (
            {"scan": ["a", "b", "a", "b"]},
            {"id": "scan"},
            "ids must be unique.* 2 occur more than once: a, b",
        ),
        ({"scan": ["a", None, "c", "d"]}, {"id": "scan"}, "1 of 4 have none"),
        (
            {"patient": [1, None, 2, 3]},
            {"group": "patient"},
            "group is missing for 1 of 4 images .* one of their own",
        ),
        ({}, {"source": "hospitl"}, "no column 'hospitl', .*Did you mean 'hospital'"),
        ({}, {"label": "specis"}, "no column 'specis', .*the label .*Did you mean 'species'"),
        ({"group": [1, 2, 3, 4]}, {"group": "patient"}, "also has a column 'group'"),
        ({}, {"group": "patient", "split": "patient"}, "both as group and as split"),
        ({"hospital": ["1", 1, "2", "2"]}, {}, "differ but read the same, '1'"),
    ],
)
def test_tables_that_cannot_work(change, call, message):
    with pytest.raises(DataError, match=message):
        Pool.from_frame(scans().assign(**change), **{"source": "hospital", **call})


def test_other_input_that_cannot_work():
    with pytest.raises(DataError, match="no rows"):
        Pool.from_frame(scans()[:0], source="hospital")
    with pytest.raises(DataError, match="same name: age"):
        Pool.from_frame(pd.concat([scans(), scans()[["age"]]], axis=1), source="hospital")
    with pytest.raises(DataError, match="source has 2, but 'age' has 3"):
        Pool.from_arrays(["a", "b"], age=[1, 2, 3])
    with pytest.raises(DataError, match=r"'x' has shape \(2, 1, 1\)"):
        Pool.from_arrays(["a", "b"], x=np.zeros((2, 1, 1)))
    with pytest.raises(DataError, match="needs a column 'id'"):
        Pool(scans().rename(columns={"hospital": "source"}))
    with refused(DataError, option="frame"):
        Pool([1, 2])


@pytest.mark.parametrize("role", ["label", "group"])
def test_a_role_is_one_column(role):
    """A matrix became the columns label_0, label_1, …, and the pool had no label."""
    with refused(DataError, column=role, value=[2, 3]):
        Pool.from_arrays(["a", "b"], **{role: np.zeros((2, 3))})
