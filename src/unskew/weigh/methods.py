"""What the methods of `Weights` compute: the one module that the record imports."""

from unskew.weigh.agreement import compare_sources as compare_sources
from unskew.weigh.bootstrap import Bootstrap as Bootstrap
from unskew.weigh.bootstrap import bootstrap_weights as bootstrap_weights
from unskew.weigh.doubly_robust import doubly_robust_mean as doubly_robust_mean
from unskew.weigh.effective_size import Diagnosis as Diagnosis
from unskew.weigh.effective_size import diagnose_weights as diagnose_weights
from unskew.weigh.new_images import weigh_new_images as weigh_new_images
from unskew.weigh.sensitivity import Sensitivity as Sensitivity
from unskew.weigh.sensitivity import bound_weights_mean as bound_weights_mean
from unskew.weigh.solved_weights import align_weights as align_weights
from unskew.weigh.uncertainty import log_normalizer_covariance as log_normalizer_covariance
from unskew.weigh.uncertainty import weighted_mean as weighted_mean
from unskew.weigh.weights_table import make_weights_frame as make_weights_frame
from unskew.weigh.weights_table import write_weights as write_weights
