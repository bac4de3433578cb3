# %% [markdown]
# # A small unlabelled target sample
#
# Use some images from the place where the model will be used, without labels, as the target: estimate its class shares, weigh the pool, and
# see how many images that takes.
#
# A web archive and a phone app show digits in different proportions. Where the model will be used, high digits are more frequent, but nobody
# counted: there are only images. Within a digit, images look alike everywhere. That is *label shift*, and `ClassShift` assumes it.

# %%
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import unskew

image, digit = load_digits(return_X_y=True)
image = image / 16
SHARES = {
    "web": np.array([4, 4, 4, 3, 2, 1, 1, 0.5, 0.5, 0.5]),
    "phone": np.array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1.0]),
    "target": np.array([0.5, 0.5, 0.5, 1, 1, 2, 3, 4, 4, 4]),
}
SHARES = {name: share / share.sum() for name, share in SHARES.items()}


def take(rows, name, size, rng):
    """Draw images whose digits have the shares of this database."""
    count = np.bincount(digit[rows], minlength=10)
    chance = (SHARES[name] / count)[digit[rows]]
    return rng.choice(rows, size, p=chance / chance.sum())


def draw(seed, n_target):
    """Databases of 700 and 200 images, a sample of the target, and 500 images to test on."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    train = np.concatenate(
        [take(order[:900], "web", 700, rng), take(order[:900], "phone", 200, rng)]
    )
    return (
        train,
        take(order[900:1300], "target", n_target, rng),
        take(order[1300:], "target", 500, rng),
    )


train, sample, test = draw(0, 200)
pool = unskew.Pool.from_arrays(
    np.repeat(["web", "phone"], [700, 200]), label=digit[train].astype(str), pixels=image[train]
)
target = unskew.Target.sample(
    unskew.Pool.from_arrays(np.repeat("field", sample.size), pixels=image[sample])
)
weights = unskew.debias(pool, unskew.bias.ClassShift(["pixels"]), target)
print(weights.describe())

# %% [markdown]
# The sample has no labels, yet the weighted pool shows which shares it has. Compare with the truth:

# %%
estimated = {d: weights.mean(digit[train] == d) for d in range(10)}
table = pd.DataFrame(
    {
        "as pooled": [np.mean(digit[train] == d) for d in range(10)],
        "weighted": [estimated[d].value for d in range(10)],
        "± stderr": [estimated[d].stderr for d in range(10)],
        "truth": SHARES["target"],
    }
)
table.round(3)

# %%
# Shares of the digits: as pooled, estimated from 200 unlabelled images, and the truth
import matplotlib.pyplot as plt

figure, axis = plt.subplots()
axis.bar(np.arange(10) - 0.2, table["as pooled"], 0.4, color="0.8", label="as pooled")
axis.bar(np.arange(10) + 0.2, table["weighted"], 0.4, yerr=table["± stderr"], label="weighted")
axis.plot(np.arange(10) + 0.2, table["truth"], "k_", markersize=14, label="truth")
axis.set_xticks(range(10))
axis.set_xlabel("digit")
axis.set_ylabel("share")
axis.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## How many images of the target?
#
# Accuracy on the target over five draws of everything, with the true shares as the best that can be hoped for.


# %%
def accuracy(train, test, sample_weight=None):
    model = LogisticRegression(max_iter=300).fit(image[train], digit[train], sample_weight)
    return 100 * model.score(image[test], digit[test])


rows = []
for seed in range(5):
    for n_target in (30, 100, 300):
        train, sample, test = draw(seed, n_target)
        pool = unskew.Pool.from_arrays(
            np.repeat(["web", "phone"], [700, 200]),
            label=digit[train].astype(str),
            pixels=image[train],
        )
        target = unskew.Target.sample(
            unskew.Pool.from_arrays(np.repeat("field", n_target), pixels=image[sample])
        )
        weights = unskew.debias(
            pool, unskew.bias.ClassShift(["pixels"]), target, check_sample=False
        )
        pooled = np.bincount(digit[train], minlength=10) / train.size
        rows.append(
            {
                "images": n_target,
                "naive": accuracy(train, test),
                "weighted": accuracy(train, test, weights.sample_weight),
                "true shares": accuracy(train, test, (SHARES["target"] / pooled)[digit[train]]),
            }
        )
scores = pd.DataFrame(rows)
scores["gain"] = scores["weighted"] - scores["naive"]
print(scores.groupby("images").mean().round(1))
print("standard error of the gain:", scores.groupby("images")["gain"].sem().round(1).to_dict())

# %% [markdown]
# With 30 images of the target the weights gain nothing here: ten shares estimated from 30 images are too uncertain. From 100 on they do.
# Compare the columns *weighted* and *true shares*: what is missing between them is the price of estimating the shares from so few images.
#
# ## When this is wrong
#
# `ClassShift` is wrong if images of one digit look different in the target: other light, other cameras. Then `ClassTilt` also tilts images
# within a class, and `Tilt` follows the features alone. Where you do not know, name no model: [`choose_bias`](../nothing-but-images.md)
# compares them on your images. unskew also trains a classifier to tell the target's images from the weighted pool, and says if it can.
