"""Small data on disk for the three configurations that must run unchanged, and for the
commands.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unskew.cli.app import run_command

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def _configuration(name: str) -> str:
    """The configuration of an example, as a user has it; the schema of a run is fixed by these
    three.
    """
    text: str = runpy.run_path(str(EXAMPLES / f"{name}.py"))["CONFIGURATION"]
    return text


CAMERA_TRAPS, PRODUCT_PHOTOS, HOSPITALS = (
    _configuration(name) for name in ("camera_traps", "product_photos", "hospitals")
)

SPECIES = ("fox", "boar", "deer", "hare", "lynx")
SPLITS = ("train", "validation", "test")


def write_picture(path: Path, color: np.ndarray, rng: np.random.Generator, side: int = 24) -> None:
    """A flat picture of that colour (0 … 255) with a little noise."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(color + rng.normal(0, 12, (side, side, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path)


def write_camera_traps(folder: Path, seed: int = 0, bursts: int = 25) -> Path:
    """12 sites with their own mix of species; lynx at one site only; the survey also counts
    badgers, which no camera saw.
    """
    rng = np.random.default_rng(seed)
    categories = ["empty", *SPECIES]
    images, annotations = [], []
    for site in range(12):
        chance = rng.dirichlet(np.full(6, 1.0))
        chance[5] = 0.2 if site == 7 else 0.0
        chance /= chance.sum()
        for burst in range(bursts):
            category = int(rng.choice(6, p=chance))
            # Every species is in every split.
            split = SPLITS[(0, 0, 1, 0, 2)[burst % 5]]
            for frame in range(int(rng.integers(1, 4))):
                name = f"site{site:02d}/b{burst:03d}_{frame}.jpg"
                write_picture(
                    folder / name, np.array([60 + 10 * category, 90, 40 + 8 * site]), rng, side=16
                )
                images.append(
                    {
                        "id": name,
                        "file_name": name,
                        "location": f"site{site:02d}",
                        "seq_id": f"{site}-{burst}",
                        "split": split,
                    }
                )
                annotations.append(
                    {"id": len(annotations), "image_id": name, "category_id": category}
                )
    table = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": i, "name": name} for i, name in enumerate(categories)],
    }
    (folder / "all.json").write_text(json.dumps(table))
    survey = pd.DataFrame({"label": [*SPECIES, "badger"], "count": [160, 60, 120, 40, 12, 8]})
    survey.to_csv(folder / "survey.csv", index=False)
    (folder / "run.toml").write_text(CAMERA_TRAPS)
    return folder / "run.toml"


def write_product_photos(
    folder: Path, seed: int = 0, per_vendor: int = 90, phones: int = 160
) -> Path:
    """Four studios with their own light; phone photos in between, of which nobody knows the
    label.
    """
    rng = np.random.default_rng(seed)
    studio = {"north": 170.0, "south": 110.0, "east": 150.0, "west": 130.0}
    for vendor, light in studio.items():
        for i in range(per_vendor):
            kind = ("shoe", "bag")[int(rng.integers(2))]
            color = rng.normal(light, 30, 3) + (20 if kind == "bag" else -10)
            write_picture(folder / vendor / kind / f"sku{i // 3:04d}_{i % 3}.jpg", color, rng)
    for i in range(phones):
        write_picture(folder / "phones" / f"phone{i:04d}.jpg", rng.normal(140, 25, 3), rng)
    (folder / "run.toml").write_text(PRODUCT_PHOTOS)
    return folder / "run.toml"


def write_hospitals(folder: Path, seed: int = 0, patients: int = 900) -> Path:
    """Three hospitals with older or younger patients; sex is missing for some."""
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        hospital = ("alpha", "beta", "gamma")[patient % 3]
        age = float(
            np.clip(
                rng.normal({"alpha": 45, "beta": 60, "gamma": 70}[hospital], 18), 1, 110
            ).round()
        )
        sex = rng.choice(["f", "m", ""], p=[0.52, 0.45, 0.03])
        split = SPLITS[(0, 0, 0, 1, 2)[(patient // 3) % 5]]
        rows += [
            {
                "id": f"{hospital}-{patient}-{scan}",
                "hospital": hospital,
                "patient_id": f"p{patient}",
                "age": age,
                "sex": sex,
                "split": split,
            }
            for scan in range(int(rng.integers(1, 4)))
        ]
    frame = pd.DataFrame(rows)
    frame["finding"] = np.where(rng.random(len(frame)) < 0.1 + frame["age"] / 300, "yes", "no")
    frame.to_csv(folder / "scans.csv", index=False)
    age = np.repeat([20, 50, 70, 85], 2)
    registry = pd.DataFrame(
        {"age": age, "sex": ["f", "m"] * 4, "count": [2600, 2700, 2100, 2000, 1300, 1100, 800, 500]}
    )
    registry.to_csv(folder / "registry.csv", index=False)
    (folder / "run.toml").write_text(HOSPITALS)
    return folder / "run.toml"


# Two sources in a table without images, weighed by strata of the label.
TABLE_SOURCES = """\
[sources]
manifest = "t.csv"
images = false
"""
TABLE_STRATA = """
[target]
uniform = "label"

[bias]
family = "strata"
by = ["label"]
"""


def write_table_run(folder: Path) -> Path:
    """80 rows of two sources with labels cat and dog, and the configuration."""
    rng = np.random.default_rng(0)
    label = rng.choice(["cat", "dog"], 80)
    frame = pd.DataFrame(
        {"source": np.repeat(["a", "b"], 40), "label": label, "z": rng.normal(size=80)}
    )
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "run.toml").write_text(TABLE_SOURCES + TABLE_STRATA)
    return folder / "run.toml"


def write_disagreeing_sources(folder: Path, share_k: Sequence[float] = (0.3, 0.3, 0.6)) -> Path:
    """Sources that find the sick more or less often; strata of shade; predictions in p.csv.

    The model of p.csv is right four times in five, but in the last source only half of the time.
    """
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(len(share_k)), 300)
    names = np.array(["north", "south", "night", "moon"])
    shade = np.where(rng.random(source.size) < 0.3 + 0.1 * source, "dark", "light")
    sick = rng.random(source.size) < np.array(share_k)[source]
    right = rng.random(source.size) < np.where(source == len(share_k) - 1, 0.5, 0.8)
    ids = [f"i{k}" for k in range(source.size)]
    frame = pd.DataFrame({"id": ids, "source": names[source], "shade": shade})
    frame = frame.assign(label=np.where(sick, "sick", "well"))
    frame.to_csv(folder / "t.csv", index=False)
    predicted = np.where(sick == right, "sick", "well")
    pd.DataFrame({"id": ids, "prediction": predicted}).to_csv(folder / "p.csv", index=False)
    (folder / "run.toml").write_text(
        TABLE_SOURCES + "\n[target]\nmargins.shade = { dark = 0.4, light = 0.6 }\n\n[bias]\n"
        'family = "strata"\nby = ["shade"]\n'
    )
    return folder / "run.toml"


def ask_for_foxes(configuration: Path) -> None:
    """Let the target of `write_table_run` ask for a label that no image has: it is refused."""
    text = configuration.read_text()
    target = "margins.label = { cat = 1, dog = 1, fox = 1 }"
    configuration.write_text(text.replace('uniform = "label"', target))


def write_photos(folder: Path) -> Path:
    """Eight pictures of cats and dogs as one source; the folder of the source."""
    rng = np.random.default_rng(0)
    for at in range(8):
        name = f"{'cat' if at % 2 else 'dog'}/p{at}.png"
        write_picture(folder / "photos" / name, rng.uniform(40, 220, 3), rng, side=8)
    return folder / "photos"


def weigh(configuration: Path, out: str = "out") -> Path:
    """Run `unskew weigh`; the output folder, in the folder of the configuration."""
    folder = configuration.parent / out
    assert run_command(["weigh", str(configuration), "-o", str(folder), "--quiet"]) == 0
    return folder


def write_vendors(folder: Path) -> Path:
    """Two sources, north and south, as folders of class folders."""
    rng = np.random.default_rng(0)
    for vendor, bags in (("north", 20), ("south", 8)):
        for i in range(30):
            name = f"{vendor}/{'bag' if i < bags else 'shoe'}/sku{i:03d}.png"
            write_picture(folder / name, rng.uniform(40, 220, 3), rng, side=12)
    return folder


def init_vendors(vendors: Path, folder: Path) -> Path:
    """Write the configuration of `unskew init` for the two vendors."""
    places = [str(vendors / "north"), str(vendors / "south")]
    assert run_command(["init", *places, "-o", str(folder / "run.toml"), "--quiet"]) == 0
    return folder / "run.toml"


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a command that fails; its error as `--json` prints it, with `facts`."""
    capsys.readouterr()
    code = run_command([*arguments, "--json"])
    shown = capsys.readouterr()
    error: dict[str, Any] = {"facts": {}} | json.loads(shown.out)["error"]
    assert error["exit_code"] == code
    assert "Traceback" not in shown.err
    return error
