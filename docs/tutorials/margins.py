# %% [markdown]
# # You only know margins
#
# Use shares from a registry or a survey, one attribute at a time, as the target: for two attributes together, with the survey's error, and
# for shares that you know only roughly.
#
# Two clinics collect X-rays. One treats mostly old patients, the other mostly women. You want the share of patients with a finding in the
# whole population. The national registry publishes shares by age and by sex, but not their combination. The data are simulated, so the
# truth is known.

# %%
import numpy as np
import pandas as pd

import unskew

rng = np.random.default_rng(0)
n = 400_000
age = rng.choice(["young", "middle", "old"], n, p=[0.35, 0.4, 0.25])
woman = rng.random(n) < pd.Series(age).map({"young": 0.49, "middle": 0.5, "old": 0.58})
sex = np.where(woman, "f", "m")
risk = pd.Series(age).map({"young": 0.04, "middle": 0.12, "old": 0.35}).to_numpy()
finding = rng.random(n) < np.where(woman, 0.7, 1.2) * risk
print(f"the truth, which nobody knows: {finding.mean():.4f}")


def collect(size, by_age, by_sex):
    """Draw patients in proportion to a preference for ages times one for sexes."""
    chance = pd.Series(age).map(by_age).to_numpy() * pd.Series(sex).map(by_sex).to_numpy()
    return rng.choice(n, size, p=chance / chance.sum())


geriatric = collect(3000, {"young": 1, "middle": 3, "old": 12}, {"f": 1, "m": 1})
womens = collect(1500, {"young": 3, "middle": 3, "old": 1}, {"f": 8, "m": 1})
row = np.concatenate([geriatric, womens])
source = np.repeat(["geriatric", "womens"], [3000, 1500])
pool = unskew.Pool.from_arrays(source, age=age[row], sex=sex[row], finding=finding[row])
print(f"share of findings as pooled: {finding[row].mean():.4f}")

# %% [markdown]
# ## Two margins
#
# `Target.margins` takes one distribution for each attribute. Within a combination of age and sex the clinics are assumed to select alike:
# `Strata(["age", "sex"])`. How age and sex go together is not in the registry. It is taken from what the clinics have in common, which is
# right where each clinic selects by age times sex.

# %%
by_age = {"young": 0.35, "middle": 0.40, "old": 0.25}
by_sex = {"f": woman.mean().round(3), "m": 1 - woman.mean().round(3)}
bias = unskew.bias.Strata(["age", "sex"])
weights = unskew.debias(pool, bias, unskew.Target.margins({"age": by_age, "sex": by_sex}))
print(f"weighted share of findings: {weights.mean(finding[row])}")
print(f"{row.size} images are worth {weights.ess:.0f}")

# %% [markdown]
# What if you leave one out? This finding depends mostly on age, so age alone comes close here. With sex alone the two clinics disagree on the
# share of findings, and the estimate says so: something else that they select by is missing from the model.

# %%
for name, margin in (("age", by_age), ("sex", by_sex)):
    one = unskew.debias(pool, unskew.bias.Strata(name), unskew.Target.margins({name: margin}))
    print(f"{name} only: {one.mean(finding[row])}")

# %% [markdown]
# ## Shares from a survey
#
# A survey of 400 persons does not know the shares exactly. Give its size, and its error enters the error bar.

# %%
survey = unskew.Target.margins(
    {"age": {"mass": by_age, "n": 400}, "sex": {"mass": by_sex, "n": 400}}
)
with_survey = unskew.debias(pool, bias, survey)
print(f"registry: {weights.mean(finding[row])}")
print(f"survey:   {with_survey.mean(finding[row])}")

# %% [markdown]
# ## Shares that you know only roughly
#
# "Between 20% and 30% are old" is knowledge, too. `within` gives every share a range, and `bound_over_margins` the lowest and the highest
# mean over all shares in it.

# %%
rough = unskew.Target.margins(
    {"age": by_age}, within={"young": (0.3, 0.4), "middle": (0.35, 0.45), "old": (0.2, 0.3)}
)
bounds = unskew.bound_over_margins(pool, unskew.bias.Strata("age"), rough, finding[row])
print(f"between {bounds.low:.3f} and {bounds.high:.3f}")

# %%
# Share of findings: the truth, as pooled, and with one or two margins
import matplotlib.pyplot as plt

estimates = {
    "age and sex, registry": weights.mean(finding[row]),
    "age and sex, survey of 400": with_survey.mean(finding[row]),
    "sex only": unskew.debias(
        pool, unskew.bias.Strata("sex"), unskew.Target.margins({"sex": by_sex})
    ).mean(finding[row]),
}
figure, axis = plt.subplots(figsize=(6.8, 2.4))
for place, estimate in enumerate(estimates.values()):
    axis.plot(estimate.interval, [place, place], color="C0")
    axis.plot(estimate.value, place, "o", color="C0")
axis.plot(finding[row].mean(), 3, "s", color="C1")
axis.axvline(finding.mean(), color="0.6", linestyle=":")
axis.set_yticks(range(4), [*estimates, "as pooled"])
axis.set_xlabel("share of findings (dotted: the truth)")
figure.tight_layout()

# %% [markdown]
# ## What margins cannot tell
#
# If a third clinic selects by a *combination* (young men and old women), the clinics disagree on how age and sex go together. unskew warns, and
# asks for the joint table. And if clinics also select by something that is in no table, no margin repairs it: see
# [Sensitivity](../sensitivity.md).

# %%
import warnings

prefers = {"youngm": 8, "middlem": 1, "oldm": 1, "youngf": 1, "middlef": 1, "oldf": 8}
chance = pd.Series(np.char.add(age, sex)).map(prefers).to_numpy(dtype=float)
odd = np.concatenate([row, rng.choice(n, 1500, p=chance / chance.sum())])
odd_pool = unskew.Pool.from_arrays(
    np.concatenate([source, np.repeat("sports", 1500)]), age=age[odd], sex=sex[odd]
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    unskew.debias(odd_pool, bias, unskew.Target.margins({"age": by_age, "sex": by_sex}))
for warning in caught:
    print(warning.message)

# %% [markdown]
# **Next.** If the target has a sample instead of a registry: [A small unlabelled target sample](target-sample.md). How to find such numbers:
# [How to find out your target](../guides/target.md).
