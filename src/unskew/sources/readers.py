"""The readers of image databases: by kind, and by the `[sources]` part of a configuration.

Importing this module is cheap: a reader is loaded when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.addresses import is_address, is_address_of_folder, joined
from unskew.records import Images, Pool
from unskew.records.pool_table import name_design_weight
from unskew.sources.files import near_names

SourceKind = Literal["folders", "manifest", "arrays", "cifar", "huggingface", "dataset", "parquet"]


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
        case "parquet":
            from unskew.sources.parquet_parts import read_parts

            return read_parts


def images_in_memory(images: Any) -> Images:
    """Wrap an array of images, or a sequence of arrays, Pillow images or encoded bytes."""
    from unskew.sources.arrays import ArrayImages

    return ArrayImages(images)


TARGET_SAMPLE = "(target sample)"
# Settings in the same part of the configuration that concern the decoding of images.
_DECODING = ("tolerance", "max_pixels")
_ROLES = ("label", "id", "group", "split", "design_weight", "images")
# The settings of each kind of source.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "folders": (*_ROLES, "label_separator", "labels"),
    "manifest": (
        *_ROLES,
        "source",
        "path",
        "root",
        "allow_outside",
        "label_separator",
        "labels",
        "delimiter",
        "several",
    ),
    "arrays": (*_ROLES, "source"),
    "cifar": ("label", "split", "images", "verify", "download"),
    "huggingface": (*_ROLES, "source", "image"),
    "parquet": (*_ROLES[:-1], "source", "image", "root"),
}
# So many sources of single images are the ids of images, and take hours.
_MANY_SOURCES = 2000
_EVERY_SETTING = {key for keys in SETTINGS.values() for key in keys}


def read_sources(settings: Mapping[str, Any], folder: str | os.PathLike[str] = ".") -> Pool:
    """Read the images that the ``[sources]`` part of a configuration names.

    Relative paths start from ``folder``.
    """
    kind = _kind(settings)
    options = {}
    for key, value in settings.items():
        if key == kind or value is None or key in _DECODING:
            continue
        if key in SETTINGS[kind]:
            options[key] = value
        # A record of all settings holds False for those that nobody set.
        elif value is not False or key not in _EVERY_SETTING:
            raise _unknown_setting(key, kind)
    pool = read_named(kind, settings[kind], base=folder, **options)
    if len(pool.names) > _MANY_SOURCES and 2 * len(pool.names) > len(pool):
        raise DataError(
            f"{len(pool):,} images are of {len(pool.names):,} sources, fewer than two each. Is "
            "the column of sources the right one?",
            column="source",
            count=len(pool.names),
        )
    return pool


def read_named(
    kind: SourceKind, place: Any, *, design_weight: str | None = None, **settings: Any
) -> Pool:
    """Read a kind of source, and give a column the role of the design weight."""
    pool = reader_of(kind)(place, **settings)
    return pool if design_weight is None else name_design_weight(pool, design_weight)


def _kind(settings: Mapping[str, Any]) -> SourceKind:
    kinds = [key for key in settings if key in SETTINGS and settings[key] is not None]
    if len(kinds) == 1:
        return cast(SourceKind, kinds[0])
    if kinds:
        raise ConfigError(
            "[sources] names the location of the images in a single way, but it has "
            f"{first_few(kinds)}. Keep one of them.",
            key="sources",
            value=kinds,
            allowed=list(SETTINGS),
        )
    unknown = [key for key in settings if key not in _EVERY_SETTING]
    near = next((hint for hint in (did_you_mean(key, SETTINGS) for key in unknown) if hint), "")
    raise ConfigError(
        f"[sources] must name the location of the images, by one of {', '.join(SETTINGS)}; it has "
        f"{first_few(list(settings)) or 'nothing'}.{near}",
        key="sources",
        value=list(settings),
        allowed=list(SETTINGS),
    )


def _unknown_setting(key: str, kind: str) -> ConfigError:
    allowed = SETTINGS[kind]
    others = [other for other, keys in SETTINGS.items() if key in keys]
    message = (
        f"[sources] {key} goes with {first_few(others)}; images given as {kind} take "
        f"{first_few(allowed, 12)}."
        if others
        else f"[sources] has no setting {key!r}; with {kind} it takes "
        f"{first_few(allowed, 12)}.{did_you_mean(key, allowed)}"
    )
    return ConfigError(message, key=key, allowed=list(allowed))


def read_sample(
    place: str | os.PathLike[str], folder: str | os.PathLike[str] = ".", *, images: bool = True
) -> Pool:
    """Read a target sample: a folder of images, a table that lists them, or an ``.npz`` file.

    Its source is ``(target sample)``. ``images = False``: read the table alone.
    """
    path = os.fspath(place)
    file = joined(os.fspath(folder), path)
    is_folder = is_address_of_folder(file) if is_address(file) else os.path.isdir(file)
    if is_address(file) and not is_folder:
        return reader_of("manifest")(path, base=folder, source_name=TARGET_SAMPLE, images=images)
    if is_folder:
        return reader_of("folders")({TARGET_SAMPLE: path}, base=folder, images=images)
    if not os.path.lexists(file):
        raise ConfigError(
            f"the target sample {path!r} does not exist.{near_names(file)}", path=path
        )
    kind: SourceKind = "arrays" if path.lower().endswith(".npz") else "manifest"
    return reader_of(kind)(path, base=folder, source_name=TARGET_SAMPLE, images=images)
