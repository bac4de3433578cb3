"""Three chest X-ray archives: is a finding as frequent at a site as the other sites say? The tables
of docs/xrays.md.

python benchmarks/xrays.py                    downloads the wheel of torchxrayvision (29 MB)
python benchmarks/xrays.py --wheel FILE.whl   reads that one

The metadata of NIH (ChestX-ray14), CheXpert and PadChest are CSV files inside the wheel, which is
read and never installed. Frontal views only. Each site in turn is the target: the joint table of
age, sex and view is taken as known there, and its findings, which nobody sees, are the truth.
"""

from __future__ import annotations

import argparse
import gzip
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import unskew
from unskew.bias import Strata

FOLDER = "torchxrayvision/data/"
# Finding: its names in NIH, CheXpert and PadChest.
FINDINGS = {
    "cardiomegaly": ("Cardiomegaly", "Cardiomegaly", "cardiomegaly"),
    "effusion": ("Effusion", "Pleural Effusion", "pleural effusion"),
    "atelectasis": ("Atelectasis", "Atelectasis", "atelectasis"),
    "consolidation": ("Consolidation", "Consolidation", "consolidation"),
    "pneumonia": ("Pneumonia", "Pneumonia", "pneumonia"),
    "pneumothorax": ("Pneumothorax", "Pneumothorax", "pneumothorax"),
    "edema": ("Edema", "Edema", "pulmonary edema"),
}
SITES = ("NIH", "CheXpert", "PadChest")
BY = ["age", "sex", "view"]


def read_sites(wheel: Path) -> pd.DataFrame:
    """Read the frontal images of all sites: site, patient, year, age, sex, view, findings."""
    with zipfile.ZipFile(wheel) as archive:

        def read(name: str, columns: Sequence[str]) -> pd.DataFrame:
            content = gzip.decompress(archive.read(FOLDER + name))
            return pd.read_csv(io.BytesIO(content), usecols=list(columns), low_memory=False)

        sites = pd.concat([_nih(read), _chexpert(read), _padchest(read)], ignore_index=True)
    kept = sites[sites["view"].isin(["AP", "PA"]) & sites["sex"].isin(["F", "M"])]
    kept = kept[kept["years"].between(0, 100)]
    edges = [-1, 20, 30, 40, 50, 60, 70, 80, 101]
    age = pd.cut(kept["years"], edges).astype(str)
    return kept.assign(age=age).reset_index(drop=True)


def _nih(read) -> pd.DataFrame:
    labels, view = "Finding Labels", "View Position"
    columns = [labels, "Patient ID", "Patient Age", "Patient Gender", view]
    table = read("Data_Entry_2017_v2020.csv.gz", columns)
    return pd.DataFrame(
        {
            "site": "NIH",
            "part": "NIH",
            "patient": "n" + table["Patient ID"].astype(str),
            "years": table["Patient Age"],
            "sex": table["Patient Gender"],
            "view": table[view],
            **{
                finding: table[labels].str.contains(names[0], regex=False)
                for finding, names in FINDINGS.items()
            },
        }
    )


def _chexpert(read) -> pd.DataFrame:
    columns = ["Path", "Sex", "Age", "AP/PA", *(names[1] for names in FINDINGS.values())]
    table = read("chexpert_train.csv.gz", columns)
    return pd.DataFrame(
        {
            "site": "CheXpert",
            "part": "CheXpert",
            "patient": table["Path"].str.extract(r"(patient\d+)", expand=False),
            "years": table["Age"],
            "sex": table["Sex"].str[0],
            "view": table["AP/PA"],
            # Uncertain mentions (−1) count as no finding.
            **{finding: table[names[1]] == 1.0 for finding, names in FINDINGS.items()},
        }
    )


def _padchest(read) -> pd.DataFrame:
    birth, sex, labels = "PatientBirth", "PatientSex_DICOM", "Labels"
    columns = ["PatientID", "StudyDate_DICOM", birth, sex, "Projection", "MethodLabel", labels]
    table = read("PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv.gz", columns)
    year = table["StudyDate_DICOM"] // 10_000
    text = table[labels].fillna("").str.lower()
    return pd.DataFrame(
        {
            "site": "PadChest",
            # A quarter was labelled by physicians, the rest by a network that learned from them.
            "part": "PadChest, " + table["MethodLabel"].str.lower().fillna("unknown"),
            "patient": "p" + table["PatientID"].astype(str),
            "years": year - table[birth],
            "sex": table[sex],
            "view": table["Projection"].replace({"AP_horizontal": "AP"}),
            **{
                finding: text.str.contains(names[2], regex=False)
                for finding, names in FINDINGS.items()
            },
        }
    )


def weigh(sources: pd.DataFrame, site: pd.DataFrame, column: str) -> unskew.Weights:
    """Weigh the images of the sources to the site's table of age, sex and view."""
    pool = unskew.Pool.from_arrays(
        sources[column].to_numpy(dtype=object),
        group=sources["patient"].to_numpy(dtype=object),
        **{name: sources[name].to_numpy(dtype=object) for name in BY},
    )
    table = site.groupby(BY).size().rename("count").reset_index()
    target = unskew.Target.table(table, uncovered="restrict")
    return unskew.debias(pool, Strata(BY), target)


def rows(sites: pd.DataFrame, target: str, names: Sequence[str], column: str) -> Iterator[str]:
    """Print what the sources say of every finding at the target, and the truth there."""
    site = sites[sites["site"] == target]
    sources = sites[sites["site"].isin(names)]
    weights = weigh(sources, site, column)
    for finding in FINDINGS:
        value = sources[finding].to_numpy(dtype=np.float64)
        estimate = weights.mean(value)
        truth = float(site[finding].mean())
        low, high = estimate.interval
        said = "disagree" if estimate.sources_disagree else "agree"
        own = ", ".join(
            f"{100 * estimate.by_source[name].value:.2f}" for name in sorted(estimate.by_source)
        )
        honest = low <= truth <= high
        yield (
            f"| {target} | {finding} | {100 * estimate.value:.2f} ± {100 * estimate.stderr:.2f} | "
            f"{own} | {said} | {100 * low:.2f} to {100 * high:.2f} | {100 * truth:.2f} | "
            f"{'yes' if honest else 'no'} | {'yes' if honest or said == 'disagree' else 'NO'} |"
        )


HEAD = (
    "| target | finding | all sources, % | each source | verdict | interval | truth | holds | "
    "holds or warns |\n|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, help="torchxrayvision-….whl; default: download it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel or _download(Path(folder))
        sites = read_sites(wheel)
    counts = sites["site"].value_counts()
    print(f"{len(sites):,} frontal images: " + ", ".join(f"{s} {counts[s]:,}" for s in SITES))
    print("\nThe other two sites\n\n" + HEAD)
    for target in SITES:
        others = [name for name in SITES if name != target]
        for row in rows(sites, target, others, "site"):
            print(row, flush=True)
    print(
        "\nThe other two sites, PadChest's labels by physicians and by a network apart\n\n" + HEAD
    )
    for target in ("NIH", "CheXpert"):
        others = [name for name in SITES if name != target]
        for row in rows(sites, target, others, "part"):
            print(row, flush=True)
    print("\nAll three sites\n\n" + HEAD)
    for target in SITES:
        for row in rows(sites, target, SITES, "site"):
            print(row, flush=True)


def _download(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "torchxrayvision"],
        cwd=folder,
        check=True,
    )
    return next(folder.glob("torchxrayvision-*.whl"))


if __name__ == "__main__":
    main()
