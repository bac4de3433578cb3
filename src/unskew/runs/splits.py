"""`unskew split`: train, validation and test as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unskew.config.run_config import RunConfig
from unskew.errors import ConfigError, first_few
from unskew.files.atomic import check_new_file, written_whole
from unskew.files.locks import path_locked
from unskew.files.spreadsheet_text import guard_table
from unskew.runs.inputs import read_inputs
from unskew.splits.assignment import split_pool


def read_shares(text: str) -> dict[str, float]:
    """Read ``train=0.7,test=0.3`` as a mapping."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = (word.strip() for word in part.partition("="))
        try:
            value = float(share)
        except ValueError:
            raise ConfigError(
                f"shares are written name=share,name=share, e.g. train=0.8,test=0.2; got {text!r}.",
                value=text,
            ) from None
        if name in shares:
            raise ConfigError(
                f"the split {name!r} has two shares in {text!r}; name each split once.",
                value=text,
                level=name,
            )
        shares[name] = value
    return shares


def write_splits(
    config: RunConfig,
    output: Path,
    shares: Mapping[str, float],
    *,
    overwrite: bool = False,
    progress: bool | None = None,
) -> dict[str, dict[str, int]]:
    """Write a table id, source, path, split; return {source: {split: images}}."""
    check_new_file(output, overwrite)
    with path_locked(output):
        return _write_splits(config, output, shares, progress)


def _write_splits(
    config: RunConfig, output: Path, shares: Mapping[str, float], progress: bool | None
) -> dict[str, dict[str, int]]:
    import pandas as pd

    inputs = read_inputs(config, progress=progress)
    if "split" in inputs.pool.frame.columns:
        splits = sorted(set(map(str, inputs.pool.frame["split"])))
        raise ConfigError(
            f"the images have splits already ({first_few(splits)}); assigning them again would "
            "change what is train and what is test. To do that all the same, remove `split` from "
            "[sources] (of folders called train and test: split = false).",
            levels=splits,
        )
    by = None if inputs.target is None or not inputs.target.by else list(inputs.target.by)
    frame = split_pool(inputs.pool, shares, by=by, rng=config.engine.seed).frame
    columns = [name for name in ("id", "source", "path", "split") if name in frame.columns]
    with written_whole(output) as temporary:
        guard_table(frame[columns]).to_csv(temporary, index=False)
    counts = pd.crosstab(frame["source"], frame["split"]).reindex(columns=list(shares))
    return {
        str(name): {str(split): int(count) for split, count in row.items()}
        for name, row in counts.to_dict("index").items()
    }
