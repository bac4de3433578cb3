"""A tutorial's page shows what its script prints; `make test-docs` runs all of them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "tools" / "tutorials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_cell_prints_and_shows_its_last_expression() -> None:
    tool = _tool()
    cells = tool.read_cells("# %% [markdown]\n# # A\n#\n# b\n\n# %%\nprint(1)\nx = 2\nx + 1\n")
    assert cells[0] == ("markdown", "# A\n\nb")
    assert tool.run_cell(cells[1][1], {}, "cell") == "1\n3"


def test_a_fast_tutorial_prints_what_its_page_shows() -> None:
    pytest.importorskip("matplotlib")
    source = ROOT / "docs" / "tutorials" / "larger-than-memory.py"
    page = source.with_suffix(".md").read_text(encoding="utf-8")
    assert _tool().make_page(source, draw=False) == page


@pytest.mark.parametrize("source", TUTORIALS, ids=lambda source: source.stem)
def test_a_page_has_the_code_and_the_figures_of_its_tutorial(source: Path) -> None:
    page = source.with_suffix(".md").read_text(encoding="utf-8")
    for _, text in _tool().read_cells(source.read_text(encoding="utf-8")):
        assert text in page
    for file in re.findall(r"^!\[.+\]\((.+)\)$", page, flags=re.MULTILINE):
        assert source.with_name(file).is_file()
