"""Biased databases drawn from a clean one, to rehearse where the truth is known.

The images of a folder are the population, and the target. A scenario of `unskew.scenarios` draws
from it, with replacement.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few, wrong_option
from unskew.records import Floats, Ints, Pool
from unskew.records.levels import by_value, holds_lists, level_text
from unskew.scenarios import Scenario, acquisition, censored, geometric_sizes, overlapping_classes

if TYPE_CHECKING:
    import pandas as pd

# Which images the censored source may show: a column of its manifest, of 0 and 1.
SHOWN = "shown"
_CENSORED_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class Simulation:
    """Databases drawn from a population, and what debiases them.

    kind : name of the scenario.
    settings : what it was drawn with, as plain values.
    names : of the K sources.
    scenario : the draw with its truth.
    population : the images drawn from; ``scenario.index`` are rows of it.
    represent, target, bias : sections of the configuration that debiases the databases.
    columns : further columns of the drawn images, by name.
    """

    kind: str
    settings: Mapping[str, Any]
    names: tuple[str, ...]
    scenario: Scenario
    population: Pool = field(repr=False)
    bias: Mapping[str, Any]
    represent: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def index(self) -> Ints:
        """(n,) the row of the population that each drawn image is."""
        assert self.scenario.index is not None
        return self.scenario.index

    @property
    def repeat(self) -> Ints:
        """(n,) 1, 2, …: number of this draw among its source's draws of the same image."""
        import pandas as pd

        drawn = pd.DataFrame({"source": self.scenario.source, "image": self.index})
        return np.asarray(
            drawn.groupby(["source", "image"]).cumcount().to_numpy(dtype=np.int64) + 1
        )

    @property
    def true_weight(self) -> Floats:
        """(n,) π_i ∝ 1/Σ_k λ_k ω_ik/Ω_k with the true ω and Ω; Σ = 1."""
        share_k = self.scenario.sizes / self.scenario.sizes.sum()
        weight_n = 1.0 / (self.scenario.omega @ (share_k / self.scenario.normalizer))
        return np.asarray(weight_n / weight_n.sum())


def read_population(
    path: Path,
    *,
    features: Sequence[str] = (),
    jobs: int | None = None,
    progress: bool | None = None,
) -> Pool:
    """Read the images of a folder, table, file of arrays or CIFAR archive, with features.

    All sources and splits are taken together. Images that cannot be read are not part of the
    population, if features are computed from their pixels.
    """
    from unskew.represent.pool_features import represent_images
    from unskew.sources.discovery import find_sources
    from unskew.sources.readers import read_sources

    pool = read_sources(find_sources([path], Path()), Path())
    if pool.images is None:
        raise DataError(
            f"{str(path)!r} is only a table, without images; simulated databases consist of "
            "images.",
            path=str(path),
        )
    if features:
        pool = represent_images(pool, list(features), jobs=jobs, tolerance=1.0, progress=progress)
    if not len(pool):
        raise DataError(f"not one image of {str(path)!r} can be read.", path=str(path))
    return pool


def simulate_overlapping_classes(
    population: Pool,
    *,
    overlap: float,
    n_sources: int = 5,
    sizes: int | Sequence[int] | None = None,
    ratio: float = 1.0,
    seed: int = 0,
) -> Simulation:
    """Simulate section 4.2 of the article: sources with classes of their own, which overlap.

    Source k shows its own classes and, with probability ``overlap``, those of the next source.
    Classes are in the order of their names (numbers by value).
    """
    levels, code_n = _labels(population)
    if n_sources < 1 or len(levels) % n_sources:
        divisors = [k for k in range(2, len(levels) + 1) if len(levels) % k == 0]
        way_out = "Use images of two classes or more."
        if divisors:
            way_out = f"Set --sources to one of {first_few(divisors, 12)}."
        raise ConfigError(
            "each source has classes of its own, equally many, so the number of sources must "
            f"divide that of classes: got {n_sources} sources for {len(levels)} classes. {way_out}",
            option="sources",
            value=n_sources,
            allowed=divisors,
        )
    size_k = _sizes(sizes, ratio, len(population), n_sources)
    scenario = overlapping_classes(
        code_n, overlap=overlap, n_sources=n_sources, n_classes=len(levels), sizes=size_k, rng=seed
    )
    return Simulation(
        kind="overlapping-classes",
        settings={"overlap": overlap, "sources": n_sources, "sizes": size_k.tolist(), "seed": seed},
        names=_names("source", n_sources),
        scenario=scenario,
        population=population,
        bias={"family": "strata", "by": ["label"]},
        target={"margins": {"label": {"mass": _counts(levels, code_n)}}},
    )


def simulate_acquisition(
    population: Pool,
    *,
    decay: float,
    features: Sequence[str] = ("border_hsv",),
    sizes: int | Sequence[int] | None = None,
    ratio: float = 1.0,
    seed: int = 0,
) -> Simulation:
    """Simulate section 4.3 of the article: each source prefers one bin of the features.

    The features are cut at their medians; source k sees its own bin fully, and other images the
    less the further away they are. ``population`` has the columns of the features
    (``read_population(path, features=…)``).
    """
    columns = _feature_columns(population, features)
    if len(columns) > 10:
        raise ConfigError(
            f"{len(columns)} features make 2^{len(columns)} bins; name at most ten (got "
            f"{first_few(columns, 12)}).",
            option="features",
            columns=columns,
        )
    feature_nd = population.frame[columns].to_numpy(dtype=np.float64)
    if not np.isfinite(feature_nd).all():
        lacking = [
            name
            for name, good in zip(columns, np.isfinite(feature_nd).all(axis=0), strict=True)
            if not good
        ]
        raise DataError(
            f"some images have no {first_few(lacking)}, and so belong to no bin. Name features "
            "that every image has.",
            columns=lacking,
        )
    size_k = _sizes(sizes, ratio, len(population), 2 ** len(columns))
    scenario = acquisition(feature_nd, decay=decay, sizes=size_k, rng=seed)
    return Simulation(
        kind="acquisition",
        settings={
            "decay": decay,
            "features": list(features),
            "sizes": size_k.tolist(),
            "seed": seed,
        },
        names=_names("bin", 2 ** len(columns), start=0),
        scenario=scenario,
        population=population,
        represent={"features": list(features)},
        bias={"family": "soft_box", "features": list(features)},
    )


def simulate_censored(
    population: Pool,
    *,
    hidden: Sequence[str],
    sizes: int | Sequence[int] | None = None,
    seed: int = 0,
) -> Simulation:
    """Simulate a source that never shows the labels ``hidden``, and a small unbiased one."""
    levels, code_n = _labels(population)
    unknown = [label for label in hidden if label not in levels]
    if unknown or not hidden:
        cause = f"there are no images of {first_few(unknown)}" if unknown else "no label was named"
        raise ConfigError(
            f"--hidden names labels that the censored source never shows; {cause}. The labels are "
            f"{first_few(levels, 12)}.",
            option="hidden",
            value=list(hidden),
            allowed=levels,
        )
    n = len(population) if sizes is None else sizes
    if not isinstance(n, Sequence):
        large = round(_CENSORED_SHARE * n)
        n = [large, n - large]
    size_k = _sizes(n, 1.0, len(population), 2)
    hidden_codes = [levels.index(label) for label in hidden]
    scenario = censored(code_n, hidden=hidden_codes, sizes=size_k, rng=seed)
    assert scenario.index is not None
    is_shown_n = ~np.isin(code_n, hidden_codes)
    return Simulation(
        kind="censored",
        settings={"hidden": list(hidden), "sizes": size_k.tolist(), "seed": seed},
        names=("censored", "unbiased"),
        scenario=scenario,
        population=population,
        bias={
            "family": "subpopulation",
            "queries": {"censored": f"{SHOWN} == 1", "unbiased": "all"},
        },
        columns={SHOWN: is_shown_n[scenario.index].astype(np.int64)},
    )


def read_sizes(text: str | None) -> int | list[int] | None:
    """Parse ``10000`` (all sources together) or ``5000,2500,500`` (each)."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            "--sizes is one whole number for all sources together, or one for each: "
            f"5000,2500,500; got {text!r}.",
            option="sizes",
            value=text,
        ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _sizes(
    sizes: int | Sequence[int] | None, ratio: float, n_population: int, n_sources: int
) -> Ints:
    if isinstance(sizes, Sequence):
        if ratio != 1.0:
            raise ConfigError(
                "--ratio divides a total among the sources; with one size for each source it has "
                "no effect. Omit one of the two.",
                option="ratio",
                value=ratio,
            )
        if len(sizes) != n_sources or min(sizes) < 1:
            raise wrong_option(
                f"--sizes needs {n_sources} whole numbers above 0, one for each source",
                sizes=list(sizes),
            )
        return np.asarray(sizes, dtype=np.int64)
    return geometric_sizes(n_population if sizes is None else sizes, n_sources, ratio)


def _labels(population: Pool) -> tuple[list[str], Ints]:
    """Read the labels: (as text, in their order; (N,) code of every image)."""
    if "label" not in population.frame.columns:
        raise DataError(
            "the images have no labels: put them into one folder for each class, or use another "
            "scenario.",
            column="label",
        )
    column = population.frame["label"]
    if holds_lists(column):
        raise DataError(
            "some images have several labels; this scenario draws images by their only label.",
            column="label",
        )
    if column.isna().any():
        raise DataError(
            f"{int(column.isna().sum())} of {len(column)} images have no label; this scenario "
            "draws images by their label.",
            column="label",
            count=int(column.isna().sum()),
        )
    text_n = [level_text(value) for value in column.tolist()]
    levels = sorted(set(text_n), key=by_value)
    code = {level: number for number, level in enumerate(levels)}
    return levels, np.array([code[text] for text in text_n], dtype=np.int64)


def _counts(levels: Sequence[str], code_n: Ints) -> dict[str, int]:
    return dict(zip(levels, np.bincount(code_n, minlength=len(levels)).tolist(), strict=True))


def _names(word: str, n: int, start: int = 1) -> tuple[str, ...]:
    """Make names of sources that sort by their numbers."""
    width = len(str(start + n - 1))
    return tuple(f"{word}_{number:0{width}d}" for number in range(start, start + n))


def _feature_columns(population: Pool, features: Sequence[str]) -> list[str]:
    from unskew.bias.features import expand_features, is_numeric

    columns = list(expand_features(population.frame, list(features)))
    other = [name for name in columns if not is_numeric(population.frame[name])]
    if other:
        raise ConfigError(
            f"bins are cut at medians, so features are numbers; {first_few(other)} is not.",
            option="features",
            columns=other,
        )
    return columns


def drawn_table(simulation: Simulation) -> pd.DataFrame:
    """List the drawn images, one in a row.

    Columns: id, source, image (its id in the population), label, group, and those of the scenario.
    Every draw has an id of its own; draws of the same image have the same group.
    """
    import pandas as pd

    frame = simulation.population.frame
    image = frame["id"].astype(str).to_numpy(dtype=object)[simulation.index]
    source = np.array(simulation.names, dtype=object)[simulation.scenario.source]
    table = pd.DataFrame({"source": source, "image": image})
    # Always numbered: no id of the population can then look like the repeat of another.
    table.insert(
        0,
        "id",
        [
            f"{name}/{original}#{m}"
            for name, original, m in zip(source, image, simulation.repeat.tolist(), strict=True)
        ],
    )
    if "label" in frame.columns and not holds_lists(frame["label"]):
        table["label"] = _label_text(frame["label"], simulation.index)
    table["group"] = (
        frame["group"].astype(str).to_numpy(dtype=object)[simulation.index]
        if "group" in frame.columns
        else image
    )
    return table.assign(**simulation.columns)


def _label_text(column: pd.Series, index_n: Ints) -> list[str | None]:
    import pandas as pd

    return [
        None if pd.isna(value) else level_text(value) for value in column.iloc[index_n].tolist()
    ]


def common_root(population: Pool) -> tuple[str, list[str]] | None:
    """Find the folder that contains all image files: (folder, their paths within it)."""
    assert population.images is not None
    paths = [population.images.place(row) for row in range(len(population))]
    if any(path is None for path in paths):
        return None
    files = [os.path.abspath(str(path)) for path in paths]
    root = os.path.commonpath([os.path.dirname(file) for file in files])
    return root, [os.path.relpath(file, root) for file in files]
