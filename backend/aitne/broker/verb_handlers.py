"""Implementation of the broker's verbs (kinds of requests), one method for each.

Their arguments are already parsed; the methods check and execute them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from pydantic import BaseModel

from aitne.adapters._pam import check_password
from aitne.adapters.path_facts import TimeoutExecutor
from aitne.adapters.user_folder_operations import create_area_folders
from aitne.broker.config import BrokerConfig
from aitne.broker.log_path_signature import LogSeal
from aitne.broker.per_user_helpers import Helpers
from aitne.broker.request_guard import Guard
from aitne.broker.shared_query import Generations, SharedQuery
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
from aitne.core.broker.protocol import (
    VERBS,
    AccountingArgs,
    AttachArgs,
    AttachResult,
    ChangedResult,
    CreateArgs,
    DrainArgs,
    EnergyResult,
    ExtendArgs,
    FenceResult,
    FindArgs,
    FindResult,
    ForecastResult,
    HoldLimitsArgs,
    JobLocationArgs,
    NotesResult,
    OutcomeResult,
    PollArgs,
    PollResult,
    ReadFileArgs,
    ReadFileResult,
    ReadLogArgs,
    ReadLogResult,
    ResumeArgs,
    RunArgs,
    SubmitArgs,
    SubmitResult,
    TaskArgs,
    ThrottleArgs,
    TidyResult,
    TopologyResult,
    UsageArgs,
    UsageResult,
)
from aitne.core.broker.storage_area_verbs import (
    AccountArgs,
    AreasArgs,
    AreasResult,
    MakeAreasResult,
    PathsArgs,
    PathsResult,
)
from aitne.core.broker.verb_base_models import Args, EmptyResult, NoArgs
from aitne.core.errors import NotAllowed, NotSupported, SchedulerRejected
from aitne.core.models.cluster import Cluster
from aitne.core.models.limits import LimitUsage
from aitne.core.models.stored_file import FileList, StoredFile
from aitne.core.ports.accounting import Accounting, Associations
from aitne.core.ports.attacher import Attacher, AttachTarget
from aitne.core.ports.job_files import FolderRemoval
from aitne.core.ports.outside_jobs import OutsideScheduler
from aitne.core.ports.scheduler import LimitHolder, Scheduler, SchedulerJob, TopologyReporter

_PASSWORDS_AT_ONCE = 4
"""Maximum number of concurrent password checks: a wrong password occupies a thread for some
seconds.
"""
_CHANGED_WITHIN_S = 2.0
"""Maximum number of seconds for which a request waits for a change, since the end of the broker
waits for all requests.
"""
_FRESH_S = 0.5
"""Seconds for which the answer of a query is reused for further requests of the same query."""

A = TypeVar("A", bound=BaseModel)


class Handlers:
    """Implementation of the broker's verbs: one method for each verb.

    A request is checked by ``guard``, then passed to the scheduler adapter or to the account's
    per-user helper.
    """

    def __init__(
        self,
        config: BrokerConfig,
        guard: Guard,
        scheduler: Scheduler,
        accounting: Accounting,
        helpers: Helpers,
        attacher: Attacher | None,
        outside: OutsideScheduler | None,
        seal: LogSeal,
    ) -> None:
        self._config = config
        self._guard = guard
        self._scheduler = scheduler
        self._accounting = accounting
        self._in_use: SharedQuery[LimitUsage] = SharedQuery(accounting.read_limit_usage, _FRESH_S)
        self._helpers = helpers
        self._attacher = attacher
        self._outside_jobs = outside
        self._seal = seal
        self._polled: SharedQuery[Sequence[SchedulerJob]] = SharedQuery(scheduler.poll, _FRESH_S)
        self._cluster: SharedQuery[Cluster] = SharedQuery(scheduler.read_cluster, _FRESH_S)
        self._generations = Generations()
        self._patience = TimeoutExecutor()
        # Separate threads: PAM may block one beyond the verb's timeout.
        self._passwords = ThreadPoolExecutor(_PASSWORDS_AT_ONCE, thread_name_prefix="pam")
        self.start_notes: Sequence[str] = ()

    async def handle(self, verb: str, args: Args) -> BaseModel:
        """Execute the verb with its arguments and return the result. Raises ``AitneError``."""
        answer: BaseModel = await getattr(self, verb)(args)
        return answer

    async def submit(self, args: SubmitArgs) -> SubmitResult:
        """Submit the job as its account, after checking the request."""
        await asyncio.to_thread(self._guard.check_request, args.request)
        with self._polled.invalidate_around():
            return SubmitResult(scheduler_id=await self._scheduler.submit(args.request))

    async def forecast(self, args: SubmitArgs) -> ForecastResult:
        """Return the scheduler's forecast for a job, with the checks of ``submit`` but without
        queueing it.
        """
        await asyncio.to_thread(self._guard.check_request, args.request)
        return ForecastResult(forecast=await self._scheduler.forecast(args.request))

    async def find(self, args: FindArgs) -> FindResult:
        """Return the scheduler's records of the attempts in ``args.runs``, as the operator account."""
        runs = [
            run if run.has_valid_id else run.model_copy(update={"scheduler_id": None})
            for run in args.runs
        ]
        jobs = list(await self._scheduler.find_records(runs))
        return FindResult(jobs=jobs, settle_s=self._scheduler.settle_s)

    async def poll(self, args: PollArgs) -> PollResult:
        """Return the scheduler's records that have changed since the caller's last poll, as the
        operator account; concurrent callers share one query.
        """
        self._generations.update(await self._polled.get())
        return self._generations.list_changes_since(args.since)

    async def changed(self, args: NoArgs) -> ChangedResult:
        """Wait up to ``_CHANGED_WITHIN_S`` seconds for a change that the scheduler reports. After a
        change, the next ``poll`` queries the scheduler again.
        """
        try:
            async with asyncio.timeout(_CHANGED_WITHIN_S):
                with self._polled.invalidate_around():
                    await self._scheduler.wait_for_change()
        except TimeoutError:
            return ChangedResult(changed=False)
        return ChangedResult(changed=True)

    async def cancel(self, args: RunArgs) -> EmptyResult:
        """Cancel the job, as its account."""
        await asyncio.to_thread(self._guard.check_account, args.run.account)
        if args.run.has_valid_id:
            with self._polled.invalidate_around():
                await self._scheduler.cancel(args.run)
        return EmptyResult()

    async def hold(self, args: RunArgs) -> EmptyResult:
        """Hold the job's pending tasks, as its account."""
        await self._check_run(args)
        with self._polled.invalidate_around():
            await self._scheduler.hold(args.run)
        return EmptyResult()

    async def release(self, args: RunArgs) -> EmptyResult:
        """Release the job's held tasks, as its account."""
        await self._check_run(args)
        with self._polled.invalidate_around():
            await self._scheduler.release(args.run)
        return EmptyResult()

    async def throttle(self, args: ThrottleArgs) -> EmptyResult:
        """Set the maximum number of an array's tasks that run at once, as the array's account."""
        await self._check_run(args)
        with self._polled.invalidate_around():
            await self._scheduler.throttle(args.run, args.max_parallel)
        return EmptyResult()

    async def _check_run(self, args: RunArgs) -> None:
        await asyncio.to_thread(self._guard.check_account, args.run.account)
        if not args.run.has_valid_id:
            raise SchedulerRejected("There is no job with this ID that could be changed.")

    async def attach(self, args: AttachArgs) -> AttachResult:
        """Start a program in the allocation of a running job, as the job's account.

        The scheduler's own record must confirm that the job belongs to the account.
        """
        user = await asyncio.to_thread(self._guard.check_job_folder, args.place)
        if self._attacher is None:
            raise NotSupported("This scheduler cannot start programs beside a running job.")
        if args.run.account != user.name or not args.has_valid_names:
            raise NotAllowed("The job, its files and the account do not belong together.")
        if (args.run.job_id, args.run.attempt) != (args.place.job_id, args.place.attempt):
            raise NotAllowed("The job and its files do not belong together.")
        target = AttachTarget(
            run=args.run, place=args.place, node=args.node, agent=tuple(args.agent)
        )
        return AttachResult.with_socket(await self._attacher.attach(target))

    async def extend(self, args: ExtendArgs) -> EmptyResult:
        """Set a new time limit of the job, at most the broker's ``max_duration``, as the operator
        account.
        """
        await self._check_run(args)
        self._guard.check_duration(args.time_limit_s)
        with self._polled.invalidate_around():
            await self._scheduler.extend(args.run, args.time_limit_s)
        return EmptyResult()

    async def hold_limits(self, args: HoldLimitsArgs) -> LimitUsage:
        """Pass the limits of projects and members to a scheduler that enforces them itself (the
        ``local`` one).
        """
        if not self._scheduler.capabilities.limits:
            raise NotSupported(f"The scheduler {self._scheduler.name} holds no limits itself.")
        return await cast(LimitHolder, self._scheduler).set_limits(args.limits)

    async def cluster(self, args: NoArgs) -> Cluster:
        """Return the cluster's nodes and partitions, as the operator account; concurrent callers
        share one query.
        """
        return await self._cluster.get()

    async def topology(self, args: NoArgs) -> TopologyResult:
        """Return the switches or blocks of the cluster, as the operator account."""
        if not self._scheduler.capabilities.topology:
            raise NotSupported(f"The scheduler {self._scheduler.name} knows no topology.")
        reporter = cast(TopologyReporter, self._scheduler)
        return TopologyResult(text=await reporter.read_topology())

    async def drain(self, args: DrainArgs) -> EmptyResult:
        """Set a node to drain, as an administrator of Slurm."""
        _check_node(args)
        with self._cluster.invalidate_around():
            await self._scheduler.drain(args.node, args.reason)
        return EmptyResult()

    async def resume(self, args: ResumeArgs) -> EmptyResult:
        """Return a node to service, as an administrator of Slurm."""
        _check_node(args)
        with self._cluster.invalidate_around():
            await self._scheduler.resume(args.node)
        return EmptyResult()

    async def create(self, args: CreateArgs) -> EmptyResult:
        """Create the files of a job under its account, in the per-user helper."""
        return await self._call_job_helper("create", args, EmptyResult)

    async def read_log(self, args: ReadLogArgs) -> ReadLogResult:
        """Read a part of a job's log under its account, in the per-user helper."""
        return await self._call_job_helper("read_log", args, ReadLogResult)

    async def read_file(self, args: ReadFileArgs) -> ReadFileResult:
        """Read a part of a file in a job's folder under its account, in the per-user helper."""
        return await self._call_job_helper("read_file", args, ReadFileResult)

    async def fence(self, args: TaskArgs) -> FenceResult:
        """Read the fence of an attempt (which names the run that executes it) under its account, in
        the per-user helper.
        """
        return await self._call_job_helper("fence", args, FenceResult)

    async def close_fence(self, args: TaskArgs) -> FenceResult:
        """Close the fence of an attempt, so that no run can start its program any more, under its
        account, in the per-user helper.
        """
        return await self._call_job_helper("close_fence", args, FenceResult)

    async def outcome(self, args: TaskArgs) -> OutcomeResult:
        """Read the recorded outcome of a program under its account, in the per-user helper."""
        return await self._call_job_helper("outcome", args, OutcomeResult)

    async def tidy(self, args: JobLocationArgs) -> TidyResult:
        """Remove the files that an ended job no longer needs and measure its folder, under its
        account, in the per-user helper.
        """
        return await self._call_job_helper("tidy", args, TidyResult)

    async def remove(self, args: JobLocationArgs) -> FolderRemoval:
        """Remove the folder of an ended job under its account, in the per-user helper."""
        return await self._call_job_helper("remove", args, FolderRemoval)

    async def outside_list(self, args: OutsideListArgs) -> OutsideResult:
        """List jobs that were not submitted through the platform, as the operator account. The
        paths of their logs get a seal, which proves that Slurm named them.
        """
        jobs = await self._outside_scheduler.list_jobs(frozenset(args.accounts))
        return OutsideResult.model_construct(jobs=[self._seal.seal_log(job) for job in jobs])

    async def outside_ended(self, args: OutsideEndedArgs) -> OutsideResult:
        """Return accounting's records of those jobs in ``args.runs`` that have ended, as the
        operator account. The jobs were not submitted through the platform.
        """
        return OutsideResult.model_construct(
            jobs=list(await self._outside_scheduler.find_ended_jobs(args.runs))
        )

    async def outside_act(self, args: OutsideActArgs) -> EmptyResult:
        """Cancel, hold or release a job that was not submitted through the platform, as its
        account.

        Slurm's own record must confirm that the job belongs to the account.
        """
        await asyncio.to_thread(self._guard.check_account, args.run.account)
        await self._outside_scheduler.perform_action(args.run, args.action)
        return EmptyResult()

    async def outside_log(self, args: OutsideLogArgs) -> ReadLogResult:
        """Read a part of the log of a job that was not submitted through the platform, under its
        account, in the per-user helper.

        The log's path must have a valid seal, which proves that Slurm named it.
        """
        self._seal.check_seal(args.log)
        user = await asyncio.to_thread(self._guard.check_account, args.log.account)
        path = await self._outside_scheduler.find_log_path(args.log)
        if path is None:
            return ReadLogResult(data=b"", offset=0, size=0)
        log = args.log.model_copy(update={"path": path})
        read = args.model_copy(update={"log": log})
        return await self._helpers.read_outside_log(
            user, "outside_log", read.model_dump(mode="json")
        )

    @property
    def _outside_scheduler(self) -> OutsideScheduler:
        if self._outside_jobs is None:
            raise NotSupported("This scheduler reports no jobs that were submitted past it.")
        return self._outside_jobs

    async def areas(self, args: AreasArgs) -> AreasResult:
        """Query storage areas under the account, in a second per-user helper.

        So a scratch file system that hangs does not block access to the files of jobs.
        """
        return await self._call_storage_helper("areas", args, AreasResult)

    async def paths(self, args: PathsArgs) -> PathsResult:
        """Query type, size and other facts of paths under the account, in the same helper as
        ``areas``.
        """
        return await self._call_storage_helper("paths", args, PathsResult)

    async def look_at_file(self, args: FileArgs) -> StoredFile:
        """Return an entry of a folder under the account, in a third per-user helper."""
        return await self._call_file_helper("look_at_file", args, StoredFile)

    async def list_folder(self, args: ListFolderArgs) -> FileList:
        """List a folder under the account, in the same helper as ``look_at_file``."""
        return await self._call_file_helper("list_folder", args, FileList)

    async def read_part(self, args: ReadPartArgs) -> ReadPartResult:
        """Read a part of a file under the account, in the same helper as ``look_at_file``."""
        return await self._call_file_helper("read_part", args, ReadPartResult)

    async def make_areas(self, args: AreasArgs) -> MakeAreasResult:
        """Create the folders of storage areas as root, but only those that the broker's own
        settings define for the account.
        """
        user = await asyncio.to_thread(self._guard.check_account, args.account)
        problems = await asyncio.to_thread(
            create_area_folders, self._patience, self._config.storage, user, tuple(args.areas)
        )
        return MakeAreasResult(problems=problems)

    async def accounting_read(self, args: NoArgs) -> Associations:
        """Read the scheduler's accounts, their members and limits (associations), as the operator
        account.
        """
        return await self._accounting.read_associations()

    async def accounting_apply(self, args: AccountingArgs) -> EmptyResult:
        """Apply changes to accounting as the operator account.

        Only accounts and users under which jobs may run can be changed.
        """
        for change in args.changes:
            await asyncio.to_thread(self._guard.check_accounting_change, change)
        await self._accounting.apply_changes(args.changes)
        return EmptyResult()

    async def accounting_usage(self, args: UsageArgs) -> UsageResult:
        """Read the usage by project and user between two times, as the operator account."""
        return UsageResult(rows=list(await self._accounting.read_usage(args.start, args.end)))

    async def accounting_energy(self, args: UsageArgs) -> EnergyResult:
        """Read the energy of the jobs that ended between two times, as the operator account."""
        return EnergyResult(rows=list(await self._accounting.read_energy(args.start, args.end)))

    async def accounting_in_use(self, args: NoArgs) -> LimitUsage:
        """Return the limits with their current usage, as the operator account; concurrent callers
        share one query.
        """
        return await self._in_use.get()

    async def check_password(self, args: CheckPasswordArgs) -> CheckPasswordResult:
        """Check a password through PAM as root. The name of the PAM service comes from the broker's
        own settings.
        """
        service = self._config.pam_service
        if service is None:
            raise NotSupported(
                "The broker checks no passwords: its broker.toml names no pam_service."
            )
        user = await asyncio.to_thread(self._guard.check_account, args.account)
        right = await asyncio.get_running_loop().run_in_executor(
            self._passwords, check_password, user.name, args.password, service
        )
        return CheckPasswordResult(right=right)

    async def notes(self, args: NoArgs) -> NotesResult:
        """Return the notes for administrators that the scheduler adapter reported at its start.

        One of them names the account that queries Slurm.
        """
        return NotesResult(notes=list(self.start_notes))

    async def ping(self, args: NoArgs) -> EmptyResult:
        """Return an empty result, which shows that the broker is running."""
        return EmptyResult()

    async def _call_storage_helper(self, verb: str, args: AccountArgs, answer: type[A]) -> A:
        user = await asyncio.to_thread(self._guard.check_account, args.account)
        return await self._helpers.call_for_storage(
            user, verb, args.model_dump(mode="json"), answer
        )

    async def _call_file_helper(self, verb: str, args: FileArgs, answer: type[A]) -> A:
        user = await asyncio.to_thread(self._guard.check_account, args.root.account)
        return await self._helpers.call_for_files(user, verb, args.model_dump(mode="json"), answer)

    async def _call_job_helper(self, verb: str, args: JobLocationArgs, answer: type[A]) -> A:
        return await self._helpers.call(verb, args.model_dump(mode="json"), answer)


def _check_node(args: ResumeArgs) -> None:
    if not args.has_valid_name:
        raise SchedulerRejected(f"The cluster has no node {args.node}.")


def check_handlers() -> None:
    """Check that every verb has a method. Raises ``TypeError`` otherwise."""
    missing = [name for name in VERBS if not callable(getattr(Handlers, name, None))]
    if missing:
        raise TypeError(f"no handler for {', '.join(missing)}")
