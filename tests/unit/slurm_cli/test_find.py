"""The search for runs: first in the queue, and then in accounting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aitne.adapters.schedulers._slurm import slurm_queries as site_module
from aitne.adapters.schedulers._slurm import squeue_parser
from aitne.adapters.schedulers._slurm.sacct_parser import FIELDS
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.core.jobs.states import JobState
from aitne.core.ports.command import Completed
from aitne.core.ports.scheduler import Run
from aitne.core.settings import Settings

ARRAY = UUID(int=7)


class Slurm:
    """Answers like one whose array 12 has lost its tasks 0 and 2 from the queue since they ended."""

    def __init__(
        self, *, alone: bool = False, state: str = "RUNNING", ended: str = "NODE_FAIL"
    ) -> None:
        self.alone = alone
        self.state, self.ended = state, ended
        self.asked: list[Sequence[str]] = []
        self.config = "AccountingStorageType   = accounting_storage/slurmdbd\n"
        self.down = False

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """Answer squeue, sacct or scontrol; fail while down."""
        self.asked.append(argv)
        if self.down:
            return Completed(1, b"", b"Unable to contact slurm controller")
        said = {"squeue": self._squeue, "sacct": self._sacct, "scontrol": self._config}[argv[0]](
            argv
        )
        return Completed(0, said.encode(), b"")

    def _squeue(self, argv: Sequence[str]) -> str:
        form = next(word for word in argv if word.startswith("--Format="))
        mark = form.partition(f"{squeue_parser.FIELDS[-1]}:0")[2]
        facts = dict.fromkeys(squeue_parser.FIELDS, "") | {
            "Comment": f"aitne:{ARRAY}:1",
            "JobArrayID": "12_1",
            "ArrayTaskID": "1",
            "UserName": "alice",
            "State": self.state,
            "NodeList": "n1",
        }
        return squeue_parser.SEPARATOR.join(facts.values()) + f"{mark}\n"

    def _sacct(self, argv: Sequence[str]) -> str:
        lines = []
        for task, state in (("0", "TIMEOUT"), ("1", self.ended), ("2", "CANCELLED by 0")):
            facts = dict.fromkeys(FIELDS, "") | {
                "End": "300",
                "JobName": f"aitne-{ARRAY}-1",
                "JobID": f"12_{task}",
                "User": "alice",
                "State": state,
                "ExitCode": "0:0",
                "NodeList": "n1",
            }
            lines.append(squeue_parser.SEPARATOR.join(facts.values()))
        return "\n".join(lines)

    def _config(self, argv: Sequence[str]) -> str:
        return self.config


async def test_a_task_that_left_the_queue_is_looked_up_while_others_of_its_array_run(
    tmp_path: Path,
) -> None:
    site = Site(Settings(data_dir=tmp_path), Slurm())
    runs = [
        Run(job_id=ARRAY, attempt=1, account="alice", scheduler_id=f"12_{task}") for task in (0, 1)
    ]
    found = {(row.array_task_id, row.state) for row in await site.find_records(runs)}
    # Of task 1 accounting's older word does not count: slurmctld has it.
    assert found == {
        (0, JobState.TIMED_OUT),
        (1, JobState.RUNNING),
        (2, JobState.CANCELLED),
    }


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("by 0", "Cancelled in Slurm by root."),
        ("by 4294967294", "Cancelled in Slurm by uid 4294967294."),
        ("", None),
    ],
)
async def test_accounting_names_the_canceller_of_a_job_in_the_queue(
    tmp_path: Path, by: str, message: str | None
) -> None:
    slurm = Slurm(state="CANCELLED", ended=f"CANCELLED {by}".strip())
    site = Site(Settings(data_dir=tmp_path), slurm)
    found = await site.find_records(
        [Run(job_id=ARRAY, attempt=1, account="alice", scheduler_id="12_1")]
    )
    assert {row.array_task_id: row.pending_reason for row in found}[1] == message


async def test_changed_configuration_is_noticed_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm, now = Slurm(), [1_000.0]
    monkeypatch.setattr(site_module.time, "monotonic", lambda: now[0])
    site = Site(Settings(data_dir=tmp_path), slurm)
    assert (await site.config()).message_timeout_s == 10
    slurm.config += "MessageTimeout          = 30 sec\n"
    now[0] += 59
    assert (await site.config()).message_timeout_s == 10
    now[0] += 2
    assert (await site.config()).message_timeout_s == 30
    now[0] += 61
    slurm.down = True
    assert (await site.config()).message_timeout_s == 30


async def test_without_a_broker_other_accounts_jobs_are_not_even_read(tmp_path: Path) -> None:
    slurm = Slurm(alone=True)
    site = Site(Settings(data_dir=tmp_path), slurm)
    await site.poll()
    await site.find_records([Run(job_id=ARRAY, attempt=1, scheduler_id="12_0")])
    looks = [argv for argv in slurm.asked if argv[0] in ("squeue", "sacct")]
    assert [argv[0] for argv in looks] == ["squeue", "squeue", "sacct"]
    for argv in looks:
        assert f"--user={os.geteuid()}" in argv
        assert "--allusers" not in argv
