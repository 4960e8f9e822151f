"""The start with missing or hanging commands of Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.job_files import OwnFiles
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.errors import AitneError, CommandTimeout, SetupError, Unavailable
from aitne.core.ports.command import Completed
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings


class NoAnswer:
    """Runs no command to its end."""

    alone = False

    def __init__(self, error: AitneError) -> None:
        self.error = error

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """Raise the error of the test."""
        raise self.error


def scheduler(folder: Path, error: AitneError) -> SlurmCliScheduler:
    return SlurmCliScheduler(Settings(data_dir=folder), Tools(NoAnswer(error), OwnFiles()))


async def test_a_command_that_does_not_end_is_a_note(tmp_path: Path) -> None:
    error = CommandTimeout("scontrol did not end within 15 s.")
    (note,) = await scheduler(tmp_path, error).start()
    assert "does not answer now (scontrol did not end within 15 s.)" in note


async def test_a_command_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="scontrol is not installed"):
        await scheduler(tmp_path, Unavailable("scontrol is not installed.")).start()
