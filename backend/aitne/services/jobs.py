"""Jobs: the one way in, and everything that can be asked of one that exists."""

from __future__ import annotations

import asyncio
import builtins
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from aitne.core.capacity import Fit
from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobFile, JobFilter, JobSpec, JobType, Plan, Sample
from aitne.core.models.user import Actor
from aitne.core.policy import Action, decide, require
from aitne.core.ports.accounts import Accounts
from aitne.core.ports.files import JobFiles, LogChunk
from aitne.core.ports.store import Created, Idempotency, Page, Store
from aitne.core.settings import Settings
from aitne.core.states import JobState
from aitne.core.units import parse_array
from aitne.services.cluster import ClusterService
from aitne.services.follow import LogFollower
from aitne.services.forecast import Forecaster
from aitne.services.limits import LimitCheck
from aitne.services.render import Renderer
from aitne.services.resolve import Problems, Wish, check_cluster, check_platform_limits, resolve
from aitne.services.templates import TemplateCatalog

NO_ID = UUID(int=0)
"""Stands in a plan's script where the job's id will be."""
MAX_LOG_READ = 8 << 20


class JobService:
    """Use cases of jobs and sessions alike. Each asks the policy first."""

    def __init__(
        self,
        store: Store,
        templates: TemplateCatalog,
        renderer: Renderer,
        settings: Settings,
        files: JobFiles,
        accounts: Accounts,
        cluster: ClusterService,
        forecaster: Forecaster,
        limits: LimitCheck,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._templates = templates
        self._renderer = renderer
        self._settings = settings
        self._clock = clock
        self._accounts = accounts
        self._cluster = cluster
        self._forecaster = forecaster
        self._limits = limits
        self._follower = LogFollower(store, files, renderer.place)

    async def plan(self, actor: Actor, file: JobFile) -> Plan:
        """What ``create`` would submit, and whether it would start now. Stores nothing.

        Raises:
            InvalidInput: ``create`` would refuse the file for the same reason.
            NotAllowed: the credential may not read.
        """
        spec, fitting = await self._resolve(actor, file, Action.PROJECT_READ)
        waiting = [job for job in await self._after(actor, spec.after) if not job.state.terminal]
        draft = await self._job(NO_ID, actor, spec)
        by_limits = await self._within_limits(draft)
        forecast = await self._forecaster.ask(
            draft, [job.scheduler_id for job in waiting if job.scheduler_id is not None]
        )
        in_turn = forecast.later(self._clock())
        waits_for = by_limits or fitting.reason or in_turn
        if waiting:
            which = "one other job" if len(waiting) == 1 else f"{len(waiting)} other jobs"
            waits_for = f"Waits for {which} to complete."
        return Plan(
            spec=spec,
            fits=fitting.fits,
            starts_now=fitting.starts_now and waits_for is None,
            waits_for=waits_for,
            warnings=(*_warnings(spec), *forecast.warnings),
            expected_start_at=forecast.starts_at,
            script=self._renderer.script(draft),
        )

    async def create(
        self, actor: Actor, file: JobFile, *, idempotency_key: str | None = None
    ) -> Created:
        """Store the job for the controller to submit. On any error nothing is stored.

        Raises:
            InvalidInput: a field is wrong; all wrong fields are named. Or the user has no account
                that jobs may run as.
            NotAllowed: the credential may not create jobs.
            Conflict: the user has as many live jobs as allowed.
            IdempotencyConflict: the key was used with another file.
        """
        idempotency = _idempotency(actor, idempotency_key, "create", file.model_dump(mode="json"))
        if (known := await self._replay(actor, idempotency)) is not None:
            return known
        spec, _ = await self._resolve(actor, file, Action.JOB_CREATE)
        await self._after(actor, spec.after)
        return await self._store_new(actor, spec, idempotency)

    async def get(self, actor: Actor, job_id: UUID) -> Job:
        """Raises ``NotFound``, also for a job that the actor may not know of; ``NotAllowed``."""
        return await self._allowed(Action.JOB_READ, actor, job_id)

    async def list(
        self, actor: Actor, where: JobFilter, *, cursor: str | None, limit: int
    ) -> Page[Job]:
        """The jobs that the actor may see and that match, newest first.

        Raises:
            InvalidInput: the cursor is not one of ours.
            NotAllowed: the credential may not read.
        """
        _check_scope(Action.JOB_READ, actor)
        return await self._store.list_jobs(
            where, visible_to=None if actor.is_admin else actor.name, cursor=cursor, limit=limit
        )

    async def cancel(self, actor: Actor, job_id: UUID) -> Job:
        """Wish the job's end; one that has ended is returned as it is.

        Raises ``NotFound`` and ``NotAllowed``."""
        job = await self._allowed(Action.JOB_CANCEL, actor, job_id)
        verb = "Stopped" if job.type is JobType.SESSION else "Cancelled"
        return await self._store.request_cancel(job_id, self._clock(), f"{verb} by {actor.name}.")

    async def resubmit(
        self, actor: Actor, job_id: UUID, *, idempotency_key: str | None = None
    ) -> Created:
        """Run the same again as a new job; of an array's task, that task alone.

        Raises as ``create``, and ``NotFound``.
        """
        old = await self._allowed(Action.JOB_RESUBMIT, actor, job_id)
        idempotency = _idempotency(actor, idempotency_key, "resubmit", str(job_id))
        if (known := await self._replay(actor, idempotency)) is not None:
            return known
        project = await self._project(actor, old.project, Action.JOB_CREATE)
        array = old.spec.array if old.array_task_id is None else str(old.array_task_id)
        spec = old.spec.model_copy(update={"project": project, "array": array})
        problems = Problems()
        images = self._renderer.images()
        if spec.image not in images:
            problems.add("image", "this image is gone", spec.image, ", ".join(sorted(images)))
        check_platform_limits(spec, self._settings.limits, problems)
        check_cluster(Wish.of(spec), (await self._cluster.look()).cluster, self._settings, problems)
        problems.check()
        await self._after(actor, spec.after)
        return await self._store_new(actor, spec, idempotency)

    async def script(self, actor: Actor, job_id: UUID) -> str:
        """The batch script of the job's present attempt. Raises ``NotFound``."""
        return self._renderer.script(await self._allowed(Action.JOB_READ, actor, job_id))

    async def samples(self, actor: Actor, job_id: UUID) -> Sequence[Sample]:
        """What the job's processes used, oldest first. Raises ``NotFound``."""
        await self._allowed(Action.JOB_READ, actor, job_id)
        return await self._store.samples(job_id)

    async def events(self, actor: Actor, job_id: UUID) -> Sequence[Event]:
        """The job's history, oldest first. Raises ``NotFound``."""
        await self._allowed(Action.JOB_READ, actor, job_id)
        return await self._store.job_events(job_id)

    async def read_log(
        self, actor: Actor, job_id: UUID, *, task: int | None, offset: int, limit: int
    ) -> LogChunk:
        """A piece of the log; a negative ``offset`` counts from the end.

        Raises ``NotFound``; ``InvalidInput`` for an array without a task; ``Unavailable``."""
        job = await self._logged(actor, job_id, task)
        most = max(0, min(limit, MAX_LOG_READ))
        return await self._follower.read(job, offset, most)

    async def follow_log(
        self, actor: Actor, job_id: UUID, *, task: int | None, offset: int
    ) -> AsyncGenerator[bytes, None]:
        """The log as it grows, until the job has ended and all of it was given.

        Raises as ``read_log``, at the first step."""
        job = await self._logged(actor, job_id, task)
        async with aclosing(self._follower.follow(job, offset)) as pieces:
            async for piece in pieces:
                yield piece

    def actions(self, actor: Actor, job: Job) -> builtins.list[str]:
        """What the actor may do with the job now: some of open, extend, stop, cancel, resubmit."""
        live = not job.state.terminal and job.cancel_requested_at is None
        session = job.type is JobType.SESSION
        running = live and job.state.active and job.expires_at is not None
        possible = {
            "open": (live and job.state is JobState.READY and job.url is not None, Action.JOB_OPEN),
            "extend": (session and running, Action.JOB_EXTEND),
            "stop": (session and live, Action.JOB_CANCEL),
            "cancel": (not session and live, Action.JOB_CANCEL),
            "resubmit": (job.state.terminal, Action.JOB_RESUBMIT),
        }
        return [
            name
            for name, (now, action) in possible.items()
            if now and decide(action, actor, owner=job.owner, project=job.project).allowed
        ]

    async def _allowed(self, action: Action, actor: Actor, job_id: UUID) -> Job:
        job = await self._store.get_job(job_id)
        require(action, actor, "job", job_id, owner=job.owner, project=job.project)
        return job

    async def _logged(self, actor: Actor, job_id: UUID, task: int | None) -> Job:
        """The row whose log is meant: the job's own, or that of one task of an array."""
        job = await self._allowed(Action.JOB_READ, actor, job_id)
        if job.array_task_id is not None or not job.is_array:
            if task is not None and task != job.array_task_id:
                raise InvalidInput.field("task", "this job has no such task", value=task)
            return job
        for row in await self._store.array_tasks(job_id) if task is not None else ():
            if row.array_task_id == task:
                return row
        raise InvalidInput.field(
            "task",
            "say which task's log" if task is None else "this array has no such task",
            value=task,
            allowed=job.spec.array,
        )

    async def _resolve(self, actor: Actor, file: JobFile, action: Action) -> tuple[JobSpec, Fit]:
        project = await self._project(actor, file.project, action)
        return resolve(
            file,
            project=project,
            templates=self._templates,
            images=self._renderer.images(),
            settings=self._settings,
            cluster=(await self._cluster.look()).cluster,
        )

    async def _project(self, actor: Actor, name: str | None, action: Action) -> str:
        project = name or actor.user.default_project
        decision = decide(action, actor, project=project)
        known = actor.projects
        if decision.visible and project not in known:
            known |= {each.name for each in await self._store.list_projects(visible_to=None)}
        if project not in known or not decision.visible:
            raise InvalidInput.field(
                "project",
                f"there is no project {project} that you are a member of",
                value=project,
                allowed=", ".join(sorted(known)) or "none: ask an administrator to add you to one",
            )
        if not decision.allowed:
            raise NotAllowed(decision.reason)
        return project

    async def _after(self, actor: Actor, after: Sequence[UUID]) -> Sequence[Job]:
        """The jobs to wait for. Raises ``InvalidInput`` if one is unknown or ended badly."""
        problems = Problems()
        found = []
        for job_id in after:
            try:
                job = await self._allowed(Action.JOB_READ, actor, job_id)
            except NotFound:
                problems.add("after", f"there is no job {job_id}", job_id, "jobs that you may see")
                continue
            if job.state.terminal and job.state is not JobState.COMPLETED:
                problems.add(
                    "after",
                    f"job {job_id} ended {job.state}, so this one would never start",
                    job_id,
                    "jobs that have completed or still may",
                )
            found.append(job)
        problems.check()
        return found

    async def _replay(self, actor: Actor, idempotency: Idempotency | None) -> Created | None:
        _check_scope(Action.JOB_CREATE, actor)
        if idempotency is None:
            return None
        job = await self._store.find_replay(idempotency)
        return None if job is None else Created(job=job, replayed=True)

    async def _store_new(
        self, actor: Actor, spec: JobSpec, idempotency: Idempotency | None
    ) -> Created:
        job = await self._job(uuid4(), actor, spec)
        tasks = [
            job.model_copy(update={"id": uuid4(), "array_job_id": job.id, "array_task_id": index})
            for index in (parse_array(spec.array).indices if spec.array else ())
        ]
        await self._check_live(actor, 1 + len(tasks))
        await self._within_limits(job)
        return await self._store.create_job(job, tasks, idempotency=idempotency)

    async def _within_limits(self, job: Job) -> str | None:
        """Why the job would wait for a limit of its project or QOS.

        Raises ``InvalidInput`` if it could never run within them."""
        verdict = await self._limits.check(job.spec, job.account)
        problems = Problems()
        problems.extend(verdict.problems)
        problems.check()
        return verdict.waits_for

    async def _check_live(self, actor: Actor, new: int) -> None:
        most = self._settings.limits.max_live_jobs
        live = await self._store.count_live(actor.name)
        if live + new > most:
            raise Conflict(
                f"You have {live} jobs and tasks that wait or run, and this would add {new}; "
                f"the most is {most}. Wait for some to end, or cancel some."
            )

    async def _job(self, job_id: UUID, actor: Actor, spec: JobSpec) -> Job:
        # A directory service that takes its time must not hold up everybody else.
        account = await asyncio.to_thread(self._accounts.of, actor.name)
        return Job(
            id=job_id,
            cluster=self._settings.cluster,
            owner=actor.name,
            account=account.name,
            folder=f"{account.folder}/{job_id}",
            project=spec.project,
            type=spec.type,
            name=spec.name,
            spec=spec,
            state=JobState.PENDING_SUBMIT,
            message="Waits to be handed to the scheduler.",
            created_at=self._clock(),
        )


def _check_scope(action: Action, actor: Actor) -> None:
    """Whether the credential permits the action at all, for an object of one's own."""
    decision = decide(action, actor, owner=actor.name, project=actor.user.default_project)
    if not decision.allowed and decision.visible:
        raise NotAllowed(decision.reason)


def _idempotency(actor: Actor, key: str | None, verb: str, body: Any) -> Idempotency | None:
    if key is None:
        return None
    text = json.dumps([verb, body], sort_keys=True, separators=(",", ":"))
    request_hash = hashlib.sha256(text.encode()).hexdigest()
    return Idempotency(owner=actor.name, key=key, request_hash=request_hash)


def _warnings(spec: JobSpec) -> tuple[str, ...]:
    found = []
    if spec.resources.nodes > 1:
        found.append(
            f"The commands run on the first of the {spec.resources.nodes} nodes; "
            "they have to start the others' programs themselves."
        )
    return tuple(found)
