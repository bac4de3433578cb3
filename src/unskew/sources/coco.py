"""COCO and COCO Camera Traps: one row for each image, its categories as labels."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError, did_you_mean, first_few, wrong_option
from unskew.files.reading import damage_named, parse_json
from unskew.records import Weights
from unskew.sources.tables import LocatedTable

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)
_SEVERAL = ("list", "join")


def coco_table(
    file: str, user_path: str, label: str | None = None, several: str | None = None
) -> LocatedTable | None:
    """Read the images of a COCO file with their fields, ``label`` and ``n_boxes``.

    Returns None if the file is not a COCO file. ``label`` is the name of the image's category: of
    all its annotations together, each once, in the order of the categories. If no image has more
    than one, labels are text, and images without annotations have none; else every label is a list,
    empty without annotations (``several = "join"``: ``fox+hare`` as one level). ``n_boxes`` counts
    the annotations that have a box.

    Parameters
    ----------
    file, user_path : the file, and its path as the user wrote it.
    label : ``"supercategory"`` for that name of the category, or the name of a field of the images;
        the category by default.
    several : ``"list"`` or ``"join"``.
    """
    coco = load_coco(file, user_path)
    if coco is None:
        return None
    import pandas as pd

    frame = pd.DataFrame([_plain(image) for image in coco["images"]])
    of_image = _annotations_of_images(coco, user_path)
    named = label if label in frame.columns else None
    if named is not None:
        frame = frame.rename(columns={named: "label"})
    elif label not in (None, "category", "supercategory"):
        raise DataError(
            f"the images of {user_path!r} have no field {label!r} for their label; it is "
            "'category', 'supercategory' or one of "
            f"{first_few(list(frame.columns), 12)}.{did_you_mean(label, frame.columns)}",
            path=user_path,
            column=label,
            columns=list(frame.columns),
        )
    elif _holds_captions(coco):
        raise DataError(
            f"{user_path!r} holds captions and no categories, so what the images show is unknown. "
            "Use the file of the same images that has categories (instances_… instead of "
            "captions_…), "
            'or name the field of the images that is their label (label = "…"); they have '
            f"{first_few(list(frame.columns), 12)}.",
            path=user_path,
            columns=list(frame.columns),
        )
    elif coco["annotations"] or coco["categories"]:
        names = _category_names(
            coco, "supercategory" if label == "supercategory" else "name", user_path
        )
        frame["label"] = _labels(of_image, names, several, user_path)
    boxes = [sum(1 for annotation in listed if annotation.get("bbox")) for listed in of_image]
    if any(boxes):
        frame["n_boxes"] = boxes
    return LocatedTable(frame, list(range(1, len(frame) + 1)), "image")


def load_coco(file: str, user_path: str) -> dict[str, Any] | None:
    """Read images, annotations and categories, checked; None if the file is not a COCO file."""
    if not user_path.lower().endswith(".json") or not os.path.isfile(file):
        return None
    with damage_named(user_path, "JSON"), open(file, encoding="utf-8-sig") as stream:
        content = parse_json(stream.read())
    if not isinstance(content, dict) or "images" not in content:
        return None
    parts = {part: content.get(part) or [] for part in ("images", "annotations", "categories")}
    for part, entries in parts.items():
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise DataError(
                f"{user_path!r}: {part!r} of a COCO file is a list of objects; got "
                f"{str(entries)[:60]}.",
                path=user_path,
                key=part,
            )
    if not parts["images"]:
        raise DataError(f"{user_path!r} is a COCO file without images.", path=user_path, count=0)
    for at, image in enumerate(parts["images"]):
        if not isinstance(image.get("id"), str | int):
            raise DataError(
                f"{user_path!r}: image {at + 1} of the COCO file has no id: {str(image)[:80]}.",
                path=user_path,
                row=at + 1,
            )
    return parts


def _plain(image: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the fields that a column can hold, without lists and objects (licences, polygons)."""
    return {name: value for name, value in image.items() if not isinstance(value, dict | list)}


def _holds_captions(coco: Mapping[str, Any]) -> bool:
    """Tell whether there are sentences instead of categories (captions_train2017.json)."""
    return not coco["categories"] and any(
        "caption" in annotation and "category_id" not in annotation
        for annotation in coco["annotations"]
    )


def _annotations_of_images(coco: Mapping[str, Any], user_path: str) -> list[list[dict[str, Any]]]:
    position = {image["id"]: at for at, image in enumerate(coco["images"])}
    of_image: list[list[dict[str, Any]]] = [[] for _ in coco["images"]]
    for annotation in coco["annotations"]:
        for field in ("image_id", "category_id"):
            if not isinstance(annotation.get(field), str | int | None):
                raise DataError(
                    f"{user_path!r}: {field} of an annotation is a number or text; got "
                    f"{str(annotation)[:80]}.",
                    path=user_path,
                    key=field,
                )
        at = position.get(annotation.get("image_id"))
        if at is None:
            raise DataError(
                f"{user_path!r}: annotation {annotation.get('id')!r} belongs to image "
                f"{annotation.get('image_id')!r}, which the file does not list. Was the list of "
                "images shortened, but not that of the annotations?",
                path=user_path,
                id=annotation.get("image_id"),
            )
        of_image[at].append(annotation)
    return of_image


def _category_names(coco: Mapping[str, Any], field: str, user_path: str) -> dict[Any, str]:
    names: dict[Any, str] = {}
    for category in coco["categories"]:
        if not isinstance(category.get("id"), str | int) or category.get(field) is None:
            raise DataError(
                f"{user_path!r}: every category has an id and a {field}; got {str(category)[:80]}.",
                path=user_path,
                key=field,
            )
        names[category["id"]] = str(category[field])
    return names


def _labels(
    of_image: list[list[dict[str, Any]]],
    names: Mapping[Any, str],
    several: str | None,
    user_path: str,
) -> Any:
    if several is not None and several not in _SEVERAL:
        raise wrong_option(
            f"several is {' or '.join(map(repr, _SEVERAL))}",
            several=several,
            allowed=list(_SEVERAL),
        )
    rank = {name: at for at, name in enumerate(dict.fromkeys(names.values()))}
    lists = []
    for listed in of_image:
        codes = [annotation.get("category_id") for annotation in listed]
        unknown = [code for code in codes if code not in names]
        if unknown:
            raise DataError(
                f"{user_path!r}: annotations name categories that the file does not list: "
                f"{first_few(unknown)}.",
                path=user_path,
                levels=unknown,
            )
        lists.append(sorted({names[code] for code in codes}, key=rank.__getitem__))
    most = max(len(labels) for labels in lists)
    if several == "join" or (most <= 1 and several is None):
        return ["+".join(labels) or None for labels in lists]
    logger.info(
        "%s: %d images show several categories; labels are lists",
        user_path,
        sum(len(labels) > 1 for labels in lists),
    )
    column = np.empty(len(lists), dtype=object)
    column[:] = lists
    return column


def annotation_weights(
    file: str | os.PathLike[str],
    weights: Weights | Mapping[Any, float] | pd.Series[float],
    source: str | None = None,
) -> pd.DataFrame:
    """Give every annotation of a COCO file the weight of its image.

    Returns the columns annotation_id, image_id and weight. For detection and segmentation the image
    is what was selected, so all its boxes and pixels have its weight. Annotations of images that
    have no weight (set aside, or left out by the model) are not in the table.

    Parameters
    ----------
    file : the COCO file that the pool was read from.
    weights : the weights of the pool, or weights by image id.
    source : the name of the source, where ids begin with it (``north/17``).
    """
    import pandas as pd

    coco = load_coco(os.fspath(file), os.fspath(file))
    if coco is None:
        raise DataError(
            f"{os.fspath(file)!r} is not a COCO file: a JSON object with images and annotations.",
            path=os.fspath(file),
        )
    if isinstance(weights, Weights):
        if weights.id is None:
            raise DataError(
                "these weights carry no ids, so which image each belongs to is unknown. Compute "
                "them with unskew.debias(pool, …)."
            )
        weights = dict(zip(np.asarray(weights.id).tolist(), weights.weight.tolist(), strict=True))
    by_id = {str(id): float(weight) for id, weight in weights.items()}
    prefix = "" if source is None else f"{source}/"
    rows = []
    for annotation in coco["annotations"]:
        weight = by_id.get(
            f"{prefix}{annotation.get('image_id')}", by_id.get(str(annotation.get("image_id")))
        )
        if weight is not None:
            rows.append((annotation.get("id"), annotation.get("image_id"), weight))
    if coco["annotations"] and not rows:
        raise DataError(
            f"no annotation of {os.fspath(file)!r} belongs to an image that has a weight; ids of "
            f"weights are like {first_few(list(by_id), 3)}, ids of images like "
            f"{first_few([image['id'] for image in coco['images']], 3)}.",
            path=os.fspath(file),
        )
    return pd.DataFrame(rows, columns=["annotation_id", "image_id", "weight"])
