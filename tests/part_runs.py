"""Small runs over Parquet parts."""

from __future__ import annotations

from pathlib import Path

from parted_pools import make_frame, write_parts

STRATA = '[target]\nmargins.label = { x = 0.7, y = 0.3 }\n[bias]\nfamily = "strata"\n'
TILT = '[target]\nsource = "a"\n[bias]\nfamily = "tilt"\nfeatures = ["z"]\n'
KNOWN = '[bias]\nfamily = "known"\nomega = { a = "in_a", b = "in_b", c = "in_c" }\n'
PARTS = 'parquet = "pool/*.parquet"\n'
BEYOND = "[engine]\nsubsample = 400\nblock_rows = 250\n"


def save(
    folder: Path, name: str, model: str = STRATA, sources: str = PARTS, engine: str = BEYOND
) -> Path:
    """Write a configuration."""
    (folder / name).write_text(f"[sources]\n{sources}{model}{engine}")
    return folder / name


def write_pool(folder: Path, n: int = 1500) -> Path:
    """Write the pool in three parts, and in one table; and a configuration of its parts."""
    frame = make_frame(n)
    write_parts(folder / "pool", frame)
    frame.to_parquet(folder / "all.parquet", index=False)
    return save(folder, "run.toml")
