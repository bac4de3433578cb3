"""Two sources of 40 images each: one that selects everything, one that leaves a quarter out."""

import numpy as np

OMEGA = np.repeat([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], 20, axis=0)


SOURCE = np.repeat(["all", "half"], 40)
