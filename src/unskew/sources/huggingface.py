"""Hugging Face datasets: an object, a folder, or a name to fetch; images stay encoded until they
are needed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, ImageError, UnskewError, did_you_mean, first_few
from unskew.records import Pool
from unskew.records.arrays import Ints
from unskew.records.images import Images, JoinedImages, RawImage
from unskew.records.pool_table import pool_of_images
from unskew.sources.ids import unique_within
from unskew.sources.labels import as_label_lists
from unskew.sources.pixels import as_pixels
from unskew.sources.roles import only_columns, with_own_groups, with_roles

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


class HuggingFaceImages(Images):
    """The images of a dataset's column, as encoded bytes where they were stored so."""

    def __init__(self, dataset: Any, column: str, rows: Ints) -> None:
        self.dataset, self.column, self.rows = dataset, column, rows

    def __len__(self) -> int:
        return int(self.rows.size)

    def read(self, row: int) -> RawImage:
        """The image of that row."""
        try:
            stored = self.dataset[int(self.rows[row])][self.column]
        except (OSError, ValueError, IndexError) as error:
            raise ImageError(f"row {int(self.rows[row])} of the dataset: {error}") from error
        return as_pixels(stored)

    def take(self, rows: Ints) -> HuggingFaceImages:
        """The images of these rows."""
        return HuggingFaceImages(self.dataset, self.column, self.rows[rows])


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
    """A dataset that holds all sources in a column; or ``{name: dataset}``, one for each.

    Parameters
    ----------
    dataset : a ``datasets.Dataset`` or ``DatasetDict``; a folder written by ``save_to_disk``; a
        folder of images as ``imagefolder`` reads it; or a name on the hub, fetched by
        ``load_dataset``.
    source, label, id, group, split : names of columns; without them, the columns of these names.
        Labels of a ``ClassLabel`` are its names. Without a column, the split is the dataset's own
        (train, validation, test), and ids are ``source/split/row``.
    image : the column of images; the only one unless said.
    images : False for the other columns alone.
    base : the folder that folders start from.
    """
    import pandas as pd

    if isinstance(dataset, Mapping) and not _is_dataset(dataset):
        if source is not None:
            raise ConfigError(
                f"huggingface names a dataset for each source ({first_few(list(dataset))}), so "
                "`source` has nothing to say."
            )
        each = dict(dataset)
    else:
        each = {None: dataset}
    named = only_columns(
        {"source": source, "label": label, "id": id, "group": group, "split": split}, "datasets"
    )
    frames, pictures = list[pd.DataFrame](), list[Images]()
    for name, given in each.items():
        said = os.fspath(given) if isinstance(given, str | os.PathLike) else type(given).__name__
        for part, rows in _parts(given, said, os.fspath(base)).items():
            frame, column = _table(rows, part, named, name, image if images else None, images, said)
            frames.append(frame)
            if images:
                pictures.append(
                    HuggingFaceImages(_encoded(rows, column), column, np.arange(len(frame)))
                )
    joined = as_label_lists(pd.concat(frames, ignore_index=True), None, "the dataset")
    joined = joined.assign(
        id=unique_within(joined["id"].tolist(), joined["source"].astype(str).tolist())
    )
    return pool_of_images(
        with_own_groups(joined, "the dataset"), JoinedImages(pictures) if images else None
    )


def _package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            "Hugging Face datasets need the package `datasets`: pip install 'unskew[hf]'."
        ) from error
    return datasets


def _is_dataset(given: Any) -> bool:
    """A DatasetDict is a dict, too."""
    return type(given).__module__.split(".")[0] == "datasets"


def _parts(given: Any, said: str, base: str) -> dict[str | None, Any]:
    """The splits of a dataset by name; None for one without."""
    datasets = _package()
    if isinstance(given, str | os.PathLike):
        given = _load(datasets, os.fspath(given), base)
    if isinstance(given, datasets.IterableDataset | datasets.IterableDatasetDict):
        raise ConfigError(
            f"{said!r} is a stream; weights belong to images that can be found again. Load it "
            "without streaming=True."
        )
    if isinstance(given, datasets.DatasetDict):
        return {str(name): rows for name, rows in given.items()}
    if isinstance(given, datasets.Dataset):
        return {None if given.split is None else str(given.split): given}
    raise ConfigError(
        "a Hugging Face dataset is a Dataset, a DatasetDict, a folder or a name; got "
        f"{type(given).__name__}."
    )


def _load(datasets: Any, said: str, base: str) -> Any:
    place = os.path.join(base, said)
    try:
        if not os.path.isdir(place):
            return datasets.load_dataset(said)
        saved = any(
            os.path.isfile(os.path.join(place, name))
            for name in ("dataset_dict.json", "state.json")
        )
        return (
            datasets.load_from_disk(place)
            if saved
            else datasets.load_dataset("imagefolder", data_dir=place)
        )
    except UnskewError:
        raise
    except Exception as error:  # the package raises whatever its parts raise
        if os.path.isdir(place):
            raise DataError(
                f"{said!r} is no Hugging Face dataset that can be read: {error}."
            ) from error
        raise DataError(
            f"the dataset {said!r} is not a folder here, and cannot be fetched from the hub: "
            f"{error}. "
            "Is the name right, and is this machine connected to the network?"
        ) from error


def _table(
    rows: Any,
    part: str | None,
    named: Mapping[str, Any],
    source: str | None,
    image: str | None,
    images: bool,
    said: str,
) -> tuple[pd.DataFrame, str]:
    """The columns that are no images, in their roles, and the column that is."""
    datasets = _package()
    pictures = [
        name for name, feature in rows.features.items() if isinstance(feature, datasets.Image)
    ]
    column = _image_column(pictures, list(rows.features), image, said) if images else ""
    others = [
        name
        for name, feature in rows.features.items()
        if name not in pictures and _is_plain(feature, datasets)
    ]
    frame = rows.select_columns(others).to_pandas() if others else None
    frame = _named_classes(frame, rows.features, datasets, len(rows))
    frame = with_roles(frame, named, f"the dataset {said!r}", source)
    if "source" not in frame.columns:
        raise DataError(
            f"the dataset {said!r} does not say which source each image comes from; its columns "
            f"are {first_few(list(rows.features), 12)}. "
            'Name that column (source = "…"), or give each source a dataset of its own '
            '(huggingface = { north = "north", … }).'
        )
    if part is not None and "split" not in frame.columns and named["split"] is not False:
        frame["split"] = part
    if "id" not in frame.columns:
        between = "" if part is None else f"{part}/"
        frame["id"] = [
            f"{name}/{between}{row}" for row, name in enumerate(frame["source"].astype(str))
        ]
    return frame, column


def _image_column(pictures: list[str], every: list[str], asked: str | None, said: str) -> str:
    if asked is not None:
        if asked not in pictures:
            raise DataError(
                f"the dataset {said!r} has no images in {asked!r}, only in "
                f"{first_few(pictures) or 'none'}.{did_you_mean(asked, every)}"
            )
        return asked
    if len(pictures) != 1:
        have = (
            f"several columns of images, {first_few(pictures)}; name one (image = …)"
            if pictures
            else f"no column of images; it has {first_few(every, 12)}"
        )
        raise DataError(f"the dataset {said!r} has {have}.")
    return pictures[0]


def _is_plain(feature: Any, datasets: Any) -> bool:
    """Values, names of classes, and lists of these; arrays, audio and nested records are left
    out.
    """
    inner = getattr(feature, "feature", None)
    if inner is not None:
        return isinstance(inner, datasets.Value | datasets.ClassLabel)
    return isinstance(feature, datasets.Value | datasets.ClassLabel)


def _named_classes(
    frame: pd.DataFrame | None, features: Any, datasets: Any, n: int
) -> pd.DataFrame:
    """Codes of classes as their names; -1, where the label is not known, as missing."""
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
    """The same dataset, whose images come as they are stored; the other columns stay on the
    disk.
    """
    return rows.select_columns([column]).cast_column(column, _package().Image(decode=False))
