"""Results of submitted functions, which their jobs leave as files in the job folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from uuid import UUID

from aitne.core.errors import Conflict, InvalidInput, NotFound, Unavailable
from aitne.core.jobs.layout import result_error_name, result_name
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.core.models.user import Actor
from aitne.core.ports.files import JobFiles, JobLocation
from aitne.core.ports.store import Store
from aitne.core.sizes import describe_bytes
from aitne.core.users.policy import PolicyAction, require

PART_BYTES = 4 << 20
"""Number of bytes that are read at once."""


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

    async def read(
        self, actor: Actor, job_id: UUID, rank: int | None
    ) -> tuple[int, AsyncGenerator[bytes, None]]:
        """Return the size in bytes of the result of an ended job, and its parts.

        ``rank`` is the rank whose value is wanted; None: what the whole job returned, which is rank
        0's value, or the first exception of any rank if the job has not completed.

        Raises:
            NotFound: there is no such job, or it left no such result.
            NotAllowed: the job belongs to another user.
            Conflict: the job has not ended, or its result exceeds the limit.
            InvalidInput: the job is an array, whose tasks have the results.
            Unavailable: the result cannot be read now.
        """
        job = await self._store.get_job(job_id)
        require(PolicyAction.JOB_RESULT, actor, "job", job_id, owner=job.owner, project=job.project)
        if job.is_array:
            raise InvalidInput.field(
                "job_id", "the tasks of an array have results, not the array itself", value=job_id
            )
        if not job.state.terminal:
            raise Conflict(
                f"Job {job.name} has not ended (it is {job.state}), so it has no result."
            )
        name = _name(job, rank)
        place = self._place(job)
        first = (
            None
            if job.is_outside
            else await self._files.read_file(place, name, offset=0, limit=PART_BYTES)
        )
        if first is None:
            raise NotFound(
                "result of job",
                job_id,
                f"Job {job.name} has left no result: only functions that ran by aitne.submit and "
                "aitne.map leave one, when they return or raise an exception.",
            )
        if first.size > self._max_bytes:
            raise Conflict(
                f"The result of job {job.name} has {describe_bytes(first.size, 'up')}, and the "
                f"platform transfers {describe_bytes(self._max_bytes, 'down')} at most. It is in "
                f"the file {place.directory / name}. Have the function write large results to "
                "files, and return their paths."
            )
        return first.size, self._parts(place, name, first.data, first.size)

    async def _parts(
        self, place: JobLocation, name: str, data: bytes, size: int
    ) -> AsyncGenerator[bytes, None]:
        offset = 0
        while True:
            yield data
            offset += len(data)
            if offset >= size:
                return
            part = await self._files.read_file(
                place, name, offset=offset, limit=min(PART_BYTES, size - offset)
            )
            if part is None or not part.data:
                raise Unavailable(f"The file {place.directory / name} was changed meanwhile.")
            data = part.data


def _name(job: Job, rank: int | None) -> str:
    if rank is None and job.state is not JobState.COMPLETED:
        return result_error_name(job.array_task_id)
    return result_name(job.array_task_id, rank or 0)
