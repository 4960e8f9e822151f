"""Protocol between the platform and the broker over its UNIX socket.

Lines of JSON. The platform sends ``Hello`` first and reads ``Welcome`` or a refusal
(``core.broker.protocol_versions``). After that it sends ``{"id", "verb", "args"}`` and reads, in any order, ``{"id", "ok"}`` or ``{"id", "error"}``.

``VERBS`` lists all requests. A new verb is one entry here (with the models of its arguments
and its answer), one in ``versions.VERBS_SINCE``, and one method of that name in
``broker/verb_handlers.py``.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Base64Bytes, BaseModel, Field, PrivateAttr

from aitne.core import units
from aitne.core.broker.account_file_verbs import (
    FileArgs,
    ListFolderArgs,
    ReadPartArgs,
    ReadPartResult,
)
from aitne.core.broker.outside_job_verbs import (
    OutsideActArgs,
    OutsideEndedArgs,
    OutsideListArgs,
    OutsideLogArgs,
    OutsideResult,
)
from aitne.core.broker.password_verb import CheckPasswordArgs, CheckPasswordResult
from aitne.core.broker.storage_area_verbs import (
    AreasArgs,
    AreasResult,
    MakeAreasResult,
    PathsArgs,
    PathsResult,
)
from aitne.core.broker.verb_base_models import AbsolutePath, Args, EmptyResult, NoArgs
from aitne.core.errors import SchedulerUnavailable, SubmitUncertain, Unavailable
from aitne.core.models.base import Frozen, ProjectName, Strict, UserName, UtcTime
from aitne.core.models.cluster import Cluster
from aitne.core.models.common_job_fields import MOST_ARGS, MOST_DEPENDENCIES, Argument
from aitne.core.models.limits import HeldLimit, HeldLimits, LimitUsage, Usage
from aitne.core.models.resources import Resources, ResourcesFile
from aitne.core.models.stored_file import FileList, StoredFile
from aitne.core.ports.accounting import Associations, Change, JobEnergy
from aitne.core.ports.job_files import (
    Fence,
    FolderRemoval,
    FolderSize,
    JobLocation,
    ProgramOutcome,
)
from aitne.core.ports.scheduler import Forecast, Run, SchedulerJob, SubmitRequest

MAX_REQUEST_BYTES = 32 << 20
"""Maximum length of a line from the platform, which may contain a script and the agent's
specification.
"""
MAX_ANSWER_BYTES = 512 << 20
"""Maximum length of a line from the broker; the answer to the first poll contains all jobs."""
MAX_READ_BYTES = 4 << 20
"""Maximum number of bytes of a log in one answer."""
MAX_RUNS = 20_000
MAX_FILES_BYTES = 20 << 20
MAX_LIMITS = 100_000
"""Maximum number of projects and members with limits that the scheduler itself enforces."""

_SCHEDULER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+\-]{0,63}")
SchedulerId = Annotated[str, Field(pattern=f"^{_SCHEDULER_ID.pattern}$")]
SchedulerIds = Annotated[tuple[SchedulerId, ...], Field(max_length=MOST_DEPENDENCIES)]
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,254}")
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$")]
Attempt = Annotated[int, Field(ge=1, le=1_000_000)]
TaskIndex = Annotated[int, Field(ge=0, le=10_000_000)]
TimeLimit = Annotated[int, Field(ge=1, le=10 * 365 * 86_400)]


def _check_gres(resources: Resources) -> Resources:
    ResourcesFile.model_validate({"gres": resources.gres or None})
    return resources


def _normalize_array(text: str | None) -> str | None:
    return None if text is None else str(units.parse_array(text))


def _check_size(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    if sum(map(len, files.values())) > MAX_FILES_BYTES:
        raise ValueError(f"all files together have more than {MAX_FILES_BYTES} bytes")
    return files


Files = Annotated[dict[FileName, Base64Bytes], Field(max_length=100), AfterValidator(_check_size)]


class WireRequest(SubmitRequest, extra="forbid"):
    """``SubmitRequest`` as the broker receives it: every field is validated again."""

    attempt: Attempt
    owner: UserName
    account: UserName
    project: ProjectName
    name: str = Field(max_length=10_000)
    """Name of the job: any text, because the scheduler only displays it."""
    script: str = Field(max_length=4 << 20)
    files: Files = Field(default_factory=dict)
    job_dir: AbsolutePath
    resources: Annotated[Resources, AfterValidator(_check_gres)]
    time_limit_s: TimeLimit
    array: Annotated[str | None, Field(max_length=2_000), AfterValidator(_normalize_array)] = None
    after: SchedulerIds = ()
    afterany: SchedulerIds = ()
    afternotok: SchedulerIds = ()
    aftercorr: SchedulerIds = ()
    max_requeues: int | None = Field(0, ge=0, le=1_000)
    command: Annotated[tuple[Argument, ...], Field(max_length=MOST_ARGS + 1)] = ()


class WireRun(Run, extra="forbid"):
    """``Run`` as the broker receives it: every field is validated again."""

    attempt: Attempt
    account: UserName | None = None
    scheduler_id: Annotated[str | None, Field(max_length=1_000)] = None

    @property
    def has_valid_id(self) -> bool:
        """Return whether the scheduler ID has a form that a scheduler could have assigned."""
        return self.scheduler_id is None or _SCHEDULER_ID.fullmatch(self.scheduler_id) is not None


class WireJobLocation(JobLocation, extra="forbid"):
    """``JobLocation`` as the broker receives it: every field is validated again."""

    attempt: Attempt
    folder: AbsolutePath
    account: UserName


class SubmitArgs(Args):
    """Arguments of the verbs ``submit`` and ``forecast``."""

    request: WireRequest

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Account and ``job:attempt`` of the request, for the audit log."""
        return self.request.account, f"{self.request.job_id}:{self.request.attempt}"


class FindArgs(Args):
    """Arguments of the verb ``find``."""

    runs: list[WireRun] = Field(max_length=MAX_RUNS)


class PollArgs(Args):
    """Arguments of the verb ``poll``."""

    since: str | None = Field(None, max_length=100)
    """Generation of the answer that the caller has; None: the caller has none, so all records are
    returned.
    """


class RunArgs(Args):
    """Arguments of ``cancel``, ``hold`` and ``release``, and base of verbs about one run."""

    run: WireRun

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Account and ``job:attempt`` of the run, for the audit log."""
        return self.run.account, f"{self.run.job_id}:{self.run.attempt}"


class ThrottleArgs(RunArgs):
    """Arguments of the verb ``throttle``."""

    max_parallel: int | None = Field(ge=1, le=10_000_000)


class ExtendArgs(RunArgs):
    """Arguments of the verb ``extend``."""

    time_limit_s: int = Field(ge=0, le=10 * 365 * 86_400)


class WireLimits(HeldLimits, extra="forbid"):
    """``HeldLimits`` as the broker receives it: every field is validated again."""

    entries: Annotated[tuple[HeldLimit, ...], Field(max_length=MAX_LIMITS)] = ()


class HoldLimitsArgs(Args):
    """Arguments of the verb ``hold_limits``, which sets the limits that the scheduler enforces."""

    limits: WireLimits


class ResumeArgs(Args):
    """Arguments of the verb ``resume``."""

    node: str = Field(max_length=1_000)

    @property
    def has_valid_name(self) -> bool:
        """Return whether the name has the form of a single node's name. Slurm would also accept
        lists and patterns.
        """
        return _NODE_NAME.fullmatch(self.node) is not None


class DrainArgs(ResumeArgs):
    """Arguments of the verb ``drain``."""

    reason: str = Field(max_length=2_000)


class JobLocationArgs(Args):
    """Arguments of verbs that access the job folder, and base class of others."""

    place: WireJobLocation

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Unix account and ``job:attempt`` of the job folder, for the audit log."""
        return self.place.account, f"{self.place.job_id}:{self.place.attempt}"


class CreateArgs(JobLocationArgs):
    """Arguments of the verb ``create``."""

    files: Files


class TaskArgs(JobLocationArgs):
    """Arguments of the verbs ``fence``, ``close_fence`` and ``outcome``."""

    task: TaskIndex | None = None


class ReadLogArgs(TaskArgs):
    """Arguments of the verb ``read_log``."""

    offset: int = Field(ge=-(1 << 62), le=1 << 62)
    limit: int = Field(ge=0)
    """Maximum number of bytes to return; values above ``MAX_READ_BYTES`` are reduced to that."""


class ReadFileArgs(JobLocationArgs):
    """Arguments of the verb ``read_file``."""

    name: FileName
    offset: int = Field(ge=0, le=1 << 62)
    limit: int = Field(ge=0)
    """Maximum number of bytes to return; values above ``MAX_READ_BYTES`` are reduced to that."""


class AttachArgs(JobLocationArgs):
    """Arguments of the verb ``attach``."""

    run: WireRun
    node: str = Field(max_length=1_000)
    agent: list[Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=4_000)]] = Field(
        min_length=1, max_length=10
    )

    @property
    def has_valid_names(self) -> bool:
        """Return whether the scheduler ID and the node name have the forms that a scheduler
        uses.
        """
        return self.run.has_valid_id and _NODE_NAME.fullmatch(self.node) is not None


class AccountingArgs(Args):
    """Arguments of the verb ``accounting_apply``."""

    changes: list[Annotated[Change, Field(discriminator="kind")]] = Field(
        min_length=1, max_length=10_000
    )


class UsageArgs(Args):
    """Arguments of the verbs ``accounting_usage`` and ``accounting_energy``."""

    start: UtcTime
    end: UtcTime


class SubmitResult(Frozen):
    """Result of ``submit``: the job's ID in the scheduler."""

    scheduler_id: str


class ForecastResult(Frozen):
    """Result of the verb ``forecast``."""

    forecast: Forecast | None
    """Expected start of the job; None: the scheduler cannot predict it."""


class FindResult(Frozen):
    """Result of the verb ``find``. Both values come from the scheduler adapter."""

    jobs: list[SchedulerJob]
    """Records of the jobs in the scheduler."""
    settle_s: float
    """Time in seconds for which a job may still appear in the scheduler after a submission that was
    not answered.
    """


class PollResult(Frozen):
    """Result of the verb ``poll``: the records that changed since the caller's last poll.

    Records are immutable and numbered. If a record changes, its number is removed, and the new
    record is sent with a new number.
    """

    generation: str
    """Version of this answer, which the caller sends as ``since`` with the next poll."""
    full: bool
    """Whether the answer contains all records, which replace those of the caller."""
    gone: list[int]
    """Numbers of removed records; empty if ``full`` is True."""
    new: list[tuple[int, SchedulerJob]]
    """New records with their numbers."""


class ChangedResult(Frozen):
    """Result of the verb ``changed``."""

    changed: bool
    """Whether the scheduler reported a change; False if it reported none within a few seconds."""


class AttachResult(Frozen):
    """Result of ``attach``. The socket of the started program is sent together with the line, as
    SCM_RIGHTS.
    """

    _socket: socket.socket | None = PrivateAttr(None)

    @classmethod
    def with_socket(cls, connection: socket.socket) -> AttachResult:
        """Return the result with which ``connection`` is sent."""
        made = cls()
        made._socket = connection
        return made

    @property
    def passed_socket(self) -> socket.socket | None:
        """Socket that is sent together with this result; None if there is none."""
        return self._socket


class ReadLogResult(Frozen):
    """Result of ``read_log``: a ``LogChunk`` in a form for JSON."""

    data: Base64Bytes
    offset: int
    size: int


class ReadFileResult(Frozen):
    """Result of ``read_file``: the part that was read; None if there is no such file."""

    part: ReadLogResult | None


class FenceResult(Frozen):
    """Result of ``fence`` and ``close_fence``: the fence, None if no run has created it."""

    fence: Fence | None


class OutcomeResult(Frozen):
    """Result of ``outcome``: the outcome that the agent recorded; None if there is none."""

    outcome: ProgramOutcome | None


class TidyResult(Frozen):
    """Result of ``tidy``: the size of the job folder; None if it has too many files to be
    measured.
    """

    size: FolderSize | None


class UsageResult(Frozen):
    """Result of ``accounting_usage``: usage by project and user in the requested period."""

    rows: list[Usage]


class EnergyResult(Frozen):
    """Result of ``accounting_energy``: energy of the jobs that ended in the requested period."""

    rows: list[JobEnergy]


class TopologyResult(Frozen):
    """Result of ``topology``: the switches or blocks as the scheduler prints them."""

    text: str


class NotesResult(Frozen):
    """Sentences about what is missing or unusual, for the administrator who starts the platform."""

    notes: list[str]


Audited = Literal["always", "refused"]


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb (operation of the broker) with the models of its arguments and its result."""

    name: str
    args: type[Args]
    answer: type[BaseModel]
    timeout_s: float
    """Seconds after which the broker ends the operation; the caller waits a little longer."""
    lost: type[Unavailable] = SchedulerUnavailable
    """Class of the error that the caller raises if no answer came."""
    audited: Audited = "always"
    bulk: bool = False
    """Whether its answer may be long; the verb then uses a connection of its own, so that other
    requests do not wait for it.
    """


VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("submit", SubmitArgs, SubmitResult, 90, SubmitUncertain),
        Verb("forecast", SubmitArgs, ForecastResult, 45),
        Verb("find", FindArgs, FindResult, 90, audited="refused", bulk=True),
        Verb("poll", PollArgs, PollResult, 90, audited="refused", bulk=True),
        Verb("changed", NoArgs, ChangedResult, 10, audited="refused"),
        Verb("cancel", RunArgs, EmptyResult, 60),
        Verb("hold", RunArgs, EmptyResult, 60),
        Verb("release", RunArgs, EmptyResult, 60),
        Verb("throttle", ThrottleArgs, EmptyResult, 60),
        Verb("extend", ExtendArgs, EmptyResult, 60),
        # Every second, and of no account's jobs: the audit log has only what was refused.
        Verb("hold_limits", HoldLimitsArgs, LimitUsage, 30, audited="refused", bulk=True),
        Verb("cluster", NoArgs, Cluster, 60, audited="refused", bulk=True),
        Verb("topology", NoArgs, TopologyResult, 60, audited="refused", bulk=True),
        Verb("drain", DrainArgs, EmptyResult, 60),
        Verb("resume", ResumeArgs, EmptyResult, 60),
        Verb("attach", AttachArgs, AttachResult, 45, Unavailable),
        Verb("create", CreateArgs, EmptyResult, 30, Unavailable),
        Verb("read_log", ReadLogArgs, ReadLogResult, 15, Unavailable, audited="refused"),
        Verb("read_file", ReadFileArgs, ReadFileResult, 15, Unavailable, audited="refused"),
        Verb("fence", TaskArgs, FenceResult, 15, Unavailable, audited="refused"),
        Verb("close_fence", TaskArgs, FenceResult, 15, Unavailable),
        Verb("outcome", TaskArgs, OutcomeResult, 15, Unavailable, audited="refused"),
        Verb("tidy", JobLocationArgs, TidyResult, 30, Unavailable),
        Verb("remove", JobLocationArgs, FolderRemoval, 30, Unavailable),
        Verb("outside_list", OutsideListArgs, OutsideResult, 90, audited="refused", bulk=True),
        Verb("outside_ended", OutsideEndedArgs, OutsideResult, 90, audited="refused", bulk=True),
        Verb("outside_act", OutsideActArgs, EmptyResult, 60),
        Verb("outside_log", OutsideLogArgs, ReadLogResult, 15, Unavailable, audited="refused"),
        Verb("areas", AreasArgs, AreasResult, 30, Unavailable, audited="refused"),
        Verb("paths", PathsArgs, PathsResult, 30, Unavailable, audited="refused"),
        Verb("make_areas", AreasArgs, MakeAreasResult, 30, Unavailable),
        Verb("look_at_file", FileArgs, StoredFile, 15, Unavailable, audited="refused"),
        Verb("list_folder", ListFolderArgs, FileList, 30, Unavailable, audited="refused"),
        Verb("read_part", ReadPartArgs, ReadPartResult, 15, Unavailable, "refused", bulk=True),
        Verb("accounting_read", NoArgs, Associations, 100, Unavailable, "refused", bulk=True),
        Verb("accounting_apply", AccountingArgs, EmptyResult, 600, Unavailable, bulk=True),
        Verb("accounting_usage", UsageArgs, UsageResult, 150, Unavailable, "refused", bulk=True),
        Verb("accounting_energy", UsageArgs, EnergyResult, 150, Unavailable, "refused", bulk=True),
        Verb("accounting_in_use", NoArgs, LimitUsage, 90, Unavailable, "refused", bulk=True),
        Verb("check_password", CheckPasswordArgs, CheckPasswordResult, 30, Unavailable),
        Verb("notes", NoArgs, NotesResult, 10, audited="refused"),
        Verb("ping", NoArgs, EmptyResult, 10, audited="refused"),
    )
}


class BrokerRequest(Strict):
    """One request that the platform sends to the broker."""

    id: int = Field(ge=0)
    verb: str = Field(max_length=40)
    args: dict[str, Any] = Field(default_factory=dict)
