"""Files at addresses such as ``s3://bucket/table.csv``: read, fetched, and folders uploaded.

pyarrow reads s3, gs, abfs and hdfs by itself; for the rest fsspec is asked (``memory://``,
``https://``, ``hf://``, and what is registered with it). Credentials come from the environment or
the settings of those packages, never from an address: addresses are written into results, and
errors quote them. An error names the address and its kind, and not what the server answered.

Object stores have no locks and no renames. A folder is therefore made locally and uploaded when it
is complete, `files.json` last: a reader that finds it finds all files of one run.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.errors import ConfigError, DataError, missing_extra
from unskew.files.leftovers import temporary_folder
from unskew.files.reading import unpacked_limit

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

# One letter is a drive of Windows.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_BY_PYARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
_LAST = "files.json"


def is_address(path: object) -> bool:
    """Tell whether this is the text of an address, not of a path."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def check_address(address: str) -> str:
    """Return an address that holds nothing secret and means one file; else a `ConfigError`."""
    host = address.partition("://")[2].partition("/")[0]
    for is_there, words in (
        ("@" in host, "a user name or password"),
        ("?" in address or "#" in address, "a query (as signed addresses have)"),
        ("::" in address, "a chain of file systems (::)"),
    ):
        if is_there:
            raise ConfigError(
                f"the address {_shown(address)!r} contains {words}. Addresses are written into "
                "results, so they hold no credentials: set these in the environment, as the "
                "package of the file system documents.",
                path=_shown(address),
            )
    return address


# Addresses that may be asked, with all below them; None: all, because the user named the file.
_MAY_ASK: ContextVar[tuple[str, ...] | None] = ContextVar("addresses that may be asked")


@contextmanager
def only_asking(addresses: Collection[str]) -> Iterator[None]:
    """Let the block ask these addresses and no others: what it reads is named by results."""
    token = _MAY_ASK.set(tuple(address.rstrip("/") for address in addresses))
    try:
        yield
    finally:
        _MAY_ASK.reset(token)


def check_asking(address: str) -> None:
    """Refuse an address that results name, if the user allowed neither it nor one above it."""
    allowed = _MAY_ASK.get(None)
    if allowed is None:
        return
    is_below = any(f"{address}/".startswith(f"{one}/") for one in allowed)
    if not is_below or ".." in address.split("/"):
        raise ConfigError(
            f"the results name the address {_shown(address)!r}, which is not asked unless you say "
            f"so. If you trust it, add --allow-code {_shown(address)}, or one above it (in Python "
            f"allow_code=[{_shown(address)!r}]).",
            option="--allow-code",
            value=_shown(address),
        )


def joined(folder: str, path: str) -> str:
    """Return ``path`` within ``folder``, where one of them may be an address."""
    if is_address(path) or not is_address(folder):
        return path if is_address(path) else os.path.join(folder, path)
    scheme, _, rest = folder.partition("://")
    return f"{scheme}://{posixpath.normpath(posixpath.join(rest, path.replace(os.sep, '/')))}"


def read_address(address: str, max_bytes: int) -> bytes:
    """Return the bytes of a file, which has at most ``max_bytes``; an `OSError` says why not."""
    filesystem, path = _opened(check_address(address))
    with _server_errors(address):
        if "local" in filesystem.type_name:  # elsewhere there are no pipes: a request less
            _size_of(filesystem, path)
        with filesystem.open_input_stream(path) as stream:
            content: bytes = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"the file has more than {max_bytes / 1e9:.1f} GB, the limit")
    return content


def address_exists(address: str) -> bool:
    """Tell whether there is a file or folder."""
    from pyarrow.fs import FileType

    filesystem, path = _opened(check_address(address))
    with _server_errors(address):
        return bool(filesystem.get_file_info(path).type != FileType.NotFound)


def is_address_of_folder(address: str) -> bool:
    """Tell whether there is a folder, as far as its file system has any."""
    from pyarrow.fs import FileType

    with _named(address):
        filesystem, path = _opened(check_address(address))
        return bool(filesystem.get_file_info(path).type == FileType.Directory)


def list_address(address: str) -> list[str]:
    """Return the paths of all files below a folder, starting from it."""
    from pyarrow.fs import FileSelector, FileType

    with _named(address):
        filesystem, path = _opened(check_address(address))
        entries = filesystem.get_file_info(FileSelector(path, recursive=True))
    files = (entry.path for entry in entries if entry.type == FileType.File)
    return [posixpath.relpath(file, path) for file in files]


@contextmanager
def local_file(folder: str | os.PathLike[str], path: str) -> Iterator[str]:
    """Yield the path of a file that ``folder`` is the base of; one at an address is fetched."""
    whole = joined(os.fspath(folder), path)
    if not is_address(whole):
        yield whole
        return
    with temporary_folder() as temporary:
        file = Path(temporary, posixpath.basename(whole) or "file")
        with _named(whole):
            filesystem, there = _opened(check_address(whole))
            _copy(filesystem, there, file)
        yield str(file)


@contextmanager
def local_folder(address: str) -> Iterator[Path]:
    """Yield a local copy of a folder at an address, without the caches in it."""
    from pyarrow.fs import FileSelector, FileType

    with temporary_folder() as temporary:
        folder = Path(temporary, _name(address))
        with _named(address):
            filesystem, path = _opened(check_address(address))
            entries = filesystem.get_file_info(FileSelector(path, recursive=True))
            for entry in entries:
                inner = posixpath.relpath(entry.path, path)
                file = (folder / inner).resolve()
                if entry.type == FileType.File and file.is_relative_to(folder.resolve()):
                    _copy(filesystem, entry.path, file)
        yield folder


@contextmanager
def uploaded_folder(address: str, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield the path of a local folder, or file, that is uploaded when the block ends.

    Also where it ends with an error: a refused run writes its page. Files of an earlier run that
    the new one has not are deleted after the upload, if ``overwrite``; without it, an address that
    holds anything is an error before the block begins.
    """
    with _named(address):
        exists = address_exists(address)
    if exists and not overwrite:
        raise ConfigError(
            f"{address!r} exists. Choose another address, or pass --overwrite (overwrite=True).",
            path=address,
        )
    with temporary_folder() as temporary:
        made = Path(temporary, _name(address))
        try:
            yield made
        finally:
            if made.exists():
                _upload(made, address)


def _upload(made: Path, address: str) -> None:
    from pyarrow.fs import FileSelector, FileType

    if made.is_file():
        with _named(address):
            _send(*_opened(address), made)
        return
    names = sorted(
        file.relative_to(made).as_posix()
        for file in made.rglob("*")
        if file.is_file() and not file.name.startswith(".unskew")
    )
    with _named(address):
        filesystem, path = _opened(address)
        filesystem.create_dir(path, recursive=True)
        old = filesystem.get_file_info(FileSelector(path, recursive=True))
        # First the mark of completeness goes, then the old files, and it comes back last.
        inner = {posixpath.relpath(one.path, path): one for one in old}
        for name in sorted(inner, key=lambda name: name != _LAST):
            if inner[name].type == FileType.File and (name == _LAST or name not in names):
                filesystem.delete_file(inner[name].path)
        for name in sorted(names, key=lambda name: (name == _LAST, name)):
            _send(filesystem, posixpath.join(path, name), made / name)


def _send(filesystem: FileSystem, path: str, file: Path) -> None:
    filesystem.create_dir(posixpath.dirname(path), recursive=True)
    with file.open("rb") as content, filesystem.open_output_stream(path) as stream:
        while block := content.read(2**22):
            stream.write(block)


def _copy(filesystem: FileSystem, path: str, file: Path) -> None:
    """Copy a file, up to the size that its server claims, if that is free on the local disk."""
    file.parent.mkdir(parents=True, exist_ok=True)
    claimed = _size_of(filesystem, path)
    left = unpacked_limit(0) if claimed is None else claimed
    if left > shutil.disk_usage(file.parent).free:
        raise DataError(
            f"{path!r} has {left:,} bytes, and {str(file.parent)!r} has not as much room. Set the "
            "environment variable TMPDIR to a folder on a larger disk.",
            path=path,
            count=left,
        )
    with filesystem.open_input_stream(path) as stream, file.open("wb") as copy:
        while block := stream.read(2**22):
            left -= len(block)
            if left < 0:
                raise DataError(
                    f"{path!r} has more bytes than its server says, or than the limit "
                    f"(UNSKEW_MAX_UNPACKED) where it does not say.",
                    path=path,
                )
            copy.write(block)


def _size_of(filesystem: FileSystem, path: str) -> int | None:
    """Return the size of a file, None if its server does not say; refuse a pipe or a device."""
    from pyarrow.fs import FileType

    status = filesystem.get_file_info(path)
    if status.type == FileType.NotFound:
        raise FileNotFoundError
    if status.type != FileType.File:
        raise DataError(
            f"{path!r} is a folder, a pipe or a device, not a file. Save its content as a file, "
            "and name that.",
            path=path,
        )
    return status.size  # type: ignore[no-any-return]


def _opened(address: str) -> tuple[FileSystem, str]:
    """(file system, path within it) of an address."""
    check_asking(address)
    scheme, rest = _ADDRESS.match(address).groups()  # type: ignore[union-attr]
    with _server_errors(address):
        if scheme.lower() in _BY_PYARROW:
            return _pyarrow_system(os.getpid(), f"{scheme}://{rest.partition('/')[0]}"), (
                f"/{rest.partition('/')[2]}" if scheme.lower() in ("file", "hdfs") else rest
            )
        system = _fsspec_system(os.getpid(), scheme)
        return system, system.handler.fs._strip_protocol(address)


@functools.lru_cache(maxsize=32)
def _pyarrow_system(process: int, root: str) -> FileSystem:
    """Connect once in each process: a connection does not survive a fork."""
    from pyarrow.fs import FileSystem

    return FileSystem.from_uri(root if not root.endswith("://") else f"{root}/")[0]


@functools.lru_cache(maxsize=32)
def _fsspec_system(process: int, scheme: str) -> Any:
    try:
        import fsspec
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(fsspec.filesystem(scheme)))
    except ImportError as error:
        if error.name == "fsspec":
            raise missing_extra("remote", f"an address {scheme}://", error) from error
        raise ConfigError(
            f"an address {scheme}:// needs a package that is not installed: {error}",
            package=error.name,
        ) from error
    except ValueError:
        raise ConfigError(
            f"there is no file system for addresses {scheme}://. Known to fsspec: "
            f"{', '.join(sorted(fsspec.available_protocols())[:40])}.",
            value=scheme,
        ) from None


@contextmanager
def _server_errors(address: str) -> Iterator[None]:
    """Turn what a server answers into an `OSError` without its words, which may hold secrets."""
    try:
        yield
    except (ConfigError, DataError):
        raise
    except FileNotFoundError:
        raise FileNotFoundError(2, "there is no such file") from None
    except PermissionError:
        raise PermissionError(13, "permission denied") from None
    except Exception as error:
        raise OSError(
            f"{_shown(address).partition('://')[0]}:// did not answer as expected "
            f"({type(error).__name__})"
        ) from None


@contextmanager
def _named(address: str) -> Iterator[None]:
    try:
        with _server_errors(address):
            yield
    except OSError as error:
        raise DataError(
            f"{_shown(address)!r}: {error.strerror or error}.", path=_shown(address)
        ) from None


def _name(address: str) -> str:
    return posixpath.basename(address.rstrip("/")) or "results"


def _shown(address: str) -> str:
    """Return an address without user, password and query."""
    scheme, _, rest = address.partition("://")
    host, slash, path = re.split(r"[?#]", rest)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
