# %% [markdown]
# # Class imbalance across sites of unequal size
#
# See when weights are nothing but `class_weight="balanced"`, and when that is not enough: sites of unequal size that differ in more than
# their classes.
#
# Three sites photograph handwritten digits: 900, 250 and 60 images. Each shows mostly some of the digits. Where the model will be used, all
# digits are equally frequent.

# %%
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

import unskew

image, digit = load_digits(return_X_y=True)
image = image / 16
SITES, SIZES = ["city", "village", "island"], [900, 250, 60]
ODDS = np.array(
    [
        [9, 9, 9, 9, 1, 1, 1, 1, 0.3, 0.3],
        [1, 1, 1, 1, 6, 6, 6, 6, 1, 1],
        [1, 1, 1, 1, 1, 1, 1, 1, 9, 9],
    ]
)
# The share of images that a site takes in dim light; half of the population's images are dim.
DIM = [0.1, 0.5, 0.9]


def draw(seed, in_light):
    """Draw the sites' images and 1,000 test images; ``in_light``: sites also differ in light."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    test, rest = order[:500], order[500:]
    row = np.concatenate(
        [
            rng.choice(rest, size, p=odds[digit[rest]] / odds[digit[rest]].sum())
            for odds, size in zip(ODDS, SIZES, strict=True)
        ]
    )
    dim = rng.random(row.size) < (np.repeat(DIM, SIZES) if in_light else 0.5)

    def shoot(row, dim):
        faint = np.where(dim, 0.35, 1.0)[:, None]
        return image[row] * faint + rng.normal(0, 0.15, (row.size, 64))

    twice, half = np.tile(test, 2), np.repeat([False, True], test.size)
    return shoot(row, dim), digit[row], dim, shoot(twice, half), digit[twice]


source = np.repeat(SITES, SIZES)
X, y, dim, test_X, test_y = draw(0, in_light=False)
pd.crosstab(source, y, rownames=["site"], colnames=["digit"])

# %% [markdown]
# ## The same as class weights
#
# If the sites differ only in their classes, and all classes shall count alike, weights for the pool are the balanced class weights. The
# sites do not matter.

# %%
pool = unskew.Pool.from_arrays(source, label=y.astype(str))
weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
balanced = compute_sample_weight("balanced", y)
print("largest difference:", np.abs(weights.sample_weight - balanced).max().round(12))
print(f"{y.size} images are worth {weights.ess:.0f}")

# %% [markdown]
# Even then there is something to learn from the pool: what the images are worth, an error bar on any mean, and whether the sites agree
# with one another.
#
# ## More than class weights
#
# Now the sites also differ in light: the city photographs in daylight, the island mostly in the dark. Class weights do not see that. Name
# both attributes, and say what you know about the target: equal digits, half of them dim.

# %%
shares = pd.DataFrame(
    [(str(d), light, 0.05) for d in range(10) for light in ("normal", "dim")],
    columns=["label", "light", "share"],
)
target = unskew.Target.table(shares, uncovered="restrict")


def score(X, y, test_X, test_y, sample_weight=None):
    """Accuracy in percent: all test images, and those of the second half, which are dim."""
    right = LogisticRegression(max_iter=300).fit(X, y, sample_weight).predict(test_X) == test_y
    return 100 * right.mean(), 100 * right[right.size // 2 :].mean()


def compare(in_light, seeds=range(8)):
    """Accuracies of three trainings for each draw: (draws, 3, 2)."""
    scores = []
    for seed in seeds:
        X, y, dim, test_X, test_y = draw(seed, in_light)
        light = np.where(dim, "dim", "normal")
        pool = unskew.Pool.from_arrays(source, label=y.astype(str), light=light)
        weights = unskew.debias(pool, unskew.bias.Strata(["label", "light"]), target)
        arms = [None, compute_sample_weight("balanced", y), weights.sample_weight]
        scores.append([score(X, y, test_X, test_y, arm) for arm in arms])
    return np.array(scores)


ARMS = ["naive", "class weights", "digit x light"]
results = {}
for in_light in (False, True):
    results[in_light] = compare(in_light)
    print("Sites differ in", "digits and light" if in_light else "digits only")
    print(pd.DataFrame(results[in_light].mean(axis=0).round(1), ARMS, ["all", "dim"]))
    gap = results[in_light][:, 2, 0] - results[in_light][:, 1, 0]
    print(f"digit x light - class weights: {gap.mean():+.1f} ± {gap.std(ddof=1) / 8**0.5:.1f}\n")

# %%
# Accuracy where sites differ in digits only, and in digits and light
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, sharey=True)
for axis, (in_light, scores) in zip(axes, results.items(), strict=True):
    mean, error = scores[:, :, 0].mean(axis=0), scores[:, :, 0].std(axis=0, ddof=1) / 8**0.5
    axis.bar(ARMS, mean, yerr=error, color=["0.8", "0.6", "C0"])
    axis.set_ylim(mean.min() - 8, None)
    axis.set_title("digits and light differ" if in_light else "only digits differ")
    axis.tick_params(axis="x", labelsize=8)
axes[0].set_ylabel("accuracy in %")
figure.tight_layout()

# %% [markdown]
# Where only the digits differ, use class weights: naming the light as well makes more strata, and gains nothing. Where light differs, too,
# class weights are worse than nothing here: the rare digits come from the island and the village, and giving them more weight also changes
# the light. Weights by digit and light gain over both, but less than class weights did in the first case. And they gain on all images
# together, not on the dim ones: naive pooling is better there.
#
# **Next.** Weighting is not the only way to learn from class shares: [Train and choose the way](train-and-choose.md).
