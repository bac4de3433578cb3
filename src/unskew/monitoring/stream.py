"""What new images are compared with, source by source; and a batch of them that is counted."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.monitoring.conformal_ranks import rank_in_turn, rank_known_shares
from unskew.monitoring.reference_scores import ReferenceScores, half_target, learn_scores
from unskew.monitoring.sampled_units import draw_units
from unskew.monitoring.uncovered import CoveredPool, distance_limit
from unskew.monitoring.variables import (
    DISTANCE,
    MEMBERSHIP,
    OUTSIDE,
    SCORES,
    SIZE,
    WEIGHT,
    Variable,
    choose_variables,
    has_groups,
    read_values,
)
from unskew.records import Pool, Target
from unskew.records.arrays import Floats, Ints
from unskew.splits.folds import unit_or_row
from unskew.target.facts import column_levels

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias

# All sources together; a source cannot have this name unless it is meant to confuse.
ALL_SOURCES, TARGET_STREAM = "(all sources)", "(target)"
Values = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ReferenceStream:
    """What the new units of one source, or of the target, are ranked among.

    Attributes
    ----------
    values : of the old units, by variable; scores have those of one half.
    shares : known shares of levels, in place of old units.
    """

    name: str
    units: int
    values: Values = field(default_factory=dict, repr=False)
    shares: Mapping[str, dict[str, float]] = field(default_factory=dict, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of what is compared."""
        return (*self.values, *self.shares)


@dataclass(frozen=True, eq=False)
class Reference:
    """The old images, as new ones are compared with them.

    Attributes
    ----------
    streams : the sources, and the target as `TARGET_STREAM`.
    variables : all that are compared, by name.
    notes : what is not compared, and why.
    bins : edges of numeric strata of the target.
    """

    streams: Mapping[str, ReferenceStream]
    variables: Mapping[str, Variable]
    scores: ReferenceScores = field(repr=False)
    covered: CoveredPool = field(repr=False)
    in_groups: bool
    notes: tuple[str, ...]
    bins: Mapping[str, Any]
    seed: int

    @property
    def sources(self) -> list[str]:
        """The names of the sources."""
        return [name for name in self.streams if name != TARGET_STREAM]

    def tests(self) -> dict[str, tuple[str, ...]]:
        """Return what is tested, by stream: fixed before any new image is seen."""
        tested = {name: self.streams[name].variables for name in self.sources}
        if len(tested) > 1:
            tested[ALL_SOURCES] = tuple(self.variables)
        return tested | {TARGET_STREAM: (*self.streams[TARGET_STREAM].variables, OUTSIDE)}


def make_reference(
    pool: Pool,
    bias: Bias,
    target: Target | None,
    sample_weight: Floats,
    *,
    named: Sequence[str] = (),
    seed: int = 0,
) -> Reference:
    """Make the reference of a solved run: its pool with features, bias model, target and weights.

    ``named``: further columns to compare, such as outcomes.
    """
    frame = pool.frame
    by = () if target is None else tuple(target.by)
    variables = choose_variables(
        frame,
        (*bias.columns, *by, *named),
        has_model=True,
        has_sources=len(pool.names) > 1,
    )
    numeric = tuple(v.name for v in variables if v.is_number and v.name not in (*SCORES, SIZE))
    numeric = numeric if len(numeric) > 1 else ()
    in_half_n = _half_of_units(frame, pool.source, seed)
    sample = target.reference if target is not None else None
    in_half_s = None
    if isinstance(sample, Pool):
        in_half_s = _half_of_units(sample.frame, np.zeros(len(sample), dtype=np.int64), seed + 1)
    half = half_target(target, None if in_half_s is None else np.flatnonzero(in_half_s))
    scores = learn_scores(pool.take(np.flatnonzero(in_half_n)), bias, half, numeric, seed=seed)
    streams: dict[str, ReferenceStream] = {}
    distances: list[tuple[Floats, Floats]] = []
    for k, name in enumerate(pool.names):
        rows = np.flatnonzero(pool.source == k)
        stream, own, drawn = _reference_of(
            frame.iloc[rows], in_half_n[rows], name, variables, scores, seed, name
        )
        streams[name] = stream
        if DISTANCE in own:
            distances.append((own[DISTANCE], sample_weight[rows][drawn]))
    streams[TARGET_STREAM], notes = _target_stream(
        target, pool, in_half_s, streams, variables, scores, seed
    )
    limit = None
    if distances:
        limit = distance_limit(*[np.concatenate(parts) for parts in zip(*distances, strict=True)])
    levels = {
        v.name: frozenset(read_values(frame, v).tolist()) for v in variables if not v.is_number
    }
    covered = CoveredPool(levels, limit, scores, pool, bias, target, seed)
    by_name = {v.name: v for v in variables if any(v.name in s.values for s in streams.values())}
    bins = {} if target is None else dict(target.bins)
    notes = [scores.note, *notes]
    return Reference(
        streams,
        by_name,
        scores,
        covered,
        has_groups(frame),
        tuple(note for note in notes if note),
        bins,
        seed,
    )


def _half_of_units(frame: pd.DataFrame, source_n: npt.NDArray[Any], seed: int) -> Any:
    """(n,) whether an image is in the half that scores are fitted on: units, by source."""
    rng, unit_n = np.random.default_rng([seed, 1]), unit_or_row(frame)
    _, first_m, inverse_n = np.unique(unit_n, return_index=True, return_inverse=True)
    rank_m = rng.permutation(first_m.size)
    order = np.lexsort((rank_m, np.asarray(source_n)[first_m]))
    in_half_m = np.empty(first_m.size, dtype=np.bool_)
    in_half_m[order] = np.arange(first_m.size) % 2 == 0
    return in_half_m[inverse_n]


def _reference_of(
    frame: pd.DataFrame,
    in_half_n: Any,
    name: str,
    variables: Sequence[Variable],
    scores: ReferenceScores,
    seed: int,
    source: str | None,
) -> tuple[ReferenceStream, dict[str, Floats], Ints]:
    """Return the stream of these old images, the scores of the other half, and its rows."""
    drawn, size = draw_units(frame, _generator(seed, name, 0))
    values = _read_columns(frame.iloc[drawn], variables)
    if any(v.name == SIZE for v in variables):
        values[SIZE] = size
    kept = drawn[~in_half_n[drawn]]
    own = scores.compute(frame.iloc[kept], source)
    wanted = {v.name for v in variables}
    values |= {score: value for score, value in own.items() if score in wanted}
    return ReferenceStream(name, int(drawn.size), values), own, kept


def _read_columns(
    frame: pd.DataFrame, variables: Sequence[Variable]
) -> dict[str, npt.NDArray[Any]]:
    return {v.name: read_values(frame, v) for v in variables if v.name in frame.columns}


def _target_stream(
    target: Target | None,
    pool: Pool,
    in_half_s: Any,
    sources: Mapping[str, ReferenceStream],
    variables: Sequence[Variable],
    scores: ReferenceScores,
    seed: int,
) -> tuple[ReferenceStream, list[str]]:
    """Return what new images of the target are compared with: a sample, a source, or shares."""
    empty = ReferenceStream(TARGET_STREAM, 0)
    if target is None:
        return empty, []
    if isinstance(target.reference, Pool):
        compared = [v for v in variables if v.name != MEMBERSHIP]
        frame = target.reference.frame
        return _reference_of(frame, in_half_s, TARGET_STREAM, compared, scores, seed, None)[0], []
    if target.reference is not None:
        same = sources.get(str(target.reference))
        if same is None:
            return empty, []
        values = {name: value for name, value in same.values.items() if name != MEMBERSHIP}
        return ReferenceStream(TARGET_STREAM, same.units, values), []
    strata = target.stratify(pool)
    if strata.errors:
        return empty, [
            "The target's margins are estimates with errors of their own, so that new images of "
            "the target are tested for coverage only."
        ]
    shares = {}
    for at, name in enumerate(strata.by):
        mass: dict[str, float] = {}
        for levels, own, inside in zip(strata.strata, strata.mass, strata.in_scope, strict=True):
            if inside and own > 0:
                mass[levels[at]] = mass.get(levels[at], 0.0) + float(own)
        shares[name] = {level: own / sum(mass.values()) for level, own in mass.items()}
    return ReferenceStream(TARGET_STREAM, 0, {}, shares), []


def _generator(seed: int, name: str, look: int) -> np.random.Generator:
    """Return the same random numbers for the same stream and look, wherever they are drawn."""
    return np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "surrogatepass")), look])


def value_column(name: str) -> str:
    """Return the name of the column with the values of a variable in the table of images."""
    return f"value {name}"


def rank_column(name: str) -> str:
    """Return the name of the column with the ranks of a variable in the table of images."""
    return f"rank {name}"


def count_batch(
    reference: Reference, seen: pd.DataFrame | None, frame: pd.DataFrame, name: str, look: int
) -> pd.DataFrame:
    """Count the new images of one stream at one look, and rank one image of every unit.

    Returns a row for each image: id, content, group, stream, look, whether it was drawn
    (``counted``), its values and ranks, and whether it is ``outside``. ``seen`` has those of
    earlier looks.
    """
    import pandas as pd

    rng = _generator(reference.seed, name, look + 1)
    drawn, size = draw_units(frame, rng)
    stream, own = reference.streams[name], frame.iloc[drawn]
    scores = reference.scores.compute(own, None if name == TARGET_STREAM else name)
    values = _read_columns(own, list(reference.variables.values())) | scores
    if SIZE in reference.variables:
        values[SIZE] = size
    before = None if seen is None else seen[(seen["stream"] == name) & seen["counted"]]
    columns: dict[str, Any] = {"outside": reference.covered.find_outside(own, scores)}
    for variable, value in values.items():
        if variable in stream.values:
            old = _joined(stream.values[variable], before, variable)
            columns[value_column(variable)] = value
            columns[rank_column(variable)] = rank_in_turn(old, value, rng.random(value.size))
        elif variable in reference.variables or variable == WEIGHT:
            columns[value_column(variable)] = value
    for variable, share in stream.shares.items():
        if variable in own.columns:
            columns |= _known_ranks(own, variable, share, reference.bins.get(variable), rng)
    counted = pd.DataFrame(columns, index=drawn)
    table = pd.DataFrame(
        {role: frame[role].to_numpy() for role in ("id", "content", "group") if role in frame}
    ).assign(stream=name, look=look)
    table["id"] = table["id"].map(str)
    table["counted"] = np.isin(np.arange(len(frame)), drawn)
    joined = table.join(counted)
    # The order of the ranks is that of the draw; keep it.
    order = np.concatenate([drawn, np.setdiff1d(np.arange(len(frame)), drawn)])
    return joined.iloc[order].reset_index(drop=True)


def _joined(old: npt.NDArray[Any], before: pd.DataFrame | None, variable: str) -> npt.NDArray[Any]:
    """Return the values of the reference and of all units that were counted before."""
    column = value_column(variable)
    if before is None or column not in before.columns:
        return old
    # A look without this column counted no unit of it; numbers that are missing are values.
    ranked = before[before[rank_column(variable)].notna()]
    return np.concatenate([old, ranked[column].to_numpy(dtype=old.dtype)])


def _known_ranks(
    frame: pd.DataFrame, name: str, share: dict[str, float], edges: Any, rng: np.random.Generator
) -> dict[str, Any]:
    """Rank levels whose shares are known; others are outside the target's scope, not ranked."""
    levels, code_n = column_levels(frame[name], name, edges)
    level_n = np.array(levels, dtype=object)[code_n]
    known_n = np.array([level in share for level in level_n.tolist()], dtype=np.bool_)
    rank_n = np.full(level_n.size, np.nan)
    uniform_m = rng.random(int(known_n.sum()))
    rank_n[known_n] = rank_known_shares(level_n[known_n], share, uniform_m)
    return {value_column(name): level_n, rank_column(name): rank_n}
