"""Which numbers a probe learns from."""

from __future__ import annotations

import pandas as pd


def test_the_probe_reads_the_representation_that_says_most() -> None:
    from types import SimpleNamespace

    from unskew.runs.forecast import probe_features

    columns = {
        "brightness": [0.1, 0.2],
        **{f"pixels_{i}": [0.0, float(i)] for i in range(9)},
        "embedding_0": [1.0, 2.0],
    }
    frame = pd.DataFrame(columns)

    def features(*named: str) -> list[str]:
        inputs = SimpleNamespace(
            pool=SimpleNamespace(frame=frame, attributes=tuple(columns)),
            config=SimpleNamespace(represent=SimpleNamespace(features=list(named))),
        )
        return probe_features(inputs)  # type: ignore[arg-type]

    assert features("brightness", "my:pixels", "embedding") == ["embedding_0"]
    assert features("brightness", "my:pixels") == [f"pixels_{i}" for i in range(9)]
    assert features("brightness") == ["brightness"]
    assert features() == list(columns)
