"""Find CIFAR-10 and CIFAR-100 in the folder that ``--data`` names, or fetch them.

Any of these is found, there or in a subfolder ``cifar10`` or ``cifar100``:

- packed sheets (``cifar10/labels.npz``, see ``paper.cifar_sheets``);
- the official archives, pickled or binary, packed or unpacked; torchvision keeps both;
- Hugging Face's Parquet files, as downloaded, in its cache, or saved as Arrow files;
- ``train/CLASS/*.png`` and ``test/CLASS/*.png``, as torchvision's ImageFolder reads them.

Images of the last layout come in the order of their file names; draws of databases then differ from
those of the official order.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from paper.cifar_copies import (
    N_CLASSES,
    ArchiveCopy,
    CifarCopy,
    CifarSplit,
    FolderCopy,
    SheetCopy,
    TableCopy,
    arrow_columns,
    class_folders,
    read_schema,
    split_of,
)
from paper.cifar_sheets import Split
from unskew.errors import ConfigError, DataError
from unskew.sources.cifar_files import DISTRIBUTIONS, CifarForm, download_cifar

DATA_SETS = ("cifar10", "cifar100")
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
# The environment variable that names the folder of the data.
VARIABLE = "UNSKEW_DATA"
# SHA-256 of all pixels of a split in the official order, (n, 32, 32, 3) uint8.
OFFICIAL_PIXELS = {
    ("cifar10", "train"): "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    ("cifar10", "test"): "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    ("cifar100", "train"): "4e457917601a66aed021f5fa37957b56c6319557c0a8ed5484de3c390af45430",
    ("cifar100", "test"): "4cb8e5d9309da489bf6b19cc10cd96c3ae6f8daf225380b605aaee4c0d6aee19",
}
# From a snapshot's own folder up to the hub's cache, datasets--…/snapshots/REVISION/CONFIG/FILE.
_DEPTHS = ("*", "*/*", "*/*/*", "*/*/*/*", "*/*/*/*/*")


def find_copy(data: Path, name: str) -> CifarCopy | None:
    """Return the copy of a data set at ``data``, a folder or an archive, or None."""
    if data.is_file():
        form = _form_of(data)
        return ArchiveCopy(name, data) if form is not None and _name(form) == name else None
    for folder in (data, data / name, data / name.replace("cifar", "cifar-")):
        if folder.is_dir():
            copy = (
                _sheets(folder, name)
                or _archive(folder, name)
                or _tables(folder, name)
                or _folders(folder, name)
            )
            if copy is not None:
                return copy
    return None


def present_sets(data: Path) -> tuple[str, ...]:
    """List which of the two data sets are at ``data``; none is an error."""
    if not data.exists():
        raise ConfigError(
            f"there is no folder {str(data)!r}. --data names the folder that holds CIFAR-10 or "
            "CIFAR-100; --download fetches them there.",
            option="--data",
            path=str(data),
        )
    sets = tuple(name for name in DATA_SETS if find_copy(data, name) is not None)
    if not sets:
        raise ConfigError(
            f"{str(data)!r} holds neither CIFAR-10 nor CIFAR-100. Name the folder with the "
            f"official archives ({', '.join(form.archive for form in DISTRIBUTIONS)}), packed or "
            "unpacked; torchvision's folder; Hugging Face's Parquet files; train/CLASS and "
            "test/CLASS with images; or cifar10/labels.npz with packed sheets. --download fetches "
            "the archives.",
            option="--data",
            path=str(data),
        )
    return sets


def get_copy(data: Path, name: str) -> CifarCopy:
    """Return the copy of a data set at ``data``; none is an error."""
    copy = find_copy(data, name)
    if copy is None:
        raise DataError(f"{TITLES[name]} is not in {str(data)!r}.", path=str(data), value=name)
    return copy


def read_split(data: Path, name: str, split: Split) -> CifarSplit:
    """Read a split, all of its images in memory (150 MB for 50,000)."""
    return get_copy(data, name).read(split)


def find_data(folder: str | Path | None = None, fallback: Path | None = None) -> Path | None:
    """Return the folder that holds CIFAR, or None.

    It is ``folder``, else the one that the variable UNSKEW_DATA names, else ``fallback``. A named
    folder without CIFAR is an error; the fallback may lack it.
    """
    named = folder or os.environ.get(VARIABLE)
    if named is not None:
        present_sets(Path(named))
        return Path(named)
    if fallback is not None and find_copy(fallback, "cifar10") is not None:
        return fallback
    return None


def download_sets(data: Path, names: Sequence[str] = DATA_SETS) -> list[str]:
    """Fetch the binary archives of the data sets that ``data`` lacks; return their names.

    An archive appears only when it is complete and its MD5 is the official one.
    """
    if data.is_file():
        raise ConfigError(
            f"--download saves archives in a folder, and {str(data)!r} is a file.",
            option="--data",
            path=str(data),
        )
    missing = [name for name in names if find_copy(data, name) is None]
    data.mkdir(parents=True, exist_ok=True)
    for name in missing:
        form = next(form for form in DISTRIBUTIONS if _name(form) == name and not form.pickled)
        download_cifar(str(data / form.archive), str(data / form.archive))
    return missing


def _name(form: CifarForm) -> str:
    return form.data.replace("-", "")


def _form_of(file: Path) -> CifarForm | None:
    """Return which official archive a file is: by its name, else by its first member."""
    for form in DISTRIBUTIONS:
        if file.name == form.archive:
            return form
    try:
        with tarfile.open(file, "r:*") as archive:
            first = archive.next()
    except (OSError, EOFError, tarfile.TarError):
        return None
    folder = "" if first is None else first.name.removeprefix("./").split("/")[0]
    return next((form for form in DISTRIBUTIONS if form.folder == folder), None)


def _sheets(folder: Path, name: str) -> CifarCopy | None:
    named = folder.name in (name, name.replace("cifar", "cifar-"))
    return SheetCopy(name, folder) if named and (folder / "labels.npz").is_file() else None


def _archive(folder: Path, name: str) -> CifarCopy | None:
    forms = [form for form in DISTRIBUTIONS if _name(form) == name]
    unpacked = [
        path
        for form in forms
        for path in (folder / form.folder, folder)
        if all((path / file).is_file() for file in form.names)
        and any((path / file).is_file() for part in form.parts.values() for file in part)
    ]
    packed = [folder / form.archive for form in forms if (folder / form.archive).is_file()]
    return ArchiveCopy(name, (unpacked + packed)[0]) if unpacked or packed else None


def _tables(folder: Path, name: str) -> CifarCopy | None:
    """Find the first folder of tables that has both splits and this data set's columns."""
    by_folder: dict[Path, dict[str, list[Path]]] = {}
    for depth in _DEPTHS:
        for file in sorted(folder.glob(depth + ".parquet")) + sorted(folder.glob(depth + ".arrow")):
            split = split_of(file)
            if split is not None:
                place = file.parent.parent if file.parent.name == split else file.parent
                by_folder.setdefault(place, {}).setdefault(split, []).append(file)
    for place, parts in by_folder.items():
        if len(parts) == 2 and arrow_columns(read_schema(parts["test"][0]), name):
            files = tuple((split, tuple(found)) for split, found in sorted(parts.items()))
            return TableCopy(name, place, files)
    return None


def _folders(folder: Path, name: str) -> CifarCopy | None:
    found = len(class_folders(folder / "train")) == N_CLASSES[name]
    return FolderCopy(name, folder) if found and (folder / "test").is_dir() else None
