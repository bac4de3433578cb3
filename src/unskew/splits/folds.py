"""Which images may not be separated, and folds that keep them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unskew.errors import ConfigError, DataError
from unskew.records import Ints
from unskew.records.content_keys import Keys, shuffled_ranks
from unskew.records.levels import codes_or_alone

# A column of numbers tells copies of an image where it has more values than this, and than a
# twentieth of the images.
_MEASUREMENT = 100
# Columns that the table of a bootstrap replicate has in addition to those of the pool: the image
# that a row is a copy of, and its fold group.
COPY_OF = "(copy of)"
FOLD_GROUP = "(fold group)"
# Not measured on the image.
_NAMES_OF_ROWS = ("id", "group", "split", "design_weight", COPY_OF, FOLD_GROUP)


def find_copies(X: Any) -> Ints | None:
    """(n,) the same number for images whose X is identical in every entry, by a 64-bit hash.

    None where entries cannot be hashed.
    """
    import pandas as pd
    import scipy.sparse

    if scipy.sparse.issparse(X):
        rows = scipy.sparse.csr_array(X)
        rows.sum_duplicates()
        spans = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        keys = [(rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in spans]
        return np.unique(
            np.array([hash(key) for key in keys], dtype=np.int64), return_inverse=True
        )[1].astype(np.int64)
    if not isinstance(X, pd.DataFrame):
        array = np.asarray(X)
        X = pd.DataFrame(array.reshape(array.shape[0], -1))
    try:
        hash_n = pd.util.hash_pandas_object(X, index=False).to_numpy()
    except TypeError:  # entries that cannot be hashed
        return None
    return np.unique(hash_n, return_inverse=True)[1].astype(np.int64)


def content_codes(frame: Any) -> Ints | None:
    """(n,) the same number for images of the same ``content``; None where images were not read."""
    # An image whose content is not known is a copy of none.
    return codes_or_alone(frame["content"]) if "content" in frame.columns else None


def tell_copies(frame: Any) -> Ints | None:
    """(n,) the same number for images of the same content.

    Where images were not read, rows that are alike in every number are copies.

    None where no column is fine enough to tell copies from look-alikes. Whole numbers that are all
    different name the rows, and tell nothing.
    """
    known = content_codes(frame)
    if known is not None:
        return known
    numbers = frame.drop(
        columns=[name for name in _NAMES_OF_ROWS if name in frame.columns]
    ).select_dtypes("number")
    n_values = {name: int(numbers[name].nunique()) for name in numbers.columns}
    telling = [
        name
        for name in numbers.columns
        if numbers[name].dtype.kind == "f" or n_values[name] < len(frame)
    ]
    if not any(n_values[name] > max(_MEASUREMENT, len(frame) / 20) for name in telling):
        return None
    return find_copies(numbers[telling])


def unit_codes(frame: Any) -> Ints | None:
    """(n,) the same number for images that are not independent of one another.

    These are images of one group, copies of one image (the same ``content``), and whatever these
    tie together. None where every image is independent: neither groups nor copies.
    """
    content_n = None
    # One pass tells that a column of hashes has no copies, the common case.
    if "content" in frame.columns and not frame["content"].is_unique:
        code_n = codes_or_alone(frame["content"])
        # Where nothing but unknown contents is repeated there are no copies either.
        content_n = code_n if int(code_n.max()) + 1 < code_n.size else None
    group_n = codes_or_alone(frame["group"]) if "group" in frame.columns else None
    if group_n is None or content_n is None:
        return content_n if group_n is None else group_n
    return join_units(len(frame), group_n, content_n)


def unit_or_row(frame: Any) -> Ints:
    """(n,) the unit of every image (`unit_codes`), or its row where all are independent."""
    unit_n = unit_codes(frame)
    return np.arange(len(frame)) if unit_n is None else unit_n


def join_units(n: int, *links: Any) -> Ints:
    """(n,) unit of every image: those that share an entry of any of ``links`` are of one unit.

    Links are groups or copies, and units extend through chains.
    """
    import scipy.sparse
    import scipy.sparse.csgraph

    arrays = [np.asarray(link) for link in links if link is not None]
    codes = [
        np.unique(link_n if link_n.dtype.kind in "iu" else link_n.astype(str), return_inverse=True)[
            1
        ]
        for link_n in arrays
    ]
    if not codes:
        return np.arange(n, dtype=np.int64)
    offsets = n + np.concatenate([[0], np.cumsum([int(code_n.max()) + 1 for code_n in codes])])
    column = np.concatenate(
        [offset + code_n for offset, code_n in zip(offsets[:-1], codes, strict=True)]
    )
    row = np.tile(np.arange(n), len(codes))
    size = int(offsets[-1])
    graph = scipy.sparse.coo_array((np.ones(row.size), (row, column)), shape=(size, size))
    _, component = scipy.sparse.csgraph.connected_components(graph.tocsr(), directed=False)
    return np.unique(component[:n], return_inverse=True)[1].astype(np.int64)


def deal_folds(
    unit_n: Ints, stratum_n: Ints, n_folds: int, seed: int, key_n: Keys | None = None
) -> Ints:
    """(n,) fold of every image: units are shuffled and dealt like cards, stratum by stratum.

    A unit counts to the stratum of its first image, and larger units are dealt first. Hence each
    stratum of single images is shared out to within one image, and no unit is ever split. With
    ``key_n`` (`content_keys`) units are shuffled by their content and count to the lowest of their
    strata, so that the order of the rows has no say.
    """
    _, first_m, size_m = np.unique(unit_n, return_index=True, return_counts=True)
    if not 2 <= n_folds <= size_m.size:
        raise _too_few(n_folds, size_m.size, unit_n.size)
    if key_n is None:
        stratum_m = stratum_n[first_m]
        rank_m = np.random.default_rng(seed).permutation(size_m.size)
    else:
        stratum_m = np.full(size_m.size, int(stratum_n.max()))
        np.minimum.at(stratum_m, unit_n, stratum_n)
        rank_m = shuffled_ranks(unit_n, key_n, seed)
    order_m = np.lexsort((rank_m, -size_m, stratum_m))
    fold_m = np.empty(size_m.size, dtype=np.int64)
    fold_m[order_m] = np.arange(size_m.size) % n_folds
    fold_n: Ints = fold_m[unit_n]
    return fold_n


def deal_source_folds(
    unit_n: Ints,
    source_n: Ints,
    names: Sequence[str],
    n_folds: int,
    seed: int,
    key_n: Keys | None = None,
    rank_k: Ints | None = None,
) -> tuple[Ints, int]:
    """(n,) fold of every image, and their number, so that every fold leaves images of each source.

    There are no more folds than units of the smallest source. ``rank_k``: the order of the sources.
    """
    pairs = np.unique(np.column_stack([source_n, unit_n]), axis=0)
    units_k = np.bincount(pairs[:, 0], minlength=len(names))
    fewest, least = names[int(units_k.argmin())], int(units_k.min())
    if least < 2:
        raise DataError(
            "what is fitted without some of the images needs at least two independent images (or "
            f"groups) of every source; `{fewest}` has {least}. Leave the source out.",
            source=fewest,
            count=least,
            limit=2,
        )
    n_folds = min(n_folds, least)
    stratum_n = source_n if rank_k is None else rank_k[source_n]
    fold_n = deal_folds(unit_n, stratum_n, n_folds, seed, key_n)
    for fold in range(n_folds):
        lacking = np.setdiff1d(np.arange(len(names)), source_n[fold_n != fold])
        if lacking.size:
            name = names[int(lacking[0])]
            raise DataError(
                f"groups and copies tie all images of `{name}` to one fold; use fewer folds, or "
                "leave the source out.",
                source=name,
            )
    return fold_n, n_folds


def check_folds(tests: list[Ints], unit_n: Ints) -> Ints:
    """(n,) fold of every image from the test sets of a splitter.

    Each image is in one of them, and no unit in two.
    """
    count_n = np.bincount(np.concatenate(tests), minlength=unit_n.size)
    if len(tests) < 2 or not np.all(count_n == 1):
        n_wrong = int((count_n != 1).sum())
        raise ConfigError(
            "cv must hold out every image exactly once (as KFold and GroupKFold do); with "
            f"{len(tests)} splits {n_wrong} images are held out never or more than once.",
            option="cv",
            count=n_wrong,
        )
    fold_n = np.empty(unit_n.size, dtype=np.int64)
    for fold, rows in enumerate(tests):
        fold_n[rows] = fold
    lowest_m, highest_m = np.full(unit_n.max() + 1, len(tests)), np.full(unit_n.max() + 1, -1)
    np.minimum.at(lowest_m, unit_n, fold_n)
    np.maximum.at(highest_m, unit_n, fold_n)
    split = int((lowest_m < highest_m).sum())
    if split:
        raise DataError(
            "cv puts images of one group, or exact copies of an image, into different folds "
            f"({split} cases), so a model would be judged on what it has seen. Use a splitter by "
            "group, or cv=5; pass keep_copies_together=False where equal X does not mean the same "
            "image.",
            option="cv",
            count=split,
        )
    return fold_n


def _too_few(n_folds: int, n_units: int, n: int) -> ConfigError:
    if n_folds < 2:
        return ConfigError(
            f"cv is the number of folds, at least 2, a splitter, or None; got {n_folds}.",
            option="cv",
            value=n_folds,
            limit=2,
        )
    return ConfigError(
        f"{n_folds} folds need at least as many units, but the {n} images form {n_units} groups of "
        "images that belong together (the same group, or identical X). Use fewer folds, or "
        "keep_copies_together=False where equal X does not mean the same image.",
        option="cv",
        value=n_folds,
        limit=n_units,
    )
