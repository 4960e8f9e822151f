"""The table of jobs: all pages of every order, and every filter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest

from aitne.core.errors import InvalidInput
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobFilter
from aitne.core.models.job_search import JobSort
from aitne.store import Store, paging
from tests.contract.store.conftest import Clock
from tests.support.jobs import CREATED_AT, make_array, make_job, make_spec


def at(minutes: float) -> datetime:
    return CREATED_AT + timedelta(minutes=minutes)


@pytest.fixture
async def jobs(store: Store, clock: Clock) -> list[Job]:
    """Fourteen jobs that are mostly alike; some differ in their ids only."""
    clock.now = at(1_000)
    made = []
    states = [JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED, JobState.FAILED]
    for number in range(14):
        state = states[number % 4]
        began = None if state is JobState.QUEUED else at(number // 3 + 0.5)
        job = make_job(
            id=UUID(int=number * 7 % 15 + 1),
            owner="ada" if number % 3 else "bob",
            project="vision" if number % 2 else "language",
            name=["Zebra", "ape", "Äffin", "ape"][number % 4],
            spec={
                "resources": {"nodes": 1 + number % 2, "gpu": {"count": number % 3}},
                "template": "jupyterlab" if number % 5 == 0 else None,
                "image": "pytorch:2.9" if number % 2 else "bare",
            },
            state=state,
            created_at=at(number // 2),
            started_at=began,
            ended_at=began + timedelta(minutes=number // 5) if began and number % 4 > 1 else None,
            nodes=() if began is None else (f"gpu0{number % 3}", "gpu10"),
        )
        await store.create_job(job)
        made.append(job)
    return made


def lasted(job: Job, now: datetime) -> float:
    if job.started_at is None:
        return -1
    return ((job.ended_at or now) - job.started_at).total_seconds()


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", JobSort)
async def test_an_order_walks_through_all(
    store: Store, jobs: list[Job], clock: Clock, sort: JobSort, descending: bool
) -> None:
    began = clock.now
    found: list[Job] = []
    cursor = None
    while True:
        page = await store.list_jobs(
            JobFilter(), visible_to=None, cursor=cursor, limit=3, sort=sort, descending=descending
        )
        assert page.total == 14
        found += page.items
        # Pages keep the order of the first page while running jobs change.
        clock.pass_(90)
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(job.id for job in found) == sorted(job.id for job in jobs)
    never = at(10_000_000)
    keys: dict[JobSort, Callable[[Job], Any]] = {
        JobSort.CREATED: lambda job: job.created_at,
        JobSort.STARTED: lambda job: job.started_at or never,
        JobSort.ENDED: lambda job: job.ended_at or never,
        JobSort.DURATION: lambda job: lasted(job, began),
        JobSort.NAME: lambda job: ["ape", "zebra", "äffin"].index(job.name.casefold()),
        JobSort.OWNER: lambda job: job.owner,
        JobSort.PROJECT: lambda job: job.project,
        JobSort.STATE: lambda job: job.state,
        JobSort.GPUS: lambda job: job.spec.resources.nodes * job.spec.resources.gpu.count,
    }
    values = [keys[sort](job) for job in found]
    if sort is JobSort.NAME:  # each database has its own alphabet: equal ones stand together
        assert len([1 for a, b in pairwise(values) if a != b]) == 2
    else:
        assert values == sorted(values, reverse=descending)


async def test_a_new_job_moves_nobodys_next_page(store: Store, jobs: list[Job]) -> None:
    page = await store.list_jobs(JobFilter(), visible_to=None, limit=5, sort=JobSort.GPUS)
    whole = await store.list_jobs(JobFilter(), visible_to=None, limit=50, sort=JobSort.GPUS)
    await store.create_job(make_job(spec={"resources": {"nodes": 9, "gpu": {"count": 8}}}))
    rest = await store.list_jobs(
        JobFilter(), visible_to=None, limit=50, sort=JobSort.GPUS, cursor=page.next_cursor
    )
    assert [*page.items, *rest.items] == [*whole.items]


async def test_a_cursor_belongs_to_its_order(store: Store, jobs: list[Job]) -> None:
    page = await store.list_jobs(JobFilter(), visible_to=None, limit=2, sort=JobSort.OWNER)
    for sort, descending in ((JobSort.NAME, True), (JobSort.OWNER, False)):
        with pytest.raises(InvalidInput, match="cursor"):
            await store.list_jobs(
                JobFilter(),
                visible_to=None,
                cursor=page.next_cursor,
                sort=sort,
                descending=descending,
            )


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ({"template": "jupyterlab"}, [0, 5, 10]),
        ({"image": "pytorch"}, [1, 3, 5, 7, 9, 11, 13]),
        ({"image": "pytorch:2.9", "owner": "bob"}, [3, 9]),
        ({"image": "pytorch:2"}, []),
        ({"image": "py"}, []),
        ({"node": "gpu01"}, [1, 7, 10, 13]),
        ({"node": "gpu0"}, []),
        ({"node": "gpu_1"}, []),
        ({"created_from": at(5)}, [10, 11, 12, 13]),
        ({"created_before": at(1)}, [0, 1]),
        ({"created_from": at(1), "created_before": at(2)}, [2, 3]),
        ({"min_gpus": 3}, [5, 11]),
        ({"gpu_type": "a100"}, []),
        ({"array": True}, []),
    ],
)
async def test_a_filter_finds_its_own(
    store: Store, jobs: list[Job], where: dict[str, object], numbers: list[int]
) -> None:
    chosen = JobFilter.model_validate(where)
    page = await store.list_jobs(chosen, visible_to=None)
    assert {job.id for job in page.items} == {jobs[number].id for number in numbers}
    counts = await store.count_jobs(chosen, visible_to=None)
    assert sum(counts.values()) == page.total == len(numbers)


async def test_jobs_of_a_partition_and_of_a_time_are_found(store: Store) -> None:
    fields: dict[str, dict[str, Any]] = {
        "ended": {"state": JobState.COMPLETED, "partition": "gpu", "ended_at": at(20)},
        "live": {"state": JobState.RUNNING, "partition": "gpu-large"},
        "lost sight": {"state": JobState.UNKNOWN, "partition": "gpu"},
        "pending": {"state": JobState.QUEUED, "partition": "gpu,cpu"},
    }
    for name, values in fields.items():
        began = {} if name == "pending" else {"allocated_at": at(10), "started_at": at(11)}
        await store.create_job(make_job(name=name, **values, **began))
    await store.create_job(make_job(name="new"))

    async def names(**where: Any) -> set[str]:
        chosen = JobFilter.model_validate(where)
        page = await store.list_jobs(chosen, visible_to=None)
        assert page.total == len(page.items)
        return {job.name for job in page.items}

    assert await names(partition="gpu") == {"ended", "lost sight", "pending"}
    assert await names(partition="cpu") == {"pending"}
    assert await names(partition="g%") == set()
    assert await names(active_at=at(9)) == set()
    assert await names(active_at=at(15)) == {"ended", "live"}
    assert await names(active_at=at(20)) == {"live"}
    assert await names(active_at=at(15), partition="gpu") == {"ended"}


async def test_arrays_are_told_from_others(store: Store) -> None:
    array, tasks = make_array("0-2", spec={"resources": {"gpu": {"count": 1, "type": "a100"}}})
    await store.create_job(array, tasks)
    await store.create_job(make_job())
    only = await store.list_jobs(JobFilter(array=True, gpu_type="a100"), visible_to=None)
    assert [job.id for job in only.items] == [array.id]
    assert (await store.list_jobs(JobFilter(array=False), visible_to=None)).total == 4


async def test_counts_are_of_what_one_may_see(store: Store, jobs: list[Job]) -> None:
    counts = await store.count_jobs(JobFilter(), visible_to="ada")
    mine = [job for job in jobs if job.owner == "ada"]
    assert counts == {
        state: sum(job.state is state for job in mine) for state in {job.state for job in mine}
    }


async def test_gpus_are_summed_without_their_owners(store: Store) -> None:
    held = make_job(
        state=JobState.RUNNING,
        nodes=("n1", "n2"),
        expires_at=at(60),
        spec={"resources": {"nodes": 2, "gpu": {"count": 4, "type": "a100"}}},
    )
    array, tasks = make_array("0-1", spec={"resources": {"gpu": {"count": 1}}})
    await store.create_job(held)
    await store.create_job(array, tasks)
    await store.create_job(make_job(state=JobState.RUNNING, nodes=("n1",)))
    await store.create_job(make_job(spec=make_spec(), state=JobState.COMPLETED, id=uuid4()))
    assert await store.list_allocated_gpus() == [(("n1", "n2"), "a100", 8, at(60))]
    assert await store.list_pending_gpus() == [((), None, 1, None)] * 2


@pytest.mark.parametrize(
    ("sort", "value", "as_of"),
    [
        (JobSort.GPUS, "9" * 30, "2026-01-01T00:00:00+00:00"),
        (JobSort.DURATION, "-" + "9" * 30, "2026-01-01T00:00:00+00:00"),
        (JobSort.DURATION, "1", "9999-12-31T23:59:59-12:00"),
        (JobSort.CREATED, "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00+00:00"),
        (JobSort.NAME, "a\0", "2026-01-01T00:00:00+00:00"),
        (JobSort.NAME, "\ud800", "2026-01-01T00:00:00+00:00"),
    ],
)
async def test_a_made_up_cursor_is_refused_before_a_database_stumbles_over_it(
    store: Store, sort: JobSort, value: str, as_of: str
) -> None:
    cursor = paging.encode_cursor("jobs", sort, "desc", value, UUID(int=1).hex, as_of)
    with pytest.raises(InvalidInput, match="cursor"):
        await store.list_jobs(JobFilter(), visible_to=None, sort=sort, cursor=cursor)


async def test_no_list_by_number_takes_a_number_that_no_row_can_have(store: Store) -> None:
    for number in ("9" * 19, "\u0663", "one"):
        with pytest.raises(InvalidInput, match="cursor"):
            await store.list_notifications(
                "ada", cursor=paging.encode_cursor("notifications", number)
            )
        with pytest.raises(InvalidInput, match="cursor"):
            await store.list_node_events("n1", cursor=paging.encode_cursor("node_history", number))
