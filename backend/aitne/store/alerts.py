"""Store of alerts of the monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Delete, Update, and_, delete, func, or_, select, update

from aitne.core.models.alert import AlertStatus, PlatformAlert
from aitne.store.admin_tables import alerts as _alerts
from aitne.store.database import Transaction
from aitne.store.portable_sql import upsert
from aitne.store.store_part import MOST_IDS, StorePart, split_into_batches

ALERT_CHANGED = "alert.changed"
# Twice the interval at which Alertmanager repeats an alert that fires (repeat_interval in
# monitoring/alertmanager), and an hour for delays.
_FIRING_KEPT = timedelta(hours=25)
_RESOLVED_KEPT = timedelta(days=7)


class AlertStore(StorePart):
    """Storage of the alerts that Alertmanager has sent, one for each fingerprint."""

    async def save_alerts(self, alerts: Sequence[PlatformAlert], *, max_firing: int) -> int:
        """Store alerts whose status has changed, and append an event for each; of the others that
        fire, note that they were seen.

        An alert that is stored with the same status and start, or with a later start, is not
        changed, and neither is a resolved alert that is not stored. Resolved alerts are always
        stored; an alert that begins to fire is dropped if ``max_firing`` are firing already. Alerts that
        were not repeated for long are forgotten first.

        Returns the number of alerts that were dropped.
        """
        async with self._db.write() as tx:
            await tx.acquire_lock("alerts")
            await tx.execute(make_old_alerts_delete(self._clock()))
            stored = await _read_alerts(tx, [alert.fingerprint for alert in alerts])
            count = select(func.count()).where(_alerts.c.status == AlertStatus.FIRING)
            firing = (await tx.execute(count)).scalar_one()
            dropped = 0
            # Resolved ones first, which make room.
            for alert in sorted(alerts, key=lambda alert: alert.status is AlertStatus.FIRING):
                known = stored.get(alert.fingerprint)
                if not _is_status_change(known, alert):
                    if known is not None and known.status is alert.status:
                        await tx.execute(_make_seen_at_update(alert))
                    continue
                fired = known is not None and known.status is AlertStatus.FIRING
                fires = alert.status is AlertStatus.FIRING
                if fires and not fired and firing >= max_firing:
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

    async def find_alert(self, fingerprint: str) -> PlatformAlert | None:
        """Return the alert with this fingerprint; None if there is none."""
        query = select(_alerts).where(_alerts.c.fingerprint == fingerprint)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else PlatformAlert.model_validate(dict(row))


def make_old_alerts_delete(now: datetime) -> Delete:
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


def _make_seen_at_update(alert: PlatformAlert) -> Update:
    same = _alerts.c.fingerprint == alert.fingerprint
    return update(_alerts).where(same).values(seen_at=alert.seen_at)


async def _read_alerts(tx: Transaction, fingerprints: Sequence[str]) -> dict[str, PlatformAlert]:
    found = {}
    for some in split_into_batches(fingerprints, MOST_IDS):
        query = select(_alerts).where(_alerts.c.fingerprint.in_(some))
        for row in (await tx.execute(query)).mappings():
            found[row["fingerprint"]] = PlatformAlert.model_validate(dict(row))
    return found


def _is_status_change(stored: PlatformAlert | None, alert: PlatformAlert) -> bool:
    if stored is None:
        return alert.status is AlertStatus.FIRING
    if alert.starts_at < stored.starts_at:
        return False  # a message that was delayed
    return alert.status is not stored.status or (
        alert.status is AlertStatus.FIRING and alert.starts_at > stored.starts_at
    )
