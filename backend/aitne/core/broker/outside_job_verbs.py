"""The broker's verbs for jobs that users submitted with the scheduler's own commands, such as
sbatch.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.core.broker.verb_base_models import AbsolutePath, Args
from aitne.core.models.base import Frozen, UserName
from aitne.core.ports.outside_jobs import OutsideAction, OutsideJob, OutsideLog, OutsideRun

MAX_ACCOUNTS = 100_000
MAX_RUNS = 500
_SchedulerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+\-]{0,63}$")]


class WireOutsideRun(OutsideRun, extra="forbid"):
    """``OutsideRun`` as the broker receives it: every field is validated again."""

    scheduler_id: _SchedulerId
    account: UserName


class WireOutsideLog(OutsideLog, extra="forbid"):
    """``OutsideLog`` as the broker receives it: every field is validated again."""

    scheduler_id: _SchedulerId
    account: UserName
    path: AbsolutePath
    seal: str = Field(max_length=200)


class OutsideListArgs(Args):
    """Arguments of the verb ``outside_list``, which lists these jobs."""

    accounts: list[UserName] = Field(max_length=MAX_ACCOUNTS)


class OutsideEndedArgs(Args):
    """Arguments of the verb ``outside_ended``, which searches accounting for ended jobs that were
    not submitted through the platform.
    """

    runs: list[WireOutsideRun] = Field(max_length=MAX_RUNS)


class OutsideActArgs(Args):
    """Arguments of the verb ``outside_act``, with which the owner of a job that was not submitted
    through the platform changes or cancels it.
    """

    run: WireOutsideRun
    action: OutsideAction

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Unix account, and the scheduler ID with the action, for the audit log."""
        return self.run.account, f"{self.run.scheduler_id}:{self.action}"


class OutsideLogArgs(Args):
    """Arguments of the verb ``outside_log``, which reads the log of a job that was not submitted
    through the platform.
    """

    log: WireOutsideLog
    offset: int = Field(ge=-(1 << 62), le=1 << 62)
    limit: int = Field(ge=0)
    """Maximum number of bytes to return; values above ``MAX_READ_BYTES`` are reduced to that."""

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Unix account and scheduler ID, for the audit log."""
        return self.log.account, self.log.scheduler_id


class OutsideResult(Frozen):
    """Scheduler records of jobs that were not submitted through the platform."""

    jobs: list[OutsideJob]
