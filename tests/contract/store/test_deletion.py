"""Deletion of ended jobs: retention, refusals, and the records that remain."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from aitne.core.errors import Conflict, IllegalTransition, StaleEpoch
from aitne.core.jobs.states import LIVE, TERMINAL, JobState
from aitne.core.models.job import Job, JobChanges, JobFilter
from aitne.core.models.project import Retention
from aitne.core.models.resources import GpuRequest
from aitne.core.models.usage_sample import Sample
from aitne.core.ports.job_files import FolderSize
from aitne.core.retention import KeepTimes, RetentionSettings, keep_times
from aitne.services.projects.usage_without_accounting import JobUsage
from aitne.store import Store, tables
from aitne.store.ended_job_folders import FolderResult, JobFolders
from aitne.store.job_deletion import DeleteRefusal
from aitne.store.new_jobs import Idempotency
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_array, make_job, make_task_group

DAY = timedelta(days=1)
SITE = RetentionSettings(keep_jobs=10 * 86_400, keep_failed_jobs=30 * 86_400)


async def ended(store: Store, state: JobState = JobState.COMPLETED, **fields: Any) -> Job:
    """Create a job that has ended now or at ``ended_at``."""
    job = make_job(state=state, **{"ended_at": store._clock(), **fields})
    await store.create_job(job)
    return job


async def expired(store: Store, epoch: int, limit: int = 1_000, **own: Retention) -> int:
    by_project = {name: keep_times(SITE, retention) for name, retention in own.items()}
    return await store.expire_jobs(
        keep_times(SITE), by_project, store._clock(), limit=limit, epoch=epoch
    )


async def test_exactly_the_jobs_that_are_kept_no_longer_expire(
    store: Store, epoch: int, clock: Clock
) -> None:
    """The statement agrees with the rule, for ages, states and projects at random."""
    rng = random.Random(21)
    own = {
        "vision": Retention(keep_jobs=5 * 86_400),
        "speech": Retention(keep_failed_jobs="forever"),
        "robots": Retention(keep_jobs=86_400, keep_failed_jobs=86_400),
    }
    settings = SITE.model_copy(update={"max_keep_jobs": "forever"})
    times = {name: keep_times(settings, retention) for name, retention in own.items()}
    jobs = []
    for _ in range(150):
        state = rng.choice(sorted(JobState))
        age = rng.choice([0, 1, 4.9, 5, 9.99, 10, 29, 30, 31, 4_000]) * DAY
        ended_at = clock() - age if state in TERMINAL and rng.random() > 0.1 else None
        project = rng.choice([*own, "other"])
        job = make_job(state=state, project=project, ended_at=ended_at)
        await store.create_job(job)
        jobs.append(job)
    site = keep_times(settings)
    count = await store.expire_jobs(site, times, clock(), limit=1_000, epoch=epoch)
    marked = {
        job.id
        for job in await store.find_jobs([job.id for job in jobs])
        if job.delete_requested_at is not None
    }
    rule = {
        job.id
        for job in jobs
        if times.get(job.project, site).is_expired(job.state, job.ended_at, clock())
    }
    assert marked == rule
    assert count == len(rule) > 20
    assert not any(job.state in LIVE for job in jobs if job.id in marked)
    assert await store.expire_jobs(site, times, clock(), limit=1_000, epoch=epoch) == 0
    with pytest.raises(StaleEpoch):
        await store.expire_jobs(site, times, clock(), limit=1, epoch=epoch + 1)


async def test_expiry_is_bounded_and_takes_the_oldest_first(
    store: Store, epoch: int, clock: Clock
) -> None:
    jobs = [await ended(store, ended_at=clock() - n * DAY) for n in (20, 40, 30)]
    assert await expired(store, epoch, limit=2) == 2
    left = [(await store.get_job(job.id)).delete_requested_at is None for job in jobs]
    assert left == [True, False, False]
    assert await expired(store, epoch, limit=2) == 1
    forever = KeepTimes(None, None)
    await ended(store, ended_at=clock() - 4_000 * DAY)
    assert await store.expire_jobs(forever, {}, clock(), limit=9, epoch=epoch) == 0


async def test_only_whole_jobs_that_have_ended_and_are_not_needed_are_deleted(
    store: Store, epoch: int, clock: Clock
) -> None:
    array, tasks = make_array("0-1", state=JobState.COMPLETED, ended_at=clock() - 99 * DAY)
    await store.create_job(array, tasks)
    shared, _ = make_array("0-9", state=JobState.COMPLETED, ended_at=clock())
    await store.create_job(shared, [make_task_group(shared)])
    first = await ended(store, ended_at=clock() - 99 * DAY)
    waiting = make_job(spec={"afterany": (first.id,)})
    of_task = make_job(spec={"after": (tasks[1].id,)}, state=JobState.UNKNOWN)
    for job in (waiting, of_task):
        await store.create_job(job)
    group_task = make_task_group(shared).make_task(3)
    ids = [array.id, tasks[0].id, group_task.id, first.id, waiting.id, of_task.id, uuid4()]
    answers = await store.request_delete(ids, clock())
    assert {job_id: answer.refusal for job_id, answer in answers.items()} == {
        array.id: DeleteRefusal.NEEDED,
        tasks[0].id: DeleteRefusal.ARRAY_TASK,
        group_task.id: DeleteRefusal.ARRAY_TASK,
        first.id: DeleteRefusal.NEEDED,
        waiting.id: DeleteRefusal.NOT_ENDED,
        of_task.id: DeleteRefusal.NOT_ENDED,
    }
    assert await expired(store, epoch) == 0
    for job in (waiting, of_task):
        await store.request_cancel(job.id, clock())
    await store.transition_job(of_task.id, JobState.CANCELLED, JobChanges(ended_at=clock()))
    assert await expired(store, epoch) == 2
    # A job that depends on it came meanwhile: nothing is deleted.
    late = make_job(spec={"after": (first.id,)})
    await store.create_job(late)
    assert not await store.delete_job(first.id, epoch=epoch)
    assert (await store.get_job(first.id)).id == first.id
    with pytest.raises(IllegalTransition, match="being deleted"):
        await store.retry_job(first.id, epoch=epoch)
    assert await store.delete_job(array.id, epoch=epoch)
    assert not await store.find_jobs([array.id, *(task.id for task in tasks)])


async def test_a_deleted_job_leaves_only_its_event(store: Store, epoch: int, clock: Clock) -> None:
    job = make_job()
    key = Idempotency(owner="ada", key="once", request_hash="x")
    await store.create_job(job, idempotency=key)
    await store.add_samples(job.id, [Sample(time=clock(), node="n1", cpu=1, memory_bytes=1)])
    await store.save_profile(job.id, {"steps": 1})
    await store.save_snapshot(job.id, {"git": None})
    await store.transition_job(job.id, JobState.CANCELLED, JobChanges(ended_at=clock()))
    before = await store.get_last_event_id()
    assert not await store.delete_job(job.id, epoch=epoch)  # it was not requested
    requested = (await store.request_delete([job.id], clock()))[job.id]
    assert requested.job.delete_requested_at == clock()
    again = (await store.request_delete([job.id], clock.pass_(5)))[job.id]
    assert again == requested
    assert await store.delete_job(job.id, epoch=epoch)
    assert await store.delete_job(job.id, epoch=epoch)  # a second call is no error
    event = (await store.list_events_after(before))[-1]
    assert event.kind == "job.deleted"
    assert (event.job_id, event.owner, event.project) == (job.id, "ada", "vision")
    async with store._db.read() as connection:
        for table in (tables.jobs, tables.samples, tables.profiles, tables.job_secrets):
            count = (await connection.execute(select(func.count()).select_from(table))).scalar()
            assert count == 0, table.name
    page = await store.list_jobs(JobFilter(), visible_to=None)
    assert page.total == 0
    with pytest.raises(Conflict, match="was deleted"):
        await store.create_job(make_job(), idempotency=key)


async def test_usage_is_the_same_after_jobs_were_deleted(
    store: Store, epoch: int, clock: Clock
) -> None:
    march, april = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
    spec = make_job().spec
    gpus = spec.resources.model_copy(
        update={"nodes": 2, "cpu": 4, "gpu": GpuRequest(count=3, type="h200")}
    )
    with_gpus = spec.model_copy(update={"resources": gpus})
    hour = timedelta(hours=1)

    def ran(began: datetime, state: JobState = JobState.COMPLETED) -> dict[str, Any]:
        return {
            "state": state,
            "submitted_at": began - hour,
            "allocated_at": began,
            "ended_at": began + hour,
        }

    await ended(store, spec=with_gpus, **ran(march - hour / 2))
    await ended(store, spec=with_gpus, **ran(clock(), JobState.FAILED))
    await ended(store, project="speech", owner="bob", **ran(clock()))
    await ended(store, JobState.CANCELLED)
    array, tasks = make_array("0-2", **ran(clock()))
    await store.create_job(array, tasks)
    group, _ = make_array("0-4", state=JobState.CANCELLED, ended_at=clock())
    await store.create_job(group, [make_task_group(group)])
    clock.pass_(50 * 86_400)

    async def figures() -> Any:
        return (
            await JobUsage(store, clock).usage(march, april),
            sorted(await store.list_wait_times("vision", march, april)),
            dict(await store.count_ended_jobs("vision", march, april)),
            await store.list_job_times(april, april + DAY),
        )

    before = await figures()
    assert all(before[:2])
    assert before[2]["CANCELLED"] == 6
    page = await store.list_jobs(JobFilter(top_level_only=True), visible_to=None)
    ids = [job.id for job in page.items]
    await store.request_delete(ids, clock())
    for job_id in ids:
        assert await store.delete_job(job_id, epoch=epoch)
    assert await figures() == before


async def test_folders_are_due_at_the_end_and_measured_once(
    store: Store, epoch: int, clock: Clock
) -> None:
    job = make_job()
    await store.create_job(job)
    assert not await store.list_due_folders(clock(), 9)
    await store.transition_job(job.id, JobState.CANCELLED, JobChanges(ended_at=clock()))
    (due,) = await store.list_due_folders(clock(), 9)
    assert due.id == job.id
    later = clock() + timedelta(minutes=1)
    await store.record_folder_results([FolderResult(job.id, 1, due_at=later)], epoch=epoch)
    assert not await store.list_due_folders(clock(), 9)
    assert await store.list_due_folders(later, 9)
    size = FolderSize(size_bytes=12_288, files=4)
    await store.record_folder_results([FolderResult(job.id, 1, size=size)], epoch=epoch)
    assert not await store.list_due_folders(later, 9)
    stored = await store.get_job(job.id)
    assert (stored.folder_bytes, stored.folder_files) == (12_288, 4)
    assert stored.version > due.version
    assert [event.kind for event in await store.list_job_events(job.id)][-1] == "job.state"
    assert await store.get_job_folders("ada") == JobFolders(jobs=1, size_bytes=12_288, files=4)
    assert (await store.get_job_folders("bob")).jobs == 0

    # A folder that cannot be removed: the job stays and says why.
    await store.request_delete([job.id], clock())
    assert [each.id for each in await store.list_due_folders(clock(), 9)] == [job.id]
    result = FolderResult(job.id, 1, due_at=later, problem="The home does not answer.")
    await store.record_folder_results([result], epoch=epoch)
    assert not await store.list_due_folders(clock(), 9)
    assert (await store.get_job(job.id)).delete_problem == "The home does not answer."
    await store.record_folder_results([FolderResult(job.id, 1, due_at=clock())], epoch=epoch)
    assert (await store.get_job(job.id)).delete_problem is None
    assert await store.list_due_folders(clock(), 9)


async def test_a_retried_job_has_no_due_folder(store: Store, epoch: int, clock: Clock) -> None:
    job = make_job(state=JobState.RUNNING)
    await store.create_job(job)
    await store.transition_job(job.id, JobState.FAILED, JobChanges(ended_at=clock()))
    assert await store.list_due_folders(clock(), 9)
    await store.retry_job(job.id, epoch=epoch)
    assert not await store.list_due_folders(clock(), 9)
    size = FolderSize(size_bytes=1, files=1)
    await store.record_folder_results([FolderResult(job.id, 1, size=size)], epoch=epoch)
    assert (await store.get_job(job.id)).folder_bytes is None
