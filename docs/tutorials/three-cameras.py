# %% [markdown]
# # Three cameras, one population
#
# Learn the whole way in ten minutes: pool three biased databases, ask whether they can be debiased, weigh the images, train with the
# weights, and see what that gained.
#
# Three cameras photograph handwritten digits. Each sees some digits more often than others. The model will be used where all ten digits
# are equally frequent. The images are scikit-learn's, so nothing is downloaded, and the truth is known.

# %%
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import unskew

X, digit = load_digits(return_X_y=True)
X = X / 16
CAMERAS = ["archive", "counter", "survey"]
# How readily each camera takes the digits 0 … 9.
ODDS = np.array(
    [
        [20, 0, 20, 1, 20, 20, 20, 20, 0, 0],
        [1, 6, 1, 6, 1, 1, 1, 1, 1, 1],
        [1, 6, 1, 1, 1, 1, 1, 1, 6, 6],
    ]
)


def draw(seed):
    """Hold out 600 images for the test; let the cameras draw from the rest."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    test, rest = order[:600], order[600:]
    rows = [
        rng.choice(rest, size, p=odds[digit[rest]] / odds[digit[rest]].sum())
        for odds, size in zip(ODDS, (800, 150, 80), strict=True)
    ]
    return np.concatenate(rows), np.repeat(CAMERAS, [800, 150, 80]), test


row, camera, test = draw(0)
pd.crosstab(camera, digit[row])

# %% [markdown]
# The archive is large, and shows no 1, 8 or 9. Put the images into a pool: an id for each photographed image (`group`), its source, its
# label. Two photographs of one image are not independent, so they are one group.

# %%
pool = unskew.Pool.from_arrays(camera, label=digit[row].astype(str), group=row.astype(str))
target = unskew.Target.uniform("label")
bias = unskew.bias.Strata("label")
weights = unskew.debias(pool, bias, target)
print(weights.overlap.verdict)
print(f"{len(row)} images are worth {weights.ess:.0f}")
print(weights.sample_weight.round(2)[:5], "… largest", weights.sample_weight.max().round(1))

# %% [markdown]
# `Strata("label")` says: within one digit, a camera takes images at random. `Target.uniform("label")` says what the population looks like.
# The weights have a price, and it is printed: so many images with unequal weights are worth so few equally weighted ones.
#
# What do the weights assume, and what can the images not tell?

# %%
print(weights.describe())

# %% [markdown]
# Any mean over the target now has an error bar. How much ink does a digit have on average? The truth is known here.

# %%
ink = X[row].mean(axis=1)
truth = np.mean([X[digit == d].mean() for d in range(10)])
print(f"pool {ink.mean():.4f}, weighted {weights.mean(ink)}")
print(f"truth {truth:.4f}")

# %% [markdown]
# ## Train with the weights
#
# `sample_weight` goes into any estimator that takes weights. The test images show all digits equally often.


# %%
def accuracy(row, test, sample_weight=None):
    """Accuracy on the test images in percent: of all digits, and of the worst one."""
    model = LogisticRegression(max_iter=500).fit(X[row], digit[row], sample_weight)
    right = model.predict(X[test]) == digit[test]
    by_digit = [right[digit[test] == d].mean() for d in range(10)]
    return 100 * np.mean(by_digit), 100 * min(by_digit)


scores = []
for seed in range(10):
    row, camera, test = draw(seed)
    pool = unskew.Pool.from_arrays(camera, label=digit[row].astype(str))
    sample_weight = unskew.debias(pool, bias, target).sample_weight
    fair = np.random.default_rng(seed).choice(np.setdiff1d(np.arange(digit.size), test), row.size)
    scores.append([accuracy(row, test), accuracy(row, test, sample_weight), accuracy(fair, test)])
scores = np.array(scores)
table = pd.DataFrame(
    scores.mean(axis=0), ["naive pooling", "weighted", "unbiased sample"], ["all", "worst digit"]
)
print(table.round(1))
gain = scores[:, 1] - scores[:, 0]
print("gain", gain.mean(axis=0).round(1), "±", (gain.std(axis=0, ddof=1) / 10**0.5).round(1))

# %%
# Accuracy of ten draws of the databases: naive pooling, weighted, unbiased sample
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2)
for axis, column, title in zip(axes, range(2), ["all digits", "worst digit"], strict=True):
    axis.plot(range(3), scores[:, :, column].T, "o-", color="0.8", markersize=3)
    axis.plot(range(3), scores[:, :, column].mean(axis=0), "o-", color="C0")
    axis.set_xticks(range(3), ["naive", "weighted", "unbiased"])
    axis.set_title(title)
axes[0].set_ylabel("accuracy in %")
figure.tight_layout()

# %% [markdown]
# The weights help the rare digits most. They do not reach an unbiased sample of the same size: no weight brings back the variety of images
# that were never collected.
#
# **Next.** The same from folders of images, on the command line: [Five minutes](../start.md). For two known margins instead of equal
# shares: [You only know margins](margins.md).
