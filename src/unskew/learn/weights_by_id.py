"""The weights of the images of a dataset, in its order: joined by id, and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Floats


def align_by_id(
    weights: Any, ids: Iterable[Hashable] | None = None, *, allow_extra: bool = False
) -> Floats:
    """(n,) the weights of the n images of a dataset, in its order, as they were given: not
    negative, finite, not all zero.

    Parameters
    ----------
    weights : `Weights`; a `Baseline`; a table with the columns id and weight (``weights.parquet``);
        a mapping or pandas Series id → weight; all of these are joined by ``ids``. Or n numbers
        (array, list, tensor) in the order of the dataset, without ``ids``.
    ids : (n,) the id of every image of the dataset, in its order.
    allow_extra : weights of images that the dataset does not hold (another split, say) are left out
        instead of being an error.
    """
    given = _by_id(weights, ids is not None)
    if given is None:
        if ids is not None:
            raise ConfigError(
                "ids join weights that know their images (Weights, a table with id and weight, a "
                "mapping id → weight); these are bare "
                "numbers, taken in the order of the dataset. Leave ids out, or pass "
                "dict(zip(id_of_every_weight, weights))."
            )
        return _checked(_numbers(weights), None)
    if ids is None:
        raise ConfigError(
            "weights are joined to images by id, never by row order: pass ids=..., the id of every "
            "image of the dataset in its order "
            "(pool.frame['id'], for instance). If both are surely in one order, pass the numbers "
            "alone: weights.weight."
        )
    owners, values = given
    wanted = _listed(ids)
    _refuse_repeated(owners, "the weights")
    _refuse_repeated(wanted, "the dataset")
    position = dict(zip(owners, range(len(owners)), strict=True))
    missing = [name for name in wanted if name not in position]
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(wanted)} images of the dataset have no weight, the first "
            f"{first_few(missing, 3)}."
            f"{_other_kind(missing[0], owners)} Were they in the pool that was weighed, and are "
            "their ids written in the same way?"
        )
    if len(owners) > len(wanted) and not allow_extra:
        held = set(wanted)
        extra = [name for name in owners if name not in held]
        raise DataError(
            f"{len(extra)} of the {len(owners)} weights belong to images that the dataset does not "
            f"hold, the first {first_few(extra, 3)}. "
            "Pass allow_extra=True if the dataset is meant to be a part (a split) of the images "
            "that were weighed."
        )
    rows = np.fromiter((position[name] for name in wanted), dtype=np.int64, count=len(wanted))
    return _checked(values[rows], wanted)


def named_weights(weights: Any) -> tuple[list[Hashable], Floats] | None:
    """(ids, weights) of weights that know their images, checked; None for bare numbers."""
    given = _by_id(weights, True)
    if given is None:
        return None
    _refuse_repeated(given[0], "the weights")
    return given[0], _checked(given[1], given[0])


def _by_id(weights: Any, with_ids: bool) -> tuple[list[Hashable], Floats] | None:
    """(ids, numbers) of weights that know their images; None for bare numbers."""
    if isinstance(weights, Mapping):
        return list(weights), _numbers(list(weights.values()))
    if hasattr(weights, "columns"):
        lacking = [name for name in ("id", "weight") if name not in weights.columns]
        if lacking:
            raise DataError(
                "a table of weights has the columns id and weight; this one lacks "
                f"{' and '.join(lacking)}."
            )
        return _listed(weights["id"]), _numbers(weights["weight"])
    if hasattr(weights, "weight") and hasattr(weights, "id"):
        return _listed(weights.id), _numbers(weights.weight)
    if hasattr(weights, "index") and hasattr(weights, "to_numpy") and with_ids:
        return _listed(weights.index), _numbers(weights)
    return None


def _listed(ids: Any) -> list[Hashable]:
    """Python's own numbers and texts: 7 of NumPy, of torch and of Python are one id."""
    # Not through an array where it is a list: 1 and "a" together would become text.
    if isinstance(ids, list | tuple | range):
        return [name.item() if isinstance(name, np.generic) else name for name in ids]
    if hasattr(ids, "tolist"):
        return list(ids.tolist())
    return list(ids)


def _numbers(values: Any) -> Floats:
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"weights are numbers, one for each image; got {type(values).__name__}: {error}."
        ) from None
    if numbers.ndim != 1:
        raise DataError(
            f"weights are one number for each image; got an array of shape {numbers.shape}."
        )
    return numbers


def _checked(weight_n: Floats, ids: Sequence[Hashable] | None) -> Floats:
    if not weight_n.size:
        raise DataError(
            "there are no weights: the dataset has not a single image. Did a filter drop "
            "everything?"
        )
    bad = np.flatnonzero(~(np.isfinite(weight_n) & (weight_n >= 0)))
    if bad.size:
        first = int(bad[0])
        name = f"row {first}" if ids is None else f"image {ids[first]!r}"
        raise DataError(
            f"weights must be finite and not negative, but {bad.size} of {weight_n.size} are not; "
            f"the first, of {name}, is "
            f"{weight_n[first]}. Likely causes: the solve did not converge, or a join that left "
            "gaps."
        )
    if not weight_n.any():
        raise DataError(
            f"all {weight_n.size} weights are zero: no image would be learned from. Does the "
            "dataset hold the images that carry the weight?"
        )
    return weight_n


def _refuse_repeated(ids: Sequence[Hashable], where: str) -> None:
    if len(set(ids)) < len(ids):
        repeated = [name for name, count in Counter(ids).items() if count > 1]
        raise DataError(
            f"{len(repeated)} ids stand for more than one image of {where}, so weights cannot be "
            "joined by id; "
            f"the first: {first_few(repeated, 3)}."
        )


def _other_kind(name: Hashable, owners: Sequence[Hashable]) -> str:
    if owners and type(name) is not type(owners[0]):
        return (
            f" The dataset's ids are {type(name).__name__} ({name!r}), those of the weights "
            f"{type(owners[0]).__name__} ({owners[0]!r})."
        )
    return ""
