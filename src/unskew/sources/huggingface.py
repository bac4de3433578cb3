"""Hugging Face datasets: an object, a folder, or a name; images stay encoded until needed."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, ImageError, UnskewError, did_you_mean, first_few
from unskew.files.addresses import check_asking
from unskew.files.reading import check_regular
from unskew.records import Pool
from unskew.records.pool import Images, JoinedImages, RawImage
from unskew.records.pool_table import pool_of_images
from unskew.sources.label_sets import as_label_lists
from unskew.sources.pixels import as_pixels
from unskew.sources.roles import (
    no_source,
    only_columns,
    parts_by_source,
    with_roles,
    with_unique_ids,
)

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


class HuggingFaceImages(Images):
    """The images of a dataset's column, as encoded bytes where they were stored so."""

    def __init__(self, dataset: Any, column: str) -> None:
        super().__init__(len(dataset))
        self.dataset, self.column = dataset, column

    def read(self, row: int) -> RawImage:
        """Return the image of that row."""
        try:
            stored = self.dataset[row][self.column]
        except (OSError, ValueError, IndexError) as error:
            raise ImageError(f"row {row} of the dataset: {error}") from error
        return as_pixels(stored)


@checked
def read_huggingface(
    dataset: Any,
    *,
    source: str | None = None,
    label: Any = None,
    id: str | None = None,
    group: str | None = None,
    split: Any = None,
    image: str | None = None,
    images: bool = True,
    base: str | os.PathLike[str] = ".",
) -> Pool:
    """Read a dataset that names the source in a column; or ``{name: dataset}``, one for each.

    Parameters
    ----------
    dataset : a ``datasets.Dataset`` or ``DatasetDict``; a folder written by ``save_to_disk``; a
        folder of images as ``imagefolder`` reads it; or a name on the hub, fetched by
        ``load_dataset``.
    source, label, id, group, split : names of columns; without them, the columns of these names.
        Labels of a ``ClassLabel`` are its names. Without a column, the split is the dataset's own
        (train, validation, test), and ids are ``source/split/row``.
    image : the column of images; needed only where there are several.
    images : False for the other columns alone.
    base : the folder that folders start from.
    """
    import pandas as pd

    # A DatasetDict is a dict, but not of sources.
    is_one = type(dataset).__module__.split(".")[0] == "datasets"
    by_source = {None: dataset} if is_one else parts_by_source("huggingface", dataset, source)
    named = only_columns(
        {"source": source, "label": label, "id": id, "group": group, "split": split}, "datasets"
    )
    frames, pictures = list[pd.DataFrame](), list[Images]()
    for source_name, one in by_source.items():
        name = os.fspath(one) if isinstance(one, str | os.PathLike) else type(one).__name__
        for part, rows in _parts(one, name, os.fspath(base)).items():
            frame, column = _table(rows, part, named, source_name, image, images, name)
            frames.append(frame)
            if images:
                pictures.append(HuggingFaceImages(_encoded(rows, column), column))
    joined = as_label_lists(pd.concat(frames, ignore_index=True), None, "the dataset")
    return pool_of_images(
        with_unique_ids(joined, "the dataset"), JoinedImages(pictures) if images else None
    )


def _package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            "Hugging Face datasets need the package `datasets`: pip install 'unskew[hf]'.",
            package="datasets",
            extra="hf",
        ) from error
    return datasets


def _parts(dataset: Any, name: str, base: str) -> dict[str | None, Any]:
    """Return the splits of a dataset by name; None for one without."""
    datasets = _package()
    if isinstance(dataset, str | os.PathLike):
        dataset = _load(datasets, os.fspath(dataset), base)
    if isinstance(dataset, datasets.IterableDataset | datasets.IterableDatasetDict):
        raise ConfigError(
            f"{name!r} is a stream; weights belong to images that can be found again. Load it "
            "without streaming=True.",
            value=name,
        )
    if isinstance(dataset, datasets.DatasetDict):
        return {str(split): rows for split, rows in dataset.items()}
    if isinstance(dataset, datasets.Dataset):
        return {None if dataset.split is None else str(dataset.split): dataset}
    raise ConfigError(
        "a Hugging Face dataset is a Dataset, a DatasetDict, a folder or a name; got "
        f"{type(dataset).__name__}.",
        value=type(dataset).__name__,
    )


def _load(datasets: Any, name: str, base: str) -> Any:
    folder = os.path.join(base, name)
    try:
        if not os.path.isdir(folder):
            _check_hub_name(name)
            check_asking(f"hf://datasets/{name}")
            return datasets.load_dataset(name)
        saved = any(
            os.path.isfile(os.path.join(folder, file))
            for file in ("dataset_dict.json", "state.json")
        )
        if saved:
            for root, _, names in os.walk(folder):
                for name in names:
                    check_regular(os.path.join(root, name))
        return (
            datasets.load_from_disk(folder)
            if saved
            else datasets.load_dataset("imagefolder", data_dir=folder)
        )
    except UnskewError:
        raise
    except Exception as error:  # the package raises whatever its parts raise
        if os.path.isdir(folder):
            raise DataError(
                f"{name!r} cannot be read as a Hugging Face dataset: {error}.", path=name
            ) from error
        raise DataError(
            f"the dataset {name!r} is not a folder here, and cannot be fetched from the hub: "
            f"{error}. Is the name right, and is this machine connected to the network?",
            value=name,
        ) from error


def _check_hub_name(name: str) -> None:
    """Refuse what the package takes for files of the working directory, or a reader of such.

    Until version 5 one of these readers, ``pandas``, loads pickles.
    """
    is_reader = name.isidentifier() and find_spec(f"datasets.packaged_modules.{name}") is not None
    if is_reader or os.path.exists(name):
        raise DataError(
            f"{name!r} is no folder here, and no name of a dataset on the hub: the package "
            "`datasets` would read files of the working directory. Name the folder of the data.",
            value=name,
        )


def _table(
    rows: Any,
    part: str | None,
    named: Mapping[str, Any],
    source: str | None,
    image: str | None,
    images: bool,
    name: str,
) -> tuple[pd.DataFrame, str]:
    """Return the columns other than images, in their roles, and the name of the image column."""
    datasets = _package()
    pictures = [
        column for column, feature in rows.features.items() if isinstance(feature, datasets.Image)
    ]
    column = _image_column(pictures, list(rows.features), image, name) if images else ""
    others = [
        other
        for other, feature in rows.features.items()
        if other not in pictures and _is_plain(feature, datasets)
    ]
    frame = rows.select_columns(others).to_pandas() if others else None
    frame = _named_classes(frame, rows.features, datasets, len(rows))
    frame = with_roles(frame, named, f"the dataset {name!r}", source)
    if "source" not in frame.columns:
        example = 'huggingface = { north = "north", … }'
        raise no_source(list(rows.features), f"the dataset {name!r}", example)
    if part is not None and "split" not in frame.columns and named["split"] is not False:
        frame["split"] = part
    if "id" not in frame.columns:
        between = "" if part is None else f"{part}/"
        frame["id"] = [
            f"{origin}/{between}{row}" for row, origin in enumerate(frame["source"].astype(str))
        ]
    return frame, column


def _image_column(pictures: list[str], every: list[str], asked: str | None, name: str) -> str:
    if asked is not None:
        if asked not in pictures:
            raise DataError(
                f"the dataset {name!r} has no images in {asked!r}, only in "
                f"{first_few(pictures) or 'none'}.{did_you_mean(asked, every)}",
                column=asked,
                columns=pictures,
            )
        return asked
    if len(pictures) != 1:
        have = (
            f"several columns of images, {first_few(pictures)}; name one (image = …)"
            if pictures
            else f"no column of images; it has {first_few(every, 12)}"
        )
        raise DataError(f"the dataset {name!r} has {have}.", columns=pictures)
    return pictures[0]


def _is_plain(feature: Any, datasets: Any) -> bool:
    """Tell values, names of classes and lists of these from arrays, audio and nested records."""
    inner = getattr(feature, "feature", None)
    if inner is not None:
        return isinstance(inner, datasets.Value | datasets.ClassLabel)
    return isinstance(feature, datasets.Value | datasets.ClassLabel)


def _named_classes(
    frame: pd.DataFrame | None, features: Any, datasets: Any, n: int
) -> pd.DataFrame:
    """Replace codes of classes by their names; -1, an unknown label, becomes missing."""
    import pandas as pd

    if frame is None:
        return pd.DataFrame(index=range(n))
    for name in frame.columns:
        inner = getattr(features[name], "feature", features[name])
        if not isinstance(inner, datasets.ClassLabel):
            continue
        names = inner.names
        named = [
            [names[int(code)] for code in value if code is not None and code >= 0]
            if isinstance(value, np.ndarray | list)
            else names[int(value)]
            if value is not None and value >= 0
            else None
            for value in frame[name]
        ]
        frame[name] = pd.Series(named, dtype=object, index=frame.index)
    return frame


def _encoded(rows: Any, column: str) -> Any:
    """Return the dataset with its images as stored, not decoded, and without other columns."""
    return rows.select_columns([column]).cast_column(column, _package().Image(decode=False))
