"""`SoftBox`: 1 in a box, falling off around it.

- ``fit``: soft boxes by maximum likelihood of the source labels.
- ``kernels_boxes``: compiled loops over images behind soft boxes: masses, and the gain of one edge.
- ``kernels_likelihood``: the compiled likelihood of source labels under soft boxes, with its
  gradient.
- ``likelihood``: the likelihood of the source labels under soft boxes, and its ascent by damped
  Fisher scoring.
- ``model``: biasing functions that are 1 in a box of features and fall off linearly around it.
- ``permutation``: do the sources differ in these features at all? A permutation test against
  constant ω.
- ``plain_boxes``: distances of images to soft boxes, ω, and the gain of one edge.
- ``plain_likelihood``: the likelihood of source labels under soft boxes in plain NumPy, and its
  Fisher information.
- ``search``: where the search for soft boxes starts, and which edges it opens and closes.
"""
