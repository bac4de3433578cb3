"""The weights of every arm of the tables, for one draw of a setting."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from paper.acquisition_experiments import soft_box_weights
from paper.article_procedure import article_weights, boxes
from paper.as_published import last_source_weights, published_weights
from paper.class_experiments import exact_weights
from paper.settings import BORDER, UNBIASED, Acquisition, Draw, Population, Setting
from unskew.errors import UnskewError, UnskewWarning
from unskew.records import Floats, Ints, Target
from unskew.scenarios import Scenario
from unskew.solve.normalizers import check_overlap

# Of choose_bias: with five, as is its default, the soft boxes alone would take as long as all other
# arms.
FOLDS = 2


@dataclass(frozen=True, eq=False)
class Weighted:
    """Images of the population by number with their weights; None where there is no solution.

    ``note``: why there is none, or what was chosen.
    """

    index: Ints = field(repr=False)
    weight: Floats | None = field(repr=False)
    note: str | None = None

    @property
    def ess(self) -> float:
        """Return Kish's (Σ w)²/Σ w²."""
        return (
            0.0
            if self.weight is None
            else float(self.weight.sum() ** 2 / np.square(self.weight).sum())
        )


def reference_images(population: Population, arm: str, size: int, run: int) -> Weighted:
    """Return the images of Ref (all, once) or fair Ref (an unbiased sample).

    Fair Ref has as many images as the setting's sources, drawn with replacement as they are.
    """
    n = population.label.size
    index_n = (
        np.arange(n) if arm == "ref" else np.random.default_rng([run, size]).integers(0, n, size)
    )
    return Weighted(index_n, np.ones(index_n.size))


def weigh_arm(
    arm: str, setting: Setting, scenario: Scenario, population: Population, run: int
) -> Weighted:
    """Compute the weights of an arm.

    ω̂ is the article's: min–max boxes of the border for acquisition, n_k^(y) for all other
    settings.
    """
    if scenario.index is None:
        raise ValueError("the tables draw from a population of images.")
    if arm in ("product", "chosen"):
        draw = setting.draw(population, run)
        return _product(draw, run) if arm == "product" else _chosen(draw, run)
    source_n = scenario.source
    if arm == "naive":
        return Weighted(scenario.index, np.ones(source_n.size))
    if arm == "soft_box":
        return _with_note(scenario, soft_box_weights(scenario, run), None)
    if arm == "true":
        return _with_note(scenario, exact_weights(scenario.omega, source_n), scenario.omega)
    estimated_nk = _estimated(setting, scenario)
    if arm == "exact":
        return _with_note(scenario, exact_weights(estimated_nk, source_n), estimated_nk)
    if arm == "article":
        return Weighted(scenario.index, article_weights(estimated_nk, source_n, seed=run))
    if arm == "as_published":
        publish = last_source_weights if isinstance(setting, Acquisition) else published_weights
        return Weighted(scenario.index, publish(estimated_nk, source_n, seed=run))
    raise ValueError(f"there is no arm {arm!r}.")


def _estimated(setting: Setting, scenario: Scenario) -> Floats:
    if isinstance(setting, Acquisition):
        assert scenario.features is not None
        return boxes(scenario.features, scenario.source)
    return scenario.omega_estimated


def _with_note(scenario: Scenario, weight_n: Floats | None, omega_nk: Floats | None) -> Weighted:
    """Pair images and weights; without a solution, name the groups of sources that lack a link.

    The groups are written as ``1 | 2 3 | 4 5``.
    """
    assert scenario.index is not None
    if weight_n is not None:
        return Weighted(scenario.index, weight_n)
    if omega_nk is None:
        return Weighted(scenario.index, None, "not connected")
    names = [str(k + 1) for k in range(omega_nk.shape[1])]
    groups = check_overlap(omega_nk, scenario.source, names=names).components
    return Weighted(
        scenario.index, None, "not connected: " + " | ".join(" ".join(group) for group in groups)
    )


def _product(draw: Draw, run: int) -> Weighted:
    from unskew.debiasing.pool_weights import debias

    bias, target = draw.families["product"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        try:
            return Weighted(draw.index, debias(draw.pool, bias, target, rng=run).weight)
        except UnskewError as error:
            return Weighted(draw.index, None, _first_sentence(error))


def _chosen(draw: Draw, run: int) -> Weighted:
    """Weigh with the family that `choose_bias` takes, from the same candidates everywhere.

    It knows that the classes of the target are equally frequent.
    """
    from unskew.bias import Bias, Box, Product, SoftBox, Strata, Tilt
    from unskew.choosing.ranking import choose_bias

    border = list(BORDER)
    candidates: dict[str, Bias] = {
        "Strata(label)": Strata("label"),
        "Box(border)": Box(border),
        "SoftBox(border)": SoftBox(border),
    }
    if UNBIASED in draw.pool.names:
        tilt = Tilt([BORDER[2]], reference=UNBIASED)
        candidates |= {
            "Tilt(value)": tilt,
            "Strata(label) × Tilt(value)": Product(Strata("label"), tilt),
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        try:
            choice = choose_bias(
                draw.pool, candidates, Target.uniform("label"), folds=FOLDS, check=False, rng=run
            )
        except UnskewError as error:
            return Weighted(draw.index, None, _first_sentence(error))
    if choice.weights is None:
        return Weighted(draw.index, None, "nothing chosen")
    return Weighted(draw.index, choice.weights.weight, choice.name)


def _first_sentence(error: UnskewError) -> str:
    return str(error).split(". ")[0][:200]
