"""A classifier without a bias model, and unlabelled images of the target: one is chosen."""

from __future__ import annotations

import numpy as np
import pandas as pd

from raising import refused
from unlabelled_targets import ANIMALS, draw_images, make_pool
from unskew import ConfigError, DataError, DebiasedClassifier, Pool, Target
from unskew.bias import Strata


def test_label_shift_is_found_and_undone() -> None:
    rng = np.random.default_rng(0)
    label_n, x_nd = draw_images(rng, 900, [0.7, 0.25, 0.05])
    label_m, x_md = draw_images(rng, 250, [0.1, 0.3, 0.6])
    target = Target.sample(make_pool(x_md, ["t"] * 250))
    source = np.repeat(["a", "b", "c"], 300)
    model = DebiasedClassifier(target=target).fit(x_nd, ANIMALS[label_n], source=source)
    assert model.weights_.estimation.fitted.model == Strata("label")
    mass = model.weights_.weight[label_n == 2].sum()
    assert abs(mass - np.mean(label_m == 2)) < 0.06  # two standard errors of 250 images


def test_without_a_common_column_nothing_can_be_chosen() -> None:
    frame = pd.DataFrame({"brightness": np.arange(40.0)})
    label = np.repeat(["cat", "dog"], 20)
    sample = Pool.from_arrays(["t"] * 5, contrast=np.arange(5.0))
    with refused(DataError):
        DebiasedClassifier(target=Target.sample(sample)).fit(frame, label)


def test_a_target_that_is_none_is_refused() -> None:
    with refused(ConfigError, option="target"):
        DebiasedClassifier(target="the target").fit(np.ones((4, 1)), [0, 1, 0, 1])
