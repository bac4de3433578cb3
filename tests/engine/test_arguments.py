"""What annotations state is checked; what they leave open is not."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import unskew
from raising import refused
from unskew import ConfigError, DataError
from unskew.engine import arguments
from unskew.engine.arguments import (
    Count,
    Numbers,
    OneOrMore,
    OpenShare,
    check_arguments,
    checked,
)
from unskew.records import Floats, Ints, Pool
from unskew.records.arrays import Randomness, seed_of

if TYPE_CHECKING:
    from unskew import Target, Weights


class Options(TypedDict, total=False):
    tol: OpenShare
    throw: bool


@checked
def call(
    pool: Pool | None = None,
    weights: Weights | None = None,
    *rest: int,
    level: OpenShare = 0.9,
    factor: OneOrMore = 2.0,
    n: Count | None = None,
    way: Literal["auto", "half"] = "auto",
    on: bool = False,
    features: Sequence[str] | None = None,
    names: Collection[str] = (),
    shares: Mapping[str, float] | None = None,
    pair: tuple[float, float] = (0.0, 1.0),
    rng: Randomness = 0,
    values: npt.ArrayLike | None = None,
    numbers: Numbers | None = None,
    path: str | Path | None = None,
    advance: Callable[[int], None] | None = None,
    target: Target | None = None,
    **options: Unpack[Options],
) -> str:
    """Say that all is well."""
    return "ok"


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("level", [0.5, np.float32(0.5), Fraction(1, 2)], [0, 1, "0.5", None, True, np.nan, 1j]),
        ("factor", [1, 2.5, np.inf], [0.5, -np.inf, np.nan, "2"]),
        ("n", [1, np.int64(3), None], [0, 1.0, True, np.bool_(True), 2**63, 10**400, "1"]),
        ("way", ["auto", np.str_("half")], ["other", None, 1, ["auto"]]),
        ("on", [True, np.bool_(False)], ["False", 0, 1, None]),
        ("features", [["a"], ("a",), np.array(["a"]), pd.Index(["a"]), None], ["a", [1], {"a"}, 3]),
        ("names", [{"a"}, ["a"], {"a": 1}.keys()], ["a", {"a": 1}, 5]),
        ("shares", [{"a": 1}, {}], [{"a": "1"}, {1: 1.0}, [("a", 1.0)]]),
        ("pair", [(0, 1), [0.0, 1.0], np.zeros(2)], [(1,), (0, "1"), 1.0]),
        ("rng", [0, 2**63, np.random.default_rng(0)], [-1, 0.5, None, True, 10**400]),
        (
            "values",
            [[1, 2], ["a"], pd.Series([1]), np.zeros((2, 2))],
            [1, "a", [1j], {}, [[], 1]],
        ),
        ("numbers", [[1, 2], [], pd.Series([1]), np.zeros(2)], [["a"], [None, "a"], 1, [1j]]),
        ("advance", [print, len, None], [3, "print"]),
        ("tol", [0.5], [None, 2.0]),
        ("throw", [True], ["True"]),
    ],
)
def test_an_annotation_is_the_rule(name: str, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert call(**{name: value}) == "ok"
    for value in wrong:
        with pytest.raises((ConfigError, DataError)) as caught:
            call(**{name: value})
        assert caught.value.facts["option"] == name
        assert str(caught.value).startswith(f"call: {name} is ")


def test_records_are_known_by_their_class_and_stand_ins_are_left_to_who_reads_them() -> None:
    pool = Pool.from_arrays(["a", "b"])
    assert call(pool) == call(None, SimpleNamespace(weight=1)) == "ok"
    for wrong in (pool.frame, "pool", 3, Pool, np.zeros(2)):
        with refused(DataError, option="pool"):
            call(wrong)
    with refused(DataError, option="weights"):
        call(None, pool)
    with refused(ConfigError, option="target"):
        call(target=pool)
    with refused(ConfigError, option="rest"):
        call(None, None, 1, 2, "3")


def test_index_letters_state_the_shape() -> None:
    @checked
    def fit(X_nd: npt.NDArray[Any], label_n: Ints, weight_n: Floats | None = None) -> str:
        return "ok"

    assert fit(np.zeros((3, 2)), np.arange(3), weight_n=None) == "ok"
    with refused(DataError, option="X_nd", limit=2):
        fit(np.zeros(3), np.arange(3))
    with refused(DataError, option="weight_n", count=2, limit=3):
        fit(np.zeros((3, 2)), np.arange(3), np.zeros(2))
    with refused(DataError, option="label_n"):
        fit(np.zeros((3, 2)), np.zeros(3))


def test_a_message_says_what_is_allowed_and_stays_short() -> None:
    with refused(ConfigError, allowed=["auto", "half"], value="haf") as caught:
        call(way="haf")
    assert "Did you mean 'half'?" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        call(n=10**5000)
    assert len(str(caught.value)) < 500


def test_signature_docstring_and_pickling_stay() -> None:
    assert list(inspect.signature(unskew.debias).parameters)[:3] == ["pool", "bias", "target"]
    assert "tol" in inspect.signature(unskew.debias).parameters
    assert call.__doc__ == "Say that all is well."
    assert pickle.loads(pickle.dumps(unskew.debias)) is unskew.debias
    model = unskew.bias.Tilt(["z"], degree=2)
    assert pickle.loads(pickle.dumps(model)) == model
    assert model.__init__.__qualname__ == "Tilt.__init__"


def test_arguments_may_be_checked_later() -> None:
    with refused(ConfigError, option="level"):
        check_arguments(call, {"level": 2.0}, "Model")
    check_arguments(call, {"level": 0.5}, "Model")


def test_a_seed_is_below_2_to_the_32() -> None:
    assert seed_of(2**32 - 1) == 2**32 - 1
    for large in (2**32, 2**63, 2**127):
        assert 0 <= seed_of(large) == seed_of(large) < 2**31


def test_columns_of_complex_numbers_are_refused() -> None:
    frame = pd.DataFrame({"source": ["a", "b"], "z": [1j, 2.0]})
    with refused(DataError, columns=["z"]):
        Pool.from_frame(frame)
    with refused(DataError, columns=["z"]):
        unskew.bias.read_feature_column(frame, "z")


def test_annotated_with_something_else_is_what_it_annotates() -> None:
    @checked
    def label(label_n: Annotated[Ints, arguments.ANY_RANK]) -> str:
        return "ok"

    assert label(np.zeros((2, 2), dtype=int)) == "ok"
    with refused(DataError, option="label_n"):
        label(["a"])


def test_what_is_unusual_and_right_is_accepted() -> None:
    """Calls that an annotation taken by its letter would refuse."""
    edges = {"age": [-np.inf, 40, np.inf]}
    assert unskew.bias.Strata("age", bins=edges).bins == {"age": (-np.inf, 40.0, np.inf)}
    assert unskew.Target.uniform("age", bins=edges).bins == {"age": (-np.inf, 40.0, np.inf)}
    assert unskew.bias.Tilt(["z"], reference=3).reference == "3"  # type: ignore[arg-type]
    pool = Pool.from_arrays(
        pd.Categorical(["a", "b", "a"]), label=[["x"], ["x", "y"], []], z=range(3)
    )
    assert len(pool.take([True, False, True])) == len(pool.take(pd.Index([0, 1]))) == 2
    weights = unskew.debias_weights(np.ones((3, 2)), ["a", "b", "a"], max_steps=np.int64(50))
    assert weights.sensitivity([0, 1, 1], np.inf).high == 1.0
    assert unskew.trim_weights([0.5, 0.25, 0.25], at=np.inf).n_trimmed == 0
    assert unskew.bias.Known(np.ones((3, 2))).fit(pool).names == ("a", "b")
