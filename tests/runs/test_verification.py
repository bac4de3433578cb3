"""A run is what it claims to be, and what was changed since is named: weights, images, inputs,
numbers of the report.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from run_data import (
    error_of,
    weigh,
    write_disagreeing_sources,
    write_picture,
    write_table_run,
)
from unskew import ConfigError, DataError
from unskew.cli.app import run_command
from unskew.runs.verification import verify_run

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on small data: pictures of two vendors in folders, margins in a file."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    for vendor, share in {"north": 0.7, "south": 0.3}.items():
        for number in range(30):
            label = "bag" if rng.uniform() < share else "shoe"
            write_picture(
                folder / vendor / label / f"{number:02d}.png", rng.uniform(60, 200, 3), rng, side=8
            )
    (folder / "south/bag/broken.png").write_bytes(b"not a picture")
    (folder / "survey.csv").write_text("label,count\nbag,50\nshoe,50\n")
    (folder / "run.toml").write_text(
        '[sources]\nfolders = { north = "north", south = "south" }\ntolerance = '
        '0.1\n[represent]\nfeatures = ["mean_hsv"]\n'
        '[target]\nmargins.label = { file = "survey.csv", n = 100 }\n[bias]\nfamily = "strata"\nby '
        '= ["label"]\n'
    )
    unskew.run(folder / "run.toml", folder / "out", command="unskew weigh run.toml -o out")
    return folder


@pytest.fixture
def copied(made, tmp_path):
    """A copy of inputs and results, to be tampered with; they may be moved together."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def _wrong(folder):
    """What differs, but for the checksums of the files that were tampered with."""
    wrong = [check for check in verify_run(folder / "out") if not check.ok]
    return [check for check in wrong if not check.claim.startswith("files.json")]


def test_a_run_verifies_and_says_what_was_checked(copied):
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    checks = verify_run(copied / "out", jobs=1)
    assert [check for check in checks if not check.ok] == []
    claims = " ".join(check.claim for check in checks)
    for word in (
        "run.toml",
        "(survey.csv)",
        "images of the pool",
        "weights.parquet",
        "solution.json",
        "diagnostics.parquet",
        "features.parquet",
    ):
        assert word in claims
    for panel in (
        "verdict",
        "sources",
        "strata",
        "overlap",
        "weights",
        "balance",
        "distributions",
        "not_corrected",
        "bias",
    ):
        assert f"report.json: {panel}" in [check.claim for check in checks]
    assert "report.html" in claims
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before
    assert json.loads(json.dumps([check.to_dict() for check in checks], allow_nan=False))


def test_a_tampered_weight_is_named(copied):
    table = pd.read_parquet(copied / "out/weights.parquet")
    table.loc[7, "weight"] *= 1 + 1e-6
    table.to_parquet(copied / "out/weights.parquet")
    (check,) = _wrong(copied)
    assert check.claim.startswith("weights.parquet")
    assert f"weight of {table['id'][7]}: claimed {table['weight'][7]}" in check.found
    assert check.worst == pytest.approx(1e-6, rel=1e-3)


def test_a_changed_outcome_is_named(tmp_path):
    results = weigh(write_disagreeing_sources(tmp_path))
    report = json.loads((results / "report.json").read_text())
    assert verify_run(results)[-1].ok
    report["outcomes"][0]["by_source"][2]["value"] += 0.01
    report["outcomes"][1]["verdict"] = "agree"
    (results / "report.json").write_text(json.dumps(report))
    wrong = {check.claim: check for check in verify_run(results) if not check.ok}
    assert "report.json" in wrong.pop("files.json: the files are of one run").found
    assert set(wrong) == {"report.json: outcomes", "report.html is the page of report.json"}
    assert len(wrong["report.json: outcomes"].differences) == 2


def test_a_changed_membership_is_named(copied):
    table = pd.read_parquet(copied / "out/memberships.parquet")
    table.loc[4, "membership_north"] += 0.1
    table.to_parquet(copied / "out/memberships.parquet")
    (check,) = _wrong(copied)
    assert check.claim.startswith("memberships.parquet")
    assert table["id"][4] in check.found


def test_swapped_ids_and_a_lost_row_are_named(copied):
    table = pd.read_parquet(copied / "out/weights.parquet")
    bag, shoe = (table.index[table["label"] == label][0] for label in ("bag", "shoe"))
    table.loc[[bag, shoe], "weight"] = table.loc[[shoe, bag], "weight"].to_numpy()
    table.drop(index=table.index[-1]).to_parquet(copied / "out/weights.parquet")
    (check,) = _wrong(copied)
    assert len(check.differences) == 3
    assert f"1 images: claimed not there, found there ({table['id'].iloc[-1]})" in check.differences


def test_a_changed_image_is_named(copied):
    image = sorted((copied / "north").rglob("*.png"))[3]
    write_picture(image, np.array([255.0, 0.0, 0.0]), np.random.default_rng(1), side=8)
    wrong = _wrong(copied)
    (images,) = [check for check in wrong if check.claim == "input: images of the pool"]
    assert f"{image.relative_to(copied).as_posix()} has changed" in images.found
    # The cause, and not what follows from it.
    assert all(check.claim.startswith("input: ") for check in wrong[:-1])
    assert wrong[-1].claim == "the results follow from the inputs"


def test_an_image_that_is_gone_or_new_is_named(copied):
    gone, copy = sorted((copied / "north").rglob("*.png"))[:2]
    gone.rename(gone.with_name("zz.png"))
    shutil.copy(copy, copied / "south/bag/another.png")
    (images,) = [check for check in _wrong(copied) if check.claim == "input: images of the pool"]
    assert f"{gone.relative_to(copied).as_posix()} is gone" in images.found
    assert "south/bag/another.png is new" in images.found


def test_a_changed_survey_is_named(copied):
    (copied / "survey.csv").write_text("label,count\nbag,51\nshoe,49\n")
    wrong = _wrong(copied)
    assert "survey.csv has changed" in wrong[0].found
    assert len(wrong) == 2


def test_a_survey_that_is_gone_ends_it_with_a_check_not_a_traceback(copied):
    (copied / "survey.csv").unlink()
    with pytest.raises(ConfigError, match="survey"):
        verify_run(copied / "out")


def test_changed_numbers_and_texts_of_the_report_are_named(copied):
    report = json.loads((copied / "out/report.json").read_text())
    report["weights"]["ess"] *= 1.001
    report["sources"][1]["weight_share"] += 1e-6
    report["strata"][0]["target_stderr"] *= 1.001
    report["verdict"]["headline"] = "all is well"
    (copied / "out/report.json").write_text(json.dumps(report))
    wrong = {check.claim: check.found for check in _wrong(copied)}
    assert wrong.pop("report.html is the page of report.json").startswith("differs from line")
    assert list(wrong) == [
        f"report.json: {panel}" for panel in ("verdict", "sources", "strata", "weights")
    ]
    assert wrong["report.json: weights"].startswith("differs: ess: claimed")
    assert wrong["report.json: sources"].startswith("differs: [1].weight_share: claimed")
    assert wrong["report.json: strata"].startswith("differs: [0].target_stderr: claimed")
    assert "headline: claimed 'all is well', found " in wrong["report.json: verdict"]


def test_a_changed_page_other_settings_and_other_files_are_named(copied):
    page = copied / "out/report.html"
    page.write_text(page.read_text(encoding="utf-8").replace("shoe", "boot", 1), encoding="utf-8")
    solution = json.loads((copied / "out/solution.json").read_text())
    solution["ess"] += 1
    (copied / "out/solution.json").write_text(json.dumps(solution))
    (copied / "out/diagnostics.parquet").unlink()
    claims = {check.claim.split()[0]: check.found for check in _wrong(copied)}
    assert set(claims) == {"report.html", "solution.json", "diagnostics.parquet"}
    assert "ess: claimed" in claims["solution.json"]
    assert "no diagnostics.parquet" in claims["diagnostics.parquet"]
    settings = copied / "out/run.toml"
    settings.write_text(settings.read_text().replace("n = 100", "n = 900"))
    assert "run.toml" in {check.claim.split()[0] for check in _wrong(copied)}


def test_another_list_of_unusable_images_is_named(copied):
    path = copied / "out/unreadable.csv"
    path.write_text(path.read_text().replace("broken.png", "fine.png"))
    (check,) = _wrong(copied)
    assert "claimed there, found not there (south/bag/fine.png)" in check.found


def test_a_refused_run_verifies_too_and_must_have_no_weights(copied):
    (copied / "survey.csv").write_text("label,count\nbag,50\nhat,50\nshoe,50\n")
    with pytest.raises(unskew.CoverageError) as caught:
        unskew.run(copied / "run.toml", copied / "refused")
    assert caught.value.summary.verdict.level == "no"
    assert all(check.ok for check in verify_run(copied / "refused"))
    shutil.copy(copied / "out/weights.parquet", copied / "refused")
    (check,) = [check for check in verify_run(copied / "refused") if not check.ok]
    assert check.claim == "there are no weights: the target is not identifiable"


def test_an_empty_folder_is_no_run(tmp_path):
    with refused(DataError, path=str(tmp_path / "report.json")):
        verify_run(tmp_path)
    (tmp_path / "report.json").write_text("{")
    with refused(DataError, path=str(tmp_path / "report.json")):
        verify_run(tmp_path)


def test_verify_where_there_is_nothing(tmp_path: Path, capsys: Captured) -> None:
    for folder, missing in (
        (tmp_path / "nothing", tmp_path / "nothing"),
        (tmp_path, tmp_path / "report.json"),
    ):
        error = error_of(["verify", str(folder)], capsys)
        assert (error["exit_code"], error["facts"]) == (4, {"path": str(missing)})
        assert "unskew weigh" in error["message"]


def test_results_moved_away_from_the_data(
    table: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Captured
) -> None:
    moved = tmp_path_factory.mktemp("elsewhere") / "deep" / "results"
    moved.parent.mkdir()
    weigh(table).rename(moved)
    assert run_command(["verify", str(moved)]) == 2
    assert "--data" in capsys.readouterr().err
    error = error_of(["verify", str(moved), "--data", str(table.parent / "nothing")], capsys)
    assert (error["exit_code"], error["facts"]["option"]) == (2, "--data")
    assert run_command(["verify", str(moved), "--data", str(table.parent)]) == 0
    assert "Everything agrees" in capsys.readouterr().out


def test_quiet_verify_shows_what_differs_alone(table: Path, capsys: Captured) -> None:
    out = weigh(table)
    assert run_command(["verify", str(out), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    weights = pd.read_parquet(out / "weights.parquet")
    weights.assign(weight=weights["weight"][::-1].to_numpy()).to_parquet(
        out / "weights.parquet", index=False
    )
    assert run_command(["verify", str(out), "--quiet"]) == 4
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("DIFFERS")
    assert not [line for line in shown if line.startswith("ok")]


def test_a_guessed_target_is_called_a_placeholder_by_page_and_verify(tmp_path, capsys):
    configuration = write_table_run(tmp_path)
    text = configuration.read_text().replace("[target]\n", "[target]\nguessed = true\n")
    configuration.write_text(text)
    results = weigh(configuration)
    assert "Placeholder target: can be debiased" in (results / "report.html").read_text()
    assert run_command(["verify", str(results)]) == 0
    assert "the target is a placeholder" in capsys.readouterr().out
    assert run_command(["check", str(configuration)]) == 0
    assert "for a placeholder target" in capsys.readouterr().out
    known = text.replace("guessed = true\n", "")
    configuration.write_text(known)
    assert run_command(["check", str(configuration)]) == 0
    assert "placeholder" not in capsys.readouterr().out
    # The results still say so, until they are written again.
    (results / "run.toml").write_text((results / "run.toml").read_text().replace("guessed", "#"))
    wrong = {check.claim for check in verify_run(results) if not check.ok}
    assert "report.json: verdict" in wrong
