"""Biasing functions of discrete attributes alone: label, country × gender, age in bins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.engine.arguments import Bins, checked
from unskew.errors import ConfigError, DataError, first_few, warn_caller, wrong_option
from unskew.records import Bools, Floats, Ints, Pool, Target
from unskew.records.levels import text_levels
from unskew.splits.folds import unit_codes
from unskew.target.facts import (
    Distribution,
    cell_text,
    cells_of,
    check_discrete,
    check_edges,
    column_levels,
)
from unskew.target.mass_covariance import grouped_error

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata


@checked
@dataclass(frozen=True)
class Strata(Bias):
    """ω_k(y) = (n_k^(y)/n_k)/p(y) for discrete attributes y, p their distribution in the target.

    The normalizers are then known, Ω_k = 1, and the weights have a closed form that needs no link
    between the sources, only images in every stratum of the target: π_i = p(y_i)/N_{y_i}, N_y the
    pooled count (post-stratification).

    Parameters
    ----------
    by : the attributes; default: those of the target.
    bins : edges for numeric attributes, if the target does not have them (a sample).

    Notes
    -----
    c(z) comes from the target's margin. A target sample or source (which must have the attributes)
    gives it with its sampling error.
    """

    family: ClassVar[str] = "strata"
    by: str | Sequence[str] | None = None
    bins: Bins | None = None

    def __post_init__(self) -> None:
        by: Any = self.by  # of any kind where it comes from a file
        bins: Any = self.bins
        if by is not None:
            names = tuple(by) if isinstance(by, Iterable) and not isinstance(by, str) else (by,)
            if not names:
                raise wrong_option("by is the name of an attribute, or a list of names", by=by)
            object.__setattr__(self, "by", names)
        if bins is not None:
            object.__setattr__(
                self, "bins", {name: check_edges(name, edges) for name, edges in bins.items()}
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.by is None else tuple(self.by)

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        raise ConfigError(
            "strata are read off with their target masses by the fit method.", option="bias"
        )


def stratify_for(
    model: Strata,
    pool: Pool,
    target: Target | None,
    reference: pd.DataFrame | None,
    design_m: Floats | None = None,
) -> tuple[TargetStrata, Target]:
    """Find the pool's strata with their mass, and the target over the model's attributes alone.

    ``reference``: the images of the target's sample or source that take part in the fit;
    ``design_m``: their design weights.
    """
    if target is None:
        raise ConfigError(
            "Strata needs the target's distribution of the attributes: pass Target.margins, "
            "Target.table, Target.uniform, or a sample that has them (Target.sample, "
            "Target.source).",
            option="target",
            value=None,
        )
    if reference is None or target.kind not in ("sample", "source"):
        over = restrict_target(model, target)
        return over.stratify(pool), over
    over = _counted(model, pool, reference, design_m)
    strata = over.stratify(pool)
    unit_m = unit_codes(reference)
    if unit_m is None and design_m is None:
        return strata, over
    # The shares vary as whole groups do, and as their design weights say.
    error = grouped_error(
        find_cells(reference, strata, over.bins),
        np.arange(len(reference)) if unit_m is None else unit_m,
        strata.mass.size,
        design_m,
    )
    return replace(strata, errors=(error,)), over


def restrict_target(model: Strata, target: Target) -> Target:
    """Restrict the target to its margin over the attributes of the model."""
    by = target.by if model.by is None else tuple(model.by)
    lacking = [name for name in by if name not in target.by]
    if lacking:
        raise ConfigError(
            f"Strata reads {first_few(lacking)}, but the target does not give its distribution; it "
            f"gives that of {first_few(target.by)}. Leave it out of Strata, or give its "
            "distribution in the target.",
            option="by",
            columns=lacking,
        )
    if model.bins and any(
        tuple(edges) != tuple(target.bins.get(name, ())) for name, edges in model.bins.items()
    ):
        raise ConfigError(
            f"bins of Strata and of the target differ: {dict(model.bins)} and {dict(target.bins)}. "
            "Give them to the target only.",
            option="bins",
            columns=list(model.bins),
        )
    if set(by) == set(target.by):
        return target
    # Facts have the target's order of attributes, whatever the model's is.
    by = tuple(name for name in target.by if name in by)
    margins = [_margin(fact, by) for fact in target.facts]
    return replace(
        target,
        by=by,
        facts=tuple(margin for margin in margins if margin is not None),
        interactions=(
            _margin(target.interactions, by)
            if isinstance(target.interactions, Distribution)
            else target.interactions
        ),
        bins={name: edges for name, edges in target.bins.items() if name in by},
        outside={name: rule for name, rule in target.outside.items() if name in by},
        missing={name: rule for name, rule in target.missing.items() if name in by},
    )


def _margin(fact: Distribution, by: Sequence[str]) -> Distribution | None:
    """Sum the distribution over the attributes that are not in ``by``; None if none is left."""
    kept = [at for at, name in enumerate(fact.by) if name in by]
    if not kept:
        return None
    if len(kept) == len(fact.by):
        return fact
    mass: dict[tuple[str, ...], float] = {}
    for cell, value in zip(fact.cells, fact.mass, strict=True):
        key = tuple(cell[at] for at in kept)
        mass[key] = mass.get(key, 0.0) + value
    return Distribution(
        tuple(fact.by[at] for at in kept), tuple(mass), tuple(mass.values()), fact.n
    )


def _counted(model: Strata, pool: Pool, frame: pd.DataFrame, design_m: Floats | None) -> Target:
    """Count the attributes in the target's sample or source: a joint table with sampling error."""
    if model.by is None:
        raise ConfigError(
            "Strata needs the names of its attributes, because the target is a sample: "
            "Strata(by=[…]).",
            option="by",
            value=None,
        )
    import pandas as pd

    bins = {name: tuple(edges) for name, edges in (model.bins or {}).items()}
    for name in model.by:
        _check_sampled(name, pool.frame, frame)
        if name not in bins:
            check_discrete(frame[name], name, f"Strata({list(model.by)}, bins={{{name!r}: […]}})")
    table = frame[list(model.by)].copy()
    table["count"] = 1 if design_m is None else design_m / design_m.sum()
    seen = pool.frame[list(model.by)].drop_duplicates()
    seen["count"] = 0
    return Target.table(
        pd.concat([table, seen], ignore_index=True),
        by=list(model.by),
        n=float(len(frame)),
        bins=bins,
    )


def _check_sampled(name: str, pool: pd.DataFrame, sample: pd.DataFrame) -> None:
    """Refuse an attribute that the sample lacks, or that is missing for some images."""
    for which, table in (("the pool", pool), ("the target's sample or source", sample)):
        n_missing = int(table[name].isna().sum()) if name in table.columns else 0
        if 0 < n_missing < len(table):
            raise DataError(
                f"{name} is missing for {n_missing} of {len(table)} images of {which}, and a "
                "sample does not say what that means. Leave them out, fill the values in, or give "
                "the distribution itself (Target.margins with missing=…).",
                column=name,
                count=n_missing,
            )
    if name not in sample.columns or bool(sample[name].isna().all()):
        hint = ""
        if name == "label":
            hint = " Without labels it cannot give their distribution: use Tilt or Propensity."
        raise DataError(
            f"the sample of the target has no column {name!r}; its columns are "
            f"{first_few(list(sample.columns), 12)}.{hint}",
            column=name,
        )


@dataclass(frozen=True, eq=False)
class FittedStrata:
    """The factor a_k(y) of every source and stratum, which makes Ω_k = 1.

    target : the strata of the pool.
    bins : edges of the numeric attributes.
    log_factor : (C, K) log a_k(y); −inf for sources without images there.
    only : for strata that a single source sees, the name of that source.
    flags : sentences on strata that nearly identify the source.
    """

    target: TargetStrata = field(repr=False)
    bins: Mapping[str, tuple[float, ...]]
    log_factor: Floats = field(repr=False)
    only: Mapping[str, str]
    flags: tuple[str, ...] = ()

    def cells(self, frame: pd.DataFrame) -> Ints:
        """(n,) stratum of every row of any table; levels of no stratum are an error."""
        return find_cells(frame, self.target, self.bins)

    def knows(self, frame: pd.DataFrame) -> Bools:
        """(n,) whether the row is in one of the strata."""
        cells, cell_n = _cells_of_table(frame, self.target, self.bins)
        known = set(self.target.strata)
        return np.array([cell in known for cell in cells])[cell_n]

    def units(self, frame: pd.DataFrame, by_group: bool) -> Floats:
        """(n,) 1, or 1/(images of its group in its stratum) if masses count groups.

        0 in strata without mass.
        """
        cell_n = self.cells(frame)
        has_mass_n = self.target.mass[cell_n] > 0
        if not by_group or "group" not in frame.columns:
            return has_mass_n.astype(np.float64)
        _, pair_n, count = np.unique(
            cells_of([text_levels(frame["group"], "group")[1], cell_n])[1],
            return_inverse=True,
            return_counts=True,
        )
        return np.asarray(has_mass_n / count[pair_n], dtype=np.float64)

    def notes(self) -> tuple[str, ...]:
        """Return sentences on the target, and on strata that one source has or nearly has alone."""
        notes = list(self.target.describe())
        if self.only:
            shown = first_few([f"{stratum} ({source})" for stratum, source in self.only.items()])
            notes.append(
                f"seen by one source only: weights cannot separate stratum from source: {shown}"
            )
        return (*notes, *self.flags)


def find_cells(
    frame: pd.DataFrame, target: TargetStrata, bins: Mapping[str, Sequence[float]]
) -> Ints:
    """(n,) index of every row's stratum among those of ``target``."""
    cells, cell_n = _cells_of_table(frame, target, bins)
    index = {cell: at for at, cell in enumerate(target.strata)}
    unknown = [cell_text(target.by, cell) for cell in cells if cell not in index]
    if unknown:
        raise DataError(
            f"images have {first_few(unknown)}, which no image had that the bias model was fitted "
            "on (or which was dropped there). Leave them out, or fit on a pool that has them.",
            columns=list(target.by),
            levels=unknown,
        )
    return np.array([index[cell] for cell in cells], dtype=np.int64)[cell_n]


def _cells_of_table(
    frame: pd.DataFrame, target: TargetStrata, bins: Mapping[str, Sequence[float]]
) -> tuple[list[tuple[str, ...]], Ints]:
    """Find the combinations of levels that occur, and (n,) that of every row."""
    from unskew.bias.features import check_columns

    check_columns(frame, target.by)
    read = [column_levels(frame[name], name, bins.get(name)) for name in target.by]
    cell_ca, cell_n = cells_of([code_n for _, code_n in read])
    cells = [
        tuple(levels[at] for (levels, _), at in zip(read, cell, strict=True)) for cell in cell_ca
    ]
    return cells, cell_n


def flag_identifying(target: TargetStrata, count_ck: Ints) -> tuple[str, ...]:
    """Warn of strata that nearly tell the source of an image, though sources share them."""
    from unskew.bias.feature_flags import IDENTIFIES, can_be_identified, share_guessed
    from unskew.bias.features import flagged

    is_shared = bool(((count_ck > 0).sum(axis=1) > 1).any())
    if (
        not is_shared
        or not can_be_identified(count_ck.sum(axis=0))
        or (right := share_guessed(count_ck)) < IDENTIFIES
    ):
        return ()
    return flagged(
        f"{' and '.join(target.by)} identifies the source of {right:.1%} of the images: the few "
        "others alone link the sources within strata, and weights hardly separate stratum from "
        "source",
        " A trace of the source (a watermark, a file format) is no reason for selection.",
    )


def flag_disagreement(target: TargetStrata) -> None:
    """Warn where the interactions of one source alone would move much of the target."""
    disagreement = target.disagreement
    if disagreement is None or not disagreement.is_large or target.counted is None:
        return
    warn_caller(
        f"the sources disagree on how {' and '.join(target.by)} go together: the odds ratios of "
        f"{target.counted.names[disagreement.source]} alone would move {disagreement.shift:.2g} of "
        "the target between strata. Some source selects by combinations of them. Give the joint "
        "distribution (Target.table), or a table of interactions."
    )


def strata_of_one_source(
    target: TargetStrata, count_ck: Ints, names: Sequence[str]
) -> dict[str, str]:
    """{stratum: the only source with images of it}, for strata with target mass.

    ``count_ck`` are the images of stratum and source.
    """
    lone = np.flatnonzero((np.count_nonzero(count_ck, axis=1) == 1) & (target.mass > 0))
    holder = count_ck[lone].argmax(axis=1)
    return {target.names[at]: names[k] for at, k in zip(lone, holder, strict=True)}


def describe_strata(fitted: FittedStrata, alone: bool) -> Description:
    """Describe what `Strata` contributes; ``alone``: no other factor."""
    by = " × ".join(fitted.target.by)
    assumed = (
        f"within every level of {by} a source selects all images alike"
        if alone
        else f"how a source selects by {by} is free"
    )
    n = len(fitted.target.strata)
    estimated = (
        f"counts of {n} strata"
        if alone
        else f"a factor for every source in each of {n} strata, by maximum likelihood together "
        "with the other factors"
    )
    return Description(
        "Strata",
        (assumed,),
        (estimated,),
        f"the target's distribution of {by}",
        fitted.target.population,
        dict(zip(fitted.target.names, fitted.target.mass.tolist(), strict=True)),
        fitted.notes(),
    )
