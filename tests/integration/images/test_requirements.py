"""Requirements for images: Apptainer that root may run, and a FUSE device that users may open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.adapters.images import prerequisites
from aitne.core.errors import SetupError
from tests.support.slurm import root_or_skip


def test_a_closed_device_is_opened_and_an_open_one_is_left(tmp_path: Path) -> None:
    device, said = tmp_path / "fuse", []
    prerequisites.permit_fuse(said.append, device)
    assert "modprobe fuse" in said.pop()
    device.touch(0o600)
    prerequisites.permit_fuse(said.append, device)
    assert device.stat().st_mode & 0o777 == 0o666
    assert "to all users" in said.pop()
    prerequisites.permit_fuse(said.append, device)
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
            prerequisites.check_program_protected(str(tmp_path / "link"))
        os.chown(path, 0, 0)
        path.chmod(0o755)
    prerequisites.check_program_protected(str(tmp_path / "link"))
    prerequisites.check_program_protected("apptainer")


def test_program_of_the_settings_is_used_and_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "apptainer-1.4"
    with pytest.raises(SetupError, match=r"\[containers\] apptainer is .*there is no such program"):
        prerequisites.require_apptainer(print, str(program))
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(prerequisites, "permit_fuse", lambda progress: None)
    prerequisites.require_apptainer(print, str(program))


def test_missing_apptainer_is_reported_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"Apptainer is not installed\..*make apptainer"):
        prerequisites.require_apptainer(print)
