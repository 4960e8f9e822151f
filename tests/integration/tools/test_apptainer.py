"""Apptainer for a machine that has none: the package that would be installed, taken apart and started."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne_apptainer import installation
from tests.support.slurm import root_or_skip

pytestmark = pytest.mark.timeout(300)


def on_debian_12() -> bool:
    release = platform.freedesktop_os_release()
    return (release.get("ID"), release.get("VERSION_ID")) == ("debian", "12")


@pytest.mark.skipif(not on_debian_12(), reason="elsewhere the package is taken as it is")
def test_the_package_of_a_newer_release_runs_on_this_one(tmp_path: Path) -> None:
    root_or_skip()
    package = installation.repack_apptainer_package(print)
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
    assert installation.repack_apptainer_package(print) == package


def test_installation_error_explains_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    root = os.geteuid() == 0
    with pytest.raises(SetupError, match="no apt-get here" if root else "only root can install"):
        installation.ensure_apptainer(print)
