"""One call of `debias` over parts: its inputs, the subsample, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unskew.debiasing.part_sums import StreamedProblem
from unskew.debiasing.part_weighers import BlockReader, Weigher
from unskew.debiasing.part_weights import PartWeights
from unskew.engine.block_engines import Engine
from unskew.records import Floats, Overlap, Pool, Solution, Status, Target, Weights
from unskew.records.design_weights import DESIGN_WEIGHT
from unskew.sources.part_pool import PartPool

if TYPE_CHECKING:
    from unskew.bias.base import Bias, Description
    from unskew.sources.part_survey import Survey
    from unskew.target.strata import TargetStrata


@dataclass(eq=False)
class PartFit:
    """What `PartWeights` rests on.

    pool, engine : the parts, and where blocks are computed.
    reader, weigher : what a pass sends to workers.
    solution, overlap : the solve, and the verdict.
    squares : (K,) Σ π² of each source.
    largest : the largest π.
    source_share : (K,) share of the weight of each source.
    left_out : images of weight 0, by reason.
    passes : passes over the parts.
    n_sampled : images of the subsample; 0: none was needed.
    sampled : makes the weights of the subsample.
    draw : draws its images with these columns; None: with all.
    again : weighs another pool by the same settings, beginning from a fit.
    describe : describes the model without a subsample; None: that one's description.
    problem : the streamed fit; None where there was none.
    strata : the target's strata over the counted cells; None without.
    by_stratum : images, effective size and largest π of each of them, by name.
    is_held : whether ω is that of the subsample's fit.
    """

    pool: PartPool
    engine: Engine
    reader: BlockReader
    weigher: Weigher
    solution: Solution
    overlap: Overlap
    squares: Floats
    largest: float
    source_share: Floats
    left_out: dict[str, int]
    passes: int
    n_sampled: int
    sampled: Callable[[], Weights]
    draw: Callable[[Sequence[str] | None], Pool]
    again: Callable[[Pool, PartFit], Weights]
    describe: Callable[[], Description] | None = None
    problem: StreamedProblem | None = None
    strata: TargetStrata | None = None
    by_stratum: Mapping[str, tuple[int, float, float]] = field(default_factory=dict)
    is_held: bool = False


@dataclass(frozen=True, eq=False)
class PartRun:
    """One call of `debias` over parts: its inputs, and what all cases share."""

    pool: PartPool
    bias: Bias
    target: Target | None
    engine: Engine
    settings: Mapping[str, Any]
    subsample: int
    columns: tuple[str, ...]
    by: tuple[str, ...]
    bins: Mapping[str, Sequence[float]]
    again: Callable[[Pool, PartFit], Weights] = field(repr=False)
    start: PartFit | None = field(repr=False, default=None)

    @property
    def survey(self) -> Survey:
        return self.pool.survey(self.engine, self.by, self.bins, ids=True)

    def draw(self, columns: Sequence[str] | None = None) -> Pool:
        """Draw the subsample, always the same images, with these columns; None: with all."""
        return self.pool.sample(
            self.subsample, by=self.by, columns=columns, engine=self.engine, bins=self.bins
        )

    def weigh_sample(self) -> Weights:
        """Weigh the subsample in memory."""
        from unskew.debiasing.pool_weights import debias

        read = [*self.columns, "label", *(() if self.target is None else self.target.by)]
        return debias(without_alike(self.draw(read)), self.bias, self.target, **self.settings)

    def block_reader(self, cached: bool) -> BlockReader:
        survey = self.survey
        cache = self.engine.cache if cached else None
        return BlockReader(self.pool.reader, survey.names, self.columns, survey.design_scale, cache)

    def finished(self, **parts: Any) -> PartWeights:
        return PartWeights(
            PartFit(
                pool=self.pool,
                engine=self.engine,
                draw=self.draw,
                again=self.again,
                **parts,
            )
        )


def without_alike(pool: Pool) -> Pool:
    """Leave out design weights that are alike within every source: they count as 1."""
    if pool.design_weight is None:
        return pool
    by_source = pool.frame[DESIGN_WEIGHT].groupby(pool.source)
    if not bool((by_source.transform("first") == pool.frame[DESIGN_WEIGHT]).all()):
        return pool
    return Pool(pool.frame.drop(columns=DESIGN_WEIGHT))


def make_solution(
    names: tuple[str, ...], share_k: Floats, u_k: Floats, log_normalizer_k: Floats, **found: Any
) -> Solution:
    known: dict[str, Any] = {
        **{"method": "known", "gradient_norm": 0.0, "error_estimate": 0.0, "n_steps": 0},
        **{"n_passes": 1, "hessian": None, "hessian_exact": False},
    }
    return Solution(
        names=names,
        share=share_k,
        u=u_k,
        log_normalizer=log_normalizer_k,
        status=Status.CONVERGED,
        trace=(),
        **known | found,
    )
