"""The files of the official CIFAR archives: names and checksums; finding and fetching them."""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from unskew.errors import ConfigError, DataError, UnskewError, first_few
from unskew.files.addresses import check_asking
from unskew.files.atomic import written_whole
from unskew.files.reading import check_regular, opened_tar
from unskew.sources.files import near_names

logger = logging.getLogger(__name__)
ADDRESS = "https://www.cs.toronto.edu/~kriz/"
# The largest member, the training images of CIFAR-100, has 155 MB; an archive that unpacks to more
# is another one.
_LARGEST = 400_000_000
_BLOCK = 1 << 20


@dataclass(frozen=True)
class CifarForm:
    """One of the four forms in which the data are distributed.

    Attributes
    ----------
    archive, md5 : name and checksum of the archive.
    folder : the folder in it.
    parts : for each split, its files in order, with their checksums.
    names : the files that name the classes.
    """

    data: str
    archive: str
    md5: str
    folder: str
    parts: Mapping[str, Mapping[str, str]]
    names: tuple[str, ...]

    @property
    def pickled(self) -> bool:
        """Whether this is the form for Python rather than the binary one."""
        return "python" in self.archive


DISTRIBUTIONS = (
    CifarForm(
        "cifar-10",
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
        {
            "train": {
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
            "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
        },
        ("batches.meta",),
    ),
    CifarForm(
        "cifar-10",
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        "cifar-10-batches-bin",
        {
            "train": {
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            },
            "test": {"test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d"},
        },
        ("batches.meta.txt",),
    ),
    CifarForm(
        "cifar-100",
        "cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
        {
            "train": {"train": "16019d7e3df5f24257cddd939b257f8d"},
            "test": {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
        },
        ("meta",),
    ),
    CifarForm(
        "cifar-100",
        "cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        "cifar-100-binary",
        {
            "train": {"train.bin": "6172c7755cfe09b2fe270c85cebc1b15"},
            "test": {"test.bin": "4499cfba6c016c1be1438163640a0898"},
        },
        ("fine_label_names.txt", "coarse_label_names.txt"),
    ),
)


def find_cifar(path: str, user_path: str, verify: bool) -> tuple[CifarForm, dict[str, bytes]]:
    """Find which distribution is at ``path``, and read its files, checked.

    ``path`` is an archive, the unpacked folder, or a folder with one of them; ``user_path`` is the
    same as the user wrote it.
    """
    if os.path.isdir(path):
        for distribution in DISTRIBUTIONS:
            for folder in (path, os.path.join(path, distribution.folder)):
                if all(os.path.isfile(os.path.join(folder, name)) for name in distribution.names):
                    return distribution, _read_folder(distribution, folder, user_path, verify)
        packed = [
            form.archive
            for form in DISTRIBUTIONS
            if os.path.isfile(os.path.join(path, form.archive))
        ]
        if len(packed) != 1:
            content = (
                f"{first_few(packed)} at once: name one of them"
                if packed
                else "neither an archive nor an unpacked one"
            )
            raise DataError(
                f"{user_path!r} should hold CIFAR-10 or CIFAR-100; there is {content}. "
                f"{_archives()}",
                path=user_path,
                value=packed,
            )
        path = os.path.join(path, packed[0])
    if not os.path.isfile(path):
        raise ConfigError(
            f"the CIFAR archive {user_path!r} does not exist.{near_names(path)} {_archives()} "
            "download = true fetches it.",
            path=user_path,
        )
    return _read_archive(path, user_path, verify)


def _archives() -> str:
    return (
        f"The archives are {', '.join(form.archive for form in DISTRIBUTIONS)}, from "
        f"{ADDRESS}cifar.html."
    )


def _read_folder(
    distribution: CifarForm, folder: str, user_path: str, verify: bool
) -> dict[str, bytes]:
    content = {}
    for name in _file_names(distribution):
        try:
            check_regular(os.path.join(folder, name))
            with open(os.path.join(folder, name), "rb") as stream:
                content[name] = stream.read(_LARGEST)
        except OSError as error:
            raise DataError(
                f"{user_path!r} lacks the file {name!r} of {distribution.archive} "
                f"({error.strerror}).",
                path=user_path,
                value=name,
            ) from error
    if verify:
        for files in distribution.parts.values():
            for name, md5 in files.items():
                _check(
                    f"{user_path}/{name}",
                    hashlib.md5(content[name], usedforsecurity=False).hexdigest(),
                    md5,
                )
    return content


def _read_archive(file: str, user_path: str, verify: bool) -> tuple[CifarForm, dict[str, bytes]]:
    content = _members(file, user_path)
    for distribution in DISTRIBUTIONS:
        needed = _file_names(distribution)
        missing = [name for name in needed if (distribution.folder, name) not in content]
        if len(missing) == len(needed):
            continue
        if missing:
            raise DataError(
                f"{user_path!r} lacks {first_few(missing)} of {distribution.archive}.",
                path=user_path,
                value=missing,
            )
        if verify:
            _check(user_path, _md5_of(file), distribution.md5)
        return distribution, {name: content[distribution.folder, name] for name in needed}
    raise DataError(
        f"{user_path!r} holds neither CIFAR-10 nor CIFAR-100 as distributed. {_archives()}",
        path=user_path,
    )


def _file_names(distribution: CifarForm) -> list[str]:
    return [*distribution.names, *(name for part in distribution.parts.values() for name in part)]


def _members(file: str, user_path: str) -> dict[tuple[str, str], bytes]:
    """Read the files of any distribution in an archive, by folder and name."""
    content: dict[tuple[str, str], bytes] = {}
    wanted = {(form.folder, name) for form in DISTRIBUTIONS for name in _file_names(form)}
    try:
        with opened_tar(file) as archive:
            for member in archive:
                folder, _, name = member.name.removeprefix("./").rpartition("/")
                if member.isfile() and (folder, name) in wanted and member.size <= _LARGEST:
                    stream = archive.extractfile(member)
                    content[folder, name] = b"" if stream is None else stream.read()
    except UnskewError:
        raise
    except Exception as error:  # damaged archives make the library raise anything
        raise DataError(
            f"{user_path!r} cannot be read as an archive ({error}). Is the download complete? "
            f"{_archives()}",
            path=user_path,
        ) from error
    return content


def _check(user_path: str, md5: str, official: str) -> None:
    if md5 != official:
        raise DataError(
            f"{user_path!r} is not the official file: its MD5 is {md5}, not {official}. It was "
            "changed, or the download is incomplete; fetch it again, or set verify = false if "
            "the change is intended.",
            path=user_path,
            value=md5,
            allowed=official,
        )


def _md5_of(file: str) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download_cifar(path: str, user_path: str) -> None:
    """Fetch an archive from its authors' page unless the file exists.

    The file appears only when it is complete and its checksum is right.
    """
    distribution = next(
        (form for form in DISTRIBUTIONS if form.archive == os.path.basename(path)), None
    )
    if distribution is None:
        raise ConfigError(
            f"download = true writes an archive under its own name, and {user_path!r} is none of "
            f"them. {_archives()}",
            option="download",
            path=user_path,
        )
    if os.path.exists(path):
        return
    address = ADDRESS + distribution.archive
    check_asking(address)
    logger.info("fetching %s", address)
    with written_whole(path) as unfinished, open(unfinished, "wb") as stream:
        digest = hashlib.md5(usedforsecurity=False)
        for block in _fetched(address, user_path):
            digest.update(block)
            stream.write(block)
        _check(user_path, digest.hexdigest(), distribution.md5)


def _fetched(address: str, user_path: str) -> Iterator[bytes]:
    try:
        response: IO[bytes]
        with urllib.request.urlopen(address, timeout=60) as response:
            while block := response.read(_BLOCK):
                yield block
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{address} cannot be fetched ({reason}). Is this machine connected to the network? "
            f"If not, fetch the file elsewhere and save it as {user_path!r}; download = true is "
            "not needed then.",
            path=user_path,
            value=address,
        ) from error
