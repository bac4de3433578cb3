"""The population that results describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from unskew.engine.annotation_rules import ANY_TABLE, ANYTHING
from unskew.engine.arguments import (
    IS_BINS,
    LevelName,
    Numbers,
    OpenShare,
    Positive,
    ShareBelowOne,
    checked,
)
from unskew.errors import short_name
from unskew.records.pool import Pool

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from unskew.records.weights import Weights
    from unskew.target.facts import Distribution
    from unskew.target.label_shift_record import LabelShift
    from unskew.target.strata import TargetReference, TargetStrata

# The population of results that nothing restricts.
THE_TARGET = "the target"
# That of biasing functions given as bare numbers, without a target.
TARGET_OF_NUMBERS = "the target of the biasing functions"


class TargetOptions(TypedDict, total=False):
    """The options of every target made of masses; see `Target`."""

    # `unskew.target` reads these, and answers a wrong one with the form that is meant.
    bins: Annotated[Mapping[str, Sequence[float]], ANYTHING]
    outside: Annotated[Mapping[str, str | Mapping[Any, str]], ANYTHING]
    missing: Annotated[Mapping[str, str], ANYTHING]
    unit: str
    uncovered: str
    within: Annotated[float | Mapping[Any, float | Sequence[float]], ANYTHING]


@checked
@dataclass(frozen=True, repr=False)
class Target:
    """The population that results shall describe; made by the class methods.

    Numbers: whole numbers are counts and are normalised; all others are probabilities and must sum
    to 1 (to 1e-9). Levels are compared as text: 3, 3.0 and "3" are one level.

    Attributes
    ----------
    kind : "uniform", "margins", "table", "sample", "source" or "predictions".
    by : the attributes whose distribution is given.
    facts : the given distributions.
    interactions : where several margins take their odds ratios from: a table, "pool" (the pool's
        own table), or None: those that the sources share (within sources).
    bins : edges for numeric attributes: [a, b), the last one closed.
    outside : for levels beyond the target's scope, "keep" (at their pool share) or "drop": one rule
        per attribute, or one per level. Values beyond the bins of an attribute with edges 0 … 120
        are the levels "< 0" and "> 120". A level without a rule is an error.
    missing : for missing values of an attribute "error" (default), "level" (a level of its own,
        "(missing)"), "drop", or "keep" (at their pool share).
    unit : "image", or "group": masses count groups; a group counts once in every stratum it has
        images in, and shares that among them.
    uncovered : target mass on a stratum without images is an "error", or the target is made
        smaller: "restrict".
    reference : the sample (a `Pool`, or the path of one) or the name of the source known to be
        unbiased.
    holdout : share of the reference that judges and does not fit.
    within : the smallest and largest mass of every level, {level: (low, high)}, where the margin is
        known up to such a set only; weights are those of the masses given.
    label_shift : how shares were estimated from a classifier's scores; None otherwise.
    """

    kind: Literal["uniform", "margins", "table", "sample", "source", "predictions"]
    by: tuple[str, ...] = ()
    facts: tuple[Distribution, ...] = ()
    interactions: Distribution | Literal["pool"] | None = None
    bins: Annotated[Mapping[str, tuple[float, ...]], IS_BINS] = field(default_factory=dict)
    outside: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    unit: str = "image"
    uncovered: str = "error"
    reference: Pool | str | None = None
    holdout: float = 0.0
    label_shift: LabelShift | None = None
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Say in a line what is known of the population."""
        of = " × ".join(self.by)
        sizes = ", ".join(f"{' × '.join(fact.by)} ({len(fact.cells)})" for fact in self.facts)
        what = {
            "uniform": f"uniform over {of}",
            "margins": f"margins of {sizes}",
            "table": f"joint distribution of {sizes}",
            "sample": f"a sample, {self.reference!r}",
            "source": f"the source {self.reference!r}",
            "predictions": f"shares of {sizes} from a classifier's scores",
        }[self.kind]
        rules = {
            "bins of": ", ".join(self.bins),
            "outside": self.outside,
            "missing": self.missing,
            "unit": self.unit if self.unit != "image" else "",
            "uncovered": self.uncovered if self.uncovered != "error" else "",
            "within": "a set" if self.within else "",
            "holdout": f"{self.holdout:g}" if self.holdout else "",
        }
        further = "".join(f"; {name} {rule}" for name, rule in rules.items() if rule)
        return f"Target({short_name(f'{what}{further}', 200)})"

    @classmethod
    def uniform(cls, by: str | Sequence[str], **options: Unpack[TargetOptions]) -> Target:
        """Give every level of ``by`` the same mass; of several attributes, every combination."""
        from unskew.target.methods import uniform_target

        return uniform_target(by, options)

    @classmethod
    def margins(
        cls,
        margins: Annotated[Mapping[str, Any], ANYTHING],
        *,
        interactions: pd.DataFrame | Literal["within", "pool"] | None = None,
        **options: Unpack[TargetOptions],
    ) -> Target:
        """Make a target of known margins, ``{attribute: {level: number}}``.

        With the error of the survey: ``{attribute: {"mass": {level: number}, "n": 400}}`` or
        "stderr". Of several margins the odds ratios are assumed: by default those that the sources
        share (``interactions="within"``), which are the target's where every source selects by one
        attribute at a time, ω_k = a_k(A) b_k(B); or those of the pooled images ("pool"), or of a
        joint table.
        """
        from unskew.target.methods import margins_target

        return margins_target(margins, interactions, options)

    @classmethod
    def table(
        cls,
        table: Annotated[pd.DataFrame, ANY_TABLE],
        by: Sequence[str] | None = None,
        n: Positive | None = None,
        **options: Unpack[TargetOptions],
    ) -> Target:
        """Make a target of a joint distribution.

        The table has a column for each attribute and one called count, mass, probability or share;
        ``n`` is the size of the survey behind it.
        """
        from unskew.target.methods import table_target

        return table_target(table, by, n, options)

    @classmethod
    def sample(cls, sample: Pool | str, holdout: ShareBelowOne = 0.0) -> Target:
        """Take the population that ``sample`` was drawn from, labelled or not."""
        from unskew.target.methods import sample_target

        return sample_target(sample, holdout)

    @classmethod
    def source(cls, name: LevelName, holdout: ShareBelowOne = 0.0) -> Target:
        """Take the population of the source ``name``, which is known to be unbiased."""
        from unskew.target.methods import source_target

        return source_target(name, holdout)

    @classmethod
    def from_predictions(
        cls,
        target_scores: npt.ArrayLike | pd.DataFrame,
        validation_scores: npt.ArrayLike | pd.DataFrame,
        validation_labels: npt.ArrayLike,
        *,
        classes: Sequence[LevelName] | None = None,
        validation_weights: Numbers | Weights | None = None,
        group: npt.ArrayLike | None = None,
        validation_group: npt.ArrayLike | None = None,
        by: str = "label",
        calibrate: Literal["auto", "temperature", "vector", "matrix"] = "auto",
        level: OpenShare = 0.95,
        **options: Unpack[TargetOptions],
    ) -> Target:
        """Estimate the shares of the classes in unlabelled images of the target from a classifier.

        Assumes label shift: within each class the target's images look like the validation images.
        The scores are calibrated on the validation images; the shares q maximise
        Σ_i log Σ_c q_c p(c | s_i)/π_c, where π are the class shares of the validation images
        (Saerens et al. 2002; Alexandari et al. 2020). Their covariance, to which the target's
        images and the calibration contribute, enters every interval. Black-box shift estimation
        (Lipton et al. 2018) is a check of the assumption, with a warning where it disagrees.

        Parameters
        ----------
        target_scores : (m, C) class probabilities of unlabelled images of the target; of two
            classes (m,), those of the second. The columns of a DataFrame name the classes.
        validation_scores : (v, C) those of labelled images that the classifier was not trained on.
        validation_labels : (v,) their labels.
        classes : the classes in the order of the columns. Default: the names of the columns, or the
            labels in ascending order.
        validation_weights : (v,) weights of the validation images. They count within classes, where
            the images of a class differ between sources; shares of classes do not matter.
        group, validation_group : images that belong together and are not independent.
        by : the attribute of the pool that the classes are levels of.
        calibrate : "temperature": one slope and an intercept for each class (bias-corrected
            temperature scaling); "vector": a slope for each class; "matrix": the log-odds of a
            class are linear in those of all classes; "auto": the smallest of them that fits.
        level : of the intervals that ``describe()`` shows.
        options : as for `margins`.

        Raises
        ------
        DataError : scores that are no probabilities, classes with fewer than 5 labelled images.
        CoverageError : a standard error above 0.25: the classifier is nearly blind.
        """
        from unskew.target.methods import predictions_target

        return predictions_target(
            target_scores,
            validation_scores,
            validation_labels,
            classes=classes,
            validation_weights=validation_weights,
            group=group,
            validation_group=validation_group,
            by=by,
            calibrate=calibrate,
            level=level,
            options=options,
        )

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], folder: str | PathLike[str] = ".") -> Target:
        """Read the ``[target]`` part of a configuration; files are read from ``folder``."""
        from unskew.target.methods import read_target

        return read_target(settings, folder)

    def to_dict(self) -> dict[str, Any]:
        """Return values that TOML and JSON can hold, from which `from_dict` makes the same."""
        from unskew.target.methods import written_target

        return written_target(self)

    def resolve(self, pool: Pool | pd.DataFrame) -> TargetStrata | TargetReference:
        """Find what the target asks of this pool.

        That is the mass of every stratum, or the reference to resemble.
        """
        return self.compare(pool) if self.kind in ("sample", "source") else self.stratify(pool)

    def stratify(self, pool: Pool | pd.DataFrame) -> TargetStrata:
        """Find the target mass of every stratum of the pool; an error for a sample or a source."""
        from unskew.target.methods import stratify_pool

        return stratify_pool(self, pool)

    def compare(self, pool: Pool | pd.DataFrame) -> TargetReference:
        """Find the sample, or the source of the pool, that represents the target.

        A target of masses is an error.
        """
        from unskew.target.methods import find_reference

        return find_reference(self, pool)

    def describe(self) -> tuple[str, ...]:
        """Return what was given and what is assumed, in plain sentences."""
        from unskew.target.methods import target_sentences

        return target_sentences(self)

    def _repr_html_(self) -> str:
        from unskew.report.notebook import target_html

        return target_html(self)
