"""What every bias model is: names of sources, the rows of a fit, descriptions, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from mixed_sources import simple_pool
from raising import refused
from unskew import ConfigError, DataError, Target, debias, debias_weights
from unskew.bias import Bias, Box, Product, Tilt
from unskew.bias.base import BiasData, Description, Factor, source_names


def test_names_of_sources_are_text_and_one_source_is_named_once() -> None:
    assert source_names([1, "b", 2.0, np.int64(7)], "omega") == ["1", "b", "2", "7"]
    with refused(ConfigError, option="omega", source="1"):
        source_names([1, "a", "1"], "omega")


def five_rows() -> BiasData:
    return BiasData(
        frame=pd.DataFrame({"x": np.arange(5.0)}),
        source=np.array([0, 1, 0, 1, 2]),
        names=("day", "night", "(target sample)"),
        n_pool=4,
        sample=2,
        reference=2,
        cell=np.array([0, 1, 1, 0, 1]),
        n_cells=2,
        unit=np.array([7, 7, 8, 9, 9]),
    )


def test_rows_that_are_left_out_leave_every_column_and_the_count_of_the_pool() -> None:
    data = five_rows()
    kept = data.kept(np.array([True, False, False, True, True]))
    assert kept.frame["x"].tolist() == [0.0, 3.0, 4.0]
    assert kept.frame.index.tolist() == [0, 1, 2]
    assert kept.source.tolist() == [0, 1, 2]
    assert kept.cell.tolist() == [0, 0, 1]
    assert kept.fold_group.tolist() == [7, 9, 9]
    assert (kept.n_pool, kept.n_sources, kept.n_cells) == (2, 3, 2)
    assert len(data.frame) == 5


def test_a_source_is_found_by_name_or_named_with_the_others() -> None:
    assert five_rows().find_source("night", "reference") == 1
    with refused(ConfigError, option="reference", source="nigth") as caught:
        five_rows().find_source("nigth", "reference")
    assert caught.value.facts["sources"] == ["day", "night", "(target sample)"]
    assert "Did you mean 'night'?" in str(caught.value)


def test_a_description_says_every_sentence_in_a_line_of_its_own() -> None:
    described = Description("Tilt", ("p", "q"), ("r",), "the reference", notes=("s",))
    assert str(described).splitlines() == [
        "Tilt, for the target.",
        "Assumed: p",
        "Assumed: q",
        "Estimated: r",
        "Common factor c(z): the reference",
        "Note: s",
    ]


@dataclass(frozen=True, eq=False)
class Bright(Factor):
    """e^{x} for the second source."""

    def log_omega(self, frame: pd.DataFrame) -> Any:
        return np.column_stack([np.zeros(len(frame)), frame["x"]])

    def describe(self) -> Description:
        return Description("Bright", (), (), "the family")


@dataclass(frozen=True)
class BrightBias(Bias):
    """A model of a user's own; ``scale`` is not used."""

    family: ClassVar[str] = ""  # named ones are families of configurations
    scale: float = 1.0

    def estimate(self, data: BiasData, log_offset_rk: Any, start: Factor | None = None) -> Factor:
        assert data.names == ("b", "a")
        assert log_offset_rk.shape == (len(data.frame), 2)
        return Bright()


def test_a_model_of_ones_own_needs_estimate_alone() -> None:
    pool = simple_pool()
    weights = debias(pool, BrightBias())
    omega = np.column_stack([np.ones(300), np.exp(pool.frame["x"])])
    np.testing.assert_allclose(weights.weight, debias_weights(omega, pool.source).weight, rtol=1e-9)
    assert BrightBias().parts == (BrightBias(),)
    assert (BrightBias().columns, BrightBias().reference_source) == ((), None)
    assert BrightBias().has_offset


def test_a_factor_without_parameters_has_none_of_what_they_need() -> None:
    factor, frame = Bright(), pd.DataFrame({"x": [1.0]})
    assert factor.n_parameters == 0
    assert factor.penalty.shape == (0, 0)
    assert factor.is_smooth
    assert not factor.in_doubt
    assert factor.rival(five_rows(), np.zeros((5, 2))) is None
    assert factor.linear_derivative(frame) is None
    assert factor.fitted_log_omega() is None
    with pytest.raises(NotImplementedError, match="Bright"):
        factor.jacobian(frame)


def test_settings_are_those_that_are_not_at_their_default() -> None:
    assert BrightBias().settings() == {}
    assert BrightBias(2.0).settings() == {"scale": 2.0}
    # An int is no float of the same value: what was written is what is read.
    assert BrightBias(1).settings() == {"scale": 1}
    assert Tilt(["x"], reference="a").settings() == {"features": ("x",), "reference": "a"}


def test_settings_of_another_family_are_refused() -> None:
    written = Tilt(["x"], reference="a").to_dict()
    assert Bias.from_dict(written) == Tilt.from_dict(written) == Tilt(["x"], reference="a")
    with refused(ConfigError, option="family", value="tilt", allowed=["box"]):
        Box.from_dict(written)


def test_fit_takes_a_pool_and_a_target() -> None:
    pool = simple_pool()
    for model in (Tilt(["x"], reference="a"), Product(Box(["x"]))):
        with refused(DataError, option="pool", value="DataFrame"):
            model.fit(pool.frame)
        with refused(ConfigError, option="target", value={"label": 1}):
            model.fit(pool, {"label": 1})
    assert Tilt(["x"]).fit(pool, Target.source("a")).names == pool.names
