"""`unskew.run`: what it writes and refuses; and the three configurations that fix the schema, run
unchanged on small data through the command line.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from run_data import (
    CAMERA_TRAPS,
    HOSPITALS,
    PRODUCT_PHOTOS,
    TABLE_SOURCES,
    TABLE_STRATA,
    ask_for_foxes,
    write_camera_traps,
    write_hospitals,
    write_photos,
    write_product_photos,
    write_table_run,
)
from unskew import ConfigError, CoverageError, OverlapError, Pool, Target
from unskew.bias import Strata
from unskew.cli.app import run_command
from unskew.config.run_config import read_config
from unskew.errors import UnreadableError
from unskew.runs.inputs import read_inputs
from unskew.runs.pipeline import Run

SHARED = Path(__file__).resolve().parents[3] / "shared" / "configurations"
FILES = [
    "files.json",
    "weights.parquet",
    "memberships.parquet",
    "solution.json",
    "diagnostics.parquet",
    "features.parquet",
    "run.toml",
    "report.html",
    "report.json",
]
CASES = {
    "camera-traps": write_camera_traps,
    "product-photos": write_product_photos,
    "hospitals": write_hospitals,
}

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


@pytest.mark.skipif(
    not SHARED.is_dir(),
    reason="the three configurations are only in the folder where the project is developed",
)
@pytest.mark.parametrize(
    ("name", "text"),
    [("camera-traps", CAMERA_TRAPS), ("product-photos", PRODUCT_PHOTOS), ("hospitals", HOSPITALS)],
)
def test_the_tests_use_the_configurations_unchanged(name: str, text: str) -> None:
    assert (SHARED / f"{name}.toml").read_text() == text


@pytest.fixture(scope="module", params=sorted(CASES))
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Path]:
    """(name, configuration, results of `unskew weigh`)."""
    folder = tmp_path_factory.mktemp(request.param)
    write: Callable[[Path], Path] = CASES[request.param]
    configuration = write(folder)
    assert run_command(["weigh", str(configuration), "-o", str(folder / "out"), "--quiet"]) == 0
    return request.param, configuration, folder / "out"


def test_weigh_writes_every_file(case: tuple[str, Path, Path]) -> None:
    """The other two have fewer than two numeric features, so no map."""
    name, _, out = case
    expected = [*FILES, "map.parquet"] if name == "product-photos" else FILES
    assert sorted(path.name for path in out.iterdir()) == sorted(expected)


def test_weights_sum_to_one_within_every_split(case: tuple[str, Path, Path]) -> None:
    name, _, out = case
    table = pd.read_parquet(out / "weights.parquet")
    expected = {"id", "source", "path", "label", "group", "split", "weight", "sample_weight"}
    lacking = {"hospitals": {"path", "label"}, "product-photos": {"split"}}.get(name, set())
    assert expected - lacking <= set(table.columns)
    assert table["id"].is_unique
    groups = table.groupby(table["split"] if "split" in table.columns else np.zeros(len(table)))
    np.testing.assert_allclose(groups["weight"].sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(groups["sample_weight"].mean(), 1.0, rtol=1e-12)


def test_check_agrees(case: tuple[str, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, configuration, _ = case
    assert run_command(["check", str(configuration), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["level"] in ("ok", "weak")


def test_the_resolved_configuration_gives_the_same_weights(
    case: tuple[str, Path, Path], tmp_path: Path
) -> None:
    _, _, out = case
    assert (
        run_command(["weigh", str(out / "run.toml"), "-o", str(tmp_path / "again"), "--quiet"]) == 0
    )
    first, again = (pd.read_parquet(each / "weights.parquet") for each in (out, tmp_path / "again"))
    pd.testing.assert_frame_equal(first, again)
    assert (tmp_path / "again" / "report.json").read_text() != ""


def test_verify_finds_nothing_wrong(case: tuple[str, Path, Path]) -> None:
    _, _, out = case
    assert run_command(["verify", str(out), "--quiet"]) == 0


def test_camera_traps_have_the_survey_s_species_shares(tmp_path: Path) -> None:
    """Groups are the unit: each burst shares its weight, and species other than empty stand to one
    another as in the survey.
    """
    configuration = write_camera_traps(tmp_path, seed=1)
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    table = pd.read_parquet(tmp_path / "out" / "weights.parquet")
    survey = pd.read_csv(tmp_path / "survey.csv").set_index("label")["count"]
    for _, part in table.groupby("split"):
        share = part.groupby("label")["weight"].sum().drop("empty", errors="ignore")
        expected = survey[share.index]
        np.testing.assert_allclose(share / share.sum(), expected / expected.sum(), rtol=1e-9)


def test_the_hospitals_page_tells_nothing_of_single_patients(tmp_path: Path) -> None:
    configuration = write_hospitals(tmp_path, seed=1)
    configuration.write_text(
        configuration.read_text().replace('"scans.csv"', f'"{tmp_path}/scans.csv"')
    )
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    assert run_command(["verify", str(tmp_path / "out"), "--quiet"]) == 0
    ids = pd.read_csv(tmp_path / "scans.csv")["id"].tolist()
    for name in ("report.html", "report.json"):
        text = (tmp_path / "out" / name).read_text()
        assert not [each for each in ids if each in text]
        assert str(tmp_path) not in text
        assert "<img" not in text


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, with its time and size."""
    states = {path: path.stat() for path in folder.rglob("*")}
    return {str(path): (state.st_mtime_ns, state.st_size) for path, state in states.items()}


def _weights(result: Run) -> pd.Series:
    frame = result.weights.frame()
    return frame.set_index("id")["weight"].sort_index()


def test_without_a_folder_nothing_is_written(table: Path) -> None:
    before = _listing(table.parent)
    result = unskew.run(table)
    assert _listing(table.parent) == before
    assert result.files == ()
    assert result.weights.weights.weight.sum() == pytest.approx(1.0)
    assert result.summary.verdict.level == "ok"


def test_a_path_settings_and_inputs_give_the_same_weights(table: Path) -> None:
    settings = read_config(table)
    of_path = unskew.run(str(table))
    for config in (table, settings, read_inputs(settings), of_path.inputs):
        pd.testing.assert_series_equal(_weights(unskew.run(config)), _weights(of_path), rtol=1e-12)


def test_weights_are_those_of_debias(table: Path) -> None:
    pool = Pool.from_frame(pd.read_csv(table.parent / "t.csv"))
    weights = unskew.debias(pool, Strata("label"), Target.uniform("label"))
    np.testing.assert_allclose(unskew.run(table).weights.weights.weight, weights.weight, rtol=1e-12)


def test_with_a_folder_every_file_is_written_and_listed(table: Path) -> None:
    out = table.parent / "deep" / "out"
    result = unskew.run(table, out, command="unskew weigh run.toml -o deep/out")
    assert sorted(result.files) == sorted(path.name for path in out.iterdir()) == sorted(FILES)
    written = pd.read_parquet(out / "weights.parquet").set_index("id")["weight"].sort_index()
    pd.testing.assert_series_equal(written, _weights(result), check_index_type=False)
    report = json.loads((out / "report.json").read_text())
    assert report["provenance"]["command"] == "unskew weigh run.toml -o deep/out"


def test_a_target_that_no_image_covers_is_refused_with_its_page(table: Path) -> None:
    ask_for_foxes(table)
    out = table.parent / "out"
    with refused(CoverageError) as caught:
        unskew.run(table, out)
    assert "fox" in str(caught.value)
    assert caught.value.summary.verdict.level == "no"
    assert sorted(path.name for path in out.iterdir()) == [
        *("files.json", "report.html", "report.json", "run.toml")
    ]
    assert json.loads((out / "report.json").read_text())["verdict"]["level"] == "no"
    before = _listing(table.parent)
    with refused(CoverageError) as caught:
        unskew.run(table)
    assert caught.value.summary.verdict.level == "no"
    assert _listing(table.parent) == before


def test_sources_without_a_link_are_refused_with_their_page(table: Path) -> None:
    frame = pd.read_csv(table.parent / "t.csv")
    frame["z"] += np.where(frame["source"] == "b", 100.0, 0.0)
    frame.to_csv(table.parent / "t.csv", index=False)
    table.write_text(TABLE_SOURCES + '\n[bias]\nfamily = "box"\nfeatures = ["z"]\n')
    out = table.parent / "out"
    with refused(OverlapError) as caught:
        unskew.run(table, out)
    assert caught.value.overlap.verdict == "disconnected"
    assert caught.value.summary.verdict.level == "no"
    assert (out / "report.html").is_file()
    assert not (out / "weights.parquet").exists()


def test_results_are_replaced_only_on_request(table: Path) -> None:
    out = table.parent / "out"
    unskew.run(table, out)
    before = _listing(out)
    with refused(ConfigError, path=str(out)):
        unskew.run(table, out)
    assert _listing(out) == before
    unskew.run(table, out, overwrite=True)
    assert _listing(out).keys() == before.keys()
    # What a refused run left may be replaced without asking.
    (out / "weights.parquet").unlink()
    assert "weights.parquet" in unskew.run(table, out).files


def test_a_folder_with_a_training_is_never_written_to(table: Path) -> None:
    out = table.parent / "out"
    out.mkdir()
    (out / "training.json").write_text("{}")
    for overwrite in (False, True):
        with refused(ConfigError, path=str(out)):
            unskew.run(table, out, overwrite=overwrite)
    assert [path.name for path in out.iterdir()] == ["training.json"]


def test_the_folder_is_checked_before_anything_is_read(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unskew.runs.pipeline.read_inputs", lambda *_, **__: pytest.fail("sources are read")
    )
    with refused(ConfigError, path=str(table.parent / "t.csv")):
        unskew.run(table, table.parent / "t.csv")
    with refused(ConfigError, path=str(table)):
        unskew.run(table, table.parent)  # contains the configuration itself


def _photo_run(folder: Path) -> Path:
    (folder / "run.toml").write_text(
        '[sources]\nfolders = { photos = "photos" }\n[represent]\nfeatures = ["brightness"]\n'
        "cache = false\n" + TABLE_STRATA
    )
    write_photos(folder)
    return folder / "run.toml"


def test_images_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    configuration, out = _photo_run(tmp_path), tmp_path / "out"
    (tmp_path / "photos" / "cat" / "p1.png").write_text("no picture")
    with pytest.raises(UnreadableError) as caught:
        unskew.run(configuration)
    assert caught.value.set_aside["id"].tolist() == ["photos/cat/p1.png"]
    with pytest.raises(UnreadableError, match=r"unreadable\.csv"):
        unskew.run(configuration, out)
    assert {path.name for path in out.iterdir()} == {"unreadable.csv", "files.json"}
    assert pd.read_csv(out / "unreadable.csv")["id"].tolist() == ["photos/cat/p1.png"]
    configuration.write_text(
        configuration.read_text().replace("[represent]", "tolerance = 0.2\n[represent]")
    )
    assert "unreadable.csv" in unskew.run(configuration, out).files
    assert "photos/cat/p1.png" not in pd.read_parquet(out / "weights.parquet")["id"].tolist()


def test_progress_is_shown_on_request_and_changes_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = _photo_run(tmp_path)
    quiet = unskew.run(configuration, progress=False)
    assert capsys.readouterr() == ("", "")
    loud = unskew.run(configuration, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "8/8" in shown.err
    pd.testing.assert_series_equal(_weights(loud), _weights(quiet), rtol=1e-12)


def test_repr_names_the_pool_the_verdict_and_the_files(tmp_path: Path) -> None:
    result = unskew.run(write_table_run(tmp_path), tmp_path / "out")
    shown = repr(result)
    assert len(shown.splitlines()) <= 4
    assert "weights.parquet" in shown
    assert result.summary.verdict.headline in shown


@pytest.mark.parametrize("config", [3, None, {"sources": {}}])
def test_what_is_no_configuration_is_refused(config: object) -> None:
    with refused(ConfigError, option="config"):
        unskew.run(config)  # type: ignore[arg-type]


def test_each_thing_is_built_and_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups and copies across splits, the target and the bias model, from the file to the page."""
    calls: list[str] = []

    def counted(place: str, name: str, what: Callable[..., str]) -> None:
        module = importlib.import_module(place)
        function = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(what(*arguments))
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    configuration = write_hospitals(tmp_path)
    counted("unskew.splits.assignment", "_check_crossing", lambda frame, role: role)
    counted("unskew.target.methods", "read_target", lambda *_: "target")
    counted("unskew.bias.schema", "read_bias", lambda *_: "bias")
    unskew.run(configuration)
    assert sorted(calls) == ["bias", "content", "group", "target"]


def _run_of_strata(folder: Path, n: int, sources: int, strata: int) -> Path:
    rng = np.random.default_rng(0)
    columns = {"source": rng.integers(sources, size=n), "label": rng.integers(strata, size=n)}
    frame = pd.DataFrame({"id": np.arange(n), **columns}).astype(str)
    frame.to_parquet(folder / "table.parquet", index=False)
    (folder / "run.toml").write_text(
        '[sources]\nmanifest = "table.parquet"\nimages = false\n'
        '[target]\nuniform = ["label"]\n[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    return folder / "run.toml"


def test_a_run_of_strata_needs_no_matrix_of_images_and_sources(tmp_path: Path) -> None:
    """Of 20,000 images and 200 sources such a matrix has 32 MB; ids are not made into objects."""
    unskew.run(_run_of_strata(tmp_path, 400, 2, 2))  # what is loaded and kept once
    config = _run_of_strata(tmp_path, 20_000, 200, 50)
    tracemalloc.start()
    try:
        result = unskew.run(config)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6
    assert not isinstance(vars(result.weights)["id"], np.ndarray)
    assert not isinstance(vars(result.weights.weights)["id"], np.ndarray)
    assert result.weights.weights.weight.sum() == pytest.approx(1.0)


def test_a_run_of_strata_loads_no_compiler(tmp_path: Path) -> None:
    config = _run_of_strata(tmp_path, 2_000, 3, 30)
    code = (
        f"import sys, unskew; unskew.run({str(config)!r}, {str(tmp_path / 'out')!r}); "
        "print([name for name in ('numba', 'scipy.optimize', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
