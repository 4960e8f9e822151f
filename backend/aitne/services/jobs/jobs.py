"""Jobs: their creation and all operations on existing ones."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any
from uuid import UUID

from aitne.core.cluster import gpu_forecast
from aitne.core.errors import AitneError, Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.jobs.env_visibility import hide_env_values
from aitne.core.jobs.states import WAITING, JobState
from aitne.core.models.collective_profile import Profile
from aitne.core.models.event import Event
from aitne.core.models.job import (
    Job,
    JobFilter,
    JobType,
    Plan,
    RankGroupSpec,
    ResubmitOptions,
)
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSort
from aitne.core.models.placement import PlacementPlan
from aitne.core.models.usage_sample import Sample
from aitne.core.models.user import Actor
from aitne.core.ports.job_files import JobFiles, LogChunk
from aitne.core.ports.outside_jobs import OutsideJobs
from aitne.core.sweeps import expand_sweep
from aitne.core.users.permissions import PolicyAction, decide_access, require_permission
from aitne.services.jobs.admission import Admission, AdmittedJob
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.jobs.log_follower import LogFollower
from aitne.services.jobs.outside_job_checks import check_log_access, check_not_outside
from aitne.services.jobs.placement_checks import plan_placement
from aitne.services.jobs.start_forecast import Forecaster, StartForecast
from aitne.services.platform.maintenance import find_hold_reason, find_overlap_warning
from aitne.services.users.session_token_scope import restrict_to_own_jobs
from aitne.store import Store
from aitne.store.new_jobs import CreatedJob, Idempotency, NewJob
from aitne.store.paging import Page

MAX_LOG_READ = 8 << 20


class JobService:
    """Service for jobs and sessions: users create, read, list, cancel and resubmit them. Each
    method first checks that the actor is permitted.
    """

    def __init__(
        self,
        store: Store,
        admission: Admission,
        renderer: Renderer,
        files: JobFiles,
        forecaster: Forecaster,
        clock: Callable[[], datetime],
        outside: OutsideJobs | None = None,
    ) -> None:
        self._store = store
        self._admission = admission
        self._renderer = renderer
        self._forecaster = forecaster
        self._clock = clock
        self._follower = LogFollower(store, files, renderer.get_location, outside)

    async def plan(
        self, actor: Actor, file: JobFile, *, rank_group: RankGroupSpec | None = None
    ) -> Plan:
        """Return the plan of the job that ``create`` would submit, and whether it would start now.
        Nothing is stored.

        Raises:
            InvalidInput: ``create`` would refuse the job file for the same reason.
            NotAllowed: the token does not permit reading.
        """
        admitted = await self._admission.admit(actor, file, PolicyAction.PROJECT_READ, rank_group)
        spec, fitting = admitted.spec, admitted.fitting
        waiting = [job for job in admitted.after if not job.state.is_terminal]
        draft = self._admission.draft(actor, admitted)
        if spec.singleton and (namesake := await self._store.find_first_namesake(draft)):
            waiting.append(namesake)
        by_limits = await self._admission.find_blocking_limit(draft)
        window, now = await self._store.find_maintenance(), self._clock()
        hold_reason = find_hold_reason(window, now)
        # Where nodes are drained, for the maintenance or otherwise, Slurm reports that none will ever fit.
        forecast = (
            StartForecast()
            if hold_reason or fitting.away
            else await self._forecaster.get_forecast(
                draft,
                [
                    job.scheduler_id
                    for job in waiting
                    if job.scheduler_id is not None and job.id in spec.after
                ],
            )
        )
        in_turn = forecast.find_pending_reason(now)
        ahead = find_overlap_warning(window, now, spec.max_duration_s)
        pending_reason = hold_reason or by_limits or fitting.reason or in_turn
        begins_at = draft.begins_at
        if spec.hold:
            pending_reason = "Is held; it starts after a release."
        elif begins_at is not None and begins_at > now:
            pending_reason = "Waits for the time before which it may not start."
        if waiting:
            which = "one other job" if len(waiting) == 1 else f"{len(waiting)} other jobs"
            pending_reason = f"Waits for {which} to complete."
        return Plan(
            spec=spec,
            fits=fitting.fits,
            starts_now=fitting.starts_now and pending_reason is None,
            pending_reason=pending_reason,
            warnings=(*fitting.notes, *admitted.unseen, *forecast.warnings, *filter(None, [ahead])),
            expected_start_at=None if spec.hold or waiting else forecast.starts_at,
            enforcement=admitted.limits,
            script=self._renderer.script(draft),
            placement=await self._plan_placement(admitted, now),
            settings=() if spec.sweep is None else tuple(expand_sweep(spec.sweep)),
        )

    async def _plan_placement(self, admitted: AdmittedJob, now: datetime) -> PlacementPlan | None:
        spec, nodes = admitted.spec, admitted.fitting.able
        waits: Mapping[str, float] = {}
        if admitted.tree is not None and spec.resources.nodes > 1 and spec.resources.gpu.count:
            allocated = await self._store.list_allocated_gpus()
            waits = gpu_forecast.compute_node_waits(nodes, allocated, now)
        return plan_placement(spec, nodes, admitted.tree, waits)

    async def create(
        self,
        actor: Actor,
        file: JobFile,
        *,
        rank_group: RankGroupSpec | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedJob:
        """Store the job for the controller to submit. On any error nothing is stored. With
        ``rank_group``, its ranks serve a session instead of running the commands.

        Raises:
            InvalidInput: a field is wrong; all wrong fields are named. Or the user has no account
                that jobs may run as.
            NotAllowed: the credential may not create jobs.
            Conflict: the user has as many live jobs as allowed.
            IdempotencyConflict: the key was used with another file.
        """
        body: Any = file.model_dump(mode="json")
        body = body if rank_group is None else [body, rank_group.model_dump(mode="json")]
        idempotency = Idempotency.from_request(actor.name, idempotency_key, "create", body)
        if (earlier := await self._get_replay(actor, idempotency)) is not None:
            return earlier
        admitted = await self._admission.admit(actor, file, PolicyAction.JOB_CREATE, rank_group)
        return await self._store_new(actor, admitted, idempotency)

    async def create_many(
        self,
        actor: Actor,
        files: Sequence[JobFile | AitneError],
        body: Any,
        *,
        idempotency_key: str | None = None,
    ) -> builtins.list[CreatedJob | AitneError]:
        """Store several jobs for the controller to submit, in one transaction.

        Returns for each file the created job, or the error for which it is refused. An element of
        ``files`` that is an error is returned unchanged. ``body`` is the whole request: a repeated
        request with the same ``idempotency_key`` must have the same body; it returns the same jobs
        and checks the refused files again.

        Raises:
            NotAllowed: the credential may not create jobs.
            IdempotencyConflict: the key was used with another request.
        """
        whole = Idempotency.from_request(actor.name, idempotency_key, "create_many", body)
        # No key of a client has a space, so these are not the keys of other requests.
        wishes = [
            None if whole is None else whole.model_copy(update={"key": f"{whole.key} {number}"})
            for number in range(len(files))
        ]
        _check_scope(PolicyAction.JOB_CREATE, actor)
        replays = await self._store.find_replays([wish for wish in wishes if wish is not None])
        results: builtins.list[CreatedJob | AitneError | None] = []
        new_jobs: builtins.list[NewJob] = []
        live = await self._store.count_live_jobs(actor.name)
        for file, wish in zip(files, wishes, strict=True):
            earlier = None if wish is None else replays.get(wish.key)
            if earlier is not None:
                results.append(CreatedJob(job=earlier, replayed=True))
                continue
            try:
                if isinstance(file, AitneError):
                    raise file
                admitted = await self._admission.admit(actor, file, PolicyAction.JOB_CREATE)
                rows = await self._admission.make_rows(actor, admitted)
                live = self._admission.check_live(live, rows, admitted.max_live_jobs)
            except (InvalidInput, NotAllowed, Conflict) as error:
                results.append(error)
            else:
                results.append(None)
                new_jobs.append(NewJob(*rows, wish))
        created = iter(await self._store.create_jobs(new_jobs) if new_jobs else ())
        return [next(created) if result is None else result for result in results]

    async def get(self, actor: Actor, job_id: UUID) -> Job:
        """Return the job. If it belongs to another user, the values of ``env`` are hidden.

        Raises ``NotFound``, also for a job that the actor may not see, and ``NotAllowed`` if the
        credential may not read jobs.
        """
        return hide_env_values(actor, await self._get_job(PolicyAction.JOB_READ, actor, job_id))

    async def list(
        self,
        actor: Actor,
        job_filter: JobFilter,
        *,
        cursor: str | None,
        limit: int,
        sort: JobSort = JobSort.CREATED,
        descending: bool = True,
    ) -> Page[Job]:
        """List the jobs that the actor may see and that match ``job_filter``, newest first by
        default.

        Raises:
            InvalidInput: the cursor is invalid, or belongs to another order.
            NotAllowed: the token does not permit reading.
        """
        _check_scope(PolicyAction.JOB_READ, actor)
        return await self._store.list_jobs(
            restrict_to_own_jobs(actor, job_filter),
            visible_to=_visible_to(actor),
            cursor=cursor,
            limit=limit,
            sort=sort,
            descending=descending,
        )

    async def count(self, actor: Actor, job_filter: JobFilter) -> dict[JobState, int]:
        """Return the number of jobs that match ``job_filter`` and that the actor may see, in each
        state.

        Raises ``NotAllowed`` if the token does not permit reading.
        """
        _check_scope(PolicyAction.JOB_READ, actor)
        job_filter = restrict_to_own_jobs(actor, job_filter)
        return await self._store.count_jobs(job_filter, visible_to=_visible_to(actor))

    async def cancel(self, actor: Actor, job_id: UUID) -> Job:
        """Request the cancellation of the job and return it; a job that has ended is returned
        unchanged.

        Raises ``NotFound`` if there is no such job that the actor may see, and ``NotAllowed`` if
        the actor may not cancel it.
        """
        job = await self._get_job(PolicyAction.JOB_CANCEL, actor, job_id)
        verb = "Stopped" if job.type is JobType.SESSION else "Cancelled"
        return await self._store.request_cancel(job_id, self._clock(), f"{verb} by {actor.name}.")

    async def hold(self, actor: Actor, job_id: UUID) -> Job:
        """Hold the job if it is pending; for an array job, its pending tasks.

        Raises:
            NotFound: there is no such job that the actor may see.
            NotAllowed: the actor may not hold it.
            Conflict: neither the job nor a task of it is pending.
        """
        await self._get_job(PolicyAction.JOB_HOLD, actor, job_id)
        return await self._store.request_hold(job_id, True)

    async def release(self, actor: Actor, job_id: UUID) -> Job:
        """Release the job, or the tasks of the array, after ``hold``.

        Raises the same errors as ``hold``.
        """
        await self._get_job(PolicyAction.JOB_HOLD, actor, job_id)
        return await self._store.request_hold(job_id, False)

    async def throttle(self, actor: Actor, job_id: UUID, max_parallel: int | None) -> Job:
        """Set the maximum number of tasks of the array that may run at once; None means no limit.
        Running tasks continue.

        Raises:
            NotFound, NotAllowed: the actor may not see or may not change the job.
            InvalidInput: the job is no array.
            Conflict: the job has ended.
        """
        job = await self._get_job(PolicyAction.JOB_HOLD, actor, job_id)
        check_not_outside(job, "given another limit of tasks")
        return await self._store.request_throttle(job_id, max_parallel)

    async def resubmit(
        self,
        actor: Actor,
        job_id: UUID,
        *,
        idempotency_key: str | None = None,
        continues: bool = False,
        options: ResubmitOptions | None = None,
    ) -> CreatedJob:
        """Submit the job again as a new job, with the changes ``options``; for a task of an array,
        only this task.

        With ``continues``, the job is a session that reopens the documents that were open in the
        old session. Raises the same errors as ``create``, and ``NotFound``.
        """
        old = await self._get_job(PolicyAction.JOB_RESUBMIT, actor, job_id)
        check_not_outside(old, "resubmitted")
        verb = "continue" if continues else "resubmit"
        changes = {} if options is None else options.model_dump(exclude_none=True)
        body = [str(job_id), changes] if changes else str(job_id)
        idempotency = Idempotency.from_request(actor.name, idempotency_key, verb, body)
        if (earlier := await self._get_replay(actor, idempotency)) is not None:
            return earlier
        admitted = await self._admission.readmit(actor, old, continues=continues, options=options)
        return await self._store_new(actor, admitted, idempotency)

    async def replay(
        self, actor: Actor, verb: str, body: Any, key: str | None
    ) -> CreatedJob | None:
        """Return the job that an earlier request with this idempotency key created; None if there
        is none.

        ``verb`` and ``body`` identify the request. Raises ``IdempotencyConflict`` if the key was
        used with another request, and ``NotAllowed``.
        """
        return await self._get_replay(actor, Idempotency.from_request(actor.name, key, verb, body))

    async def script(self, actor: Actor, job_id: UUID) -> str:
        """Return the batch script of the job's current attempt.

        Raises ``NotFound``, and ``Conflict`` for a job that was not submitted through the platform.
        """
        job = await self._get_job(PolicyAction.JOB_READ, actor, job_id)
        check_not_outside(job, "shown as a batch script of the platform")
        return self._renderer.script(job)

    async def samples(self, actor: Actor, job_id: UUID) -> Sequence[Sample]:
        """List the samples of the job's resource usage, oldest first.

        Raises ``NotFound``, also if the actor may not see the job.
        """
        await self._get_job(PolicyAction.JOB_READ, actor, job_id)
        return await self._store.list_samples(job_id)

    async def profile(self, actor: Actor, job_id: UUID) -> Profile:
        """Return the profile of the collectives that the job's ranks recorded.

        Raises ``NotFound``, also if the ranks have not reported a profile.
        """
        await self._get_job(PolicyAction.JOB_READ, actor, job_id)
        profile = await self._store.find_profile(job_id)
        if profile is None:
            raise NotFound(
                "profile of job",
                job_id,
                f"Job {job_id} has no profile: the ranks of a program that uses aitne_train report it "
                "after their first steps.",
            )
        return Profile.model_validate(profile)

    async def events(self, actor: Actor, job_id: UUID) -> Sequence[Event]:
        """List the job's events, oldest first. Raises ``NotFound``."""
        await self._get_job(PolicyAction.JOB_READ, actor, job_id)
        return await self._store.list_job_events(job_id)

    async def read_log(
        self, actor: Actor, job_id: UUID, *, task: int | None, offset: int, limit: int
    ) -> LogChunk:
        """Return up to ``limit`` bytes of the log of the job, or of the array's task with the index
        ``task``. A negative ``offset`` counts from the end.

        Raises:
            NotFound: there is no such job, task or log that the actor may read.
            InvalidInput: the job is an array and ``task`` is None.
            Unavailable: the log cannot be read now.
        """
        job = await self._get_job_of_log(actor, job_id, task)
        max_bytes = max(0, min(limit, MAX_LOG_READ))
        outside_task = task if job.is_outside else None
        return await self._follower.read(job, offset, max_bytes, outside_task=outside_task)

    async def follow_log(
        self, actor: Actor, job_id: UUID, *, task: int | None, offset: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log as it grows, until the job has ended and the whole log was read.

        Raises the same errors as ``read_log``, when the first part is requested.
        """
        job = await self._get_job_of_log(actor, job_id, task)
        outside_task = task if job.is_outside else None
        follow = self._follower.follow(job, offset, outside_task=outside_task)
        async with aclosing(follow) as pieces:
            async for piece in pieces:
                yield piece

    def actions(self, actor: Actor, job: Job) -> builtins.list[str]:
        """List the actions that the actor may take on the job now.

        They are among open, extend, stop, cancel, attach, hold, release, resubmit, continue,
        delete.
        """
        live = not job.state.is_terminal and job.cancel_requested_at is None
        session = job.type is JobType.SESSION
        running = live and job.state.is_active and job.expires_at is not None
        # Some tasks of an array wait while others run.
        waits = job.state in WAITING or job.is_array
        possible = {
            "open": (
                live and job.state is JobState.READY and job.url is not None,
                PolicyAction.JOB_OPEN,
            ),
            "extend": (
                running and not job.is_array and not job.is_outside,
                PolicyAction.JOB_EXTEND,
            ),
            "stop": (session and live, PolicyAction.JOB_CANCEL),
            "cancel": (not session and live, PolicyAction.JOB_CANCEL),
            "attach": (live and job.is_attachable, PolicyAction.JOB_ATTACH),
            "hold": (live and waits and not job.spec.hold, PolicyAction.JOB_HOLD),
            "release": (live and waits and job.spec.hold, PolicyAction.JOB_HOLD),
            "resubmit": (
                job.state.is_terminal and not job.is_outside and job.session_id is None,
                PolicyAction.JOB_RESUBMIT,
            ),
            "continue": (session and job.state.is_terminal, PolicyAction.JOB_RESUBMIT),
            "delete": (
                job.state.is_terminal
                and job.array_job_id is None
                and job.delete_requested_at is None,
                PolicyAction.JOB_DELETE,
            ),
        }
        return [
            name
            for name, (now, action) in possible.items()
            if now and decide_access(action, actor, owner=job.owner, project=job.project).allowed
        ]

    async def _get_job(self, action: PolicyAction, actor: Actor, job_id: UUID) -> Job:
        job = await self._store.get_job(job_id)
        require_permission(action, actor, "job", job_id, owner=job.owner, project=job.project)
        return job

    async def _get_job_of_log(self, actor: Actor, job_id: UUID, task: int | None) -> Job:
        """Return the database row of the job or task that the log belongs to; ``task`` is an array
        index or None.
        """
        job = await self._get_job(PolicyAction.JOB_READ, actor, job_id)
        if job.is_outside:
            check_log_access(job, task, actor)
            return job
        if job.array_task_id is not None or not job.is_array:
            if task is not None and task != job.array_task_id:
                raise InvalidInput.field("task", "this job has no such task", value=task)
            return job
        row = None if task is None else await self._store.find_array_task(job_id, task)
        if row is not None:
            return row
        raise InvalidInput.field(
            "task",
            "name the task whose log you want" if task is None else "this array has no such task",
            value=task,
            allowed=job.spec.array,
        )

    async def _get_replay(self, actor: Actor, idempotency: Idempotency | None) -> CreatedJob | None:
        _check_scope(PolicyAction.JOB_CREATE, actor)
        if idempotency is None:
            return None
        job = (await self._store.find_replays([idempotency])).get(idempotency.key)
        return None if job is None else CreatedJob(job=job, replayed=True)

    async def _store_new(
        self, actor: Actor, admitted: AdmittedJob, idempotency: Idempotency | None
    ) -> CreatedJob:
        rows = await self._admission.make_rows(actor, admitted)
        live = await self._store.count_live_jobs(actor.name)
        self._admission.check_live(live, rows, admitted.max_live_jobs)
        return await self._store.create_job(*rows, idempotency=idempotency)


def _visible_to(actor: Actor) -> str | None:
    """Return the user to whose jobs a query of the store is restricted; None for administrators."""
    return None if actor.is_admin else actor.name


def _check_scope(action: PolicyAction, actor: Actor) -> None:
    """Raise ``NotAllowed`` if the credential does not permit the action on the actor's own jobs."""
    decision = decide_access(action, actor, owner=actor.name, project=actor.user.default_project)
    if not decision.allowed and decision.visible:
        raise NotAllowed(decision.reason)
