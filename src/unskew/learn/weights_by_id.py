"""The weights of the images of a dataset, in its order: joined by id, and checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unskew.engine.frames import read_foreign
from unskew.errors import ConfigError, DataError, did_you_mean
from unskew.records import Floats
from unskew.records.levels import find_positions, list_ids, refuse_duplicates, refuse_extra


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
    by_id = _by_id(weights, ids is not None)
    if by_id is None:
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
    owners, values = by_id
    wanted = list_ids(ids)
    refuse_duplicates(wanted, "the dataset")
    rows = find_positions(wanted, owners, of="the dataset", among="the weights")
    if len(owners) > len(wanted) and not allow_extra:
        refuse_extra(
            owners,
            wanted,
            of="the dataset",
            among="the weights",
            way_out="Pass allow_extra=True if the dataset is meant to be a part (a split) of the "
            "images that were weighed.",
        )
    return _checked(values[rows], wanted)


def align_to_dataset(
    dataset: Any, weights: Any, ids: Any = None, *, allow_extra: bool = False
) -> Floats:
    """(n,) the weight of every row of a dataset; ``weights`` and ``ids`` may name its columns."""
    is_stream = any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__)
    if is_stream or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise ConfigError(
            "weights belong to the rows of a dataset, so it has len(dataset) and dataset[row]; "
            f"{type(dataset).__name__} has not. For streams write the shares of each stream with "
            "`unskew export OUT --to mixture`.",
            option="dataset",
            value=type(dataset).__name__,
        )
    weight_n = align_by_id(
        _column(dataset, weights, "weights"), _column(dataset, ids, "ids"), allow_extra=allow_extra
    )
    if weight_n.size != len(dataset):
        raise DataError(
            f"there is one weight for each image of the dataset, in its order; got {weight_n.size} "
            f"weights for {len(dataset)} images.",
            count=int(weight_n.size),
            limit=len(dataset),
        )
    return weight_n


def _column(dataset: Any, values: Any, option: str) -> Any:
    """Return what was given, or the column that it names."""
    if not isinstance(values, str):
        return values
    names = list(getattr(dataset, "column_names", ()))
    if values not in names:
        raise ConfigError(
            f"{option} is {values!r}, and the dataset has no such column; it has "
            f"{', '.join(names) or 'no named columns'}.{did_you_mean(values, names)}",
            option=option,
            value=values,
            allowed=names,
        )
    return list(dataset[values])


def named_weights(weights: Any) -> tuple[list[Hashable], Floats] | None:
    """(ids, weights) of weights that know their images, checked; None for bare numbers."""
    by_id = _by_id(weights, True)
    if by_id is None:
        return None
    refuse_duplicates(by_id[0], "the weights")
    return by_id[0], _checked(by_id[1], by_id[0])


def _by_id(weights: Any, with_ids: bool) -> tuple[list[Hashable], Floats] | None:
    """(ids, numbers) of weights that know their images; None for bare numbers."""
    weights = read_foreign(weights)
    if isinstance(weights, Mapping):
        return list(weights), _numbers(list(weights.values()))
    if hasattr(weights, "columns"):
        lacking = [name for name in ("id", "weight") if name not in weights.columns]
        if lacking:
            raise DataError(
                "a table of weights has the columns id and weight; this one lacks "
                f"{' and '.join(lacking)}."
            )
        return list_ids(weights["id"]), _numbers(weights["weight"])
    if hasattr(weights, "weight") and hasattr(weights, "id"):
        return list_ids(weights.id), _numbers(weights.weight)
    if hasattr(weights, "index") and hasattr(weights, "to_numpy") and with_ids:
        return list_ids(weights.index), _numbers(weights)
    return None


def _numbers(values: Any) -> Floats:
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
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
