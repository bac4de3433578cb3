"""A bucket of images, in fsspec's memory and in a local folder."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unskew.files.addresses import uploaded_folder


@pytest.fixture
def memory() -> Iterator[Any]:
    import fsspec

    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture(params=["memory", "file"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, memory: Any) -> str:
    """The address of a folder with 20 images and the table that lists them."""
    from PIL import Image

    root = "memory://bucket" if request.param == "memory" else f"file://{tmp_path / 'bucket'}"
    with uploaded_folder(root) as folder:
        (folder / "img").mkdir(parents=True)
        lines = ["path,source,label"]
        for row in range(20):
            encoded = io.BytesIO()
            Image.fromarray(np.full((8, 8), 10 * row, np.uint8)).save(encoded, "PNG")
            (folder / f"img/{row}.png").write_bytes(encoded.getvalue())
            lines.append(f"img/{row}.png,{'ab'[row % 2]},{'xy'[row // 10]}")
        (folder / "table.csv").write_text("\n".join(lines))
    return root
