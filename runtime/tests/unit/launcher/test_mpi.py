"""The command that starts ranks by MPI, and what is said before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne_train.launcher.hosts import Host
from aitne_train.launcher.launcher import LaunchSettings, build_mpi_command

HINT = "set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


@pytest.mark.parametrize(
    ("account", "version", "permitted", "hinted"),
    [
        (0, "mpirun (Open MPI) 4.1.4", "", True),
        (0, "mpirun (Open MPI) 5.0.7", "0", True),
        (0, "mpirun (Open MPI) 4.1.4", "1", False),
        (0, "HYDRA build details:", "", False),
        (1000, "mpirun (Open MPI) 4.1.4", "", False),
    ],
)
def test_root_is_told_how_open_mpi_starts_ranks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    account: int,
    version: str,
    permitted: str,
    hinted: bool,
) -> None:
    program = tmp_path / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    for name in names:
        monkeypatch.setenv(name, permitted)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: account)
    command = build_mpi_command([Host("here", 2)], "mpirun", LaunchSettings(["train"]))
    assert command[:3] == ["mpirun", "-np", "2"]
    assert (HINT in capsys.readouterr().err) is hinted
