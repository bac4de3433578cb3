"""What the methods of `Weights` compute: the one module that the record imports.

Each function is fetched from its home when it is first asked for, so that importing this costs
nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.weigh.bootstrap import Bootstrap, bootstrap_weights
    from unskew.weigh.effective_size import Diagnosis, diagnose_weights
    from unskew.weigh.new_images import weigh_new_images
    from unskew.weigh.sensitivity import Sensitivity, bound_weights_mean
    from unskew.weigh.solved_weights import align_weights
    from unskew.weigh.uncertainty import log_normalizer_covariance, weighted_mean
    from unskew.weigh.weights_table import make_weights_frame, write_weights

__all__ = [
    "Bootstrap",
    "Diagnosis",
    "Sensitivity",
    "align_weights",
    "bootstrap_weights",
    "bound_weights_mean",
    "diagnose_weights",
    "log_normalizer_covariance",
    "make_weights_frame",
    "weigh_new_images",
    "weighted_mean",
    "write_weights",
]

_HOME = {
    "Bootstrap": "bootstrap",
    "bootstrap_weights": "bootstrap",
    "Diagnosis": "effective_size",
    "diagnose_weights": "effective_size",
    "weigh_new_images": "new_images",
    "Sensitivity": "sensitivity",
    "bound_weights_mean": "sensitivity",
    "align_weights": "solved_weights",
    "log_normalizer_covariance": "uncertainty",
    "weighted_mean": "uncertainty",
    "make_weights_frame": "weights_table",
    "write_weights": "weights_table",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"unskew.weigh.{_HOME[name]}"), name)
    globals()[name] = value
    return value
