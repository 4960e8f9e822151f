"""Draining many nodes for a maintenance reads the cluster once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.job_files import OwnFiles
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.errors import SchedulerRejected
from aitne.core.ports.command import Completed
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings


class Slurm:
    """A cluster of three nodes, which notes what it is asked."""

    alone = False

    def __init__(self) -> None:
        self.nodes = ["n1", "n2", "n3"]
        self.looks = 0
        self.told: list[str] = []

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """Answer as scontrol does; record updates."""
        said = ""
        if argv[:2] == ("scontrol", "update"):
            self.told.append(argv[2])
        elif argv[-1] == "node":
            self.looks += 1
            said = "".join(f"NodeName={name} CPUTot=4 State=IDLE\n" for name in self.nodes)
        return Completed(0, said.encode(), b"")


async def test_the_cluster_is_read_once_for_many_nodes(tmp_path: Path) -> None:
    slurm = Slurm()
    scheduler = SlurmCliScheduler(Settings(data_dir=tmp_path), Tools(slurm, OwnFiles()))
    for name in ("n1", "n2", "n3"):
        await scheduler.drain(name, "new switches")
    assert slurm.told == ["NodeName=n1", "NodeName=n2", "NodeName=n3"]
    assert slurm.looks == 1
    slurm.nodes.append("n4")
    await scheduler.drain("n4", "new switches")
    for wrong in ("n5", "ALL", "n[1-2]", ""):
        with pytest.raises(SchedulerRejected, match="has no node"):
            await scheduler.resume(wrong)
    assert slurm.told[3:] == ["NodeName=n4"]
