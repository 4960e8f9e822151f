"""Store of alerts of the monitoring."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from typing_extensions import override

from aitne.adapters.store.admin_tables import alerts as _alerts
from aitne.adapters.store.base import MOST_IDS, StorePart, batched
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.portable import upsert
from aitne.core.errors import Conflict
from aitne.core.models.alert import AlertStatus, PlatformAlert
from aitne.core.ports.store.alerts import AlertStore

ALERT_CHANGED = "alert.changed"


class AlertRecords(StorePart, AlertStore):
    """Implementation of ``AlertStore`` in SQL."""

    @override
    async def save_alerts(self, alerts: Sequence[PlatformAlert], *, most: int) -> int:
        async with self._db.write() as tx:
            await tx.take("alerts")
            stored = await _stored(tx, [alert.fingerprint for alert in alerts])
            changed = 0
            for alert in alerts:
                if not _is_news(stored.get(alert.fingerprint), alert):
                    continue
                stored[alert.fingerprint] = alert
                await tx.execute(upsert(tx.dialect, _alerts, dict(alert), ["fingerprint"]))
                # All users may read the event, so it has no details.
                data = {
                    "fingerprint": alert.fingerprint,
                    "changed_at": alert.changed_at.isoformat(),
                }
                tx.append_event(ALERT_CHANGED, data)
                changed += 1
            firing = select(func.count()).where(_alerts.c.status == AlertStatus.FIRING)
            if changed and (await tx.execute(firing)).scalar_one() > most:
                raise Conflict(
                    f"More than {most} alerts are firing, which is the maximum. Check the rules of "
                    "Prometheus."
                )
        return changed

    @override
    async def alert(self, fingerprint: str) -> PlatformAlert | None:
        query = select(_alerts).where(_alerts.c.fingerprint == fingerprint)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else PlatformAlert.model_validate(dict(row))


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
