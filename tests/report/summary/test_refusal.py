"""A run that was refused has a page, too: verdict "no", what is missing, what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from summary_pools import mixed_frame
from unskew.errors import CoverageError, DataError, OverlapError
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.refusal import summarize_refusal


def test_a_missing_link_names_both_sides() -> None:
    frame = mixed_frame(60, 3)
    pool = unskew.Pool.from_frame(frame)
    code = pool.source
    sees = np.zeros((60, 3))
    sees[code < 2, :2] = 1.0
    sees[code == 2, 2] = 1.0
    with pytest.raises(OverlapError) as caught:
        unskew.debias_weights(sees, frame["source"].astype(str), names=pool.names)
    found = summarize_refusal(pool, caught.value, provenance={"seed": 1})
    assert found.verdict.level == "no"
    assert found.weights is None
    assert found.overlap is not None
    assert found.overlap.components == (("camera 0", "camera 1"), ("camera 2",))
    assert "camera 0 and camera 1" in found.verdict.next_steps[0]
    assert "camera 2" in found.verdict.next_steps[0]
    assert found.verdict.sentences[0] == str(caught.value)
    assert [row.images for row in found.sources] == [20, 20, 20]
    assert summary_from_json(summary_to_json(found)) == found


def test_missing_strata_come_first_with_their_mass() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(60))
    target = unskew.Target.margins({"label": {"cat": 0.2, "dog": 0.5, "owl": 0.3}})
    with pytest.raises(CoverageError) as caught:
        unskew.debias(pool, unskew.bias.Strata("label"), target)
    found = summarize_refusal(pool, caught.value, target=target)
    assert [(row.stratum, row.target, row.covered) for row in found.strata] == [
        ("label = owl", 0.3, False),
        ("label = dog", pytest.approx(0.5), True),
        ("label = cat", pytest.approx(0.2), True),
    ]
    assert "owl" in found.verdict.next_steps[0]
    assert any("restrict" in step for step in found.verdict.next_steps)
    assert found.overlap is None


def test_without_graph_or_target_there_is_still_a_page() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(60))
    for error in (
        OverlapError("no link"),
        CoverageError("no source could have produced 3 of 60 images, such as row 7"),
        DataError("odd"),
    ):
        found = summarize_refusal(pool, error)
        assert found.verdict.level == "no"
        assert found.verdict.next_steps


def test_a_refusal_keeps_secrets() -> None:
    frame = mixed_frame(90)
    frame.loc[:3, "label"] = "owl"
    aside = pd.DataFrame(
        {
            "id": ["image-x"],
            "source": ["camera 0"],
            "path": ["folder/x.jpg"],
            "reason": ["x.jpg is empty"],
        }
    )
    pool = unskew.Pool(unskew.Pool.from_frame(frame).frame, None, aside)
    target = unskew.Target.margins({"label": {"cat": 0.2, "dog": 0.4, "owl": 0.1, "bat": 0.3}})
    error = CoverageError("no source could have produced 3 of 90 images, such as row 7")
    found = summarize_refusal(pool, error, target=target, privacy="aggregate")
    text = summary_to_json(found)
    assert "image-" not in text
    assert "x.jpg" not in text
    assert found.verdict.sentences[0] == "No source could have produced some images, such as a row"
    by_name = {row.stratum: row.images for row in found.strata}
    assert by_name["label = owl"] is None
    assert sorted(count is None for count in by_name.values()) == [False, False, True, True]
    assert found.sources[0].unreadable is None
