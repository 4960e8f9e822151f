"""The agent as one file, as nodes run it: with each Python that this machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aitne.adapters.node_software_folder import SoftwareFolder
from aitne.core.settings import Settings
from tests.support import realtime

pytestmark = realtime.PROCESSES

JOB = "6f9f2c1e-0000-4000-8000-000000000001"
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")


def _pythons() -> list[str]:
    """Return the Python programs of those versions by their own paths.

    The shims of version managers change PATH.
    """
    managed = [
        str(path)
        for version in VERSIONS
        for path in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    ]
    named = [shutil.which(f"python{version}") for version in VERSIONS]
    found = {}
    for program in [*managed, *named, "/usr/bin/python3", sys.executable]:
        if program is None:
            continue
        asked = [program, "-c", "import sys; print(sys.version_info[:2], sys.executable)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            version, _, own = done.stdout.strip().rpartition(" ")
            found.setdefault(version, own)
    return [*found.values()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> SoftwareFolder:
    root = tmp_path_factory.mktemp("shared")
    settings = Settings(data_dir=root, scheduler="slurm", slurm={"software_dir": str(root / "sw")})
    old = os.umask(0o077)
    try:
        software = SoftwareFolder(settings)
        software.write_files()
    finally:
        os.umask(old)
    return software


@pytest.mark.parametrize("python", _pythons())
def test_the_archive_runs_a_job(folder: SoftwareFolder, python: str, tmp_path: Path) -> None:
    spec = {
        "job_id": JOB,
        "attempt": 1,
        "commands": [["sh", "-c", "echo $PATH; exit 7"]],
        "path": ["/first"],
        "workdir": str(tmp_path),
        # Nothing listens on this port; the sampler and the reporter run regardless.
        "platform_url": "http://127.0.0.1:1",
        "sample_interval_s": 0.05,
    }
    (tmp_path / "agent.json").write_text(json.dumps(spec))
    done = subprocess.run(
        [python, "-I", str(folder.agent), str(tmp_path)],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "/first:/usr/bin:/bin\n", "")


def test_agent_archive_is_readable_by_all_under_any_umask(folder: SoftwareFolder) -> None:
    overrides = folder.launcher.parent / "lab" / "overrides.json"
    for file in (folder.agent, folder.launcher, overrides):
        assert file.stat().st_mode & 0o777 == 0o644
    for place in (folder.root, folder.launcher.parent, overrides.parent):
        assert place.stat().st_mode & 0o777 == 0o755
    assert folder.has_files()


def test_agent_archive_needs_no_other_files(folder: SoftwareFolder) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import aitne.agent.main as main, aitne;"
        "print(main.__file__.startswith(sys.argv[1]), aitne.__file__.startswith(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(folder.agent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True"]
