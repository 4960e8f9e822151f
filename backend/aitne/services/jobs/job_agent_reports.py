"""Reports of the agents of jobs: snapshots of the environment, lists of written files, results,
and metrics by rank.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError

from aitne.core.errors import NotFound
from aitne.core.jobs.env_visibility import hide_env_values
from aitne.core.models.collective_profile import Profile
from aitne.core.models.job import Job
from aitne.core.models.job_snapshot import MOST_BYTES, Snapshot, Taken, WrittenFiles
from aitne.core.models.reported_placement import ReportedPlacement
from aitne.core.models.sweep import Results
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.jobs.rank_metrics import RankMetrics, points_for, rank_metrics
from aitne.store import Store
from aitne.store.job_snapshots_and_files import DocumentKind

log = logging.getLogger(__name__)

_MOST_VALUES, _MOST_SERIES, _MOST_POINTS = 64, 32, 400


class SnapshotService:
    """Service that stores the documents that agents send about their jobs (snapshot, files,
    results), and returns them to users who may see the job.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def store_snapshot(self, job_id: UUID, document: Mapping[str, Any]) -> None:
        """Store the snapshot of a job's environment and code.

        An invalid document is ignored, because it comes from the job's own account.
        """
        taken = _parse_document(Taken, document, job_id)
        if taken is not None:
            await self._store.save_snapshot(job_id, taken)

    async def store_files(self, job_id: UUID, document: Mapping[str, Any]) -> None:
        """Store the list of files that a job has written."""
        files = _parse_document(WrittenFiles, document, job_id)
        if files is not None:
            await self._store.save_document(job_id, DocumentKind.FILES, files)

    async def store_placement(self, job_id: UUID, document: Mapping[str, Any]) -> None:
        """Store the order of a job's nodes and the bindings of its ranks."""
        placement = _parse_document(ReportedPlacement, document, job_id)
        if placement is not None:
            await self._store.save_document(job_id, DocumentKind.PLACEMENT, placement)

    async def store_results(self, job_id: UUID, document: Mapping[str, Any]) -> Mapping[str, float]:
        """Store the results of a job and return their values."""
        results = _parse_document(Results, document, job_id)
        if results is None:
            return {}
        series = {
            name: results["series"][name][:_MOST_POINTS]
            for name in _select_names(results, "series")
        }
        values = {name: results["values"][name] for name in _select_names(results, "values")}
        await self._store.save_document(job_id, DocumentKind.SERIES, series)
        not_finite = {
            name: results["not_finite"][name] for name in _select_names(results, "not_finite")
        }
        stored_values = {**results, "values": values, "not_finite": not_finite, "series": {}}
        await self._store.save_document(job_id, DocumentKind.VALUES, stored_values)
        return values

    async def snapshot(self, actor: Actor, job_id: UUID) -> Snapshot:
        """Return the snapshot of the job. Raises ``NotFound``."""
        return await self.get_snapshot_of_job(
            hide_env_values(actor, await self._get_readable_job(actor, job_id))
        )

    async def get_snapshot_of_job(self, job: Job) -> Snapshot:
        """Return the snapshot of a job that the actor may see; the caller has checked that."""
        document = await self._store.find_snapshot(job.id)
        spec = job.spec
        return Snapshot(
            attempt=job.attempt,
            taken=None if document is None else Taken.model_validate(document),
            image=spec.image,
            image_digest=None if spec.image_use is None else spec.image_use.digest,
            datasets=spec.datasets,
            modules=spec.environment.modules,
            spec=spec,
        )

    async def get_written_files(self, actor: Actor, job_id: UUID) -> WrittenFiles:
        """Return the list of files that changed while the job ran.

        Raises ``NotFound``, also if the agent has reported no list.
        """
        job = await self._get_readable_job(actor, job_id)
        document = await self._store.find_document(job_id, DocumentKind.FILES)
        if document is None:
            raise NotFound(
                "list of files of job",
                job_id,
                f"Job {job.name} has no list of the files that it wrote: its agent creates one when the "
                "program has ended by itself.",
            )
        return WrittenFiles.model_validate(document)

    async def results(self, actor: Actor, job_id: UUID) -> Results:
        """Return the results of the job's program. Raises ``NotFound``, also if it has none yet."""
        job = await self._get_readable_job(actor, job_id)
        results = await self.results_of(job)
        if results is None:
            raise NotFound(
                "results of job",
                job_id,
                f"Job {job.name} has reported no results: its program writes metrics.json, metrics.jsonl or "
                "TensorBoard's event files to $AITNE_METRICS.",
            )
        return results

    async def results_of(self, job: Job) -> Results | None:
        """Return the results of a job that the actor may see, which the caller has checked; None if
        there are none.
        """
        values = await self._store.find_document(job.id, DocumentKind.VALUES)
        if values is None:
            return None
        series = await self._store.find_document(job.id, DocumentKind.SERIES)
        return Results.model_validate({**values, "series": series or {}})

    async def rank_metrics(self, actor: Actor, job_id: UUID) -> RankMetrics:
        """Return the metrics of the job by node and rank.

        Raises ``NotFound``, also if the actor may not see the job.
        """
        job = await self._get_readable_job(actor, job_id)
        samples = await self._store.list_samples(job_id, limit=points_for(job), nodes=job.nodes)
        document = await self._store.find_profile(job_id)
        profile = None if document is None else Profile.model_validate(document)
        reported = await self._store.find_document(job_id, DocumentKind.PLACEMENT)
        placement = None if reported is None else ReportedPlacement.model_validate(reported)
        return rank_metrics(job, samples, profile, placement)

    async def _get_readable_job(self, actor: Actor, job_id: UUID) -> Job:
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_READ, actor, "job", job_id, owner=job.owner, project=job.project
        )
        return job


def _select_names(document: Mapping[str, Any], part: str) -> list[str]:
    maximum = _MOST_SERIES if part == "series" else _MOST_VALUES
    return [name for name in document[part] if len(name) <= 200][:maximum]


def _parse_document(
    model: type[BaseModel], document: Mapping[str, Any], job_id: UUID
) -> dict[str, Any] | None:
    try:
        instance = model.model_validate(document)
    except ValidationError as error:
        log.info(
            "The report of job %s has no valid %s: %s",
            job_id,
            model.__name__,
            error.errors()[0]["msg"],
        )
        return None
    if len(instance.model_dump_json()) > MOST_BYTES:
        log.info("The report of job %s is too long for a %s.", job_id, model.__name__)
        return None
    fields: dict[str, Any] = instance.model_dump(mode="json", by_alias=True)
    return fields
