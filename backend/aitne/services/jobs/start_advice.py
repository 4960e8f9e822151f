"""Advice on how pending jobs could start earlier, computed on each request and not stored."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from aitne.core.cluster.partition_check import select_partitions
from aitne.core.errors import NotFound
from aitne.core.jobs.pending_job_advice import Advice, advise_on_pending_job
from aitne.core.jobs.states import ACTIVE, JobState
from aitne.core.models.common_job_fields import DEPENDENCIES
from aitne.core.models.job import Job, JobFilter
from aitne.core.models.job_search import JobSort
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.gpu_availability import CapacityService
from aitne.services.projects.limit_checks import check_job_limits
from aitne.store import Store

_MOST_NAMED = 5
_MOST_COMPARED = 200
"""Maximum number of running jobs that are considered, those with the most GPUs first."""


class StartAdviceService:
    """Service that advises the owner of a queued job how it could start earlier. It uses the stored
    state of the cluster and does not query the scheduler.
    """

    def __init__(self, store: Store, cluster: ClusterService, capacity: CapacityService) -> None:
        self._store = store
        self._cluster = cluster
        self._capacity = capacity

    async def get_start_advice(self, actor: Actor, job_id: UUID) -> tuple[Advice, ...]:
        """Return advice on how the job could start earlier; empty unless the job is queued.

        Raises ``NotFound`` if there is no such job that the actor may see, and ``NotAllowed`` if
        the token does not permit reading.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_READ, actor, "job", job_id, owner=job.owner, project=job.project
        )
        look = await self._cluster.get_snapshot()
        waits = job.state is JobState.QUEUED and not job.cancel_requested_at
        # Of a job from outside only the scheduler knows what it asks for.
        if not waits or job.is_outside or look.stale:
            return ()
        spec = job.spec
        queue = select_partitions(
            spec.slurm,
            look.cluster,
            project=spec.project,
            wanted_nodes=spec.resources.nodes,
            max_duration_s=spec.max_duration_s if spec.max_duration_requested else None,
            array=None,
            extra_allowed=(),
        )
        # Other jobs of the owner are shown only to the owner and to administrators.
        is_owner = actor.name == job.owner or actor.is_admin
        return advise_on_pending_job(
            job,
            nodes=queue.nodes,
            gpus=(await self._capacity.get_capacity()).gpus,
            running=await self._list_running(actor, job) if is_owner else (),
            before=await self._list_dependencies(job) if is_owner else (),
            limit=await self._find_blocking_limit(job),
            all_users=actor.is_admin,
        )

    async def _list_running(self, actor: Actor, job: Job) -> Sequence[Job]:
        owner = None if actor.is_admin else job.owner
        job_filter = JobFilter(owner=owner, states=ACTIVE)
        page = await self._store.list_jobs(
            job_filter, visible_to=None, limit=_MOST_COMPARED, sort=JobSort.GPUS
        )
        return [other for other in page.items if not other.is_array]

    async def _list_dependencies(self, job: Job) -> Sequence[Job]:
        dependencies = []
        ids = [job_id for kind in DEPENDENCIES for job_id in getattr(job.spec, kind)]
        for dependency_id in ids[:_MOST_NAMED]:
            try:
                other = await self._store.get_job(dependency_id)
            except NotFound:
                continue  # its record was deleted; only the scheduler knows its outcome
            if other.owner == job.owner and not other.state.is_terminal:
                dependencies.append(other)
        return dependencies

    async def _find_blocking_limit(self, job: Job) -> str | None:
        look = await self._store.find_limit_usage()
        return (
            None
            if look is None
            else check_job_limits(job.spec, look[0], job.account or job.owner).waits_for
        )
