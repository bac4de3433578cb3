from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import unskew
from parted_pools import STRATA, read_parts, write_parts
from unskew import ConfigError, Pool
from unskew.debiasing import part_weights


def test_parts_have_the_names_of_the_pools_and_a_rerun_writes_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = write_parts(tmp_path / "one")
    shutil.move(tmp_path / "one" / "part-2.parquet", tmp_path / "two.parquet")
    frame.iloc[:0].to_parquet(tmp_path / "one" / "part-9.parquet", index=False)
    pool = Pool.from_parquet([tmp_path / "one", tmp_path / "two.parquet"])
    weights = unskew.debias(pool, *STRATA, subsample=900)
    out = tmp_path / "weights"
    weights.to_parquet(out)
    names = sorted(str(file.relative_to(out)) for file in out.rglob("*.parquet"))
    assert names == [
        "one/part-0.parquet",
        "one/part-1.parquet",
        "one/part-9.parquet",
        "two.parquet",
    ]
    assert read_parts(out / "one")["weight"].size == 750
    written, write = [], part_weights.write_part
    monkeypatch.setattr(
        part_weights,
        "write_part",
        lambda file, *rest: written.append(file.name) or write(file, *rest),
    )
    (out / "two.parquet").unlink()
    unskew.debias(pool, *STRATA, subsample=900).to_parquet(out)
    assert written == ["two.parquet"]
    with pytest.raises(ConfigError):
        weights.to_parquet(out / "two.parquet")
