"""Product photos from four vendors with different studios; the target is unlabelled phone photos.

The photos are synthetic, so the truth is known. Each vendor prefers some light, and bags are
photographed in brighter light than shoes, so that the vendors' share of bags is not that of the
phones. What share of the phone photos show bags?

What you should see: weighting moves the mean brightness of the pool to that of the phones, and the
share of bags from 0.53 to about the true 0.35, which is within the error bar although no phone
photo has a label. Half of the phone photos are held out to check the fit: a classifier can hardly
distinguish them from the weighted pool. The verdict is "with care", because one of the known means
of the phones still differs by more than a tenth of a standard deviation.

    python examples/product_photos.py

CONFIGURATION below does the same by ``unskew weigh run.toml -o results``.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import unskew

CONFIGURATION = """\
# Product photos from four vendors with different studios; the target are phone photos, 800 of them, unlabelled.
[sources]
folders = { north = "north", south = "south", east = "east", west = "west" }
group = { regex = "^(sku\\\\d+)" }

[represent]
features = ["mean_hsv", "brightness", "sharpness"]

[target]
sample = "phones/"
holdout = 0.5                    # half fits, half judges

[bias]
family = "tilt"
features = ["mean_hsv", "brightness"]
"""  # noqa: E501

# log ω of a photo is this times its light: north and east like it bright, south likes the dark.
PREFERS_LIGHT = {"north": 6.0, "south": -2.0, "east": 9.0, "west": 3.0}
PRODUCTS, PHONES, BAGS = 40, 300, 0.35


def draw_products(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw kind and light of products as phones see them: bags are in brighter light."""
    bag = rng.random(size) < BAGS
    return bag, np.clip(rng.normal(np.where(bag, 0.65, 0.5), 0.1), 0.05, 0.95)


def write_photo(path: Path, light: float, rng: np.random.Generator) -> None:
    """Write a flat picture in warm light, with a little noise."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    tint = np.array([1.0, 0.85, 0.7]) + rng.normal(0, 0.03, 3)
    pixels = 255 * light * tint + rng.normal(0, 6, (24, 24, 3))
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)


def write_photos(folder: Path, seed: int = 0) -> None:
    """Write the folders north, south, east and west, phones, and the configuration.

    Vendors have class folders with two photos of each product; phones have no classes.
    """
    rng = np.random.default_rng(seed)
    for vendor, prefers in PREFERS_LIGHT.items():
        bag, light = draw_products(rng, 4000)
        omega = np.exp(prefers * light)
        for at, row in enumerate(rng.choice(light.size, PRODUCTS, p=omega / omega.sum())):
            kind = "bag" if bag[row] else "shoe"
            for photo in range(2):
                write_photo(folder / vendor / kind / f"sku{at:04d}_{photo}.png", light[row], rng)
    for at, light in enumerate(draw_products(rng, PHONES)[1]):
        write_photo(folder / "phones" / f"phone{at:04d}.png", light, rng)
    (folder / "run.toml").write_text(CONFIGURATION)


def weigh_photos(folder: Path) -> tuple[unskew.Pool, unskew.Pool, unskew.Weights]:
    """Do the same as the configuration in Python: the vendors' photos, the phones', the weights."""
    pool = unskew.Pool.from_folders(
        {name: folder / name for name in PREFERS_LIGHT}, group={"regex": r"^(sku\d+)"}
    )
    phones = unskew.Pool.from_folders({"phones": folder / "phones"})
    pool, phones = unskew.represent_images([pool, phones], ["mean_hsv", "brightness", "sharpness"])
    weights = unskew.debias(
        pool,
        unskew.bias.Tilt(["mean_hsv", "brightness"]),
        unskew.Target.sample(phones, holdout=0.5),
    )
    return pool, phones, weights


def main() -> None:
    """Make the photos, weigh them, and print the results."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_photos(folder)
        pool, phones, weights = weigh_photos(folder)
        summary = unskew.write_report(pool, weights, folder / "report.html")
    print(summary.verdict.headline, *summary.verdict.sentences, sep="\n")
    brightness = pool.frame["brightness"].to_numpy()
    bag = (pool.frame["label"] == "bag").to_numpy(dtype=float)
    print(
        f"\nmean brightness   pool {brightness.mean():.3f}   "
        f"weighted {show(weights.mean(brightness))}   "
        f"phones {phones.frame['brightness'].mean():.3f}"
    )
    print(
        f"share of bags     pool {bag.mean():.3f}   "
        f"weighted {show(weights.mean(bag))}   truth {BAGS:.3f}"
    )


def show(estimate: unskew.Estimate) -> str:
    """Format value and standard error as ``0.412 ± 0.031``."""
    return f"{estimate.value:.3f} ± {estimate.stderr:.3f}"


if __name__ == "__main__":
    main()
