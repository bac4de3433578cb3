"""`unskew describe` and `unskew init`: databases before there is a configuration."""

from __future__ import annotations

import logging
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.config.run_config import make_config
from unskew.config.sections import SourcesSection
from unskew.config.starter_file import starting_config
from unskew.debiasing.pool_weights import weigh_checked_splits
from unskew.errors import ConfigError, UnskewError, first_few
from unskew.files.atomic import check_new_file, write_text
from unskew.records import Pool
from unskew.represent.pool_features import represent_images
from unskew.runs.inputs import read_inputs
from unskew.sources.description import PoolDescription, describe_pool
from unskew.sources.discovery import find_sources
from unskew.sources.readers import read_sources

log = logging.getLogger(__name__)

_QUICK = ("size",)
_PROPERTIES = ("size", "brightness", "contrast", "colourfulness", "sharpness")
# Images up to which a new configuration is tried.
_MOST_TRIED = 20_000
TOLERANCE: float = SourcesSection.model_fields["tolerance"].default


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


@dataclass(frozen=True)
class Start:
    """What `unskew init` found when it tried the configuration that it wrote.

    Attributes
    ----------
    images, unusable : images that were found, and those of them that cannot be used.
    problem : why it does not run; None: it does, or was not tried.
    tried : False where there are too many images.
    """

    images: int
    unusable: int = 0
    problem: str | None = None
    tried: bool = True


def write_starting_config(
    paths: Sequence[Path],
    output: Path,
    *,
    overwrite: bool = False,
    download: bool = False,
    progress: bool | None = None,
) -> Start:
    """Write a commented configuration for these databases, and try it.

    Of more than 20,000 images nothing is tried. Where more images are unusable than a run
    tolerates, the configuration tolerates as many as there are, and says so.
    """
    check_new_file(output, overwrite)
    settings = find_sources(paths, output.parent, download=download)
    pool = _read_folders(settings, output.parent, download)
    if settings.get("images") is False:
        log.warning(
            "no column of %s holds paths of images (%s): images = false, the table alone is used. "
            'If there is one, write path = "…" in its place.',
            first_few([str(path) for path in paths]),
            first_few(list(map(str, pool.frame.columns)), 12),
        )
    text = starting_config(pool, settings, name=output.name)
    write_text(output, text)
    n_images = len(pool) + (0 if pool.set_aside is None else len(pool.set_aside))
    if len(pool) > _MOST_TRIED:
        return Start(n_images, tried=False)
    start = _try_settings(text, output.parent, n_images, progress)
    if start.unusable > TOLERANCE * n_images:
        share = math.ceil(100 * start.unusable / n_images + 1e-9) / 100
        settings = {**settings, "tolerance": min(share, 1.0)}
        write_text(output, starting_config(pool, settings, name=output.name))
    return start


def _try_settings(text: str, folder: Path, n_images: int, progress: bool | None) -> Start:
    """Read every image and weigh, as `unskew check` does; nothing is diagnosed."""
    unusable = 0
    try:
        config = make_config(tomllib.loads(text), folder)
        sources = config.sources.model_copy(update={"tolerance": 1.0})
        config = config.model_copy(update={"sources": sources})
        inputs = read_inputs(config, progress=progress)
        unusable = 0 if inputs.pool.set_aside is None else len(inputs.pool.set_aside)
        weigh_checked_splits(inputs.pool, inputs.bias, inputs.target, rng=config.engine.seed)
    except UnskewError as error:
        return Start(n_images, unusable, str(error))
    return Start(n_images, unusable)
