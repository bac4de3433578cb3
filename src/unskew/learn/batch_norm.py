"""Batch normalisation after weighted training: statistics of the target, not of the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from unskew.engine.arguments import checked
from unskew.errors import DataError

if TYPE_CHECKING:
    import torch


@checked
def update_batch_norm(
    model: torch.nn.Module, batches: Iterable[Any], *, inputs: Callable[[Any], Any] | None = None
) -> None:
    """Estimate the running means and variances of batch normalisation on a weighted sample.

    A weighted *loss* changes what the parameters learn, but not what the layers see: during
    training their running statistics average over the pool as it is, with all its bias, and
    evaluation would normalise by these. So before evaluation the images are drawn once more by
    their weights, and the statistics are the averages over these batches, each counted by its size.
    Where a `WeightedSampler` drew the images of training, the statistics are right already; this
    then only makes them sharper. Parameters do not change; other layers (dropout) are in evaluation
    mode meanwhile; every layer's mode is restored. Under torch.distributed the processes'
    statistics are averaged.

    Parameters
    ----------
    model : a network; without batch normalisation nothing is done.
    batches : batches drawn by weight, on the device of the model: a DataLoader whose sampler is a
        `WeightedSampler`.
    inputs : batch → what the model is called with. Default: the batch, or its first part where it
        is a tuple or list.
    """
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.parallel import DistributedDataParallel

    if isinstance(model, DistributedDataParallel):
        # The wrapper would overwrite the statistics of all processes by those of the first.
        model = model.module
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, _BatchNorm) and layer.track_running_stats
    ]
    if not layers:
        return
    modes = [(module, module.training) for module in model.modules()]
    momenta = [layer.momentum for layer in layers]
    try:
        model.eval()
        for layer in layers:
            layer.reset_running_stats()
            layer.train()
        _run_through(model, layers, batches, inputs or _first_part)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for module, training in modes:
            module.training = training
    _average_over_processes(layers)


def fix_batch_norm(model: torch.nn.Module) -> None:
    """Let layers of batch normalisation use their running statistics, and keep them."""
    from torch.nn.modules.batchnorm import _BatchNorm

    for layer in model.modules():
        if isinstance(layer, _BatchNorm) and layer.track_running_stats:
            layer.eval()


def _run_through(
    model: torch.nn.Module, layers: list[Any], batches: Iterable[Any], inputs: Callable[[Any], Any]
) -> None:
    import torch

    seen = 0
    with torch.no_grad():
        for batch in batches:
            images = inputs(batch)
            size = len(images)
            seen += size
            for layer in layers:
                # The running average becomes the mean over all images so far.
                layer.momentum = size / seen
            model(images)
    if not seen:
        raise DataError(
            "there was not a single batch to estimate the statistics of batch normalisation on. "
            "Was the loader used up?",
            option="batches",
            count=0,
        )


def _first_part(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple | list) else batch


def _average_over_processes(layers: list[Any]) -> None:
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return
    n_processes = distributed.get_world_size()
    for layer in layers:
        for statistic in (layer.running_mean, layer.running_var):
            distributed.all_reduce(statistic)
            statistic /= n_processes
