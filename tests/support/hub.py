"""A Hub that fails on purpose."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from aitne.core.errors import AitneError


class RecordingHub:
    """Raises ``failures`` one after another, then works. Notes what was asked of it."""

    def __init__(self) -> None:
        self.failures: list[AitneError] = []
        self.started: list[tuple[str, str, UUID]] = []
        self.removed: list[tuple[str, str]] = []

    async def start_server(self, owner: str, server: str, job_id: UUID, title: str) -> None:
        """Record the start of a server, or raise the next failure."""
        self._fail()
        self.started.append((owner, server, job_id))

    async def remove_server(self, owner: str, server: str) -> None:
        """Record the removal of a server, or raise the next failure."""
        self._fail()
        self.removed.append((owner, server))

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


class RecordingLogins:
    """A Hub that ends logins, after ``failures``, and notes whose."""

    def __init__(self) -> None:
        self.failures: list[AitneError] = []
        self.ended: list[str] = []
        self.kept: list[frozenset[str]] = []
        """The sign-ins whose logins continued, for each entry of ``ended``."""

    async def end_logins(self, owner: str, kept: Collection[str] = ()) -> None:
        """Record the end of a user's logins, or raise the next failure."""
        if self.failures:
            raise self.failures.pop(0)
        self.ended.append(owner)
        self.kept.append(frozenset(kept))
