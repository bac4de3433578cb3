"""Two sources, a reference of them, and batches of new images watched in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd

import unskew
from unskew.monitoring.judgement import judge_streams, weigh_evidence
from unskew.monitoring.stream import TARGET_STREAM, Reference, count_batch, make_reference
from unskew.records import Pool, Target
from unskew.records.monitoring import Monitoring


def draw_images(
    n: int, rng: np.random.Generator, shift: float = 0.0, tag: str = "old"
) -> pd.DataFrame:
    """Two sources with two features each; ``shift`` moves those of the second."""
    source = np.repeat(["a", "b"], n)
    is_b = source == "b"
    return pd.DataFrame(
        {
            "id": [f"{tag}{k}" for k in range(2 * n)],
            "source": source,
            "x": rng.normal(size=2 * n) + (0.5 + shift) * is_b,
            "y": rng.normal(size=2 * n),
        }
    )


def make_tilted_reference() -> Reference:
    pool = Pool(draw_images(200, np.random.default_rng(0)))
    sample = Pool(draw_images(60, np.random.default_rng(1), tag="target"))
    return make_reference(
        pool, unskew.bias.Tilt(["x", "y"]), Target.sample(sample), np.ones(400), seed=0
    )


def watch_batches(
    reference: Reference, batches: list[pd.DataFrame], target: bool = False
) -> Monitoring:
    seen, evidence = None, []
    for look, frame in enumerate(batches):
        streams = [(TARGET_STREAM, frame)] if target else list(frame.groupby("source"))
        parts = [
            count_batch(reference, seen, part.reset_index(drop=True), str(name), look)
            for name, part in streams
        ]
        seen = pd.concat([*([] if seen is None else [seen]), *parts], ignore_index=True)
        evidence.append(weigh_evidence(reference, seen, look + 1, 0.05)[0])
    looks = [f"day {k}" for k in range(len(batches))]
    return judge_streams(reference, seen, looks, evidence, max_uncovered=0.05, counted=1, known=0)
