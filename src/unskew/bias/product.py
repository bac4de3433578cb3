"""Biasing functions that are products, such as label bias × camera bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

from unskew.bias.base import Bias, BiasData, Factor
from unskew.bias.tilt import Tilt
from unskew.engine.arguments import checked
from unskew.errors import ConfigError, first_few
from unskew.records import Floats


@checked
@dataclass(frozen=True, init=False)
class Product(Bias):
    """ω_k(z) = Π_p ω_k^{(p)}(z), all parts fitted together.

    −Σ_i log q_{i,s_i} is minimised over the parameters of all parts and u.

    A `Strata` part is a free factor a_k(y) of every source and stratum; the target's margin is what
    fixes the part of it that is common to all sources. It amounts to normalizers u_{y,k} of every
    stratum's own: within stratum y the equations are those of the other factors, and π_i = p(y_i)
    v_i/Σ_{j: y_j = y_i} v_j with v_i = 1/Σ_k e^{u_{y_i,k}} Π_p ω_k^{(p)}(z_i).

    Other parts are fitted in turn, each given the others, until the likelihood no longer grows;
    tilts of degree 1 with the same ridge are one tilt. Factors that read the same feature name the
    same reference, if they name one.

    Examples
    --------
    >>> import unskew
    >>> tilt = unskew.bias.Tilt(["brightness"], reference="phone")
    >>> unskew.bias.Product(unskew.bias.Strata("label"), tilt).parts[1].features
    ('brightness',)
    """

    family: ClassVar[str] = "product"
    factors: tuple[Bias, ...]

    def __init__(self, *factors: Any) -> None:
        models: Sequence[Any] = (
            factors[0] if len(factors) == 1 and isinstance(factors[0], list | tuple) else factors
        )
        if not models:
            raise ConfigError(
                "a product has at least one factor: Product(Strata('label'), "
                "Tilt(['brightness'])).",
                option="factors",
                value=[],
            )
        wrong = [factor for factor in models if not isinstance(factor, Bias)]
        if wrong:
            raise ConfigError(
                f"the factors of a product are bias models; got {wrong[0]!r}.",
                option="factors",
                value=repr(wrong[0]),
            )
        object.__setattr__(self, "factors", tuple(models))
        _check_references([part for factor in self.factors for part in factor.parts])

    @property
    def parts(self) -> tuple[Bias, ...]:
        flat = [part for factor in self.factors for part in factor.parts]
        merged: list[Bias] = []
        for part in flat:
            same = next((at for at, other in enumerate(merged) if _same_kind(part, other)), None)
            if same is None:
                merged.append(part)
            else:
                first, second = merged[same], part
                assert isinstance(first, Tilt)
                assert isinstance(second, Tilt)
                merged[same] = replace(
                    first,
                    features=(
                        *first.features,
                        *(name for name in second.features if name not in first.features),
                    ),
                )
        return tuple(merged)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        raise ConfigError(
            "a product is fitted by its fit method; its parts are estimated one given the others.",
            option="bias",
        )


def _check_references(parts: Sequence[Bias]) -> None:
    """Refuse two references for one feature: the order of the factors would decide between them."""
    named = [part for part in parts if part.by_likelihood and part.reference_source is not None]
    for part, other in combinations(named, 2):
        shared = [column for column in part.columns if column in other.columns]
        if shared and part.reference_source != other.reference_source:
            shown = " and ".join(
                f"{factor.reference_source!r} ({type(factor).__name__} of "
                f"{', '.join(factor.columns)})"
                for factor in (part, other)
            )
            raise ConfigError(
                f"two factors of a product read {first_few(shared)} and name different references, "
                f"{shown}: the images cannot tell which of them selects without bias, so the "
                "common factor c(z) is not identified. Name one reference for both.",
                option="reference",
                columns=shared,
                sources=[part.reference_source, other.reference_source],
            )


def _same_kind(part: Bias, other: Bias) -> bool:
    return (
        isinstance(part, Tilt)
        and isinstance(other, Tilt)
        and part.degree == other.degree == 1
        and part.components == other.components == 0
        and (part.reference, part.ridge) == (other.reference, other.ridge)
    )
