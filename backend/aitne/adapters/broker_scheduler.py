"""Clients of the broker: a scheduler and the files of jobs, both through one UNIX socket."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel

from aitne.adapters._broker_connection import (
    BrokerConnection,
    BrokerRequestNotSent,
    BrokerResponseLost,
)
from aitne.core.broker.protocol import (
    VERBS,
    ChangedResult,
    FenceResult,
    FindResult,
    ForecastResult,
    NotesResult,
    OutcomeResult,
    PollResult,
    ReadFileResult,
    ReadLogResult,
    SubmitResult,
    TidyResult,
    TopologyResult,
)
from aitne.core.broker.protocol_versions import Welcome
from aitne.core.broker.verb_base_models import EmptyResult
from aitne.core.errors import (
    InvalidInput,
    NotAllowed,
    SchedulerRejected,
    SchedulerUnavailable,
    SetupError,
    Unavailable,
)
from aitne.core.models.cluster import Cluster
from aitne.core.models.limits import HeldLimits, LimitUsage
from aitne.core.ports.job_files import (
    Fence,
    FolderRemoval,
    FolderSize,
    JobLocation,
    LogChunk,
    ProgramOutcome,
)
from aitne.core.ports.scheduler import (
    Forecast,
    Run,
    SchedulerCapabilities,
    SchedulerJob,
    SubmitRequest,
)
from aitne.core.settings import Settings

_GRACE_S = 5.0
"""Seconds added to the timeout that the broker itself applies, so that its timeout error arrives
before the client gives up.
"""
_START_TIMEOUT_S = 20.0

A = TypeVar("A", bound=BaseModel)
_Key = tuple[UUID, int, int | None, str]


class VerbCaller(Protocol):
    """Interface of an object that executes the broker's verbs, either by requests to the broker
    process or directly in the calling process.
    """

    async def call(self, verb: str, args: dict[str, Any], answer: type[A]) -> A:
        """Execute ``verb`` with ``args`` and return its result, of the type ``answer``. Raises the
        errors that the corresponding method of the port raises.
        """
        ...


class BrokerClient:
    """Client of the broker. It has two connections, so that verbs (the broker's kinds of requests)
    with long responses do not delay the others.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.broker.socket is None:
            raise SetupError("There is no broker: broker.socket is not set.")
        self._socket: Path = settings.broker.socket
        self._lines = {bulk: BrokerConnection(self._socket) for bulk in (False, True)}

    async def call(self, verb: str, args: dict[str, Any], answer: type[A]) -> A:
        """Send a request to the broker and return its result, of the type ``answer``.

        Raises:
            Unavailable: the request or its response was lost; the subclass depends on the verb.
            AitneError: the error that the broker returned.
        """
        entry = VERBS[verb]
        not_done = Unavailable if entry.lost is Unavailable else SchedulerUnavailable
        try:
            response = await self._lines[entry.bulk].send_request(
                verb, args, entry.timeout_s + _GRACE_S
            )
        except BrokerRequestNotSent as error:
            raise not_done(self._format_no_answer(error)) from error
        except BrokerResponseLost as error:
            raise entry.lost(self._format_no_answer(error)) from error
        return answer.model_validate(response)

    async def read_welcome(self) -> Welcome:
        """Return what the broker reports about itself. Raises ``SchedulerUnavailable`` if the
        broker does not answer.
        """
        try:
            return await self._lines[False].read_welcome()
        except BrokerRequestNotSent as error:
            raise SchedulerUnavailable(self._format_no_answer(error)) from error

    async def close(self) -> None:
        """Close all connections to the broker."""
        for line in self._lines.values():
            await line.close()

    def _format_no_answer(self, error: Exception) -> str:
        return (
            f"The broker at {self._socket} does not answer: {error}. No failure is known; "
            "check `systemctl status aitne-broker` if this persists."
        )


class BrokerScheduler:
    """Implementation of ``core.ports.scheduler.Scheduler`` that sends every call to the broker,
    which runs the real scheduler adapter.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.scheduler
        self.settle_s = 60.0
        self._client = BrokerClient(settings)
        self._polling = asyncio.Lock()
        self._generation: str | None = None
        self._records: dict[int, SchedulerJob] = {}

    @cached_property
    def capabilities(self) -> SchedulerCapabilities:
        """Return the capabilities of the scheduler behind the broker."""
        return self.settings.capabilities

    async def start(self) -> Sequence[str]:
        """Wait for the broker and check that it has the configured scheduler.

        Raises:
            SetupError: the broker does not answer in time, or has another scheduler.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + _START_TIMEOUT_S
        while True:
            try:
                welcome = await self._client.read_welcome()
                notes = await self._client.call("notes", {}, NotesResult)
                break
            except Unavailable as error:
                if loop.time() > until:
                    raise SetupError(error.message) from error
            await asyncio.sleep(0.2)
        if welcome.scheduler != self.name:
            raise SetupError(
                f"The settings have scheduler = {self.name!r}, but the broker has "
                f"{welcome.scheduler!r}. Set both to the same value."
            )
        self.settle_s = welcome.settle_s
        return notes.notes

    async def close(self) -> None:
        """Close the connections; jobs and the broker continue."""
        await self._client.close()

    async def submit(self, request: SubmitRequest) -> str:
        """Submit the job as its account.

        Raises:
            SchedulerRejected: Slurm or the broker will never accept the job in this form.
            SubmitUncertain: the job may or may not have been queued; ``find_records`` determines which.
            SchedulerUnavailable: the job has not been queued.
        """
        with convert_refusals_to_rejections():
            answer = await self._client.call("submit", _to_submit_arguments(request), SubmitResult)
        return answer.scheduler_id

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Return the scheduler's forecast for ``request`` without submitting it; None if Slurm
        cannot give one.

        Raises:
            SchedulerRejected: a submission would be rejected.
        """
        with convert_refusals_to_rejections():
            return (
                await self._client.call("forecast", _to_submit_arguments(request), ForecastResult)
            ).forecast

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of these attempts in the scheduler's queue and in its accounting."""
        args = {"runs": [run.model_dump(mode="json") for run in runs]}
        answer = await self._client.call("find", args, FindResult)
        self.settle_s = answer.settle_s
        return answer.jobs

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the records of all jobs. The broker sends only changed records; for unchanged ones
        the same objects as before are returned.
        """
        async with self._polling:
            answer = await self._client.call("poll", {"since": self._generation}, PollResult)
            if answer.full:
                previous = {_make_record_key(record): record for record in self._records.values()}
                self._records = {
                    number: old
                    if (old := previous.get(_make_record_key(new))) == new and old is not None
                    else new
                    for number, new in answer.new
                }
            else:
                for number in answer.gone:
                    self._records.pop(number, None)
                self._records.update(answer.new)
            self._generation = answer.generation
            return tuple(self._records.values())

    async def cancel(self, run: Run) -> None:
        """Cancel the job in Slurm, as the job's account."""
        await self._client.call("cancel", {"run": run.model_dump(mode="json")}, EmptyResult)

    async def hold(self, run: Run) -> None:
        """Hold the job's pending tasks in the scheduler, as the job's account.

        Raises:
            SchedulerRejected: no task is pending, or Slurm does not permit it.
        """
        with convert_refusals_to_rejections():
            await self._client.call("hold", {"run": run.model_dump(mode="json")}, EmptyResult)

    async def release(self, run: Run) -> None:
        """Release the job's held tasks in the scheduler, as the job's account.

        Raises:
            SchedulerRejected: no task is pending, or Slurm does not permit it.
        """
        with convert_refusals_to_rejections():
            await self._client.call("release", {"run": run.model_dump(mode="json")}, EmptyResult)

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Set how many tasks of the array may run at once, as the job's account; None: no maximum.

        Raises:
            SchedulerRejected: no task is pending, or Slurm does not permit it.
        """
        args = {"run": run.model_dump(mode="json"), "max_parallel": max_parallel}
        with convert_refusals_to_rejections():
            await self._client.call("throttle", args, EmptyResult)

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set a new time limit in seconds, counted from the job's start.

        Raises:
            SchedulerRejected: the job is not running, or the limit is not allowed.
        """
        args = {"run": run.model_dump(mode="json"), "time_limit_s": time_limit_s}
        with convert_refusals_to_rejections():
            await self._client.call("extend", args, EmptyResult)

    async def set_limits(self, limits: HeldLimits) -> LimitUsage:
        """Pass limits of projects and members to a scheduler that enforces them itself; return them
        with their current usage.

        Raises:
            NotSupported: the scheduler behind the broker does not enforce limits itself.
        """
        args = {"limits": limits.model_dump(mode="json")}
        return await self._client.call("hold_limits", args, LimitUsage)

    async def read_cluster(self) -> Cluster:
        """Return the cluster's nodes and partitions, and the names (such as QOS) that a job may
        specify.
        """
        return await self._client.call("cluster", {}, Cluster)

    async def read_topology(self) -> str:
        """Return the switches or blocks of the cluster as the scheduler prints them.

        Raises:
            NotSupported: the broker is of an older release, or its scheduler has no topology.
        """
        return (await self._client.call("topology", {}, TopologyResult)).text

    async def drain(self, node: str, reason: str) -> None:
        """Set the node to drain, so that no new jobs start on it.

        Raises:
            NotSupported: the scheduler cannot drain nodes.
            SchedulerRejected: the node does not exist, or Slurm does not permit it.
        """
        with convert_refusals_to_rejections():
            await self._client.call("drain", {"node": node, "reason": reason}, EmptyResult)

    async def resume(self, node: str) -> None:
        """Return a drained node to service.

        Raises:
            NotSupported: the scheduler cannot drain nodes.
            SchedulerRejected: the node does not exist or is not drained, or Slurm does not permit
                it.
        """
        with convert_refusals_to_rejections():
            await self._client.call("resume", {"node": node}, EmptyResult)

    async def wait_for_change(self) -> None:
        """Wait until the scheduler reports that a job has changed. Only the ``local`` scheduler
        reports changes; with Slurm the call never returns.
        """
        if self.capabilities.remote:
            await asyncio.Event().wait()
        while not (await self._client.call("changed", {}, ChangedResult)).changed:
            continue


class FilesByVerb:
    """Implementation of ``core.ports.job_files.JobFiles`` that executes each method as a verb of the
    broker.

    Depending on the ``VerbCaller``, the verbs are sent to the broker process or executed in the
    calling process.
    """

    def __init__(self, caller: VerbCaller) -> None:
        self._caller = caller

    async def create_attempt_folder(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
        """Create the attempt's folder and write ``files`` into it, synchronized to disk."""
        await self._caller.call(
            "create",
            {"place": _to_location_arguments(place), "files": _encode_files(files)},
            EmptyResult,
        )

    async def read_log(
        self, place: JobLocation, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Return up to ``limit`` bytes of the log from byte ``offset`` on; a negative ``offset``
        counts from the end of the log.
        """
        args = {
            "place": _to_location_arguments(place),
            "task": task,
            "offset": offset,
            "limit": limit,
        }
        read = await self._caller.call("read_log", args, ReadLogResult)
        return LogChunk(data=read.data, offset=read.offset, size=read.size)

    async def read_file(
        self, place: JobLocation, name: str, *, offset: int, limit: int
    ) -> LogChunk | None:
        """Return up to ``limit`` bytes, from byte ``offset`` on, of the file ``name`` in the
        attempt's folder; None if there is no such file.
        """
        args = {
            "place": _to_location_arguments(place),
            "name": name,
            "offset": offset,
            "limit": limit,
        }
        part = (await self._caller.call("read_file", args, ReadFileResult)).part
        if part is None:
            return None
        return LogChunk(data=part.data, offset=part.offset, size=part.size)

    async def read_fence(self, place: JobLocation, task: int | None) -> Fence | None:
        """Return the attempt's fence, the file that names the scheduler's run that executes the
        attempt; None if no run has created it.
        """
        args = {"place": _to_location_arguments(place), "task": task}
        return (await self._caller.call("fence", args, FenceResult)).fence

    async def close_fence(self, place: JobLocation, task: int | None) -> Fence:
        """Create the attempt's fence with the owner ``CLOSED``, so that no run can start the
        program any more. Return the existing fence if a run has created it already.
        """
        args = {"place": _to_location_arguments(place), "task": task}
        fence = (await self._caller.call("close_fence", args, FenceResult)).fence
        if fence is None:
            raise Unavailable("The broker did not return the fence's owner.")
        return fence

    async def read_outcome(self, place: JobLocation, task: int | None) -> ProgramOutcome | None:
        """Return how the program ended; None if the agent has recorded no end."""
        args = {"place": _to_location_arguments(place), "task": task}
        return (await self._caller.call("outcome", args, OutcomeResult)).outcome

    async def remove_unneeded_files(self, place: JobLocation) -> FolderSize | None:
        """Remove the files that only a running job needs (script, specification, outcome); return
        the size of the job folder, or None if it has too many files to be measured.
        """
        return (
            await self._caller.call("tidy", {"place": _to_location_arguments(place)}, TidyResult)
        ).size

    async def remove_job_folder(self, place: JobLocation) -> FolderRemoval:
        """Remove the job folder. Each call takes a few seconds at most; it must be repeated until
        the result is ``done``.
        """
        return await self._caller.call(
            "remove", {"place": _to_location_arguments(place)}, FolderRemoval
        )


class BrokerFiles(FilesByVerb):
    """Implementation of ``core.ports.job_files.JobFiles`` through the broker, which acts as the job's
    account.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)
        super().__init__(self._client)

    async def close(self) -> None:
        """Close the broker connection."""
        await self._client.close()


@contextmanager
def convert_refusals_to_rejections() -> Iterator[None]:
    """Convert ``NotAllowed`` and ``InvalidInput`` of the broker in the ``with`` block to
    ``SchedulerRejected``, which is also raised for a rejection by Slurm.
    """
    try:
        yield
    except NotAllowed as error:
        raise SchedulerRejected(error.message, "account") from error
    except InvalidInput as error:
        field = error.problems[0].field if error.problems else None
        raise SchedulerRejected(error.message, field) from error


def _make_record_key(record: SchedulerJob) -> _Key:
    return record.job_id, record.attempt, record.array_task_id, record.scheduler_id


def _to_submit_arguments(request: SubmitRequest) -> dict[str, Any]:
    facts = request.model_dump(mode="json", exclude={"files"})
    return {"request": facts | {"files": _encode_files(request.files)}}


def _to_location_arguments(place: JobLocation) -> dict[str, Any]:
    if place.account is None:
        raise NotAllowed(
            f"Job {place.job_id} has no Unix account: it was created when the platform had no "
            "broker, and the broker acts only for accounts."
        )
    return place.model_dump(mode="json")


def _encode_files(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(data).decode() for name, data in files.items()}
