"""Chest X-rays with several findings: two hospitals of mostly young patients, a target of old ones.

The "pictures" are a few numbers, so the truth is known. Findings are more frequent among the old,
and the picture depends on the findings alone: a model that is trained on all images alike ranks
patients as well as one that is trained with the weights, but its probabilities are those of the
young, so that thresholds at ½ miss findings. In a tenth of the images nobody looked for nodules.

What you should see: the AUROC of every finding is the same with and without weights; the
probabilities of naive training are more than 10 points too low on the target for findings that
come with age, those of debiased training within 4 points; and the gain in accuracy that was
forecast before training is within two standard errors of what 6,000 new patients show.

    python examples/chest_findings.py
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from unskew.cli.app import run_command

CONFIGURATION = """\
[sources]
manifest = "images.csv"
labels = ["edema", "effusion", "nodule"]  # columns of 0 and 1; an empty field is unknown
images = false

[target]
margins.age = { old = 0.7, young = 0.3 }

[bias]
family = "strata"
by = ["age"]

[learn]
preset = "probe"
ridge = 0.01
way = "half"
arms = ["debiased", "naive"]
"""
FINDINGS = ("edema", "effusion", "nodule")
OLD, YOUNG = (0.55, 0.45, 0.25), (0.08, 0.10, 0.25)  # how frequent they are
HOSPITALS = {"north": (1000, 0.05), "south": (700, 0.45)}  # images, share of old patients
NEW = 6_000


def draw_patients(n: int, old_share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Draw age, findings and what a picture shows of them."""
    old = rng.random(n) < old_share
    present = rng.random((n, 3)) < np.where(old[:, None], OLD, YOUNG)
    picture = present @ np.array([[1.3, 0.0, 0.3], [0.0, 1.2, 0.0], [0.3, 0.0, 1.4]])
    picture = picture + rng.normal(size=(n, 3))
    columns = {name: present[:, m].astype(int) for m, name in enumerate(FINDINGS)}
    columns |= {f"picture_{m}": picture[:, m] for m in range(3)}
    return pd.DataFrame({"age": np.where(old, "old", "young"), **columns})


def write_data(folder: Path, rng: np.random.Generator) -> None:
    """Write the images of the hospitals, and those of new patients of the target."""
    parts = [
        draw_patients(n, share, rng).assign(source=name) for name, (n, share) in HOSPITALS.items()
    ]
    images = pd.concat(parts, ignore_index=True)
    images["nodule"] = images["nodule"].mask(rng.random(len(images)) < 0.1)
    images.rename_axis("id").to_csv(folder / "images.csv")
    new = draw_patients(NEW, 0.7, rng).assign(source="target")
    new.rename_axis("id").to_csv(folder / "new.csv")
    (folder / "run.toml").write_text(CONFIGURATION, encoding="utf-8")


def call(*arguments: str) -> None:
    """Run a command of unskew."""
    if run_command([*arguments, "--quiet"]) != 0:
        raise SystemExit(f"unskew {' '.join(arguments)} failed")


def compare(folder: Path) -> None:
    """Print naive and debiased on the new patients, and the forecast with what came true."""
    new = pd.read_csv(folder / "new.csv")
    accuracy = {}
    print(f"{'':10}{'AUROC':>8}{'':8}{'share':>8}{'mean probability':>20}")
    print(f"{'':10}{'naive':>8}{'debiased':>10}{'':6}{'naive':>10}{'debiased':>10}")
    scores = {
        arm: pd.read_parquet(folder / f"{arm}.parquet").set_index("id").loc[new["id"].astype(str)]
        for arm in ("naive", "debiased")
    }
    for name in FINDINGS:
        own = {arm: table[f"score_{name}"].to_numpy() for arm, table in scores.items()}
        areas = [roc_auc_score(new[name], own[arm]) for arm in own]
        means = [own[arm].mean() for arm in own]
        print(
            f"{name:10}{areas[0]:8.3f}{areas[1]:10.3f}{new[name].mean():6.3f}"
            f"{means[0]:10.3f}{means[1]:10.3f}"
        )
        accuracy[name] = [((own[arm] >= 0.5) == new[name]).mean() for arm in own]
    forecast = json.loads((folder / "forecast" / "forecast.json").read_text(encoding="utf-8"))
    gain, came = forecast["gain"], np.mean([after - before for before, after in accuracy.values()])
    print(
        f"\nGain in accuracy, the mean of the findings, in points: forecast "
        f"{100 * gain['value']:+.1f} ± {100 * gain['stderr']:.1f}, came true {100 * came:+.1f}"
    )


def main() -> None:
    """Forecast, train both arms, and judge them on new patients."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, np.random.default_rng(7))
        run = str(folder / "run.toml")
        call("forecast", run, "-o", str(folder / "forecast"))
        call("train", run, "-o", str(folder / "trained"), "--replicates", "100")
        for arm in ("naive", "debiased"):
            table = str(folder / f"{arm}.parquet")
            given = ["--arm", arm, "--save", table, "--replicates", "0"]
            call("evaluate", str(folder / "trained"), str(folder / "new.csv"), *given)
        compare(folder)


if __name__ == "__main__":
    main()
