"""Networks that come with unskew.

- ``backbone``: a pretrained network under a new last layer, and what its inputs are scaled by.
- ``fast_network``: a small network that learns much in few passes: minutes on a CPU.
- ``resnet``: the residual networks for small images of He et al. (2016), section 4.2.
"""
