"""The user's storage areas: home, scratch, projects, and their quotas."""

from __future__ import annotations

from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from aitne.client.api_session import ApiSession


class AreaRecord(Record):
    """Storage area of the user or of a project."""

    name: str
    """Name of the area, such as ``home`` or ``scratch``."""
    kind: str
    """``user`` for a user's own folder, ``project`` for a folder that a project's members share."""
    path: str
    adapter: str
    """Kind of storage system, such as ``posix``, ``nfs`` or ``beegfs``."""
    project: str | None
    """Project that the folder belongs to; None: it belongs to the user."""


class QuotaRecord(Record):
    """Quota on a file system."""

    used_bytes: int | None
    """Number of bytes in use; None: unknown."""
    limit_bytes: int | None
    """Maximum number of bytes; None: no limit."""
    used_files: int | None
    """Number of files in use; None: unknown."""
    limit_files: int | None
    """Maximum number of files; None: no limit."""


class AreaFactsRecord(Record, area=AreaRecord, user_quota=QuotaRecord, project_quota=QuotaRecord):
    """State of a storage area. A value that could not be determined is None."""

    area: AreaRecord
    available: bool
    """Whether the folder exists and its file system is mounted."""
    writable: bool
    """Whether the user may write to the folder."""
    file_system: str | None
    """Type of the file system, such as ``ext4`` or ``nfs4``."""
    total_bytes: int | None
    """Size of the file system."""
    free_bytes: int | None
    """Free space of the file system."""
    user_quota: QuotaRecord | None
    """Quota of the user; None: no quota, or unknown."""
    project_quota: QuotaRecord | None
    """Quota of the project; None: no quota, or unknown."""
    striping: dict[str, Any] | None
    """Distribution of files over storage targets; None: not a parallel file system."""
    targets: list[dict[str, Any]]
    """Storage targets of a parallel file system; empty for other file systems."""
    problem: str | None
    """Sentence about a problem or a value that could not be determined; None: no problem."""
    there: bool  # deprecated
    """Deprecated alias of ``available``."""


class StorageViewRecord(Record, areas=AreaFactsRecord):
    """Storage areas of the user, and problems with them."""

    account: str | None
    """Unix account whose areas are listed; None: the user has none, and ``problems`` states the
    reason.
    """
    areas: list[AreaFactsRecord]
    problems: list[str]
    as_of: datetime
    """Time at which the values were determined."""


class JobFoldersRecord(Record):
    """Total disk space of the job folders of the user's ended jobs, as measured when each job
    ended.
    """

    jobs: int
    """Number of ended jobs whose folder was measured."""
    size_bytes: int
    files: int
    """Number of files and folders."""


class StorageAreas:
    """Operations on storage areas, as ``client.storage``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def get(self, project: str | None = None) -> StorageViewRecord:
        """Return the user's own areas and the areas of ``project``, or of all the user's projects
        if ``project`` is None.

        Raises ``NotFound`` for a project that the user is not a member of.
        """
        return StorageViewRecord(
            self._session.request_json("GET", "/storage", query={"project": project})
        )

    def jobs(self) -> JobFoldersRecord:
        """Return the total disk space of the job folders of the user's ended jobs."""
        return JobFoldersRecord(self._session.request_json("GET", "/storage/jobs"))
