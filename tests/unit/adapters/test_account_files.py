"""Reading of folders that a job has filled with whatever it liked."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from aitne.adapters import own_account_files
from aitne.adapters.own_account_files import OwnAccountFiles, get_entry, list_folder, read_part
from aitne.core.errors import ChangedMeanwhile, Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.models.stored_file import FileKind, StoredFile
from aitne.core.path_encoding import encode_path
from aitne.core.ports.account_files import FileRoot
from tests.support.broker import as_uid

STRANGE = (b"line\nbreak", b"\xff\xfe", "txt.\u202egpj".encode(), b"100%?#&", b" ", b"-rf")


def read(folder: Path, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
    etag = get_entry(str(folder), path).etag or "0" * 32
    return read_part(str(folder), path, etag=etag, offset=offset, limit=limit)


def names(folder: Path, path: str = "", **page: object) -> list[str]:
    found = list_folder(str(folder), path, **{"after": "", "limit": 100, **page})  # type: ignore[arg-type]
    return [item.path for item in found.items]


def test_strange_names_are_listed_and_read_by_their_exact_bytes(tmp_path: Path) -> None:
    for name in STRANGE:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(name)
    found = list_folder(str(tmp_path), "", after="", limit=100).items
    assert [item.path for item in found] == [encode_path(name) for name in sorted(STRANGE)]
    assert all(read(tmp_path, encode_path(name)) == name for name in STRANGE)
    assert {item.name for item in found} >= {"line\ufffdbreak", "\ufffd\ufffd", "txt.\ufffdgpj"}


@pytest.mark.parametrize(
    "path", ["..", "a/../../etc/passwd", "%2e%2e/x", "a//b", "/etc/passwd", "a%2Fb", "a%00", "./a"]
)
def test_a_path_that_could_leave_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").mkdir()
    for call in (
        lambda: get_entry(str(tmp_path), path),
        lambda: list_folder(str(tmp_path), path, after="", limit=1),
        lambda: read_part(str(tmp_path), path, etag="0" * 32, offset=0, limit=1),
    ):
        with pytest.raises(InvalidInput):
            call()


def test_a_link_is_followed_with_the_rights_of_the_reader(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "weights").write_bytes(b"42")
    (outside / "secret").write_bytes(b"root's")
    (outside / "secret").chmod(0o600)
    job = tmp_path / "job"
    job.mkdir()
    (job / "weights").symlink_to("../outside/weights")
    (job / "secret").symlink_to(outside / "secret")
    (job / "data").symlink_to(outside)
    (job / "circle").symlink_to("circle")
    (job / "nowhere").symlink_to("nothing")

    assert read(job, "weights") == b"42"
    assert read(job, "data/weights") == b"42"
    listed = {item.path: (item.kind, item.link) for item in _listed(job)}
    assert listed["weights"] == (FileKind.FILE, True)
    assert listed["data"] == (FileKind.FOLDER, True)
    assert listed["circle"] == listed["nowhere"] == (FileKind.OTHER, True)
    for path in ("circle", "nowhere"):
        with pytest.raises(NotFound):
            get_entry(str(job), path)


def _listed(folder: Path) -> tuple[StoredFile, ...]:
    return list_folder(str(folder), "", after="", limit=100).items


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another account")
def test_a_link_to_what_the_account_may_not_read_is_refused() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        secret = folder / "secret"
        secret.write_bytes(b"root's")
        secret.chmod(0o600)
        (folder / "mine").symlink_to("secret")

        def refused() -> None:
            with pytest.raises(NotAllowed, match="may not read"):
                read_part(name, "mine", etag="0" * 32, offset=0, limit=9)

        as_uid(65_534, refused)


def test_pipes_devices_and_sockets_are_listed_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert {item.kind for item in _listed(tmp_path)} == {FileKind.OTHER}
        for name in ("pipe", "null", "socket"):
            with pytest.raises(Conflict, match="not a regular file"):
                read_part(str(tmp_path), name, etag="0" * 32, offset=0, limit=1)


def test_files_without_a_size_are_empty(tmp_path: Path) -> None:
    """Through a link into /proc nothing of the process that reads is seen."""
    (tmp_path / "environ").symlink_to("/proc/self/environ")
    (tmp_path / "maps").symlink_to("/proc/self/maps")
    assert read(tmp_path, "maps") == b""
    assert read(tmp_path, "environ") == b""


def test_parts_of_two_versions_are_never_mixed(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    file.write_bytes(b"old" * 10)
    etag = get_entry(str(tmp_path), "model.pt").etag or ""
    assert read_part(str(tmp_path), "model.pt", etag=etag, offset=28, limit=9) == b"ld"
    file.write_bytes(b"new" * 10)
    with pytest.raises(ChangedMeanwhile, match=r"model\.pt was changed"):
        read_part(str(tmp_path), "model.pt", etag=etag, offset=28, limit=9)


def test_a_large_folder_is_listed_page_by_page_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        (tmp_path / f"{number:02}").touch()
    pages, after = [], ""
    while True:
        page = list_folder(str(tmp_path), "", after=after, limit=10)
        pages.append([item.path for item in page.items])
        if page.next_cursor is None:
            break
        after = page.next_cursor
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [name for page in pages for name in page] == [f"{number:02}" for number in range(25)]
    monkeypatch.setattr(own_account_files, "MAX_NAMES", 20)
    with pytest.raises(Conflict, match="more than 20 entries"):
        names(tmp_path)


def test_a_file_is_no_folder_and_a_missing_folder_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Conflict, match="not a folder"):
        names(tmp_path, "file")
    with pytest.raises(NotFound, match="There is no file or folder none"):
        names(tmp_path, "none")
    with pytest.raises(NotFound, match="was removed"):
        names(tmp_path / "gone")


async def test_without_a_broker_only_the_platforms_own_account_reads(tmp_path: Path) -> None:
    files = OwnAccountFiles()
    (tmp_path / "a").touch()
    found = await files.get_entry(FileRoot(account=None, folder=str(tmp_path)), "a")
    assert (found.name, found.kind, found.size_bytes) == ("a", FileKind.FILE, 0)
    with pytest.raises(NotAllowed, match="no broker"):
        await files.get_entry(FileRoot(account="anna", folder=str(tmp_path)), "a")
