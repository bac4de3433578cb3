"""Run the tutorials, and write their pages with what they print and draw.

    python tools/tutorials.py                    # all: docs/tutorials/*.py -> *.md, *.png
    python tools/tutorials.py three-cameras      # one
    python tools/tutorials.py --check            # run all; output that changed is an error
    python tools/tutorials.py --notebooks DIR    # all as notebooks, with the output of their pages

A tutorial is a Python file in cells (Jupytext's percent format: ``# %%``, ``# %% [markdown]``): a
script that runs as it is, and a notebook in editors. ``make docs`` runs this file as a hook of
MkDocs: every tutorial's page gets its notebook (``.ipynb``) to download.
"""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import re
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
_STYLE = {
    "figure.figsize": (6.8, 3.2),
    "figure.dpi": 110,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.bbox": "tight",
}


def read_cells(text: str) -> list[tuple[str, str]]:
    """Read ("markdown" or "code", its text) of every cell."""
    parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)[1:]
    cells = []
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        if "[markdown]" in mark:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.splitlines()]
            cells.append(("markdown", "\n".join(lines).strip()))
        else:
            cells.append(("code", body.strip()))
    return cells


def run_cell(code: str, scope: dict[str, Any], name: str) -> str:
    """Run a cell; return what it prints, and its last expression as a notebook shows it."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, name, "exec"), scope)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
            if value is not None:
                print(value)
    return printed.getvalue().rstrip()


def make_page(source: Path, *, draw: bool) -> str:
    """Run a tutorial; return its page. ``draw`` also writes the figures."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    scope: dict[str, Any] = {"__name__": "__main__"}
    parts: list[str] = []
    n_figures = 0
    # Its caption is the comment in the first line of the cell that draws it.
    with mpl.rc_context(_STYLE):
        for kind, text in read_cells(source.read_text(encoding="utf-8")):
            if kind == "markdown":
                parts.append(text)
                continue
            output = run_cell(text, scope, source.name)
            parts.append(f"```python\n{text}\n```")
            if output:
                parts.append(f"```text\n{output}\n```")
            for number in plt.get_fignums():
                n_figures += 1
                file = source.with_name(f"{source.stem}-{n_figures}.png")
                if draw:
                    plt.figure(number).savefig(file, metadata={"Software": None})
                caption = text.splitlines()[0].removeprefix("# ").rstrip(".")
                parts.append(f"![{caption}]({file.name})")
            plt.close("all")
    parts.append(
        f"Every output on this page is that of [{source.name}]({source.name}), a notebook in "
        f"Jupytext's percent format; `python tools/tutorials.py {source.stem}` runs it again, and "
        "`--notebooks DIR` writes it as `.ipynb`."
    )
    return "\n\n".join(parts) + "\n"


def make_notebook(source: Path) -> dict[str, Any]:
    """Make the notebook of a tutorial, with the output and the figures of its page."""
    page = source.with_suffix(".md").read_text(encoding="utf-8")
    cells: list[dict[str, Any]] = []
    for kind, text in read_cells(source.read_text(encoding="utf-8")):
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{len(cells)}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        cells.append(cell)
        if kind == "code":
            _, found, page = page.partition(f"```python\n{text}\n```")
            if not found:
                sys.exit(f"{source.name}: its page has other code; python tools/tutorials.py")
            cell["execution_count"] = sum(cell["cell_type"] == "code" for cell in cells)
            cell["outputs"] = _read_outputs(page, source.parent)
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": python, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _read_outputs(rest: str, folder: Path) -> list[dict[str, Any]]:
    """Read the outputs of a cell: what follows its code on the page."""
    outputs: list[dict[str, Any]] = []
    if printed := re.match(r"\n\n```text\n(.*?)\n```$", rest, flags=re.DOTALL | re.MULTILINE):
        lines = (printed[1] + "\n").splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
        rest = rest[printed.end() :]
    while drawn := re.match(r"\n\n!\[(.*)\]\((.+\.png)\)", rest):
        data = {
            "image/png": base64.b64encode((folder / drawn[2]).read_bytes()).decode(),
            "text/plain": [drawn[1]],
        }
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        rest = rest[drawn.end() :]
    return outputs


def on_files(files: Any, config: Any) -> Any:
    """Add the notebooks to the site (a hook of MkDocs)."""
    from mkdocs.structure.files import File

    for source in sorted(FOLDER.glob("*.py")):
        content = json.dumps(make_notebook(source), ensure_ascii=False, indent=1) + "\n"
        files.append(File.generated(config, f"tutorials/{source.stem}.ipynb", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link a tutorial's notebook from its page (a hook of MkDocs)."""
    stem = Path(page.file.src_uri).stem
    if page.file.src_uri.startswith("tutorials/") and stem != "index":
        markdown += f"\n[Download this page as a notebook]({stem}.ipynb)\n"
    return markdown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="which tutorials; all by default")
    parser.add_argument("--check", action="store_true", help="compare with the pages, write none")
    parser.add_argument("--notebooks", type=Path, metavar="DIR", help="write notebooks, run none")
    options = parser.parse_args()
    names = options.names or sorted(path.stem for path in FOLDER.glob("*.py"))
    if options.notebooks:
        options.notebooks.mkdir(parents=True, exist_ok=True)
        for name in names:
            text = json.dumps(make_notebook(FOLDER / f"{name}.py"), ensure_ascii=False, indent=1)
            (options.notebooks / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")
        return
    wrong = []
    for name in names:
        begin = time.process_time()
        page = make_page(FOLDER / f"{name}.py", draw=not options.check)
        print(f"{name}: {time.process_time() - begin:.0f} s of processor time", flush=True)
        file = FOLDER / f"{name}.md"
        if not options.check:
            file.write_text(page, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != page:
            wrong.append(name)
    if wrong:
        sys.exit(f"{', '.join(wrong)}: the page shows other output; python tools/tutorials.py")


if __name__ == "__main__":
    main()
