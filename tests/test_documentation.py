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


def test_the_readme_examples_are_short_and_find_the_truth() -> None:
    """The target means are 0.5 and 43.8 by construction; the plain means are off by many of their standard errors."""
    scope: dict[str, object] = {}
    truths = {"brightness": (0.5, 0.63, 0.005), "kg": (0.7 * 60 + 0.3 * 6, 51.0, 1.5)}
    for block, (name, (truth, plain, off)) in zip(_blocks(ROOT / "README.md"), truths.items(), strict=True):
        assert len([line for line in block.splitlines() if line.strip() and not line.startswith("#")]) <= 15
        exec(block, scope)
        estimate = scope["weights"].mean(scope[name])
        assert abs(estimate.value - truth) < 4 * estimate.stderr < 4 * abs(plain - truth) / 4
        assert float(np.mean(scope[name])) == pytest.approx(plain, abs=off)


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("[A-Z]*.md"))], ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not broken
