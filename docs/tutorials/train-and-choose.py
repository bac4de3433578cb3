# %% [markdown]
# # Train and choose the way
#
# Learn what a model can do with weights: count images more, shift its logits, or half of each; and let unskew choose. With scikit-learn and
# in a training loop of torch.
#
# A weight of 50 does not make fifty images of one. Where databases differ only in the shares of classes, a model can shift its logits
# instead, which keeps all images. [Ways to learn from weights](../ways.md) explains the dial between the two.

# %%
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import unskew

image, digit = load_digits(return_X_y=True)
image = image / 16
ODDS = {"large": [30, 30, 30, 30, 30, 30, 1, 1, 1, 1], "small": [1, 1, 1, 1, 1, 1, 9, 9, 9, 9]}
SIZES = {"large": 900, "small": 100}


def draw(seed):
    """Draw two databases, with noise, and 600 test images of other handwritings."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    test, rest = order[:600], order[600:]
    rows = []
    for name, odds in ODDS.items():
        chance = np.array(odds, dtype=float)[digit[rest]]
        rows.append(rng.choice(rest, SIZES[name], p=chance / chance.sum()))
    row = np.concatenate(rows)
    noisy = [image[at] + rng.normal(0, 0.3, (at.size, 64)) for at in (row, test)]
    return noisy[0], digit[row], noisy[1], digit[test]


source = np.repeat(list(SIZES), list(SIZES.values()))
target, bias = unskew.Target.uniform("label"), unskew.bias.Strata("label")

# %% [markdown]
# ## With scikit-learn
#
# `DebiasedClassifier` weighs, trains, and predicts for the target. `way="auto"`, the default, tries two ways on a part of the images, and
# takes the middle unless one of them is clearly better.

# %%
WAYS = ["weights", "half", "logit", "auto"]
scores = []
for seed in range(6):
    X, y, test_X, test_y = draw(seed)
    line = {"naive": LogisticRegression(max_iter=300).fit(X, y).score(test_X, test_y)}
    for way in WAYS:
        model = unskew.DebiasedClassifier(
            LogisticRegression(max_iter=300), bias, target, way=way, random_state=0
        )
        line[way] = model.fit(X, y, source=source).score(test_X, test_y)
    scores.append(line)
scores = 100 * pd.DataFrame(scores)
gain = scores.sub(scores["naive"], axis=0)
print(
    pd.DataFrame({"accuracy": scores.mean(), "gain": gain.mean(), "± stderr": gain.sem()}).round(1)
)
print("the last draw chose:", model.way_.way)
print(model.way_.reason)

# %%
# Gain in accuracy over naive pooling, by way, in six draws
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6.8, 2.8))
axis.plot(range(4), gain[WAYS].T, "o-", color="0.8", markersize=3)
axis.errorbar(range(4), gain[WAYS].mean(), gain[WAYS].sem(), fmt="o")
axis.axhline(0, color="k", linestyle=":")
axis.set_xticks(range(4), WAYS)
axis.set_ylabel("gain in points")
figure.tight_layout()

# %% [markdown]
# ## In a loop of torch
#
# `WeightedSampler` draws images in proportion to their weights; the rest of the loop stays as it is. Join by id if your dataset has another
# order than the pool.

# %%
import torch
from torch.utils.data import DataLoader, TensorDataset

from unskew.learn import WeightedSampler

torch.set_num_threads(1)


def train(X, y, sampler, seed):
    """Train a small network for 25 epochs."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(64, 10)
    )
    data = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
    loader = DataLoader(data, batch_size=64, sampler=sampler, shuffle=sampler is None)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for epoch in range(25):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for batch, label in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(batch), label).backward()
            optimizer.step()
    return network.eval()


networks = []
for seed in range(4):
    X, y, test_X, test_y = draw(seed)
    pool = unskew.Pool.from_arrays(source, label=y.astype(str))
    weights = unskew.debias(pool, bias, target)
    line = {}
    for name, sampler in (("naive", None), ("weighted", WeightedSampler(weights.weight, seed=0))):
        network = train(X, y, sampler, seed)
        with torch.no_grad():
            guess = network(torch.tensor(test_X, dtype=torch.float32)).argmax(dim=1).numpy()
        line[name] = 100 * np.mean(guess == test_y)
    networks.append(line)
networks = pd.DataFrame(networks)
difference = networks["weighted"] - networks["naive"]
print(networks.mean().round(1).to_string())
print(f"gain {difference.mean():.1f} ± {difference.sem():.1f}")

# %% [markdown]
# ## Without a loop of your own
#
# `unskew train` does all of this from a configuration, and judges every arm on held-out images of the target. These commands take minutes,
# so their output is not shown here; [Train with the weights](../train.md) has measured times.
#
# ```
# unskew train run.toml -o trained --arm debiased --arm naive      # a small network
# unskew train run.toml -o tuned --preset finetune                 # a pretrained network
# unskew train run.toml -o probed --preset probe                   # a linear model on features: seconds
# ```
#
# Try the probe first: it takes a sixth of the time of fine-tuning or less.
