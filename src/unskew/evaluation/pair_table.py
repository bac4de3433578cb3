"""A table of compared images: read, checked, and joined to weights by id."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.sparse.csgraph

from unskew.errors import DataError, did_you_mean, first_few
from unskew.evaluation.matching import Judged, none_match, read_number_column
from unskew.records import Floats, Ints
from unskew.records.levels import level_text
from unskew.report.summary.privacy import too_small

if TYPE_CHECKING:
    import pandas as pd

Mask = npt.NDArray[np.bool_]
COLUMNS = ("id_a", "id_b", "same", "score")
_TRUE = ("true", "1", "yes")
_FALSE = ("false", "0", "no")


@dataclass(frozen=True)
class PairCoverage:
    """What became of the rows of the table; None is a count that privacy withholds.

    Attributes
    ----------
    genuine, impostor : pairs that are judged.
    elsewhere : pairs with an image that is in another split; not used.
    extra : pairs with an image that has no weight; not used.
    zero : pairs that count nothing, because an image or the pair has weight 0.
    weight : share of the target's weight that images in pairs carry.
    """

    genuine: int
    impostor: int
    elsewhere: int | None
    extra: int | None
    zero: int | None
    weight: float

    def notes(self) -> list[str]:
        """Say in sentences what was not used, or is not covered."""
        reasons = {
            "elsewhere": "pairs have an image in another split, and were not used.",
            "extra": "pairs have an image without a weight, and were ignored.",
            "zero": "pairs count nothing: an image (or the pair itself) has weight 0.",
        }
        counts = {name: getattr(self, name) for name in reasons}
        notes = [
            f"{'A few' if count is None else format(count, ',')} {reasons[name]}"
            for name, count in counts.items()
            if count != 0
        ]
        if self.weight < 0.995:
            notes.append(
                f"The images in these pairs carry {100 * self.weight:.3g} % of the weight: the "
                "figures are of that part of the target."
            )
        return notes


@dataclass(frozen=True, eq=False)
class JoinedPairs:
    """Pairs of images of the weights.

    Attributes
    ----------
    first, second : (P,) rows of the two images among the judged ones.
    same : (P,) whether they show one person.
    score : (P,) the larger, the more alike.
    weight : (P,) of the pairs' own sampling design, above 0; 1 without such a column.
    """

    first: Ints = field(repr=False)
    second: Ints = field(repr=False)
    same: Mask = field(repr=False)
    score: Floats = field(repr=False)
    weight: Floats = field(repr=False)
    coverage: PairCoverage


def read_pairs(pairs: pd.DataFrame | str | PathLike[str]) -> pd.DataFrame:
    """Read a table or file with the columns id_a, id_b, same, score and perhaps weight.

    Ids become text, ``same`` bool, the others finite numbers. An image compared with itself, and a
    pair that occurs twice, also with its images swapped, are errors.
    """
    import pandas as pd

    if isinstance(pairs, pd.DataFrame):
        frame, name = pairs, "the table of pairs"
    else:
        from unskew.sources.tables import read_table

        path = os.fspath(pairs)
        frame, name = read_table(path, path, text=("id_a", "id_b")).frame, repr(path)
    if len(frame) == 0:
        raise DataError(f"{name} has no rows: not a single pair was compared.", count=0)
    for column in COLUMNS:
        if column not in frame.columns:
            raise DataError(
                f"{name} has no column {column!r}; a table of pairs has {', '.join(COLUMNS)} (and "
                f"weight, if pairs were sampled unequally). Its columns are "
                f"{first_few(list(frame.columns), 12)}.{did_you_mean(column, frame.columns)}",
                column=column,
                columns=[str(column) for column in frame.columns],
            )
        _refuse_missing(frame[column], column, name)
    ids = {column: frame[column].map(level_text).to_numpy(dtype=object) for column in COLUMNS[:2]}
    _refuse_repeated(ids["id_a"], ids["id_b"], name)
    weight = frame["weight"] if "weight" in frame.columns else pd.Series(np.ones(len(frame)))
    numbers = {"score": frame["score"], "weight": weight}
    return pd.DataFrame(
        ids
        | {"same": _read_same(frame["same"], name)}
        | {column: _finite(values, column, name) for column, values in numbers.items()}
    )


def _refuse_missing(values: pd.Series[Any], column: str, name: str) -> None:
    missing = np.flatnonzero(values.isna().to_numpy())
    if missing.size:
        raise DataError(
            f"{missing.size} of {len(values)} rows of {name} have no {column}; the first is row "
            f"{missing[0] + 1}. Leave such pairs out, if the others still represent all.",
            column=column,
            count=int(missing.size),
            row=int(missing[0]) + 1,
        )


def _refuse_repeated(a_p: npt.NDArray[Any], b_p: npt.NDArray[Any], name: str) -> None:
    import pandas as pd

    alike = np.flatnonzero(a_p == b_p)
    if alike.size:
        raise DataError(
            f"{alike.size} rows of {name} compare an image with itself: "
            f"{first_few(a_p[alike].tolist())}. Such a pair always matches; leave it out.",
            ids=a_p[alike].tolist(),
            count=int(alike.size),
        )
    swapped = a_p > b_p
    both = pd.DataFrame({"a": np.where(swapped, b_p, a_p), "b": np.where(swapped, a_p, b_p)})
    twice = both[both.duplicated()].drop_duplicates()
    if len(twice):
        shown = [f"{row.a} and {row.b}" for row in twice.itertuples()]
        raise DataError(
            f"every pair is compared once, but {len(twice)} pairs occur more than once in {name} "
            f"(the order of the two images does not matter): {first_few(shown)}. Keep one row of "
            "each.",
            ids=shown,
            count=len(twice),
        )


def _read_same(column: pd.Series[Any], name: str) -> Mask:
    text = column.map(level_text).str.strip().str.lower()
    wrong = column[~text.isin(_TRUE + _FALSE)]
    if len(wrong):
        raise DataError(
            f"same says whether both images show one person: true or false, 1 or 0. In {name} "
            f"{len(wrong)} rows have something else: {first_few(wrong.unique().tolist())}.",
            column="same",
            count=len(wrong),
        )
    return np.asarray(text.isin(_TRUE).to_numpy(), dtype=np.bool_)


def _finite(column: pd.Series[Any], name: str, table: str) -> Floats:
    value_p = read_number_column(column, name)
    wrong = ~np.isfinite(value_p) if name == "score" else ~(np.isfinite(value_p) & (value_p >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rule = "finite" if name == "score" else "finite and not negative"
        raise DataError(
            f"the column {name!r} of {table} must be {rule}, but {int(wrong.sum())} of "
            f"{value_p.size} entries are not; row {row + 1} has {value_p[row]}.",
            column=name,
            count=int(wrong.sum()),
            row=row + 1,
        )
    return value_p


def join_pairs(
    table: pd.DataFrame, judged: Judged, pairs: pd.DataFrame, *, allow_extra: bool
) -> JoinedPairs:
    """Join pairs to the judged images; both images must be among them to be used."""
    import pandas as pd

    index = pd.Index(judged.key)
    known, row = [], []
    for column in ("id_a", "id_b"):
        known.append(pairs[column].isin(table.index).to_numpy())
        row.append(index.get_indexer(pairs[column].to_numpy(dtype=object)))
    extra_p = ~(known[0] & known[1])
    if extra_p.any() and not allow_extra:
        raise _unknown_images(table, pairs, known)
    here_p = (row[0] >= 0) & (row[1] >= 0)
    weight_n = judged.weight
    counts_p = here_p & (pairs["weight"].to_numpy() > 0)
    counts_p &= (weight_n[row[0]] > 0) & (weight_n[row[1]] > 0)
    kept = pairs[counts_p]
    first_p, second_p, same_p = row[0][counts_p], row[1][counts_p], kept["same"].to_numpy()
    used = np.unique(np.concatenate([first_p, second_p]))
    coverage = PairCoverage(
        genuine=int(same_p.sum()),
        impostor=int((~same_p).sum()),
        elsewhere=int((~here_p & ~extra_p).sum()),
        extra=int(extra_p.sum()),
        zero=int((here_p & ~counts_p).sum()),
        weight=float(weight_n[used].sum() / weight_n.sum()),
    )
    _refuse_one_kind(coverage, judged.split)
    score_p, own_p = kept["score"].to_numpy(), kept["weight"].to_numpy()
    return JoinedPairs(first_p, second_p, same_p, score_p, own_p, coverage)


def _unknown_images(table: pd.DataFrame, pairs: pd.DataFrame, known: list[Mask]) -> DataError:
    ids = [pairs[column][~has] for column, has in zip(("id_a", "id_b"), known, strict=True)]
    unknown = list(dict.fromkeys([*ids[0].tolist(), *ids[1].tolist()]))
    if not (known[0] & known[1]).any():
        return none_match(table, unknown, "images in pairs")
    count = int((~(known[0] & known[1])).sum())
    return DataError(
        f"{count} of {len(pairs)} pairs have an image that the weights do not have: "
        f"{first_few(unknown)}. Are they of another run, or of images that were excluded "
        "(unreadable.csv)? Add --allow-extra (allow_extra=True) to ignore these pairs.",
        option="allow_extra",
        ids=unknown,
        count=count,
    )


def _refuse_one_kind(coverage: PairCoverage, split: str) -> None:
    for kind, meaning in (("genuine", "same = true"), ("impostor", "same = false")):
        if getattr(coverage, kind) == 0:
            unused = (coverage.elsewhere or 0) + (coverage.extra or 0) + (coverage.zero or 0)
            rest = f" {unused} pairs could not be used." if unused else ""
            raise DataError(
                f"there is no {kind} pair ({meaning}) among the images of {split!r}, and error "
                f"rates need both kinds.{rest} Are the images in another split (--split)?",
                level=kind,
                count=0,
            )


def withhold_counts(coverage: PairCoverage) -> PairCoverage:
    """Replace counts of 1 to 9 pairs that were not used by None."""
    from dataclasses import replace

    names = ("elsewhere", "extra", "zero")
    small: dict[str, Any] = {n: None for n in names if too_small(getattr(coverage, n))}
    return replace(coverage, weight=float(f"{coverage.weight:.2g}"), **small)


def linked_images(pairs: JoinedPairs, n: int) -> Ints:
    """(n,) the same number for images that genuine pairs say are of one person, by chains, too."""
    first, second = pairs.first[pairs.same], pairs.second[pairs.same]
    link = scipy.sparse.coo_array((np.ones(first.size), (first, second)), shape=(n, n))
    return np.asarray(
        scipy.sparse.csgraph.connected_components(link.tocsr(), directed=False)[1], dtype=np.int64
    )


def weigh_pairs(pairs: JoinedPairs, weight_n: Floats, person_n: Ints | None) -> Floats:
    """Compute the weight of every pair, (P,): w = d π_i π_j, d the pair's own weight.

    An impostor pair is two independent draws from the target. A genuine one is two draws from one
    person, who is drawn once: with ``person_n`` its weight is d π_i π_j/π̂_g, so that the pairs of a
    person of weight 2 count twice, not four times. π̂_g is `person_weights`.
    """
    # Only ratios matter, and sums of huge weights would not be numbers any more.
    own_p = pairs.weight / pairs.weight.max(initial=0.0)
    weight_p = own_p * weight_n[pairs.first] * weight_n[pairs.second]
    if person_n is None:
        return np.asarray(weight_p)
    used = np.unique(np.concatenate([pairs.first, pairs.second]))
    own_n = np.ones(weight_n.size)
    own_n[used] = person_weights(weight_n[used], person_n[used])
    return np.asarray(np.where(pairs.same, weight_p / own_n[pairs.first], weight_p))


def person_weights(weight_n: Floats, person_n: Ints) -> Floats:
    """Estimate the weight π̂_g of each image's person, (n,): r̄ + s_g (r̄_g − r̄).

    r̄_g is the mean over the person's images, and s_g = σ_b²/(σ_b² + σ_w²/m_g) from the variances
    between and within persons (analysis of variance). Facts: where all images of a person have one
    weight it is that; where weights vary within persons only, it is about the same for all.
    """
    _, code_n, size_g = np.unique(person_n, return_inverse=True, return_counts=True)
    mean_g = np.bincount(code_n, weights=weight_n) / size_g
    n, n_persons, mean = weight_n.size, size_g.size, float(weight_n.mean())
    if n == n_persons or n_persons == 1:
        return mean_g[code_n]
    within = float(((weight_n - mean_g[code_n]) ** 2).sum()) / (n - n_persons)
    between = float((size_g * (mean_g - mean) ** 2).sum()) / (n_persons - 1)
    typical = (n - float((size_g**2).sum()) / n) / (n_persons - 1)
    between = max((between - within) / typical, 0.0)
    # Rounding is no variation.
    if within <= 1e-20 * mean**2:
        return mean_g[code_n]
    kept_g = between / (between + within / size_g)
    return np.asarray((mean + kept_g * (mean_g - mean))[code_n])
