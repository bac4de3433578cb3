"""What one would do without the biased-sampling equations: `make_baseline`, `make_baselines`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, DataError, UnskewError, did_you_mean
from unskew.learn.baseline_methods import (
    make_class_balanced,
    make_classifier_retraining,
    make_deferred_weighting,
    make_density_ratio,
    make_logit_adjustment,
    make_naive,
    make_one_source,
    make_subsample,
    make_vs_loss,
)
from unskew.learn.baseline_record import Baseline, Baselines
from unskew.records import Pool, Target

logger = logging.getLogger(__name__)

_MAKERS: dict[str, Callable[..., Baseline]] = {
    "naive": make_naive,
    "one_source": make_one_source,
    "subsample": make_subsample,
    "class_balanced": make_class_balanced,
    "logit_adjustment": make_logit_adjustment,
    "density_ratio": make_density_ratio,
    "classifier_retraining": make_classifier_retraining,
    "deferred_weighting": make_deferred_weighting,
    "vs_loss": make_vs_loss,
}
BASELINES = tuple(_MAKERS)


@checked
def make_baseline(name: str, pool: Pool, target: Target | None = None, **options: Any) -> Baseline:
    """Make the baseline ``name`` for ``pool``: image weights, or an offset for every class.

    With n images, n_y of them of class y, and M classes:

    ``naive``
        1/n for every image.
    ``one_source`` (option ``source``; default: the one worth most)
        p_target(c)/n_kc for the images of stratum c in one source k, 0 elsewhere (weighted ERM;
        Vogel et al. 2020); needs a target.
    ``subsample`` (options ``by``, ``seed``)
        images drawn without replacement until every stratum has its target share, as many as
        possible; without a target, or with ``by``, all the same.
    ``class_balanced`` (option ``beta``)
        1/(M n_y); with ``beta`` ∝ (1 − β)/(1 − β^{n_y}) (Cui et al. 2019).
    ``logit_adjustment`` (options ``tau``, ``form``: "posthoc" or "loss")
        1/n, and an offset τ log(π_y/p_target(y)) on the logits, π_y = n_y/n; τ log π_y without a
        target (Menon et al. 2021).
    ``density_ratio`` (options ``features``, ``C``)
        ∝ P(target | x)/P(pool | x) from a classifier of a target sample against the pool; needs a
        target sample or source.

    ``classifier_retraining``
        1/n for a network, then its last layer alone with images of class y weighted by
        p_target(y)/π_y (Kang et al. 2020).
    ``deferred_weighting``
        1/n for four fifths of a network's epochs, then p_target(y)/π_y in the loss (Cao et al.
        2019).
    ``vs_loss`` (options ``tau``, ``gamma``)
        1/n, and in a network's loss logits times (r_y/max r)^γ plus τ log r_y, r_y =
        π_y/p_target(y) (Kini et al. 2021).

    A target that is a sample or a source gives all but naive, class_balanced and density_ratio the
    class shares of its labels; without one classes get equal shares.

    Parameters
    ----------
    name : one of `BASELINES`.
    pool : the images.
    target : the population to learn about, where the baseline can use it.
    **options : of that baseline, as above.

    Examples
    --------
    >>> import unskew
    >>> labels = ["cat", "cat", "dog", "cat"]
    >>> pool = unskew.Pool.from_arrays(source=["a", "a", "a", "b"], label=labels)
    >>> make_baseline("class_balanced", pool).sample_weight.round(3).tolist()
    [0.667, 0.667, 2.0, 0.667]
    >>> target = unskew.Target.uniform("label")
    >>> make_baseline("one_source", pool, target, source="a").weight.tolist()
    [0.25, 0.25, 0.5, 0.0]
    """
    if name not in _MAKERS:
        raise ConfigError(
            f"there is no baseline {name!r}; the baselines are "
            f"{', '.join(BASELINES)}.{did_you_mean(name, BASELINES)}",
            option="name",
            value=name,
            allowed=list(BASELINES),
        )
    _check_kinds(pool, target)
    known = [
        key for key in inspect.signature(_MAKERS[name]).parameters if key not in ("pool", "target")
    ]
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(
                f"the baseline {name!r} has no option {option!r}; "
                f"{has}.{did_you_mean(option, known)}",
                option=option,
                allowed=known,
            )
    return _MAKERS[name](pool, target, **options)


@checked
def make_baselines(
    pool: Pool,
    target: Target | None = None,
    names: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Baselines:
    """Make several baselines, ``options`` by name; what cannot be made says what is missing.

    A name or an option that does not exist is an error; so is a baseline named in ``names`` or
    ``options`` that cannot be made.
    """
    options = options or {}
    asked = (*(names or ()), *options)
    made: dict[str, Baseline] = {}
    unavailable: dict[str, str] = {}
    for name in dict.fromkeys((*(names or BASELINES), *options)):
        try:
            made[name] = make_baseline(name, pool, target, **options.get(name, {}))
        except UnskewError as error:
            if name in asked:
                raise
            logger.info("baseline %s cannot be made: %s", name, error)
            unavailable[name] = str(error)
    return Baselines(made, unavailable)


def _check_kinds(pool: Any, target: Any) -> None:
    if not isinstance(pool, Pool):
        raise DataError(
            f"a baseline is made for a Pool; got {type(pool).__name__}. Pool.from_frame and "
            "Pool.from_arrays make one.",
            option="pool",
            value=type(pool).__name__,
        )
    if target is not None and not isinstance(target, Target):
        raise ConfigError(
            f"target is a Target, such as Target.uniform('label'); got {type(target).__name__}.",
            option="target",
            value=type(target).__name__,
        )
