"""Maintenance: nothing new begins, what runs goes on, and afterwards everything is as before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from aitne.core.errors import NotSupported
from aitne.core.jobs.states import JobState
from aitne.core.models.announcement import Announcement, Maintenance, Severity
from aitne.core.models.cluster import Cluster, NodeState
from aitne.services.controller.maintenance_and_announcement_schedule import ScheduleWatch
from aitne.services.controller.maintenance_hold_and_drain import MARK, MaintenanceDrain
from aitne.services.controller.submission_outcome import RETRY_S
from tests.support.fakes import AmbiguousSubmit, FakeScheduler
from tests.support.jobs import make_job


def window(b: Any, **fields: Any) -> Maintenance:
    given = {"starts_at": b.clock.now, "message": "New switches", **fields}
    return Maintenance(created_at=b.clock.now, created_by="root", **given)


async def test_job_is_held_until_end_of_maintenance(bench: Any) -> None:
    b = await bench()
    await b.store.set_maintenance(window(b, ends_at=b.clock.now + timedelta(hours=1)))
    job, unwanted = make_job(), make_job()
    await b.store.create_job(job)
    await b.store.create_job(unwanted)
    await b.live.catch_up()
    await b.outbox.drain()
    held = await b.job(job.id)
    assert held.state is JobState.PENDING_SUBMIT
    assert (
        held.message == "Maintenance (New switches): new jobs are held until 2026-01-02 04:04 UTC."
    )
    assert not b.scheduler.requests
    await b.store.request_cancel(unwanted.id, b.clock.now)
    await b.outbox.drain()
    assert await b.state(unwanted.id) is JobState.CANCELLED
    b.clock.advance(3_600)
    await b.outbox.drain()
    begun = await b.job(job.id)
    assert (begun.state, begun.message) == (JobState.QUEUED, None)


async def test_turned_off_what_was_kept_begins_at_once(bench: Any) -> None:
    b = await bench()
    await b.store.set_maintenance(window(b))
    job = make_job()
    await b.store.create_job(job)
    await b.live.catch_up()
    await b.outbox.drain()
    assert "until it is over" in ((await b.job(job.id)).message or "")
    await b.store.set_maintenance(None)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.QUEUED


async def test_a_maintenance_to_come_holds_nothing(bench: Any) -> None:
    b = await bench()
    await b.store.set_maintenance(window(b, starts_at=b.clock.now + timedelta(minutes=1)))
    job = make_job()
    await b.store.create_job(job)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.QUEUED


async def test_a_submission_that_was_begun_is_brought_to_its_end(bench: Any) -> None:
    b = await bench(AmbiguousSubmit(arrives=True))
    job = make_job()
    await b.store.create_job(job)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.UNCERTAIN
    await b.store.set_maintenance(window(b))
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.QUEUED


async def nodes_hold(bench: Any) -> tuple[Any, MaintenanceDrain]:
    b = await bench()

    async def see() -> None:
        cluster: Cluster = await b.scheduler.read_cluster()
        await b.store.save_cluster(cluster, epoch=b.leader.epoch)

    b.extra["see"] = see
    await see()
    return b, MaintenanceDrain(b.store, b.scheduler, b.clock)


async def test_nodes_are_drained_for_it_and_resumed_after_it(bench: Any) -> None:
    b, hold = await nodes_hold(bench)
    await hold.update_nodes()
    assert b.scheduler.node.state is NodeState.IDLE
    await b.store.set_maintenance(window(b, ends_at=b.clock.now + timedelta(hours=1)))
    await hold.update_nodes()
    assert b.scheduler.node.state is NodeState.DRAINED
    assert b.scheduler.node.reason == f"{MARK}: New switches (root)"
    await b.extra["see"]()
    b.clock.advance(3_601)
    await hold.update_nodes()
    assert b.scheduler.node.state is NodeState.IDLE
    said = (await b.store.list_node_events(b.scheduler.node.name)).items
    assert [(each.event, each.actor) for each in said if each.actor] == [
        ("resume", "aitne"),
        ("drain", "root"),
    ]


async def test_a_node_that_somebody_drained_before_stays_drained(bench: Any) -> None:
    b, hold = await nodes_hold(bench)
    await b.scheduler.drain("any", "broken fan (eve)")
    await b.extra["see"]()
    await b.store.set_maintenance(window(b))
    await hold.update_nodes()
    await b.store.set_maintenance(None)
    await hold.update_nodes()
    assert b.scheduler.node.reason == "broken fan (eve)"


async def test_a_node_that_somebody_resumes_meanwhile_is_left_alone(bench: Any) -> None:
    b, hold = await nodes_hold(bench)
    await b.store.set_maintenance(window(b))
    await hold.update_nodes()
    await b.scheduler.resume("any")
    await b.extra["see"]()
    b.clock.advance(60)
    await hold.update_nodes()
    assert b.scheduler.node.state is NodeState.IDLE


class CannotDrain(FakeScheduler):
    """A scheduler without drained nodes, such as the local one."""

    asked = 0

    async def drain(self, node: str, reason: str) -> None:
        self.asked += 1
        raise NotSupported("It has no such state.")


async def test_a_scheduler_that_cannot_drain_is_asked_once(bench: Any) -> None:
    b = await bench(CannotDrain())
    await b.store.save_cluster(await b.scheduler.read_cluster(), epoch=b.leader.epoch)
    await b.store.set_maintenance(window(b))
    hold = MaintenanceDrain(b.store, b.scheduler, b.clock)
    await hold.run()
    assert b.scheduler.asked == 1


async def test_the_clock_alone_tells_of_a_beginning_and_an_end(bench: Any) -> None:
    b = await bench()
    soon = b.clock.now + timedelta(minutes=5)
    await b.store.save_announcement(
        Announcement(
            id="one",
            severity=Severity.INFO,
            text="x",
            starts_at=soon,
            ends_at=soon + timedelta(minutes=5),
            created_at=b.clock.now,
            created_by="root",
            updated_at=b.clock.now,
        )
    )
    seen = await b.store.get_last_event_id()
    timetable = ScheduleWatch(b.store, b.clock)
    told = []
    for _ in range(4):
        await timetable.write_events()
        told.append(len(await b.store.list_events_after(seen)))
        b.clock.advance(240)
    assert told == [0, 0, 1, 2]
