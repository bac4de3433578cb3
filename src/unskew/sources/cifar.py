"""CIFAR-10 and CIFAR-100 as their authors distribute them, pickled or binary."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.records import Pool
from unskew.records.arrays import Ints
from unskew.records.pool import JoinedImages
from unskew.records.pool_table import pool_of_images
from unskew.sources.arrays import ArrayImages
from unskew.sources.cifar_files import CifarForm, download_cifar, find_cifar
from unskew.sources.pickled_arrays import load_arrays

_PIXELS = 3 * 32 * 32
_SPLITS = ("train", "test")
# Where the pickled form keeps the names of the classes, and the code of every image.
_NAMES = {
    "cifar-10": {"class": "label_names"},
    "cifar-100": {"class": "fine_label_names", "superclass": "coarse_label_names"},
}
_CODES = {
    "cifar-10": {"class": "labels"},
    "cifar-100": {"class": "fine_labels", "superclass": "coarse_labels"},
}


@dataclass(frozen=True)
class CifarPart:
    """The images of one split, (n, 32, 32, 3), and every image's code in each naming of classes."""

    images: npt.NDArray[np.uint8]
    codes: Mapping[str, Ints]


@checked
def read_cifar(
    place: str | os.PathLike[str] | Mapping[Any, str | os.PathLike[str]],
    *,
    split: str | None = None,
    label: str | None = None,
    verify: bool = True,
    download: bool = False,
    images: bool = True,
    base: str | os.PathLike[str] = ".",
) -> Pool:
    """Read the images of an official archive, with their class as label, in the official order.

    Ids are like ``cifar-10/train/17``. The files interleave labels and pixels, so that these are
    read together and kept in memory: 184 MB.

    Parameters
    ----------
    place : one of the archives cifar-10-python.tar.gz, cifar-10-binary.tar.gz,
        cifar-100-python.tar.gz, cifar-100-binary.tar.gz, or the folder that it unpacks to, or a
        folder that holds one of them; or ``{name: place}``, one for each source.
    split : ``"train"`` or ``"test"``; both by default, in the column split.
    label : of CIFAR-100, ``"class"`` (100 of them; the 20 superclasses are an attribute) or
        ``"superclass"`` (the reverse).
    verify : check the MD5 of the archive, or of the unpacked files, against the official ones.
    download : fetch the archive to ``place`` if it does not exist.
    images : False: the table alone.
    base : the folder that relative paths start from.
    """
    import pandas as pd

    if split is not None and split not in _SPLITS:
        raise wrong_option(
            "split of CIFAR is 'train' or 'test', or left out for both",
            split=split,
            allowed=list(_SPLITS),
        )
    if label not in (None, "class", "superclass"):
        raise wrong_option(
            "label of CIFAR is 'class' or 'superclass'",
            label=label,
            allowed=["class", "superclass"],
        )
    paths: Mapping[Any, Any] = place if isinstance(place, Mapping) else {None: place}
    if not paths:
        raise ConfigError("place names no archive: it is empty.", option="place", value={})
    frames, pictures = [], []
    for name, path in paths.items():
        user_path = os.fspath(path)
        full_path = os.path.join(base, user_path)
        if download:
            download_cifar(full_path, user_path)
        distribution, content = find_cifar(full_path, user_path, verify)
        classes = class_names(distribution, content, user_path)
        for part_name in _SPLITS if split is None else (split,):
            part = read_part(distribution, part_name, content, user_path)
            frames.append(
                _table(part, part_name, str(name or distribution.data), classes, label, user_path)
            )
            pictures.append(ArrayImages(part.images))
    return pool_of_images(
        pd.concat(frames, ignore_index=True), JoinedImages(pictures) if images else None
    )


def _table(
    part: CifarPart,
    split: str,
    source: str,
    classes: Mapping[str, Sequence[str]],
    label: str | None,
    user_path: str,
) -> Any:
    import pandas as pd

    columns = {}
    for naming, code_n in part.codes.items():
        names = classes[naming]
        if code_n.size and not 0 <= code_n.min() <= code_n.max() < len(names):
            raise DataError(
                f"{user_path!r}: labels are between 0 and {len(names) - 1}, but one is "
                f"{int(code_n.max())}.",
                path=user_path,
                value=int(code_n.max()),
                limit=len(names) - 1,
            )
        columns[naming] = np.array(names, dtype=object)[code_n]
    chosen = label or "class"
    if chosen not in columns:
        raise ConfigError(
            f"{user_path!r} is CIFAR-10, whose classes have no superclasses.",
            option="label",
            value=label,
            path=user_path,
        )
    n = len(part.images)
    frame = pd.DataFrame(
        {
            "id": [f"{source}/{split}/{row}" for row in range(n)],
            "source": source,
            "label": columns.pop(chosen),
            "split": split,
        }
    )
    return frame.assign(**columns)


def class_names(
    distribution: CifarForm, content: Mapping[str, bytes], user_path: str
) -> dict[str, list[str]]:
    """Read the names of the classes, and of CIFAR-100's superclasses, in the order of codes."""
    if distribution.pickled:
        meta = load_arrays(content[distribution.names[0]], f"{user_path}/{distribution.names[0]}")
        lists = {naming: meta.get(key) for naming, key in _NAMES[distribution.data].items()}
    else:
        lists = {
            naming: content[file].decode("latin-1").split()
            for naming, file in zip(("class", "superclass"), distribution.names, strict=False)
        }
    for naming, names in lists.items():
        if not isinstance(names, list) or not names:
            raise DataError(f"{user_path!r} does not name its {naming}es.", path=user_path)
    return {
        naming: [
            name.decode("latin-1") if isinstance(name, bytes) else str(name) for name in names or []
        ]
        for naming, names in lists.items()
    }


def read_part(
    distribution: CifarForm, split: str, content: Mapping[str, bytes], user_path: str
) -> CifarPart:
    """Read images and codes of one split from the content of its files."""
    read = _read_pickled if distribution.pickled else _read_binary
    batches = [
        read(content[file], distribution.data, f"{user_path}/{file}")
        for file in distribution.parts[split]
    ]
    planes = np.concatenate([planes for planes, _ in batches])
    codes = {
        naming: np.concatenate([codes[naming] for _, codes in batches]) for naming in batches[0][1]
    }
    # Three planes of 32 rows each, red first -> channels last.
    return CifarPart(
        np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), codes
    )


def _read_pickled(
    content: bytes, data: str, user_path: str
) -> tuple[npt.NDArray[np.uint8], dict[str, Ints]]:
    batch = load_arrays(content, user_path)
    keys = _CODES[data]
    missing = [key for key in ("data", *keys.values()) if key not in batch]
    if missing:
        raise DataError(
            f"{user_path!r} has no entry {first_few(missing)}; it has {first_few(list(batch))}.",
            path=user_path,
            key=missing[0],
        )
    planes = np.asarray(batch["data"])
    if planes.ndim != 2 or planes.shape[1] != _PIXELS or planes.dtype != np.uint8:
        raise DataError(
            f"the images in {user_path!r} must be 8-bit numbers of shape (n, {_PIXELS}); got "
            f"{planes.dtype} of shape {planes.shape}.",
            path=user_path,
            value=list(planes.shape),
        )
    codes = {naming: np.asarray(batch[key], dtype=np.int64) for naming, key in keys.items()}
    if any(code_n.shape != (len(planes),) for code_n in codes.values()):
        raise DataError(
            f"{user_path!r} has {len(planes)} images, but another number of labels.",
            path=user_path,
            count=len(planes),
        )
    return planes, codes


def _read_binary(
    content: bytes, data: str, user_path: str
) -> tuple[npt.NDArray[np.uint8], dict[str, Ints]]:
    namings = ("class",) if data == "cifar-10" else ("superclass", "class")
    width = len(namings) + _PIXELS
    if not content or len(content) % width:
        raise DataError(
            f"{user_path!r} should consist of records of {width} bytes, but it has {len(content)} "
            "bytes. Was it copied completely?",
            path=user_path,
            count=len(content),
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, width)
    return records[:, len(namings) :], {
        naming: records[:, at].astype(np.int64) for at, naming in enumerate(namings)
    }
