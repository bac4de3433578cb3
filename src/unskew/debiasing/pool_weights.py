"""The door ``debias``: bias -> solve -> weigh in one call."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Unpack

from unskew.debiasing.fitted_weights import weigh_fitted
from unskew.errors import ConfigError, DataError, UnskewWarning
from unskew.records import Pool, Target, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.solve.options import SolverOptions, read_options, shows_options

if TYPE_CHECKING:
    from unskew.bias.base import Bias


@shows_options(SolverOptions)
def debias(
    pool: Pool,
    bias: Bias,
    target: Target | None = None,
    *,
    rng: Randomness = 0,
    max_uncovered: float = 0.2,
    check_sample: bool = True,
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
    rng : an int or a NumPy Generator, of folds, permutations, held-out images and the batches of "sgd".
    max_uncovered : with a sample of the target, the largest share of its images that no source may
        resemble; more is a `CoverageError`.
    check_sample : with a sample of the target, let a classifier try to tell it from the weighted pool
        (``weights.estimation.resemblance``).
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

    _check_arguments(pool, bias, target, max_uncovered)
    read_options(options, SolverOptions)
    _warn_if_unused(bias, target)
    fitted = fit_parts(bias, bias.parts, pool, target, seed=seed)
    return weigh_fitted(
        pool,
        fitted,
        seed=seed,
        max_uncovered=max_uncovered,
        check_sample=check_sample,
        solver=options,
    )


def _check_arguments(pool: object, bias: object, target: object, max_uncovered: float) -> None:
    from unskew.bias.base import Bias as AnyBias

    if not isinstance(pool, Pool):
        raise DataError(
            f"debias takes a Pool; got {type(pool).__name__}. Make one with Pool.from_frame or "
            "Pool.from_arrays.",
            option="pool",
            value=type(pool).__name__,
        )
    if not isinstance(bias, AnyBias):
        raise ConfigError(
            f"bias is a bias model such as unskew.bias.Strata('label'); got {bias!r}.",
            option="bias",
            value=repr(bias),
        )
    if target is not None and not isinstance(target, Target):
        raise ConfigError(
            f"target is an unskew.Target, such as Target.margins({{…}}); got {target!r}.",
            option="target",
            value=repr(target),
        )
    if not 0.0 < max_uncovered <= 1.0:
        raise ConfigError(
            f"max_uncovered is a share above 0 and at most 1; got {max_uncovered!r}.",
            option="max_uncovered",
            value=max_uncovered,
        )


def _warn_if_unused(bias: Bias, target: Target | None) -> None:
    """Warn of masses of strata that the model cannot use: only `Strata` can."""
    from unskew.bias.strata import Strata

    if (
        target is None
        or target.kind in ("sample", "source")
        or any(isinstance(part, Strata) for part in bias.parts)
    ):
        return
    by = " × ".join(target.by)
    warnings.warn(
        f"the target gives the distribution of {by}, which {type(bias).__name__} cannot use: the "
        "weights do not follow it. Multiply by "
        f"Strata({list(target.by)}) in a Product, or call calibrate_weights afterwards.",
        UnskewWarning,
        stacklevel=3,
    )
