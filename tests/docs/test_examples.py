"""Each example runs unchanged, in seconds, and shows what its docstring promises."""

from __future__ import annotations

import re
import runpy
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import CAMERA_TRAPS, HOSPITALS, PRODUCT_PHOTOS
from unskew.cli.app import run_command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFIGURATIONS = {
    "camera_traps": CAMERA_TRAPS,
    "product_photos": PRODUCT_PHOTOS,
    "hospitals": HOSPITALS,
}

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def _run_example(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the script, in less than ten seconds of processor time, and return its output."""
    start = time.process_time()
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert time.process_time() - start < 10
    return capsys.readouterr().out


def test_there_are_five_and_each_says_what_you_should_see() -> None:
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert names == sorted([*CONFIGURATIONS, "chest_findings", "face_pairs"])
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith('"""')
        assert "What you should see: " in text.split('"""')[1]
        assert f"python examples/{path.name}" in text


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_the_configuration_is_the_one_that_users_have(name: str) -> None:
    assert tomllib.loads(
        runpy.run_path(str(EXAMPLES / f"{name}.py"))["CONFIGURATION"]
    ) == tomllib.loads(CONFIGURATIONS[name])


def test_camera_traps(capsys: pytest.CaptureFixture[str]) -> None:
    printed = _run_example("camera_traps", capsys)
    shares = re.findall(
        r"^(?:boar|deer|fox|hare|lynx) +([\d.]+) +([\d.]+) +([\d.]+)$", printed, flags=re.MULTILINE
    )
    assert len(shares) == 5
    assert all(weighted == survey and pool != survey for pool, weighted, survey in shares)
    night = dict(re.findall(r"^(pool|weighted|truth) +([\d.]+)$", printed, flags=re.MULTILINE))
    pool, weighted, truth = (float(night[name]) for name in ("pool", "weighted", "truth"))
    assert truth - pool == pytest.approx(0.17, abs=0.01)
    assert abs(weighted - truth) < 0.02
    assert "badger" in printed
    assert "images of one source only" in printed


def test_product_photos(capsys: pytest.CaptureFixture[str]) -> None:
    printed = _run_example("product_photos", capsys)
    line = r"pool ([\d.]+)   weighted ([\d.]+) ± ([\d.]+)   (?:phones|truth) ([\d.]+)"
    for pool, weighted, error, truth in np.array(re.findall(line, printed), dtype=float):
        assert abs(weighted - truth) < 2 * error < abs(pool - truth)
    assert "share of bags     pool 0.53" in printed
    assert "but with care" in printed


def test_product_photos_in_python_and_as_a_configuration_give_the_same_weights(
    tmp_path: Path,
) -> None:
    example = runpy.run_path(str(EXAMPLES / "product_photos.py"))
    example["write_photos"](tmp_path)
    pool, _, weights = example["weigh_photos"](tmp_path)
    assert (
        run_command(
            ["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "results"), "--quiet"]
        )
        == 0
    )
    table = pd.read_parquet(tmp_path / "results" / "weights.parquet").set_index("id")
    np.testing.assert_allclose(weights.align(table.index), table["weight"], rtol=1e-9)
    assert len(table) == len(pool)


def test_hospitals(capsys: pytest.CaptureFixture[str]) -> None:
    printed = _run_example("hospitals", capsys)
    rows = np.array(
        re.findall(
            r"^(?:test|train|validation) +([\d.]+) +([\d.]+) +([\d.]+)$",
            printed,
            flags=re.MULTILINE,
        ),
        dtype=float,
    )
    assert rows.shape == (3, 3)
    np.testing.assert_allclose(rows[:, 0] / rows[:, 2], 2, atol=0.3)
    np.testing.assert_allclose(rows[:, 1], rows[:, 2], atol=0.03)
    assert "Everything agrees." in printed
    assert "Patients named on the page: 0" in printed


def test_face_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    printed = _run_example("face_pairs", capsys)
    number = r"([\d.]+)"
    line = (
        rf"unweighted {number}   weighted {number} \({number} to {number}\)   population {number}"
    )
    rows = np.array(re.findall(line, printed), dtype=float)
    assert rows.shape == (2, 5)
    _, _, low, high, truth = rows.T
    assert ((low <= truth) & (truth <= high)).all()
    assert rows[0, 0] < 0.7 * rows[0, 4]
    gap = re.search(r"FMR at FMR 1 % +f − m +[\d.]+ pt +([\d.-]+) to", printed)
    assert gap is not None
    assert float(gap[1]) > 0


def test_chest_findings(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    printed = _run_example("chest_findings", capsys)
    rows = re.findall(r"^(\w+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", printed, re.M)
    assert [row[0] for row in rows] == ["edema", "effusion", "nodule"]
    for name, *numbers in rows:
        naive_area, area, share, naive, debiased = map(float, numbers)
        assert area == pytest.approx(naive_area, abs=0.01)
        assert debiased == pytest.approx(share, abs=0.04)
        assert name == "nodule" or naive < share - 0.1
    gain, error, came = map(float, re.findall(r"[+−-]?\d+\.\d", printed.rsplit("points", 1)[1]))
    assert gain == pytest.approx(came, abs=2 * error)
