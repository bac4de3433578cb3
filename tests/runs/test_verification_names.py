"""Odd names: control characters in folders, formulas as ids."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from run_data import write_table_run
from unskew.cli.app import run_command

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_results_of_a_folder_with_control_characters_verify(tmp_path: Path) -> None:
    configuration = write_table_run(tmp_path)
    (tmp_path / "be\x07ll").mkdir()
    (tmp_path / "t.csv").rename(tmp_path / "be\x07ll" / "t.csv")
    text = configuration.read_text().replace('"t.csv"', '{ "so\\u0007und" = "be\\u0007ll/t.csv" }')
    text = "\n".join(line for line in text.split("\n") if not line.startswith("source ="))
    configuration.write_text(text)
    out = str(tmp_path / "out")
    assert run_command(["weigh", str(configuration), "-o", out, "--quiet"]) == 0
    assert run_command(["verify", out, "--quiet"]) == 0


def test_ids_that_are_formulas_are_guarded_in_the_splits_and_joined_again(tmp_path: Path) -> None:
    configuration = write_table_run(tmp_path)
    table = pd.read_csv(tmp_path / "t.csv")
    table.insert(0, "id", [f"=cmd|{row}" for row in range(len(table))])
    table.to_csv(tmp_path / "t.csv", index=False)
    splits = str(tmp_path / "splits.csv")
    assert run_command(["split", str(configuration), "-o", splits, "--quiet"]) == 0
    assert pd.read_csv(splits)["id"].str.startswith("'=cmd|").all()
    text = configuration.read_text().replace(
        "[sources]", '[sources]\nsplit = { file = "splits.csv" }'
    )
    configuration.write_text(text)
    assert run_command(["check", str(configuration), "--quiet"]) == 0
