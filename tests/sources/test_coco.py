"""COCO files: one row for each image; the weight of an image is its boxes'."""

import json
import logging

import numpy as np
import pytest

import unskew
from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.sources.coco import annotation_weights


def write(path, labels, boxes=True, **more):
    """Images 1, 2, … with the categories given, one annotation each; categories a (id 10), b (20),
    c (30).
    """
    images = [
        {"id": at, "file_name": f"{at}.jpg", "width": 8, "height": 6, "flickr": {"x": 1}}
        for at in range(1, len(labels) + 1)
    ]
    annotations = []
    for image, names in zip(images, labels, strict=True):
        for name in names:
            annotations.append(
                {
                    "id": 100 + len(annotations),
                    "image_id": image["id"],
                    "category_id": {"a": 10, "b": 20, "c": 30}[name],
                }
            )
            if boxes:
                annotations[-1]["bbox"] = [0, 0, 2, 2]
        (path.parent / image["file_name"]).write_bytes(b"x")
    categories = [
        {"id": 10, "name": "a", "supercategory": "first"},
        {"id": 20, "name": "b", "supercategory": "first"},
        {"id": 30, "name": "c"},
    ]
    path.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories} | more)
    )
    return path


def test_detection_labels_are_lists_of_categories(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        pool = Pool.from_coco({"s": write(tmp_path / "c.json", ["ba", "aa", "", "c"])})
    assert pool.frame["label"].tolist() == [["a", "b"], ["a"], [], ["c"]]
    assert pool.frame["n_boxes"].tolist() == [2, 2, 0, 1]
    assert pool.frame["id"].tolist() == [1, 2, 3, 4]
    assert pool.attributes == ("width", "height", "n_boxes")
    assert "1 images show several categories; labels are lists" in caplog.text
    joined = Pool.from_coco({"s": tmp_path / "c.json"}, several="join")
    assert joined.frame["label"].tolist()[:2] == ["a+b", "a"]


def test_one_category_each_is_a_plain_label(tmp_path):
    pool = Pool.from_coco({"s": write(tmp_path / "c.json", ["b", "aa", "", "c"], boxes=False)})
    assert pool.frame["label"].tolist()[:2] == ["b", "a"]
    assert pool.frame["label"].isna().tolist() == [False, False, True, False]
    assert "n_boxes" not in pool.frame
    assert Pool.from_coco({"s": tmp_path / "c.json"}, several="list").frame["label"].tolist() == [
        ["b"],
        ["a"],
        [],
        ["c"],
    ]


def test_supercategories_and_fields_as_labels(tmp_path):
    write(
        tmp_path / "c.json",
        ["b", "a"],
        categories=[
            {"id": 10, "name": "a", "supercategory": "x"},
            {"id": 20, "name": "b", "supercategory": "y"},
        ],
    )
    assert Pool.from_coco({"s": tmp_path / "c.json"}, label="supercategory").frame[
        "label"
    ].tolist() == ["y", "x"]
    assert Pool.from_coco({"s": tmp_path / "c.json"}, label="width").frame["label"].tolist() == [
        8,
        8,
    ]
    with refused(DataError, column="widht") as caught:
        Pool.from_coco({"s": tmp_path / "c.json"}, label="widht")
    assert "Did you mean 'width'" in str(caught.value)


def test_ids_that_two_files_share_begin_with_the_source(tmp_path):
    write(tmp_path / "c.json", ["a", "b"])
    write(tmp_path / "d.json", ["c"])
    pool = Pool.from_coco({"s": tmp_path / "c.json", "t": tmp_path / "d.json"})
    assert pool.frame["id"].tolist() == ["s/1", "2", "t/1"]
    assert annotation_weights(
        tmp_path / "d.json", {"s/1": 0.5, "2": 0.3, "t/1": 0.2}, source="t"
    ).values.tolist() == [[100, 1, 0.2]]


def test_every_annotation_has_the_weight_of_its_image(tmp_path):
    file = write(tmp_path / "c.json", ["ab", "a", "", "cbb"])
    pool = Pool.from_coco({"s": file})
    weight = np.array([8, 4, 2, 1]) / 15
    found = annotation_weights(file, dict(zip(pool.frame["id"], weight, strict=True)))
    assert found["image_id"].tolist() == [1, 1, 2, 4, 4, 4]
    assert found["annotation_id"].tolist() == [100, 101, 102, 103, 104, 105]
    assert found["weight"].to_numpy() == pytest.approx(np.array([8, 8, 4, 1, 1, 1]) / 15)
    # Totals over boxes are totals over images, each counted as often as it has boxes.
    assert found["weight"].sum() == pytest.approx(weight @ pool.frame["n_boxes"])
    assert annotation_weights(file, {4: 1.0})["image_id"].tolist() == [4, 4, 4]
    with refused(DataError, path=str(file)) as caught:
        annotation_weights(file, {"other": 1.0})
    assert "other" in str(caught.value)


def test_weights_with_ids_of_their_own(tmp_path):
    file = write(tmp_path / "c.json", ["a", "b", "a", "b"])
    pool = Pool.from_coco({"s": file})
    weights = unskew.debias(
        pool,
        unskew.bias.Strata(by=["label"]),
        unskew.Target.margins({"label": {"a": 0.25, "b": 0.75}}),
    )
    assert annotation_weights(file, weights)["weight"].to_numpy() == pytest.approx(
        [0.125, 0.375, 0.125, 0.375]
    )


@pytest.mark.parametrize(
    ("change", "facts", "hint"),
    [
        ({"images": []}, {"count": 0}, ""),
        ({"images": [{"file_name": "1.jpg"}]}, {"row": 1}, "no id"),
        ({"images": {"a": 1}}, {"key": "images"}, ""),
        ({"annotations": [{"id": 1, "image_id": 99, "category_id": 10}]}, {"id": 99}, ""),
        ({"annotations": [{"id": 1, "image_id": 1, "category_id": 99}]}, {"levels": [99]}, ""),
        ({"categories": [{"id": 1}]}, {"key": "name"}, "category"),
        (
            {
                "categories": [],
                "annotations": [{"id": 1, "image_id": 1, "caption": "a cat on a mat"}],
            },
            {},
            "instances_",
        ),
    ],
)
def test_coco_files_that_cannot_work(tmp_path, change, facts, hint):
    write(tmp_path / "c.json", ["a", "b"], **change)
    with refused(DataError, path=str(tmp_path / "c.json"), **facts) as caught:
        Pool.from_coco({"s": tmp_path / "c.json"})
    assert hint in str(caught.value)


def test_other_calls_that_cannot_work(tmp_path):
    write(tmp_path / "c.json", ["a", "b"])
    with refused(ConfigError, option="several", value="jion") as caught:
        Pool.from_coco({"s": tmp_path / "c.json"}, several="jion")
    assert "Did you mean 'join'" in str(caught.value)
    (tmp_path / "m.csv").write_text("path,source\n1.jpg,n\n")
    with refused(ConfigError, option="several", path=str(tmp_path / "m.csv")):
        Pool.from_manifest(tmp_path / "m.csv", several="list")
    with refused(DataError, path=str(tmp_path / "m.csv")):
        annotation_weights(tmp_path / "m.csv", {})
    (tmp_path / "broken.json").write_text('{"images": [')
    with refused(DataError, path=str(tmp_path / "broken.json")):
        Pool.from_coco({"s": tmp_path / "broken.json"})
