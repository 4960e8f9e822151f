"""Executed notebooks: the copies and HTML pages that jobs write while they run notebooks."""

from __future__ import annotations

from uuid import UUID

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.job_folder_layout import EXECUTED_NOTEBOOK, EXECUTED_PAGE
from aitne.core.models.job import Job
from aitne.core.models.user import Actor
from aitne.core.ports.job_files import JobFiles
from aitne.services.jobs.file_parts import FileParts, open_parts
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.jobs.jobs import JobService

MAX_BYTES = 32 << 20
"""Maximum size of a file that is returned."""


class NotebookService:
    """Service that reads the executed notebooks of jobs. They are never interpreted here: the job
    itself makes the page.
    """

    def __init__(self, jobs: JobService, files: JobFiles, renderer: Renderer) -> None:
        self._jobs = jobs
        self._files = files
        self._renderer = renderer

    async def open_executed(self, actor: Actor, job_id: UUID) -> tuple[str, FileParts]:
        """Return a file name for the executed copy of the job's notebook, and the copy. The copy is
        partial while the job runs, or if the job failed.

        Raises:
            NotFound: the job does not exist or the actor may not see it, it runs no notebook, or it
                has written no copy.
            Conflict: the copy is too large.
            Unavailable: the file cannot be read now.
        """
        job = await self._jobs.get(actor, job_id)
        content = await self._open_file(job, EXECUTED_NOTEBOOK)
        name = "" if job.spec.notebook is None else job.spec.notebook.path.rpartition("/")[2]
        return name, content

    async def open_page(self, actor: Actor, job_id: UUID) -> FileParts:
        """Return the page of the executed notebook, as HTML that the job wrote and that must not be
        trusted. Raises the same errors as ``open_executed``."""
        return await self._open_file(await self._jobs.get(actor, job_id), EXECUTED_PAGE)

    async def _open_file(self, job: Job, name: str) -> FileParts:
        if job.spec.notebook is None:
            raise NotFound("notebook of job", job.id, f"Job {job.id} runs no notebook.")
        place = self._renderer.get_location(job)
        content = await open_parts(self._files, place, name)
        if content is None:
            raise self._make_missing_error(job)
        if content.size > MAX_BYTES:
            raise Conflict(
                f"The executed notebook has {content.size >> 20} MiB, and at most "
                f"{MAX_BYTES >> 20} are shown. Copy it from {place.directory / name} on the cluster."
            )
        return content

    def _make_missing_error(self, job: Job) -> NotFound:
        reason = (
            "ended before it wrote one; its log says why"
            if job.state.is_terminal
            else "has not run a cell yet"
        )
        return NotFound(
            "notebook of job", job.id, f"There is no executed notebook: job {job.id} {reason}."
        )
