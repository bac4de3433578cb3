"""Small pools whose summaries are known, for the tests of the report."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import unskew
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.errors import ImageError
from unskew.records import Images, Ints
from unskew.report.summary.record import Summary
from unskew.report.summary.summarize import summarize_run

# A passed test of fit, for tests about other things.
NO_FIT_CHECK = SimpleNamespace(
    p_value=0.5,
    features=(),
    joint=None,
    notes=(),
    message="The sources look as the bias model expects.",
    n_replicates=99,
)
QUICK: dict[str, Any] = {"replicates": 0, "fit_check": NO_FIT_CHECK}


def summary_of(
    pool: unskew.Pool,
    weights: unskew.Weights,
    *,
    fit_check: Any = NO_FIT_CHECK,
    replicates: int | None = 0,
    seed: int = 0,
    outcomes: Any = None,
    privacy: Any = "full",
    **options: Any,
) -> Summary:
    """Diagnose, as little as a test that is not about it needs, and summarize."""
    diagnostics = diagnose(
        pool,
        weights,
        fit_check=fit_check,
        replicates=replicates,
        rng=seed,
        outcomes=outcomes,
        privacy=privacy,
    )
    return summarize_run(pool, weights, diagnostics, privacy=privacy, **options)


class ListedImages(Images):
    """Raw images in a list; an exception in it is raised when that image is read."""

    def __init__(self, raw: list[Any]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    def read(self, row: int) -> Any:
        if isinstance(self.raw[row], Exception):
            raise self.raw[row]
        return self.raw[row]

    def take(self, rows: Ints) -> Images:
        return ListedImages([self.raw[row] for row in rows])


def mixed_frame(
    n: int = 300, n_sources: int = 3, seed: int = 0, groups: bool = False
) -> pd.DataFrame:
    """Sources that differ in x and in their classes; also y, country and flag."""
    rng = np.random.default_rng(seed)
    code = np.arange(n) % n_sources
    x = rng.normal(size=n) + 0.4 * (code % 3)
    frame = pd.DataFrame(
        {
            "id": [f"image-{at:05d}" for at in range(n)],
            "source": pd.Categorical(
                [f"camera {k}" for k in code], categories=[f"camera {k}" for k in range(n_sources)]
            ),
            "label": np.where(rng.random(n) < 1 / (1 + np.exp(-x)), "cat", "dog"),
            "path": [f"folder/picture-{at:05d}.jpg" for at in range(n)],
            "x": x,
            "y": x + rng.normal(size=n),
            "country": rng.choice(["fr", "de", "it"], n, p=[0.5, 0.3, 0.2]),
            "flag": rng.random(n) < 0.3,
        }
    )
    if groups:
        frame["group"] = [f"patient-{at:04d}" for at in rng.integers(0, n // 3, n)]
    return frame


def strata_weights(pool: unskew.Pool, **options: Any) -> unskew.Weights:
    """Post-stratified to 30% cats."""
    return unskew.debias(
        pool,
        unskew.bias.Strata("label"),
        unskew.Target.margins({"label": {"cat": 0.3, "dog": 0.7}}, **options),
    )


def jpeg(colour: tuple[int, int, int], side: int = 200) -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(written, format="JPEG")
    return written.getvalue()


def broken_image() -> ImageError:
    return ImageError("the file is truncated")
