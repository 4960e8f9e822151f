"""Creation of notifications from events.

Events after the stored position are read from the event log. Their notifications are written in the
transaction that moves the position, so each event causes its notifications once, even if another
controller becomes the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from aitne.core.errors import AitneError, Conflict, NotFound, StaleEpoch
from aitne.core.jobs.failure_explanation import LOG_BYTES
from aitne.core.jobs.log_lines import LogLine, split_log_lines
from aitne.core.models.alert import AlertStatus
from aitne.core.models.event import Event
from aitne.core.models.job import Job
from aitne.core.models.notification import (
    BROWSER,
    NewDelivery,
    NewNotification,
    NotificationChoices,
    NotificationContent,
    make_message,
)
from aitne.core.ports.channel import Channel, ChannelRecipient
from aitne.core.ports.job_files import JobFiles, JobLocation
from aitne.services.controller.leader import Leader
from aitne.services.notifications import notification_texts
from aitne.store import Store

log = logging.getLogger(__name__)

CURSOR = "notifications"
FOLLOW_S = 5.0
PAUSE_S = 0.1
"""Seconds to wait after a change, so that the events of many changes are processed together."""
BATCH = 500
BEHIND = 1_000
"""Number of processed events without recipients after which the position is stored anyway."""
LOG_WITHIN_S = 5.0
LOGS_REST = timedelta(minutes=1)
"""Pause in reading logs after a log could not be read in time.

During an outage of a file server, the logs of many failed jobs would otherwise delay all
notifications and occupy the process's threads.
"""
_ANNOUNCED = "announcement.changed"
_MAINTAINED = "maintenance.changed"
_WEBHOOK = "webhook.disabled"
_ACCOUNT_SECURITY = "account.security"
_ALERT = "alert.changed"


class NotificationCreator:
    """Task that reads the event log and creates notifications from it, while this controller is the
    leader.
    """

    def __init__(
        self,
        store: Store,
        files: JobFiles,
        place: Callable[[Job], JobLocation],
        leader: Leader,
        clock: Callable[[], datetime],
        channels: Mapping[str, Channel],
        portal_url: str,
    ) -> None:
        self._store = store
        self._files = files
        self._place = place
        self._leader = leader
        self._clock = clock
        self._channels = {
            name: channel for name, channel in channels.items() if channel.is_available
        }
        self._portal_url = portal_url
        self._logs_rest_until: datetime | None = None

    async def run(self) -> None:
        """Create notifications from new events until cancelled."""
        stored = position = await self._store.get_event_cursor(CURSOR)
        while True:
            try:
                stored, position = await self.process_events(stored, position)
            except StaleEpoch:
                raise
            except Conflict as error:
                log.warning("%s", error.message)
                stored = position = await self._store.get_event_cursor(CURSOR)
            if position >= await self._store.get_last_event_id():
                await asyncio.sleep(PAUSE_S)
                await self._store.wait_for_change(FOLLOW_S)

    async def process_events(self, stored: int, position: int) -> tuple[int, int]:
        """Process some events after the event ID ``position``; ``stored`` is the ID up to which
        events are processed according to the database.

        Return the new values of ``stored`` and ``position``. Raises ``StaleEpoch`` or ``Conflict``
        if another controller is the leader.
        """
        events = await self._store.list_events_after(position, limit=BATCH)
        if not events:
            return stored, position
        notifications: list[NewNotification] = []
        known_subjects: set[tuple[str, str]] = set()
        for event in events:
            event_notifications = await self._notifications_of(event)
            # Several changes of one subject within a batch cause one notification.
            subjects = {
                (notification.notice.kind, notification.notice.path)
                for notification in event_notifications
            }
            if event.kind in (_ANNOUNCED, _MAINTAINED) and subjects <= known_subjects:
                continue
            notifications += event_notifications
            known_subjects |= subjects
        position = events[-1].id
        if notifications or position - stored >= BEHIND:
            await self._store.add_notifications(
                notifications, cursor=CURSOR, since=stored, until=position, epoch=self._leader.epoch
            )
            stored = position
        return stored, position

    async def _notifications_of(self, event: Event) -> Sequence[NewNotification]:
        notice, names = await self._make_content(event)
        if notice is None:
            return ()
        people = await self._store.list_recipients(names)
        if event.kind in ("project.requested", _ALERT):
            people = [
                user for user in people if user.admin and user.name != event.data.get("actor")
            ]
        if not people:
            return ()
        reached = [user.name for user in people]
        choices = await self._store.list_notification_choices(reached)
        hooks = await self._store.list_enabled_webhooks(reached)
        notifications = []
        for user in people:
            user_hooks = tuple(hook for hook in hooks if hook.owner == user.name)
            person = ChannelRecipient(name=user.name, mail=user.mail, webhooks=user_hooks)
            notifications.append(
                self._make_notification(person, event, notice, choices.get(user.name))
            )
        return notifications

    def _make_notification(
        self,
        person: ChannelRecipient,
        event: Event,
        notice: NotificationContent,
        chosen: NotificationChoices | None,
    ) -> NewNotification:
        choices = chosen or NotificationChoices()
        quiet = choices.quiet_until is not None and self._clock() < choices.quiet_until
        message = make_message(
            notice,
            owner=person.name,
            event_id=event.id,
            time=event.time.isoformat(),
            url=f"{self._portal_url}{notice.path}",
        )
        deliveries = [
            NewDelivery(channel=name, owner=person.name, target=target, message=message)
            for name, channel in self._channels.items()
            if not quiet and choices.wants(notice.kind, name)
            for target in channel.list_targets(person)
        ]
        return NewNotification(
            owner=person.name,
            event_id=event.id,
            notice=notification_texts.for_inbox(notice),
            inbox=choices.wants(notice.kind, BROWSER),
            popup=not quiet,
            deliveries=tuple(deliveries),
        )

    async def _make_content(
        self, event: Event
    ) -> tuple[NotificationContent | None, Sequence[str] | None]:
        """Return the content of the notification about the event, and the names of its recipients.

        Content None means that there is no notification; recipients None means all users.
        """
        if event.kind in notification_texts.JOB_EVENTS and event.job_id is not None:
            return await self._make_job_content(event), [event.owner or ""]
        if event.kind == "project.requested":
            return notification_texts.make_project_notification(event), None
        if event.kind == "project.expiring":
            return notification_texts.make_project_notification(
                event
            ), await self._store.list_project_members(event.project or "")
        if event.kind in notification_texts.PROJECT_EVENTS:
            return notification_texts.make_project_notification(event), [
                str(event.data.get("user") or event.owner or "")
            ]
        if event.kind == _ANNOUNCED:
            return await self._make_announcement_content(str(event.data.get("id", "")))
        if event.kind == _MAINTAINED:
            return await self._make_maintenance_content(), None
        if event.kind == _WEBHOOK:
            return notification_texts.make_disabled_webhook_notification(event), [event.owner or ""]
        if event.kind == _ALERT:
            return await self._make_alert_content(event), None
        if event.kind == _ACCOUNT_SECURITY:
            return notification_texts.make_account_security_notification(event), [event.owner or ""]
        return None, ()

    async def _make_job_content(self, event: Event) -> NotificationContent | None:
        # The users of jobs from outside have those notified by the scheduler.
        if (
            event.job_id is None
            or "origin" in event.data
            or not notification_texts.may_notify_owner(event)
        ):
            return None
        try:
            job = await self._store.get_job(event.job_id)
        except NotFound:
            return None
        notice = notification_texts.make_job_notification(event, job, self._clock())
        if notice is not None and notification_texts.wants_log(notice) and not job.is_array:
            notice = notification_texts.with_log(notice, job, await self._last_lines(job))
        return notice

    async def _last_lines(self, job: Job) -> Sequence[LogLine]:
        """Return the last lines of the job's log.

        Empty if the log cannot be read now, because the notification is sent without it.
        """
        if self._logs_rest_until is not None and self._clock() < self._logs_rest_until:
            return ()
        try:
            async with asyncio.timeout(LOG_WITHIN_S):
                chunk = await self._files.read_log(
                    self._place(job), None, offset=-LOG_BYTES, limit=LOG_BYTES
                )
        except TimeoutError:
            log.info("The notification about job %s has no log: it was not read in time.", job.id)
            self._logs_rest_until = self._clock() + LOGS_REST
            return ()
        except AitneError as error:
            log.info("The notification about job %s has no log: %s", job.id, error)
            return ()
        return split_log_lines(chunk.data, chunk.offset)

    async def _make_announcement_content(
        self, name: str
    ) -> tuple[NotificationContent | None, Sequence[str] | None]:
        try:
            announcement = await self._store.get_announcement(name)
        except NotFound:
            return None, ()
        notice = notification_texts.make_announcement_notification(announcement)
        before = await self._store.find_last_notified_at(notice.kind, notice.path)
        if not announcement.is_current(self._clock()) or (
            before is not None and before >= announcement.updated_at
        ):
            return None, ()
        if not announcement.projects:
            return notice, None
        names = {
            n
            for project in announcement.projects
            for n in await self._store.list_project_members(project)
        }
        return notice, sorted(names)

    async def _make_maintenance_content(self) -> NotificationContent | None:
        window = await self._store.find_maintenance()
        if window is None or window.is_over(self._clock()):
            return None
        notice = notification_texts.make_maintenance_notification(window)
        return None if await self._store.find_last_notified_at(notice.kind, notice.path) else notice

    async def _make_alert_content(self, event: Event) -> NotificationContent | None:
        alert = await self._store.find_alert(str(event.data.get("fingerprint", "")))
        if alert is None or alert.changed_at.isoformat() != event.data.get("changed_at"):
            return None  # a later event is about its present status
        notice = notification_texts.make_alert_notification(alert)
        if alert.status is AlertStatus.RESOLVED:
            await self._store.mark_path_notifications_read(notice.kind, notice.path)
        return notice
