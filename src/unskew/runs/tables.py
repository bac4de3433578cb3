"""The files of a run's output folder, as tables and plain values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.files.atomic import written_whole
from unskew.files.plain_json import json_value
from unskew.records import Pool
from unskew.report.summary.record import Summary

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias
    from unskew.records import Weights


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Parquet, whole or not at all."""
    with written_whole(path) as beside:
        frame.to_parquet(beside, index=False)


def features_table(pool: Pool) -> pd.DataFrame:
    """What is known of every image: id, source, content, attributes and features."""
    frame = pool.frame.drop(
        columns=[name for name in ("path", "label", "group", "split") if name in pool.frame.columns]
    )
    return frame.assign(source=frame["source"].astype(str))


def diagnostics_table(summary: Summary) -> pd.DataFrame:
    """One row for each source and each stratum: sizes, shares and effective sizes."""
    import pandas as pd

    sources = [
        {
            "kind": "source",
            "name": row.name,
            "images": row.images,
            "groups": row.groups,
            "share": row.share,
            "weight_share": row.weight_share,
            "ess": row.ess,
            "ess_groups": row.ess_groups,
            "normalizer": row.normalizer,
            "stderr": row.stderr,
            "stderr_bootstrap": row.stderr_bootstrap,
        }
        for row in summary.sources
    ]
    strata = [
        {
            "kind": "stratum",
            "name": row.stratum,
            "images": row.images,
            "groups": row.groups,
            "share": row.pool,
            "weight_share": row.weighted,
            "ess": row.ess,
            "target": row.target,
            "target_stderr": row.target_stderr,
        }
        for row in summary.strata
    ]
    table = pd.DataFrame(sources + strata)
    numbers = [name for name in table.columns if name not in ("kind", "name")]
    return table.astype(dict.fromkeys(numbers, "float64"))


def solution_record(weights: Weights, bias: Bias) -> dict[str, Any]:
    """The solved equations, the verdict and the bias model as plain values."""
    solution, overlap = weights.solution, weights.overlap
    stderr = np.sqrt(np.maximum(np.diag(weights.covariance()), 0.0))
    record: dict[str, Any] = json_value(
        {
            "sources": list(solution.names),
            "images": np.bincount(weights.source, minlength=len(solution.names)),
            "share": solution.share,
            "u": solution.u,
            "log_normalizer": solution.log_normalizer,
            "log_normalizer_stderr": stderr,
            "relative_normalizer": solution.relative_normalizer,
            "method": solution.method,
            "status": solution.status.value,
            "converged": solution.converged,
            "gradient_norm": solution.gradient_norm,
            "error_estimate": solution.error_estimate,
            "steps": solution.n_steps,
            "verdict": overlap.verdict,
            "message": overlap.message,
            "kappa": overlap.kappa,
            "epsilon": overlap.epsilon,
            "spectral_gap": overlap.spectral_gap,
            "sigma2": overlap.sigma2,
            "ess": weights.ess,
            "ess_groups": weights.ess_groups,
            "bias": bias.to_dict(),
            "description": str(weights.describe()).splitlines(),
        }
    )
    return record
