"""A large source that never shows part of the population, and a small one that does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Count, Numbers, checked
from unskew.errors import ConfigError
from unskew.records import Ints
from unskew.records.arrays import Randomness, seed_of
from unskew.scenarios.image_acquisition import draw_from_population
from unskew.scenarios.scenario import Scenario, read_label


@checked
def censored(
    label: npt.ArrayLike,
    features: Numbers | None = None,
    *,
    hidden: Collection[object],
    sizes: Sequence[Count] | Ints,
    rng: Randomness | np.random.Generator,
) -> Scenario:
    """Draw two sources: 0 never shows the labels in ``hidden``, 1 is an unbiased sample.

    ω_0 = 1{y not hidden} and ω_1 = 1.

    Hence Ω_0 = P(y not hidden) and Ω_1 = 1 under the target, which is the population. Naive pooling
    shows the hidden labels n_1/n times as often as they are. The weights are those of nested sets:
    with N_h hidden images among the n_1 of source 1, a hidden image weighs 1/n_1 and the others
    share what is left.

    Parameters
    ----------
    label : (N,) of the population.
    features : (N, p) of the population, carried along; None if there are none.
    hidden : the labels that source 0 never shows; not all of them.
    sizes : (n_0, n_1).
    rng : an int or a NumPy Generator, of the draw.

    Examples
    --------
    >>> import numpy as np
    >>> label = np.repeat(["cat", "dog", "ship", "truck"], 250)
    >>> scenario = censored(label, hidden=["cat", "dog"], sizes=[900, 100], rng=0)
    >>> scenario.normalizer.round(12).tolist()
    [0.5, 1.0]
    >>> bool(np.isin(scenario.label[scenario.source == 0], [0, 1]).any())
    False
    """
    seed = seed_of(rng)
    label_n = read_label(label)
    unknown = sorted(
        {str(value) for value in hidden} - {str(value) for value in np.unique(label_n)}
    )
    if unknown:
        raise ConfigError(
            f"hidden names labels that the population does not have: {', '.join(unknown)}.",
            option="hidden",
            levels=unknown,
        )
    is_hidden_n = np.isin(label_n, np.array(list(hidden)))
    if is_hidden_n.all():
        raise ConfigError(
            "hidden names every label, so source 0 would have nothing to show.", option="hidden"
        )
    feature_np = None if features is None else np.asarray(features, dtype=np.float64)
    if feature_np is not None and (feature_np.ndim != 2 or feature_np.shape[0] != label_n.size):
        raise ConfigError(
            f"features needs one row for each of the {label_n.size} images; got shape "
            f"{feature_np.shape}.",
            option="features",
            value=list(feature_np.shape),
        )
    return draw_from_population(
        np.column_stack([~is_hidden_n, np.ones(label_n.size)]).astype(np.float64),
        feature_np,
        label_n,
        sizes=sizes,
        rng=seed,
        description=f"a source that never shows {len(set(hidden))} of {np.unique(label_n).size} "
        "labels, and an unbiased one",
    )
