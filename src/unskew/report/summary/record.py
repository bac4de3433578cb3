"""What a page shows, as plain numbers and texts: `report.json` is this record.

Numbers that do not exist are None, never NaN, so that the record is plain JSON. With ``privacy =
"aggregate"`` there are no images, paths or ids in it, and counts below ten, with what could give
them away, are None (`unskew.report.summary.privacy` states the rule). Texts are data: a page
escapes them. Only a `Thumbnail`'s picture is a data URI, and only one that
`unskew.report.summary.gallery` made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.report.summary.forecast_record import ForecastArm as ForecastArm
from unskew.report.summary.forecast_record import ForecastClass as ForecastClass
from unskew.report.summary.forecast_record import ForecastPanel as ForecastPanel
from unskew.report.summary.mixture_record import MixturePanel as MixturePanel
from unskew.report.summary.mixture_record import MixtureRow as MixtureRow
from unskew.report.summary.outcome_record import MarginSetPanel as MarginSetPanel
from unskew.report.summary.outcome_record import MeanOnTarget as MeanOnTarget
from unskew.report.summary.outcome_record import Number as Number
from unskew.report.summary.outcome_record import OutcomeByTarget as OutcomeByTarget
from unskew.report.summary.outcome_record import OutcomePanel as OutcomePanel
from unskew.report.summary.outcome_record import OutcomeSource as OutcomeSource
from unskew.report.summary.outcome_record import TargetsPanel as TargetsPanel
from unskew.report.summary.rehearsal_record import RehearsalPanel as RehearsalPanel
from unskew.report.summary.rehearsal_record import RehearsedSource as RehearsedSource
from unskew.report.summary.training_record import TrainingPanel as TrainingPanel

Privacy = Literal["full", "aggregate"]
# Named in place of sources with fewer than ten images of a stratum.
OTHERS_WITHHELD = "others withheld"


@dataclass(frozen=True)
class VerdictPanel:
    """Whether the sources can be debiased, and how many images the result is worth.

    level : "ok", "weak", or "no" (not identifiable).
    headline : one sentence.
    sentences : why, with the numbers.
    next_steps : what to do now, most useful first.
    population : which population the result is about.
    figures : a few key numbers, as (name, text): ("Effective sample size", "1,204 of 5,000").
    placeholder : is the target one that `unskew init` guessed, and nobody confirmed?
    part : the split that the page is about, where there are several.
    """

    level: Literal["ok", "weak", "no"]
    headline: str
    sentences: tuple[str, ...]
    next_steps: tuple[str, ...]
    population: str
    figures: tuple[tuple[str, str], ...] = ()
    placeholder: bool = False
    part: str | None = None

    @property
    def signal(self) -> Literal["ok", "weak", "no"]:
        """The level to show by a colour or sign: nothing about a placeholder is "ok"."""
        return "weak" if self.placeholder and self.level == "ok" else self.level


@dataclass(frozen=True)
class SourceRow:
    """One source.

    ``normalizer`` is Ω_k; its two standard errors are relative (of log Ω_k), asymptotic and
    from the bootstrap.
    """

    name: str
    images: int | None
    groups: int | None
    share: Number
    normalizer: Number
    stderr: Number
    stderr_bootstrap: Number
    weight_share: Number
    ess: Number
    ess_groups: Number
    unreadable: int | None
    copies: int | None


@dataclass(frozen=True)
class StratumRow:
    """One stratum of the target.

    ``sources``: names of those that see it; ``covered`` False: target mass without images.

    ``largest_weight`` is a sample weight (mean 1 over the pool).
    """

    stratum: str
    target: Number
    target_stderr: Number
    pool: Number
    weighted: Number
    images: int | None
    groups: int | None
    sources: tuple[str, ...]
    ess: Number
    largest_weight: Number
    covered: bool
    in_scope: bool = True


@dataclass(frozen=True)
class OverlapPanel:
    """Links between the sources; (K, K) tables as lists of rows."""

    names: tuple[str, ...]
    verdict: str
    message: str
    matrix: tuple[tuple[Number, ...], ...] | None
    link_count: tuple[tuple[Number, ...], ...] | None
    common_mass: tuple[tuple[Number, ...], ...] | None
    components: tuple[tuple[str, ...], ...]
    weakest_link: tuple[str, str] | None
    weakest_count: Number
    kappa: Number
    epsilon: Number
    spectral_gap: Number
    sigma2: Number
    thresholds: dict[str, float] = field(default_factory=dict)
    link_error: Number = None
    heaviest: Number = None
    unseen: Number = None
    lone: Number = None


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, in total and by name (source or class).

    The first and last bins include everything beyond the edges.
    """

    edges: tuple[float, ...]
    count: tuple[Number, ...]
    by: dict[str, tuple[Number, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """Quantiles of the sample weights (mean 1) of one source or class."""

    name: str
    images: int | None
    low: Number  # 5 %
    lower: Number  # 25 %
    median: Number
    upper: Number  # 75 %
    high: Number  # 95 %
    largest: Number


@dataclass(frozen=True)
class WeightsPanel:
    """The weights.

    ``histogram`` has log10 of the sample weight on its axis; weight 0 is counted apart.

    ``concentration``: points (share of the images, heaviest first; share of the weight they carry).
    ``unit``: what ``groups`` counts, "groups" or "different images" (copies, where nothing is
    grouped).
    """

    images: int | None
    groups: int | None
    ess: Number
    ess_groups: Number
    design_effect: Number
    pareto_k: Number
    pareto_k_threshold: Number
    largest_sample_weight: Number
    top_percent_share: Number
    zero_weights: int | None
    histogram: Histogram
    quantiles: dict[str, Number]
    concentration: tuple[tuple[float, float], ...]
    by_source: tuple[Spread, ...]
    by_label: tuple[Spread, ...]
    unit: str = "groups"


@dataclass(frozen=True)
class BalanceRow:
    """One line of the love plot: a column, or one level of it.

    ``before`` and ``after`` are standardised differences from the target (pool − target, weighted −
    target, over the pool's standard deviation). Where the target does not describe the column
    (``target`` None), ``before`` is 0 and ``after`` the move weighted − pool.
    """

    column: str
    level: str | None
    fitted: bool
    pool: Number
    weighted: Number
    target: Number
    before: Number
    after: Number


@dataclass(frozen=True)
class DistributionPanel:
    """How a column is distributed in the pool, debiased and, if known, in the target.

    Shares sum to 1.

    ``edges`` for numbers (the first and last bin include everything beyond), ``levels`` for
    categories (rare ones joined as the last); one of the two is empty. Shares are of the images
    that have a value; ``count`` is their number by bin or level, ``missing`` that of the others.
    ``multiple``: an image may have several levels (multi-label), so shares of images need not sum
    to 1.
    """

    column: str
    role: Literal["label", "attribute", "feature"]
    fitted: bool
    edges: tuple[float, ...]
    levels: tuple[str, ...]
    pool: tuple[Number, ...]
    weighted: tuple[Number, ...]
    target: tuple[Number, ...] | None
    by_source: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    count: tuple[int | None, ...] = ()
    missing: int | None = 0
    multiple: bool = False


@dataclass(frozen=True)
class SensitivityRow:
    """The range of a target mean when c(z) may vary within ``factor``, as ``scope`` says."""

    outcome: str
    factor: float
    value: Number
    low: Number
    high: Number
    interval: tuple[Number, Number]
    scope: str = ""


@dataclass(frozen=True)
class NotCorrectedPanel:
    """Columns outside the target, how far weighting moved them, and what remains assumed.

    ``not_shown``: columns without a plot, and why.
    """

    columns: tuple[BalanceRow, ...]
    assumed: tuple[str, ...]
    sensitivity: tuple[SensitivityRow, ...]
    not_shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thumbnail:
    """A small picture as a data URI, and what it is."""

    id: str
    path: str | None
    source: str
    label: str | None
    sample_weight: Number
    picture: str | None


@dataclass(frozen=True)
class Gallery:
    """A row of thumbnails. ``kind``: "heaviest", "lightest", "one source only", "copies"."""

    kind: str
    source: str | None
    title: str
    note: str
    pictures: tuple[Thumbnail, ...]


@dataclass(frozen=True)
class Curve:
    """Fitted ω_k along one feature, the others at the source's own median.

    Each ω_k is scaled to maximum 1. ``levels`` for categories.
    """

    feature: str
    at: tuple[float, ...]
    levels: tuple[str, ...]
    omega: dict[str, tuple[Number, ...]]


@dataclass(frozen=True)
class FitRow:
    """One feature of `check_fit`, or all of its columns together."""

    feature: str
    p_value: Number
    source: str
    place: str
    excess: Number


@dataclass(frozen=True)
class BiasPanel:
    """What was assumed and estimated, fitted ω, and whether the sources look as expected."""

    family: str
    assumed: tuple[str, ...]
    estimated: tuple[str, ...]
    anchor: str
    notes: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    curves: tuple[Curve, ...]
    fit_p_value: Number
    fit_message: str
    fit_rows: tuple[FitRow, ...]
    fit_joint: FitRow | None = None
    fit_notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitRow:
    """One split; every split has weights of its own."""

    name: str
    images: int | None
    groups: int | None
    ess: Number
    note: str = ""


@dataclass(frozen=True)
class UnreadablePanel:
    """Images that were set aside: how many, why, and (unless private) the first of them.

    ``rows``: (id, source, path, reason).
    """

    count: int | None
    share: Number
    reasons: tuple[tuple[str, int | None], ...]
    rows: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, repr=False)
class Summary:
    """Everything the page shows.

    ``overlap`` and ``weights`` are None where the run was refused (verdict "no").

    ``forecast`` is None where none was made; ``outcomes``: target means, with the comparison of
    their sources. ``notes``: remarks by the field they belong to
    ("strata": "500 of 1,204 strata are shown …"); "privacy" states the rule, "sources" how the two
    error bars were computed, "forecast" why there is none though one was asked for.
    """

    title: str
    privacy: Privacy
    verdict: VerdictPanel
    sources: tuple[SourceRow, ...]
    strata: tuple[StratumRow, ...]
    overlap: OverlapPanel | None
    weights: WeightsPanel | None
    balance: tuple[BalanceRow, ...]
    distributions: tuple[DistributionPanel, ...]
    not_corrected: NotCorrectedPanel
    galleries: tuple[Gallery, ...]
    bias: BiasPanel | None
    splits: tuple[SplitRow, ...]
    unreadable: UnreadablePanel
    copies: tuple[
        tuple[str, str, int | None], ...
    ]  # (source, other, images of the source with a copy in the other, or another one in itself)
    target: tuple[str, ...]  # what was given and assumed about the target, in sentences
    adjustments: tuple[str, ...]  # calibration, trimming and shrinking, in sentences; empty: none
    provenance: dict[str, Any]  # versions, settings, seed, fingerprints, command, time
    notes: dict[str, str] = field(default_factory=dict)
    forecast: ForecastPanel | None = None
    outcomes: tuple[OutcomePanel, ...] = ()
    targets: TargetsPanel | None = None  # None where there is one target
    training: TrainingPanel | None = None  # of the models, where any were trained
    mixture: MixturePanel | None = None  # None where the run was refused
    rehearsal: RehearsalPanel | None = None  # None where none was made

    def __repr__(self) -> str:
        panels = f"{len(self.sources)} sources, {len(self.strata)} strata"
        return (
            f"Summary({self.title!r}, verdict {self.verdict.level!r}, privacy {self.privacy!r})\n"
            f"  {self.verdict.headline}\n"
            f"  {panels}, {len(self.distributions)} columns, {len(self.galleries)} galleries"
        )
