"""projections.npz: the components of embeddings, so that other images are represented alike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import DataError
from unskew.files.atomic import written_together
from unskew.files.reading import damage_named, opened_zip
from unskew.records import Pool
from unskew.represent.base import Representation
from unskew.represent.embedding import Embedding
from unskew.represent.pool_features import compute_rows, represent_images
from unskew.represent.projection import Projection, fit_projection
from unskew.represent.user_functions import read_representations
from unskew.runs.inputs import Inputs, usable_cache

PROJECTIONS = "projections.npz"
_BLOCK = 4096


def write_projections(inputs: Inputs, out: Path, *, progress: bool | None = None) -> None:
    """Write projections.npz, the components of every embedding of the run, if there is any.

    They are fitted again to the output of the network, which is in the cache, on the same images:
    pool and sample of the target, in order.
    """
    config = inputs.config
    if not config.represent.computed:
        return
    embeddings = find_projected(read_representations(config.features()))
    if not embeddings:
        return
    sample = None if inputs.target is None else inputs.target.reference
    pools = [inputs.pool, *([sample] if isinstance(sample, Pool) else [])]
    options: dict[str, Any] = {
        "cache": usable_cache(config),
        "jobs": config.engine.jobs,
        "max_pixels": config.sources.max_pixels,
        "progress": progress,
    }
    arrays: dict[str, Any] = {}
    for embedding in embeddings:
        plain = _plain(embedding)
        parts = [compute_rows(pool, plain, tolerance=1.0, **options)[1] for pool in pools]
        rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
        fitted = fit_projection(
            (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)),
            embedding.components,
            whiten=embedding.whiten,
        )
        _check_same(fitted, embedding, inputs.pool, parts[0])
        arrays |= _arrays(embedding.name, fitted)
    with written_together(out, ()) as folder, (folder / PROJECTIONS).open("wb") as file:
        np.savez(file, **arrays)


def _check_same(fitted: Projection, embedding: Embedding, pool: Pool, rows: Any) -> None:
    """Refuse components that differ from those that the model is trained on."""
    known = pool.frame[list(embedding.columns)].to_numpy(dtype=np.float64)
    again = fitted.project(rows[: len(pool)])
    if again.shape != known.shape or not np.allclose(
        again, known, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(known).max(initial=0.0)))
    ):
        raise DataError(
            f"the components of {embedding.name} cannot be computed again: did images change "
            "while the run was reading them?",
            columns=list(embedding.columns),
        )


def find_projected(representations: Sequence[Representation]) -> list[Embedding]:
    return [one for one in representations if isinstance(one, Embedding) and one.components > 0]


def _plain(embedding: Embedding) -> Embedding:
    """Return the embedding as the network gives it, without components."""
    return replace(embedding, components=0, whiten=False)


def _arrays(name: str, fitted: Projection) -> dict[str, Any]:
    numbers = np.array([fitted.total_variance, float(fitted.whiten), float(fitted.n)])
    parts = {
        "mean": fitted.mean_d,
        "axis": fitted.axis_cd,
        "variance": fitted.variance_c,
        "numbers": numbers,
    }
    return {f"{name}.{part}": values for part, values in parts.items()}


def read_projection(path: Path, name: str) -> Projection:
    """Read the components of one embedding of a run."""
    if not path.is_file():
        raise DataError(
            f"there is no {path}, which contains the principal components that the model was "
            "trained on. `unskew train` writes it.",
            path=str(path),
        )
    with (
        damage_named(path, "principal components"),
        opened_zip(path),
        np.load(path, allow_pickle=False) as stored,
    ):
        mean_d, axis_cd, variance_c, numbers = (
            stored[f"{name}.{part}"] for part in ("mean", "axis", "variance", "numbers")
        )
        if mean_d.shape != axis_cd.shape[1:] or variance_c.shape != axis_cd.shape[:1]:
            raise ValueError(f"shapes {mean_d.shape}, {axis_cd.shape} and {variance_c.shape}")
        return Projection(
            mean_d, axis_cd, variance_c, float(numbers[0]), bool(numbers[1]), int(numbers[2])
        )


def represent_alike(
    pool: Pool,
    features: Sequence[Any],
    out: Path,
    *,
    jobs: int | None = None,
    tolerance: float = 0.01,
    max_pixels: int | None = None,
    progress: bool | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Pool:
    """Compute the features of a run for other images, with the components of the run.

    The column ``content`` is among them.
    """
    options: dict[str, Any] = {
        "jobs": jobs,
        "tolerance": tolerance,
        "max_pixels": max_pixels,
        "progress": progress,
        "cache": cache,
    }
    representations = read_representations(features)
    embeddings = find_projected(representations)
    for embedding in embeddings:
        pool, rows = compute_rows(pool, _plain(embedding), **options)
        values = read_projection(out / PROJECTIONS, embedding.name).project(rows)
        columns = {name: values[:, at] for at, name in enumerate(embedding.columns)}
        pool = pool.with_columns(columns)
    others = [one for one in representations if one not in embeddings]
    if others:
        return represent_images(pool, others, content=True, **options)
    from unskew.represent.feature_cache import hash_images

    options.pop("max_pixels")
    return hash_images(pool, **options)
