"""What the methods of `Weights` compute: the one module that the record imports."""

from unskew.weigh.agreement import compare_sources
from unskew.weigh.bootstrap import Bootstrap, bootstrap_weights
from unskew.weigh.doubly_robust import doubly_robust_mean
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
    "compare_sources",
    "diagnose_weights",
    "doubly_robust_mean",
    "log_normalizer_covariance",
    "make_weights_frame",
    "weigh_new_images",
    "weighted_mean",
    "write_weights",
]
