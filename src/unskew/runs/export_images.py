"""Folders of images with their weights: Hugging Face's imagefolder, and WebDataset shards."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.progress import show_progress
from unskew.errors import DataError, ImageError
from unskew.files.atomic import folder_written_whole
from unskew.files.plain_json import write_json
from unskew.records import Ints, Pool
from unskew.records.levels import level_text
from unskew.records.pool import RawImage
from unskew.represent.decode import Picture, open_image, pillow_unlimited, reasons
from unskew.runs.export_tables import Export, plain_rows, split_rows
from unskew.weigh.weights_table import is_list

if TYPE_CHECKING:
    import pandas as pd

# How encoded images begin, and the suffix that says so.
_BEGINNINGS = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    (b"BM", "bmp"),
)
# Readers of WebDataset decode these by default; other formats become PNG there.
_SHARD_FORMATS = ("jpg", "png")
_FOLDER_FORMATS = ("jpg", "png", "gif", "tif", "bmp", "webp")
# Modes that PNG holds without loss.
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
_TAR_BLOCK = 512


def write_image_folder(
    table: pd.DataFrame, pool: Pool, path: Path, progress: bool | None = None
) -> Export:
    """Write a folder that ``datasets.load_dataset("imagefolder", data_dir=…)`` reads.

    ``load_dataset`` with its path reads it, too. There is one subfolder for each split with its
    images and a ``metadata.jsonl``; file names are hashes of ids, because names such as "test" in
    them would be taken for splits. Images stay as they are; arrays become PNG.
    """
    rows = _rows_by_split(table)
    folders = _split_folders(rows)
    with folder_written_whole(path) as temporary:
        for split, at_m in rows.items():
            folder = temporary / folders[split]
            folder.mkdir()
            with (folder / "metadata.jsonl").open("w", encoding="utf-8", newline="\n") as file:
                for key, row, image, suffix in _samples(
                    table, pool, at_m, _FOLDER_FORMATS, progress
                ):
                    name = f"{key}.{suffix}"
                    (folder / name).write_bytes(image)
                    file.write(_json_line({"file_name": name, **row}) + "\n")
        (temporary / "README.md").write_text(_dataset_card(folders.values()), encoding="utf-8")
    return Export(path, len(table))


def write_shards(
    table: pd.DataFrame, pool: Pool, path: Path, shard_bytes: int, progress: bool | None = None
) -> Export:
    """Write WebDataset shards ``<split>-000000.tar`` ….

    Each image is ``<key>.jpg`` or ``.png``, ``<key>.cls`` and ``<key>.json``. The key is a hash of
    the id, the id is in the JSON with the weight. ``.cls`` is the position of the label in
    ``classes.json``; images without a label, or with several, have none. Images are in the order of
    their keys, so that sources and classes are mixed, and the same images give the same bytes.
    """
    rows = _rows_by_split(table)
    folders = _split_folders(rows)
    classes = _classes(table)
    with folder_written_whole(path) as temporary:
        for split, at_m in rows.items():
            with closing(_Shards(temporary, folders[split], shard_bytes)) as shards:
                for key, row, image, suffix in _samples(
                    table, pool, at_m, _SHARD_FORMATS, progress
                ):
                    files = {suffix: image, "json": _json_line(row).encode()}
                    if row.get("label") is not None and not is_list(row["label"]):
                        files["cls"] = str(classes[level_text(row["label"])]).encode()
                    shards.add(key, files)
        write_json(temporary / "classes.json", list(classes))
    return Export(path, len(table))


def _json_line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


class _Shards:
    """Numbered tar files of one split, each closed before it grows beyond the limit."""

    def __init__(self, folder: Path, split: str, limit: int) -> None:
        self.folder, self.split, self.limit = folder, split, limit
        self.number, self.size, self.tar = 0, 0, None

    tar: tarfile.TarFile | None

    def add(self, key: str, files: dict[str, bytes]) -> None:
        size = sum(_TAR_BLOCK + -(-len(data) // _TAR_BLOCK) * _TAR_BLOCK for data in files.values())
        if self.tar is not None and self.size + size > self.limit:
            self.close()
        if self.tar is None:
            # USTAR: plain headers that every reader knows; dates, owners and the machine stay out.
            path = self.folder / f"{self.split}-{self.number:06d}.tar"
            self.tar = tarfile.open(path, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 (close)
            self.number, self.size = self.number + 1, 0
        for suffix, data in sorted(files.items()):
            info = tarfile.TarInfo(f"{key}.{suffix}")
            info.size, info.mode = len(data), 0o644
            self.tar.addfile(info, io.BytesIO(data))
        self.size += size

    def close(self) -> None:
        if self.tar is not None:
            self.tar.close()
            self.tar = None


def _rows_by_split(table: pd.DataFrame) -> dict[str, Ints]:
    """Return the rows of each split in the order of their keys."""
    position = {value: at for at, value in enumerate(table["id"].tolist())}
    rows = {
        split: [position[value] for value in part["id"].tolist()]
        for split, part in split_rows(table).items()
    }
    keys = [_key(value) for value in table["id"]]
    if len(set(keys)) < len(keys):
        raise DataError("two ids have the same hash; rename one of the images.")
    return {
        split: np.array(sorted(at_m, key=lambda at: keys[at]), dtype=np.int64)
        for split, at_m in rows.items()
    }


def _key(id: Any) -> str:
    """Return a name without dots, slashes or words: 20 hexadecimal digits of the id's hash."""
    return hashlib.blake2b(
        level_text(id).encode(errors="surrogatepass"), digest_size=10
    ).hexdigest()


def _split_folders(splits: dict[str, Any]) -> dict[str, str]:
    """Return file names for the splits; a pool without splits is what others call train."""
    if list(splits) == ["all"]:
        return {"all": "train"}
    names = {split: re.sub(r"\W+", "_", split) for split in splits}
    if len(set(names.values())) < len(names):
        raise DataError(
            f"the splits {', '.join(map(repr, splits))} would have the same file names; rename "
            "them.",
            column="split",
            levels=list(splits),
        )
    return names


def _classes(table: pd.DataFrame) -> dict[str, int]:
    """Return {label: its position}, in the order of numbers or letters."""
    labels = {
        level_text(value)
        for value, missing in zip(table["label"], table["label"].isna(), strict=True)
        if not is_list(value) and not missing
    }
    ordered = sorted(
        labels,
        key=lambda label: (
            (0, int(label), "") if re.fullmatch(r"\d{1,18}", label) else (1, 0, label)
        ),
    )
    return {label: at for at, label in enumerate(ordered)}


def _samples(
    table: pd.DataFrame, pool: Pool, at_m: Ints, formats: tuple[str, ...], progress: bool | None
) -> Iterator[tuple[str, dict[str, Any], bytes, str]]:
    """Yield (key, row without empty columns, encoded image, suffix) of the images in that order."""
    assert pool.images is not None
    used = [name for name in table.columns if not table[name].isna().all()]
    with show_progress("images written", at_m.size, progress) as advance:
        for at, row in zip(at_m.tolist(), plain_rows(table.iloc[at_m]), strict=True):
            try:
                image, suffix = _encoded(pool.images.read(at), formats)
            except ImageError as error:
                raise DataError(
                    f"the image {row['id']} cannot be exported: {error}. It had a weight; was it "
                    "moved or changed since?",
                    id=row["id"],
                ) from error
            yield (
                _key(row["id"]),
                {name: value for name, value in row.items() if name in used},
                image,
                suffix,
            )
            advance(1)


def _encoded(raw: RawImage, formats: tuple[str, ...]) -> tuple[bytes, str]:
    """Return the image as the bytes of a file, and the suffix of its format.

    The bytes are unchanged if the format is among ``formats``; other images become PNG.
    """
    if isinstance(raw, bytes):
        suffix = next(
            (suffix for beginning, suffix in _BEGINNINGS if raw.startswith(beginning)), ""
        )
        if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
            suffix = "webp"
        if suffix in formats:
            return raw, suffix
    with pillow_unlimited(), reasons():
        return _png(raw), "png"


def _png(raw: RawImage) -> bytes:
    from PIL import Image, ImageOps

    if isinstance(raw, bytes):
        Picture(raw)  # refuses what is too large
        picture = ImageOps.exif_transpose(open_image(raw))
    else:
        pixels = np.asarray(raw)
        picture = Image.fromarray(
            pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
        )
    if picture.mode not in _PNG_MODES:
        picture = picture.convert("RGB")
    written = io.BytesIO()
    picture.save(written, format="PNG")
    return written.getvalue()


def _dataset_card(folders: Any) -> str:
    """Return the README of a dataset, which tells ``load_dataset`` the folder of each split."""
    files = "\n".join(
        f"      - split: {json.dumps(name)}\n        path: {json.dumps(f'{name}/**')}"
        for name in folders
    )
    return (
        f"---\nconfigs:\n  - config_name: default\n    data_files:\n{files}\n---\n\n"
        "Images with debiasing weights: `weight` sums to 1 within a split, `sample_weight` is the "
        "same with mean 1.\n"
    )
