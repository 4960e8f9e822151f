"""Apptainer for a machine that has none: the package that would be installed, taken apart and started."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from aitne.adapters.images import install
from aitne.core.errors import SetupError
from tests.support.slurm import root_or_skip

pytestmark = pytest.mark.timeout(300)


def on_debian_12() -> bool:
    release = platform.freedesktop_os_release()
    return (release.get("ID"), release.get("VERSION_ID")) == ("debian", "12")


@pytest.mark.skipif(not on_debian_12(), reason="elsewhere the package is taken as it is")
def test_the_package_of_a_newer_release_runs_on_this_one(tmp_path: Path) -> None:
    root_or_skip()
    package = install.repacked(print)
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path)], check=True, timeout=60)
    done = subprocess.run(
        [tmp_path / "usr/bin/apptainer", "--version"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("apptainer version 1.")
    said = subprocess.run(
        ["dpkg-deb", "--field", str(package), "Version", "Depends"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "~aitne1" in said.stdout
    assert "libc6 (>= 2.36)" in said.stdout
    assert install.repacked(print) == package


def test_a_closed_device_is_opened_and_an_open_one_is_left(tmp_path: Path) -> None:
    device, said = tmp_path / "fuse", []
    install.open_fuse(said.append, device)
    assert "modprobe fuse" in said.pop()
    device.touch(0o600)
    install.open_fuse(said.append, device)
    assert device.stat().st_mode & 0o777 == 0o666
    assert "to all users" in said.pop()
    install.open_fuse(said.append, device)
    assert said == []


def test_root_runs_no_program_that_others_could_replace(tmp_path: Path) -> None:
    root_or_skip()
    program = tmp_path / "apptainer"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "link").symlink_to(program)
    for path, uid, mode in ((program, 1, 0o755), (program, 0, 0o775), (tmp_path, 0, 0o777)):
        os.chown(path, uid, 0)
        path.chmod(mode)
        with pytest.raises(SetupError, match="root does not run it"):
            install.check_program(str(tmp_path / "link"))
        os.chown(path, 0, 0)
        path.chmod(0o755)
    install.check_program(str(tmp_path / "link"))
    install.check_program("apptainer")


def test_program_of_the_settings_is_used_and_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "apptainer-1.4"
    with pytest.raises(SetupError, match=r"\[containers\] apptainer is .*there is no such program"):
        install.ensure_apptainer(print, str(program))
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(install, "open_fuse", lambda progress: None)
    install.ensure_apptainer(print, str(program))


def test_installation_error_explains_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    root = os.geteuid() == 0
    with pytest.raises(SetupError, match="no apt-get here" if root else "only root can install"):
        install.ensure_apptainer(print)
