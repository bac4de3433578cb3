"""`unskew train` and `unskew evaluate OUT IMAGES` as a user meets them: files, words, resuming, and
what they refuse.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from run_data import write_hospitals
from training_runs import CONFIGURATION, write_shapes, write_training_run
from unskew.cli.app import run_command

torch = pytest.importorskip("torch")

Captured = pytest.CaptureFixture[str]
FEW = ["--replicates", "40"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two arms in `results`, and other images in `new`."""
    folder = tmp_path_factory.mktemp("shapes")
    configuration = write_training_run(folder)
    write_shapes(folder / "new", {"day": {"disc": 12, "square": 12}}, seed=1)
    arms = ["--arm", "debiased", "--arm", "naive"]
    assert (
        run_command(
            ["train", str(configuration), "-o", str(folder / "results"), *arms, *FEW, "--quiet"]
        )
        == 0
    )
    return folder


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _copied(shapes: Path, tmp_path: Path) -> Path:
    """The run with its data at another place, to be damaged."""
    for name in ("day", "night", "results"):
        shutil.copytree(shapes / name, tmp_path / name)
    shutil.copy(shapes / "run.toml", tmp_path)
    return tmp_path


def test_the_folder_holds_results_and_a_model(shapes: Path) -> None:
    out = shapes / "results"
    for name in (
        "weights.parquet",
        "report.html",
        "run.toml",
        "splits.csv",
        "metrics.json",
        "predictions.parquet",
        "model-card.md",
    ):
        assert (out / name).is_file(), name
    history = pd.read_csv(out / "history.csv")
    assert history.groupby("arm")["epoch"].apply(list).to_dict() == {
        "debiased": [1, 2],
        "naive": [1, 2],
    }
    assert history["validation_loss"].notna().all()
    splits = pd.read_csv(out / "splits.csv").merge(
        pd.read_parquet(out / "weights.parquet"), on="id", suffixes=("", "_")
    )
    assert (splits["split"] == splits["split_"]).all()
    assert splits.groupby("split")["weight"].sum().to_dict() == pytest.approx(
        {"train": 1.0, "validation": 1.0}
    )
    # 18 of 120, dealt out so that sources and classes are alike.
    assert splits["split"].value_counts().to_dict() == {"train": 102, "validation": 18}


def test_metrics_are_those_of_evaluating_the_predictions(shapes: Path, capsys: Captured) -> None:
    out = shapes / "results"
    assert (
        run_command(["evaluate", str(out), "-p", str(out / "predictions.parquet"), *FEW, "--json"])
        == 0
    )
    again, metrics = json.loads(capsys.readouterr().out), _json(out / "metrics.json")
    assert {key: metrics[key] for key in again if key != "origin" and key != "notes"} == {
        key: again[key] for key in again if key != "origin" and key != "notes"
    }
    assert metrics["split"] == "validation"
    assert {"accuracy", "balanced_accuracy", "calibration_error", "log_loss"} <= set(
        metrics["overall"]["figures"]
    )


def test_metrics_are_computed_as_by_hand(shapes: Path) -> None:
    """Weighted accuracy, log-loss and calibration error from the files alone."""
    out = shapes / "results"
    table = pd.read_parquet(out / "predictions.parquet").merge(
        pd.read_parquet(out / "weights.parquet"), on="id"
    )
    score = table[["score_disc", "score_square"]].to_numpy()
    weight = (table["weight"] / table["weight"].sum()).to_numpy()
    right = (table["prediction"] == table["y"]).to_numpy()
    own = np.where(table["y"] == "disc", score[:, 0], score[:, 1])
    figures = _json(out / "metrics.json")["overall"]["figures"]
    assert figures["accuracy"]["value"] == pytest.approx(weight @ right)
    assert figures["log_loss"]["value"] == pytest.approx(-weight @ np.log(own))
    confidence = score.max(axis=1)
    place = np.clip(np.ceil(confidence * 15).astype(int) - 1, 0, 14)
    gaps = [abs((weight * (right - confidence))[place == at].sum()) for at in range(15)]
    assert figures["calibration_error"]["value"] == pytest.approx(sum(gaps))


def test_arms_are_compared_on_the_same_images(shapes: Path) -> None:
    metrics = _json(shapes / "results" / "metrics.json")
    assert metrics["arm"] == "debiased"
    debiased, naive = (
        metrics["arms"][name]["overall"]["figures"]["accuracy"]["value"]
        for name in ("debiased", "naive")
    )
    assert metrics["gains"]["naive"]["accuracy"]["value"] == pytest.approx(debiased - naive)
    assert metrics["overall"]["figures"]["accuracy"]["value"] == debiased
    by_class = next(part for part in metrics["breakdowns"] if part["column"] == "y")
    assert by_class["worst"]["value"] == min(
        cell["figures"]["accuracy"]["value"] for cell in by_class["cells"]
    )
    assert metrics["arms"]["debiased"]["worst"]["y"] == by_class["worst"]


def test_the_card_tells_what_where_and_for_whom(shapes: Path) -> None:
    card, record = (
        (shapes / "results" / "model-card.md").read_text(),
        _json(shapes / "results" / "training.json"),
    )
    for word in (
        "disc, square",
        "16 × 16 pixels",
        "day",
        "night",
        "Strata",
        "equally weighted",
        "conditional on the bias model",
        "torch",
    ):
        assert word in card
    gap = _json(shapes / "results" / "metrics.json")["gains"]["naive"]["accuracy"]
    assert (
        "| {:+.1f} | {:+.1f} to {:+.1f} |".format(
            *(100 * each for each in (gap["value"], *gap["interval"]))
        )
        in card
    )
    assert record["fingerprints"]["images"] in card
    assert record["fingerprints"]["weights of debiased"] in card
    assert record["status"] == "finished"


def test_the_other_commands_understand_the_folder(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = shapes / "results"
    assert run_command(["verify", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    assert run_command(["report", str(out), "--quiet"]) == 0
    assert (
        run_command(
            ["export", str(out), "--to", "csv", "-o", str(tmp_path / "weights.csv"), "--quiet"]
        )
        == 0
    )


def test_weights_alone_never_lie_beside_a_model_that_was_trained_with_others(
    shapes: Path, capsys: Captured
) -> None:
    out = shapes / "results"
    before = {each: each.stat().st_mtime_ns for each in out.rglob("*")}
    for options in ([], ["--overwrite"], ["--overwrite", "--seed", "3"]):
        assert run_command(["weigh", str(shapes / "run.toml"), "-o", str(out), *options]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "holds a training" in said
        assert "unskew train" in said
        assert "--force" in said
    assert {each: each.stat().st_mtime_ns for each in out.rglob("*")} == before


def test_a_run_is_neither_replaced_nor_mixed_with_another(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    run = ["train", str(shapes / "run.toml"), "-o", str(shapes / "results")]
    before = (shapes / "results" / "metrics.json").stat().st_mtime_ns
    assert run_command(run) == 2
    said = capsys.readouterr().err
    assert "--resume" in said
    assert "--force" in said
    assert run_command([*run, "--resume", "--force"]) == 2
    assert run_command([*run, "--resume", "--epochs", "3"]) == 2
    said = capsys.readouterr().err
    assert "learn.epochs is 3, and was 2" in said
    assert "the arms are debiased, and were debiased, naive" in said
    assert (shapes / "results" / "metrics.json").stat().st_mtime_ns == before
    (tmp_path / "weighed").mkdir()
    shutil.copy(shapes / "results" / "weights.parquet", tmp_path / "weighed")
    assert (
        run_command(
            ["train", str(shapes / "run.toml"), "-o", str(tmp_path / "weighed"), "--resume"]
        )
        == 2
    )
    assert "results of another run" in capsys.readouterr().err


def test_a_finished_run_is_judged_by_other_columns_without_training(
    shapes: Path, tmp_path: Path
) -> None:
    folder = _copied(shapes, tmp_path)
    before = (folder / "results" / "arms" / "naive" / "model.pt").read_bytes()
    run = [
        "train",
        str(folder / "run.toml"),
        "-o",
        str(folder / "results"),
        "--arm",
        "debiased",
        "--arm",
        "naive",
        *FEW,
        "--quiet",
    ]
    assert run_command([*run, "--resume", "--by", "source*label"]) == 0
    assert (folder / "results" / "arms" / "naive" / "model.pt").read_bytes() == before
    assert "source*label" in [
        part["column"] for part in _json(folder / "results" / "metrics.json")["breakdowns"]
    ]


def test_a_run_that_goes_on_with_other_images_is_refused_and_they_are_named(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = _copied(shapes, tmp_path)
    image = next((folder / "night" / "disc").glob("*.png"))
    shutil.copy(next((folder / "day" / "square").glob("*.png")), image)
    both = ["--arm", "debiased", "--arm", "naive"]
    assert (
        run_command(
            ["train", str(folder / "run.toml"), "-o", str(folder / "results"), "--resume", *both]
        )
        == 2
    )
    assert f"night/disc/{image.name} has changed" in capsys.readouterr().err


def test_a_run_that_was_stopped_goes_on(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Ctrl-C after the first arm: the second run trains the other one, and ends with the numbers of
    a run that was not stopped.
    """
    from unskew.learn import train

    write_training_run(tmp_path)
    run = [
        "train",
        str(tmp_path / "run.toml"),
        "-o",
        str(tmp_path / "out"),
        "--arm",
        "debiased",
        "--arm",
        "naive",
        *FEW,
    ]
    whole, calls = train.train_model, []

    def stopped(data: Any, settings: Any, folder: Path, **options: Any) -> Any:
        if calls:
            raise KeyboardInterrupt
        calls.append(folder.name)
        return whole(data, settings, folder, **options)

    monkeypatch.setattr(train, "train_model", stopped)
    assert run_command([*run, "--quiet"]) == 130
    said = " ".join(capsys.readouterr().err.split())
    assert "run the same command with --resume to go on" in said
    assert "again" not in said
    assert _json(tmp_path / "out" / "training.json")["status"] == "started"
    assert run_command(["evaluate", str(tmp_path / "out"), str(shapes / "new" / "day")]) == 4
    assert "--resume" in capsys.readouterr().err
    monkeypatch.undo()
    assert run_command([*run, "--resume"]) == 0
    assert calls == ["debiased"]
    assert (
        run_command(
            ["evaluate", str(tmp_path / "out"), str(shapes / "new" / "day"), *FEW, "--quiet"]
        )
        == 0
    )
    assert (
        _json(tmp_path / "out" / "metrics.json")["arms"]
        == _json(shapes / "results" / "metrics.json")["arms"]
    )


def test_a_folder_that_was_renamed_goes_on(shapes: Path, tmp_path: Path, capsys: Captured) -> None:
    """Also where training.json names the table of splits by its former place, as it once did."""
    folder = _copied(shapes, tmp_path)
    run = [
        "train",
        str(folder / "run.toml"),
        "--arm",
        "debiased",
        "--arm",
        "naive",
        *FEW,
        "--quiet",
        "--resume",
        "-o",
    ]
    before = (folder / "results" / "arms" / "naive" / "model.pt").read_bytes()
    (folder / "results").rename(folder / "moved")
    record = _json(folder / "moved" / "training.json")
    assert record["settings"]["sources.split"] == {"file": "OUT/splits.csv"}
    record["settings"]["sources.split"] = {"file": "results/splits.csv"}
    for _ in range(2):
        assert run_command([*run, str(folder / "moved")]) == 0
        assert (folder / "moved" / "arms" / "naive" / "model.pt").read_bytes() == before
        (folder / "moved" / "training.json").write_text(json.dumps(record))
    record["settings"]["sources.split"] = {"file": "elsewhere/table.csv"}
    (folder / "moved" / "training.json").write_text(json.dumps(record))
    assert run_command([*run, str(folder / "moved")]) == 2
    assert 'and was {"file": "elsewhere/table.csv"}' in capsys.readouterr().err


def test_other_images_are_judged_by_the_model_of_the_folder_alone(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The results lie elsewhere and the data are gone; images of the run itself give the scores
    that its predictions have.
    """
    out = tmp_path / "moved"
    shutil.copytree(shapes / "results", out)
    saved = tmp_path / "preds.csv"
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(shapes / "new" / "day"),
                *FEW,
                "--save",
                str(saved),
                "--json",
            ]
        )
        == 0
    )
    found, table = json.loads(capsys.readouterr().out), pd.read_csv(saved)
    assert found["coverage"]["judged"] == 24
    assert found["overall"]["figures"]["accuracy"]["value"] == pytest.approx(
        (table["y"] == table["prediction"]).mean()
    )
    assert [part["column"] for part in found["breakdowns"]][:2] == ["source", "y"]
    assert not any("exact copies" in note for note in found["notes"])
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(shapes / "night"),
                *FEW,
                "--save",
                str(tmp_path / "night.parquet"),
                "--json",
            ]
        )
        == 0
    )
    assert any(
        "60 of these images are exact copies" in note
        for note in json.loads(capsys.readouterr().out)["notes"]
    )
    again = pd.read_parquet(tmp_path / "night.parquet").set_index("id")
    held_out = pd.read_parquet(out / "predictions.parquet").set_index("id")
    held_out = held_out[held_out.index.str.startswith("night")]
    assert len(held_out)
    assert again.loc[held_out.index, "score_disc"].to_numpy() == pytest.approx(
        held_out["score_disc"].to_numpy(), abs=1e-6
    )


def test_images_of_an_unknown_class_are_an_error(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    write_shapes(tmp_path / "new", {"day": {"disc": 2, "sqare": 3}})
    assert run_command(["evaluate", str(shapes / "results"), str(tmp_path / "new" / "day")]) == 4
    said = capsys.readouterr().err
    assert "3 of 5 images have labels that are no class of the run: sqare" in said
    assert "Did you mean" in said
    assert run_command(["evaluate", str(shapes / "results")]) == 2
    assert "Got neither" in capsys.readouterr().err
    assert (
        run_command(
            [
                "evaluate",
                str(shapes / "results"),
                str(tmp_path / "new" / "day"),
                "--arm",
                "subsample",
            ]
        )
        == 2
    )
    assert "it trained debiased, naive" in capsys.readouterr().err


def test_weights_from_a_table_must_match_the_images(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    table = pd.read_parquet(shapes / "results" / "weights.parquet")[["id", "weight"]]
    unknown = pd.DataFrame({"id": ["day/disc/other.png"], "weight": [0.1]})
    wrong = {
        "missing": (table.iloc[3:], "3 of the 120 images of the dataset have no weight"),
        "extra": (
            pd.concat([table, unknown]),
            "1 of the 121 weights belong to images that the dataset does not hold, the first "
            "day/disc/other",
        ),
        "twice": (pd.concat([table, table.iloc[:2]]), "2 ids stand for more than one image"),
        "nan": (
            table.assign(weight=table["weight"].where(table.index > 0)),
            "finite and not negative",
        ),
        "negative": (table.assign(weight=-table["weight"]), "finite and not negative"),
        "zero": (table.assign(weight=0.0), "all 120 weights are zero"),
    }
    for name, (frame, said) in wrong.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        run = [
            "train",
            str(shapes / "run.toml"),
            "-o",
            str(tmp_path / "out"),
            "--weights",
            str(tmp_path / f"{name}.csv"),
        ]
        assert run_command(run) == 4, name
        shown = capsys.readouterr().err
        assert said in shown
        assert "allow_extra" not in shown
        assert not (tmp_path / "out").exists()
    assert run_command([*run, "--arm", "naive"]) == 2
    assert "leave --arm out" in capsys.readouterr().err


def test_what_is_said_of_the_weights_speaks_of_those_given(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Of the 102 images of train the discs have weight, all alike: worth as many images."""
    splits = pd.read_csv(shapes / "results" / "splits.csv")
    is_disc, in_train = splits["id"].str.contains("disc"), splits["split"] == "train"
    splits.assign(weight=(is_disc | ~in_train).astype(float)).to_csv(
        tmp_path / "discs.csv", index=False
    )
    run = [
        "train",
        str(shapes / "run.toml"),
        "-o",
        str(tmp_path / "out"),
        "--weights",
        str(tmp_path / "discs.csv"),
        "--epochs",
        "1",
        *FEW,
    ]
    assert run_command(run) == 0
    said = f"The weights given for train are worth {int((is_disc & in_train).sum())} of 102 images."
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    assert (
        f"All images of square ({int((~is_disc & in_train).sum())}) in train have weight 0 (given)"
        in shown
    )
    assert said in (tmp_path / "out" / "model-card.md").read_text()


def test_what_cannot_be_trained_is_refused_before_the_work(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path
    for name in ("day", "night"):
        (folder / name).symlink_to(shapes / name)
    (folder / "ownnet.py").write_text(
        "import torch\ndef small():\n    return torch.nn.Sequential(torch.nn.Flatten(), "
        "torch.nn.Linear(16 * 16 * 3, 7))\n"
    )
    (folder / "run.toml").write_text(CONFIGURATION)
    cases = {
        ("--model", "ownnet:small"): (2, ["2 classes", "(2, 7)"]),
        ("--model", "nonet:small"): (2, ["nonet", "cannot be imported"]),
        ("--model", "probe"): (2, ["does not go with the preset"]),
        ("--preset", "quick"): (2, ['"fast", "article" or "probe"']),
        ("--arm", "naiv"): (2, ["there is no arm 'naiv'", "naive"]),
        ("--preset", "probe"): (
            2,
            ["represent.features", "which are left out: size, epochs, batch"],
        ),
        ("--preset", "probe", "--epochs", "3"): (2, ["--epochs goes with a network"]),
        ("--by", "label*light"): (2, ["--by light: there is no such column"]),
        ("--size", "5000"): (2, ["from 1 to 4096"]),
    }
    for options, (code, words) in cases.items():
        assert (
            run_command(["train", str(folder / "run.toml"), "-o", str(folder / "out"), *options])
            == code
        ), options
        said = capsys.readouterr().err
        assert all(word in said for word in words), said
        assert not (folder / "out" / "training.json").exists()
    (folder / "run.toml").write_text(
        CONFIGURATION.replace(
            'uniform = "label"', "margins.label = { disc = 1, square = 1, star = 1 }"
        )
    )
    assert run_command(["train", str(folder / "run.toml"), "-o", str(folder / "out")]) == 3
    assert "star" in capsys.readouterr().out
    assert (folder / "out" / "report.html").is_file()
    assert not (folder / "out" / "weights.parquet").exists()


def test_options_that_go_with_predictions_are_refused_with_images_and_the_other_way_round(
    shapes: Path, capsys: Captured
) -> None:
    images, table = [str(shapes / "new")], ["-p", str(shapes / "results" / "predictions.parquet")]
    cases = {
        ("--split", "all", "--allow-missing"): (
            images,
            "--split and --allow-missing go with --predictions",
        ),
        ("--classification",): (images, "--classification goes with --predictions"),
        ("--arm", "naive"): (table, "--arm goes with images"),
    }
    for options, (judged, words) in cases.items():
        assert run_command(["evaluate", str(shapes / "results"), *judged, *options]) == 2
        assert words in capsys.readouterr().err


def test_a_graphics_card_that_is_not_there_is_missed_before_the_work(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(
        "unskew.training.run.read_training_inputs", lambda *_, **__: pytest.fail("images are read")
    )
    for device, words in {
        "cuda": "'cuda' is not available here",
        "gpu": "device is one of",
    }.items():
        assert (
            run_command(
                ["train", str(shapes / "run.toml"), "-o", str(tmp_path / "out"), "--device", device]
            )
            == 2
        )
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_torch_it_says_what_to_install(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run_command(["train", str(shapes / "run.toml"), "-o", str(tmp_path / "out")]) == 2
    assert "pip install 'unskew[torch]'" in capsys.readouterr().err


def test_a_checkpoint_of_another_model_is_refused(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The model of a run is replaced by one of two other classes' number."""
    out = tmp_path / "results"
    shutil.copytree(shapes / "results", out)
    record = _json(out / "training.json") | {"classes": ["disc", "square", "star"]}
    (out / "training.json").write_text(json.dumps(record))
    assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
    assert "other classes" in capsys.readouterr().err
    (out / "training.json").write_text(json.dumps(record | {"classes": 3}))
    assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
    assert "no record of a training" in capsys.readouterr().err
    (out / "training.json").write_text(json.dumps(record))
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(shapes / "new" / "day"),
                "--save",
                str(tmp_path / "nowhere" / "x.csv"),
            ]
        )
        == 2
    )
    assert "there is no folder" in capsys.readouterr().err
    shutil.copy(shapes / "results" / "training.json", out)
    for content in ((out / "arms" / "naive" / "model.pt").read_bytes(), b"nothing"):
        (out / "arms" / "debiased" / "model.pt").write_bytes(content)
        assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
        said = capsys.readouterr().err
        assert "the checkpoint of another model, or damaged" in said
        assert "--force" in said
    both = ["--arm", "debiased", "--arm", "naive", *FEW, "--quiet"]
    assert run_command(["train", str(shapes / "run.toml"), "-o", str(out), *both, "--resume"]) == 4
    assert "the checkpoint of another model" in capsys.readouterr().err
    (out / "training.json").write_text(
        json.dumps({name: value for name, value in record.items() if name != "models"})
    )
    assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
    assert "cannot be read" in capsys.readouterr().err


def test_a_table_trains_a_probe_and_tells_no_small_cells(tmp_path: Path, capsys: Captured) -> None:
    """Three hospitals without images: a probe on age, judged by age and sex; ids of patients stand
    in no file meant for others.
    """
    configuration = write_hospitals(tmp_path)
    text = configuration.read_text().replace(
        'split = "split"', 'split = "split"\nlabel = "finding"'
    )
    configuration.write_text(text)
    assert run_command(["train", str(configuration), "-o", str(tmp_path / "out")]) == 2
    assert 'preset = "probe"' in capsys.readouterr().err
    configuration.write_text(text + '\n[learn]\npreset = "probe"\n')
    assert run_command(["train", str(configuration), "-o", str(tmp_path / "out"), *FEW]) == 0
    shown = capsys.readouterr().out
    assert "held-out images (test)" in shown
    assert "Worst age*sex" in shown
    metrics, card = (
        _json(tmp_path / "out" / "metrics.json"),
        (tmp_path / "out" / "model-card.md").read_text(),
    )
    assert metrics["private"]
    assert all(cell["groups"] >= 10 for part in metrics["breakdowns"] for cell in part["cells"])
    ids = pd.read_parquet(tmp_path / "out" / "weights.parquet")["id"]
    text = card + json.dumps(metrics) + (tmp_path / "out" / "training.json").read_text()
    assert not [each for each in ids if each in text]
    assert str(tmp_path) not in text
    # New patients in a table of their own, judged by the numbers that the probe was trained on.
    assert (
        run_command(
            ["evaluate", str(tmp_path / "out"), str(_new_patients(tmp_path)), *FEW, "--json"]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["private"]
    assert found["coverage"]["judged"] == 200


def _new_patients(folder: Path) -> Path:
    rng = np.random.default_rng(5)
    age = rng.uniform(20, 90, 200).round()
    label = np.where(rng.random(200) < age / 100, "yes", "no")
    pd.DataFrame({"id": [f"new-{at}" for at in range(200)], "label": label, "age": age}).to_csv(
        folder / "new.csv", index=False
    )
    return folder / "new.csv"


def test_a_class_that_no_held_out_image_shows_is_said_wherever_the_accuracy_is(
    tmp_path: Path, capsys: Captured
) -> None:
    """Half of the target are squares; there are two, and both are in train."""
    write_shapes(tmp_path, {"day": {"disc": 20, "square": 1}, "night": {"disc": 20, "square": 1}})
    (tmp_path / "run.toml").write_text(CONFIGURATION)
    assert (
        run_command(
            [
                "train",
                str(tmp_path / "run.toml"),
                "-o",
                str(tmp_path / "out"),
                "--epochs",
                "1",
                *FEW,
            ]
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "Accuracy on a part of the target" in shown
    assert "Accuracy on the target" not in shown
    said = "without what this split has no image of: label = square (0.5)"
    assert said in shown
    assert said in _json(tmp_path / "out" / "metrics.json")["notes"][0]
    assert (
        "speak of a part of the population only" in (tmp_path / "out" / "model-card.md").read_text()
    )
    assert (
        run_command(
            [
                "evaluate",
                str(tmp_path / "out"),
                "-p",
                str(tmp_path / "out" / "predictions.parquet"),
                "--json",
                *FEW,
            ]
        )
        == 0
    )
    assert said in json.loads(capsys.readouterr().out)["notes"][0]


def test_a_probe_says_which_numbers_it_leaves_out_and_speaks_of_no_epoch(
    tmp_path: Path, capsys: Captured
) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 120)
    table = pd.DataFrame(
        {
            "id": [f"p{at}" for at in range(120)],
            "label": label,
            "source": ["a", "b"] * 60,
            "age": rng.normal(50 + label, 9),
        }
    )
    table.assign(height=np.where(table.index == 3, np.nan, 1.7)).to_csv(
        tmp_path / "table.csv", index=False
    )
    (tmp_path / "run.toml").write_text(
        '[sources]\nmanifest = "table.csv"\nimages = false\nsource = "source"\nlabel = '
        '"label"\n[target]\nuniform = "label"\n'
        '[bias]\nfamily = "strata"\nby = ["label"]\n[learn]\npreset = "probe"\n'
    )
    assert (
        run_command(["train", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), *FEW]) == 0
    )
    shown = capsys.readouterr()
    assert "height (1 of 120 images have none)" in shown.err
    assert "chose the epoch" not in shown.out + (tmp_path / "out" / "model-card.md").read_text()
