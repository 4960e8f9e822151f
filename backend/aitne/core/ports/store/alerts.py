"""Part of the store for alerts of the monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.alert import PlatformAlert


class AlertStore(Protocol):
    """Storage of the alerts that Alertmanager has sent, one for each fingerprint."""

    async def save_alerts(self, alerts: Sequence[PlatformAlert], *, most: int) -> int:
        """Store alerts whose status has changed, and append an event for each; of the others that
        fire, note that they were seen.

        An alert that is stored with the same status and start, or with a later start, is not
        changed, and neither is a resolved alert that is not stored. Resolved alerts are always
        stored; an alert that begins to fire is dropped if ``most`` are firing already. Alerts that
        were not repeated for long are forgotten first.

        Returns the number of alerts that were dropped.
        """
        ...

    async def alert(self, fingerprint: str) -> PlatformAlert | None:
        """Return the alert with this fingerprint; None if there is none."""
        ...
