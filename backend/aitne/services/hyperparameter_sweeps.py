"""Sweeps: their settings, results and early stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.job import Job
from aitne.core.models.sweep import Sweep, SweepSpec, SweepTask
from aitne.core.models.user import Actor
from aitne.core.sweeps import expand_sweep, find_best_task
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.store import Store


class SweepService:
    """Service that shows the results of sweeps and stops sweeps."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def sweep(self, actor: Actor, job_id: UUID) -> Sweep:
        """Return the sweep of the array job: all parameter settings with the values that their
        tasks reported.

        Raises ``NotFound``, also for a job without a sweep.
        """
        array, spec = await self._get_permitted_sweep(PolicyAction.JOB_READ, actor, job_id)
        return await self._read_sweep(array, spec)

    async def stop(self, actor: Actor, job_id: UUID) -> Job:
        """Cancel all tasks of the sweep that have not ended, except the best one so far.

        Raises:
            NotFound: there is no such job, or the job is not a sweep.
            NotAllowed: the sweep belongs to another user.
            Conflict: the sweep has ended.
        """
        array, spec = await self._get_permitted_sweep(PolicyAction.JOB_CANCEL, actor, job_id)
        if array.state.is_terminal:
            raise Conflict(f"The sweep has ended ({array.state}): there is nothing to stop.")
        sweep = await self._read_sweep(array, spec)
        keep = {task.job_id for task in sweep.tasks if task.task == sweep.best}
        return await self._store.request_cancel(
            array.id,
            self._clock(),
            f"The rest of the sweep was stopped by {actor.name}.",
            keep=keep,
        )

    async def check_goal(self, task: Job, values: Mapping[str, float]) -> None:
        """Check whether the metric values that ``task`` has reported reach the goal of its sweep;
        if they do, cancel the other tasks of the sweep.
        """
        spec = task.spec.sweep
        if spec is None or spec.stop_when is None or task.array_job_id is None:
            return
        stop = spec.stop_when
        value = values.get(stop.metric)
        if value is None or not stop.is_met(value):
            return
        tasks = await self._store.list_array_tasks(task.array_job_id)
        if any(other.id == task.id and other.cancel_requested_at is not None for other in tasks):
            return  # another task reached the goal first and is kept
        if not any(
            other.id != task.id
            and not other.state.is_terminal
            and other.cancel_requested_at is None
            for other in tasks
        ):
            return
        reached, goal = f"{value:g}", f"{stop.value:g}"
        beyond = "" if reached == goal else f" (goal: {goal})"
        message = f"Task {task.array_task_id} reached the goal: {stop.metric} {reached}{beyond}."
        await self._store.request_cancel(
            task.array_job_id,
            self._clock(),
            message,
            keep={task.id},
            reason=TerminationReason.GOAL_REACHED,
            unless_cancelled=task.id,  # by another task that reached the goal at the same time
        )

    async def _get_permitted_sweep(
        self, action: PolicyAction, actor: Actor, job_id: UUID
    ) -> tuple[Job, SweepSpec]:
        job = await self._store.get_job(job_id)
        require_permission(action, actor, "job", job_id, owner=job.owner, project=job.project)
        spec = job.spec.sweep
        if spec is None or not job.is_array:
            raise NotFound("sweep", job_id, f"Job {job.name} is not a sweep.")
        return job, spec

    async def _read_sweep(self, array: Job, spec: SweepSpec) -> Sweep:
        values = await self._store.list_task_values(array.id)
        settings = expand_sweep(spec)
        tasks = [
            SweepTask(
                task=task.array_task_id or 0,
                job_id=task.id,
                state=task.state,
                parameters=settings[task.array_task_id or 0],
                values=values.get(task.id, {}).get("values", {}),
                not_finite=values.get(task.id, {}).get("not_finite", {}),
                started_at=task.started_at,
                ended_at=task.ended_at,
            )
            for task in await self._store.list_array_tasks(array.id)
        ]
        metric = spec.metric or (spec.stop_when.metric if spec.stop_when else None)
        goal = spec.goal
        judged = {
            task.task: task.values[metric] for task in tasks if metric and metric in task.values
        }
        return Sweep(
            job_id=array.id,
            method=spec.method,
            parameters=list(spec.parameters),
            metric=metric,
            goal=goal,
            stop_when=spec.stop_when,
            best=find_best_task(judged, goal),
            tasks=tasks,
        )
