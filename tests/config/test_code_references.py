"""Every place of a configuration that may name code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unskew.config.code_references import code_problems, refuse_code
from unskew.errors import InvalidConfigError

SETTINGS: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"represent": {"features": ["sharpness", "evil:f"]}}, ("represent", "features", 1)),
    ({"represent": {"features": [{"name": "evil:f"}]}}, ("represent", "features", 0, "name")),
    (
        {"represent": {"features": [{"name": "embedding", "model": "evil.a:f"}]}},
        ("represent", "features", 0, "model"),
    ),
    ({"bias": {"family": "known", "omega": "evil:f"}}, ("bias", "omega")),
    ({"bias": {"omega": {"a": 1.0, "b": "evil:f"}}}, ("bias", "omega", "b")),
    ({"bias": {"queries": {"a": "evil:f", "b": "all"}}}, ("bias", "queries", "a")),
    (
        {"bias": {"family": "product", "factors": [{}, {"classifier": "evil:f"}]}},
        ("bias", "factors", 1, "classifier"),
    ),
    ({"learn": {"model": "evil:f"}}, ("learn", "model")),
    ({"engine": {"address": "evil"}}, ("engine", "address")),
]


@pytest.mark.parametrize(("settings", "key"), SETTINGS)
def test_code_is_refused_by_its_key_and_allowed_by_its_name(
    settings: dict[str, Any], key: tuple[Any, ...], tmp_path: Path
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit\n")
    (problem,) = code_problems(settings, [], [tmp_path])
    assert problem.path == key
    assert "--allow-code evil" in problem.message
    with pytest.raises(InvalidConfigError) as caught:
        refuse_code(settings, (), [tmp_path])
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("file", ["net.onnx", "nets/net.pt", "NET.TorchScript"])
def test_a_file_of_a_network_is_code(file: str, tmp_path: Path) -> None:
    settings = {"represent": {"features": [{"name": "embedding", "model": file}]}}
    (problem,) = code_problems(settings, [], [tmp_path])
    assert problem.path == ("represent", "features", 0, "model")
    assert f"--allow-code {file}" in problem.message
    assert not code_problems(settings, [file], [tmp_path])
    assert not code_problems(settings, [Path(file).name], [tmp_path])


def test_settings_for_an_installed_function_need_its_permission(tmp_path: Path) -> None:
    """`joblib.dump(images, filename="…")` writes wherever the file says."""
    feature = {"name": "joblib:dump", "filename": str(tmp_path / "written")}
    settings = {"represent": {"features": [feature]}}
    (problem,) = code_problems(settings, [], [tmp_path])
    assert problem.path == ("represent", "features", 0, "name")
    assert not code_problems(settings, ["joblib"], [tmp_path])


@pytest.mark.parametrize("logger", ["csv", "tensorboard", "lightning.pytorch.loggers:CSVLogger"])
def test_options_of_a_logger_need_permission(logger: str, tmp_path: Path) -> None:
    """`root_dir`, `save_dir`, `name` and others say where it writes."""
    learn = {"logger": logger, "logger_options": {"root_dir": "/elsewhere"}}
    problems = code_problems({"learn": learn}, [], [tmp_path])
    assert ("learn", "logger_options") in [problem.path for problem in problems]
    assert not code_problems({"learn": learn}, ["lightning"], [tmp_path])
    assert not code_problems({"learn": {"logger": "csv", "logger_options": {}}}, [], [tmp_path])


def test_only_the_sections_that_are_used_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "evil.py").touch()
    settings = {"bias": {"omega": "evil:f"}, "sources": {"folders": {"a": "evil:f"}}}
    assert not code_problems(settings, [], [tmp_path], ("learn", "represent"))
    assert len(code_problems(settings, [], [tmp_path])) == 1
