"""Everything that a folder of images may hold, in one run of the command line: handled right or set
aside with its reason, no crash.
"""

from __future__ import annotations

import csv
import io
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from unskew import Pool
from unskew.cli.app import run_command
from unskew.represent.pool_features import represent_images
from unskew.sources.files import FileImages

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

_RED = np.full((16, 16, 3), (200, 40, 40), dtype=np.uint8)
_LUMA = (0.299 * 200 + 0.587 * 40 + 0.114 * 40) / 255


def _file(image: Any, kind: str, **options: Any) -> bytes:
    written = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(
        written, kind, **options
    )
    return written.getvalue()


def _png(width: int, height: int, lines: bytes = b"") -> bytes:
    """A PNG that says of itself whatever it likes."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    )


_IMAGE = Image.fromarray(_RED)
_HALF = Image.fromarray(np.dstack([_RED, np.full((16, 16), 128, dtype=np.uint8)]))
_JPEG = _file(_RED, "JPEG", quality=95)
# Name of the file, its bytes, and what comes of it: its mean luma (to 1/100), or a part of the
# reason.
_FILES: dict[str, tuple[bytes, float | str]] = {
    "truncated.jpg": (
        _file(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), "JPEG")[:900],
        "truncated",
    ),
    "truncated.png": (
        _file(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), "PNG")[:900],
        "truncated",
    ),
    "empty.jpg": (b"", "empty"),
    "text.jpg": (b"this is no picture\n", "it is text"),
    "zero.png": (_png(0, 16), "not an image"),
    "bomb.png": (_png(50_000, 50_000), "more than max_pixels"),
    "sixteen.png": (_file(np.full((16, 16), 0x8040, dtype=np.uint16), "PNG"), 0x80 / 255),
    "sixteen.tif": (_file(np.full((16, 16), 0x8040, dtype=np.uint16), "TIFF"), 0x80 / 255),
    "cmyk.jpg": (_file(_IMAGE.convert("CMYK"), "JPEG", quality=95), _LUMA),
    "palette.gif": (_file(_IMAGE.convert("P"), "GIF"), _LUMA),
    "palette.png": (_file(_IMAGE.quantize(4), "PNG"), _LUMA),
    "grey.png": (_file(np.full((16, 16), 51, dtype=np.uint8), "PNG"), 0.2),
    "alpha.png": (_file(_HALF, "PNG"), 1 - 128 / 255 * (1 - _LUMA)),
    "animated.gif": (
        _file(
            _IMAGE, "GIF", save_all=True, append_images=[Image.new("RGB", (16, 16), "white")] * 3
        ),
        _LUMA,
    ),
    "animated.webp": (
        _file(
            _IMAGE, "WEBP", save_all=True, lossless=True, append_images=[Image.new("RGB", (16, 16))]
        ),
        _LUMA,
    ),
    "mislabelled.png": (_JPEG, _LUMA),
    # Names.
    "smörgås \u202e\u0301 日本 😀.jpg": (_JPEG, _LUMA),
    'it\'s "quoted", & <b>.jpg': (_JPEG, _LUMA),
    "<script>alert(1)<∕script>.jpg": (_JPEG, _LUMA),
    "line\nbreak\rreturn.jpg": (_JPEG, _LUMA),
    "line\nbreak\rempty.jpg": (b"", "empty"),
    "=cmd|x.jpg": (b"", "empty"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unusable")
    for source in ("north", "south"):
        for kind in ("cat", "dog"):
            (folder / source / kind).mkdir(parents=True)
            for at in range(12):
                (folder / source / kind / f"{at}.png").write_bytes(
                    _file(np.full((16, 16, 3), 60 + at + 7 * len(source), dtype=np.uint8), "PNG")
                )
    for name, (content, _) in _FILES.items():
        (folder / "north" / "cat" / name).write_bytes(content)
    (folder / "north" / "cat" / "loop").symlink_to(folder / "north", target_is_directory=True)
    (folder / "north" / "cat" / "ring.jpg").symlink_to("ring.jpg")
    (folder / "run.toml").write_text(
        '[sources]\nfolders = { north = "north", south = "south" }\ntolerance = '
        '0.5\n\n[represent]\nfeatures = ["brightness"]\n\n'
        '[target]\nuniform = ["label"]\n\n[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    assert (
        run_command(["weigh", str(folder / "run.toml"), "-o", str(folder / "out"), "--quiet"]) == 0
    )
    return folder


def _unreadable(folder: Path) -> dict[str, str]:
    with (folder / "out" / "unreadable.csv").open(encoding="utf-8", newline="") as stream:
        return {row["id"]: row["reason"] for row in csv.DictReader(stream)}


@pytest.mark.parametrize("name", list(_FILES))
def test_every_file_is_handled_right_or_set_aside(run: Path, name: str) -> None:
    expected = _FILES[name][1]
    features = pd.read_parquet(run / "out" / "features.parquet").set_index("id")["brightness"]
    weights = pd.read_parquet(run / "out" / "weights.parquet").set_index("id")
    identity, aside = f"north/cat/{name}", _unreadable(run)
    if isinstance(expected, str):
        assert expected in aside[identity]
        assert identity not in weights.index
        assert identity not in features.index
    else:
        assert identity not in aside
        assert features[identity] == pytest.approx(expected, abs=0.01)
        assert weights.loc[identity, "weight"] > 0
        assert weights.loc[identity, "path"] == identity


def test_nothing_is_lost_and_links_in_a_circle_are_neither_followed_nor_fatal(run: Path) -> None:
    weights = pd.read_parquet(run / "out" / "weights.parquet")
    good = sum(not isinstance(expected, str) for _, expected in _FILES.values())
    assert len(weights) == 48 + good
    aside = _unreadable(run)
    assert len(aside) == len(_FILES) - good + 1
    assert "link" in aside["north/cat/ring.jpg"]
    assert (weights["weight"].sum(), weights["sample_weight"].mean()) == pytest.approx((1.0, 1.0))
    page = (run / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.count("<script") == 1


def test_above_the_tolerance_the_run_stops(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = run / "strict.toml"
    strict.write_text((run / "run.toml").read_text().replace("tolerance = 0.5\n", ""))
    assert run_command(["weigh", str(strict), "-o", str(run / "refused"), "--quiet"]) == 4
    assert "tolerance" in capsys.readouterr().err
    assert not (run / "refused" / "weights.parquet").exists()


def test_the_limit_of_pixels_can_be_raised(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.png").write_bytes(_file(np.full((20, 30), 51, dtype=np.uint8), "PNG"))
    pool = Pool.from_folders({"n": tmp_path})
    assert len(represent_images(pool, "brightness", max_pixels=600)) == 3
    few = pool.with_columns({})
    (tmp_path / "0.png").write_bytes(_file(np.full((20, 31), 51, dtype=np.uint8), "PNG"))
    assert represent_images(few, "brightness", max_pixels=600, tolerance=0.5).set_aside[
        "id"
    ].tolist() == ["n/0.png"]
    assert len(represent_images(few, "brightness", max_pixels=620)) == 3


@contextmanager
def _unprivileged() -> Iterator[None]:
    """As somebody who may not read everything: root may."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_without_permission_and_files_that_vanish_leave_with_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The columns of the others stay beside their ids."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for at in range(8):
            (folder / f"{at}.png").write_bytes(
                _file(np.full((8, 8), 30 * at, dtype=np.uint8), "PNG")
            )
        (folder / "2.png").chmod(0)
        pool = Pool.from_folders({"n": folder})
        read = FileImages.read

        def vanishing(images: FileImages, row: int) -> bytes:
            if str(images.paths[row]).endswith("5.png"):
                (folder / "5.png").unlink(missing_ok=True)  # between being listed and being read
            return read(images, row)

        monkeypatch.setattr(FileImages, "read", vanishing)
        represent_images(
            Pool.from_arrays(["a"], images=_RED[None]), "brightness"
        )  # loads what only its owner may
        os.chown(folder, 65534, -1) if os.geteuid() == 0 else None
        with _unprivileged():
            found = represent_images(pool, "brightness", tolerance=0.5, jobs=2)
    assert found.set_aside["id"].tolist() == ["n/2.png", "n/5.png"]
    assert "permission" in found.set_aside["reason"][0]
    assert (
        "no such file" in found.set_aside["reason"][1]
        or "not there" in found.set_aside["reason"][1]
    )
    assert found.frame["id"].tolist() == [f"n/{at}.png" for at in (0, 1, 3, 4, 6, 7)]
    np.testing.assert_allclose(
        found.frame["brightness"], np.array([0, 1, 3, 4, 6, 7]) * 30 / 255, atol=1e-12
    )


def test_a_table_whose_paths_climb_out_is_read_without_them(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.png").write_bytes(_JPEG)
    rows = ["source,path,label"]
    for at in range(20):
        (tmp_path / "data" / f"{at}.png").write_bytes(
            _file(np.full((8, 8), 10 * at, dtype=np.uint8), "PNG")
        )
        rows.append(f"{'ab'[at % 2]},{at}.png,{'xy'[at // 10]}")
    rows += [
        "a,../secret.png,x",
        f"a,{tmp_path}/secret.png,x",
        "b,0.png/../../secret.png,y",
        "b,..\\secret.png,y",
    ]
    (tmp_path / "data" / "table.csv").write_text("\n".join(rows) + "\n")
    text = (
        '[sources]\nmanifest = "data/table.csv"\ntolerance = 0.5\n\n[represent]\nfeatures = '
        '["brightness"]\n\n'
        '[target]\nuniform = ["label"]\n\n[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    (tmp_path / "run.toml").write_text(text)
    assert (
        run_command(["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"])
        == 0
    )
    assert len(pd.read_parquet(tmp_path / "out" / "weights.parquet")) == 20
    aside = _unreadable(tmp_path)
    assert len(aside) == 4
    assert all("leads out" in reason for reason in aside.values())
    (tmp_path / "run.toml").write_text(text.replace("tolerance", "allow_outside = true\ntolerance"))
    assert (
        run_command(["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "wider"), "--quiet"])
        == 0
    )
    assert len(pd.read_parquet(tmp_path / "wider" / "weights.parquet")) >= 22
