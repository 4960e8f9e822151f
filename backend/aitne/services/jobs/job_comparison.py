"""Comparison of two jobs: their specifications, environments and results."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from aitne.core.errors import NotAllowed, NotFound
from aitne.core.jobs.env_visibility import hide_env_values
from aitne.core.jobs.job_comparison import ComparisonInput, compare_jobs
from aitne.core.models.comparison import Comparison
from aitne.core.models.job_snapshot import Snapshot
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.images.images import ImageService
from aitne.services.jobs.job_agent_reports import SnapshotService
from aitne.services.jobs.outside_job_checks import check_not_outside
from aitne.store import Store

_SAMPLES = 2_000


class ComparisonService:
    """Service that returns the differences between two jobs that a user may see."""

    def __init__(self, store: Store, snapshots: SnapshotService, images: ImageService) -> None:
        self._store = store
        self._snapshots = snapshots
        self._images = images

    async def compare(self, actor: Actor, first: UUID, second: UUID) -> Comparison:
        """Return the differences between the two jobs.

        Raises:
            NotFound, NotAllowed: the actor may not see one of them.
            Conflict: one of them was not submitted through the platform.
        """
        return compare_jobs(
            await self._read_input(actor, first), await self._read_input(actor, second)
        )

    async def _read_input(self, actor: Actor, job_id: UUID) -> ComparisonInput:
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_READ, actor, "job", job_id, owner=job.owner, project=job.project
        )
        check_not_outside(job, "compared")
        job = hide_env_values(actor, job)
        snapshot = await self._snapshots.get_snapshot_of_job(job)
        results = await self._snapshots.results_of(job)
        return ComparisonInput(
            job=job,
            snapshot=snapshot,
            samples=await self._store.list_samples(job_id, limit=_SAMPLES),
            values=None if results is None else {**results.values, **results.not_finite},
            image_packages=await self._find_packages(actor, snapshot),
        )

    async def _find_packages(self, actor: Actor, snapshot: Snapshot) -> Mapping[str, str] | None:
        """Return the versions of the packages in the job's image, by name. None: the actor may not
        see the image, or the image has changed since the job ran.
        """
        name, colon, version = snapshot.image.partition(":")
        if snapshot.image_digest is None or not colon:
            return None
        try:
            image = await self._images.get(actor, name, version)
        except (NotFound, NotAllowed):
            return None
        if snapshot.image_digest not in {artifact.digest for artifact in image.artifacts}:
            return None
        return {package.name: package.version for package in image.packages}
