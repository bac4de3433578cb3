"""Three hospitals and the national registry: attributes in a table, no image is opened.

Training runs elsewhere; weights and a proof are needed. The patients are synthetic, so the truth is
known. The older a patient, the more likely a finding; the hospitals see older patients than the
country has. How frequent is the finding in the country?

What you should see: the finding is about twice as frequent among the hospitals' scans as in the
country; the weighted table is right to within 0.03. ``unskew verify`` computes everything again and
agrees. The page shows aggregates only: no patient's id is on it.

    python examples/hospitals.py
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from unskew.cli.app import run_command

CONFIGURATION = """\
# Three hospitals, attributes in a table, the national registry as target. Training runs elsewhere; weights and proof are wanted.
[sources]
manifest = "scans.csv"
images = false
source = "hospital"
group = "patient_id"
split = "split"

[target]
unit = "group"
table = "registry.csv"           # age, sex, count
bins.age = [0, 40, 60, 75, 120]
missing.sex = "keep"

[bias]
family = "strata"
by = ["age", "sex"]

[report]
privacy = "aggregate"            # no thumbnails, paths or ids; cells under 10 suppressed
"""  # noqa: E501

AGES = (20, 50, 70, 85)  # one for each bin of the configuration
FINDING = (0.02, 0.08, 0.25, 0.45)  # how frequent it is at each of these ages
REGISTRY = ((2600, 2700), (2100, 2000), (1300, 1100), (800, 500))  # women and men in the country
HOSPITALS = {
    "alpha": (0.3, 0.3, 0.25, 0.15),
    "beta": (0.1, 0.3, 0.35, 0.25),
    "gamma": (0.05, 0.15, 0.4, 0.4),
}
PATIENTS = 1000  # of each hospital


def write_scans(folder: Path, seed: int = 0) -> None:
    """Write one to three scans of every patient, the registry and the configuration."""
    rng = np.random.default_rng(seed)
    rows = []
    for hospital, chance in HOSPITALS.items():
        for patient in range(PATIENTS):
            bin_of_age = int(rng.choice(4, p=chance))
            who = {
                "hospital": hospital,
                "patient_id": f"{hospital}-{patient:04d}",
                "age": AGES[bin_of_age],
                "sex": rng.choice(["f", "m", ""], p=[0.5, 0.47, 0.03]),
                "split": ("train", "train", "train", "validation", "test")[patient % 5],
                "finding": int(rng.random() < FINDING[bin_of_age]),
            }
            rows += [
                {"id": f"{who['patient_id']}-{scan}", **who}
                for scan in range(int(rng.integers(1, 4)))
            ]
    pd.DataFrame(rows).to_csv(folder / "scans.csv", index=False)
    cells = [
        (age, sex, count)
        for age, counts in zip(AGES, REGISTRY, strict=True)
        for sex, count in zip("fm", counts, strict=True)
    ]
    pd.DataFrame(cells, columns=["age", "sex", "count"]).to_csv(
        folder / "registry.csv", index=False
    )
    (folder / "run.toml").write_text(CONFIGURATION)


def compare_finding(folder: Path) -> pd.DataFrame:
    """Return how frequent the finding is in each split: plain, weighted, and the truth."""
    weights = pd.read_parquet(
        folder / "results" / "weights.parquet", columns=["id", "split", "weight"]
    )
    scans = pd.read_csv(folder / "scans.csv", usecols=["id", "finding"]).merge(
        weights, on="id", validate="one_to_one"
    )
    people = np.sum(REGISTRY, axis=1)
    return pd.DataFrame(
        {
            "scans": scans.groupby("split")["finding"].mean(),
            "weighted": (scans["finding"] * scans["weight"]).groupby(scans["split"]).sum(),
            "country": float(np.average(FINDING, weights=people)),
        }
    )


def main() -> None:
    """Make the tables, run ``unskew weigh`` and ``unskew verify``, and print the results."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_scans(folder)
        command = ["weigh", str(folder / "run.toml"), "-o", str(folder / "results"), "--quiet"]
        assert run_command(command) == 0
        verdict = json.loads((folder / "results" / "report.json").read_text())["verdict"]
        print(verdict["headline"], *verdict["sentences"], sep="\n")
        print(
            "\nHow frequent the finding is", compare_finding(folder).round(3).to_string(), sep="\n"
        )
        print("\nunskew verify results")
        assert run_command(["verify", str(folder / "results")]) == 0
        page = (folder / "results" / "report.html").read_text()
        patients = pd.read_csv(folder / "scans.csv")["patient_id"].unique()
        named = sum(patient in page for patient in patients)
        print(f"\nPatients named on the page: {named}")


if __name__ == "__main__":
    main()
