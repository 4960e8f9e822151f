"""Jobs that were submitted outside the platform: stored once, bounded, and not in the outbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aitne.core.errors import StaleEpoch
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges, JobFilter, JobOrigin
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.store import Store
from aitne.store import outside_jobs as records
from aitne.store.action_outbox import OutboxKind
from aitne.store.outside_jobs import JobOwner
from aitne.store.transitions import TransitionRequest
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_job


def outside(clock: Clock, number: int = 7, **overrides: Any) -> Job:
    values = {
        "origin": JobOrigin.OUTSIDE,
        "account": "ada",
        "scheduler_id": str(number),
        "submitted_at": clock.now,
        "created_at": clock.now,
        "state": JobState.QUEUED,
        "log_path": f"/home/ada/slurm-{number}.out",
    }
    return make_job(**{**values, **overrides})


async def test_outside_job_is_stored_once_and_queues_nothing(
    store: Store, epoch: int, clock: Clock
) -> None:
    job = outside(clock)
    assert [added.id for added in await store.add_outside_jobs([job], epoch=epoch)] == [job.id]
    again = outside(clock)
    assert await store.add_outside_jobs([again], epoch=epoch) == []
    assert [event.kind for event in await store.list_job_events(job.id)] == ["job.created"]
    assert await store.get_outbox_depth() == (0, 0.0)
    assert await store.get_job(job.id) == job
    # After a crash of the scheduler the ID may be another job's.
    clock.pass_(60)
    later = outside(clock)
    assert len(await store.add_outside_jobs([later, outside(clock, 8)], epoch=epoch)) == 2
    with pytest.raises(StaleEpoch):
        await store.add_outside_jobs([outside(clock, 9)], epoch=epoch - 1)


async def test_outside_jobs_are_listed_but_are_none_of_the_platforms_live_jobs(
    store: Store, epoch: int, clock: Clock
) -> None:
    own, job = make_job(), outside(clock)
    await store.create_job(own)
    await store.add_outside_jobs([job], epoch=epoch)
    assert [live.id for live in await store.list_live_jobs()] == [own.id]
    assert [live.id for live in await store.list_live_outside_jobs()] == [job.id]
    assert await store.count_live_jobs("ada") == 1
    assert sum((await store.count_jobs_by_state()).values()) == 1
    for origin, ids in ((None, {own.id, job.id}), ("outside", {job.id}), ("platform", {own.id})):
        where = JobFilter(origin=origin and JobOrigin(origin))
        page = await store.list_jobs(where, visible_to="ada")
        assert ({listed.id for listed in page.items}, page.total) == (ids, len(ids))
    assert (await store.list_jobs(JobFilter(), visible_to="bob")).total == 0


async def test_outside_array_is_cancelled_by_one_item_of_its_row(
    store: Store, epoch: int, clock: Clock
) -> None:
    job = outside(clock, spec={"array": "0-99999"}, state=JobState.RUNNING)
    await store.add_outside_jobs([job], epoch=epoch)
    asked = await store.request_cancel(job.id, clock.now, "Cancelled by ada.")
    await store.request_cancel(job.id, clock.now, "Cancelled by ada.")
    assert (asked.state, asked.cancel_requested_at) == (JobState.RUNNING, clock.now)
    items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=9)
    assert [(item.kind, item.job_id) for item in items] == [(OutboxKind.CANCEL, job.id)]
    ended = TransitionRequest(job.id, JobState.CANCELLED, JobChanges(ended_at=clock.now))
    assert (await store.apply_transitions([ended], epoch=epoch))[0] is not None
    assert await store.list_live_outside_jobs() == []


async def test_ended_outside_jobs_are_pruned_by_age_and_number(
    store: Store, epoch: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_ENDED", 3)
    end = {"state": JobState.COMPLETED}
    jobs = [
        outside(clock, number, **end, ended_at=clock.now + timedelta(seconds=number))
        for number in range(5)
    ]
    old = outside(clock, 50, owner="bob", **end, ended_at=clock.now - timedelta(days=1))
    live = outside(clock, 60)
    own = make_job()
    await store.create_job(own)
    await store.add_outside_jobs([*jobs, old, live], epoch=epoch)
    before = clock.now - timedelta(hours=1)
    await store.delete_old_records(events_before=before, idempotency_before=before)
    kept = (await store.list_jobs(JobFilter(), visible_to=None)).items
    assert {job.id for job in kept} == {own.id, live.id, *(job.id for job in jobs[2:])}
    assert await store.list_job_events(old.id) == []
    assert await store.list_job_events(own.id) != []


async def test_job_owners_are_the_users_with_their_projects(store: Store, clock: Clock) -> None:
    user = User(name="ada", display_name="Ada", default_project="ada", created_at=clock.now)
    project = Project(name="ada", title="Ada", created_at=clock.now)
    await store.create_user(user, None, project)
    assert await store.list_job_owners() == {"ada": JobOwner("ada", "ada", frozenset({"ada"}))}
