"""The three laws of ARCHITECTURE.md, and a few habits that a machine can check."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unskew

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "unskew"
STAGES = ("sources", "represent", "bias", "solve", "weigh", "learn", "report")
SHARED = {
    "records",
    "errors",
    "scale",
    "targeting",
    "folding",
    "progress",
    "pooling",
    "saving",
    "provenance",
}
# solve is pure mathematics: families fitted by likelihood solve the same equations, and weights are
# read from them.
MAY_IMPORT = {"bias": {"solve"}, "weigh": {"solve"}}
# Names of a stage that live in a file beside the stages, because they need several of them: handed
# out on first use, never used within.
HANDS_OUT = {"learn/__init__.py": {"forecasting"}}
HEAVY = (
    *("pandas", "numba", "torch", "sklearn", "dask", "jinja2", "matplotlib", "pyarrow"),
    *("PIL", "skimage", "rich", "datasets", "onnxruntime", "lightning", "torchmetrics"),
)
WITH_TORCH = {
    f"learn/{name}.py" for name in ("sampler", "loss", "networks", "resnet", "fast_network")
}
LONGEST_FILE = 450
MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def _part(dotted: str) -> str:
    """``unskew.solve.newton`` -> ``solve``."""
    return dotted.split(".")[1] if "." in dotted else ""


def _imported(path: Path) -> Iterator[tuple[str, int]]:
    """Every module of unskew that the file names in an import, wherever it stands, and the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}:{node.lineno}: imports are absolute"
            # `from unskew import solve` names the part in the alias
            names = (
                [f"unskew.{alias.name}" for alias in node.names]
                if node.module == "unskew"
                else [node.module or ""]
            )
        else:
            continue
        yield from ((name, node.lineno) for name in names if name.split(".")[0] == "unskew")


def _public_functions() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef
            ) and not node.name.startswith("_"):
                yield node.name, _name(path)


def test_law_1_stages_do_not_import_one_another() -> None:
    broken = []
    for stage in STAGES:
        allowed = SHARED | {stage} | MAY_IMPORT.get(stage, set())
        for path in sorted((PACKAGE / stage).rglob("*.py")):
            may = allowed | HANDS_OUT.get(_name(path), set())
            broken += [
                f"{_name(path)}:{line} imports {name}"
                for name, line in _imported(path)
                if _part(name) not in may
            ]
    assert not broken


@pytest.mark.parametrize("part", ["scale", "scenarios"])
def test_law_1_what_all_may_import_does_not_import_a_stage(part: str) -> None:
    imported = [
        (name, path) for path in (PACKAGE / part).rglob("*.py") for name, _ in _imported(path)
    ]
    assert not [
        f"{_name(path)} imports {name}"
        for name, path in imported
        if _part(name) not in SHARED | {part}
    ]


@pytest.mark.parametrize(
    "file",
    ["errors.py", *sorted(f"records/{path.name}" for path in (PACKAGE / "records").glob("*.py"))],
)
def test_law_1_records_and_errors_reach_a_stage_only_from_inside_a_method(file: str) -> None:
    """At import they need nothing but each other; type hints are read by the type checker alone."""
    body = ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body
    top = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = [
        node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in top
    ]
    assert {_part(module) for module in modules if module.startswith("unskew")} <= {
        "records",
        "errors",
    }


def test_law_1_targets_reach_a_stage_only_from_inside_a_function() -> None:
    for path in sorted((PACKAGE / "targeting").glob("*.py")):
        top = [
            node
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom)
        ]
        parts = {
            _part(node.module or "") for node in top if (node.module or "").startswith("unskew")
        }
        assert not parts & set(STAGES), _name(path)


def test_law_2_importing_unskew_loads_numpy_and_scipy_only() -> None:
    # Its names, too; but for the two whose base classes are scikit-learn's.
    touch = "[getattr(unskew, name) for name in unskew.__all__ if not name.startswith('Debiased')]"
    code = (
        f"import sys, unskew; {touch}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_law_2_no_module_loads_heavy_packages_when_imported() -> None:
    """Importing any module of the package, not only the first, is light: heavy imports stand inside
    functions.
    """
    broken = []
    for path in MODULES:
        # numba is a decorator's business: the kernels' file loads it, and is itself loaded from
        # inside a function.
        allowed = {"numba"} if path.parent.name == "solve" and "kernels" in path.stem else set()
        # A base class is needed when a class is made: `unskew` loads this file only when one of its
        # two classes is asked for.
        allowed |= {"sklearn"} if path == PACKAGE / "estimator.py" else set()
        # The same of torch: `unskew.learn` loads these files only when their class is asked for, or
        # a network is made.
        allowed |= {"torch"} if _name(path) in WITH_TORCH else set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [alias.name for alias in node.names]
                )
                broken += [
                    f"{_name(path)} imports {name}"
                    for name in names
                    if name.split(".")[0] in set(HEAVY) - allowed
                ]
    assert not broken


def test_law_3_no_public_function_has_the_name_of_a_folder_or_file() -> None:
    taken = {path.stem for path in MODULES} | {
        path.name for path in PACKAGE.rglob("*") if path.is_dir()
    }
    assert not [f"{file}: {name}" for name, file in _public_functions() if name in taken]


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in unskew.__all__:
        thing = getattr(unskew, name)
        if not isinstance(thing, str):
            assert inspect.getdoc(thing), f"unskew.{name} has no docstring"


def test_every_module_imports() -> None:
    for path in MODULES:
        importlib.import_module(
            ".".join(("unskew", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
                ".__init__"
            )
        )


def test_architecture_md_lists_the_files_that_exist() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", page.split("## Planned")[0], flags=re.MULTILINE)
    assert sorted(listed) == sorted(
        _name(path) for path in MODULES if path.name != "__init__.py" or path.parent == PACKAGE
    )


def test_no_file_has_grown_too_long() -> None:
    length = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert not {name: lines for name, lines in length.items() if lines > LONGEST_FILE}


def test_no_file_is_a_drawer_for_everything() -> None:
    assert not [
        _name(path)
        for path in MODULES
        if path.stem in {"utils", "util", "helpers", "common", "misc"}
    ]


def _text_files() -> Iterator[Path]:
    for pattern in ("*.md", "*.toml", "*.txt", "*.cff", "*.yml", "Makefile", ".ci/*"):
        yield from ROOT.glob(pattern)
    for folder in ("src", "tests", "docs", "benchmarks", "examples"):
        yield from (
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in {".py", ".md", ".toml", ".txt", ".svg", ".css"}
        )


def test_no_file_holds_the_path_of_somebodys_machine() -> None:
    machine_path = re.compile(r"(?<![\w.~-])/(?:home|Users|root|work|tmp|opt|mnt)/\w")
    found = [
        str(path.relative_to(ROOT))
        for path in _text_files()
        if machine_path.search(path.read_text(encoding="utf-8"))
    ]
    assert not found
