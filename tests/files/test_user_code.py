"""Modules that a file names: which may be imported, and that refusing imports nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.files import user_code
from unskew.files.user_code import (
    import_elsewhere,
    import_reference,
    names_function,
    permit_code,
)


@pytest.fixture(autouse=True)
def _forget_modules(tmp_path: Path) -> Iterator[None]:
    """Forget afterwards what was imported and allowed."""
    yield
    for name, module in list(sys.modules.items()):
        inner = getattr(module, "__path__", None)
        places = [getattr(module, "__file__", None), *(inner if isinstance(inner, list) else [])]
        if any(str(place).startswith(str(tmp_path)) for place in places):
            del sys.modules[name]
    user_code._ALLOWED.folder_of.clear()
    sys.path_importer_cache.clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a stranger's folder, with a module and a package that leave a trace when imported."""
    trap = "import pathlib\n(pathlib.Path(__file__).parent / 'ran').touch()\ndef f(x=0): return 7\n"
    stranger = tmp_path / "stranger"
    (stranger / "evil_package" / "inner").mkdir(parents=True)
    (stranger / "evil_space").mkdir()
    (stranger / "evil_module.py").write_text(trap)
    (stranger / "evil_package" / "__init__.py").write_text(trap)
    (stranger / "evil_package" / "inner" / "__init__.py").write_text(trap)
    (stranger / "evil_space" / "part.py").write_text(trap)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return stranger


REFERENCES = ("evil_module:f", "evil_package:f", "evil_package.inner:f", "evil_space.part:f")


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("way", ["next to it", "working directory", "PYTHONPATH", "link"])
def test_a_module_of_the_folder_is_refused_and_not_imported(
    folder: Path, reference: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = reference.partition(":")[0].partition(".")[0]
    judged = [folder]
    if way == "working directory":
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend("")  # as `python -m` and the interactive Python do
        judged = []
    elif way == "PYTHONPATH":
        monkeypatch.syspath_prepend(folder)
    elif way == "link":
        link = folder.parent / "link"
        link.symlink_to(folder)
        monkeypatch.syspath_prepend(link)
    with refused(ConfigError, option="--allow-code", value=top):
        permit_code(reference, [], judged)
    with refused(ConfigError, value=top):
        permit_code(reference, ["another", "evil"], judged)
    assert top not in sys.modules
    assert not list(folder.rglob("ran"))


@pytest.mark.parametrize("reference", REFERENCES)
def test_an_allowed_module_is_found_and_its_neighbours_are_not(
    folder: Path, reference: str
) -> None:
    path = list(sys.path)
    permit_code(reference, [reference.partition(":")[0].partition(".")[0]], [folder])
    assert import_reference(reference)() == 7
    assert sys.path == path
    (folder / "neighbour_of_evil.py").touch()
    with refused(ConfigError, value="neighbour_of_evil:f"):
        import_reference("neighbour_of_evil:f")


def test_what_an_allowed_module_imports_is_allowed_by_name_too(folder: Path) -> None:
    (folder / "needs_another.py").write_text("from evil_module import f\n")
    permit_code("needs_another:f", ["needs_another"], [folder])
    with pytest.raises(ConfigError, match="--allow-code evil_module"):
        import_reference("needs_another:f")
    user_code._ALLOWED.folder_of.clear()
    permit_code("needs_another:f", ["needs_another", "evil_module"], [folder])
    assert import_reference("needs_another:f")() == 7


def test_modules_of_the_users_own_and_estimators_need_no_permission(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder.parent / "mine"
    home.mkdir()
    (home / "module_on_the_path.py").write_text("def f(): return 3\n")
    monkeypatch.syspath_prepend(home)
    permit_code("module_on_the_path:f", [], [folder])
    assert import_reference("module_on_the_path:f")() == 3
    permit_code("found_nowhere:f", [], [folder])
    permit_code("sklearn.linear_model:LogisticRegression", [], [folder])


@pytest.mark.parametrize(
    "reference",
    [
        "pandas.compat.pickle_compat:loads",  # a feature: runs the pickle that the pixels are
        "pytest:main",  # a network, called without arguments: runs conftest.py
        "torch.utils.tensorboard:SummaryWriter",  # a classifier: writes into the working directory
        "sklearn.datasets:fetch_california_housing",  # downloads
        "unskew.cli.app:run_command",
        "unskew.__main__:main",
    ],
)
def test_a_file_cannot_choose_among_installed_functions(folder: Path, reference: str) -> None:
    top = reference.partition(".")[0].partition(":")[0]
    with refused(ConfigError, option="--allow-code", value=top):
        permit_code(reference, [], [folder])
    permit_code(reference, [top], [folder])
    permit_code(reference, [], [folder], typed=True)


def test_an_installed_module_wins_over_one_of_the_folder(folder: Path) -> None:
    (folder / "numpy.py").write_text("raise SystemExit\n")
    permit_code("numpy.linalg:norm", ["numpy"], [folder])
    assert import_reference("numpy.linalg:norm") is np.linalg.norm


@pytest.mark.parametrize(
    "reference",
    [
        "os:system",
        "subprocess:getoutput",
        "builtins:exec",
        "importlib:import_module",
        "pandas.io.common:os.remove",
        "unskew.files.user_code:importlib.import_module",
        "this:s",  # prints when it is imported; antigravity opens a browser
        "module_with_numpy:np.save",  # a module in a module
    ],
)
def test_functions_of_pythons_own_library_are_not_called_for_a_file(
    reference: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "module_with_numpy.py").write_text("import numpy as np\n")
    monkeypatch.syspath_prepend(folder)
    with refused(ConfigError, value=reference):
        import_reference(reference)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "text",
    ["numpy:nothing", "numpy:pi", "column", "..a:f", "a/b:f", "a b:f", "\0:f", ":f", "a:", 3, None],
)
def test_names_of_no_function(text: object) -> None:
    with refused(ConfigError, value=text):
        import_reference(text)


def test_names_of_functions() -> None:
    assert names_function("numpy.linalg:norm")
    assert not any(map(names_function, ("hour > '12:30'", "omega:", ":f", "a:b c", "column", 3)))


@pytest.mark.parametrize("body", ["raise SystemExit(0)", "1 / 0", "def f(:", "import nowhere_x"])
def test_a_module_that_fails_is_an_error_of_the_call(
    folder: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "failing_module.py").write_text(body)
    monkeypatch.syspath_prepend(folder)
    with refused(ConfigError, value="failing_module:f"):
        import_reference("failing_module:f")


def test_a_package_finds_no_settings_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As matplotlib does, which Lightning imports; a pipe of that name was waited for."""
    (tmp_path / "settings").touch()
    (tmp_path / "reads_settings.py").write_text("import os\nfound = os.path.exists('settings')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert import_elsewhere("reads_settings").found is False
    assert Path.cwd() == tmp_path
