"""Published files, fetched once and checked every time.

Where a file is looked for, in this order:

1. the folder named by ``FAIRSAD_DATA``, if it is set; a folder that may only be read is fine,
2. ``data`` in the cache folder: ``FAIRSAD_CACHE`` if it is set, else the user's cache folder of the system.

A file that is in neither is downloaded into the first of them that can be written to, unless ``FAIRSAD_OFFLINE`` is
set. ``FAIRSAD_MIRROR`` names a server to ask before the published addresses, with the folder's layout.

Why not pooch, which many packages use for this: it starts a broken download again from the first byte (1.9.0, tried
on a server that breaks off; it never asks for a range), knows one address per file, and checks hashes of the content
alone, where a git blob id, all that is known of Pokec for certain, is a hash of a header and the content. With all
three added from outside, nothing of it would be left in use.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairsad.data.progress import Report, terminal_progress
from fairsad.errors import DownloadError
from fairsad.files import whole_file

if TYPE_CHECKING:
    import requests

ROUNDS = 4
BACKOFF_SECONDS = 1.0
TIMEOUT_SECONDS = (10.0, 30.0)  # to connect, and between two pieces of data
CHUNK_BYTES = 1 << 13  # a chunk that breaks off is lost, so not a large one
JSDELIVR_LIMIT = 20_000_000
# The server understood and will not give the file: asking again does not help.
REFUSED = frozenset({400, 401, 403, 404, 405, 410, 451})

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteFile:
    """A published file: where it is, and how to know that it is the right one.

    Attributes:
        path: Place below the data folder, such as ``"bail/bail.csv"``.
        size: Bytes.
        urls: Addresses, best first; all give the same content.
        sha256: SHA-256 of the content.
        git_blob: Id of the content in git, where that is what is known for certain. The SHA-256 of the first file
            that matches is then recorded and asked for from there on.
    """

    path: str
    size: int
    urls: tuple[str, ...]
    sha256: str | None = None
    git_blob: str | None = None

    def __post_init__(self) -> None:
        if self.sha256 is None and self.git_blob is None:
            raise ValueError(f"{self.path} has neither sha256 nor git_blob; give one, so that the file can be checked.")


def github_urls(repository: str, commit: str, path: str, *, size: int) -> tuple[str, ...]:
    """The addresses of a file of a public GitHub repository: GitHub's own, and a network that copies small files."""
    own = f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
    return (own,) if size > JSDELIVR_LIMIT else (own, f"https://cdn.jsdelivr.net/gh/{repository}@{commit}/{path}")


def cache_folder() -> Path:
    """Where the package keeps what it downloads and rebuilds."""
    named = os.environ.get("FAIRSAD_CACHE")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("fairsad", appauthor=False)


def data_folders() -> tuple[Path, ...]:
    """The folders a published file is looked for in, first the user's own."""
    named = os.environ.get("FAIRSAD_DATA")
    own = (Path(named).expanduser(),) if named else ()
    return (*own, cache_folder() / "data")


def locate(file: RemoteFile) -> Path | None:
    """Where the file is on this machine, unchecked, or ``None``."""
    return next((path for folder in data_folders() if (path := folder / file.path).is_file()), None)


def verify(file: RemoteFile, path: Path) -> None:
    """Check that ``path`` holds the published content.

    Raises:
        DownloadError: It does not; names both hashes.
    """
    defect = _defect(file, path)
    if defect:
        raise DownloadError(f"{path} is not the published {file.path}: {defect}. Remove the file and fetch it again.")


def fetch(file: RemoteFile, *, offline: bool | None = None) -> Path:
    """Return the path of a published file, downloading it where it is not yet on this machine.

    A broken connection is taken up where it stopped, also by a later call; the file appears under its name only when
    it is complete and its hash is right; of several processes that want the same file one downloads and the others
    wait.

    Args:
        file: What to fetch.
        offline: Whether to use only what is here; by default what ``FAIRSAD_OFFLINE`` says.

    Raises:
        DownloadError: The file is here but not as published, is not here while offline, or no address gives it.
    """
    found = locate(file)
    if found is None:
        if is_offline() if offline is None else offline:
            raise DownloadError(
                f"{file.path} is not on this machine and downloads are off; looked in "
                f"{' and '.join(str(folder) for folder in data_folders())}. Unset FAIRSAD_OFFLINE, or put the file "
                f"from {file.urls[0]} at {data_folders()[0] / file.path}."
            )
        found = _download(file, _writable_folder() / file.path)
    else:
        verify(file, found)
    _record_sha256(file, found)
    return found


def is_offline() -> bool:
    """Whether ``FAIRSAD_OFFLINE`` asks to stay off the network."""
    return os.environ.get("FAIRSAD_OFFLINE", "").lower() not in ("", "0", "false", "no")


# -- hashes ---------------------------------------------------------------------------------------------------


def _hashes(path: Path) -> tuple[str, str]:
    """SHA-256 and git blob id of a file."""
    sha256 = hashlib.sha256()
    # Git's object ids are SHA-1; here they tell files apart, they do not sign anything.
    blob = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(1 << 20):
            sha256.update(chunk)
            blob.update(chunk)
    return sha256.hexdigest(), blob.hexdigest()


def _defect(file: RemoteFile, path: Path) -> str | None:
    """What is wrong with the content, in words, or ``None``."""
    sha256, blob = _hashes(path)
    if file.sha256 is not None and sha256 != file.sha256:
        return f"expected sha256 {file.sha256}, found {sha256} ({path.stat().st_size} bytes, expected {file.size})"
    if file.git_blob is not None and blob != file.git_blob:
        return f"expected git blob id {file.git_blob}, found {blob} ({path.stat().st_size} bytes, expected {file.size})"
    record = _record_path(file)
    if file.sha256 is None and record.is_file() and (recorded := record.read_text().split()[0]) != sha256:
        return f"expected sha256 {recorded}, recorded when it was first used in {record}, found {sha256}"
    return None


def _record_path(file: RemoteFile) -> Path:
    return cache_folder() / "data" / f"{file.path}.sha256"


def _record_sha256(file: RemoteFile, path: Path) -> None:
    """Write down the SHA-256 of a file that is known by its blob id only, as ``sha256sum`` does."""
    record = _record_path(file)
    if file.sha256 is not None or record.is_file():
        return
    try:
        with whole_file(record) as partial:
            partial.write_text(f"{_hashes(path)[0]}  {path.name}\n")
    except OSError as error:
        logger.warning("the hash of %s could not be recorded in %s: %s", file.path, record, error)


# -- the download ---------------------------------------------------------------------------------------------


class _WrongContentError(Exception):
    """The address gives something else than the published file."""


def _writable_folder() -> Path:
    folder = next((folder for folder in data_folders() if _is_writable(folder)), None)
    if folder is None:
        raise DownloadError(
            f"nothing can be written to {' or '.join(str(folder) for folder in data_folders())}; "
            "set FAIRSAD_DATA to a folder for the downloaded files."
        )
    return folder


def _is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    # A folder without any write bit is meant to stay as it is, even where the superuser could write to it.
    has_write_bit = folder.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return bool(has_write_bit) and os.access(folder, os.W_OK)


def _download(file: RemoteFile, target: Path) -> Path:
    from filelock import FileLock

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # The system frees the lock of a process that dies, so what is left of its download can be taken up.
        with FileLock(target.with_name(f".{target.name}.lock")):
            if not target.is_file():  # else another process was quicker
                partial = target.with_name(f".{target.name}.part")
                with terminal_progress(f"downloading {file.path}", in_bytes=True) as report:
                    _try_addresses(file, partial, report)
                os.replace(partial, target)
    except OSError as error:
        if isinstance(error, DownloadError):
            raise
        raise DownloadError(
            f"{file.path} could not be written to {target.parent} ({error}). "
            "Free some space there, or set FAIRSAD_DATA to another folder."
        ) from None
    return target


def _try_addresses(file: RemoteFile, partial: Path, report: Report) -> None:
    """Ask every address in turn until the partial file is complete and right, several times over."""
    import requests

    mirror = os.environ.get("FAIRSAD_MIRROR")
    addresses = [*([f"{mirror.rstrip('/')}/{file.path}"] if mirror else []), *file.urls]
    failures: dict[str, str] = {}
    for attempt in range(ROUNDS):
        if attempt and addresses:
            time.sleep(BACKOFF_SECONDS * 2 ** (attempt - 1))
        for address in tuple(addresses):
            resumed = partial.is_file()
            try:
                _transfer(address, file, partial, report)
                defect = _defect(file, partial)
                if defect is None:
                    return
                partial.unlink()
                failures[address] = f"wrong content: {defect}"
                if not resumed:  # else the part from before may be what is wrong: once more from the start
                    addresses.remove(address)
            except _WrongContentError as error:
                failures[address] = f"wrong content: {error}"
                addresses.remove(address)
            except requests.RequestException as error:
                failures[address] = _reason(error)
                if error.response is not None and error.response.status_code in REFUSED:
                    addresses.remove(address)
            logger.info("%s from %s: %s", file.path, address, failures[address])
    kept = partial.stat().st_size if partial.is_file() else 0
    if not kept:
        partial.unlink(missing_ok=True)
    raise DownloadError(
        f"{file.path} could not be downloaded; tried {'; '.join(f'{url}: {why}' for url, why in failures.items())}. "
        f"{f'The {kept} bytes that came are kept' if kept else 'Nothing was kept'}. "
        f"Try again later, or put the file at {data_folders()[0] / file.path} yourself."
    )


def _transfer(address: str, file: RemoteFile, partial: Path, report: Report) -> None:
    """Bring the partial file to its full size from one address.

    Raises:
        requests.RequestException: The connection failed; the partial file holds what came until then.
        _WrongContentError: What the server offers has not the published size.
    """
    import requests

    have = partial.stat().st_size if partial.is_file() else 0
    if have >= file.size:
        partial.unlink()
        have = 0
    # Without compression a byte here is a byte of the file, so that ranges and sizes mean something.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(address, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
        if have and response.status_code == requests.codes.requested_range_not_satisfiable:
            raise _WrongContentError(f"fewer than {have} bytes, expected {file.size}")
        response.raise_for_status()
        if have and not _continues(response, have):
            have = 0  # the server ignores ranges and starts again
        if not have:
            _check_offered_size(response, file)
        with partial.open("ab" if have else "wb") as output:
            for chunk in _chunks(response):
                output.write(chunk)
                have += len(chunk)
                report(have, file.size)
                if have > file.size:
                    break  # and let the hash say so
    if have < file.size:
        raise requests.ConnectionError(f"the connection ended after {have} of {file.size} bytes")


def _continues(response: requests.Response, have: int) -> bool:
    return response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _check_offered_size(response: requests.Response, file: RemoteFile) -> None:
    """Tell a page of excuses from a broken connection: the one is complete and of the wrong size."""
    offered = response.headers.get("Content-Length", "")
    if offered.isdigit() and "Content-Encoding" not in response.headers and int(offered) != file.size:
        raise _WrongContentError(f"{offered} bytes, expected {file.size}")


def _chunks(response: requests.Response) -> Iterable[bytes]:
    chunks: Iterable[bytes] = response.iter_content(CHUNK_BYTES)
    return chunks


def _reason(error: requests.RequestException) -> str:
    import requests

    if error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    # The innermost message says what happened; the layers around it say who reported it.
    cause: BaseException = error
    while isinstance(inner := getattr(cause, "reason", None) or cause.__cause__ or cause.__context__, BaseException):
        cause = inner
    return str(cause) or type(cause).__name__
