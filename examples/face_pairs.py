"""Face verification: two databases with few women, a population with as many women as men.

The embeddings are synthetic, so the truth is known. Faces of women are closer to each other than
those of men, and the databases have few women: the false match rate at any threshold looks smaller
than it is in the population, and a threshold that is chosen on the databases lets in too many.

What you should see: at a false match rate of 1 % on the population, the unweighted pairs say about
half of that; the weighted figures agree with a large sample of the population, within their
intervals. Women are mistaken for each other several times as often as men, and the interval of the
gap does not contain 0.

    python examples/face_pairs.py
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from unskew.cli.app import run_command

CONFIGURATION = """\
[sources]
manifest = "faces.csv"
images = false
source = "database"
group = "person"

[target]
table = "population.csv"  # gender, count

[bias]
family = "strata"
by = ["gender"]
"""
DIMENSIONS = 24
WOMEN = {"celebrities": 0.15, "staff": 0.25}  # share of each database; half of the population
PERSONS, IMAGES = 150, 3  # of each database, of each person


def draw_faces(
    women: np.ndarray, images: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw unit embeddings, (n, DIMENSIONS), and the person of each; women share a direction."""
    person = rng.normal(size=(women.size, DIMENSIONS))
    person[women, 0] += 2.5
    of = np.repeat(np.arange(women.size), images)
    face = person[of] + 0.7 * rng.normal(size=(of.size, DIMENSIONS))
    return face / np.linalg.norm(face, axis=1, keepdims=True), of


def compare_faces(
    face: np.ndarray, of: np.ndarray, impostors: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compare all images of each person, and some of different persons: (a, b, same, score)."""
    a, b = np.triu_indices(of.size, 1)
    same = of[a] == of[b]
    drawn = rng.choice(np.flatnonzero(~same), impostors, replace=False)
    kept = np.concatenate([np.flatnonzero(same), drawn])
    a, b = a[kept], b[kept]
    return a, b, same[kept], np.einsum("nd,nd->n", face[a], face[b])


def write_faces(folder: Path, rng: np.random.Generator) -> None:
    """Write the images of both databases, the pairs, the population and the configuration."""
    women = np.concatenate([rng.random(PERSONS) < share for share in WOMEN.values()])
    face, of = draw_faces(women, IMAGES, rng)
    database = np.repeat(list(WOMEN), PERSONS)
    faces = pd.DataFrame(
        {
            "id": [f"{database[p]}-{p:03d}-{at % IMAGES}" for at, p in enumerate(of)],
            "database": database[of],
            "person": of,
            "gender": np.where(women, "f", "m")[of],
        }
    )
    faces.to_csv(folder / "faces.csv", index=False)
    a, b, same, score = compare_faces(face, of, 30_000, rng)
    names = faces["id"].to_numpy()
    pairs = {"id_a": names[a], "id_b": names[b], "same": same, "score": score}
    pd.DataFrame(pairs).to_csv(folder / "pairs.csv", index=False)
    population = pd.DataFrame({"gender": ["f", "m"], "count": [1, 1]})
    population.to_csv(folder / "population.csv", index=False)
    (folder / "run.toml").write_text(CONFIGURATION)


def true_rates(threshold: float, rng: np.random.Generator) -> tuple[float, float]:
    """Compute (FMR, FNMR) on a large sample of the population."""
    face, of = draw_faces(rng.random(20_000) < 0.5, 2, rng)
    a, b = rng.integers(of.size, size=(2, 1_000_000))
    other = of[a] != of[b]
    impostor = np.einsum("nd,nd->n", face[a[other]], face[b[other]])
    genuine = np.einsum("nd,nd->n", face[0::2], face[1::2])
    return float((impostor >= threshold).mean()), float((genuine < threshold).mean())


def main() -> None:
    """Weigh the databases, judge the pairs, and compare with the population."""
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_faces(folder, rng)
        out = str(folder / "results")
        assert run_command(["weigh", str(folder / "run.toml"), "-o", out, "--quiet"]) == 0
        pairs = ["--pairs", str(folder / "pairs.csv"), "--by", "gender", "--fmr", "0.01"]
        assert run_command(["evaluate", out, *pairs, "-o", str(folder / "judged")]) == 0
        record = json.loads((folder / "judged" / "pairs.json").read_text())
    point = record["overall"]["points"][0]
    fmr, fnmr = true_rates(point["threshold"], rng)
    for name, truth in (("fmr", fmr), ("fnmr", fnmr)):
        rate = point[name]
        low, high = rate["interval"]
        print(
            f"{name:5} unweighted {rate['unweighted']:.4f}   weighted {rate['value']:.4f} "
            f"({low:.4f} to {high:.4f})   population {truth:.4f}"
        )


if __name__ == "__main__":
    main()
