"""The doors of this stage: the ``[sources]`` part of a configuration -> `Pool`; the place of a
target sample -> `Pool`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from unskew.errors import ConfigError, did_you_mean, first_few
from unskew.records import Pool
from unskew.sources.folder import read_folders
from unskew.sources.listing import near_names
from unskew.sources.manifest import read_manifest

TARGET_SAMPLE = "(target sample)"
# Settings of the run that stand beside these and concern the decoding of images.
_OF_OTHERS = ("tolerance", "max_pixels")
_ROLES = ("label", "id", "group", "split", "images")
# What each kind of source may say.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "folders": (*_ROLES, "label_separator"),
    "manifest": (
        *_ROLES,
        "source",
        "path",
        "root",
        "allow_outside",
        "label_separator",
        "delimiter",
        "several",
    ),
    "arrays": (*_ROLES, "source"),
    "cifar": ("label", "split", "images", "verify", "download"),
    "huggingface": (*_ROLES, "source", "image"),
}


def read_sources(settings: Mapping[str, Any], folder: str | os.PathLike[str] = ".") -> Pool:
    """The images that the ``[sources]`` part of a configuration names; relative paths start from
    ``folder``.
    """
    kind = _kind(settings)
    said = {
        key: value
        for key, value in settings.items()
        if key != kind and value is not None and key not in _OF_OTHERS
    }
    for key in list(said):
        # A record of all settings holds False for those that nobody set.
        if key not in SETTINGS[kind] and (
            said.pop(key) is not False or key not in _every_setting()
        ):
            raise ConfigError(_unknown(key, kind))
    return _reader(kind)(settings[kind], base=folder, **said)


def _kind(settings: Mapping[str, Any]) -> str:
    given = [key for key in settings if key in SETTINGS and settings[key] is not None]
    if len(given) == 1:
        return given[0]
    if given:
        raise ConfigError(
            f"[sources] says where the images are in one way, but it has {first_few(given)}. Keep "
            "one."
        )
    odd = [key for key in settings if key not in _every_setting()]
    near = next((text for text in (did_you_mean(key, SETTINGS) for key in odd) if text), "")
    raise ConfigError(
        f"[sources] says where the images are: {', '.join(SETTINGS)}; it has "
        f"{first_few(list(settings)) or 'nothing'}.{near}"
    )


def _every_setting() -> set[str]:
    return {each for said in SETTINGS.values() for each in said}


def _unknown(key: str, kind: str) -> str:
    others = [other for other, said in SETTINGS.items() if key in said]
    if others:
        return (
            f"[sources] {key} goes with {first_few(others)}; images given as {kind} take "
            f"{first_few(SETTINGS[kind], 12)}."
        )
    return (
        f"[sources] has no setting {key!r}; with {kind} it takes "
        f"{first_few(SETTINGS[kind], 12)}.{did_you_mean(key, SETTINGS[kind])}"
    )


def _reader(kind: str) -> Callable[..., Pool]:
    if kind == "arrays":
        from unskew.sources.arrays import read_arrays

        return read_arrays
    if kind == "cifar":
        from unskew.sources.cifar import read_cifar

        return read_cifar
    if kind == "huggingface":
        from unskew.sources.huggingface import read_huggingface

        return read_huggingface
    return read_folders if kind == "folders" else read_manifest


def read_sample(
    place: str | os.PathLike[str], folder: str | os.PathLike[str] = ".", *, images: bool = True
) -> Pool:
    """A sample of the target: a folder of images, a table that lists them, or an ``.npz`` file; its
    source is ``(target sample)``.

    ``images = False``: the table alone is enough, as it is for the sources.
    """
    said = os.fspath(place)
    there = os.path.join(folder, said)
    if os.path.isdir(there):
        return read_folders({TARGET_SAMPLE: said}, base=folder, images=images)
    if not os.path.lexists(there):
        raise ConfigError(f"the target sample {said!r} is not there.{near_names(there)}")
    if said.lower().endswith(".npz"):
        from unskew.sources.arrays import read_arrays

        return read_arrays(said, base=folder, source_name=TARGET_SAMPLE, images=images)
    return read_manifest(said, base=folder, source_name=TARGET_SAMPLE, images=images)
