from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.supervisor import start_checks


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_checks, "_try_listen", lambda bind, port: None)


def test_the_data_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    start_checks.check_requirements(Settings(data_dir=folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {entry.name for entry in folder.iterdir()} == {"run", "logs", "hub", "secrets"}


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"file is a file\. Choose another .*--data-dir"):
        start_checks.check_requirements(Settings(data_dir=tmp_path / "file"))
    with pytest.raises(SetupError, match=r"file is a file where a folder is needed"):
        start_checks.check_requirements(Settings(data_dir=tmp_path / "file" / "below"))


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EROFS, "read-only file system"),
        (errno.ENOSPC, "full. Make room"),
        (errno.EDQUOT, "full. Make room"),
        (errno.EACCES, "may not write"),
        (errno.EIO, "cannot be used"),
    ],
)
def test_a_data_directory_that_cannot_be_written(
    number: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(start_checks.os, "fsync", refuse)
    with pytest.raises(SetupError, match=says) as caught:
        start_checks.check_requirements(Settings(data_dir=tmp_path))
    assert str(tmp_path) in caught.value.message
    assert "--data-dir" in caught.value.message


def test_a_disk_that_is_all_but_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 5 * 1024**2

    monkeypatch.setattr(start_checks.shutil, "disk_usage", lambda folder: Usage)
    with pytest.raises(SetupError, match="5 MiB are free, 100 MiB are needed"):
        start_checks.check_requirements(Settings(data_dir=tmp_path))


def taken(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def listen(bind: str, port: int) -> OSError | None:
        return OSError(number, "Something") if port == 8_001 else None

    monkeypatch.setattr(start_checks, "_try_listen", listen)
    monkeypatch.setattr(start_checks, "PORT_PATIENCE_S", 0.0)
    monkeypatch.setattr(start_checks.time, "sleep", lambda seconds: None)


def test_a_taken_port_is_named_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(monkeypatch, errno.EADDRINUSE)
    with pytest.raises(
        SetupError, match=r"Port 8001 .* for the sessions, is in use .*sessions_port"
    ):
        start_checks.check_requirements(Settings(data_dir=tmp_path))


def test_a_port_that_one_may_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken(monkeypatch, errno.EACCES)
    with pytest.raises(SetupError, match=r"The sessions cannot listen on 127\.0\.0\.1:8001"):
        start_checks.check_requirements(Settings(data_dir=tmp_path))


def test_port_shared_by_two_processes_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data_dir": tmp_path, "port": 9_000, "hub_port": 9_001}
    with pytest.raises(SetupError, match="Port 9001 is set for more than one part"):
        start_checks.check_requirements(Settings(**settings))


@pytest.mark.parametrize(
    ("bind", "address", "said"),
    [
        ("127.0.0.1", "http://login1:8000", True),
        ("0.0.0.0", "http://login1:8000", False),
        ("127.0.0.1", "http://127.0.0.1:8000", False),
        ("127.0.0.1", None, False),
    ],
)
def test_a_portal_that_no_node_reaches_is_said(
    tmp_path: Path, bind: str, address: str | None, said: bool
) -> None:
    slurm = SlurmSettings(portal_address=address)
    found = start_checks.list_notes(
        Settings(data_dir=tmp_path, scheduler="slurm", bind=bind, slurm=slurm)
    )
    assert any("set `bind`" in note for note in found) == said


def test_a_shared_address_of_all_browsers_is_stated(tmp_path: Path) -> None:
    behind = Settings(data_dir=tmp_path, public_url="https://aitne.test")
    direct = behind.model_copy(update={"proxy_socket": tmp_path / "p.sock"})
    (note,) = set(start_checks.list_notes(behind)) - set(start_checks.list_notes(direct))
    assert "set `proxy_socket`" in note
