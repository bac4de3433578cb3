# %% [markdown]
# # In which ratio do I mix two databases?
#
# Compare a sweep over mixing ratios with weights computed beforehand: see what a sweep costs, where the weights fall on its curve, and what
# a ratio cannot do.
#
# Two databases of handwritten digits: `forms` are scanned in good light and show mostly low digits; `meters` are photographed in dim light
# and show mostly high ones. Where the model will be used, all digits are equally frequent, and half of the images are dim.

# %%
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import unskew

image, digit = load_digits(return_X_y=True)
image = image / 16


def shoot(row, dim, rng):
    """Photograph images: what is dim is faint, and every photograph is noisy."""
    return image[row] * np.where(dim, 0.35, 1.0)[:, None] + rng.normal(0, 0.15, (row.size, 64))


def draw(seed):
    """Draw 900 forms and 300 meters, and 1,200 test images of other handwritings."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    test, rest = order[:600], order[600:]
    rows, dims = [], []
    for size, slope, dim_share in ((900, -0.4, 0.1), (300, 0.4, 0.9)):
        chance = np.exp(slope * digit[rest])
        rows.append(rng.choice(rest, size, p=chance / chance.sum()))
        dims.append(rng.random(size) < dim_share)
    row, dim = np.concatenate(rows), np.concatenate(dims)
    twice, half = np.tile(test, 2), np.repeat([False, True], test.size)
    return (
        (shoot(row, dim, rng), digit[row], dim),
        np.repeat(["forms", "meters"], [900, 300]),
        (shoot(twice, half, rng), digit[twice]),
    )


# %% [markdown]
# ## The sweep
#
# At a ratio of r the forms get the share r of the total weight. Each ratio is one training. Pooling as it is means r = 0.75, because three
# in four images are forms.


# %%
def accuracy(train, test, sample_weight):
    """Accuracy in percent on images of the target."""
    model = LogisticRegression(max_iter=300).fit(train[0], train[1], sample_weight)
    return 100 * model.score(*test)


def at_ratio(source, r):
    """Weights of mean 1 that give the forms the share r."""
    forms = source == "forms"
    return source.size * np.where(forms, r / forms.sum(), (1 - r) / (~forms).sum())


RATIOS = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98])
SEEDS = range(6)
swept = np.empty((len(SEEDS), RATIOS.size))
for seed in SEEDS:
    train, source, test = draw(seed)
    swept[seed] = [accuracy(train, test, at_ratio(source, r)) for r in RATIOS]
print(pd.Series(swept.mean(axis=0).round(1), RATIOS, name="accuracy").to_string())

# %% [markdown]
# A sweep needs one training for each ratio, and it needs labelled images of the target to read the curve. Whoever had those would not ask.
#
# ## The weights
#
# The weights need no training, and no image of the target: only what is known about it, here the shares of digits and light.

# %%
shares = pd.DataFrame(
    [(str(d), light, 0.05) for d in range(10) for light in ("normal", "dim")],
    columns=["label", "light", "share"],
)
target = unskew.Target.table(shares, uncovered="restrict")
bias = unskew.bias.Strata(["label", "light"])

weighted, fell, ess = [], [], []
for seed in SEEDS:
    train, source, test = draw(seed)
    light = np.where(train[2], "dim", "normal")
    pool = unskew.Pool.from_arrays(source, label=train[1].astype(str), light=light)
    weights = unskew.debias(pool, bias, target)
    fell.append(weights.weight[source == "forms"].sum())
    ess.append(weights.ess)
    weighted.append(accuracy(train, test, weights.sample_weight))
weighted, fell = np.array(weighted), np.array(fell)
naive = swept[:, RATIOS == 0.75].ravel()
print(
    f"the weights give forms {fell.mean():.2f} of the weight, and are worth {np.mean(ess):.0f} images"
)
print(f"accuracy: as pooled {naive.mean():.1f}, ratio of the weights without the rest ", end="")
alone = np.array(
    [accuracy(*(lambda d: (d[0], d[2], at_ratio(d[1], fell[seed])))(draw(seed))) for seed in SEEDS]
)
print(f"{alone.mean():.1f}, best of the sweep {swept.mean(axis=0).max():.1f}, ", end="")
print(f"weights {weighted.mean():.1f}")


# %%
def paired(first, second):
    """Mean difference in points, with its standard error over the draws."""
    gap = first - second
    return f"{gap.mean():+.1f} ± {gap.std(ddof=1) / gap.size**0.5:.1f}"


best = RATIOS[swept.mean(axis=0).argmax()]
print("weights - as pooled:        ", paired(weighted, naive))
print(f"weights - best ratio ({best}):  ", paired(weighted, swept[:, RATIOS == best].ravel()))
print("best ratio - as pooled:     ", paired(swept[:, RATIOS == best].ravel(), naive))

# %%
# Accuracy against the ratio, and where the weights fall without a sweep
import matplotlib.pyplot as plt

figure, axis = plt.subplots()
error = swept.std(axis=0, ddof=1) / len(SEEDS) ** 0.5
axis.errorbar(RATIOS, swept.mean(axis=0), error, marker="o", label="sweep: one training each")
axis.errorbar(
    fell.mean(), weighted.mean(), weighted.std(ddof=1) / len(SEEDS) ** 0.5,
    marker="*", markersize=14, color="C1", label="weights: no sweep",
)  # fmt: skip
axis.axvline(0.75, color="0.7", linestyle=":")
axis.text(0.755, axis.get_ylim()[0], "as pooled", color="0.4", va="bottom")
axis.set_xlabel("share of the weight that forms get")
axis.set_ylabel("accuracy on the target in %")
axis.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# Two things to see. The best ratio of the sweep gains nothing beyond noise over pooling as it is: one number per database moves all of its
# images together. And the ratio of the weights, taken alone, is worse than pooling; what helps are the weights *within* each database, which
# also move the digits and the light. Where databases differ only in their shares of one kind of image, the ratio is all there is to gain.
#
# What no weight does: make the handwriting of one database look like that of another. If databases differ in *how* an image of a digit and
# a light looks, that is domain adaptation, not selection bias; see [Related work](../related-work.md).
#
# **Next.** For tools that take one number for each dataset: `unskew export results --to mixture` ([Other frameworks](../frameworks.md)).
