"""Results of submitted functions, which their jobs leave as files in the job folder."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import Conflict, InvalidInput, NotFound
from aitne.core.jobs.job_folder_layout import result_error_file_name, result_file_name
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.core.models.user import Actor
from aitne.core.ports.job_files import JobFiles, JobLocation
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.jobs.file_parts import FileParts, open_parts
from aitne.store import Store


class JobResultService:
    """Service that reads what a job's function returned or raised, for the job's owner.

    The file is a pickle that the job wrote. The platform passes it on and never loads it.
    """

    def __init__(
        self, store: Store, files: JobFiles, place: Callable[[Job], JobLocation], max_bytes: int
    ) -> None:
        self._store = store
        self._files = files
        self._place = place
        self._max_bytes = max_bytes

    async def read(self, actor: Actor, job_id: UUID, rank: int | None) -> FileParts:
        """Return the result of an ended job as the file that the job wrote.

        Args:
            rank: rank whose result is requested. None: the result of the whole job, which is that
                of rank 0 or, if the job has not completed, the first exception of any rank.

        Raises:
            NotFound: the job does not exist, or has left no such result.
            NotAllowed: the job belongs to another user.
            Conflict: the job has not ended, or its result exceeds the size limit.
            InvalidInput: the job is an array; its tasks have the results.
            Unavailable: the result cannot be read now.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_RESULT, actor, "job", job_id, owner=job.owner, project=job.project
        )
        if job.is_array:
            raise InvalidInput.field(
                "job_id", "the tasks of an array have results, not the array itself", value=job_id
            )
        if not job.state.is_terminal:
            raise Conflict(
                f"Job {job.name} has not ended (it is {job.state}), so it has no result."
            )
        name = _get_result_file_name(job, rank)
        place = self._place(job)
        result = None if job.is_outside else await open_parts(self._files, place, name)
        if result is None:
            raise NotFound(
                "result of job",
                job_id,
                f"Job {job.name} has left no result: only functions that ran by aitne.submit and "
                "aitne.map leave one, when they return or raise an exception.",
            )
        if result.size > self._max_bytes:
            raise Conflict(
                f"The result of job {job.name} has {describe_bytes(result.size, 'up')}, and the "
                f"platform transfers {describe_bytes(self._max_bytes, 'down')} at most. It is in "
                f"the file {place.directory / name}. Have the function write large results to "
                "files, and return their paths."
            )
        return result


def _get_result_file_name(job: Job, rank: int | None) -> str:
    if rank is None and job.state is not JobState.COMPLETED:
        return result_error_file_name(job.array_task_id)
    return result_file_name(job.array_task_id, rank or 0)
