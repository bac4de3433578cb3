"""How close weights are to the truth of simulated databases, compared with equal weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import DataError
from unskew.files.checksums import check_files
from unskew.files.reading import damage_named, read_json, read_parquet
from unskew.records import Floats
from unskew.simulation.files import POPULATION, TRUTH, TRUTH_RECORD

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Closeness:
    """How far some weights are from the truth.

    weight_distance : ½ Σ_i |π_i − π*_i|, total variation from the true weights; 0 is perfect, 1 is
        as far as can be.
    label_distance : ½ Σ_y |mass of y − share in the population|; None without labels.
    feature_distances : {feature: 1-D Wasserstein distance from the population, in its standard
        deviations}.
    """

    weight_distance: float
    label_distance: float | None
    feature_distances: dict[str, float]


@dataclass(frozen=True)
class TruthComparison:
    """Weights of a run, and equal weights, compared with the truth.

    ``missing`` counts the images of the truth that the run does not have.
    """

    scenario: str
    images: int
    missing: int
    debiased: Closeness
    naive: Closeness
    true: Closeness

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Describe the distances, one kind in a line."""
        naive, debiased, true = self.naive, self.debiased, self.true
        missing = (
            f" ({self.missing:,} of the simulation are not in the results)" if self.missing else ""
        )
        lines = [
            f"{self.images:,} images{missing}, scenario {self.scenario}. Distances from the truth, "
            "smaller is better:",
            f"  weights from the true ones (total variation): naive {naive.weight_distance:.4f}, "
            f"debiased {debiased.weight_distance:.4f}",
        ]
        if (
            naive.label_distance is not None
            and debiased.label_distance is not None
            and true.label_distance is not None
        ):
            lines.append(
                "  labels from the population (total variation): naive "
                f"{naive.label_distance:.4f}, debiased {debiased.label_distance:.4f}, true "
                f"weights {true.label_distance:.4f}"
            )
        for name in naive.feature_distances:
            lines.append(
                f"  {name} from the population (Wasserstein, in standard deviations): naive "
                f"{naive.feature_distances[name]:.4f}, debiased "
                f"{debiased.feature_distances[name]:.4f}, true weights "
                f"{true.feature_distances[name]:.4f}"
            )
        return lines


def compare_with_truth(simulated: Path, results: Path) -> TruthComparison:
    """Compare the weights of a run with the truth of the simulation that it debiased.

    simulated : folder that `unskew simulate` wrote.
    results : folder that `unskew weigh` wrote.
    """
    from unskew.weigh.weights_table import read_weights_table

    for name in (TRUTH, TRUTH_RECORD, POPULATION):
        if not (simulated / name).is_file():
            raise _no_file(simulated / name, "unskew simulate")
    if not (results / "weights.parquet").is_file():
        raise _no_file(results / "weights.parquet", "unskew weigh")
    check_files(results, ("weights.parquet",))
    weights = read_weights_table(results / "weights.parquet")
    with damage_named(simulated, "a simulation", silent=False):
        return _compare(simulated, results, weights)


def _compare(simulated: Path, results: Path, weights: pd.DataFrame) -> TruthComparison:
    truth, population = read_parquet(simulated / TRUTH), read_parquet(simulated / POPULATION)
    joined = truth.merge(
        weights[["id", "weight"]].rename(columns={"weight": "debiased"}).astype({"id": str}),
        on="id",
    )
    if len(joined) < len(weights) or not len(joined):
        raise DataError(
            f"{len(weights) - len(joined):,} of {len(weights):,} images of {str(results)!r} are "
            f"not among those of {str(simulated)!r}. Are these the results of that simulation?",
            path=str(results),
            count=len(weights) - len(joined),
        )
    drawn = population.set_index("id").loc[joined["image"]].reset_index(drop=True)
    true_n = joined["weight"].to_numpy() / joined["weight"].sum()
    arms = {
        "debiased": joined["debiased"].to_numpy() / joined["debiased"].sum(),
        "naive": np.full(len(joined), 1.0 / len(joined)),
        "true": true_n,
    }
    record = read_json(simulated / TRUTH_RECORD)
    return TruthComparison(
        scenario=str(record["scenario"]),
        images=len(joined),
        missing=len(truth) - len(joined),
        **{arm: _closeness(weight_n, true_n, drawn, population) for arm, weight_n in arms.items()},
    )


def _no_file(path: Path, command: str) -> DataError:
    return DataError(
        f"{str(path.parent)!r} contains no {path.name}, which `{command}` writes.", path=str(path)
    )


def _closeness(weight_n: Floats, true_n: Floats, drawn: Any, population: Any) -> Closeness:
    from scipy.stats import wasserstein_distance

    distances = {}
    for name in population.columns:
        if population[name].dtype.kind == "f" and float(population[name].std(ddof=0)) > 0:
            apart = wasserstein_distance(drawn[name], population[name], weight_n)
            distances[str(name)] = float(apart / population[name].std(ddof=0))
    return Closeness(
        float(np.abs(weight_n - true_n).sum() / 2),
        _label_distance(weight_n, drawn, population),
        distances,
    )


def _label_distance(weight_n: Floats, drawn: Any, population: Any) -> float | None:
    import pandas as pd

    if "label" not in population.columns or population["label"].isna().any():
        return None
    target = population["label"].value_counts(normalize=True)
    mass = pd.Series(weight_n).groupby(drawn["label"]).sum().reindex(target.index, fill_value=0.0)
    return float((mass - target).abs().sum() / 2)
