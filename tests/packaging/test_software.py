"""Problems of the nodes' software that are found before any of it is created."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aitne.adapters.node_software_folder import SoftwareFolder
from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.supervisor import node_software_installation, software_environments


def settings(tmp_path: Path, **slurm: object) -> Settings:
    given = {"software_dir": str(tmp_path / "sw"), "python": sys.executable, **slurm}
    return Settings(data_dir=tmp_path, scheduler="slurm", slurm=given)


@pytest.fixture(autouse=True)
def _no_environment_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AITNE_SESSION_ENV", raising=False)


def test_the_folder_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="set `software_dir` in the \\[slurm\\] section"):
        node_software_installation.ensure_node_software(
            settings(tmp_path, software_dir=None), print
        )


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"/no/python ended with status 127.*Set `python`"):
        node_software_installation.ensure_node_software(
            settings(tmp_path, python="/no/python"), print
        )


def test_an_interpreter_that_is_too_old_for_sessions(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 3.9\n")
    old.chmod(0o755)
    with pytest.raises(SetupError, match=r"3\.11 or newer on the nodes; .* is 3\.9"):
        node_software_installation.ensure_node_software(settings(tmp_path, python=str(old)), print)
    # The agent itself does with it, so it is there for batch jobs.
    assert SoftwareFolder(settings(tmp_path, python=str(old))).has_files()


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "sw").write_text("a file")
    with pytest.raises(SetupError, match="run `aitne admin software` once"):
        node_software_installation.ensure_node_software(settings(tmp_path), print)


def test_complete_software_folder_is_left_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(tmp_path)
    folder = SoftwareFolder(given)
    folder.write_files()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder.session_env / "lib" / f"python{version}" / "site-packages"
    lines = (software_environments.LOCKS / "session.txt").read_text().split()
    installed = [f"{line.replace('-', '_').replace('==', '-')}.dist-info" for line in lines]
    for name in installed:
        (packages / name).mkdir(parents=True)
    (folder.session_env / node_software_installation.MARKER).write_text(f"{version}\n")
    said: list[str] = []
    assert node_software_installation.ensure_node_software(given, said.append)
    assert said == []
    assert node_software_installation.get_node_session_env(given) == folder.session_env

    # Changed packages without a way to a package index.
    (packages / installed[0]).rmdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    assert not node_software_installation.ensure_node_software(given, said.append)
    assert f"these packages are installed again: {lines[0]}." in said[0]
    assert "What needs these packages may fail" in said[-1]


def test_a_given_environment_wins_if_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNE_SESSION_ENV", str(tmp_path / "env"))
    with pytest.raises(SetupError, match="is not a virtual environment"):
        node_software_installation.ensure_node_software(settings(tmp_path), print)
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").touch()
    node_software_installation.ensure_node_software(settings(tmp_path), print)
    assert node_software_installation.get_node_session_env(settings(tmp_path)) == tmp_path / "env"


@pytest.mark.parametrize("which", ["root", "agent", "above"])
def test_software_writable_by_others_is_refused(tmp_path: Path, which: str) -> None:
    given = settings(tmp_path, software_dir=str(tmp_path / "shared" / "sw"))
    folder = SoftwareFolder(given)
    folder.write_files()
    path = {"root": folder.root, "agent": folder.agent, "above": folder.root.parent}[which]
    path.chmod(path.stat().st_mode | 0o002)
    with pytest.raises(SetupError, match=f"Any user can change {path},.*chmod o-w"):
        node_software_installation.ensure_node_software(given, print)


def test_a_stranger_who_was_there_first_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder such as /tmp any account may create the folder first and then owns it."""
    given = settings(tmp_path, software_dir=str(tmp_path / "shared" / "sw"))
    folder = SoftwareFolder(given)
    folder.write_files()
    folder.root.parent.chmod(0o1777)
    folder.check_owner()
    monkeypatch.setattr("os.geteuid", lambda: 12_345)
    if folder.root.stat().st_uid == 0:
        folder.check_owner()  # root may create it for all accounts
        os.chown(folder.root, 54_321, -1)
    with pytest.raises(SetupError, match="is where any user can create folders"):
        folder.check_owner()
