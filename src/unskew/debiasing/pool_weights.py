"""bias -> solve -> weigh in one call, for a pool and for each of its splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from unskew.debiasing.fitted_weights import weigh_fitted
from unskew.debiasing.train_fit import SplitOutcome, TrainFit, masses_text
from unskew.debiasing.unused_masses import check_unused
from unskew.engine.arguments import Count, ShareAboveZero, checked
from unskew.engine.block_engines import check_engine
from unskew.errors import DataError, UnskewError, first_few
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.records.clustered_mean import effective_size
from unskew.records.levels import level_text
from unskew.records.weights import ids_on_demand
from unskew.solve.options import SolverOptions, read_options, shows_options
from unskew.splits.assignment import check_splits
from unskew.splits.folds import unit_codes
from unskew.target.facts import cell_text
from unskew.weigh.compared_rows import find_memberships
from unskew.weigh.effective_size import add_by_code

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias
    from unskew.target.strata import TargetStrata


@checked
@shows_options(SolverOptions)
def debias(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    rng: Randomness = 0,
    max_uncovered: ShareAboveZero = 0.2,
    check_sample: bool = True,
    engine: Any = None,
    subsample: Count = 1_000_000,
    **options: Unpack[SolverOptions],
) -> Weights:
    """Fit the bias model on the pool, evaluate it, solve, and give every image one weight.

    π_i = 1/(Z Σ_k λ_k ω_k(z_i; θ̂)/Ω̂_k), the sum over the sources that are kept in training (not
    the target's own sample), Z such that Σ_i π_i = 1. Errors of ``weights.mean`` and
    ``weights.bootstrap`` account for the estimation of ω.

    The options of the solver say how the normalizers are found once ω is, and the weights are those
    of that method (the article's "sgd", say). With a `Strata` part the normalizers are known and
    there is nothing to solve.

    Parameters
    ----------
    pool : the images of all sources.
    bias : what is known about the selection: a model of `unskew.bias`.
    target : what is known about the population; None where the model needs nothing (`Known`,
        `Subpopulation`, `Box`, `SoftBox`).
    rng : an int or a NumPy Generator, of folds, permutations, held-out images and the batches of
        "sgd".
    max_uncovered : with a sample of the target, the largest share of its images that no source may
        resemble; more is a `CoverageError`.
    check_sample : with a sample of the target, let a classifier try to tell it from the weighted
        pool (``weights.estimation.resemblance``).
    engine : where the blocks of a pool over parts (`Pool.from_parquet`) are computed: "local"
        (threads; the default), "dask", the address of a Dask scheduler, a Dask Client, or any
        `concurrent.futures.Executor`. A pool in memory needs none.
    subsample : of a pool over parts, about how many images are drawn to learn on. One that has no
        more is weighed in memory.
    **options

    Returns
    -------
    Weights
        With the ids of the pool; ``weights.describe()`` says what was assumed and estimated,
        ``weights.overlap`` how well the sources are linked.

    Examples
    --------
    >>> import unskew
    >>> pool = unskew.Pool.from_arrays(["a", "a", "a", "b"], label=["cat", "cat", "dog", "dog"])
    >>> target = unskew.Target.margins({"label": {"cat": 0.8, "dog": 0.2}})
    >>> unskew.debias(pool, unskew.bias.Strata("label"), target).weight.round(12).tolist()
    [0.4, 0.4, 0.1, 0.1]
    """
    seed = seed_of(rng)
    from unskew.bias.fitting import fit_parts

    own = ("rng", "max_uncovered", "check_sample", "engine", "subsample")
    read_options(options, SolverOptions, own=own)
    check_engine(engine)
    from unskew.sources.part_pool import PartPool

    if isinstance(pool, PartPool):
        from unskew.debiasing.part_debias import check_part_options, debias_parts

        check_part_options(options)
        settings = {"rng": seed, "max_uncovered": max_uncovered, "check_sample": check_sample}
        return debias_parts(
            pool, bias, target, engine=engine, subsample=subsample, settings=settings | {**options}
        )
    check_unused(pool, bias, target)
    fitted = fit_parts(bias, bias.parts, pool, target, seed=seed)
    return weigh_fitted(
        pool,
        fitted,
        seed=seed,
        max_uncovered=max_uncovered,
        check_sample=check_sample,
        solver=options,
    )


# The name of the only split of a pool that has none.
ALL = "all"


@dataclass(frozen=True, eq=False)
class SplitPart:
    """The weights of one split.

    Attributes
    ----------
    name : the split.
    row : (n_s,) the rows of its images in the pool.
    weight : (n_s,) sums to 1 within the split.
    groups : number of groups, copies of one image being one group; None without either.
    ess, ess_groups : Kish's effective number of images, 1/Σ_i π_i², and of groups.
    zero : number of images that get weight 0, by reason.
    uncovered : strata of the target that have images in train and none here, and their mass.
    population : which population the weighted split describes.
    membership : (n_s, K) q of every image; None of train, whose weights have it.
    """

    name: str
    row: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    groups: int | None
    ess: float
    ess_groups: float | None
    zero: Mapping[str, int]
    uncovered: Mapping[str, float]
    population: str
    membership: npt.NDArray[np.float32] | None = field(default=None, repr=False)

    @property
    def images(self) -> int:
        """n_s, the number of images."""
        return int(self.row.size)

    @property
    def sample_weight(self) -> Floats:
        """(n_s,) n_s π_i: mean 1 within the split."""
        return self.weight * self.weight.size

    @property
    def note(self) -> str:
        """What a reader of a result on this split should know, as sentences."""
        notes = [f"{count} images get weight 0: {reason}." for reason, count in self.zero.items()]
        return " ".join([*notes, f"Population: {self.population}."])


@ids_on_demand
@dataclass(frozen=True, eq=False)
class SplitWeights:
    """One weight for every image of every split.

    Attributes
    ----------
    weights : the weights of ``train``, with the fitted model, verdict and errors.
    train : the split that the bias model was fitted on.
    parts : one `SplitPart` for each split, train first.
    id : (n,) ids of the images, in the order of the pool.
    """

    weights: Weights
    train: str
    parts: tuple[SplitPart, ...]
    id: npt.NDArray[Any] = field(repr=False)

    @property
    def weight(self) -> Floats:
        """(n,) sums to 1 within each split."""
        return self._joined([part.weight for part in self.parts])

    @property
    def sample_weight(self) -> Floats:
        """(n,) mean 1 within each split."""
        return self._joined([part.sample_weight for part in self.parts])

    def _joined(self, values: list[Floats]) -> Floats:
        joined_n = np.empty(sum(part.images for part in self.parts))
        for part, value_m in zip(self.parts, values, strict=True):
            joined_n[part.row] = value_m
        return joined_n

    @checked
    def part(self, name: str) -> SplitPart:
        """Return the split of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise DataError(
            f"there is no split {name!r}; the splits are "
            f"{first_few([part.name for part in self.parts])}.",
            value=name,
            allowed=[part.name for part in self.parts],
        )

    def frame(self) -> pd.DataFrame:
        """Return a table with one row for each image of the pool, in its order.

        Its columns are id, weight (sum 1 within the split) and sample_weight (mean 1 within it).
        """
        import pandas as pd

        return pd.DataFrame(
            {"id": self.__dict__["id"], "weight": self.weight, "sample_weight": self.sample_weight}
        )

    def memberships(self) -> pd.DataFrame:
        """Return id and ``membership_<source>``, its share of images like it; 0 without weight."""
        import pandas as pd

        q_nk = find_memberships(self.weights, np.float32)
        if len(self.parts) > 1:
            shape = sum(part.images for part in self.parts), q_nk.shape[1]
            own_mk, q_nk = q_nk, np.empty(shape, dtype=np.float32, order="F")
            q_nk[self.parts[0].row] = own_mk
        for part in self.parts[1:]:
            q_nk[part.row] = part.membership
        # Columns next to one another in memory are not copied.
        names = [f"membership_{name}" for name in self.weights.names]
        frame = pd.DataFrame(q_nk, columns=names, copy=False)
        frame.insert(0, "id", self.__dict__["id"])
        return frame


@checked
@shows_options(SolverOptions)
def weigh_splits(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    rng: Randomness = 0,
    max_uncovered: ShareAboveZero = 0.2,
    check_sample: bool = True,
    **options: Unpack[SolverOptions],
) -> SplitWeights:
    """Fit the bias model on train by `unskew.debias`, and weigh every split to the same target.

    In split s, π_i ∝ 1/Σ_k λ_k^s ω_k(z_i)/Ω_k: ω and Ω as fitted on train, λ_k^s the share of
    source k in the split itself; design weights are scaled within the split and its sources. With a
    `Strata` part λ and Ω are those within the stratum of the
    image, and weights are scaled so that each stratum has the target's mass; strata without images
    in the split are named with their mass, and the rest of the target is taken for 1. Facts: a
    split that is equal to train gets train's weights (except that `Propensity` judges the images it
    was fitted on by models that did not see them, and that images of train may be held out to
    judge); without splits these are the weights of `unskew.debias`.

    Images that the model leaves out (beyond what their own source selects; outside the target; in a
    stratum of no mass, or one that train has no image of) get weight 0 and are counted.

    Parameters
    ----------
    pool : the images; train is the split called train, else the largest. Without a column ``split``
        the pool is one split.
    bias, target, rng, max_uncovered, check_sample : as for `unskew.debias`.
    **options
    """
    check_splits(pool)
    settings: dict[str, Any] = {"max_uncovered": max_uncovered, "check_sample": check_sample}
    return weigh_checked_splits(pool, bias, target, rng=seed_of(rng), **settings, **options)


def weigh_checked_splits(
    pool: Pool, bias: Bias, target: Target | None, **settings: Any
) -> SplitWeights:
    """Do what `weigh_splits` does for a pool whose splits have been checked, as in a run."""
    ids: Any = pool.frame["id"]
    if "split" not in pool.frame.columns:
        weights = debias(pool, bias, target, **settings)
        part = _train_part(ALL, np.arange(len(pool)), weights)
        return SplitWeights(weights, ALL, (part,), ids)
    split_n = pool.frame["split"].map(level_text).to_numpy(dtype=object)
    row_of = {name: np.flatnonzero(split_n == name) for name in dict.fromkeys(split_n.tolist())}
    train = find_train_split(row_of)
    _check_sources(pool, row_of, train)
    train_pool = pool.take(row_of[train])
    with _naming_split(train):
        weights = debias(train_pool, bias, target, **settings)
    parts = [_train_part(train, row_of[train], weights)]
    parts = _with_others(parts, pool, row_of, weights) if len(row_of) > 1 else parts
    return SplitWeights(weights, train, tuple(parts), ids)


def find_train_split(row_of: Mapping[str, Ints]) -> str:
    """Return the split that the bias model is fitted on: train, else the largest."""
    called = [name for name in row_of if name.strip().lower() in ("train", "training")]
    return called[0] if called else min(row_of, key=lambda name: (-row_of[name].size, name))


def _check_sources(pool: Pool, row_of: Mapping[str, Ints], train: str) -> None:
    """Refuse a source without images in train: it has no fitted ω."""
    seen = set(pool.source[row_of[train]].tolist())
    lacking = {
        name: size
        for k, (name, size) in enumerate(zip(pool.names, pool.sizes, strict=True))
        if k not in seen
    }
    if lacking:
        shown = first_few([f"{name} ({size} images)" for name, size in lacking.items()])
        raise DataError(
            f"the bias model is fitted on the split {train!r}, which has no image of {shown}: how "
            "that source selects cannot be learned. Split so that every source is in it (`unskew "
            "split` does), or leave the source out.",
            sources=list(lacking),
        )


@contextmanager
def _naming_split(split: str) -> Iterator[None]:
    """Begin the message of an error with the split it occurred in."""
    try:
        yield
    except UnskewError as error:
        error.args = (f"in the split {split!r}: {error}", *error.args[1:])
        raise


def _train_part(name: str, row: Ints, weights: Weights) -> SplitPart:
    assert weights.estimation is not None
    fitted = weights.estimation.fitted
    outcome = SplitOutcome(weights.weight, dict(fitted.left_out), {}, fitted.describe().population)
    return _make_part(name, row, weights.unit, outcome)


def _make_part(name: str, row: Ints, unit_n: Ints | None, outcome: SplitOutcome) -> SplitPart:
    groups = ess_groups = None
    if unit_n is not None:
        code_n = np.unique(unit_n, return_inverse=True)[1]
        groups = int(code_n.max()) + 1
        ess_groups = effective_size(add_by_code(code_n, outcome.weight, groups))
    return SplitPart(
        name=name,
        row=row,
        weight=outcome.weight,
        groups=groups,
        ess=effective_size(outcome.weight),
        ess_groups=ess_groups,
        zero=outcome.zero,
        uncovered=outcome.uncovered,
        population=outcome.population,
        membership=outcome.membership,
    )


def _with_others(
    parts: list[SplitPart], pool: Pool, row_of: Mapping[str, Ints], weights: Weights
) -> list[SplitPart]:
    """Add the other splits to that of train."""
    assert weights.estimation is not None
    train, fitted = parts[0].name, weights.estimation.fitted
    whole = _whole_strata(pool, fitted)
    with _naming_split(train):
        lost = _check_uniform(fitted.target, whole, row_of[train])
    fit = TrainFit(train, fitted, weights, whole, pool.design_weight)
    for name, row in row_of.items():
        if name != train:
            with _naming_split(name):
                split_pool = pool.take(row)
                unit_n = unit_codes(split_pool.frame)
                parts.append(_make_part(name, row, unit_n, fit.weigh(row, split_pool)))
    if not lost:
        return parts
    without = f", excluding strata with no images in {train}: {masses_text(lost)}"
    return [replace(part, population=part.population + without) for part in parts]


def _whole_strata(pool: Pool, fitted: FittedBias) -> TargetStrata | None:
    """Find the strata of all splits together; None without strata."""
    from unskew.bias.strata import Strata, stratify_for

    part = next((part for part in fitted.model.parts if isinstance(part, Strata)), None)
    if part is None:
        return None
    data = fitted.data
    reference = None if data.reference is None else data.frame[data.source == data.reference]
    design_m = None if data.design is None else data.design[data.source == data.reference]
    return stratify_for(part, pool, fitted.target, reference, design_m)[0]


def _check_uniform(
    target: Target | None, whole: TargetStrata | None, train: Ints
) -> dict[str, float]:
    """Return {what train has no image of: its mass}, an error unless the target allows it."""
    from unskew.target.strata import allow_uncovered

    if target is None or target.kind != "uniform" or whole is None:
        return {}
    seen_c = np.bincount(whole.code[train][whole.code[train] >= 0], minlength=len(whole.strata)) > 0
    empty_c = ~seen_c & whole.in_scope & (whole.mass > 0)
    empty = {
        cell_text(whole.by, whole.strata[c]): float(whole.mass[c]) for c in np.flatnonzero(empty_c)
    }
    if empty:
        allow_uncovered(target, empty, float(whole.mass[~empty_c].sum()))
    return empty
