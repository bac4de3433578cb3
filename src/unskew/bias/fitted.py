"""A fitted bias model: ω of any table, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unskew.bias.base import Bias, BiasData, Description, Factor
from unskew.bias.feature_flags import uncovered_levels
from unskew.bias.features import expand_features
from unskew.bias.strata import FittedStrata, describe_strata
from unskew.engine.arguments import checked
from unskew.errors import first_few
from unskew.records import Bools, Floats, Ints, Pool, Target
from unskew.records.design_weights import add_design
from unskew.records.target import THE_TARGET
from unskew.solve.profile_likelihood import Profile
from unskew.target.settings import labels_lacking

if TYPE_CHECKING:
    import pandas as pd

SAMPLE = "(target sample)"


@dataclass(frozen=True, eq=False)
class FittedBias:
    """ω_k(z) = Π_p ω_k^{(p)}(z; θ̂), ready for any table.

    model : the settings that were fitted.
    target : the target of the fit.
    names : the K sources of the pool, the columns of ω.
    data : the rows of the fit, the target's sample among them.
    row : (number of pool rows in ``data``,) the index of each in the pool.
    n_images : number of images of the pool.
    factors : the fitted factors but `Strata`.
    strata : the fitted strata, or None.
    judge : images of the target that took no part in the fit and judge it; None without any.
    left_out : number of images of the pool that get weight 0, by reason.
    log_likelihood : Σ_i log q_{i,s_i} at the maximum.
    """

    model: Bias
    target: Target | None = field(repr=False)
    names: tuple[str, ...]
    data: BiasData = field(repr=False)
    row: Ints = field(repr=False)
    n_images: int
    factors: tuple[Factor, ...]
    strata: FittedStrata | None
    judge: pd.DataFrame | None = field(repr=False)
    left_out: Mapping[str, int]
    profile: Profile = field(repr=False)

    @property
    def log_likelihood(self) -> float:
        """Σ_i log q_{i,s_i} over the rows of the fit."""
        return log_likelihood(self.profile)

    @property
    def normalizers_known(self) -> bool:
        """Whether Ω_k = 1 by strata and their target masses.

        Then coverage is needed, and links between sources within a stratum, but no more.
        """
        return self.strata is not None

    @property
    def omega_is_known(self) -> bool:
        """Whether nothing was estimated or left in doubt, and no image left out."""
        return (
            self.strata is None
            and self.data.sample is None
            and not self.left_out
            and all(
                not factor.n_parameters and factor.is_smooth and not factor.in_doubt
                for factor in self.factors
            )
        )

    @cached_property
    def is_reference_r(self) -> Bools:
        """(R,) which rows of the fit are images of the target: its sample's, or a source's."""
        names, reference = self.data.names, self.data.reference
        named = {part.reference_source for part in self.model.parts} - {None}
        if reference is None and len(named) == 1:
            reference = names.index(str(named.pop()))
        if reference is None:
            return np.zeros(self.data.source.size, dtype=np.bool_)
        return np.asarray(self.data.source == reference)

    @checked
    def omega(self, table: Pool | pd.DataFrame) -> Floats:
        """(n, K) ω_k(z_i) of any table that has the columns the model reads."""
        with np.errstate(under="ignore", over="ignore"):
            return np.asarray(np.exp(self.log_omega(table)))

    @checked
    def log_omega(self, table: Pool | pd.DataFrame) -> Floats:
        """(n, K) log ω_k(z_i); −inf where source k cannot select the image."""
        frame = table.frame if isinstance(table, Pool) else table
        return self.log_omega_with_sample(frame)[:, : len(self.names)]

    def log_omega_with_sample(self, frame: pd.DataFrame) -> Floats:
        """(n, K) log ω of all sources of the fit, the target's sample included."""
        log_nk = self.log_factors(frame)
        if self.strata is not None:
            log_nk = log_nk + self.strata.log_factor[self.strata.cells(frame)]
        return log_nk

    def log_factors(self, frame: pd.DataFrame) -> Floats:
        """(n, K) the same without the factor of strata."""
        log_nk = np.zeros((len(frame), self.data.n_sources))
        for factor in self.factors:
            log_nk = log_nk + factor.log_omega(frame)
        return log_nk

    @property
    def u_k(self) -> Floats:
        """(K,) u; with strata Ω_k = 1, hence u_k = log n_k."""
        if self.strata is None:
            return np.asarray(self.profile.u[0])
        return np.asarray(np.log(self.data.size_k))

    def describe(self) -> Description:
        """Describe what was assumed and estimated, and where c(z) comes from, over all factors."""
        parts = [factor.describe() for factor in self.factors]
        if self.strata is not None:
            parts.insert(0, describe_strata(self.strata, alone=not self.factors))
        notes = [
            f"{count} images get weight 0: {reason}" for reason, count in self.left_out.items()
        ]
        if self.data.sample is not None:
            n = int(np.count_nonzero(self.data.source == self.data.sample))
            notes.append(f"{n} images of the target fitted the model and are left out of training")
        if self.data.design is not None:
            effect_k = add_design(
                self.data.source, np.square(self.data.design), self.data.n_sources
            )
            worst = float((effect_k / self.data.size_k).max())
            notes.append(
                "every image counts by its design weight (mean 1 within each source; they multiply "
                f"the variance of a source's mean by up to {worst:.2f})"
            )
        notes += self.assumed_labels
        if len(parts) == 1:
            (only,) = parts
            population = _common_population(
                [*self._without_levels, only.population], targeted=bool(self._without_levels)
            )
            return replace(only, population=population, notes=(*only.notes, *notes))
        return Description(
            " × ".join(part.family for part in parts),
            (
                "the factors act independently of one another",
                *(sentence for part in parts for sentence in part.assumed),
            ),
            tuple(sentence for part in parts for sentence in part.estimated),
            "; ".join(f"{part.family}: {part.anchor}" for part in parts),
            _common_population(
                [*self._without_levels, *(part.population for part in parts)],
                targeted=self.strata is not None or bool(self._without_levels),
            ),
            {part.family: part.parameters for part in parts},
            (*(note for part in parts for note in part.notes), *notes),
        )

    @cached_property
    def uncovered(self) -> tuple[float, list[str]]:
        """(share of the target's sample with levels that no source has, these levels).

        Only factors that are positive everywhere count.
        """
        named = [
            column for part in self.model.parts if part.by_likelihood for column in part.columns
        ]
        if self.data.sample is None or not named:
            return 0.0, []
        return uncovered_levels(
            self.data, expand_features(self.data.frame, list(dict.fromkeys(named)))
        )

    @property
    def _without_levels(self) -> tuple[str, ...]:
        share, shown = self.uncovered
        if shown:
            return (
                f"{THE_TARGET} excluding strata with no images in any source: {first_few(shown)} "
                f"({share:.4g})",
            )
        return ()

    @property
    def assumed_labels(self) -> tuple[str, ...]:
        """What is assumed about p(label) where a reference lacks labels that the pool has."""
        data = self.data
        if "label" not in data.frame.columns or (
            (self.strata is not None and "label" in self.strata.target.by)
            or any(part.shifts_classes for part in self.model.parts)
        ):
            return ()
        named = [
            data.names.index(part.reference_source)
            for part in self.model.parts
            if part.reference_source in data.names
        ]
        references = []
        for reference in dict.fromkeys(
            [*([] if data.reference is None else [data.reference]), *named]
        ):
            which = "the target's sample"
            if reference != data.sample:
                which = f"the reference {data.names[reference]}"
            references.append(labels_lacking(data.frame, data.source == reference, which))
        return tuple(
            f"{lacking}: p(label) of the target is assumed to follow from the features, that is, "
            "the same features mean the same labels in target and sources"
            for lacking in references
            if lacking
        )


def _common_population(populations: Sequence[str], targeted: bool) -> str:
    """Describe what all factors together leave of the target, in any order."""
    first, others = (populations[:1], populations[1:]) if targeted else ((), populations)
    ordered = [*first, *sorted(set(others) - set(first))]
    parts = [population for population in ordered if population != THE_TARGET]
    return "; of this only ".join(parts) or THE_TARGET


def log_likelihood(profile: Profile) -> float:
    """Σ_i log q_{i,s_i}."""
    total = 0.0
    for _, at, q_bk in profile.blocks():
        with np.errstate(divide="ignore"):
            own_b = np.log(q_bk[np.arange(at.size), profile.source[at]])
            total += float(profile.counted(at, own_b[:, None]).sum())
    return total
