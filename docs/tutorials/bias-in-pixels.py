# %% [markdown]
# # The bias is in the pixels
#
# Correct databases that select by how an image looks, not by a column of a table: turn images into numbers, choose a bias model, test it, and
# compare the result with the truth.
#
# Three cameras photograph digits at all hours. `day` fires more readily in bright light, `night` in the dark, and `patrol` is a person who
# takes few pictures, but without preference. Low digits are more frequent by day. What is the share of low digits, and how bright is the
# world?

# %%
import numpy as np
from sklearn.datasets import load_digits

import unskew

image, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)


def photograph(row, light):
    """Make a picture of 32 × 32 pixels with 8 bits: a digit on a background as bright as the light."""
    ink = np.kron(image[row].reshape(8, 8) / 16, np.ones((4, 4)))
    pixels = light * (1 - 0.7 * ink) + rng.normal(0, 0.02, (32, 32))
    return np.repeat((255 * pixels.clip(0, 1)).astype(np.uint8)[:, :, None], 3, axis=2)


def world(n):
    """Draw digits and light: low digits are brighter."""
    row = rng.integers(digit.size, size=n)
    return row, rng.beta(2 + 2 * (digit[row] < 5), 3, n) * 0.8 + 0.15


PREFERS = {"day": 9.0, "night": -9.0, "patrol": 0.0}
SIZES = {"day": 1700, "night": 300, "patrol": 120}
rows, lights = [], []
for name, size in SIZES.items():
    row, light = world(60_000)
    chance = np.exp(PREFERS[name] * light)
    chosen = rng.choice(row.size, size, replace=False, p=chance / chance.sum())
    rows.append(row[chosen])
    lights.append(light[chosen])
row, light = np.concatenate(rows), np.concatenate(lights)
source = np.repeat(list(SIZES), list(SIZES.values()))
pictures = np.stack([photograph(r, each) for r, each in zip(row, light, strict=True)])

# %%
# Twelve pictures of each camera
import matplotlib.pyplot as plt

figure, axes = plt.subplots(3, 12, figsize=(6.8, 2.5))
for line, name in zip(axes, SIZES, strict=True):
    for axis, at in zip(line, np.flatnonzero(source == name)[:12], strict=True):
        axis.imshow(pictures[at])
        axis.axis("off")
    line[0].set_title(name, loc="left", fontsize=8)

# %% [markdown]
# ## An image as a few numbers
#
# `represent_images` computes properties of each image and adds them to the pool as columns. Nobody told it how bright the light was.

# %%
pool = unskew.Pool.from_arrays(
    source, label=np.where(digit[row] < 5, "low", "high"), images=pictures
)
pool = unskew.represent_images(pool, ["brightness", "contrast"])
print(pool.frame.groupby("source")[["brightness", "contrast"]].mean().round(3))

# %% [markdown]
# ## Which bias model?
#
# What is known: `patrol` is unbiased, so it is the target. How the others select has to be estimated. Name the candidates that make sense,
# and compare them on the images.

# %%
from unskew.bias import Strata, Tilt

target = unskew.Target.source("patrol")
candidates = [
    Strata("label"),
    Tilt(["brightness"]),
    Tilt(["brightness"], degree=2),
    Tilt(["contrast"]),
]
choice = unskew.choose_bias(pool, candidates, target)
print(choice.table.iloc[:, :3].round(3))
print(choice.reason)

# %% [markdown]
# The test below asks whether each camera looks as the model expects. A small p-value would mean that the model is wrong somewhere.

# %%
weights = unskew.debias(pool, choice.best, target)
fit = unskew.check_fit(pool, choice.best, target, weights=weights)
print(fit.message)

# %% [markdown]
# ## What is gained
#
# The patrol alone would also give an unbiased answer, from 120 images. The weights add what the other cameras know.

# %%
patrol = source == "patrol"
true_row, true_light = world(400_000)
low, bright = digit[row] < 5, pool.frame["brightness"].to_numpy()
for name, values in (("share of low digits", low), ("brightness", bright)):
    alone = values[patrol]
    print(name)
    print(f"  as pooled    {values.mean():.3f}")
    print(f"  patrol alone {alone.mean():.3f} ± {alone.std(ddof=1) / alone.size**0.5:.3f}")
    print(f"  weighted     {weights.mean(values)}")
print(f"truth: share of low digits {np.mean(digit[true_row] < 5):.3f}")
print(f"{row.size} images are worth {weights.ess:.0f}")

# %%
# Brightness of the pool, of the weighted pool, and of the truth
figure, axis = plt.subplots(figsize=(6.8, 2.8))
edges = np.linspace(bright.min(), bright.max(), 26)
truth = np.array(
    [photograph(r, each).mean() / 255 for r, each in zip(true_row[:4000], true_light, strict=False)]
)
axis.hist(bright, edges, density=True, color="0.85", label="as pooled")
axis.hist(bright, edges, weights=weights.weight, density=True, histtype="step", label="weighted")
axis.hist(truth, edges, density=True, histtype="step", color="k", linestyle=":", label="truth")
axis.set_xlabel("brightness of an image")
axis.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# Compare the error bars of *patrol alone* and *weighted* for each mean: for a mean that has little to do with the selection the other
# cameras help most. For the brightness itself, on which the bias model is fitted, the patrol's 120 images decide, and the error stays.
#
# **Next.** Your own formula for the selection: [Your own bias model](../your-own-bias.md). Features from a neural network:
# [Embedding](../embedding.md).
