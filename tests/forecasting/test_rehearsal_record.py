"""The result of a rehearsal: what holds, the verdict, tables and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import scipy.stats

from raising import refused
from unskew import Pool
from unskew.errors import DataError
from unskew.forecasting.rehearsal_record import Rehearsal, SourceRehearsal, judge_rehearsal
from unskew.records import Estimate


def test_records_are_plain_and_printable(rehearsed: tuple[Pool, Rehearsal]) -> None:
    _, rehearsal = rehearsed
    plain = json.loads(json.dumps(rehearsal.to_dict(), allow_nan=False))
    assert (
        plain["sources"][0]["predicted"]["debiased"]["value"]
        == rehearsal.sources[0].predicted["debiased"].value
    )
    table = rehearsal.table().set_index("source")
    assert table.loc["survey", "gain_true"] == pytest.approx(
        100 * rehearsal.source("survey").true_gain.value
    )  # type: ignore[union-attr]
    assert str(rehearsal).splitlines()[0] == rehearsal.message


def test_repr_is_a_few_lines_with_the_verdict_and_every_source(
    rehearsed: tuple[Pool, Rehearsal],
) -> None:
    _, rehearsal = rehearsed
    lines = repr(rehearsal).splitlines()
    assert lines[0] == "Rehearsal: transfers (Strata; a linear probe, 3 folds)"
    for line, source in zip(lines[1:], rehearsal.sources, strict=True):
        assert line.startswith(f"  {source.source}: ")
        assert f"{100 * source.true['debiased'].value:.1f}" in line
    lost = replace(rehearsal, sources=(SourceRehearsal("attic", 10, "far away"),))
    assert repr(lost).splitlines()[1] == "  attic: not reached from the others"
    many = replace(rehearsal, sources=rehearsal.sources * 10)
    assert len(repr(many).splitlines()) == 7
    assert max(len(line) for line in repr(many).splitlines()) <= 100


def test_an_unknown_source_is_refused(rehearsed: tuple[Pool, Rehearsal]) -> None:
    _, rehearsal = rehearsed
    with refused(DataError, source="attic"):
        rehearsal.source("attic")


def _played(miss: float, stderr: float, obstacle: str | None = None) -> SourceRehearsal:
    if obstacle:
        return SourceRehearsal("s", 10, obstacle)
    predicted, true = (Estimate(value, stderr, (0.0, 1.0)) for value in (0.7 + miss, 0.7))
    return SourceRehearsal(
        "s",
        10,
        predicted={"debiased": predicted, "naive": predicted},
        true={"debiased": true, "naive": true},
        usual=0.9,
    )


def test_verdicts() -> None:
    good, bad, vague, lost = (
        _played(0.015, 0.001),
        _played(0.1, 0.01),
        _played(0.1, 0.2),
        _played(0, 0, "far away"),
    )
    assert judge_rehearsal([good, good], "Tilt")[0] == "transfers"
    assert judge_rehearsal([good, good, bad], "Tilt")[0] == "transfers in part"
    assert judge_rehearsal([good, bad], "Tilt")[0] == "does not transfer"
    verdict, message = judge_rehearsal([vague], "Tilt")
    assert verdict == "cannot tell"
    assert "errors" in message
    assert "`s`" not in message
    verdict, message = judge_rehearsal([good, replace(vague, source="attic")], "Tilt")
    assert verdict == "transfers"
    assert "`attic`" in message
    verdict, message = judge_rehearsal([lost], "Tilt")
    assert verdict == "cannot tell"
    assert "Not reached from the others: `s`" in message


def test_a_miss_by_many_errors_counts_even_where_errors_are_large() -> None:
    """Predicted 68 ± 5, truly 13 ± 3: agreement could not be told, but this is none."""
    from unskew.forecasting.rehearsal_record import SourceRehearsal
    from unskew.records import Estimate

    def rehearsal(predicted: float, stderr: float) -> SourceRehearsal:
        far = Estimate(predicted, stderr, (predicted - 2 * stderr, predicted + 2 * stderr), 0.95)
        near = Estimate(0.13, 0.03, (0.07, 0.19), 0.95)
        return SourceRehearsal(
            "north", 150, judged=150, predicted={"debiased": far}, true={"debiased": near}
        )

    assert rehearsal(0.68, 0.052).holds is False
    assert rehearsal(0.25, 0.06).holds is None
    assert rehearsal(0.14, 0.02).holds is True


def test_a_miss_has_the_errors_of_both_sides() -> None:
    source = SourceRehearsal(
        "north",
        10,
        predicted={"debiased": Estimate(0.75, 0.03, (0.69, 0.81))},
        true={"debiased": Estimate(0.7, 0.04, (0.62, 0.78))},
    )
    assert source.miss() == pytest.approx(0.05)
    assert source.miss_stderr() == pytest.approx(0.05)
    lost = SourceRehearsal("attic", 10, "far away")
    assert math.isnan(lost.miss())
    assert math.isnan(lost.miss_stderr())
    assert lost.holds is None


@pytest.mark.parametrize(
    ("predicted", "true", "right"),
    [(0.05, 0.02, True), (-0.05, 0.02, False), (0.05, 0.009, None), (-0.01, -0.3, True)],
)
def test_the_winner_is_asked_for_where_the_arms_truly_differ(
    predicted: float, true: float, right: bool | None
) -> None:
    def gain(value: float) -> Estimate:
        return Estimate(value, 0.01, (value - 0.02, value + 0.02))

    source = SourceRehearsal("s", 10, predicted_gain=gain(predicted), true_gain=gain(true))
    assert source.winner_right is right
    assert replace(source, true_gain=None).winner_right is None


def test_a_source_that_is_not_reached_has_no_numbers(
    rehearsed: tuple[Pool, Rehearsal],
) -> None:
    lost = SourceRehearsal("attic", 10, "far away", notes=("nothing there",))
    rehearsal = replace(rehearsed[1], sources=(*rehearsed[1].sources, lost))
    row = rehearsal.table().set_index("source").loc["attic"]
    assert not row["reached"]
    assert row["remark"] == "far away"
    assert all(math.isnan(row[name]) for name in ("naive_true", "gain_predicted", "usual", "ess"))
    assert (
        json.loads(json.dumps(rehearsal.to_dict(), allow_nan=False))["sources"][-1]["ess"] is None
    )
    lines = rehearsal.lines()
    assert [line for line in lines if line.endswith("not reached: far away")]
    assert lines[-1] == "Note on attic: nothing there"


def test_the_more_sources_are_judged_the_larger_a_miss_may_be() -> None:
    near = _played(0.09, 0.03)  # 2.1 standard errors of the difference
    assert near.holds is False
    assert replace(near, looks=3).holds is True
    # Bonferroni: the chance that any of K right predictions is called wrong is at most 5%.
    for looks in (1, 5, 1000):
        outside = 2 * scipy.stats.norm.sf(replace(near, looks=looks).limit)
        assert looks * outside == pytest.approx(0.05)
