"""The examples that a reader will copy run unchanged, and links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import write_picture

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("guides/*.md")),
    *sorted((ROOT / "docs").glob("reference/*.md")),
    *sorted((ROOT / "docs").glob("tutorials/*.md")),
]
_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def _blocks(page: Path) -> list[str]:
    return _PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write photos/north and photos/south, with two classes each, which the pages use."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for vendor, bags in (("north", 30), ("south", 12)):
        for i in range(40):
            kind = "bag" if i < bags else "shoe"
            write_picture(
                folder / "photos" / vendor / kind / f"sku{i:03d}.jpg", rng.uniform(40, 220, 3), rng
            )
    return folder


@pytest.mark.parametrize(
    "page",
    # The tutorials have a test of their own.
    [page for page in PAGES if _blocks(page) and page.parent.name != "tutorials"],
    ids=lambda page: page.name,
)
def test_the_python_blocks_of_a_page_run_in_order(
    page: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    exec(compile("\n".join(_blocks(page)), page.name, "exec"), {"__name__": "page"})


def test_the_readme_examples_are_short_and_find_the_truth() -> None:
    """The target means are 0.5 and 43.8 by construction; the plain means are off by many of their
    standard errors.
    """
    scope: dict[str, object] = {}
    truths = {"brightness": (0.5, 0.63, 0.005), "kg": (0.7 * 60 + 0.3 * 6, 51.0, 1.5)}
    # The first block is about files; these two are about numbers.
    for block, (name, (truth, plain, off)) in zip(
        _blocks(ROOT / "README.md")[1:], truths.items(), strict=True
    ):
        assert (
            len([line for line in block.splitlines() if line.strip() and not line.startswith("#")])
            <= 15
        )
        exec(block, scope)
        estimate = scope["weights"].mean(scope[name])
        assert abs(estimate.value - truth) < 4 * estimate.stderr < 4 * abs(plain - truth) / 4
        assert float(np.mean(scope[name])) == pytest.approx(plain, abs=off)


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted(ROOT.glob("[A-Z]*.md"))], ids=lambda page: page.name
)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    broken = [
        link
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert not broken


def test_the_five_lines_of_the_readme_are_five(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = _blocks(ROOT / "README.md")[0]
    assert (
        len([line for line in block.splitlines() if line.strip() and not line.startswith("import")])
        == 5
    )
    monkeypatch.chdir(photos)
    scope: dict[str, object] = {}
    exec(block, scope)
    weight = pd.read_parquet("weights.parquet")
    pool = scope["pool"].frame
    np.testing.assert_allclose(weight.groupby(pool["label"].to_numpy())["weight"].sum(), 0.5)
    assert "<html" in Path("report.html").read_text(encoding="utf-8")
