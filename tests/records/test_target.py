"""A target says in a line what is known of the population."""

import pytest

import unskew
from unskew import Pool, Target

POOL = Pool.from_arrays(["a", "a", "b"], label=["x", "y", "x"])


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target.uniform(["label", "light"]), ("uniform", "label × light")),
        (Target.margins({"label": {"x": 0.5, "y": 0.5}}), ("margins", "label (2)")),
        (
            Target.margins({"age": [0.5, 0.5]}, bins={"age": [0, 40, 80]}),
            ("age (2)", "bins of age"),
        ),
            Target.margins({"age": [0.5, 0.5]}, bins={"age": [0, 40, 80]}),
            ("age (2)", "bins of age"),
        ),
        (Target.sample(POOL, 0.25), ("sample", "3 images", "holdout 0.25")),
        (Target.source("survey"), ("'survey'",)),
        (
            Target.uniform("label", uncovered="restrict", unit="group"),
            ("unit group", "uncovered restrict"),
        ),
    ],
)
def test_repr_is_one_line_with_what_is_known(target: unskew.Target, words: tuple[str, ...]) -> None:
    shown = repr(target)
    assert "\n" not in shown
    assert len(shown) < 120
    assert [word for word in words if word not in shown] == []
