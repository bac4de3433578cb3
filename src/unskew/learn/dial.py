"""The dial between weights and logits: how much of a class's weight moves into its logit.

A weight is w_i = a(y_i) · b_i, a(y) the mean weight of class y. With the dial at τ the loss is
weighted by a(y_i)^(1−τ) b_i, and −τ log a(y) is added to the logit of class y while training; the
shift is dropped when predicting. τ = 0 weights images; τ = 1 is logit adjustment (Menon et al.
2021) towards the target, and b remains for what is not the label's. Whatever τ, the model that
describes the target is the minimum where the model is right: the shares of the classes under the
dialled weights, times a(y)^τ, are those under the weights. Weights are more robust where the model
is wrong, shifts keep more effective images (Scott & Wild 1986; Fithian & Hastie 2014).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import ANY_RANK, Count, Share, checked
from unskew.errors import DataError
from unskew.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class Dialled:
    """Weights with a part of every class's factor moved into the logits.

    Attributes
    ----------
    tau : how much of it: 0 none, 1 all.
    weight : (n,) a(y_i)^(1−τ) b_i, scaled to mean 1; of several labels (n, M), for each label
        a_m(y_im)^(−τ) w_i.
    logit_shift : (M,) −τ log a(y), added to the logits in the training loss; of several labels −τ
        log(a_m(1)/a_m(0)). 0 for a class without weight.
    """

    tau: float
    weight: Floats = field(repr=False)
    logit_shift: Floats

    @property
    def image_weight(self) -> Floats:
        """(n,) in proportion to which images are drawn: of several labels, the mean over them."""
        return self.weight if self.weight.ndim == 1 else self.weight.mean(axis=1)

    @property
    def shifts(self) -> bool:
        """Tell whether any logit is shifted, beyond rounding."""
        return bool(np.any(np.abs(self.logit_shift) > 1e-12))


@checked
def turn_dial(
    weight_n: Floats,
    label_n: Annotated[npt.NDArray[Any], ANY_RANK],
    n_classes: Count,
    tau: Share,
    *,
    count_n: Floats | None = None,
) -> Dialled:
    """Move the share τ of every class's factor from the weights into the logits.

    a(y) is the mean weight of the images of class y that have any, relative to the mean of all.
    With ``count_n`` a row counts as so many images, each with its part of the row's weight.

    Facts: Σ_i dialled_i 1{y_i = y} · a(y)^τ ∝ Σ_i w_i 1{y_i = y}; weights that depend on the label
    alone are all 1 at τ = 1; equal weights stay equal, without a shift, at every τ.

    Parameters
    ----------
    weight_n : (n,) not negative, some of them positive.
    label_n : (n,) classes 0 … M−1; or (n, M), 1 where an image has a label, NaN: unknown.
    n_classes : M.
    tau : from 0 to 1.
    count_n : (n,) positive where the weight is: design weights, which the weights contain and which
        stay there at every τ. Default: 1. Not for several labels.

    Examples
    --------
    >>> dialled = turn_dial(np.array([1.0, 1.0, 4.0]), np.array([0, 0, 1]), 2, 1.0)
    >>> dialled.weight.tolist(), np.exp(-dialled.logit_shift).tolist()
    ([1.0, 1.0, 1.0], [0.5, 2.0])
    """
    check_positive_weights(weight_n)
    is_read = label_n.dtype.kind in ("biu" if label_n.ndim == 1 else "biuf")
    if label_n.ndim not in (1, 2) or len(label_n) != weight_n.size or not is_read:
        raise DataError(
            f"label_n holds a class, or the labels 0 and 1, of each of {weight_n.size} images; got "
            f"shape {label_n.shape} of type {label_n.dtype}.",
            option="label_n",
            value=list(label_n.shape),
        )
    if label_n.ndim == 1 and not 0 <= label_n.min() <= label_n.max() < n_classes:
        raise DataError(
            f"label_n holds classes 0 to {n_classes - 1}; got {label_n.min()} to {label_n.max()}.",
            option="label_n",
            limit=n_classes,
        )
    count_n = np.ones(weight_n.size) if count_n is None else count_n
    weight_n = weight_n * (count_n[weight_n > 0].sum() / weight_n.sum())
    if label_n.ndim == 2:
        return _turn_each(weight_n, label_n.astype(np.float64), tau)
    log_a_m = _log_factor(weight_n, label_n, n_classes, count_n)
    dialled_n = weight_n * np.exp(-tau * log_a_m)[label_n]
    return Dialled(tau, dialled_n / dialled_n[dialled_n > 0].mean(), -tau * log_a_m)


def temper_within(weight_n: Floats, label_n: Ints, n_classes: int, power: float) -> Floats:
    """Take the weights within every class y to a power κ: w_i^κ Σ_{j in y} w_j/Σ_{j in y} w_j^κ.

    The sum over a class stays. κ = 1: nothing changes; 0: weights depend on the class alone.
    """
    tempered_n = np.where(weight_n > 0, weight_n, 1.0) ** power * (weight_n > 0)
    sum_m, tempered_m = (
        np.bincount(label_n, weights=values_n, minlength=n_classes)
        for values_n in (weight_n, tempered_n)
    )
    factor_m = np.divide(sum_m, tempered_m, out=np.zeros_like(sum_m), where=tempered_m > 0)
    return np.asarray(tempered_n * factor_m[label_n])


def check_positive_weights(weight_n: Floats) -> None:
    """Refuse weights from which nothing can be learned."""
    if not np.isfinite(weight_n).all() or weight_n.min(initial=0.0) < 0 or not weight_n.any():
        raise DataError("weights are finite, not negative, and not all zero.", option="weight_n")


def keep_class_shares(weight_n: Floats, label_n: Ints, rows: Ints) -> Floats:
    """Return the weights of ``rows``, each class with the total that it has among all images.

    A fold without an image of a rare class would otherwise teach that the class is rarer still, to
    a model that is then judged on that image: of three images, one held out, a third of the share.
    """
    total_m, kept_m = (
        np.bincount(label_n[part], weights=weight_n[part], minlength=int(label_n.max()) + 1)
        for part in (slice(None), rows)
    )
    factor_m = np.divide(total_m, kept_m, out=np.ones(total_m.size), where=kept_m > 0)
    return np.asarray(weight_n[rows] * factor_m[label_n[rows]])


def _log_factor(weight_n: Floats, label_n: Ints, n_classes: int, count_n: Floats) -> Floats:
    """Return (M,) log a(y); 0 for a class without weight."""
    used = weight_n > 0
    count_m = np.bincount(label_n[used], weights=count_n[used], minlength=n_classes)
    sum_m = np.bincount(label_n[used], weights=weight_n[used], minlength=n_classes)
    return np.log(np.divide(sum_m, count_m, out=np.ones(n_classes), where=count_m > 0))


def _turn_each(weight_n: Floats, label_nm: Floats, tau: float) -> Dialled:
    """Turn the dial of each label as if it were a problem of two classes, present or absent.

    An image of which a label is unknown has no weight there.
    """
    columns, shift_m = [], np.zeros(label_nm.shape[1])
    for m, label_n in enumerate(label_nm.T):
        present_n, own_n = (label_n == 1.0).astype(np.int64), weight_n * ~np.isnan(label_n)
        log_a_2 = _log_factor(own_n, present_n, 2, np.ones(weight_n.size))
        columns.append(own_n * np.exp(-tau * log_a_2)[present_n])
        # A label that every image has, or none, has nothing to be told apart from.
        if np.unique(present_n[own_n > 0]).size == 2:
            shift_m[m] = -tau * (log_a_2[1] - log_a_2[0])
    weight_nm = np.column_stack(columns)
    return Dialled(tau, weight_nm / weight_nm[weight_nm > 0].mean(), shift_m)
