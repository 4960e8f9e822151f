"""Tests of notifications: their recipients, one for each event, repeated until they are delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from aitne.core.errors import Conflict, DeliveryFailed, StaleEpoch, Unavailable
from aitne.core.jobs.log_lines import split_log_lines
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.announcement import Announcement, Maintenance, Severity
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.notification import (
    DeliveryState,
    NotificationChoices,
    NotificationContent,
    NotificationKind,
    Webhook,
)
from aitne.core.models.project import Project
from aitne.core.models.user import Role, User
from aitne.core.ports.channel import ChannelRecipient
from aitne.services.controller.leader import Leader
from aitne.services.controller.notification_creator import CURSOR, NotificationCreator
from aitne.services.controller.notification_dispatcher import (
    GIVEN_UP_IN_A_ROW,
    NotificationDispatcher,
)
from aitne.services.notifications import notification_texts
from tests.support.jobs import CREATED_AT, make_array, make_job, make_session
from tests.unit.controller.conftest import Bench

K = NotificationKind


class Wire:
    """A channel that a test holds the other end of."""

    is_available = True
    retry_period_s = 3_600.0

    def __init__(self, name: str = "mail") -> None:
        self.name = name
        self.sent: list[Mapping[str, Any]] = []
        self.failing: Exception | None = None

    def list_targets(self, person: ChannelRecipient) -> Sequence[str]:
        if self.name == "webhook":
            return [hook.id for hook in person.webhooks]
        return [""] if person.mail else []

    async def send(self, message: Mapping[str, Any], person: ChannelRecipient, target: str) -> int:
        if self.failing is not None:
            raise self.failing
        self.sent.append(message)
        return 250


async def person(b: Bench, name: str = "ada", **overrides: Any) -> None:
    user = User(name=name, default_project="vision", created_at=CREATED_AT, **overrides)
    await b.store.create_user(user, None, Project(name="vision", created_at=CREATED_AT))


def notifier(
    b: Bench, *channels: Wire, leader: Leader | None = None, files: Any = None
) -> NotificationCreator:
    return NotificationCreator(
        b.store,
        files or b.files,
        lambda job: place(b, job),
        leader or b.leader,
        b.clock,
        {each.name: each for each in channels},
        "https://portal.test",
    )


def place(b: Bench, job: Job) -> Any:
    from aitne.core.ports.job_files import JobLocation

    return JobLocation(job_id=job.array_job_id or job.id, attempt=job.attempt, folder="/jobs/x")


async def read(b: Bench, *channels: Wire, by: NotificationCreator | None = None) -> None:
    """Read all that there is, as a controller does that has just begun to lead."""
    told = by or notifier(b, *channels)
    kept = seen = await b.store.get_event_cursor(CURSOR)
    while seen < await b.store.get_last_event_id():
        kept, seen = await told.process_events(kept, seen)


async def runs(b: Bench, job: Job) -> Job:
    await b.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
        await b.store.transition_job(job.id, state)
    return await b.store.transition_job(job.id, JobState.RUNNING, JobChanges(started_at=b.clock()))


async def ends(
    b: Bench, job: Job, state: JobState, reason: TerminationReason, message: str | None = None
) -> None:
    changes = JobChanges(reason=reason, message=message, ended_at=b.clock())
    await b.store.transition_job(job.id, state, changes)


async def kinds(b: Bench, name: str = "ada") -> list[NotificationKind]:
    return [each.kind for each in reversed((await b.store.list_notifications(name)).items)]


async def titles(b: Bench, name: str = "ada") -> list[str]:
    return [each.title for each in reversed((await b.store.list_notifications(name)).items)]


class TestJobs:
    async def test_a_job_that_failed_says_why_with_the_last_lines_of_its_log(
        self, bench: Any
    ) -> None:
        b: Bench = await bench()
        await person(b, mail="ada@example.org")
        job = await runs(b, make_job(name="train"))
        b.files.write_log(
            job, b"".join(b"line %d\n" % n for n in range(50)) + b"\x1b[31mboom\x1b[0m\n"
        )
        reason = TerminationReason.FAILED
        await ends(b, job, JobState.FAILED, reason, "The program ended with exit code 1.")
        await read(b, Wire())
        (found,) = (await b.store.list_notifications("ada")).items
        assert (found.kind, found.title) == (K.JOB_FAILED, "train failed")
        assert found.text == "The program ended with exit code 1."
        assert found.path == f"/jobs/{job.id}"
        assert found.data["log"] == ["line 48", "line 49", "boom"]
        (delivery,) = await b.store.lease_deliveries(epoch=b.leader.epoch, limit=9, lease_s=1)
        assert delivery.message["log"][-2:] == ["line 49", "boom"]
        assert len(delivery.message["log"]) == notification_texts.MOST_LINES
        assert delivery.message["url"] == f"https://portal.test/jobs/{job.id}"

    async def test_a_file_server_that_is_away_is_asked_for_one_log_of_many(
        self, bench: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        b: Bench = await bench()
        await person(b)
        asked: list[str] = []

        class Away:
            async def read_log(self, *_: Any, **__: Any) -> Any:
                asked.append("")
                await asyncio.Event().wait()

        monkeypatch.setattr("aitne.services.controller.notification_creator.LOG_WITHIN_S", 0.01)
        told = notifier(b, files=Away())
        for _ in range(3):
            job = await runs(b, make_job())
            await ends(b, job, JobState.FAILED, TerminationReason.FAILED)
        await read(b, by=told)
        assert (await kinds(b), len(asked)) == ([K.JOB_FAILED] * 3, 1)
        b.clock.advance(61)
        await ends(b, await runs(b, make_job()), JobState.FAILED, TerminationReason.FAILED)
        await read(b, by=told)
        assert len(asked) == 2

    async def test_a_log_that_cannot_be_read_holds_nothing_up(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        job = await runs(b, make_job())
        await ends(b, job, JobState.FAILED, TerminationReason.FAILED, "It failed.")
        b.files.failing = Unavailable("The file system does not answer.")
        await read(b)
        assert await kinds(b) == [K.JOB_FAILED]

    async def test_sessions_and_jobs_from_start_to_end(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        session = await runs(b, make_session())
        await b.store.transition_job(session.id, JobState.READY)
        await read(b)
        job = await runs(b, make_job())
        b.clock.advance(7_200)
        await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
        reason = TerminationReason.TIMED_OUT
        await ends(b, session, JobState.TIMED_OUT, reason, "It reached its time limit.")
        await read(b)
        assert await kinds(b) == [K.SESSION_READY, K.JOB_FINISHED, K.SESSION_ENDED]
        assert (await b.store.list_notifications("ada")).items[1].text == "It ran for 2 h."

    @pytest.mark.parametrize(
        ("message", "told"), [("Cancelled by ada.", []), ("Cancelled by root.", [K.JOB_FAILED])]
    )
    async def test_user_who_cancels_own_job_is_not_notified(
        self, bench: Any, message: str, told: list[NotificationKind]
    ) -> None:
        b: Bench = await bench()
        await person(b)
        job = await runs(b, make_job())
        await ends(b, job, JobState.CANCELLED, TerminationReason.CANCELLED, message)
        await read(b)
        assert await kinds(b) == told

    async def test_an_attempt_that_is_followed_by_another_is_no_end(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        job = await runs(b, make_job())
        changes = JobChanges(reason=TerminationReason.NODE_FAILED)
        epoch = b.leader.epoch
        await b.store.retry_job(job.id, JobState.NODE_FAILED, changes, epoch=epoch)
        await read(b)
        assert await kinds(b) == []

    async def test_an_array_speaks_for_its_tasks(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        array, tasks = make_array("0-2")
        await b.store.create_job(array, tasks)
        for task in tasks:
            for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
                await b.store.transition_job(task.id, state)
            await b.store.transition_job(task.id, JobState.RUNNING)
            await ends(b, task, JobState.FAILED, TerminationReason.FAILED)
        await read(b)
        assert await kinds(b) == [K.JOB_FAILED]

    async def test_old_news_is_no_news(self, bench: Any) -> None:
        """A controller that comes back after days speaks of nothing that is over."""
        b: Bench = await bench()
        await person(b)
        session = await runs(b, make_session())
        await b.store.transition_job(session.id, JobState.READY)
        ends_at = b.clock() + timedelta(minutes=10)
        await b.store.transition_job(session.id, JobState.READY, JobChanges(expires_at=ends_at))
        await b.store.add_job_event(session.id, "job.ending", {"left_s": 600})
        b.clock.advance(86_400)
        await ends(b, session, JobState.CANCELLED, TerminationReason.CANCELLED, "Stopped by ada.")
        await read(b)
        assert await kinds(b) == []


class TestOnce:
    async def test_a_leader_that_dies_between_reading_and_writing_loses_and_doubles_nothing(
        self, bench: Any
    ) -> None:
        b: Bench = await bench()
        await person(b, mail="ada@example.org")
        mail = Wire()
        jobs = [await runs(b, make_job(name=f"job{n}")) for n in range(3)]
        await ends(b, jobs[0], JobState.COMPLETED, TerminationReason.COMPLETED)
        await read(b, mail)

        class Dies(Exception):
            pass

        real, calls = b.store.add_notifications, 0

        async def dying(*args: Any, **kwargs: Any) -> int:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise Dies  # before its transaction
            await real(*args, **kwargs)
            raise Dies  # after its commit, before it could remember that

        for job in jobs[1:]:
            await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
            b.store.add_notifications = dying  # type: ignore[method-assign]
            with pytest.raises(Dies):
                await read(b, mail)
        b.store.add_notifications = real  # type: ignore[method-assign]
        await b.leader.release()
        heir = Leader(b.store, "heir")
        await heir.acquire()
        await read(b, by=notifier(b, mail, leader=heir))
        assert await titles(b) == [f"job{n} has finished" for n in range(3)]
        waiting = await b.store.lease_deliveries(epoch=heir.epoch, limit=99, lease_s=1)
        assert len(waiting) == 3

    async def test_former_leader_creates_no_notifications(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        job = await runs(b, make_job())
        await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
        await b.store.release_lease("controller", "test")
        heir = Leader(b.store, "heir")
        await heir.acquire()
        await read(b, by=notifier(b, leader=heir))
        late = notifier(b)
        with pytest.raises((StaleEpoch, Conflict)):
            await late.process_events(0, 0)
        assert await kinds(b) == [K.JOB_FINISHED]

    async def test_events_without_recipients_do_not_move_cursor(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        await runs(b, make_session())
        await read(b)
        assert await b.store.get_event_cursor(CURSOR) == 0


class TestChoices:
    async def test_each_channel_as_chosen(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b, mail="ada@example.org")
        await person(b, "bob")
        mail, hooks = Wire(), Wire("webhook")
        url = "https://a.example/"
        hook = Webhook(id="wh_1", owner="ada", url=url, created_at=b.clock())
        await b.store.create_webhook(hook, max_webhooks=9)
        chosen = {K.JOB_FINISHED: {"browser": False, "mail": False}}
        await b.store.save_notification_choices("ada", NotificationChoices(choices=chosen))
        for owner in ("ada", "bob"):
            job = await runs(b, make_job(owner=owner))
            await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
        await read(b, mail, hooks)
        assert (await kinds(b), await kinds(b, "bob")) == ([], [K.JOB_FINISHED])
        sent = await b.store.lease_deliveries(epoch=b.leader.epoch, limit=9, lease_s=1)
        assert [(each.channel, each.owner, each.target) for each in sent] == [
            ("webhook", "ada", "wh_1")
        ]

    async def test_quiet_leaves_the_inbox_alone(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b, mail="ada@example.org")
        until = b.clock() + timedelta(hours=1)
        await b.store.save_notification_choices("ada", NotificationChoices(quiet_until=until))
        for _ in range(2):
            job = await runs(b, make_job())
            await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
            await read(b, Wire())
            b.clock.advance(7_200)
        assert len(await kinds(b)) == 2
        sent = await b.store.lease_deliveries(epoch=b.leader.epoch, limit=9, lease_s=1)
        assert len(sent) == 1
        added = [e for e in await b.store.list_events_after(0) if e.kind == "notification.added"]
        assert [event.data["popup"] for event in added] == [False, True]


class TestEverybody:
    async def test_an_announcement_reaches_those_whom_it_concerns_once(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        await person(b, "bob")
        now = b.clock()

        async def announce(text: str, at: datetime) -> None:
            await b.store.save_announcement(
                Announcement(
                    id="a1",
                    severity=Severity.WARNING,
                    text=text,
                    starts_at=now,
                    created_at=now,
                    created_by="root",
                    updated_at=at,
                )
            )
            await read(b)

        await announce("Slow until noon.", now)
        b.clock.advance(10)
        await announce("Slow until noon.", now)
        assert await titles(b, "bob") == ["Slow until noon."]
        await announce("Slow until one.", b.clock())
        assert await titles(b, "ada") == ["Slow until noon.", "Slow until one."]

    async def test_maintenance_is_told_of_once(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        starts = b.clock() + timedelta(hours=2)
        window = Maintenance(
            starts_at=starts, message="New disks.", created_at=b.clock(), created_by="root"
        )
        for _ in range(2):
            await b.store.set_maintenance(window)
            await read(b)
        assert await titles(b) == ["Maintenance from 2026-01-02 05:04 UTC"]

    async def test_a_request_goes_to_administrators_and_not_to_who_asks(self, bench: Any) -> None:
        b: Bench = await bench()
        for name in ("root", "boss"):
            await person(b, name, role=Role.ADMIN)
        await person(b)
        told = notifier(b)
        event = Event(
            id=9,
            time=b.clock(),
            kind="project.requested",
            owner="root",
            project="nlp",
            data={"actor": "root", "reason": "We need it."},
        )
        assert [each.owner for each in await told._notifications_of(event)] == ["boss"]

    async def test_the_end_of_a_project_is_told_to_its_members(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        event = Event(
            id=9, time=b.clock(), kind="project.expiring", project="vision", data={"days": 7}
        )
        (told,) = await notifier(b)._notifications_of(event)
        assert (told.owner, told.notice.title) == ("ada", "The project vision ends in 7 days")


class TestSending:
    async def test_a_dead_server_loses_nothing(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b, mail="ada@example.org")
        mail = Wire()
        mail.failing = DeliveryFailed("Nobody answers.", again=True)
        job = await runs(b, make_job())
        await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
        await read(b, mail)
        deliverer = NotificationDispatcher(b.store, b.leader, b.clock, {"mail": mail})
        for _ in range(5):
            await deliverer.send_due_deliveries(until_idle=True)
            b.clock.advance(300)
        mail.failing = None
        await deliverer.send_due_deliveries(until_idle=True)
        assert [each["title"] for each in mail.sent] == ["digits has finished"]
        (log,) = await b.store.list_deliveries(owner="ada", channel="mail", target="", limit=9)
        assert (log.state, log.tries > 3) == (DeliveryState.SENT, True)

    async def test_a_webhook_that_takes_nothing_is_disabled_and_its_owner_told(
        self, bench: Any
    ) -> None:
        b: Bench = await bench()
        await person(b)
        hook = Webhook(id="wh_1", owner="ada", url="https://a.example/", created_at=b.clock())
        await b.store.create_webhook(hook, max_webhooks=9)
        hooks = Wire("webhook")
        hooks.failing = DeliveryFailed("a.example answers 404.", again=False, status=404)
        deliverer = NotificationDispatcher(b.store, b.leader, b.clock, {"webhook": hooks})
        for _ in range(GIVEN_UP_IN_A_ROW):
            job = await runs(b, make_job())
            await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
            await read(b, hooks)
            await deliverer.send_due_deliveries(until_idle=True)
        await read(b, hooks)
        assert (await kinds(b))[-1] is K.WEBHOOK_DISABLED
        assert (await b.store.get_webhook("wh_1")).disabled_why == "a.example answers 404."
        assert await b.store.lease_deliveries(epoch=b.leader.epoch, limit=9, lease_s=1) == []

    async def test_a_channel_that_breaks_ends_nothing_but_its_own_try(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b, mail="ada@example.org")
        mail = Wire()
        mail.failing = UnicodeError("label too long")
        job = await runs(b, make_job())
        await ends(b, job, JobState.COMPLETED, TerminationReason.COMPLETED)
        await read(b, mail)
        deliverer = NotificationDispatcher(b.store, b.leader, b.clock, {"mail": mail})
        await deliverer.send_due_deliveries(until_idle=True)
        (log,) = await b.store.list_deliveries(owner="ada", channel="mail", target="", limit=9)
        assert (log.state, log.tries) == (DeliveryState.WAITING, 1)


class TestWords:
    def test_sentence_of_the_agent_is_not_repeated_from_the_log(self) -> None:
        told = "out of memory: the job used more than its 1 GiB"
        job = make_job(
            name="train",
            state=JobState.OUT_OF_MEMORY,
            reason=TerminationReason.OUT_OF_MEMORY,
            message=f"{told[0].upper()}{told[1:]}.",
        )
        log = f"epoch 1\n\naitne: {told}.\n".encode()
        event = Event(
            id=1, time=CREATED_AT, kind="job.state", job_id=job.id, data={"state": job.state}
        )
        notice = notification_texts.make_job_notification(event, job, CREATED_AT)
        assert notice is not None
        told_once = notification_texts.with_log(notice, job, split_log_lines(log, 0))
        assert told_once.text == "It used more memory than the 1 GiB that it had requested."
        assert told_once.log == ("epoch 1",)

    def test_notification_names_the_error_in_the_log(self) -> None:
        job = make_job(
            state=JobState.FAILED,
            reason=TerminationReason.FAILED,
            exit_code=1,
            message="The program ended with exit code 1.",
        )
        notice = NotificationContent(kind=K.JOB_FAILED, title="x failed", path="/jobs/x")
        log = b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'torch'\n"
        told = notification_texts.with_log(notice, job, split_log_lines(log, 0))
        assert (told.text or "").startswith(
            "The Python module torch is not installed in the job's env"
        )
