"""The user's storage areas: home, scratch, projects, and their quotas."""

from __future__ import annotations

from aitne.client.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from aitne.client.session import ApiSession


class AreaRecord(Record):
    """Storage area of the user or of a project."""

    name: str
    kind: str
    path: str
    adapter: str
    project: str | None


class QuotaRecord(Record):
    """Quota: use and limit of bytes and files. A limit of None means unlimited."""

    used_bytes: int | None
    limit_bytes: int | None
    used_files: int | None
    limit_files: int | None


class AreaFactsRecord(Record, area=AreaRecord, user_quota=QuotaRecord, project_quota=QuotaRecord):
    """Space and quotas of a storage area. A value that could not be determined is None."""

    area: AreaRecord
    available: bool
    writable: bool
    file_system: str | None
    total_bytes: int | None
    free_bytes: int | None
    user_quota: QuotaRecord | None
    project_quota: QuotaRecord | None
    striping: dict[str, Any] | None
    targets: list[dict[str, Any]]
    problem: str | None
    there: bool  # deprecated


class StorageViewRecord(Record, areas=AreaFactsRecord):
    """Storage areas of the user, and problems with them."""

    account: str | None
    areas: list[AreaFactsRecord]
    problems: list[str]
    as_of: datetime


class JobFoldersRecord(Record):
    """Disk space of the user's ended jobs' folders, measured when each job ended: number of jobs,
    bytes, files."""

    jobs: int
    size_bytes: int
    files: int


class StorageAreas:
    """Operations on storage areas, as ``client.storage``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def get(self, project: str | None = None) -> StorageViewRecord:
        """Return the user's own areas and the areas of ``project``, or of all the user's projects
        if ``project`` is None.

        Raises ``NotFound`` for a project that the user is not a member of.
        """
        return StorageViewRecord(self._session.json("GET", "/storage", query={"project": project}))

    def jobs(self) -> JobFoldersRecord:
        """Return the total disk space of the job folders of the user's ended jobs."""
        return JobFoldersRecord(self._session.json("GET", "/storage/jobs"))
