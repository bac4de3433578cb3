"""Train, validation and test: splits that keep groups and copies together.

They are alike in every source and class.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import ShareAboveZero, checked
from unskew.errors import ConfigError, DataError, did_you_mean, first_few, wrong_option
from unskew.files.reading import read_csv
from unskew.files.spreadsheet_text import unguard_table
from unskew.records import Floats, Ints, Pool
from unskew.records.arrays import Randomness, seed_of
from unskew.records.levels import MISSING, level_text
from unskew.splits.folds import join_units

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_SHARES: Mapping[str, float] = {"train": 0.7, "validation": 0.15, "test": 0.15}

# A numeric attribute with more values than this is cut at its quantiles into that many bins.
_MOST_LEVELS = 20
_QUANTILE_BINS = 5


@checked
def split_pool(
    pool: Pool,
    shares: Mapping[Any, ShareAboveZero] = DEFAULT_SHARES,
    *,
    by: str | Sequence[str] | None = None,
    rng: Randomness = 0,
    overwrite: bool = False,
) -> Pool:
    """Add a column ``split`` to the pool that keeps what belongs together on one side.

    A unit is what must not be separated: the images of a group, exact copies of an image (the same
    ``content``), and chains of both. Units are assigned stratum by stratum (source × label, or
    source × ``by``). Facts: no unit is divided; in each stratum every split differs from its share
    by less than the largest unit of that stratum (by less than one image where there are no
    groups); what rounding leaves over is assigned so that sources, levels and the whole come near
    their shares, too; the order of the rows does not matter, only the ids, the seed and what the
    images are.

    Parameters
    ----------
    pool : the images. A unit with images in several strata counts to the one with most of its
        images.
    shares : the share of the images that each split gets; they sum to 1.
    by : attributes, apart from the source, in which splits shall be alike; default: the label, if
        there is one. Of lists (several labels for an image) every combination is a stratum, and
        every label by itself is assigned evenly. Numbers with many values are cut at quantiles.
    rng : an int or a NumPy Generator, another seed is another split.
    overwrite : replace a split that the pool already has; otherwise that is an error.

    Examples
    --------
    >>> import unskew
    >>> from unskew.splits.assignment import split_pool
    >>> pool = unskew.Pool.from_arrays(["a"] * 10, label=["cat"] * 10, group=list("vvwwxxyyzz"))
    >>> frame = split_pool(pool, {"train": 0.6, "test": 0.4}).frame
    >>> frame.groupby("split")["group"].nunique().to_dict()
    {'test': 2, 'train': 3}
    """
    seed = seed_of(rng)
    names, share_s = check_shares(shares)
    if "split" in pool.frame.columns and not overwrite:
        raise ConfigError(
            "the pool already has a column 'split'; splitting it again would change what is train "
            "and what is test. Use it, or pass overwrite=True.",
            option="overwrite",
            column="split",
        )
    unit_n = _units(pool.frame)
    hash_n = _hashes(pool.frame["id"], seed)
    strata = _strata(pool.frame, _attributes(pool, by))
    split_n = _Dealing(share_s).deal(unit_n, hash_n, strata)
    lacking = [name for s, name in enumerate(names) if not (split_n == s).any()]
    if lacking:
        n_units = int(unit_n.max()) + 1
        raise DataError(
            f"the split {first_few(lacking)} would get no image: the {len(pool)} images form "
            f"{n_units} units that must stay together (groups and copies). Give it a larger share, "
            "or have fewer splits.",
            option="shares",
            value=lacking,
            count=n_units,
        )
    return pool.with_columns({"split": np.array(names, dtype=object)[split_n]})


def join_splits(pool: Pool, file: Path) -> Pool:
    """Add the splits of a table of id and split, joined by id; every image must be in it."""
    if not file.exists():
        raise ConfigError(
            f"sources.split names the file {str(file)!r}, which does not exist. `unskew split` "
            "writes it.",
            key="sources.split",
            path=str(file),
        )
    try:
        table = unguard_table(read_csv(file, dtype=str, keep_default_na=False))
    except DataError as error:
        raise DataError(f"{error} `unskew split` writes it again.", path=str(file)) from error
    if not {"id", "split"} <= set(table.columns):
        raise DataError(
            f"{file.name} needs the columns id and split, as `unskew split` writes them; it has "
            f"{first_few(list(table.columns))}.",
            path=str(file),
            columns=list(table.columns),
        )
    twice = table["id"][table["id"].duplicated()].tolist()
    if twice:
        raise DataError(
            f"{file.name} lists images twice: {first_few(twice)}.", path=str(file), ids=twice
        )
    split_n = pool.frame["id"].astype(str).map(table.set_index("id")["split"])
    missing = pool.frame["id"][split_n.isna() | (split_n == "")].tolist()
    if missing:
        raise DataError(
            f"{len(missing)} images have no split in {file.name}: {first_few(missing)}. Were "
            "images added since? Run `unskew split` again.",
            path=str(file),
            ids=missing,
            count=len(missing),
        )
    return pool.with_columns({"split": split_n})


@checked
def check_splits(pool: Pool) -> None:
    """Refuse groups or exact copies of an image in several splits, and images in none.

    A model would otherwise be judged on what it has seen. Without a column ``split`` there is
    nothing to check.
    """
    check_groups_of_splits(pool)
    check_copies_of_splits(pool)


def check_copies_of_splits(pool: Pool) -> None:
    """Refuse exact copies of an image in several splits; they are known once images were read."""
    if "split" in pool.frame.columns:
        _check_crossing(pool.frame, "content")


def check_groups_of_splits(pool: Pool) -> None:
    """Refuse groups in several splits, and images in none; no image need be read for this."""
    frame = pool.frame
    if "split" not in frame.columns:
        return
    missing_n = frame["split"].isna()
    if missing_n.any():
        ids = frame.loc[missing_n, "id"].tolist()
        raise DataError(
            f"{len(ids)} of {len(frame)} images are in no split (id {first_few(ids)}). Give each "
            "image one, or drop the column and let `unskew split` make it.",
            column="split",
            ids=ids,
            count=len(ids),
        )
    _check_crossing(frame, "group")


def _check_crossing(frame: pd.DataFrame, role: str) -> None:
    if role not in frame.columns:
        return
    seen = frame.loc[frame[role].notna(), ["id", role, "split"]].drop_duplicates([role, "split"])
    crossing = seen[seen.duplicated(role, keep=False)]
    if not len(crossing):
        return
    cases = [
        (value, rows["split"].tolist(), rows["id"].tolist())
        for value, rows in crossing.groupby(role, sort=False)
    ]
    if role == "group":
        shown = first_few(
            [f"group {value} in {' and '.join(map(str, splits))}" for value, splits, _ in cases]
        )
        raise DataError(
            f"{len(cases)} groups cross splits, so a model would be judged on what it has seen: "
            f"{shown}. Put each group on one side, or drop the column split and let `unskew split` "
            "make it. If the groups are not what they should be (a name that repeats from source "
            "to source), name another column as group.",
            column="group",
            count=len(cases),
        )
    shown = first_few(
        [
            " = ".join(f"{image} ({split})" for image, split in zip(ids, splits, strict=True))
            for _, splits, ids in cases
        ]
    )
    raise DataError(
        f"{len(cases)} images have exact copies in another split, so a model would be judged on "
        f"what it has seen: {shown}. Keep copies on one side, leave the extra ones out, or drop "
        "the column split and let `unskew split` make it.",
        column="content",
        count=len(cases),
    )


def check_shares(shares: Mapping[str, float]) -> tuple[list[str], Floats]:
    """Return the names and shares of splits; refuse what does not sum to 1."""
    names = [str(name) for name in shares]
    share_s = np.array([float(share) for share in shares.values()])
    if not names or not all(name.strip() for name in names):
        raise wrong_option(
            "shares names the splits and their share of the images, such as "
            f"{dict(DEFAULT_SHARES)}",
            shares=dict(shares),
        )
    if not (
        np.isfinite(share_s).all() and (share_s > 0).all() and abs(share_s.sum() - 1.0) <= 1e-9
    ):
        raise ConfigError(
            f"the shares of the splits are above 0 and sum to 1; got {dict(shares)!r}, which sum "
            f"to {share_s.sum():.6g}.",
            option="shares",
            value=dict(shares),
        )
    return names, share_s


def _units(frame: pd.DataFrame) -> Ints:
    """(n,) images with the same number stay together; unknown content is no copy of another."""
    links: list[Any] = [frame["group"].map(level_text)] if "group" in frame.columns else []
    if "content" in frame.columns:
        links.append(
            [
                f"={value}" if known else f"?{at}"
                for at, (value, known) in enumerate(_known(frame["content"]))
            ]
        )
    return join_units(len(frame), *links)


def _known(column: pd.Series[Any]) -> list[tuple[Any, bool]]:
    return list(zip(column.tolist(), column.notna().tolist(), strict=True))


def _hashes(id_n: pd.Series[Any], seed: int) -> npt.NDArray[np.uint64]:
    """(n,) numbers that depend on id and seed alone: a shuffle, whatever the order of the rows."""
    key = str(int(seed)).encode()
    digests = b"".join(
        hashlib.blake2b(
            level_text(value).encode(errors="surrogatepass"), digest_size=8, key=key
        ).digest()
        for value in id_n
    )
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def _attributes(pool: Pool, by: str | Sequence[str] | None) -> list[str]:
    if by is None:
        return ["source", "label"] if "label" in pool.frame.columns else ["source"]
    names = [by] if isinstance(by, str) else list(by)
    lacking = [name for name in names if name not in pool.frame.columns]
    if lacking:
        columns = list(pool.frame.columns)
        raise ConfigError(
            f"splits shall be alike in {first_few(lacking)}, but the images have no such column; "
            f"theirs are {first_few(columns, 12)}.{did_you_mean(lacking[0], columns)}",
            option="by",
            columns=lacking,
        )
    return list(dict.fromkeys(["source", *names]))


def _strata(frame: pd.DataFrame, attributes: Sequence[str]) -> list[tuple[tuple[str, ...], ...]]:
    """List for each image the levels it has of every attribute (one, or those of a list)."""
    return list(zip(*[_levels(frame[name]) for name in attributes], strict=True))


def _levels(column: pd.Series[Any]) -> list[tuple[str, ...]]:
    import pandas as pd

    if any(isinstance(value, list | tuple | set | frozenset | np.ndarray) for value in column):
        return [
            tuple(sorted({level_text(item) for item in value}))
            if np.iterable(value)
            else (MISSING,)
            for value in column
        ]
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric and column.nunique() > _MOST_LEVELS:
        value_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
        edges = np.unique(np.nanquantile(value_n, np.linspace(0.0, 1.0, _QUANTILE_BINS + 1)[1:-1]))
        bin_n = np.searchsorted(edges, value_n, side="right")
        return [
            (MISSING if np.isnan(value) else f"bin {at}",)
            for value, at in zip(value_n, bin_n, strict=True)
        ]
    return [(level_text(value),) for value in column]


@dataclass
class _Dealing:
    """Units assigned to splits, stratum after stratum.

    ``owed`` is what each split is short of among the strata assigned so far.

    A unit of z images goes to a split that is short of at least z in its stratum, else to one that
    is short of anything: an overshoot is then below z and happens only when no split is short of z
    or more. Among these it goes where most is owed over stratum, source, levels and whole together,
    so that the remainders of many small strata do not all fall to the largest split.
    """

    share_s: Floats
    owed: dict[Hashable, Floats] = field(default_factory=dict)

    def deal(
        self,
        unit_n: Ints,
        hash_n: npt.NDArray[np.uint64],
        strata: Sequence[tuple[tuple[str, ...], ...]],
    ) -> Ints:
        """(n,) split of every image."""
        size_m = np.bincount(unit_n)
        hash_m = np.full(size_m.size, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(hash_m, unit_n, hash_n)
        stratum_m, keys = _unit_strata(unit_n, strata)
        order_m = np.lexsort((hash_m, -size_m, stratum_m))
        split_m = np.empty(size_m.size, dtype=np.int64)
        for at in np.split(order_m, np.flatnonzero(np.diff(stratum_m[order_m])) + 1):
            split_m[at] = self._deal_stratum(keys[stratum_m[at[0]]], size_m[at])
        split_n: Ints = split_m[unit_n]
        return split_n

    def _deal_stratum(self, key: tuple[tuple[str, ...], ...], size_m: Ints) -> Ints:
        """(m,) split of each unit of a stratum, the largest first."""
        margins: list[Hashable] = [
            "all",
            *((a, level) for a, levels in enumerate(key) for level in levels),
        ]
        short_s = self.share_s * float(size_m.sum())
        for margin in margins:
            self.owed[margin] = self.owed.get(margin, np.zeros(self.share_s.size)) + short_s
        total_s = np.sum([self.owed[margin] for margin in margins], axis=0)
        short, total = short_s.tolist(), total_s.tolist()
        split_m = np.empty(size_m.size, dtype=np.int64)
        for m, size in enumerate(size_m.tolist()):
            # Rounding: 0.7 × 10 is not always 7.
            enough = [s for s, left in enumerate(short) if left >= size - 1e-9] or [
                s for s, left in enumerate(short) if left > 1e-9
            ]
            chosen = max(enough, key=lambda s: short[s] + total[s])
            short[chosen] -= size
            total[chosen] -= size * len(margins)
            split_m[m] = chosen
        assigned_s = np.bincount(split_m, weights=size_m, minlength=self.share_s.size)
        for margin in margins:
            self.owed[margin] -= assigned_s
        return split_m


def _unit_strata(
    unit_n: Ints, strata: Sequence[tuple[tuple[str, ...], ...]]
) -> tuple[Ints, list[tuple[tuple[str, ...], ...]]]:
    """(stratum of every unit, the strata in their order).

    The stratum is the one with most of the unit's images, of equals the first.
    """
    keys = sorted(set(strata))
    index = {key: at for at, key in enumerate(keys)}
    stratum_n = np.array([index[key] for key in strata], dtype=np.int64)
    pair, count = np.unique(unit_n * len(keys) + stratum_n, return_counts=True)
    unit_p, stratum_p = np.divmod(pair, len(keys))
    order_p = np.lexsort((stratum_p, -count, unit_p))
    first_p = order_p[np.searchsorted(unit_p[order_p], np.arange(int(unit_n.max()) + 1))]
    return stratum_p[first_p], keys
