"""How a network starts and is judged; after its epochs it is averaged, refitted, calibrated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, first_few
from unskew.learn.dial import turn_dial
from unskew.learn.label_probes import LabelProbes, fit_each_label, tune_label_probes
from unskew.learn.logit_calibration import (
    LogitCalibration,
    choose_calibration,
    fit_logit_calibration,
    held_out_losses,
    two_logits,
)
from unskew.learn.presets import TAUS
from unskew.learn.probe import Probe
from unskew.learn.probe_grid import TunedProbe, dialled_probe, tune_probe
from unskew.learn.recipes import after_training
from unskew.learn.training_data import DeviceRows, TrainingData, rows_at_once
from unskew.learn.ways import AS_DEFINED, LEAST_ESS, WayChoice, way_of
from unskew.records import Estimate, Floats, Ints
from unskew.records.clustered_mean import effective_size, plain_mean

if TYPE_CHECKING:
    from unskew.learn.last_layer import LastLayer
    from unskew.learn.training_loop import TrainingRun

# Of the training images, what the last layer is refitted on.
_HEAD_SHARE = 2 / 11
# Of `auto`, which refits on all training images: the penalty, relative to the curvature of the mean
# loss in one class of M equally frequent ones, (1/M)(1 − 1/M) times the mean square of an image's
# features. From 2e-3 to 6e-3 was best on two data sets of ten classes, and below 6e-3 on one of a
# hundred; benchmarks/learning.py shows their tests among fresh ones.
_RIDGE_OF_ALL, _LEAST_RIDGE = 5.5e-3, 1e-6
_SAME = 1e-9  # Weights that differ by less, relative to the largest, are equal but for rounding.
# Of so many images a last layer starts as a probe; and how far from the start to the end of its
# training a network may go.
_START_FROM, _SHARES = 20_000, (0.0, 0.5, 0.75, 1.0)
_SURE = 10.0
# One temperature needs fewer effective images than a choice: its standard error is then some 20%.
_ENOUGH_FOR_SCALE = 50.0


def split_head(data: TrainingData, seed: int) -> tuple[TrainingData, TrainingData]:
    """Split off what the last layer is refitted on: 2 of 11 units of every class, one at least."""
    unit_n = data.unit
    _, first_u = np.unique(unit_n, return_index=True)
    # Of several labels every image is of one kind: there are too many sets of labels.
    class_u = np.zeros_like(first_u) if data.has_label_sets else data.label[first_u]
    size_u = np.bincount(class_u, minlength=len(data.classes))[class_u]
    order_u = np.lexsort((np.random.default_rng([seed, 4]).permutation(first_u.size), class_u))
    begin_m = np.searchsorted(class_u[order_u], np.arange(len(data.classes)))
    rank_u = np.empty(first_u.size, dtype=np.int64)
    rank_u[order_u] = np.arange(first_u.size) - begin_m[class_u[order_u]]
    is_head_n = ((rank_u < np.maximum(np.rint(_HEAD_SHARE * size_u), 1)) & (size_u > 1))[unit_n]
    _check_parts(data, is_head_n)
    return data.take(np.flatnonzero(~is_head_n)), data.take(np.flatnonzero(is_head_n))


def _check_parts(data: TrainingData, is_head_n: npt.NDArray[np.bool_]) -> None:
    if data.has_label_sets:
        seen = [_seen_labels(data.label[part]) for part in (slice(None), is_head_n, ~is_head_n)]
        once = [data.classes[m] for m in sorted(seen[0] - (seen[1] & seen[2]))]
    else:
        both = set(data.label[is_head_n]) & set(data.label[~is_head_n])
        once = [data.classes[m] for m in np.unique(data.label) if m not in both]
    ess = _worth(data, is_head_n)
    if once or ess < LEAST_ESS:
        why = (
            f"of {first_few(once)} there are not enough for both parts"
            if once
            else f"these are worth {ess:.0f} equally weighted ones, and it needs {LEAST_ESS:.0f}"
        )
        raise DataError(
            "way 'head' refits the last layer on 2 of 11 training images (groups) of every class, "
            f"and {why}. Use another way: 'auto'.",
            option="way",
            value="head",
            levels=once,
            limit=LEAST_ESS,
        )


def _seen_labels(label_nm: npt.NDArray[Any]) -> set[int]:
    """Return the labels that some images have and others lack."""
    return set(np.flatnonzero((label_nm == 1).any(axis=0) & (label_nm == 0).any(axis=0)).tolist())


def _worth(data: TrainingData, is_used_n: Any = 1.0) -> float:
    """Return how many equally weighted units the images are worth."""
    return effective_size(np.bincount(data.unit, weights=data.weight * is_used_n).astype(float))


def finish_network(
    network: Any,
    kept: Mapping[str, Any],
    run: TrainingRun,
    judged: Mapping[str, DeviceRows],
    layer: LastLayer | None,
    start: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Finish a trained network, and return what its file says of that.

    ``kept`` are the tensors of the epoch that is kept, ``start`` those that training started from,
    with a probe as ``layer``, the last one; ``network`` gets an average of the two.
    """
    network.load_state_dict(kept)
    way, calibration = way_of(run.tau), after_training(run.recipe)
    validation, refitted, words, share = judged.get("validation"), None, "", 1.0
    if start is not None:
        share, words = _average(network, start, kept, validation)
    reason = f"{way}: asked for{words}; its probabilities are as trained, not calibrated."
    reason = reason if run.recipe is None else AS_DEFINED.format(words=words)
    choice = WayChoice(way, None, reason)
    if run.refits and layer is not None:
        refitted, (choice, last) = layer, _refit(network, layer, run)
        calibration = calibration if last is None else last.to_dict()
    elif run.recipe is None and run.settings.way == "auto":
        words = f"half, in which auto trains networks{words}"
        if share > 0:
            refitted, words = _refit_all(network, run, validation, words)
        choice, calibration = _calibrate(network, validation, run.settings.seed, words)
        choice = replace(choice, refit="logit" if refitted else None)
    has_bias = refitted or (None if start is None else layer)
    return {
        "network": network.state_dict(),
        "choice": choice.to_dict(),
        "calibration": calibration,
        "last_layer": None if has_bias is None else has_bias.name,
    }


def fit_start(network: Any, layer: LastLayer, run: TrainingRun) -> Any:
    """Let the last layer be a probe of the training images as the network makes them; return it."""
    from unskew.learn.last_layer import put_last_layer, scaled_before

    data, rng = run.data, np.random.default_rng([run.settings.seed, 5])
    if len(data) > _START_FROM:
        data = data.take(np.sort(rng.choice(len(data), _START_FROM, replace=False)))
    is_free = run.recipe is None and run.settings.way == "auto"
    taus = tuple(TAUS.values()) if is_free else (run.tau,)
    rows = DeviceRows(data, next(network.parameters()).device)
    feature_nd, mean_d, divisor_d = scaled_before(network, layer, rows)
    probe = _tune(feature_nd, data, data.weight, run, taus).probe
    # A class or label that does not vary has an infinite intercept, and smoothing an infinite loss.
    intercept_m = np.clip(probe.intercept, -_SURE, _SURE)
    probe = replace(probe, intercept=intercept_m)
    return put_last_layer(network, layer, probe, mean_d, divisor_d)


def _tune(
    feature_nd: npt.NDArray[np.float32],
    data: TrainingData,
    weight_n: Floats,
    run: TrainingRun,
    taus: tuple[float, ...],
) -> LabelProbes | TunedProbe:
    """Tune a probe, or one for each label; that of a recipe is not calibrated."""
    options: dict[str, Any] = {"taus": taus, "unit_n": data.unit, "seed": run.settings.seed}
    options["calibrate"] = run.recipe is None
    if data.has_label_sets:
        return tune_label_probes(feature_nd, data.label, weight_n, data.classes, **options)
    return tune_probe(feature_nd, data.label, weight_n, len(data.classes), **options)


def _average(
    network: Any,
    start: Mapping[str, Any],
    end: Mapping[str, Any],
    validation: DeviceRows | None,
) -> tuple[float, str]:
    """Average the network between its start and its end (Wortsman et al. 2022): (share, words).

    The share of the way whose log loss on the validation images is smallest, after a temperature;
    without enough of them, all of it.
    """
    begun = ", its last layer begun as a probe"
    if validation is None or _worth(validation.data) < _ENOUGH_FOR_SCALE:
        return 1.0, begun
    losses = {}
    for share in _SHARES:
        network.load_state_dict(_between(start, end, share))
        losses[share] = _scaled_loss(logits_of(network, validation), validation.data)
    best = min(losses, key=losses.__getitem__)
    network.load_state_dict(_between(start, end, best))
    if best == 0.0:
        begun += ", and all as it began: no training was better on the validation images"
    elif best < 1.0:
        begun += f", kept {100 * best:.0f} % of the way from there to the end of training"
    return best, begun


def _between(start: Mapping[str, Any], end: Mapping[str, Any], share: float) -> dict[str, Any]:
    return {
        name: value + share * (end[name] - value) if value.is_floating_point() else end[name]
        for name, value in start.items()
    }


def _scaled_loss(logit_nm: Floats, data: TrainingData) -> float:
    """Compute the weighted log loss of classes after a temperature, of labels as it is."""
    weight_n = data.weight / data.weight.sum()
    if data.has_label_sets:
        known_nm = ~np.isnan(data.label)
        loss_nm = np.logaddexp(0.0, np.where(data.label == 1, -logit_nm, logit_nm))
        count_n = np.maximum(known_nm.sum(axis=1), 1)
        return float(weight_n @ (np.where(known_nm, loss_nm, 0.0).sum(axis=1) / count_n))
    return float(weight_n @ held_out_losses(logit_nm, data.label, data.weight))


def _refit(
    network: Any, layer: LastLayer, run: TrainingRun
) -> tuple[WayChoice, LogitCalibration | None]:
    """Refit the last layer: on images that the rest has not seen, or as a recipe says.

    Return the choice, and the part of its calibration that the layer cannot take over.
    """
    from unskew.learn.last_layer import find_last_layer, put_last_layer, scaled_before

    data, recipe = run.head or run.data, run.recipe
    # The factor may have been learned.
    layer = find_last_layer(network, data.X.shape[1:], len(data.classes)) or layer
    rows = DeviceRows(data, next(network.parameters()).device)
    feature_nd, mean_d, divisor_d = scaled_before(network, layer, rows)
    taus, weight_n = tuple(TAUS.values()), data.weight
    if recipe is not None:
        taus, weight_n = (0.0,), data.weight * recipe.class_weight(data.label)
    tuned = _tune(feature_nd, data, weight_n, run, taus)
    put_last_layer(network, layer, tuned.probe, mean_d, divisor_d)
    if recipe is not None:
        reason = "weights: the last layer is retrained, classes weighted to their target shares."
        return replace(tuned.choice, reason=reason), None
    reason = (
        f"head: the last layer is refitted on {len(data):,} images that the rest has not seen, "
        f"by {tuned.choice.reason}"
    )
    last = tuned.calibration.of_spread() if isinstance(tuned, TunedProbe) else None
    return replace(tuned.choice, way="head", refit=tuned.choice.way, reason=reason), last


def _refit_all(
    network: Any, run: TrainingRun, validation: DeviceRows | None, start: str
) -> tuple[LastLayer | None, str]:
    """Refit the last layer on all training images at τ = 1, and say so.

    The body has learned rare classes from weighted images, and their few images by heart; in a
    layer that counts each image once, with the class shares in its logits and a strong penalty,
    that does less harm (Kang et al. 2020 retrain a layer after a body without weights). Validation
    images may object: the layer stays if it is better by more than one standard error.
    """
    from unskew.learn.last_layer import find_last_layer, put_last_layer, scaled_before

    data = run.data
    if np.ptp(data.weight) <= _SAME * data.weight.max():
        return None, start
    layer = find_last_layer(network, data.X.shape[1:], len(data.classes))
    if layer is None:
        return None, f"{start} (this one does not end with a linear layer that could be refitted)"
    rows = DeviceRows(data, next(network.parameters()).device)
    feature_nd, mean_d, divisor_d = scaled_before(network, layer, rows)

    n_classes = 2 if data.has_label_sets else len(data.classes)
    ridge = ridge_of_refit(feature_nd, data.weight, n_classes)

    def fit(rows: Any, label_r: Ints) -> Probe:
        dialled = turn_dial(data.weight[rows], label_r, n_classes, 1.0)
        return dialled_probe(feature_nd[rows], label_r, dialled, ridge=ridge)

    if data.has_label_sets:
        size = feature_nd.shape[1]
        probe = fit_each_label(data.label, data.weight, size, lambda m, rows, y: fit(rows, y))
    else:
        probe = fit(slice(None), data.label)
    against = ""
    if validation is not None and _worth(validation.data) >= LEAST_ESS:
        gain = _gain_of_refit(
            network,
            layer,
            validation,
            lambda x_nd: probe.logits(((x_nd - mean_d) / divisor_d).astype(np.float32)),
        )
        points = f"{100 * gain.value:+.1f} ± {100 * gain.stderr:.1f} points"
        against = f" ({points} on the validation images)"
        if gain.value < -gain.stderr:
            return None, f"{start}; its last layer stays as trained: refitted, it is worse{against}"
    put_last_layer(network, layer, probe, mean_d, divisor_d)
    done = "then its last layer was refitted on all training images by logit"
    return layer, f"{start}; {done}{against}"


def ridge_of_refit(feature_nd: npt.NDArray[Any], weight_n: Floats, n_classes: int) -> float:
    """Compute c (1/M)(1 − 1/M) Σ_i w_i |x_i|²/Σ_i w_i, the penalty of a refitted layer.

    Without the constant c it is the trace of the Hessian of the mean log loss of M equally likely
    classes in the coefficients of one of them: the more classes, the less each one's images weigh.
    """
    square_n = np.einsum("nd,nd->n", feature_nd, feature_nd)
    curvature = (1.0 - 1.0 / n_classes) / n_classes * np.average(square_n, weights=weight_n)
    return max(_RIDGE_OF_ALL * float(curvature), _LEAST_RIDGE)


def _gain_of_refit(
    network: Any, layer: LastLayer, validation: DeviceRows, refitted: Callable[[Any], Floats]
) -> Estimate:
    """Return by how much a refitted layer is better, in weighted accuracy, than as trained."""
    from unskew.learn.last_layer import inputs_before

    data = validation.data
    own_n = hits_of(logits_of(network, validation), data.label)
    other_n = hits_of(refitted(inputs_before(network, layer, validation)), data.label)
    weight_n = data.weight / data.weight.sum()
    return plain_mean(weight_n, other_n - own_n, data.unit)


def hits_of(logit_nm: npt.NDArray[np.floating], label: npt.NDArray[Any]) -> Floats:
    """Return (n,) 1 where the class is right; of several labels the share of the known ones."""
    if label.ndim == 1:
        return np.asarray(logit_nm.argmax(axis=1) == label, dtype=np.float64)
    known_nm = ~np.isnan(label)
    right_n = (((logit_nm > 0) == (label == 1)) & known_nm).sum(axis=1)
    return np.asarray(right_n / np.maximum(known_nm.sum(axis=1), 1), dtype=np.float64)


def _calibrate(
    network: Any, validation: DeviceRows | None, seed: int, start: str
) -> tuple[WayChoice, dict[str, Any] | None]:
    """Calibrate on the validation images, if they are enough; ``start`` says what was trained."""
    if validation is None:
        reason = f"{start}; there are no validation images to calibrate its probabilities on."
        return WayChoice("half", None, reason), None
    data, ess = validation.data, _worth(validation.data)
    worth = f"are worth {ess:.0f} equally weighted ones, and"
    if ess < _ENOUGH_FOR_SCALE:
        need = f"calibration needs {_ENOUGH_FOR_SCALE:.0f}"
        reason = f"{start}; the validation images {worth} {need}."
        return WayChoice("half", None, reason), None
    logit_nm = logits_of(network, validation)
    if data.has_label_sets:
        return _calibrate_labels(logit_nm, data, start)
    if ess < LEAST_ESS:
        fitted = fit_logit_calibration(logit_nm, data.label, data.weight, biases=False)
        reason = (
            f"{start}; its probabilities are calibrated on the validation images, by one "
            f"temperature: these {worth} biases of the classes need {LEAST_ESS:.0f}."
        )
        return WayChoice("half", None, reason, ess=ess), fitted.to_dict()
    calibration, gain = choose_calibration(logit_nm, data.label, data.weight, data.unit, seed=seed)
    words = ("with", "gain") if calibration.bias.any() else ("without", "would gain")
    reason = (
        f"{start}; its probabilities are calibrated on the validation images, {words[0]} biases "
        f"and a slope of the classes, which {words[1]} {100 * gain.value:+.1f} ± "
        f"{100 * gain.stderr:.1f} points."
    )
    return WayChoice("half", None, reason, ess=ess), calibration.to_dict()


def _calibrate_labels(
    logit_nm: Floats, data: TrainingData, start: str
) -> tuple[WayChoice, dict[str, Any]]:
    """Calibrate each label on the validation images of which it is known.

    Always with a bias: most labels are rare, and a temperature alone would move their share.
    """
    each, n_moved, unit_n = [LogitCalibration(1.0, np.zeros(2))] * len(data.classes), 0, data.unit
    for m, label_n in enumerate(data.label.T):
        rows = np.flatnonzero(~np.isnan(label_n) & np.isfinite(logit_nm[:, m]))
        label_r, weight_r, unit_r = label_n[rows].astype(np.int64), data.weight[rows], unit_n[rows]
        parts = [weight_r[label_r == own] for own in (0, 1)]
        if min(effective_size(part) if part.size else 0.0 for part in parts) < _ENOUGH_FOR_SCALE:
            continue
        each[m] = fit_logit_calibration(two_logits(logit_nm[rows, m]), label_r, weight_r, unit_r)
        n_moved += 1
    reason = (
        f"{start}; the probabilities of {n_moved} of {len(each)} labels are calibrated on the "
        f"validation images; others are had, or lacked, by fewer than {_ENOUGH_FOR_SCALE:.0f} "
        "effective ones."
        if n_moved < len(each)
        else f"{start}; the probabilities of all labels are calibrated on the validation images."
    )
    choice = WayChoice("half", None, reason, ess=_worth(data))
    return choice, LogitCalibration.of_labels(each).to_dict()


def logits_of(network: Any, rows: DeviceRows) -> Floats:
    """Compute the (n, M) logits of all rows."""
    import torch

    network.eval()
    size = rows_at_once(rows.data.X.shape[1:])
    with torch.inference_mode():
        parts = [
            network(rows.take(np.arange(start, min(start + size, len(rows))))[0]).double().cpu()
            for start in range(0, len(rows), size)
        ]
    return np.concatenate([part.numpy() for part in parts])


def judge_rows(network: Any, rows: DeviceRows, fabric: Any = None) -> dict[str, float]:
    """Measure loss and accuracy under the weights, Σ_i w_i ℓ_i/Σ_i w_i, and accuracy without.

    Of several labels both are over all labels that are known of the images. Each process judges its
    share.
    """
    import torch

    rank, n_processes = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
    mine = np.arange(rank, len(rows), n_processes)
    size = rows_at_once(rows.data.X.shape[1:])
    sums = torch.zeros(5, dtype=torch.float64, device=rows.device)
    network.eval()
    with torch.inference_mode(), nullcontext() if fabric is None else fabric.autocast():
        for start in range(0, mine.size, size):
            part = mine[start : start + size]
            images, label = rows.take(part)
            logits = network(images).double()
            weight = rows.weight(part)
            if rows.data.has_label_sets:
                known, is_present = ~torch.isnan(label), label == 1
                weight = weight[:, None].expand(logits.shape)[known]
                loss = torch.nn.functional.softplus(torch.where(is_present, -logits, logits))[known]
                hit = ((logits > 0) == is_present).double()[known]
            else:
                loss = torch.nn.functional.cross_entropy(logits, label, reduction="none")
                hit = (logits.argmax(1) == label).double()
            sums += torch.stack(
                [
                    (weight * loss).sum(),
                    (weight * hit).sum(),
                    weight.sum(),
                    hit.sum(),
                    torch.ones_like(hit).sum(),
                ]
            )
    if fabric is not None:
        sums = fabric.all_reduce(sums, reduce_op="sum")
    lost, right, weight_sum, hits, count = sums.tolist()
    return {
        "loss": lost / weight_sum,
        "accuracy": right / weight_sum,
        "accuracy_unweighted": hits / count,
    }
