# %% [markdown]
# # Larger than memory
#
# Weigh a pool of Parquet parts block by block, and check that the weights are those of the same pool in memory.
#
# Here the parts are small, so that the page takes seconds. With a hundred million rows the code is the same.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import unskew

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
population = []
for part in range(8):
    label = rng.choice(["deer", "fox", "boar"], 40_000, p=[0.7, 0.2, 0.1])
    brightness = rng.normal((label == "fox") * 1.0, 1)
    population.append(brightness.mean())
    # The night camera misses what is bright; the lure attracts foxes; the ranger is unbiased.
    taken = {
        "night": rng.random(40_000) < 0.15 * np.exp(-0.8 * brightness),
        "lure": rng.random(40_000) < np.where(label == "fox", 0.3, 0.05),
        "ranger": rng.random(40_000) < 0.02,
    }
    tables = [
        pd.DataFrame({"source": name, "label": label[rows], "brightness": brightness[rows]})
        for name, rows in taken.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    table.insert(0, "id", [f"{part}-{row}" for row in range(len(table))])
    table.to_parquet(folder / f"part-{part}.parquet")

pool = unskew.Pool.from_parquet(folder)
print(pool.names, pool.sizes)

# %% [markdown]
# Nothing was read but what was printed. `pool.frame` would be the whole table: it is refused.

# %%
try:
    pool.frame
except unskew.UnskewError as error:
    print(type(error).__name__, "-", error)

# %% [markdown]
# ## Weigh
#
# The bias model is fitted on a subsample of 20,000 rows first. Newton's method continues from there over all rows, block by block, so that
# the result is that of all rows. With the default of a million rows, this small pool would simply be read.

# %%
bias = unskew.bias.Tilt(["brightness", "label"])
target = unskew.Target.source("ranger")
weights = unskew.debias(pool, bias, target, subsample=20_000)
print(f"{sum(pool.sizes):,} images are worth {weights.ess:,.0f}")
print(f"mean brightness: {weights.mean('brightness')}; the truth: {np.mean(population):.4f}")

# %% [markdown]
# The same in memory:

# %%
table = pd.concat(pd.read_parquet(file) for file in sorted(folder.glob("*.parquet")))
in_memory = unskew.debias(unskew.Pool.from_frame(table), bias, target)
pooled = table["brightness"].mean()
print(f"mean brightness: {in_memory.mean(table['brightness'])}; as pooled {pooled:.4f}")
print(f"difference of the effective sizes: {abs(in_memory.ess / weights.ess - 1):.0e}")

# %% [markdown]
# ## Use the weights
#
# They are written part by part, aligned with the parts of the pool. A run that is stopped writes only what is missing when it is started
# again.

# %%
weights.to_parquet(folder / "weights")
for file in sorted((folder / "weights").glob("*.parquet"))[:2]:
    print(file.name)
    print(pd.read_parquet(file)[["id", "source", "label", "sample_weight"]].head(2).round(4))

# %% [markdown]
# New images get weights from the same fit, without solving anything again:

# %%
new = pd.DataFrame(
    {"label": ["fox", "deer"], "brightness": [-1.0, 2.0], "source": ["night", "lure"]}
)
print(weights.weigh(new).round(3))

# %% [markdown]
# On a cluster: `engine="tcp://scheduler:8786"`, a Dask client, or any `concurrent.futures` executor. [Beyond memory](../scale.md) says what
# is exact, what is sampled, and which models work beyond the subsample.
