"""What a run reads: files of every kind, handled right or set aside with the reason; labels,
splits, samples, caches and functions of the user.
"""

from __future__ import annotations

import csv
import json
import struct
import tomllib
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unskew
from represent.picture_pools import encoded
from run_data import (
    TABLE_SOURCES,
    TABLE_STRATA,
    error_of,
    init_vendors,
    weigh,
    write_photos,
)
from unlabelled_targets import shifted_world
from unskew.bias import ClassShift
from unskew.cli.app import run_command
from unskew.config.run_config import make_config, read_config
from unskew.runs.inputs import usable_cache

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

_RED = np.full((16, 16, 3), (200, 40, 40), dtype=np.uint8)
_LUMA = (0.299 * 200 + 0.587 * 40 + 0.114 * 40) / 255


def _png(width: int, height: int, lines: bytes = b"") -> bytes:
    """A PNG whose header claims any size."""
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
_JPEG = encoded(_RED, "JPEG", quality=95)
# Name of the file, its bytes, and what comes of it: its mean luma (to 1/100), or a part of the
# reason.
_FILES: dict[str, tuple[bytes, float | str]] = {
    "truncated.jpg": (
        encoded(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), "JPEG")[
            :900
        ],
        "truncated",
    ),
    "truncated.png": (
        encoded(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), "PNG")[
            :900
        ],
        "truncated",
    ),
    "empty.jpg": (b"", "empty"),
    "text.jpg": (b"this is no picture\n", "it is text"),
    "zero.png": (_png(0, 16), "not an image"),
    "bomb.png": (_png(50_000, 50_000), "more than max_pixels"),
    "sixteen.png": (encoded(np.full((16, 16), 0x8040, dtype=np.uint16), "PNG"), 0x80 / 255),
    "sixteen.tif": (encoded(np.full((16, 16), 0x8040, dtype=np.uint16), "TIFF"), 0x80 / 255),
    "cmyk.jpg": (encoded(_IMAGE.convert("CMYK"), "JPEG", quality=95), _LUMA),
    "palette.gif": (encoded(_IMAGE.convert("P"), "GIF"), _LUMA),
    "palette.png": (encoded(_IMAGE.quantize(4), "PNG"), _LUMA),
    "grey.png": (encoded(np.full((16, 16), 51, dtype=np.uint8), "PNG"), 0.2),
    "alpha.png": (encoded(_HALF, "PNG"), 1 - 128 / 255 * (1 - _LUMA)),
    "animated.gif": (
        encoded(
            _IMAGE, "GIF", save_all=True, append_images=[Image.new("RGB", (16, 16), "white")] * 3
        ),
        _LUMA,
    ),
    "animated.webp": (
        encoded(
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
def mixed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unusable")
    for source in ("north", "south"):
        for kind in ("cat", "dog"):
            (folder / source / kind).mkdir(parents=True)
            for at in range(12):
                (folder / source / kind / f"{at}.png").write_bytes(
                    encoded(np.full((16, 16, 3), 60 + at + 7 * len(source), dtype=np.uint8), "PNG")
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
    weigh(folder / "run.toml")
    return folder


def _unreadable(folder: Path) -> dict[str, str]:
    with (folder / "out" / "unreadable.csv").open(encoding="utf-8", newline="") as stream:
        return {row["id"]: row["reason"] for row in csv.DictReader(stream)}


@pytest.mark.parametrize("name", list(_FILES))
def test_every_file_is_handled_right_or_set_aside(mixed_run: Path, name: str) -> None:
    expected = _FILES[name][1]
    features = pd.read_parquet(mixed_run / "out" / "features.parquet").set_index("id")["brightness"]
    weights = pd.read_parquet(mixed_run / "out" / "weights.parquet").set_index("id")
    identity, aside = f"north/cat/{name}", _unreadable(mixed_run)
    if isinstance(expected, str):
        assert expected in aside[identity]
        assert identity not in weights.index
        assert identity not in features.index
    else:
        assert identity not in aside
        assert features[identity] == pytest.approx(expected, abs=0.01)
        assert weights.loc[identity, "weight"] > 0
        assert weights.loc[identity, "path"] == identity


def test_nothing_is_lost_and_links_in_a_circle_are_neither_followed_nor_fatal(
    mixed_run: Path,
) -> None:
    weights = pd.read_parquet(mixed_run / "out" / "weights.parquet")
    good = sum(not isinstance(expected, str) for _, expected in _FILES.values())
    assert len(weights) == 48 + good
    aside = _unreadable(mixed_run)
    assert len(aside) == len(_FILES) - good + 1
    assert "link" in aside["north/cat/ring.jpg"]
    assert (weights["weight"].sum(), weights["sample_weight"].mean()) == pytest.approx((1.0, 1.0))
    page = (mixed_run / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.count("<script") == 1


def test_above_the_tolerance_the_run_stops(
    mixed_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = mixed_run / "strict.toml"
    strict.write_text((mixed_run / "run.toml").read_text().replace("tolerance = 0.5\n", ""))
    assert run_command(["weigh", str(strict), "-o", str(mixed_run / "refused"), "--quiet"]) == 4
    assert "tolerance" in capsys.readouterr().err
    assert not (mixed_run / "refused" / "weights.parquet").exists()


def test_a_table_whose_paths_climb_out_is_read_without_them(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.png").write_bytes(_JPEG)
    rows = ["source,path,label"]
    for at in range(20):
        (tmp_path / "data" / f"{at}.png").write_bytes(
            encoded(np.full((8, 8), 10 * at, dtype=np.uint8), "PNG")
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
    weigh(tmp_path / "run.toml")
    assert len(pd.read_parquet(tmp_path / "out" / "weights.parquet")) == 20
    aside = _unreadable(tmp_path)
    assert len(aside) == 4
    assert all("leads out" in reason for reason in aside.values())
    (tmp_path / "run.toml").write_text(text.replace("tolerance", "allow_outside = true\ntolerance"))
    weigh(tmp_path / "run.toml", "wider")
    assert len(pd.read_parquet(tmp_path / "wider" / "weights.parquet")) >= 22


def test_several_labels_for_an_image(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"source": np.repeat(["a", "b"], 30), "label": rng.choice(["cat", "dog", "cat;dog"], 60)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    everything = '\n[bias]\nfamily = "subpopulation"\nqueries = { a = "all", b = "all" }\n'
    (tmp_path / "run.toml").write_text(TABLE_SOURCES + 'label_separator = ";"\n' + everything)
    out = weigh(tmp_path / "run.toml")
    assert run_command(["verify", str(out), "--quiet"]) == 0
    (tmp_path / "run.toml").write_text(TABLE_SOURCES + 'label_separator = ";"\n' + TABLE_STRATA)
    error = error_of(["check", str(tmp_path / "run.toml")], capsys)
    assert (error["kind"], error["exit_code"]) == ("DataError", 4)
    assert "label" in error["message"]


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 4, b"a,b\n1,2\n", b'"id'])
def test_a_broken_table_of_splits_is_named_with_the_way_out(
    content: bytes, table: Path, capsys: Captured
) -> None:
    (table.parent / "splits.csv").write_bytes(content)
    table.write_text(table.read_text().replace("images", 'split = { file = "splits.csv" }\nimages'))
    assert run_command(["check", str(table)]) == 4
    shown = capsys.readouterr().err
    assert "splits.csv" in shown
    assert "unskew split" in shown


def test_features_of_pixels_need_images(table: Path, capsys: Captured) -> None:
    table.write_text(table.read_text() + '\n[represent]\nfeatures = ["brightness"]\n')
    error = error_of(["check", str(table)], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"key": "represent.features"})
    assert "images = false" in error["message"]


def test_a_target_sample_may_be_a_table_too(table: Path) -> None:
    pd.DataFrame({"label": ["cat", "cat", "dog"] * 20, "other": 1}).to_csv(
        table.parent / "sample.csv", index=False
    )
    table.write_text(table.read_text().replace('uniform = "label"', 'sample = "sample.csv"'))
    weights = pd.read_parquet(weigh(table) / "weights.parquet")
    np.testing.assert_allclose(weights.groupby("label")["weight"].sum()["cat"], 2 / 3)


def test_a_cache_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    photos = write_photos(tmp_path)
    monkeypatch.setattr("unskew.runs.inputs.may_write", lambda folder: False)
    assert run_command(["init", str(photos), "-o", str(tmp_path / "run.toml"), "--quiet"]) == 0
    assert run_command(["check", str(tmp_path / "run.toml")]) == 0
    assert "represent.cache" in capsys.readouterr().err
    assert not (tmp_path / ".unskew-cache").exists()


@pytest.mark.parametrize("kind", ["missing", "full", "link", "empty", "cache", "inside"])
def test_a_configuration_does_not_choose_any_folder_for_its_cache(
    kind: str, table: Path, tmp_path_factory: pytest.TempPathFactory, caplog: Any
) -> None:
    """Outside of its own folder the user has to create it; a folder of other things is left alone.

    Nor does it choose where an archive is fetched to.
    """
    place = tmp_path_factory.mktemp("elsewhere") / "cache"
    if kind != "missing":
        place.mkdir()
    if kind in ("full", "link"):
        (place / "mine").write_text("mine")
    if kind == "cache":
        (place / "sharpness-0").mkdir()
        (place / "sharpness-0" / "settings.json").write_text("{}")
    (table.parent / "link").symlink_to(place)
    cache = {"link": "link", "inside": "new"}.get(kind, str(place))
    table.write_text(f'{table.read_text()}\n[represent]\ncache = "{cache}"\n')
    is_used = usable_cache(read_config(table)) is not None
    assert is_used == (kind in ("empty", "cache", "inside"))
    assert ("create it" in caplog.text) != is_used
    # Settings of the user's own program are the user's.
    own = make_config(tomllib.loads(table.read_text()), table.parent)
    assert usable_cache(own) is not None


def test_a_configuration_does_not_choose_any_folder_for_a_download(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "home").mkdir()
    configuration = tmp_path / "home" / "run.toml"
    configuration.write_text(
        '[sources]\ncifar = "../cifar-10-python.tar.gz"\ndownload = true\n' + TABLE_STRATA
    )
    (problem,) = error_of(["check", str(configuration)], capsys)["problems"]
    assert (problem["key"], problem["line"]) == ("sources.download", 3)
    assert "--download" in problem["message"]


def test_a_function_next_to_the_configuration_runs_only_if_it_is_allowed(
    vendors: Path, tmp_path: Path
) -> None:
    configuration = init_vendors(vendors, tmp_path)
    (tmp_path / "beside_the_run.py").write_text(
        "def redness(images):\n    return [image[..., 0].mean() for image in images]\n"
    )
    text = configuration.read_text().replace(
        'features = ["brightness"', 'features = ["beside_the_run:redness", "brightness"'
    )
    configuration.write_text(text)
    command = ["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]
    assert run_command(command) == 2
    assert run_command([*command, "--allow-code", "beside_the_run"]) == 0
    assert "redness" in pd.read_parquet(tmp_path / "out" / "features.parquet").columns


def test_margins_of_images_that_have_several_labels(tmp_path: Path) -> None:
    """`label=cat` says whether an image shows a cat; the shares of several such indicators are
    reached together, by raking.
    """
    rng = np.random.default_rng(0)
    rows = [
        {
            "id": i,
            "source": "ab"[i % 2],
            "label": [
                name
                for name, share in (("cat", 0.2 + 0.4 * (i % 2)), ("dog", 0.5))
                if rng.random() < share
            ],
        }
        for i in range(300)
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "run.toml").write_text(
        '[sources]\nmanifest = "all.jsonl"\nimages = false\nsource = "source"\n'
        '[target]\nmargins."label=cat" = { 1 = 0.1, 0 = 0.9 }\nmargins."label=dog" = { 1 = 0.7, 0 '
        "= 0.3 }\n"
        '[bias]\nfamily = "strata"\nby = ["label=cat", "label=dog"]\n'
    )
    assert (
        run_command(["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"])
        == 0
    )
    table = pd.read_parquet(tmp_path / "out" / "weights.parquet")
    for name, share in (("cat", 0.1), ("dog", 0.7)):
        shows = np.array([name in label for label in table["label"]])
        assert table["weight"][shows].sum() == pytest.approx(share, abs=1e-9)


def test_the_images_choose_the_bias_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`family = "auto"` is `choose_bias` without candidates; the run's settings name the model."""
    pool, target, _ = shifted_world(0, share=[0.2, 0.3, 0.5], n=600, n_target=200)
    pool.frame.to_csv(tmp_path / "pool.csv", index=False)
    target.reference.frame.to_csv(tmp_path / "target.csv", index=False)
    bias = '[sources]\nmanifest = "pool.csv"\nimages = false\n[target]\nsample = "target.csv"\n'
    (tmp_path / "run.toml").write_text(bias + '[bias]\nfamily = "auto"\n', encoding="utf-8")
    run = unskew.run(tmp_path / "run.toml", tmp_path / "out")
    columns = [f"x_{d}" for d in range(6)]
    assert run.inputs.bias == ClassShift(columns)
    assert any("label shift" in record.getMessage() for record in caplog.records)
    named = tomllib.loads((tmp_path / "out" / "run.toml").read_text(encoding="utf-8"))["bias"]
    assert named == {"family": "class_shift", "features": columns}


def test_features_that_were_computed_elsewhere_are_joined_by_id(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    source = np.where(x[:, 0] + rng.logistic(size=80) > 0, "a", "b")
    images = pd.DataFrame({"id": np.arange(80), "source": source})
    images.to_csv(tmp_path / "images.csv", index=False)
    emb = pd.DataFrame({"image": np.arange(80), "emb": list(x)})
    emb.iloc[::-1].to_parquet(tmp_path / "emb.parquet")
    (tmp_path / "run.toml").write_text(
        '[sources]\nmanifest = "images.csv"\nimages = false\n'
        '[represent]\nfeatures = { file = "emb.parquet", id = "image" }\n'
        '[target]\nsource = "a"\n[bias]\nfamily = "tilt"\nfeatures = ["emb"]\n'
    )
    unskew.run(tmp_path / "run.toml", tmp_path / "out")
    weight = pd.read_parquet(tmp_path / "out" / "weights.parquet")["weight"]
    pool = unskew.Pool.from_arrays(source, emb=x)
    expected = unskew.debias(pool, unskew.bias.Tilt(["emb"]), unskew.Target.source("a"))
    np.testing.assert_allclose(weight, expected.weight, rtol=1e-9)
    assert run_command(["verify", str(tmp_path / "out")]) == 0
