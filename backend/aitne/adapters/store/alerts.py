"""Store of alerts of the monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Delete, Update, and_, delete, func, or_, select, update
from typing_extensions import override

from aitne.adapters.store.admin_tables import alerts as _alerts
from aitne.adapters.store.base import MOST_IDS, StorePart, batched
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.portable import upsert
from aitne.core.models.alert import AlertStatus, PlatformAlert
from aitne.core.ports.store.alerts import AlertStore

ALERT_CHANGED = "alert.changed"
# Twice the interval at which Alertmanager repeats an alert that fires (repeat_interval in
# monitoring/alertmanager), and an hour for delays.
_FIRING_KEPT = timedelta(hours=25)
_RESOLVED_KEPT = timedelta(days=7)


class AlertRecords(StorePart, AlertStore):
    """Implementation of ``AlertStore`` in SQL."""

    @override
    async def save_alerts(self, alerts: Sequence[PlatformAlert], *, most: int) -> int:
        async with self._db.write() as tx:
            await tx.take("alerts")
            await tx.execute(forget_alerts(self._clock()))
            stored = await _stored(tx, [alert.fingerprint for alert in alerts])
            count = select(func.count()).where(_alerts.c.status == AlertStatus.FIRING)
            firing = (await tx.execute(count)).scalar_one()
            dropped = 0
            # Resolved ones first, which make room.
            for alert in sorted(alerts, key=lambda alert: alert.status is AlertStatus.FIRING):
                known = stored.get(alert.fingerprint)
                if not _is_news(known, alert):
                    if known is not None and known.status is alert.status:
                        await tx.execute(_seen(alert))
                    continue
                fired = known is not None and known.status is AlertStatus.FIRING
                fires = alert.status is AlertStatus.FIRING
                if fires and not fired and firing >= most:
                    dropped += 1
                    continue
                firing += fires - fired
                stored[alert.fingerprint] = alert
                await tx.execute(upsert(tx.dialect, _alerts, dict(alert), ["fingerprint"]))
                # All users may read the event, so it has no details.
                data = {
                    "fingerprint": alert.fingerprint,
                    "changed_at": alert.changed_at.isoformat(),
                }
                tx.append_event(ALERT_CHANGED, data)
        return dropped

    @override
    async def alert(self, fingerprint: str) -> PlatformAlert | None:
        query = select(_alerts).where(_alerts.c.fingerprint == fingerprint)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else PlatformAlert.model_validate(dict(row))


def forget_alerts(now: datetime) -> Delete:
    """Return the statement that deletes the alerts of which Alertmanager has sent nothing for long:
    the message that a firing one is resolved may have been lost.
    """
    return delete(_alerts).where(
        or_(
            and_(
                _alerts.c.status == AlertStatus.FIRING,
                _alerts.c.seen_at < now - _FIRING_KEPT,
            ),
            _alerts.c.seen_at < now - _RESOLVED_KEPT,
        )
    )


def _seen(alert: PlatformAlert) -> Update:
    same = _alerts.c.fingerprint == alert.fingerprint
    return update(_alerts).where(same).values(seen_at=alert.seen_at)


async def _stored(tx: Transaction, fingerprints: Sequence[str]) -> dict[str, PlatformAlert]:
    found = {}
    for some in batched(fingerprints, MOST_IDS):
        query = select(_alerts).where(_alerts.c.fingerprint.in_(some))
        for row in (await tx.execute(query)).mappings():
            found[row["fingerprint"]] = PlatformAlert.model_validate(dict(row))
    return found


def _is_news(stored: PlatformAlert | None, alert: PlatformAlert) -> bool:
    if stored is None:
        return alert.status is AlertStatus.FIRING
    if alert.starts_at < stored.starts_at:
        return False  # a message that was delayed
    return alert.status is not stored.status or (
        alert.status is AlertStatus.FIRING and alert.starts_at > stored.starts_at
    )
