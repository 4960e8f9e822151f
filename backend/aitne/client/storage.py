"""The user's folders: home, scratch, projects, and their quotas."""

from __future__ import annotations

from aitne.client.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from aitne.client.session import Session


class Area(Record):
    """A folder of the user's or of a project's."""

    name: str
    kind: str
    path: str
    adapter: str
    project: str | None


class Quota(Record):
    """How much may be used and is; a limit of None is none."""

    used_bytes: int | None
    limit_bytes: int | None
    used_files: int | None
    limit_files: int | None


class AreaFacts(Record, area=Area, user_quota=Quota, project_quota=Quota):
    """What was found at an area; what could not be found out is None."""

    area: Area
    there: bool
    writable: bool
    file_system: str | None
    total_bytes: int | None
    free_bytes: int | None
    user_quota: Quota | None
    project_quota: Quota | None
    striping: dict[str, Any] | None
    targets: list[dict[str, Any]]
    problem: str | None


class StorageView(Record, areas=AreaFacts):
    """The user's areas, and what the user should know of them."""

    account: str | None
    areas: list[AreaFacts]
    problems: list[str]
    as_of: datetime


class Storage:
    """``client.storage``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, project: str | None = None) -> StorageView:
        """One's own folders and those of ``project``; of None, of all one's projects.

        Raises ``NotFound`` for a project of others.
        """
        return StorageView(self._session.json("GET", "/storage", query={"project": project}))
