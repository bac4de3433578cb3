"""The examples that a reader will copy run as they stand; the demo prints what it promises."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def _blocks(page: Path) -> list[str]:
    return _PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if _blocks(page)], ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run_in_order(page: Path) -> None:
    exec(compile("\n".join(_blocks(page)), page.name, "exec"), {"__name__": "page"})


def test_the_readme_example_is_short_and_finds_the_truth() -> None:
    """The target mean is 0.5 by construction; the plain mean is off by more than ten of its standard errors."""
    (block,) = _blocks(ROOT / "README.md")
    assert len([line for line in block.splitlines() if line.strip() and not line.startswith("#")]) <= 15
    scope: dict[str, object] = {}
    exec(block, scope)
    estimate = scope["weights"].mean(scope["brightness"])
    assert abs(estimate.value - 0.5) < 4 * estimate.stderr
    assert float(np.mean(scope["brightness"])) == pytest.approx(0.63, abs=0.005)


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("[A-Z]*.md"))], ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not broken
