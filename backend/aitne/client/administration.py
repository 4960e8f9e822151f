"""Operations for administrators: audit log, health, settings, announcements and maintenance."""

from __future__ import annotations

import builtins

from aitne.client.admin_records import (
    AnnouncementRecord,
    AuditCheckRecord,
    AuditEntryRecord,
    HealthRecord,
    MaintenanceRecord,
    SettingRecord,
)
from aitne.client.api_session import ApiSession, quote_segment
from aitne.client.deprecated_names import resolve_deprecated_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from typing import Any

EXPORT_SILENCE_S = 60.0


class Audit:
    """Operations on the audit log, as ``client.audit``; administrators only."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(
        self,
        *,
        limit: int | None = None,
        **where: str | datetime | None,
    ) -> Iterator[AuditEntryRecord]:
        """Iterate over entries of the audit log, newest first.

        ``limit`` is the maximum number of entries; None: all. ``where`` contains filters:
        ``actor``, ``action``, ``object``, ``outcome``, ``since`` and ``until``. ``most`` is a
        deprecated alias of ``limit``.
        """
        limit = resolve_deprecated_limit(limit, where.pop("most", None))
        return map(
            AuditEntryRecord,
            self._session.list_pages("/admin/audit", _make_query(where), limit=limit),
        )

    def export(
        self,
        *,
        as_csv: bool = False,
        **where: str | datetime | None,
    ) -> Iterator[bytes]:
        """Download the audit log as a file, oldest entry first, and yield its chunks.

        The file contains JSON lines, or CSV if ``as_csv`` is True. ``where`` contains the filters
        of ``list``.
        """
        reply = self._session.open_stream(
            "/admin/audit/export",
            query={**_make_query(where), "format": "csv" if as_csv else "jsonl"},
            timeout_s=EXPORT_SILENCE_S,
        )
        try:
            yield from reply.chunks()
        finally:
            reply.close()

    def check(self) -> AuditCheckRecord:
        """Verify the hash chain of the audit log on the platform and return the result, which shows
        whether entries were changed or removed.
        """
        return AuditCheckRecord(self._session.request_json("GET", "/admin/audit/check"))


class Announcements:
    """Operations on announcements, as ``client.announcements``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> list[AnnouncementRecord]:
        """Return the user's current announcements, the most important first."""
        answer = self._session.request_json("GET", "/announcements")
        return [AnnouncementRecord(item) for item in answer["items"]]

    def all(self) -> Iterator[AnnouncementRecord]:
        """Iterate over all announcements, including past and future ones; administrators only."""
        return map(AnnouncementRecord, self._session.list_pages("/announcements", {"all": True}))

    def get(self, announcement_id: str) -> AnnouncementRecord:
        """Return one announcement. Raises ``NotFound``."""
        return AnnouncementRecord(self._session.request_json("GET", _get_path(announcement_id)))

    def create(
        self,
        text: str,
        *,
        severity: str = "info",
        projects: Sequence[str] = (),
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> AnnouncementRecord:
        """Publish an announcement to all users, or to the members of ``projects``; administrators
        only.

        ``severity`` is ``info``, ``warning`` or ``critical``. It is shown from ``starts_at`` (None:
        now) until ``ends_at`` (None: until it is deleted).
        """
        body: dict[str, Any] = {"text": text, "severity": severity, "projects": [*projects]}
        body |= _format_times(starts_at=starts_at, ends_at=ends_at)
        return AnnouncementRecord(self._session.request_json("POST", "/announcements", body=body))

    def change(self, announcement_id: str, **changes: Any) -> AnnouncementRecord:
        """Change fields of an announcement: ``text``, ``severity``, ``projects``, ``starts_at`` or
        ``ends_at``. Other fields keep their values. Administrators only."""
        body = {name: _to_query_value(value) for name, value in changes.items()}
        return AnnouncementRecord(
            self._session.request_json("PATCH", _get_path(announcement_id), body=body)
        )

    def delete(self, announcement_id: str) -> None:
        """Delete an announcement; administrators only. Raises ``NotFound``."""
        self._session.request_json("DELETE", _get_path(announcement_id))

    def dismiss(self, announcement_id: str) -> None:
        """Hide an announcement from this user. Raises ``Conflict`` for a critical one."""
        self._session.request_json(
            "PUT", f"{_get_path(announcement_id)}/dismissal", repeatable=True
        )


class MaintenanceSwitch:
    """Operations on maintenance, as ``client.maintenance``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def status(self) -> MaintenanceRecord:
        """Return whether maintenance is off, scheduled or on, and the time of the next change."""
        return MaintenanceRecord(self._session.request_json("GET", "/maintenance"))

    def on(
        self,
        message: str = "",
        *,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> MaintenanceRecord:
        """Start maintenance now or at ``starts_at``; administrators only. New jobs are held until
        it ends."""
        body = {"message": message, **_format_times(starts_at=starts_at, ends_at=ends_at)}
        return MaintenanceRecord(self._session.request_json("PUT", "/maintenance", body=body))

    def off(self) -> MaintenanceRecord:
        """End maintenance, or cancel a scheduled one, so that held jobs start; administrators
        only."""
        return MaintenanceRecord(self._session.request_json("DELETE", "/maintenance"))


class Administration:
    """Health and settings of the platform, as ``client.admin``; administrators only."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def health(self) -> HealthRecord:
        """Return the state of every part of the platform, the most serious problem first."""
        return HealthRecord(self._session.request_json("GET", "/admin/health"))

    def import_topology(self, name: str, content: str, *, node: str | None = None) -> None:
        """Import a topology file. A file that was imported under the same name is replaced.

        ``content`` is the text of the file. ``node`` is the node that the file describes; None: the
        file names its nodes itself. Raises ``InvalidInput``.
        """
        body = {"content": content, "node": node}
        self._session.request_json("PUT", f"/admin/topology/{quote_segment(name)}", body=body)

    def forget_topology(self, name: str) -> None:
        """Remove an imported topology. Raises ``NotFound``."""
        self._session.request_json("DELETE", f"/admin/topology/{quote_segment(name)}")

    def settings(self) -> builtins.list[SettingRecord]:
        """Return every setting with the source of its value. Secrets are masked."""
        return [
            SettingRecord(item)
            for item in self._session.request_json("GET", "/admin/settings")["items"]
        ]


def _get_path(announcement_id: str) -> str:
    return f"/announcements/{quote_segment(announcement_id)}"


def _to_query_value(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _format_times(**times: datetime | None) -> dict[str, str]:
    return {name: time.isoformat() for name, time in times.items() if time is not None}


def _make_query(conditions: dict[str, str | datetime | None]) -> dict[str, str | None]:
    return {name: _to_query_value(value) for name, value in conditions.items()}
