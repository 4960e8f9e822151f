"""Jobs are cancelled by name and comment, whatever ids Slurm has given them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aitne.adapters.job_files import OwnFiles
from aitne.adapters.schedulers._slurm import squeue_parser
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.ports.command import Completed
from aitne.core.ports.scheduler import Run
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings

JOB = UUID(int=7)
NAME = f"--jobname=aitne-{JOB}-1"


class Slurm:
    """Holds jobs of one name: (id, task, user, state)."""

    alone = False

    def __init__(self, *jobs: tuple[str, str, str, str]) -> None:
        self.jobs = jobs
        self.told: list[tuple[str | None, ...]] = []

    async def run(self, argv: Sequence[str], *, account: str | None, **_: Any) -> Completed:
        """Answer squeue; record all other commands."""
        if argv[0] != "squeue":
            self.told.append((account, *argv))
            return Completed(0, b"", b"")
        form = next(word for word in argv if word.startswith("--Format="))
        mark = form.partition(f"{squeue_parser.FIELDS[-1]}:0")[2]
        said = ""
        for number, task, user, state in self.jobs:
            facts = dict.fromkeys(squeue_parser.FIELDS, "") | {
                "Comment": f"aitne:{JOB}:1",
                "JobArrayID": number,
                "ArrayTaskID": task,
                "UserName": user,
                "State": state,
            }
            said += squeue_parser.SEPARATOR.join(facts.values()) + f"{mark}\n"
        return Completed(0, said.encode(), b"")


async def cancel(tmp_path: Path, slurm: Slurm, number: str) -> None:
    scheduler = SlurmCliScheduler(Settings(data_dir=tmp_path), Tools(slurm, OwnFiles()))
    await scheduler.cancel(Run(job_id=JOB, attempt=1, account="alice", scheduler_id=number))


async def test_a_submission_that_turned_up_twice_is_cancelled_twice(tmp_path: Path) -> None:
    slurm = Slurm(
        ("10", "N/A", "alice", "PENDING"),
        ("11", "N/A", "alice", "PENDING"),
        ("12", "N/A", "bob", "PENDING"),
        ("13", "N/A", "alice", "COMPLETED"),
    )
    await cancel(tmp_path, slurm, "11")
    assert slurm.told == [("alice", "scancel", NAME, number) for number in ("10", "11")]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_a_task_of_an_array_is_cancelled_alone(tmp_path: Path, state: str) -> None:
    slurm = Slurm(("10_2", "2", "alice", state), ("10_3", "3", "alice", "RUNNING"))
    await cancel(tmp_path, slurm, "10_2")
    hold = [("alice", "scontrol", "hold", "10_2")] if state == "PENDING" else []
    assert slurm.told == [*hold, ("alice", "scancel", NAME, "10_2")]


async def test_a_whole_array_is_cancelled_by_its_id(tmp_path: Path) -> None:
    slurm = Slurm(("10_2", "2", "alice", "PENDING"), ("10_3", "3", "alice", "RUNNING"))
    await cancel(tmp_path, slurm, "10")
    assert slurm.told == [("alice", "scancel", "10")]
