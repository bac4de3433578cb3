"""Functions of the user's own as representations."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from represent.picture_pools import pool_of, random_pixels, smooth_pixels
from unskew.errors import DataError
from unskew.represent.decode import reduce_images
from unskew.represent.pool_features import represent_images
from unskew.represent.user_functions import OwnFunction


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "own_features.py"
    path.write_text(
        "import numpy as np\n"
        "def redness(images):\n"
        "    return images[..., 0].mean(axis=(1, 2))\n"
        "def corners(images, scale=1.0):\n"
        "    return np.stack([images[:, 0, 0, 0] * scale, images[:, -1, -1, 0] * scale], axis=1)\n"
        "def broken(images):\n"
        "    return images[0]\n"
        "def raising(images):\n"
        "    raise KeyError('no such thing')\n"
    )
    yield path
    sys.modules.pop("own_features", None)


def test_a_function_of_ones_own(own_module: Path) -> None:
    images = [random_pixels(seed=seed) for seed in range(4)]
    frame = represent_images(
        pool_of(images), ["own_features:redness", {"name": "own_features:corners", "scale": 2.0}]
    ).frame
    assert list(frame.columns[3:]) == ["redness", "corners_0", "corners_1"]
    np.testing.assert_allclose(frame["redness"], [image[..., 0].mean() for image in images])
    np.testing.assert_array_equal(frame["corners_1"], [image[-1, -1, 0] * 2.0 for image in images])


def test_it_may_ask_for_reduced_copies(own_module: Path) -> None:
    image = smooth_pixels(256, 256)
    frame = represent_images(
        pool_of([image]), {"name": "own_features:corners", "reduced": True}
    ).frame
    assert frame["corners_0"][0] == reduce_images(image[None])[0, 0, 0, 0]


def test_a_function_itself_will_do() -> None:
    def greenness(images: np.ndarray) -> np.ndarray:
        return images[..., 1].mean(axis=(1, 2))

    images = [random_pixels(seed=seed) for seed in range(3)]
    frame = represent_images(pool_of(images), greenness).frame
    (column,) = frame.columns[3:]
    assert column.endswith("greenness")
    np.testing.assert_allclose(frame[column], [image[..., 1].mean() for image in images])


def test_its_errors_carry_its_name(own_module: Path) -> None:
    for name, hint in (("broken", "own_features:broken"), ("raising", "KeyError")):
        with pytest.raises(DataError, match=hint) as caught:
            represent_images(pool_of([random_pixels()]), f"own_features:{name}")
        assert f"own_features:{name}" in str(caught.value)


def test_what_was_remembered_of_a_function_holds_until_its_file_changes(
    own_module: Path, tmp_path: Path
) -> None:
    first = OwnFunction.from_mapping("own_features:redness", {})
    assert first.to_dict() == OwnFunction.from_mapping("own_features:redness", {}).to_dict()
    assert (
        first.to_dict()
        != OwnFunction.from_mapping("own_features:redness", {"reduced": True}).to_dict()
    )
    own_module.write_text(own_module.read_text() + "\n# changed\n")
    assert first.to_dict() == first.to_dict()
    assert first.to_dict() != OwnFunction.from_mapping("own_features:redness", {}).to_dict()


def _multiplied(factor: float) -> Any:
    def mean(images: np.ndarray) -> np.ndarray:
        return images.mean(axis=(1, 2, 3)) * factor

    return mean


class _Multiplied:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def mean(self, images: np.ndarray) -> np.ndarray:
        return images.mean(axis=(1, 2, 3)) * self.factor


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            lambda images: images.mean(axis=(1, 2, 3)),
            lambda images: 3 * images.mean(axis=(1, 2, 3)),
        ),
        (_multiplied(1), _multiplied(3)),
        (_Multiplied(1).mean, _Multiplied(3).mean),
    ],
)
def test_functions_of_one_name_and_file_are_not_taken_for_one_another(
    tmp_path: Path, first: Any, second: Any
) -> None:
    pool = pool_of([random_pixels(seed=at) for at in range(3)])
    one = represent_images(pool, [first], cache=tmp_path).frame.iloc[:, -1]
    three = represent_images(pool, [second], cache=tmp_path).frame.iloc[:, -1]
    np.testing.assert_allclose(three, 3 * one, rtol=1e-12)
