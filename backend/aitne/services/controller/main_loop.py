"""Main loop of the controller: acquire the lease, then submit, poll and connect."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.errors import SchedulerUnavailable, StaleEpoch, StoreUnavailable
from aitne.core.ports.accounting import Accounting
from aitne.core.ports.hub import Hub
from aitne.core.ports.job_files import JobFiles
from aitne.core.ports.scheduler import Scheduler
from aitne.core.retention import RetentionSettings
from aitne.services.controller.controller_counters import ControllerCounters, CountedScheduler
from aitne.services.controller.ended_job_deletion import RetentionWatch
from aitne.services.controller.job_energy_recording import EnergyWatch
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.load_sampler import LoadSampler
from aitne.services.controller.maintenance_and_announcement_schedule import ScheduleWatch
from aitne.services.controller.maintenance_hold_and_drain import MaintenanceDrain
from aitne.services.controller.notification_tasks import NotificationConfig, NotificationTasks
from aitne.services.controller.outbox_actions import OutboxActions
from aitne.services.controller.outside_job_watch import OutsideConfig, OutsideWatch
from aitne.services.controller.poller import Poller
from aitne.services.controller.project_expiry import ProjectWatch
from aitne.services.controller.project_limit_sync import LimitWatch
from aitne.services.controller.rank_group_cleanup import RankGroupWatch
from aitne.services.controller.restored_jobs import RestoredJobs
from aitne.services.controller.session_connector import SessionConnector
from aitne.services.controller.session_reminders import SessionReminderWatch
from aitne.services.controller.submitter import Submitter
from aitne.services.controller.topology_source_reader import TopologyConfig, TopologyWatch
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.projects.monthly_usage import UsageMonths
from aitne.store import Store

log = logging.getLogger(__name__)

STORE_RETRY_S = 1.0
FOLLOW_S = 5.0
FOLLOW_PAUSE_S = 0.02
LEAST_BETWEEN_POLLS_S = 0.1
"""Minimum seconds between polls, even if the scheduler reports changes more often."""
BETWEEN_CANCELLATION_POLLS_S = 1.0
"""Minimum seconds between the additional polls after cancellations, which do not wait for the poll
interval.
"""
PRUNE_EVERY = timedelta(hours=1)
KEEP_EVENTS = timedelta(days=90)
KEEP_IDEMPOTENCY_KEYS = timedelta(days=2)


class Controller:
    """Main loop of a controller: waits for the lease, then submits, polls and cancels jobs as the
    leader. ``run`` returns only when it is cancelled.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        files: JobFiles,
        hub: Hub,
        renderer: Renderer,
        clock: Callable[[], datetime],
        *,
        holder: str,
        sessions_url: str,
        poll_interval_s: float,
        accounting: Accounting | None = None,
        notifications: NotificationConfig | None = None,
        outside: OutsideConfig | None = None,
        retention: RetentionSettings | None = None,
        topology: TopologyConfig | None = None,
    ) -> None:
        self._store = store
        counts = ControllerCounters()
        self._leader = leader = Leader(store, holder, counts)
        self._limits = LimitWatch(store, scheduler, accounting, leader, clock)
        topology = topology or TopologyConfig()
        self._topology = TopologyWatch(store, scheduler, topology, leader, clock)
        self._scheduler = scheduler = CountedScheduler(scheduler, counts)
        self._clock = clock
        self._poll_interval_s = poll_interval_s
        self._cancellation_polled_at = float("-inf")
        self._live = live = LiveJobs(store)
        self._restored = restored = RestoredJobs(store)
        self._submitter = Submitter(
            store,
            scheduler,
            files,
            renderer,
            leader,
            clock,
            counts,
            live,
            restored,
            network=topology.conf,
        )
        outside = outside or OutsideConfig()
        self._actions = OutboxActions(store, scheduler, leader, clock, outside.jobs)
        self._outside = OutsideWatch(store, outside, leader, clock)
        self._poller = Poller(
            store,
            scheduler,
            files,
            renderer.get_location,
            leader,
            clock,
            counts,
            live,
            restored,
            refusal=self._submitter.refusal,
        )
        self._reminder = SessionReminderWatch(store, live, clock)
        self._rank_groups = RankGroupWatch(store, live, clock)
        self._telling = NotificationTasks(
            notifications or NotificationConfig(),
            store,
            files,
            renderer.get_location,
            leader,
            live,
            clock,
        )
        self._retention = RetentionWatch(
            store, files, renderer.get_location, leader, clock, retention or RetentionSettings()
        )
        self._timetable = ScheduleWatch(store, clock)
        self._load = LoadSampler(store, leader, clock)
        self._node_hold = MaintenanceDrain(store, scheduler, clock)
        months = UsageMonths(store, accounting, clock)
        self._energy = EnergyWatch(store, accounting, leader, clock)
        self._projects = ProjectWatch(store, months, leader, clock)
        self._connector_parts = (store, hub, scheduler, leader, live, clock, sessions_url)

    async def run(self) -> None:
        """Act as leader until the lease is lost, then wait for the lease again."""
        while True:
            await self._leader.acquire()
            try:
                await self._run_as_leader()
            except* StaleEpoch:
                log.warning("Another controller leads now; waiting.")
            except* StoreUnavailable as errors:
                log.warning("The database does not answer: %s", errors.exceptions[0])
                await asyncio.sleep(STORE_RETRY_S)

    async def end_lease_of(self, holder: str) -> None:
        """End the lease of the controller ``holder``, which is known to be dead, so that this
        controller need not wait until the lease expires.
        """
        await self._leader.end_lease(holder)

    async def release(self) -> None:
        """Release the lease after ``run`` was cancelled, so that another controller can become the
        leader at once.
        """
        await self._leader.release()

    async def _run_as_leader(self) -> None:
        connector = SessionConnector(*self._connector_parts)
        try:
            await self._live.load()
            await self._restored.load()
            await self._rank_groups.cancel_released()
            connector.resume()
            # Separate tasks: a submission that hangs delays neither a cancellation nor a session.
            async with asyncio.TaskGroup() as group:
                group.create_task(self._leader.renew_lease())
                group.create_task(self._follow_changes(connector))
                group.create_task(self._submitter.run())
                group.create_task(self._actions.run())
                group.create_task(self._poll_scheduler())
                group.create_task(self._prune_old_records())
                group.create_task(self._limits.run())
                group.create_task(self._reminder.run())
                group.create_task(self._telling.run())
                group.create_task(self._projects.run())
                group.create_task(self._timetable.run())
                group.create_task(self._node_hold.run())
                group.create_task(self._load.run())
                group.create_task(self._energy.run())
                group.create_task(self._outside.run())
                group.create_task(self._retention.run())
                group.create_task(self._topology.run())
        finally:
            await connector.close()

    async def _follow_changes(self, connector: SessionConnector) -> None:
        """Read the changes that other processes have written to the database, and pass them to the
        components of the controller.
        """
        while True:
            events = await self._live.catch_up()
            await self._rank_groups.on_events(events)
            for event in events:
                self._limits.on_event(event)
                self._retention.on_event(event)
                await connector.on_event(event)
            if connector.interrupted:
                connector.resume()
            # The next change is read at once, those that follow it within the pause together.
            await asyncio.sleep(FOLLOW_PAUSE_S)
            await self._store.wait_for_change(FOLLOW_S)

    async def _poll_scheduler(self) -> None:
        # A scheduler that reports changes is polled again at once: that is cheap.
        tells = after_cancellation = False
        while True:
            answered = await self._poller.poll()
            if answered and after_cancellation and self._poller.behind:
                self._actions.cancelled.set()  # the answer was newer than the rows it is about
            await asyncio.sleep(LEAST_BETWEEN_POLLS_S)
            if tells and self._poller.behind:
                continue
            cancelled = asyncio.ensure_future(self._wait_for_cancellation())
            try:
                async with asyncio.timeout(self._poll_interval_s - LEAST_BETWEEN_POLLS_S):
                    tells |= await self._wait_for_change(cancelled)
            except TimeoutError:
                continue
            finally:
                after_cancellation = cancelled.done()
                cancelled.cancel()

    async def _wait_for_change(self, cancelled: asyncio.Future[None]) -> bool:
        """Wait until the scheduler reports a change, or ``cancelled`` is done. Returns whether the
        scheduler reported a change.
        """
        reported = asyncio.ensure_future(self._scheduler.wait_for_change())
        try:
            await asyncio.wait({reported, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if not reported.done():
                return False
            reported.result()
        except SchedulerUnavailable:
            await cancelled
            return False
        finally:
            reported.cancel()
        return True

    async def _wait_for_cancellation(self) -> None:
        """Wait until a job has been cancelled in the scheduler.

        Returns at most once in ``BETWEEN_CANCELLATION_POLLS_S`` seconds.
        """
        await self._actions.cancelled.wait()
        pause = self._cancellation_polled_at + BETWEEN_CANCELLATION_POLLS_S - time.monotonic()
        await asyncio.sleep(max(0.0, pause))
        self._actions.cancelled.clear()
        self._cancellation_polled_at = time.monotonic()

    async def _prune_old_records(self) -> None:
        while True:
            now = self._clock()
            await self._store.delete_old_records(
                events_before=now - KEEP_EVENTS, idempotency_before=now - KEEP_IDEMPOTENCY_KEYS
            )
            await asyncio.sleep(PRUNE_EVERY.total_seconds())
