from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fairsad.data import download
from fairsad.data.download import (
    RemoteFile,
    cache_folder,
    data_folders,
    fetch,
    github_urls,
    is_offline,
    locate,
    verify,
)
from fairsad.errors import DownloadError

CONTENT = bytes(range(256)) * 1200  # several chunks
WRONG = CONTENT[:-1] + b"?"
PATH = "bail/bail.csv"


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


# -- a server that misbehaves ---------------------------------------------------------------------------------


class Request(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        self.start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        script = self.server.script[self.path]
        (script.pop(0) if len(script) > 1 else script[0])(self)

    def send(
        self, content: bytes, *, status: int = 200, length: int | None = None, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


Behaviour = Callable[[Request], None]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.script: dict[str, list[Behaviour]] = {}
        self.asked: list[tuple[str, str | None]] = []

    def url(self, path: str = "/file", *behaviours: Behaviour) -> str:
        self.script[path] = list(behaviours)
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    @property
    def ranges(self) -> list[str | None]:
        return [asked for _, asked in self.asked]


def whole(request: Request) -> None:
    request.send(CONTENT, length=len(CONTENT))


def ranged(request: Request) -> None:
    if not request.start:
        return whole(request)
    part = ("Content-Range", f"bytes {request.start}-{len(CONTENT) - 1}/{len(CONTENT)}")
    return request.send(CONTENT[request.start :], status=206, length=len(CONTENT) - request.start, headers=(part,))


def cut_after(count: int) -> Behaviour:
    def behave(request: Request) -> None:
        if request.start:
            part = ("Content-Range", f"bytes {request.start}-{len(CONTENT) - 1}/{len(CONTENT)}")
            sent = CONTENT[request.start : request.start + count]
            return request.send(sent, status=206, length=len(CONTENT) - request.start, headers=(part,))
        return request.send(CONTENT[:count], length=len(CONTENT))

    return behave


def without_length(content: bytes) -> Behaviour:
    return lambda request: request.send(content)


def wrong(request: Request) -> None:
    request.send(WRONG, length=len(WRONG))


def excuse(request: Request) -> None:
    page = b"<html>we are being maintained</html>"
    request.send(page, length=len(page))


def status(code: int) -> Behaviour:
    return lambda request: request.send(b"", status=code, length=0)


def silent(_: Request) -> None:
    time.sleep(0.5)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@dataclass
class Folders:
    own: Path
    cache: Path

    @property
    def target(self) -> Path:
        return self.own / PATH

    def left(self) -> list[str]:
        """What is in the folders, the lock aside."""
        found = [path for folder in (self.own, self.cache) for path in folder.rglob("*") if path.is_file()]
        return sorted(path.name for path in found if path.suffix != ".lock")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    here = Folders(tmp_path / "own", tmp_path / "cache")
    monkeypatch.setenv("FAIRSAD_DATA", str(here.own))
    monkeypatch.setenv("FAIRSAD_CACHE", str(here.cache))
    monkeypatch.delenv("FAIRSAD_OFFLINE")
    monkeypatch.delenv("FAIRSAD_MIRROR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", (2.0, 0.2))
    return here


def remote(*urls: str, **changes: object) -> RemoteFile:
    settings: dict[str, object] = {"sha256": hashlib.sha256(CONTENT).hexdigest()} | changes
    return RemoteFile(path=PATH, size=len(CONTENT), urls=urls, **settings)  # type: ignore[arg-type]


def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/file"


# -- what goes well -------------------------------------------------------------------------------------------


def test_a_file_is_fetched_once(server: Server, folders: Folders) -> None:
    file = remote(server.url("/file", whole))
    assert locate(file) is None
    assert fetch(file) == folders.target == locate(file)
    assert folders.target.read_bytes() == CONTENT
    assert fetch(file) == folders.target
    assert len(server.asked) == 1
    assert folders.left() == ["bail.csv"]


@pytest.mark.parametrize("behaviour", [ranged, whole], ids=["ranges", "no ranges"])
def test_a_broken_connection_is_taken_up(behaviour: Behaviour, server: Server, folders: Folders) -> None:
    fetch(remote(server.url("/file", cut_after(98_304), behaviour)))
    assert folders.target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=98304-"]
    assert folders.left() == ["bail.csv"]


def test_a_connection_that_breaks_again_and_again_gets_there(server: Server, folders: Folders) -> None:
    fetch(remote(server.url("/file", cut_after(90_112), cut_after(90_112), cut_after(90_112), ranged)))
    assert folders.target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=90112-", "bytes=180224-", "bytes=270336-"]


def test_a_later_call_takes_up_what_an_earlier_one_left(
    server: Server, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "ROUNDS", 1)
    with pytest.raises(DownloadError, match="The 8192 bytes that came are kept"):
        fetch(remote(server.url("/file", cut_after(8192))))
    assert not folders.target.exists()
    assert fetch(remote(server.url("/file", ranged))).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=8192-"]


def test_a_download_that_was_killed_is_taken_up(server: Server, folders: Folders) -> None:
    half = len(CONTENT) // 2

    def stall(request: Request) -> None:
        request.send(CONTENT[:half], length=len(CONTENT))
        time.sleep(0.5)

    child = _fetch_elsewhere(server.url("/file", stall, ranged))
    partial = folders.target.with_name(".bail.csv.part")
    deadline = time.monotonic() + 20
    while not (partial.is_file() and partial.stat().st_size >= download.CHUNK_BYTES) and time.monotonic() < deadline:
        time.sleep(0.005)
    child.kill()
    child.communicate()
    have = partial.stat().st_size
    assert 0 < have < len(CONTENT)
    assert fetch(remote(server.url("/file", ranged))).read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={have}-"


def test_a_part_from_before_that_is_wrong_costs_one_more_try(server: Server, folders: Folders) -> None:
    folders.target.parent.mkdir(parents=True)
    folders.target.with_name(".bail.csv.part").write_bytes(b"something else")
    assert fetch(remote(server.url("/file", ranged))).read_bytes() == CONTENT
    assert server.ranges == ["bytes=14-", None]


def test_a_part_as_large_as_the_file_is_not_continued(server: Server, folders: Folders) -> None:
    folders.target.parent.mkdir(parents=True)
    folders.target.with_name(".bail.csv.part").write_bytes(WRONG)
    assert fetch(remote(server.url("/file", ranged))).read_bytes() == CONTENT
    assert server.ranges == [None]


@pytest.mark.parametrize(
    "bad", [status(404), status(403), status(500), status(429), wrong, excuse, silent, cut_after(0)]
)
def test_the_next_address_helps(bad: Behaviour, server: Server, folders: Folders) -> None:
    file = remote(server.url("/bad", bad), server.url("/good", whole))
    assert fetch(file).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/bad", "/good"]
    assert folders.left() == ["bail.csv"]


def test_an_address_where_nobody_answers_is_passed_over(server: Server) -> None:
    assert fetch(remote(nobody(), server.url("/good", whole))).read_bytes() == CONTENT


def test_one_address_may_take_up_what_another_began(server: Server) -> None:
    file = remote(server.url("/first", cut_after(16_384), status(404)), server.url("/second", ranged))
    assert fetch(file).read_bytes() == CONTENT
    assert server.asked == [("/first", None), ("/second", "bytes=16384-")]


def test_a_server_that_is_busy_for_a_moment_is_asked_again(server: Server) -> None:
    assert fetch(remote(server.url("/file", status(503), silent, whole))).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_between_rounds_it_waits_longer_each_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(download, "BACKOFF_SECONDS", 1.0)
    monkeypatch.setattr(download.time, "sleep", waited.append)
    fetch(remote(server.url("/file", status(503), status(503), status(503), whole)))
    assert waited == [1.0, 2.0, 4.0]


def test_content_without_a_length_is_fine(server: Server) -> None:
    assert fetch(remote(server.url("/file", without_length(CONTENT)))).read_bytes() == CONTENT


def test_content_without_a_length_that_ends_early_is_taken_up(server: Server) -> None:
    assert fetch(remote(server.url("/file", without_length(CONTENT[:8192]), ranged))).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=8192-"]


def test_a_mirror_of_ones_own_is_asked_first(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = server.url("/mirror/bail/bail.csv", whole).removesuffix("/bail/bail.csv")
    monkeypatch.setenv("FAIRSAD_MIRROR", f"{mirror}/")
    fetch(remote(server.url("/file", whole)))
    assert server.asked == [("/mirror/bail/bail.csv", None)]


# -- what goes wrong ------------------------------------------------------------------------------------------


def test_wrong_content_leaves_nothing_behind(server: Server, folders: Folders) -> None:
    url = server.url("/file", wrong)
    with pytest.raises(DownloadError) as caught:
        fetch(remote(url))
    message = str(caught.value)
    for part in (PATH, url, hashlib.sha256(CONTENT).hexdigest(), hashlib.sha256(WRONG).hexdigest(), "Nothing was kept"):
        assert part in message
    assert f"put the file at {folders.target} yourself" in message
    assert folders.left() == []
    assert len(server.asked) == 1  # an address that is wrong is not asked again


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (excuse, f"36 bytes, expected {len(CONTENT)}"),
        (without_length(CONTENT + b"more"), "expected sha256"),
    ],
)
def test_content_of_another_size_is_wrong_content(
    bad: Behaviour, reason: str, server: Server, folders: Folders
) -> None:
    with pytest.raises(DownloadError, match=reason):
        fetch(remote(server.url("/file", bad)))
    assert folders.left() == []
    assert len(server.asked) == 1


def test_a_stream_without_end_is_left(server: Server, folders: Folders) -> None:
    sent = 0

    def endless(request: Request) -> None:
        nonlocal sent
        request.send(CONTENT)
        with suppress(ConnectionError):
            while sent < 1000 * len(CONTENT):
                request.wfile.write(CONTENT)
                sent += len(CONTENT)

    with pytest.raises(DownloadError, match="wrong content"):
        fetch(remote(server.url("/file", endless)))
    assert folders.left() == []
    assert sent < 1000 * len(CONTENT)


def test_every_address_that_was_tried_is_named(server: Server, folders: Folders) -> None:
    urls = [server.url("/gone", status(404)), server.url("/slow", silent), server.url("/down", status(500)), nobody()]
    with pytest.raises(DownloadError) as caught:
        fetch(remote(*urls))
    message = str(caught.value)
    for url, why in zip(urls, ("HTTP 404", "no answer in time", "HTTP 500", "refused"), strict=True):
        assert url in message
        assert why in message
    assert "\n" not in message
    asked = [path for path, _ in server.asked]
    assert asked.count("/gone") == 1
    assert asked.count("/down") == asked.count("/slow") == download.ROUNDS
    assert folders.left() == []


def test_a_server_with_less_than_what_is_here_is_wrong(server: Server, folders: Folders) -> None:
    folders.target.parent.mkdir(parents=True)
    partial = folders.target.with_name(".bail.csv.part")
    partial.write_bytes(CONTENT[:2000])
    with pytest.raises(DownloadError, match="fewer than 2000 bytes"):
        fetch(remote(server.url("/file", status(416))))
    assert partial.read_bytes() == CONTENT[:2000]


def test_a_file_that_is_here_and_wrong_is_not_used(folders: Folders) -> None:
    folders.target.parent.mkdir(parents=True)
    folders.target.write_bytes(WRONG)
    with pytest.raises(DownloadError, match=r"not the published bail/bail.csv: expected sha256 .* Remove the file"):
        fetch(remote(nobody()))
    assert folders.target.read_bytes() == WRONG  # it may be somebody's work: not ours to delete


def test_offline_nothing_is_asked_and_the_message_says_where_the_file_goes(
    server: Server, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url("/file", whole)
    monkeypatch.setenv("FAIRSAD_OFFLINE", "1")
    with pytest.raises(DownloadError) as caught:
        fetch(remote(url))
    assert PATH in str(caught.value)
    assert url in str(caught.value)
    assert str(folders.target) in str(caught.value)
    assert server.asked == []
    monkeypatch.delenv("FAIRSAD_OFFLINE")
    with pytest.raises(DownloadError, match="downloads are off"):
        fetch(remote(url), offline=True)
    assert fetch(remote(url), offline=False) == folders.target
    assert fetch(remote(url), offline=True) == folders.target


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("true", True), ("", False), ("0", False), ("No", False)])
def test_the_offline_switch(value: str, offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSAD_OFFLINE", value)
    assert is_offline() is offline


def test_a_folder_that_cannot_be_written_to_is_said_so(
    server: Server, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.cache.mkdir()
    blocked = folders.cache / "a file"
    blocked.touch()
    monkeypatch.setenv("FAIRSAD_DATA", str(blocked))
    with pytest.raises(DownloadError, match=r"could not be written to .* set FAIRSAD_DATA to another folder"):
        fetch(remote(server.url("/file", whole)))


def test_a_file_needs_a_hash() -> None:
    with pytest.raises(ValueError, match="neither sha256 nor git_blob"):
        RemoteFile("a", 1, ("http://a",))


# -- git blob ids ---------------------------------------------------------------------------------------------


def test_a_git_blob_id_is_enough_and_the_sha256_is_recorded(server: Server, folders: Folders) -> None:
    file = remote(server.url("/file", whole), sha256=None, git_blob=git_blob(CONTENT))
    path = fetch(file)
    record = folders.cache / "data" / f"{PATH}.sha256"
    assert record.read_text() == f"{hashlib.sha256(CONTENT).hexdigest()}  bail.csv\n"
    assert fetch(file) == path

    record.write_text(f"{'0' * 64}  bail.csv\n")
    with pytest.raises(DownloadError, match=r"expected sha256 0{64}, recorded when it was first used"):
        verify(file, path)


def test_a_wrong_git_blob_id_is_named(server: Server, folders: Folders) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(remote(server.url("/file", wrong), sha256=None, git_blob=git_blob(CONTENT)))
    assert f"expected git blob id {git_blob(CONTENT)}, found {git_blob(WRONG)}" in str(caught.value)
    assert folders.left() == []


def test_the_git_blob_id_is_what_git_says(tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_bytes(b"what is up, doc?")
    # The example of the Pro Git book, chapter "Git Objects".
    verify(RemoteFile("a", 16, (), git_blob="bd9dbf5aae1a3862dd1526723246b20206e5fc37"), path)


# -- folders --------------------------------------------------------------------------------------------------


def test_the_own_folder_comes_first_then_the_cache(folders: Folders) -> None:
    file = remote(nobody())
    in_cache = folders.cache / "data" / PATH
    for path in (in_cache, folders.target):
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
        assert locate(file) == fetch(file) == path


def test_a_read_only_folder_is_read_and_never_written_to(server: Server, folders: Folders) -> None:
    folders.own.mkdir()
    folders.own.chmod(0o555)
    try:
        path = fetch(remote(server.url("/file", whole)))
    finally:
        folders.own.chmod(0o755)
    assert path == folders.cache / "data" / PATH
    assert list(folders.own.iterdir()) == []


def test_nowhere_to_write_is_said_so(server: Server, folders: Folders) -> None:
    for folder in (folders.own, folders.cache):
        folder.mkdir()
        folder.chmod(0o555)
    try:
        with pytest.raises(DownloadError, match="nothing can be written to .* set FAIRSAD_DATA"):
            fetch(remote(server.url("/file", whole)))
    finally:
        for folder in (folders.own, folders.cache):
            folder.chmod(0o755)


def test_the_default_is_the_cache_folder_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    from platformdirs import user_cache_path

    monkeypatch.delenv("FAIRSAD_DATA")
    monkeypatch.delenv("FAIRSAD_CACHE")
    assert cache_folder() == user_cache_path("fairsad", appauthor=False)
    assert data_folders() == (cache_folder() / "data",)


def test_large_files_of_github_have_one_address() -> None:
    small = github_urls("who/what", "c0ffee", "a/b.csv", size=1000)
    assert small == (
        "https://raw.githubusercontent.com/who/what/c0ffee/a/b.csv",
        "https://cdn.jsdelivr.net/gh/who/what@c0ffee/a/b.csv",
    )
    assert github_urls("who/what", "c0ffee", "a/b.csv", size=30_000_000) == small[:1]


# -- several processes ----------------------------------------------------------------------------------------

FETCH_ELSEWHERE = f"""
import sys
from fairsad.data.download import RemoteFile, fetch
sha256 = {hashlib.sha256(CONTENT).hexdigest()!r}
print(fetch(RemoteFile({PATH!r}, {len(CONTENT)}, (sys.argv[1],), sha256=sha256)))
"""


def _fetch_elsewhere(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH_ELSEWHERE, url], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def test_of_several_processes_one_downloads_and_the_others_wait(server: Server, folders: Folders) -> None:
    def slowly(request: Request) -> None:
        time.sleep(0.3)
        whole(request)

    url = server.url("/file", slowly)
    children = [_fetch_elsewhere(url) for _ in range(3)]
    outputs = [child.communicate(timeout=60)[0].strip() for child in children]
    assert outputs == [str(folders.target)] * 3
    assert folders.target.read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert folders.left() == ["bail.csv"]
