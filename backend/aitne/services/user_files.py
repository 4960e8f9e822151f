"""Files of users by area and path. The area ``jobs`` has the folders of each job; every read is done
under the Unix account of the job.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from aitne.core.errors import AitneError, Conflict, NotAllowed, NotFound
from aitne.core.models.access_token import Scope
from aitne.core.models.job import Job
from aitne.core.models.stored_file import FileKind, FileList, StoredFile
from aitne.core.models.user import Actor
from aitne.core.path_encoding import decode_path, encode_path, shown_name
from aitne.core.ports.account_files import AccountFiles, FileRoot
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.unix_account_mapping import Accounts
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.jobs.job_containers import get_workdir
from aitne.store import Store

JOBS = "jobs"
"""Name of the area with the folders of jobs."""
WORKDIR, CHECKPOINTS, METRICS = "workdir", "checkpoints", "metrics"
FOLDERS = (CHECKPOINTS, METRICS, WORKDIR)
"""Folders of a job: those that ``$AITNE_CHECKPOINTS`` and ``$AITNE_METRICS`` name, and the one in
which it runs."""
PART_BYTES = 1 << 20
"""Number of bytes that are read at once."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """File that a user may read, at one version of its content."""

    name: bytes
    """Last component of its path."""
    facts: StoredFile
    parts: Callable[[int, int], AsyncGenerator[bytes, None]]
    """Function that returns the content from one byte up to another, excluded, in order. The
    generator raises an ``AitneError`` if the file is changed meanwhile or cannot be read, so that
    parts of two versions are never mixed."""


class FileService:
    """Service that reads the files of a user's jobs for that user.

    Names that begin with a dot are listed, but reading below them needs the scope ``write``: the
    folder of a job may be the home folder, where such names hold keys, and a caller who may submit a
    job could have it read them anyway.
    """

    def __init__(
        self,
        store: Store,
        files: AccountFiles,
        place: Callable[[Job], JobLocation],
        accounts: Accounts,
    ) -> None:
        self._store = store
        self._files = files
        self._place = place
        self._accounts = accounts

    async def open(self, actor: Actor, area: str, path: bytes) -> OpenedFile:
        """Return the file at ``path``, the percent-encoded path in ``area``, without reading it.

        Raises:
            InvalidInput: the path is not valid.
            NotFound: there is no such area, job or file, or the actor may not see the job.
            NotAllowed: the job belongs to another user, its account may not read the file, or the
                path is hidden and the token lacks the scope ``write``.
            Conflict: the path leads to a folder, a device or the like.
            Unavailable: the file system or the broker does not answer.
        """
        job, name, below = await self._job_and_path(actor, area, path)
        if name is None or not below:
            raise _make_folder_error(area, path)
        root, encoded = self._get_file_root(job, name), encode_path(below)
        facts = await self._files.get_entry(root, encoded)
        if facts.kind is FileKind.FOLDER:
            raise _make_folder_error(area, path)
        if facts.kind is not FileKind.FILE:
            raise Conflict(f"{shown_name(below)} is not a regular file, so it cannot be read.")

        def parts(start: int, end: int) -> AsyncGenerator[bytes, None]:
            return self._read_parts(root, encoded, facts.etag or "", start, end)

        return OpenedFile(below.rpartition(b"/")[2], facts, parts)

    async def list_folder(
        self, actor: Actor, area: str, path: bytes, *, after: str, limit: int
    ) -> FileList:
        """Return up to ``limit`` entries of the folder at ``path`` whose names follow ``after``.

        Raises the errors of ``open``; ``Conflict`` if the path leads to no folder, or if the folder
        has too many entries.
        """
        job, name, below = await self._job_and_path(actor, area, path)
        decode_path(after)
        if name is None:
            return FileList(items=tuple(await self._list_job_folders(job, after)))
        root = self._get_file_root(job, name)
        return await self._files.list_folder(root, encode_path(below), after=after, limit=limit)

    async def _list_job_folders(self, job: Job, after: str) -> list[StoredFile]:
        folders = []
        for name in FOLDERS:
            with suppress(NotFound):
                facts = await self._files.get_entry(self._get_file_root(job, name), "")
                folders.append(facts.model_copy(update={"name": name, "path": name}))
        return [folder for folder in folders if folder.name > after]

    async def _job_and_path(
        self, actor: Actor, area: str, path: bytes
    ) -> tuple[Job, str | None, bytes]:
        """Return the job at the beginning of ``path``, the name of its folder and the path below
        that, after checking that the actor may read it; None: the path ends after the job.
        """
        if area != JOBS:
            raise NotFound("area", area, f"There is no area {area[:40]!r} of files. Areas: {JOBS}.")
        number, *below = decode_path(path).split(b"/", 2)
        job = await self._get_permitted_job(actor, number)
        if not below:
            return job, None, b""
        name = below[0].decode("utf-8", "replace")
        if name not in FOLDERS:
            raise NotFound(
                "folder",
                name,
                f"A job has no folder {shown_name(below[0])}. Folders: {', '.join(FOLDERS)}.",
            )
        rest = below[1] if len(below) > 1 else b""
        if Scope.WRITE not in actor.scopes and any(
            part.startswith(b".") for part in rest.split(b"/")
        ):
            raise NotAllowed(
                "The token in use lacks the scope write, which reading files needs whose path has "
                "a name that begins with a dot; create one with it."
            )
        return job, name, rest

    async def _get_permitted_job(self, actor: Actor, text: bytes) -> Job:
        try:
            job_id = UUID(text.decode("ascii"))
        except ValueError:
            raise NotFound("job", shown_name(text)[:60]) from None
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_FILES, actor, "job", job_id, owner=job.owner, project=job.project
        )
        if job.is_outside:
            raise NotFound(
                "files of job",
                job_id,
                f"Job {job.name} was submitted with the scheduler's own commands, so the platform "
                "does not know its folder.",
            )
        return job

    def _get_file_root(self, job: Job, name: str) -> FileRoot:
        place = self._place(job)
        if name == WORKDIR:
            folder = get_workdir(job, place.folder)
            if folder == "~" or folder.startswith("~/"):
                folder = self._accounts.get_account(job.owner).home + folder[1:]
        else:
            folder = f"{place.folder}/{name}"
            if job.array_task_id is not None:
                folder += f"/{job.array_task_id}"
        return FileRoot(account=place.account, folder=folder)

    async def _read_parts(
        self, root: FileRoot, path: str, etag: str, start: int, end: int
    ) -> AsyncGenerator[bytes, None]:
        offset = start
        while offset < end:
            limit = min(PART_BYTES, end - offset)
            data = await self._files.read_part(root, path, etag=etag, offset=offset, limit=limit)
            if not data:
                raise AitneError(f"The file {path} ended early.")
            yield data
            offset += len(data)


def _make_folder_error(area: str, path: bytes) -> Conflict:
    name = path.decode("ascii", "replace")[:400]
    return Conflict(f"This is a folder. Its list is at /files/{area}/{name}/, with a final slash.")
