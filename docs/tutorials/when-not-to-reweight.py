# %% [markdown]
# # When not to reweight
#
# Recognise three cases where weights are the wrong tool, and what unskew says in each: sources that measure differently, a bias that does
# not matter, and weights that cost more than they bring.
#
# The data are simulated after three public chest X-ray archives. What happens with the real ones, 413,732 images, is on
# [Three chest X-ray archives](../xrays.md): there, the weighted mean alone puts a finding at 7.26% where the truth is 2.48%.

# %%
import warnings

import numpy as np
import pandas as pd

import unskew

rng = np.random.default_rng(0)
AGES = ["young", "middle", "old"]
MIX = {"north": [0.5, 0.35, 0.15], "south": [0.2, 0.4, 0.4], "west": [0.3, 0.4, 0.3]}
target = unskew.Target.margins({"age": dict(zip(AGES, [0.35, 0.40, 0.25], strict=True))})
bias = unskew.bias.Strata("age")


def archives(size, risk, reads=(1, 1, 1)):
    """Draw patients of each archive; ``reads``: how readily its doctors write the finding down."""
    source = np.repeat(list(MIX), size)
    age = np.concatenate([rng.choice(AGES, size, p=mix) for mix in MIX.values()])
    chance = pd.Series(age).map(dict(zip(AGES, risk, strict=True))) * np.repeat(reads, size)
    finding = rng.random(source.size) < chance
    return unskew.Pool.from_arrays(source, age=age, finding=finding), finding


RISK = (0.02, 0.06, 0.15)
truth = np.dot([0.35, 0.40, 0.25], RISK)

# %% [markdown]
# ## 1. The sources measure differently
#
# The doctors of `west` write the finding down three times as readily. Weights correct which patients an archive has. They cannot correct what
# its doctors mean by a word.

# %%
pool, finding = archives(4000, RISK, reads=(1, 1, 3))
weights = unskew.debias(pool, bias, target)
estimate = weights.mean(finding)
print(f"truth {truth:.4f}, as pooled {finding.mean():.4f}")
print(estimate)
for name, one in estimate.by_source.items():
    print(f"  {name}: {one.value:.4f} ± {one.stderr:.4f}")

# %% [markdown]
# After weighting, each archive should say the same, because all describe the same population. They do not, and the estimate says so: the
# interval is that of one more archive like these, which is honest and wide. Ask how the labels were made. With labels of one meaning the
# same archives agree:

# %%
pool, same = archives(4000, RISK)
print(f"as pooled {same.mean():.4f}, weighted {unskew.debias(pool, bias, target).mean(same)}")

# %% [markdown]
# ## 2. The bias does not matter
#
# The archives differ in age, but the finding has nothing to do with age. Then the weights move nothing, and cost precision.

# %%
rng = np.random.default_rng(1)
pool, unrelated = archives(4000, (0.07, 0.07, 0.07))
weights = unskew.debias(pool, bias, target)
plain = np.sqrt(unrelated.mean() * (1 - unrelated.mean()) / unrelated.size)
print(f"as pooled {unrelated.mean():.4f} ± {plain:.4f}, weighted {weights.mean(unrelated)}")
print(f"{unrelated.size:,} images are worth {weights.ess:,.0f}")

# %% [markdown]
# Before a training, `forecast_gain` asks the same of a model: will weights make it better on the target? Here they will not.

# %%
site = np.repeat(list(MIX), 700)
age = np.concatenate([rng.choice(AGES, 700, p=mix) for mix in MIX.values()])
ill = rng.random(site.size) < 0.4
X = rng.normal(size=(site.size, 8)) + 0.8 * ill[:, None]
pool = unskew.Pool.from_arrays(site, label=np.where(ill, "ill", "healthy"), age=age)
forecast = unskew.forecast_gain(pool, bias, target, features=X)
print(forecast.recommendation)

# %% [markdown]
# ## 3. Too few images carry the weight
#
# Old patients are a quarter of the target and nearly absent from the archives. The weights are right on average, and useless: all depends on
# a handful of patients. Compare the distance from the truth over 200 draws.

# %%
MIX = {"north": [0.60, 0.39, 0.01], "south": [0.50, 0.49, 0.01], "west": [0.55, 0.44, 0.01]}
errors = []
warnings.simplefilter("ignore", unskew.WeakOverlapWarning)  # it warns at nearly every draw
for _ in range(200):
    pool, rare = archives(100, (0.06, 0.06, 0.08))
    try:
        weights = unskew.debias(pool, bias, target)
    except unskew.CoverageError:
        continue  # no old patient at all
    moved = unskew.shrink_weights(weights, means={"finding": rare}).weight
    truth = np.dot([0.35, 0.40, 0.25], (0.06, 0.06, 0.08))
    errors.append([rare.mean() - truth, weights.mean(rare).value - truth, moved @ rare - truth])
errors = np.array(errors)
print(f"root mean square error over {len(errors)} draws with at least one old patient")
for name, error in zip(
    ["as pooled", "weighted", "shrunk"], (errors**2).mean(axis=0) ** 0.5, strict=True
):
    print(f"  {name:10} {error:.4f}")
print(f"the last {rare.size} images are worth {weights.ess:.0f}")

# %%
# Errors over 200 draws where one in a hundred patients carries a quarter of the weight
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6.8, 2.6))
edges = np.linspace(-0.08, 0.25, 34)
axis.hist(errors[:, 0], edges, color="0.8", label="as pooled")
axis.hist(errors[:, 1], edges, histtype="step", label="weighted")
axis.axvline(0, color="k", linestyle=":")
axis.set_xlabel("error of the share of findings")
axis.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# Then do not weight, or shrink the weights ([Few images](../few-images.md)), or collect old patients: `unskew advise` says how many.
#
# In short, look at three things before you use weights: whether the sources agree, whether the forecast says that weights help, and what the
# images are worth.
