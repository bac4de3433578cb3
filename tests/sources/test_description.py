"""What `unskew describe` counts agrees with counting by hand, whatever the pool holds."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew import Pool
from unskew.sources.description import CopyCount, GroupCount, describe_pool


def table():
    return pd.DataFrame(
        {
            "source": ["day", "day", "day", "night", "night", "rain"],
            "label": ["cat", "dog", "dog", "cat", None, "dog"],
            "group": ["a", "a", "b", "b", "c", "d"],
            "split": ["train", "train", "test", "test", "train", "train"],
            "content": ["x", "x", "y", "x", "z", "y"],
            "brightness": [0.1, 0.3, np.nan, 0.9, 0.5, 0.7],
            "camera": ["p", "p", None, "q", "p", "q"],
            "flash": [True, False, True, True, False, False],
        }
    )


@pytest.fixture
def described():
    aside = pd.DataFrame(
        {
            "id": ["m", "n", "o"],
            "source": ["day", "fog", "day"],
            "path": ["m.jpg", "n.jpg", "o.jpg"],
            "reason": ["the file is empty", "the file is cut short", "the file is empty"],
        }
    )
    return describe_pool(Pool(Pool.from_frame(table()).frame, set_aside=aside))


def test_sources_with_what_cannot_be_used(described):
    rows = [(each.name, each.images, each.groups, each.unreadable) for each in described.sources]
    assert rows == [("day", 3, 2, 2), ("night", 2, 2, 0), ("rain", 1, 1, 0), ("fog", 0, 0, 1)]
    assert [each.share for each in described.sources] == [0.5, 2 / 6, 1 / 6, 0]
    assert [(each.reason, each.images) for each in described.unreadable] == [
        ("the file is empty", 2),
        ("the file is cut short", 1),
    ]


def test_classes_and_splits_by_source(described):
    assert [(each.level, each.images, each.by_source) for each in described.labels] == [
        ("dog", 3, {"day": 2, "night": 0, "rain": 1}),
        ("cat", 2, {"day": 1, "night": 1, "rain": 0}),
    ]
    assert described.unlabelled == 1
    assert [(each.level, each.images) for each in described.splits] == [("train", 4), ("test", 2)]
    assert described.groups == GroupCount(groups=4, largest=2, shared=1)


def test_columns(described):
    brightness, camera, flash = described.columns
    assert (
        brightness.kind,
        brightness.missing,
        brightness.low,
        brightness.median,
        brightness.high,
    ) == ("number", 1, 0.1, 0.5, 0.9)
    assert brightness.median_by_source == {"day": 0.2, "night": 0.7, "rain": 0.7}
    assert (camera.kind, camera.missing, camera.n_levels, camera.levels) == (
        "category",
        1,
        2,
        (("p", 3), ("q", 2)),
    )
    assert (flash.kind, flash.levels) == ("category", (("True", 3), ("False", 3)))


def test_copies_within_and_across_sources(described):
    assert set(described.copies) == {
        CopyCount("day", "day", 2),
        CopyCount("day", "night", 2),
        CopyCount("night", "day", 1),
        CopyCount("day", "rain", 1),
        CopyCount("rain", "day", 1),
    }


def test_what_is_not_there_is_not_counted():
    plain = describe_pool(Pool.from_arrays(["a", "b"]))
    assert plain.labels == plain.splits == plain.columns == plain.unreadable == ()
    assert plain.groups is None
    assert plain.copies is None
    assert (plain.unlabelled, plain.has_pixels) == (2, False)
    assert plain.sources[0].groups is None


def test_several_labels_count_each():
    labels = np.empty(3, dtype=object)
    labels[:] = [["cat", "dog"], [], ["dog"]]
    described = describe_pool(Pool.from_arrays(["a", "a", "b"], labels))
    assert described.several_labels
    assert [(each.level, each.images, each.by_source) for each in described.labels] == [
        ("dog", 2, {"a": 1, "b": 1}),
        ("cat", 1, {"a": 1, "b": 0}),
    ]


def test_numbers_that_are_all_missing_or_infinite():
    described = describe_pool(Pool.from_arrays(["a", "b"], x=[np.nan, np.nan], y=[np.inf, 1.0]))
    assert [(each.missing, each.median) for each in described.columns] == [(2, None), (0, 1.0)]
    assert described.columns[1].median_by_source == {"a": None, "b": 1.0}


def test_many_levels_are_cut():
    described = describe_pool(Pool.from_arrays(["a"] * 50, name=[f"n{at}" for at in range(50)]))
    assert described.columns[0].n_levels == 50
    assert len(described.columns[0].levels) == 20


def test_the_record_is_plain_json(described):
    record = json.loads(json.dumps(described.to_dict(), allow_nan=False))
    assert record["sources"][0] == {
        "name": "day",
        "images": 3,
        "share": 0.5,
        "groups": 2,
        "unreadable": 2,
    }
    assert set(record) == set(described.__dataclass_fields__)


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["cat", "dog", "<b>", "ü\n", None]),
        st.sampled_from("xyzuvw"),
    ),
    min_size=1,
    max_size=25,
)


@given(ROWS)
def test_counts_agree_with_counting_by_hand(rows):
    source, label, content = zip(*rows, strict=True)
    pool = Pool.from_frame(pd.DataFrame({"source": source, "label": label, "content": content}))
    described = describe_pool(pool)
    assert sum(each.images for each in described.sources) == len(rows)
    assert sum(each.images for each in described.labels) + described.unlabelled == len(rows)
    for each in described.labels:
        assert each.by_source == {
            name: sum(s == name and y == each.level for s, y, _ in rows) for name in pool.names
        }
    for copy in described.copies:
        own, other = ([c for s, _, c in rows if s == name] for name in (copy.source, copy.other))
        others = Counter(other) - Counter(set(own) if copy.source == copy.other else ())
        assert copy.images == sum(content in others for content in own)
