"""The laws of ARCHITECTURE.md, and a few habits that a machine can check."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "unskew"
MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.fixture(scope="module", autouse=True)
def parsed_once() -> Iterator[None]:
    """A million nodes: nobody looks for garbage among them, and the tests of other files are
    spared them.
    """
    gc.disable()
    yield
    _parsed.cache_clear()
    gc.enable()


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# Law 1: a room imports from lower layers, and within its layer what SIDEWAYS says.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("files", "engine"),
    ("records", "target", "splits"),
    (
        *("sources", "represent", "bias", "solve", "weigh", "learn", "scenarios"),
        *("report", "report/summary", "report/page"),
    ),
    (
        *("debiasing", "choosing", "forecasting", "estimators", "evaluation", "diagnosis"),
        "monitoring",
    ),
    ("config", "runs", "training", "simulation"),
    ("cli", "__init__", "__main__"),
)
SIDEWAYS = {
    "engine": {"files"},
    "target": {"records"},
    "splits": {"target", "records"},
    "bias": {"solve", "learn"},
    "weigh": {"solve"},
    "learn": {"represent"},  # its packaged network
    "report": {"report/summary", "report/page"},
    "report/page": {"report/summary"},
    "choosing": {"debiasing"},
    "forecasting": {"debiasing"},
    "estimators": {"debiasing", "forecasting", "choosing"},
    "evaluation": {"debiasing"},
    "diagnosis": {"debiasing"},
    "monitoring": {"debiasing"},
    "runs": {"config"},
    "training": {"runs", "config"},
    "simulation": {"config", "runs"},
    "cli": {"__init__"},  # its version
    "__init__": {"cli"},
    "__main__": {"cli"},
}
# Law 1b: the modules above them that methods of a record may import, when they are called: at most
# one that computes, and one that shows.
DOORS_UPWARDS = {
    "records/pool.py": {"unskew.sources.readers", "unskew.report.notebook"},
    "records/pool_table.py": {"unskew.sources.readers"},
    "records/solution.py": {"unskew.report.notebook"},
    "records/target.py": {"unskew.target.methods", "unskew.report.notebook"},
    "records/weights.py": {"unskew.weigh.methods", "unskew.diagnosis.inline_report"},
}
# What `report/page` may import of `report/summary`: the record that a page shows.
RECORD_OF_A_PAGE = "unskew.report.summary.record"

HEAVY = (
    *("pandas", "numba", "torch", "sklearn", "dask", "jinja2", "matplotlib", "pyarrow"),
    *("PIL", "skimage", "rich", "datasets", "onnxruntime", "lightning", "torchmetrics"),
)
# A base class is needed when a class is made; these files are loaded when their class is asked for.
LOADS_HEAVY = {
    "estimators/debiased.py": {"sklearn"},
    **{
        f"learn/{name}.py": {"torch"}
        for name in (
            *("sampling/sampler", "sampling/weighted_dataset", "loss", "model_zoo", "last_layer"),
            *(f"architectures/{file}" for file in ("backbone", "resnet", "fast_network")),
        )
    },
}
LONGEST_FILE = 450
LARGEST_ROOM = 30
LONGEST_PAGE = 120


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _room(module: str) -> str:
    """``unskew.solve.newton`` -> ``solve``; ``unskew.report.page.svg`` -> ``report/page``."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    is_inner = parts[0] == "report" and len(parts) > 1 and (PACKAGE / "report" / parts[1]).is_dir()
    return "/".join(parts[:2]) if is_inner else parts[0]


def _module(path: Path) -> str:
    dotted = ".".join(("unskew", *path.relative_to(PACKAGE).with_suffix("").parts))
    return dotted.removesuffix(".__init__")


def _only_for_types(tree: ast.Module) -> set[ast.AST]:
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }


def _imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield every module of unskew that runs when the file does, lazy imports included."""
    tree = _parsed(path)
    exempt = _only_for_types(tree)
    for node in ast.walk(tree):
        if node in exempt:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}:{node.lineno}: imports are absolute"
            names = [
                f"{node.module}.{alias.name}"
                if _is_module(f"{node.module}.{alias.name}")
                else node.module or ""
                for alias in node.names
            ]
        else:
            continue
        yield from (
            (name, node.lineno) for name in dict.fromkeys(names) if name.split(".")[0] == "unskew"
        )


def _is_module(dotted: str) -> bool:
    path = PACKAGE.joinpath(*dotted.split(".")[1:])
    return dotted.startswith("unskew.") and (path.with_suffix(".py").is_file() or path.is_dir())


def _layer(room: str) -> int:
    return next(at for at, rooms in enumerate(LAYERS) if room in rooms)


def _is_allowed(file: str, room: str, module: str) -> bool:
    other = _room(module)
    if other == room or module in DOORS_UPWARDS.get(file, set()):
        return True
    if _layer(other) < _layer(room):
        return True
    if (room, other) == ("report/page", "report/summary"):
        return module == RECORD_OF_A_PAGE
    return other in SIDEWAYS.get(room, set())


def test_law_1_a_room_imports_from_lower_layers() -> None:
    broken = [
        f"{_name(path)}:{line} imports {module}"
        for path in MODULES
        for module, line in _imported(path)
        if not _is_allowed(_name(path), _room(_module(path)), module)
    ]
    assert not broken


def test_law_1_every_room_has_a_layer_and_every_layer_its_rooms() -> None:
    rooms = {_room(_module(path)) for path in MODULES}
    assert rooms == {room for layer in LAYERS for room in layer}


@pytest.mark.parametrize("file", DOORS_UPWARDS)
def test_law_1b_records_open_their_doors_when_a_method_is_called(file: str) -> None:
    body = _parsed(PACKAGE / file).body
    top = {node.module for node in body if isinstance(node, ast.ImportFrom)}
    assert not top & DOORS_UPWARDS[file]


def test_the_package_root_holds_the_doors_and_the_errors() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "errors.py", "py.typed"}


def test_no_room_is_too_large() -> None:
    size = Counter(_name(path.parent) for path in MODULES if path.name != "__init__.py")
    assert not {room: count for room, count in size.items() if count > LARGEST_ROOM}


def test_law_2_importing_unskew_loads_numpy_and_scipy_only() -> None:
    # Its names, too; but for the two whose base classes are scikit-learn's.
    touch = "[getattr(unskew, name) for name in unskew.__all__ if not name.startswith('Debiased')]"
    heavy = f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    code = f"import sys, unskew; {touch}; {heavy}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_law_2_no_module_loads_heavy_packages_when_imported() -> None:
    """Importing any module, not only the first, is light: heavy imports are inside functions."""
    broken = []
    for path in MODULES:
        # numba is a decorator's business: a kernels' file loads it, inside a function of others.
        allowed = {"numba"} if "kernels" in path.stem else set()
        allowed |= LOADS_HEAVY.get(_name(path), set())
        for node in _parsed(path).body:
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


def test_law_3_no_public_name_of_a_package_is_one_of_its_submodules() -> None:
    for path in sorted(PACKAGE.rglob("__init__.py")):
        module = importlib.import_module(_module(path))
        inside = {
            child.stem if child.is_file() else child.name
            for child in path.parent.iterdir()
            if child.suffix == ".py" or (child / "__init__.py").is_file()
        }
        names = set(getattr(module, "__all__", ()))
        shadowed = {name for name in names & inside if not inspect.ismodule(getattr(module, name))}
        assert not shadowed, f"{module.__name__}: {shadowed}"


def test_one_name_means_one_thing() -> None:
    """No two public classes or functions of the package share a name.

    But a compiled loop and its twin in plain NumPy: ``kernels_sweep`` and ``plain_sweep``.
    """
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        for node in _parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                home = _name(path).replace("/plain_", "/kernels_")
                homes.setdefault(node.name, set()).add(home)
    assert not {name: sorted(files) for name, files in homes.items() if len(files) > 1}


def test_every_module_imports() -> None:
    for path in MODULES:
        importlib.import_module(_module(path))


def _listed_files(docstring: str) -> list[str]:
    return re.findall(r"^- ``(\w+)``: \S", docstring, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "room",
    [path.parent for path in MODULES if path.name == "__init__.py" and path.parent != PACKAGE],
    ids=lambda room: room.relative_to(PACKAGE).as_posix(),
)
def test_the_docstring_of_a_room_says_what_each_of_its_files_does(room: Path) -> None:
    docstring = ast.get_docstring(_parsed(room / "__init__.py"))
    files = [path.stem for path in room.glob("*.py") if path.name != "__init__.py"]
    inner = [path.parent.name for path in room.glob("*/__init__.py")]
    assert sorted(_listed_files(docstring or "")) == sorted(files + inner)


def test_architecture_md_fits_on_two_screens_and_lists_the_rooms() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= LONGEST_PAGE
    rooms = [room for layer in LAYERS for room in layer if "_" not in room]
    listed = re.findall(r"^\| `([\w/.]+)` \|", page, flags=re.MULTILINE)
    assert sorted(listed) == sorted(f"{room}.py" if room == "errors" else room for room in rooms)


def test_architecture_md_names_files_that_exist() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for file in re.findall(r"`([\w/]+\.py)`", page):
        places = (PACKAGE / file, ROOT / file, ROOT / "tools" / file)
        assert any(path.is_file() for path in places), file


def test_no_file_has_grown_too_long() -> None:
    length = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert not {name: lines for name, lines in length.items() if lines > LONGEST_FILE}


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "common", "misc", "entry"}
    assert not [_name(path) for path in MODULES if path.stem in drawers]


def test_variables_have_the_names_of_things() -> None:
    empty = {"said", "told", "found", "given"}
    named = []
    for path in MODULES:
        tree = _parsed(path)
        fields = {node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)}
        named += [
            f"{_name(path)}:{node.lineno} {node.id}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in empty
            if node not in fields
        ]
    assert not named


@pytest.mark.parametrize(
    "room",
    sorted({_room(_module(path)) for path in MODULES} - {"__init__", "__main__", "errors"}),
)
def test_every_room_has_its_folder_of_tests(room: str) -> None:
    assert list((ROOT / "tests" / room).rglob("test_*.py"))


def test_a_test_of_one_file_bears_its_name() -> None:
    """Who edits ``evaluation/cells.py`` finds ``tests/evaluation/test_cells.py``.

    A plain loop is tested with its compiled twin.
    """
    sources = [
        path for path in MODULES if not path.stem.startswith("__") and path.parent != PACKAGE
    ]
    kernels = {path.stem for path in sources if path.stem.startswith("kernels_")}
    twin = {name.replace("kernels_", "plain_"): name for name in kernels}
    lacking = [
        _name(path)
        for path in sources
        if not list(
            (ROOT / "tests" / _name(path)).parent.glob(f"test_{twin.get(path.stem, path.stem)}*.py")
        )
    ]
    assert not lacking


def _text_files() -> Iterator[Path]:
    for pattern in ("*.md", "*.toml", "*.txt", "*.cff", "*.yml", "*.yaml", "Makefile", ".ci/*"):
        yield from ROOT.glob(pattern)
    endings = {".py", ".md", ".toml", ".txt", ".svg", ".css"}
    for folder in ("src", "tests", "docs", "benchmarks", "examples", "paper", "tools"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in endings)


def test_no_file_holds_the_path_of_somebodys_machine() -> None:
    machine_path = re.compile(r"(?<![\w.~-])/(?:home|Users|root|work|tmp|opt|mnt)/\w")
    named = [
        str(path.relative_to(ROOT))
        for path in _text_files()
        if machine_path.search(path.read_text(encoding="utf-8"))
    ]
    assert not named
