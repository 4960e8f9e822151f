"""Effects of a maintenance: no job is submitted to the scheduler, and nodes start no new jobs.

Running jobs continue. Jobs that are not submitted to the scheduler yet remain pending in the
platform, with the reason in their message. Jobs that the scheduler already has remain pending
there, if the scheduler can drain nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from aitne.core.errors import NotSupported, SchedulerRejected, SchedulerUnavailable
from aitne.core.jobs.states import JobState
from aitne.core.models.announcement import Maintenance
from aitne.core.models.cluster import Node, NodeState
from aitne.core.models.job import JobChanges
from aitne.core.ports.scheduler import Scheduler
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.platform.maintenance import find_hold_reason
from aitne.store import Store
from aitne.store.transitions import TransitionRequest

log = logging.getLogger(__name__)

MARK = "Maintenance of the platform"
"""Prefix of the drain reason of nodes that this module drains; only nodes with this prefix are
resumed.
"""
LOOK_EVERY_S = 5.0
AT_ONCE = 500
"""Maximum number of pending jobs updated in one transaction, so that other writers are not
delayed.
"""
_WAITING = frozenset({JobState.PENDING_SUBMIT})
_TAKE_WORK = frozenset({NodeState.IDLE, NodeState.MIXED, NodeState.ALLOCATED})
_DRAINED = frozenset({NodeState.DRAINING, NodeState.DRAINED})


class SubmissionHold:
    """Component that prevents submissions during a maintenance, and stores the reason as the
    message of the pending jobs.
    """

    def __init__(
        self, store: Store, live: LiveJobs, leader: Leader, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._live = live
        self._leader = leader
        self._clock = clock

    async def find_hold_reason(self) -> str | None:
        """Return why no job may be submitted now; None if jobs may be submitted.

        A reason is also stored as the message of all pending jobs that are not submitted yet.
        """
        reason = find_hold_reason(await self._store.find_maintenance(), self._clock())
        if reason is not None:
            await self._store_reason(reason)
        return reason

    async def _store_reason(self, reason: str) -> None:
        moves = [
            TransitionRequest(entry.job.id, None, JobChanges(message=reason), since=_WAITING)
            for entry in self._live
            if entry.job.state in _WAITING
            and entry.job.message != reason
            and entry.job.cancel_requested_at is None
        ]
        for start in range(0, len(moves), AT_ONCE):
            some = moves[start : start + AT_ONCE]
            self._live.update(await self._store.apply_transitions(some, epoch=self._leader.epoch))


class MaintenanceDrain:
    """Task that drains nodes when a maintenance begins, and resumes the same nodes when it ends."""

    def __init__(self, store: Store, scheduler: Scheduler, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._scheduler = scheduler
        self._clock = clock
        self._cannot = False

    async def run(self) -> None:
        """Check every few seconds until cancelled; return if the scheduler cannot drain nodes."""
        while not self._cannot:
            await self.update_nodes()
            await asyncio.sleep(LOOK_EVERY_S)

    async def update_nodes(self) -> None:
        """Drain the nodes during a maintenance, otherwise resume the nodes that were drained for
        one.

        Errors of the scheduler are logged.
        """
        window = await self._store.find_maintenance()
        nodes = await self._store.list_nodes()
        try:
            if window is not None and window.is_in_progress(self._clock()):
                await self._drain_nodes(window, nodes)
            else:
                await self._resume_nodes(nodes)
        except NotSupported as error:
            log.info("Nodes are not drained during maintenance: %s", error.message)
            self._cannot = True
        except SchedulerUnavailable as error:
            log.warning("Nodes cannot be prepared for the maintenance yet: %s", error.message)

    async def _drain_nodes(self, window: Maintenance, nodes: Sequence[Node]) -> None:
        names = [node.name for node in nodes if node.state in _TAKE_WORK]
        if not names:
            return
        # A node that was resumed during the maintenance was resumed on purpose.
        drains = await self._store.list_last_drains()
        reason = f"{MARK}: {window.message}" if window.message else MARK
        for name in names:
            last = drains.get(name)
            if last is not None and last.time >= window.starts_at and last.reason == reason:
                continue
            try:
                await self._scheduler.drain(name, f"{reason} ({window.created_by})")
            except SchedulerRejected as error:
                log.warning("Node %s is not drained: %s", name, error.message)
                continue
            await self._store.record_node_action(
                name, "drain", actor=window.created_by, reason=reason
            )

    async def _resume_nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.state not in _DRAINED or not (node.reason or "").startswith(MARK):
                continue
            try:
                await self._scheduler.resume(node.name)
            except SchedulerRejected as error:
                log.warning("Node %s is not resumed: %s", node.name, error.message)
                continue
            await self._store.record_node_action(
                node.name, "resume", actor="aitne", reason="The maintenance is over."
            )
