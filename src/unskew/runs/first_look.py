"""`unskew describe` and `unskew init`: databases before there is a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew.config.starter_file import starting_config
from unskew.errors import ConfigError
from unskew.files.atomic import check_new_file, write_text
from unskew.records import Pool
from unskew.represent.pool_features import represent_images
from unskew.sources.description import PoolDescription, describe_pool
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources

_QUICK = ("size",)
_PROPERTIES = ("size", "brightness", "contrast", "colourfulness", "sharpness")


def describe_folders(
    paths: Sequence[Path],
    *,
    quick: bool = False,
    download: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
) -> PoolDescription:
    """Describe databases: every image is read, copies and broken images are counted."""
    pool = _read_folders(find_sources(paths, Path(), download=download), Path(), download)
    if pool.images is not None:
        pool = represent_images(
            pool,
            list(_QUICK if quick else _PROPERTIES),
            jobs=jobs,
            tolerance=1.0,
            progress=progress,
            content=True,
        )
    return describe_pool(pool)


def _read_folders(settings: Mapping[str, Any], folder: Path, download: bool) -> Pool:
    if download and "cifar" not in settings:
        raise ConfigError(
            "--download fetches a CIFAR archive, such as cifar-10-python.tar.gz; what was named "
            "is something else.",
            option="--download",
        )
    return read_sources({**settings, **({"download": True} if download else {})}, folder)


def write_starting_config(
    paths: Sequence[Path], output: Path, *, overwrite: bool = False, download: bool = False
) -> None:
    """Write a commented configuration for these databases, ready to run."""
    check_new_file(output, overwrite)
    settings = find_sources(paths, output.parent, download=download)
    pool = _read_folders(settings, output.parent, download)
    write_text(output, starting_config(pool, settings, name=output.name))
