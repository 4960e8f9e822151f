"""Restarts of the scheduler in which it lost its state, and with it running jobs."""

from __future__ import annotations

import logging
from datetime import datetime

from aitne.core.platform.metric_names import SCHEDULER_STATE_LOST
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.store import Store

log = logging.getLogger(__name__)

EVENT = "scheduler.state_lost"


class StateLoss:
    """Component that informs administrators once about each restart in which the scheduler lost
    running jobs: by an event, in the log, and by a metric on which health and an alert are based.
    """

    def __init__(self, store: Store, counts: ControllerCounters) -> None:
        self._store = store
        self._counts = counts
        self._last: datetime | None = None
        self._unreported: datetime | None = None

    def record_loss(self, lost_at: datetime | None) -> None:
        """Note that a run was lost in the restart at ``lost_at``; None: it was not lost so."""
        if lost_at is not None and lost_at != self._last:
            self._last = self._unreported = lost_at

    async def report(self) -> None:
        """Report a restart that was noted and not reported before.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        if self._unreported is None:
            return
        restarted_at = self._unreported.isoformat()
        await self._store.add_event(EVENT, {"restarted_at": restarted_at})
        self._counts.set_value(SCHEDULER_STATE_LOST, self._unreported.timestamp())
        log.error("The scheduler lost its state when it restarted at %s.", restarted_at)
        self._unreported = None
