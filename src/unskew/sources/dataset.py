"""Datasets like those of torch: a length, and items (image, label) or {"image": …, "label": …}.

torch itself is not needed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, ImageError, first_few
from unskew.records import Pool
from unskew.records.pool import Images, JoinedImages, RawImage
from unskew.records.pool_table import pool_of_images
from unskew.sources.pixels import as_pixels

logger = logging.getLogger(__name__)
_IMAGE_KEYS = ("image", "img", "pixel_values", "x", 0)
_LABEL_KEYS = ("label", "labels", "target", "y", 1)


class DatasetImages(Images):
    """The images of a dataset, one item fetched at a time, whatever the number of threads."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(len(dataset))
        self.dataset = dataset
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return DatasetImages, (self.dataset,)

    def read(self, row: int) -> RawImage:
        """Return the image of that row."""
        try:
            with self._lock:
                item = self.dataset[row]
        # Whatever a user's dataset raises, one image is unusable, not the run.
        except Exception as error:
            raise ImageError(
                f"item {row} of the dataset: {type(error).__name__}: {error}"
            ) from error
        return as_pixels(_part(item, _IMAGE_KEYS, row))


def _part(item: Any, keys: Sequence[Any], at: int) -> Any:
    if isinstance(item, Mapping):
        key = next((key for key in keys if key in item), None)
        if key is None:
            raise ImageError(
                f"item {at} of the dataset has none of {first_few(keys[:-1])}; it has "
                f"{first_few(list(item))}"
            )
        return item[key]
    if isinstance(item, tuple | list):
        if len(item) <= keys[-1]:
            raise ImageError(
                f"item {at} of the dataset has {len(item)} parts; (image, label) was expected"
            )
        return item[keys[-1]]
    # A dataset without labels may give bare images.
    return item


@checked
def read_dataset(
    datasets: Mapping[str, Any] | Any,
    *,
    label: Collection[Any] | Literal[False] | None = None,
    source: Collection[Any] | None = None,
    **columns: Any,
) -> Pool:
    """Read datasets by name of source; or one dataset, with the source of every item.

    Parameters
    ----------
    datasets : ``{name: dataset}``, or a dataset: ``len(dataset)``, and items ``(image, label)``,
        ``{"image", "label"}`` or bare images. Images are arrays, tensors (channels first), Pillow
        images, or encoded bytes. They are fetched when they are needed.
    label : None: from ``dataset.targets`` (or ``labels``), with the names in ``dataset.classes`` if
        there are; a dataset that has none is read once from end to end for its labels. False: no
        labels. An array: the label of every item, source after source.
    source : of one dataset, an array that names the source of every item.
    columns : more columns, such as ``group``; an array each, with one entry for every item, source
        after source.

    Items are identified by their position, ``north/17``: it must not change. A random transform is
    applied again at each reading.
    """
    import pandas as pd

    parts = _datasets_by_name(datasets, source)
    sizes = [len(dataset) for dataset in parts.values()]
    names = (
        [name for name, size in zip(parts, sizes, strict=True) for _ in range(size)]
        if source is None
        else [str(name) for name in source]
    )
    _check_count("source", names, sum(sizes))
    position = [row for size in sizes for row in range(size)]
    frame = pd.DataFrame(
        {
            "id": [f"{name}/{row}" for name, row in zip(names, position, strict=True)],
            "source": names,
        }
    )
    if label is None:
        label = [value for dataset in parts.values() for value in _labels_of(dataset)]
    labels = [] if label is False else list(label)
    if labels:
        _check_count("label", labels, len(frame))
        frame["label"] = _label_column(labels)
    for role, values in columns.items():
        if values is not None:
            _check_count(role, values, len(frame))
            frame[role] = pd.Series(list(values))
    images = [DatasetImages(dataset) for dataset in parts.values()]
    return pool_of_images(frame, images[0] if len(images) == 1 else JoinedImages(images))


def _datasets_by_name(datasets: Any, source: Any) -> dict[str, Any]:
    if isinstance(datasets, Mapping) and source is not None:
        raise ConfigError(
            "datasets are given by name of source; leave `source` out.", option="source"
        )
    if not isinstance(datasets, Mapping) and source is None:
        raise ConfigError(
            "one dataset needs `source`, an array that names the source of every item; or give "
            "{name: dataset}.",
            option="source",
        )
    parts = datasets if isinstance(datasets, Mapping) else {"": datasets}
    for dataset in parts.values():
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ConfigError(
                f"a dataset has a length and items by number; {type(dataset).__name__} lacks one "
                "of the two. A stream has neither: write it to files first, because weights belong "
                "to images that can be found again.",
                value=type(dataset).__name__,
            )
    return {str(name): dataset for name, dataset in parts.items()}


def _check_count(column: str, values: Sequence[Any], n_items: int) -> None:
    if len(values) != n_items:
        raise DataError(
            f"{column} has one entry for each item of the dataset; got {len(values)} entries and "
            f"{n_items} items.",
            column=column,
            count=len(values),
            limit=n_items,
        )


def _label_column(labels: Sequence[Any]) -> Any:
    import pandas as pd

    column = np.empty(len(labels), dtype=object)
    column[:] = [label.tolist() if hasattr(label, "tolist") else label for label in labels]
    return pd.Series(column).infer_objects()


def _labels_of(dataset: Any) -> list[Any]:
    """Return the labels, by name where there are names; [] if items have none."""
    targets = _known_targets(dataset)
    if targets is None:
        if not len(dataset) or not _has_label(dataset[0]):
            return []
        logger.info(
            "%s has no targets: its %d items are read for their labels",
            type(dataset).__name__,
            len(dataset),
        )
        targets = [_part(dataset[at], _LABEL_KEYS, at) for at in range(len(dataset))]
    values = [target.tolist() if hasattr(target, "tolist") else target for target in targets]
    classes = getattr(dataset, "classes", None)
    if isinstance(classes, Sequence) and all(
        isinstance(value, int) and 0 <= value < len(classes) for value in values
    ):
        return [str(classes[value]) for value in values]
    return values


def _known_targets(dataset: Any) -> Sequence[Any] | None:
    for name in ("targets", "labels"):
        targets = getattr(dataset, name, None)
        if targets is not None and hasattr(targets, "__len__") and len(targets) == len(dataset):
            return list(targets)
    # torch's Subset: some items of another dataset.
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        whole = _labels_of(dataset.dataset)
        return [whole[int(at)] for at in dataset.indices] if whole else None
    return None


def _has_label(item: Any) -> bool:
    if isinstance(item, Mapping):
        return any(key in item for key in _LABEL_KEYS)
    return isinstance(item, tuple | list) and len(item) > 1
