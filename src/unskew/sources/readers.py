"""The readers of this room by kind of source: the one door that the methods of `Pool` open.

Importing this module is cheap: a reader is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from unskew.records import Images, Pool

SourceKind = Literal["folders", "manifest", "arrays", "cifar", "huggingface", "dataset"]


def reader_of(kind: SourceKind) -> Callable[..., Pool]:
    """Return the function that reads sources of this kind; its first argument is where they are."""
    match kind:
        case "folders":
            from unskew.sources.folder import read_folders

            return read_folders
        case "manifest":
            from unskew.sources.manifest import read_manifest

            return read_manifest
        case "arrays":
            from unskew.sources.arrays import read_arrays

            return read_arrays
        case "cifar":
            from unskew.sources.cifar import read_cifar

            return read_cifar
        case "huggingface":
            from unskew.sources.huggingface import read_huggingface

            return read_huggingface
        case "dataset":
            from unskew.sources.dataset import read_dataset

            return read_dataset


def images_in_memory(images: Any) -> Images:
    """Wrap an array of images, or a sequence of arrays, Pillow images or encoded bytes."""
    from unskew.sources.arrays import ArrayImages

    return ArrayImages(images)
