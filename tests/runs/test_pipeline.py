"""The three configurations that fix the schema, run as they stand on small data, through the
command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import (
    CAMERA_TRAPS,
    HOSPITALS,
    PRODUCT_PHOTOS,
    write_camera_traps,
    write_hospitals,
    write_product_photos,
)
from unskew.cli.app import run_command

SHARED = Path(__file__).resolve().parents[3] / "shared" / "configurations"
FILES = [
    "weights.parquet",
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
    reason="the three configurations are only beside the project where it is made",
)
@pytest.mark.parametrize(
    ("name", "text"),
    [("camera-traps", CAMERA_TRAPS), ("product-photos", PRODUCT_PHOTOS), ("hospitals", HOSPITALS)],
)
def test_the_tests_use_the_configurations_as_they_stand(name: str, text: str) -> None:
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
    _, _, out = case
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)


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
