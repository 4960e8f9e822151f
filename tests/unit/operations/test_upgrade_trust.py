"""Root executes nothing that the account of the platform has named."""

from __future__ import annotations

import json
import os
import pwd
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.operations.upgrade.command_account import (
    find_command_account,
    must_install_node_software,
)
from aitne.operations.upgrade.platform_service import find_service, require_main_process
from aitne.operations.upgrade.releases import Releases
from aitne.operations.upgrade.this_host import ThisHost
from aitne.supervisor.process_account import ProcessAccount, acting_as
from tests.support.slurm import root_or_skip

OWN = '[accounts]\nmode = "own"\n'


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root that every account reaches."""
    root_or_skip()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def other() -> ProcessAccount:
    """An account that is not root."""
    entry = pwd.getpwnam("nobody")
    return ProcessAccount(entry.pw_uid, entry.pw_gid, [entry.pw_gid])


@pytest.fixture
def data_dir(place: Path, other: ProcessAccount) -> Path:
    """A data directory of the account."""
    folder = place / "data"
    folder.mkdir(mode=0o700)
    os.chown(folder, other.uid, other.gid)
    return folder


def uid_for(data_dir: Path) -> int:
    """The uid that commands for the platform have."""
    account = find_command_account(data_dir)
    return os.geteuid() if account is None else account.uid


def test_root_acts_as_the_owner_whatever_the_settings_of_the_owner_say(
    data_dir: Path, other: ProcessAccount
) -> None:
    with acting_as(other):
        (data_dir / "aitne.toml").write_text(OWN)
    assert uid_for(data_dir) == other.uid


def test_root_acts_for_users_with_accounts_of_their_own_if_its_own_settings_say_so(
    place: Path, data_dir: Path, other: ProcessAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = place / "aitne.toml"
    monkeypatch.setenv("AITNE_CONFIG", str(config))
    config.write_text("")
    assert uid_for(data_dir) == other.uid
    config.write_text(OWN)
    assert uid_for(data_dir) == 0
    config.chmod(0o666)
    assert uid_for(data_dir) == other.uid


def test_root_installs_its_software_for_nodes_if_only_root_can_change_the_settings(
    place: Path, data_dir: Path, other: ProcessAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, software = place / "aitne.toml", place / "software"
    software.mkdir()
    monkeypatch.setenv("AITNE_CONFIG", str(config))
    slurm = f'conf = "{place}/slurm.conf"\nsoftware_dir = "{software}"'
    config.write_text(f'scheduler = "slurm"\n[slurm]\n{slurm}\n')
    assert must_install_node_software(data_dir, other)
    assert not must_install_node_software(data_dir, None)
    config.chmod(0o666)
    assert not must_install_node_software(data_dir, other)
    config.chmod(0o644)
    os.chown(software, other.uid, other.gid)
    assert not must_install_node_software(data_dir, other)


def test_settings_of_root_that_another_account_can_replace_are_refused(
    place: Path, data_dir: Path, other: ProcessAccount
) -> None:
    own = place / "own"
    own.mkdir()
    assert uid_for(own) == 0
    own.chmod(0o1777)
    with pytest.raises(SetupError, match="Accounts other than root can change"):
        find_command_account(own)
    below = data_dir / "below"
    below.mkdir()
    with pytest.raises(SetupError, match="belongs to another account"):
        find_command_account(below)


def test_settings_of_the_owner_are_read_by_the_owner(
    place: Path, data_dir: Path, other: ProcessAccount
) -> None:
    (place / "secret").write_text("[limits")
    (place / "secret").chmod(0o600)
    with acting_as(other):
        (data_dir / "aitne.toml").symlink_to(place / "secret")
    with pytest.raises(SetupError, match="Permission denied"):
        ThisHost(
            data_dir,
            find_command_account(data_dir),
            Releases(place),
            place / "backups",
            lambda line: None,
            None,
        )


def test_socket_that_names_the_process_of_another_account_is_refused(
    data_dir: Path, other: ProcessAccount
) -> None:
    (data_dir / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(data_dir / "run" / "supervisor.sock"))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(json.dumps({"supervisor_pid": os.getpid()}).encode() + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SetupError, match="which answers as the platform, runs as uid 0"):
            find_service(data_dir, other)
        thread.join()


def test_unit_of_another_program_is_not_restarted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl = place / "systemctl"
    systemctl.write_text("#!/bin/sh\necho $MAIN\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=":")
    monkeypatch.setenv("MAIN", "1")
    with pytest.raises(SetupError, match=r"is not the main process of the unit cron\.service"):
        require_main_process("cron.service", os.getpid(), None)
    for main in (os.getpid(), os.getppid()):
        monkeypatch.setenv("MAIN", str(main))
        require_main_process("aitne.service", os.getpid(), None)
