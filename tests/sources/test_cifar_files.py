"""Checksums, broken archives and downloads of CIFAR."""

import hashlib
import io
import urllib.error

import pytest

from raising import refused
from sources.cifar_archives import (
    members_10,
    pack,
    unpack,
)
from unskew import ConfigError, DataError, Pool
from unskew.sources import cifar_files
from unskew.sources.readers import read_sources


def test_what_is_not_the_official_file_is_refused(tmp_path):
    archive = pack(tmp_path / "cifar-10-python.tar.gz", members_10("python"))
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    with refused(DataError, value=md5, allowed="c58f30108f718f92721af3b95e74349a"):
        Pool.from_cifar(archive)
    folder = unpack(tmp_path / "unpacked", members_10("binary"))
    with refused(
        DataError, path=f"{folder}/data_batch_1.bin", allowed="5dd7e06a14cb22eb9f671a540d1b7c25"
    ):
        Pool.from_cifar(folder)


def test_the_official_checksum_passes(tmp_path, monkeypatch):
    archive = pack(tmp_path / "cifar-10-binary.tar.gz", members_10("binary"))
    official = cifar_files.DISTRIBUTIONS[1]
    known = cifar_files.CifarForm(
        **{**official.__dict__, "md5": hashlib.md5(archive.read_bytes()).hexdigest()}
    )
    monkeypatch.setattr(cifar_files, "DISTRIBUTIONS", (known,))
    assert len(Pool.from_cifar(archive)) == 18


def test_archives_that_cannot_be_read(tmp_path):
    archive = pack(tmp_path / "a.tar.gz", members_10("binary"))
    (tmp_path / "cut.tar.gz").write_bytes(archive.read_bytes()[:5000])
    (tmp_path / "text.tar.gz").write_text("not an archive")
    pack(tmp_path / "other.tar.gz", {"holiday/photo.jpg": b"x"})
    members = members_10("binary")
    members.pop("cifar-10-batches-bin/data_batch_3.bin")
    pack(tmp_path / "lacking.tar.gz", members)
    pack(
        tmp_path / "odd.tar.gz",
        members_10("binary") | {"cifar-10-batches-bin/test_batch.bin": b"123"},
    )
    pack(
        tmp_path / "label.tar.gz",
        members_10("binary") | {"cifar-10-batches-bin/test_batch.bin": bytes([10]) + bytes(3072)},
    )
    for name in ("cut.tar.gz", "text.tar.gz", "other.tar.gz"):
        with refused(DataError, path=str(tmp_path / name)):
            Pool.from_cifar(tmp_path / name, verify=False)
    for name, facts in {
        "lacking.tar.gz": {"value": ["data_batch_3.bin"]},
        "odd.tar.gz": {"path": str(tmp_path / "odd.tar.gz/test_batch.bin"), "count": 3},
        "label.tar.gz": {"value": 10, "limit": 9},
    }.items():
        with refused(DataError, **facts):
            Pool.from_cifar(tmp_path / name, verify=False)
    with refused(ConfigError, path="nowhere.tar.gz") as caught:
        read_sources({"cifar": "nowhere.tar.gz"}, tmp_path)
    assert "download = true" in str(caught.value)
    with refused(ConfigError, option="split", value="trian") as caught:
        read_sources({"cifar": "a.tar.gz", "split": "trian"}, tmp_path)
    assert "Did you mean 'train'" in str(caught.value)
    (tmp_path / "empty").mkdir()
    with refused(DataError, path=str(tmp_path / "empty"), value=[]):
        Pool.from_cifar(tmp_path / "empty")


def served(monkeypatch, content, *, error=None):
    asked = []

    def urlopen(address, timeout):
        asked.append(address)
        if error is not None:
            raise error
        return io.BytesIO(content)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return asked


def test_fetching_writes_a_complete_archive_or_none(tmp_path, monkeypatch):
    content = pack(tmp_path / "x.tar.gz", members_10("binary")).read_bytes()
    official = cifar_files.DISTRIBUTIONS[1]
    known = cifar_files.CifarForm(**{**official.__dict__, "md5": hashlib.md5(content).hexdigest()})
    monkeypatch.setattr(cifar_files, "DISTRIBUTIONS", (known,))
    asked = served(monkeypatch, content)
    settings = {"cifar": "cifar-10-binary.tar.gz", "download": True}
    assert len(read_sources(settings, tmp_path)) == 18
    assert asked == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]
    assert len(read_sources(settings, tmp_path)) == 18
    assert len(asked) == 1  # it was there
    (tmp_path / "cifar-10-binary.tar.gz").unlink()
    served(monkeypatch, content[:-7])
    with refused(DataError, path="cifar-10-binary.tar.gz", allowed=known.md5):
        read_sources(settings, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("Name or service not known"),
        TimeoutError("timed out"),
        ConnectionResetError("reset"),
    ],
)
def test_fetching_without_a_network_says_what_to_do(tmp_path, monkeypatch, error):
    served(monkeypatch, b"", error=error)
    with refused(DataError, path="cifar-10-python.tar.gz") as caught:
        read_sources({"cifar": "cifar-10-python.tar.gz", "download": True}, tmp_path)
    assert "connected to the network" in str(caught.value)
    assert not list(tmp_path.iterdir())
    with refused(ConfigError, option="download", path="mine.tar.gz"):
        read_sources({"cifar": "mine.tar.gz", "download": True}, tmp_path)
