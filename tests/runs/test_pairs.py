"""pairs.json and pairs.html are written together, and never over others unasked."""

from __future__ import annotations

import json
from pathlib import Path

from evaluation.test_pairs import make_pairs
from raising import refused
from unskew import ConfigError, evaluate_pairs
from unskew.runs.pairs import PAIRS_FILE, PAIRS_PAGE, write_pairs


def test_both_files_are_written_once(tmp_path: Path) -> None:
    evaluation = evaluate_pairs(*make_pairs(persons=8))
    page = write_pairs(evaluation, tmp_path / "judged")
    assert page.name == PAIRS_PAGE
    assert json.loads(page.with_name(PAIRS_FILE).read_text()) == evaluation.to_dict()
    with refused(ConfigError, option="overwrite"):
        write_pairs(evaluation, tmp_path / "judged")
    write_pairs(evaluation, tmp_path / "judged", overwrite=True)
    with refused(ConfigError, path=str(page)):
        write_pairs(evaluation, page)
