"""What every bias model is: settings that are fitted to a pool, and the fitted factor of ω."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, did_you_mean, first_few
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.arrays import Randomness, seed_of
from unskew.records.design_weights import add_design
from unskew.records.levels import level_text
from unskew.records.target import THE_TARGET

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.fitted import FittedBias
    from unskew.solve.profile_likelihood import LinearDerivative


def source_names(names_of_any_type: Iterable[Any], what: str) -> list[str]:
    """Write names of sources as text, as a pool has them; the number 1 and "1" are one source."""
    names = [level_text(name) for name in names_of_any_type]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"{what} names the source {twice!r} twice (for instance as the number 1 and as the "
            "text '1'): names of sources are text. Keep one of the two.",
            option=what,
            source=twice,
        )
    return names


def no_design_weights(family: str, other: str) -> ConfigError:
    """Refuse design weights in a family that cannot count images by them."""
    return ConfigError(
        f"{family} cannot take design weights: it would fit every image alike. Use {other}, or "
        "leave the column design_weight out of the pool.",
        option="design_weight",
        value=family,
    )


@dataclass(frozen=True, eq=False)
class BiasData:
    """The rows that a model is fitted on: those of the pool, then those of the target's sample.

    Attributes
    ----------
    frame : one row for each image.
    source : (R,) code of each row's source, an index into ``names``.
    names : the K sources; the sample of the target, if there is one, is the last.
    n_pool : number of rows that belong to the pool.
    sample : index of the target's sample among the sources, or None.
    reference : index of the source whose ω is 1 everywhere: the sample, or the source that the
        target names; None without one.
    cell : (R,) stratum of each row, within which every source has a factor of its own; zeros
        without a `Strata` part.
    n_cells : number of strata.
    unit : (R,) rows that are not independent (of one group, copies of one image) have the same
        number; None where every row is independent.
    seed : of everything random.
    image_id : ids of all images of the pool, in its order, those among them that are left out of
        the fit.
    learn_anew : use an earlier fit only as a starting point; learn features and make tests again.
    design : (R,) d > 0, how often each row counts: design weights, mean 1 in each source before
        rows were left out; None: once each.
    find_cell : the stratum of every row of any table; None without a `Strata` part.
    columns : what the parts of the model read of the table, and the target's attributes: the
        content of an image, by which folds are made.
    """

    frame: pd.DataFrame = field(repr=False)
    source: Ints = field(repr=False)
    names: tuple[str, ...]
    n_pool: int
    sample: int | None
    reference: int | None
    cell: Ints = field(repr=False)
    n_cells: int
    unit: Ints | None = field(repr=False)
    seed: int = 0
    image_id: Any = field(repr=False, default=())
    learn_anew: bool = False
    design: Floats | None = field(repr=False, default=None)
    find_cell: Callable[[pd.DataFrame], Ints] | None = field(repr=False, default=None)
    columns: tuple[str, ...] = ()

    @property
    def n_sources(self) -> int:
        return len(self.names)

    @property
    def size_k(self) -> Floats:
        """(K,) n_k, the number of rows of each source, each counted d times."""
        return add_design(self.source, self.design, self.n_sources)

    @property
    def fold_group(self) -> Ints:
        """(R,) ``unit``, or the number of the row: what must stay on one side of every fold."""
        return np.arange(self.source.size) if self.unit is None else self.unit

    def kept(self, keep_r: Any) -> BiasData:
        """Leave out the rows where ``keep_r`` is False."""
        at = np.flatnonzero(keep_r)
        return replace(
            self,
            frame=self.frame.iloc[at].reset_index(drop=True),
            source=self.source[at],
            n_pool=int(np.count_nonzero(at < self.n_pool)),
            cell=self.cell[at],
            unit=None if self.unit is None else self.unit[at],
            design=None if self.design is None else self.design[at],
        )

    def find_source(self, name: str, what: str) -> int:
        """Return the index of a source; an error says ``what`` names it."""
        if name not in self.names:
            raise ConfigError(
                f"{what} is {name!r}, but the sources are "
                f"{first_few(self.names, 12)}.{did_you_mean(name, self.names)}",
                option="reference",
                source=name,
                sources=list(self.names),
            )
        return self.names.index(name)


@dataclass(frozen=True)
class Description:
    """What a fitted model rests on, for the reader of a report.

    Attributes
    ----------
    family : the model's name.
    assumed : what was taken for granted.
    estimated : what was learned from the images.
    anchor : where c(z) comes from, the factor common to all sources that the images cannot tell.
    population : which population the result describes.
    parameters : the fitted numbers, by name.
    notes : what the user should know: rows left out, strata that one source alone sees, features
        that say nothing.
    """

    family: str
    assumed: tuple[str, ...]
    estimated: tuple[str, ...]
    anchor: str
    population: str = THE_TARGET
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            ("Assumed", self.assumed),
            ("Estimated", self.estimated),
            ("Common factor c(z)", (self.anchor,)),
            ("Note", self.notes),
        ]
        lines = [f"{title}: {sentence}" for title, sentences in parts for sentence in sentences]
        return "\n".join([f"{self.family}, for {self.population}.", *lines])


class Factor(ABC):
    """One fitted factor of ω: log ω_k on any table, and its derivative by the P parameters."""

    @property
    def n_parameters(self) -> int:
        """P, the number of parameters estimated by likelihood."""
        return 0

    @property
    def n_fitted(self) -> float:
        """The number of fitted numbers, by which candidates are ordered; P unless it is said."""
        return self.n_parameters

    @abstractmethod
    def log_omega(self, frame: pd.DataFrame) -> Floats:
        """(n, K) log ω_k(z_i) for every row; −inf where source k cannot select the image."""

    def jacobian(self, frame: pd.DataFrame) -> Floats:
        """(n, K, P) ∂ log ω_ik/∂θ_p; anything where ω_ik = 0."""
        raise NotImplementedError(
            f"{type(self).__name__} has {self.n_parameters} parameters but no jacobian"
        )

    def linear_derivative(self, frame: pd.DataFrame) -> LinearDerivative | None:
        """Return the derivative in short where log ω_k = θ_k·φ(z); None for other factors."""
        return None

    @property
    def penalty(self) -> Floats:
        """(P, P) second derivative of the penalty on −Σ_i log q_{i,s_i}; zeros without one."""
        return np.zeros((self.n_parameters, self.n_parameters))

    @property
    def is_smooth(self) -> bool:
        """Whether errors follow from the jacobian; otherwise a bootstrap that refits is needed."""
        return True

    @property
    def in_doubt(self) -> bool:
        """Whether there may be a `rival`."""
        return False

    def rival(self, data: BiasData, log_offset_rk: Floats) -> Factor | None:
        """Find another fit of the same family that the data hardly tell from this one, or None.

        Errors count its variance and how far its estimate is from this one's. ``log_offset_rk``:
        log of the product of all other factors.
        """
        return None

    @property
    def is_penalised(self) -> bool:
        """Whether a penalty may have moved the parameters by more than rounding."""
        return False

    def unpenalised(self, data: BiasData, log_offset_rk: Floats) -> Factor:
        """Fit the same factor without its penalty; errors count how far that moves the estimate.

        ``log_offset_rk``: log of the product of all other factors.
        """
        return self

    def fitted_log_omega(self) -> Floats | None:
        """(R, K) log ω on the rows of the fit from models that did not see the row; else None."""
        return None

    @abstractmethod
    def describe(self) -> Description:
        """Describe what was assumed, what was estimated, and where c(z) comes from."""


class Bias(ABC):
    """A bias model: frozen settings that ``fit(pool, target)`` turns into a `FittedBias`.

    A model of your own subclasses this as a frozen dataclass, names itself in ``family``, and
    implements ``estimate``.
    """

    family: ClassVar[str] = ""
    # Learned by maximum likelihood given the other factors of a product; the others are read off
    # before.
    by_likelihood: ClassVar[bool] = False
    # May leave out images of its own source (a quantile box); otherwise an image that its own
    # source cannot select is an error.
    may_exclude: ClassVar[bool] = False
    # Reads the label, also where the target's images have none.
    shifts_classes: ClassVar[bool] = False

    @checked
    def fit(self, pool: Pool, target: Target | None = None, *, rng: Randomness = 0) -> FittedBias:
        """Learn from the pool what the model leaves open; c(z) comes from ``target`` if needed."""
        from unskew.bias.fitting import fit_parts

        return fit_parts(self, self.parts, pool, target, seed=seed_of(rng))

    @property
    def parts(self) -> tuple[Bias, ...]:
        """The factors of ω: the model itself, or the parts of a product."""
        return (self,)

    @property
    def reference_source(self) -> str | None:
        """The source that the model itself names as reference; None: the target's, or none."""
        return getattr(self, "reference", None)

    @property
    def has_offset(self) -> bool:
        """Whether it can be fitted given other factors that are estimated, too."""
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns, or beginnings of columns, of the table that the model reads."""
        return tuple(getattr(self, "features", ()))

    @abstractmethod
    def estimate(
        self, data: BiasData, log_offset_rk: Floats, start: Factor | None = None
    ) -> Factor:
        """Fit this factor given ``log_offset_rk``, the log of the product of all others.

        ``start`` is the result of an earlier fit.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return values that TOML and JSON can hold, from which `from_dict` makes the same model.

        Settings at their default are left out.
        """
        from unskew.bias.schema import written_bias

        return written_bias(self)

    @classmethod
    @checked
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Read the ``[bias]`` part of a configuration: ``family`` and its settings."""
        from unskew.bias.schema import read_bias

        model = read_bias(settings)
        if not isinstance(model, cls):
            raise ConfigError(
                f"these settings describe the family {model.family!r}, not {cls.family!r}; use "
                "Bias.from_dict for any.",
                option="family",
                value=model.family,
                allowed=[cls.family],
            )
        return model

    def settings(self) -> dict[str, Any]:
        """Return the fields of the dataclass that are not at their default."""
        settings = {}
        for setting in fields(self):  # type: ignore[arg-type]
            value = getattr(self, setting.name)
            if not (isinstance(value, type(setting.default)) and value == setting.default):
                settings[setting.name] = value
        return settings
