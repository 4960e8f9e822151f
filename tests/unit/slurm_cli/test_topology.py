"""The topology of a Slurm whose slurmctld does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.core.errors import SchedulerUnavailable
from aitne.core.ports.command import Completed
from aitne.core.settings import Settings


class Scontrol:
    """Answers as scontrol does, whose exit code is 0 also after an error."""

    alone = False

    def __init__(self, stdout: str, stderr: str) -> None:
        self._completed = Completed(0, stdout.encode(), stderr.encode())

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """Return the same answer to any command."""
        return self._completed


def site(tmp_path: Path, stdout: str, stderr: str) -> Site:
    return Site(Settings(data_dir=tmp_path), Scontrol(stdout, stderr))


async def test_topology_that_slurmctld_does_not_tell_is_not_an_absent_one(tmp_path: Path) -> None:
    error = "slurm_load_topo error: Unable to contact slurm controller (connect failure)\n"
    with pytest.raises(SchedulerUnavailable, match="Unable to contact"):
        await site(tmp_path, "", error).topology()
    none = "scontrol: error: No topology information available\n"
    assert await site(tmp_path, "", none).topology() == ""
    shown = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n1\n"
    assert await site(tmp_path, shown, "").topology() == shown
