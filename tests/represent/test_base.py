"""Names, settings and functions of the user's own."""

import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.represent.color import BorderHsv, MeanHsv
from unskew.represent.user_functions import REPRESENTATIONS, read_representations


def test_names_settings_and_objects() -> None:
    assert read_representations("mean_hsv") == (MeanHsv(),)
    assert read_representations({"name": "border_hsv", "width": 4}) == (BorderHsv(width=4),)
    assert read_representations(["mean_hsv", BorderHsv(3)]) == (MeanHsv(), BorderHsv(3))


@pytest.mark.parametrize("name", [name for name in REPRESENTATIONS if name != "embedding"])
def test_every_name_is_the_name_of_its_representation(name: str) -> None:
    (representation,) = read_representations(name)
    assert representation.name == name
    assert all(column.startswith(name) for column in representation.columns)
    assert set(representation.text_columns) <= set(representation.columns)
    assert representation.to_dict()["name"] == name


@pytest.mark.parametrize(
    ("features", "facts", "hint"),
    [
        ("boarder_hsv", {"value": "boarder_hsv"}, "Did you mean 'border_hsv'"),
        ({"name": "border_hsv", "widht": 4}, {"option": "widht"}, "Did you mean 'width'"),
        ({"name": "brightness", "width": 4}, {"option": "width", "allowed": []}, ""),
        ({"name": "border_hsv", "width": "4"}, {"option": "width", "value": "4"}, ""),
        ({"width": 4}, {"value": {"width": 4}}, "name ="),
        ([7], {"value": "7"}, ""),
        (["brightness", "brightness"], {"value": "brightness"}, ""),
        ("no_such_module:function", {"value": "no_such_module:function"}, "No module named"),
        ("numpy:no_such_function", {"value": "numpy:no_such_function"}, "has no"),
        ("numpy:pi", {"value": "numpy:pi"}, "float"),
    ],
)
def test_mistakes_are_named(features: object, facts: dict[str, object], hint: str) -> None:
    with refused(ConfigError, **facts) as caught:
        read_representations(features)  # type: ignore[arg-type]
    assert hint in str(caught.value)
