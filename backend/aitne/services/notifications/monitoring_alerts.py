"""Alerts of the monitoring system, about which administrators are notified."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from aitne.core.models.alert import AlertmanagerAlert, AlertmanagerMessage, PlatformAlert
from aitne.store.alerts import AlertStore

log = logging.getLogger(__name__)

MOST_FIRING = 1_000
"""Maximum number of alerts that fire at the same time."""
_SEVERITIES = frozenset({"critical", "warning"})
_LONGEST_LINE, _LONGEST_TEXT = 200, 2_000


class AlertService:
    """Service that stores the messages of Alertmanager. The controller creates notifications from
    the events that this appends.
    """

    def __init__(self, store: AlertStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def receive(self, message: AlertmanagerMessage) -> None:
        """Store the alerts of the message. A message that is sent again changes nothing."""
        now = self._clock()
        alerts = [_to_platform_alert(alert, now) for alert in message.alerts]
        dropped = await self._store.save_alerts(alerts, max_firing=MOST_FIRING)
        if dropped:
            log.warning(
                "%d alerts were dropped, because %d are firing, which is the maximum. Check the rules "
                "of Prometheus.",
                dropped,
                MOST_FIRING,
            )


def _to_platform_alert(alert: AlertmanagerAlert, now: datetime) -> PlatformAlert:
    name = _to_single_line(alert.labels.get("alertname", "")) or "alert"
    severity = alert.labels.get("severity", "")
    runbook_url = _to_single_line(alert.annotations.get("runbook_url", ""))
    return PlatformAlert(
        fingerprint=alert.fingerprint,
        status=alert.status,
        name=name,
        severity=severity if severity in _SEVERITIES else "info",
        summary=_to_single_line(alert.annotations.get("summary", "")) or name,
        description=_shorten_text(alert.annotations.get("description", "").strip(), _LONGEST_TEXT),
        runbook_url=runbook_url if runbook_url.startswith(("https://", "http://")) else None,
        starts_at=alert.starts_at,
        changed_at=now,
        seen_at=now,
    )


def _to_single_line(text: str) -> str:
    """Return the text as one line, without control characters, since it becomes the subject of a
    mail.
    """
    return _shorten_text(
        " ".join("".join(c if c.isprintable() else " " for c in text).split()), _LONGEST_LINE
    )


def _shorten_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
