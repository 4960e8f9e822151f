"""Tasks of the controller for notifications, kept apart from the code that processes jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aitne.core.models.job import Job
from aitne.core.notifications.settings import IdleSettings
from aitne.core.ports.channel import Channel
from aitne.core.ports.job_files import JobFiles, JobLocation
from aitne.services.controller.audit_forwarder import AuditForwarder, LineReceiver
from aitne.services.controller.idle_gpu_reports import GpuWatch
from aitne.services.controller.idle_sessions import IdleWatch
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.notification_creator import NotificationCreator
from aitne.services.controller.notification_dispatcher import NotificationDispatcher
from aitne.store import Store


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """Settings and adapters of the platform that the controller needs to create and send
    notifications.
    """

    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Notification channels, such as mail, by name."""
    portal_url: str = ""
    """URL of the portal, for links in messages."""
    idle: IdleSettings = field(default_factory=IdleSettings)
    audit_receiver: LineReceiver | None = None
    """Receiver of the audit log outside of the platform; None: the log is not forwarded."""


class NotificationTasks:
    """Tasks of the controller that detect idle jobs, create notifications and send them."""

    def __init__(
        self,
        config: NotificationConfig,
        store: Store,
        files: JobFiles,
        place: Callable[[Job], JobLocation],
        leader: Leader,
        live: LiveJobs,
        clock: Callable[[], datetime],
    ) -> None:
        self.notifier = NotificationCreator(
            store, files, place, leader, clock, config.channels, config.portal_url
        )
        self.deliverer = NotificationDispatcher(store, leader, clock, config.channels)
        self.idle = IdleWatch(store, live, leader, clock)
        self.gpus = GpuWatch(store, live, leader, clock, config.idle)
        receiver = config.audit_receiver
        self.audit = None if receiver is None else AuditForwarder(store, leader, receiver)

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.notifier.run())
            group.create_task(self.deliverer.run())
            group.create_task(self.idle.run())
            group.create_task(self.gpus.run())
            if self.audit is not None:
                group.create_task(self.audit.run())
