"""With ready diagnostics, a report solves, resamples and tests nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import unskew
from summary_pools import NO_FIT_CHECK, mixed_frame, strata_weights
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.report.files import write_summary
from unskew.report.summary.summarize import summarize_run

PACKAGE = Path(unskew.__file__).parent
# Where solves, resampling, tests and standard errors happen.
_STATISTICS = ("bias/fit", "bias/likelihood", "bias/resemblance", "debiasing/", "solve/", "weigh/")
# Sums over the weights, the memberships of known ω, and the door itself are none of these.
_SUMS = {"bias/fitted.py", "weigh/effective_size.py", "solve/omega_rows.py", "weigh/methods.py"}
# Its table of the distinct rows of ω, which galleries look up.
_SUMS |= {"solve/profile_likelihood.py"}


@contextmanager
def visited_files() -> Iterator[set[str]]:
    """Collect the files of the package in which a function was called."""
    files: set[str] = set()
    paths: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            paths.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
        own = [Path(path) for path in paths if Path(path).is_relative_to(PACKAGE)]
        files |= {path.relative_to(PACKAGE).as_posix() for path in own}


def _weights(kind: str, pool: unskew.Pool) -> unskew.Weights:
    if kind == "strata":
        return strata_weights(pool)
    if kind == "tilt":
        return unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))
    omega = np.exp(np.outer(pool.frame["x"], [0.0, 0.2, 0.4]))
    return unskew.debias_weights(
        omega, pool.frame["source"].astype(str), names=pool.names, id=pool.frame["id"]
    )


@pytest.mark.parametrize("privacy", ["full", "aggregate"])
@pytest.mark.parametrize("kind", ["strata", "tilt", "numbers"])
def test_a_report_only_shows_what_was_computed_before(
    kind: str, privacy: Any, tmp_path: Path
) -> None:
    pool = unskew.Pool.from_frame(mixed_frame(200))
    weights = _weights(kind, pool)
    diagnostics = diagnose(pool, weights, fit_check=NO_FIT_CHECK, replicates=20, privacy=privacy)
    with visited_files() as files:
        summary = summarize_run(pool, weights, diagnostics, privacy=privacy)
        write_summary(summary, tmp_path / "report.html")
    assert "report/page/html.py" in files
    assert not [file for file in files - _SUMS if file.startswith(_STATISTICS)]
    assert summary.not_corrected.sensitivity
    assert all(row.stderr is not None for row in summary.sources)
    with visited_files() as files:
        weights.mean(np.ones(200))
    assert [file for file in files - _SUMS if file.startswith(_STATISTICS)]
