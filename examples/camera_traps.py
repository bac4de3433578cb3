"""Camera traps: 12 sites with different mixes of species, and a survey of the region's species.

The pictures are synthetic, so the truth is known. Every species has its own habit of going out at
night, the same at all sites, but the sites see the species in other proportions than the region
has them. What share of the region's animals are out at night?

What you should see: in the pool the species are as frequent as the cameras happened to see them, in
the weighted pool as frequent as in the survey, to the last digit. The share of animals out at night
is about 0.17 too low in the pool, and about right in the weighted pool: it was not fitted, so this
tests the weights. The verdict says that the survey counts badgers, which no camera saw: the result
is about the other species. Lynx live at one site only: the verdict counts them as a stratum that
one source sees.

    python examples/camera_traps.py
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from unskew.cli.app import run_command

CONFIGURATION = """\
# Camera traps: 12 sites, labels known, species proportions of the region from a survey (margins only, with its own error).
# Some species occur at one site only; "empty" frames are outside the survey; images come in bursts.
[sources]
manifest = "all.json"            # COCO Camera Traps
source = "location"
group = "seq_id"
split = "split"

[target]
unit = "group"                   # the survey counts animals seen, not frames
margins.label = { file = "survey.csv", n = 400 }
outside.label = { empty = "keep" }
uncovered = "restrict"

[bias]
family = "strata"
by = ["label"]
"""  # noqa: E501

SURVEY = {"fox": 160, "boar": 60, "deer": 120, "hare": 40, "lynx": 12, "badger": 8}
SPECIES = ("fox", "boar", "deer", "hare", "lynx")  # of the survey, those that pass a camera
AT_NIGHT = {"empty": 0.5, "fox": 0.9, "boar": 0.7, "deer": 0.2, "hare": 0.3, "lynx": 0.8}
SITES, BURSTS = 12, 40


def write_pictures(folder: Path, seed: int = 0) -> None:
    """Write bursts of one to three frames at every site, with the survey and the configuration.

    One COCO Camera Traps file lists the frames.
    """
    from PIL import Image

    rng = np.random.default_rng(seed)
    categories = ["empty", *SPECIES]
    images, annotations = [], []
    for site in range(SITES):
        (folder / f"site{site:02d}").mkdir()
        # Deer and hare love the meadows where most cameras are; lynx live at one site.
        chance = rng.dirichlet([2.0, 0.6, 0.8, 3.0, 2.0, 0.01])
        chance[5] = 0.15 if site == 7 else 0.0
        for burst in range(BURSTS):
            species = int(rng.choice(6, p=chance / chance.sum()))
            night = bool(rng.random() < AT_NIGHT[categories[species]])
            split = ("train", "train", "validation", "train", "test")[burst % 5]
            for frame in range(int(rng.integers(1, 4))):
                name = f"site{site:02d}/burst{burst:03d}_{frame}.jpg"
                pixels = rng.normal(40 if night else 140, 15, (16, 16, 3)) + 8 * species
                Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / name)
                attributes = {
                    "location": f"site{site:02d}",
                    "seq_id": f"{site}-{burst}",
                    "split": split,
                    "night": int(night),
                }
                images.append({"id": name, "file_name": name, **attributes})
                annotations.append(
                    {"id": len(annotations), "image_id": name, "category_id": species}
                )
    kinds = [{"id": at, "name": name} for at, name in enumerate(categories)]
    (folder / "all.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": kinds})
    )
    pd.DataFrame({"label": list(SURVEY), "count": list(SURVEY.values())}).to_csv(
        folder / "survey.csv", index=False
    )
    (folder / "run.toml").write_text(CONFIGURATION)


def compare_shares(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Return the shares of the species and of night animals in pool, weighted pool and truth.

    Among the animals of the training split.
    """
    table = pd.read_parquet(
        folder / "results" / "weights.parquet", columns=["id", "label", "group", "split", "weight"]
    )
    features = pd.read_parquet(folder / "results" / "features.parquet", columns=["id", "night"])
    animals = table.merge(features, on="id", validate="one_to_one").query(
        "split == 'train' and label != 'empty'"
    )
    # An animal is a burst, not a frame.
    pool = 1 / animals.groupby("group")["id"].transform("count")
    covered = {name: SURVEY[name] for name in SPECIES}
    truth = pd.Series(covered) / sum(covered.values())
    shares = pd.DataFrame(
        {
            "pool": pool.groupby(animals["label"]).sum() / pool.sum(),
            "weighted": animals.groupby("label")["weight"].sum() / animals["weight"].sum(),
            "survey": truth,
        }
    )
    night = pd.Series(
        {
            "pool": np.average(animals["night"], weights=pool),
            "weighted": np.average(animals["night"], weights=animals["weight"]),
            "truth": sum(truth[name] * AT_NIGHT[name] for name in SPECIES),
        }
    )
    return shares, night


def main() -> None:
    """Make the pictures, run ``unskew weigh run.toml -o results``, and print the results."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_pictures(folder)
        command = ["weigh", str(folder / "run.toml"), "-o", str(folder / "results"), "--quiet"]
        assert run_command(command) == 0
        verdict = json.loads((folder / "results" / "report.json").read_text())["verdict"]
        print(verdict["headline"], *verdict["sentences"], sep="\n")
        shares, night = compare_shares(folder)
        print(
            "\nShares of the species among the animals of the training split",
            shares.round(3).to_string(),
            sep="\n",
        )
        print("\nShare of the animals that are out at night", night.round(3).to_string(), sep="\n")


if __name__ == "__main__":
    main()
