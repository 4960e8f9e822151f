from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitne.core.errors import Conflict, NotFound, StaleEpoch
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.usage_sample import Sample
from aitne.store import Store
from tests.support.jobs import CREATED_AT, make_job, make_session, store_job_token


def sample(second: float, node: str = "n1") -> Sample:
    gpu = ({"index": 0, "utilization": 0.5, "memory_bytes": 1 << 40},)
    return Sample(
        time=CREATED_AT + timedelta(seconds=second),
        node=node,
        cpu=1.25,
        memory_bytes=3 << 33,
        processes=4,
        gpu=gpu,
    )


async def test_the_token_of_a_job(store: Store, epoch: int) -> None:
    job = (await store.create_job(make_job())).job
    assert await store.find_job_by_token("one") is None
    await store_job_token(store, job.id, "one", epoch=epoch)
    assert await store.find_job_by_token("one") == job
    await store_job_token(store, job.id, "two", epoch=epoch)
    assert await store.find_job_by_token("one") is None
    assert await store.find_job_by_token("two") == job
    with pytest.raises(StaleEpoch):
        await store_job_token(store, job.id, "three", epoch=epoch + 1)


async def test_the_hand_over(store: Store, epoch: int) -> None:
    job = (await store.create_job(make_job())).job
    assert await store.find_handover(job.id) is None
    assert await store.find_handover(uuid4()) is None
    await store_job_token(store, job.id, "hash", epoch=epoch)
    assert await store.find_handover(job.id) is None
    for earlier, payload in ((None, "encrypted"), ("encrypted", "another")):
        assert await store.save_handover(job.id, payload, replaces=earlier)
        assert await store.find_handover(job.id) == payload
    assert await store.find_job_by_token("hash") == job, "the token is untouched"
    assert len(await store.list_job_events(job.id)) == 1, "secrets make no events"


async def test_session_token_ends_with_its_session_and_is_kept_by_repeated_hand_over(
    store: Store,
) -> None:
    job, other = [(await store.create_job(make_job())).job for _ in range(2)]
    assert await store.find_session_by_token("hash") is None
    await store.save_handover(job.id, "encrypted", replaces=None, session_token_hash="hash")
    await store.save_handover(other.id, "encrypted", replaces=None, session_token_hash="other")
    await store.save_handover(job.id, "again", replaces="encrypted")
    assert await store.find_session_by_token("hash") == job
    assert await store.find_job_by_token("hash") is None, "it is no job token"
    await store.transition_job(job.id, JobState.FAILED)
    assert await store.find_session_by_token("hash") is None
    assert await store.find_session_by_token("other") == other


async def test_concurrent_hand_overs_store_the_first(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    names = [f"token{number}" for number in range(4)]
    stored = await asyncio.gather(
        *(store.save_handover(job.id, n, replaces=None, session_token_hash=n) for n in names)
    )
    valid = [name for name in names if await store.find_session_by_token(name) is not None]
    assert [name for name, done in zip(names, stored, strict=True) if done] == valid
    assert [await store.find_handover(job.id)] == valid
    assert not await store.save_handover(
        job.id, "late", replaces="encrypted", session_token_hash="l"
    )
    assert await store.find_session_by_token("l") is None


async def test_session_token_of_a_concurrent_hand_over_ends_with_the_logins(
    store: Store,
) -> None:
    sessions = [(await store.create_job(make_session())).job for _ in range(8)]
    (owner,) = {job.owner for job in sessions}

    async def hand_over(job: Job) -> None:
        name = str(job.id)
        assert await store.save_handover(job.id, name, replaces=None, session_token_hash=name)

    await asyncio.gather(
        *map(hand_over, sessions[:4]),
        store.revoke_sign_ins(owner),
        *map(hand_over, sessions[4:]),
    )
    for job in sessions:
        assert await store.find_handover(job.id) == str(job.id)
        assert await store.find_session_by_token(str(job.id)) is None


async def test_the_last_profile_of_a_job(store: Store) -> None:
    job, other = [(await store.create_job(make_job())).job for _ in range(2)]
    assert await store.find_profile(job.id) is None
    before = await store.get_last_event_id()
    for steps in (1, 2):
        await store.save_profile(job.id, {"steps": steps, "table": [{"op": "allreduce"}]})
        await store.save_profile(other.id, {"steps": -steps})
    assert await store.find_profile(job.id) == {"steps": 2, "table": [{"op": "allreduce"}]}
    assert await store.find_profile(other.id) == {"steps": -2}
    events = await store.list_events_after(before)
    assert [(event.kind, event.job_id) for event in events] == [
        ("job.profile", job.id),
        ("job.profile", other.id),
    ], "of each job one is kept, however often it speaks"
    assert [event.owner for event in events] == [job.owner, other.owner]
    assert [event.kind for event in await store.list_job_events(job.id)] == ["job.created"]
    with pytest.raises(NotFound):
        await store.save_profile(uuid4(), {})


async def test_an_ended_job_takes_no_secrets(store: Store, epoch: int) -> None:
    job = (await store.create_job(make_job(state=JobState.FAILED))).job
    for job_id, error in ((job.id, Conflict), (uuid4(), NotFound)):
        with pytest.raises(error):
            await store.save_handover(job_id, "encrypted", replaces=None)
        await store_job_token(store, job_id, "hash", epoch=epoch)
    assert await store.find_job_by_token("hash") is None


async def test_samples(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    assert await store.list_samples(job.id) == []
    await store.add_samples(job.id, [])
    await store.add_samples(job.id, [sample(2), sample(0), sample(2, "n2")])
    # A report that comes twice counts once.
    await store.add_samples(job.id, [sample(2), sample(4)])
    expected = [sample(0), sample(2), sample(2, "n2"), sample(4)]
    assert await store.list_samples(job.id) == expected
    assert await store.list_samples(job.id, since=CREATED_AT + timedelta(seconds=2)) == expected[1:]
    with pytest.raises(NotFound):
        await store.add_samples(uuid4(), [sample(0)])


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(total=st.integers(1, 120), limit=st.integers(1, 60))
async def test_samples_are_thinned_evenly(store: Store, total: int, limit: int) -> None:
    job = (await store.create_job(make_job())).job
    await store.add_samples(job.id, [sample(second) for second in range(total)])
    found = await store.list_samples(job.id, limit=limit)
    assert len(found) == min(total, limit)
    seconds = [int((one.time - CREATED_AT).total_seconds()) for one in found]
    assert seconds[-1] == total - 1, "the newest is always there"
    gaps = {after - before for before, after in pairwise(seconds)}
    assert not gaps or max(gaps) - min(gaps) <= 1


async def test_samples_of_each_node_are_thinned_on_their_own(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    measured = [sample(second, node) for second in range(40) for node in ("n1", "n2")]
    await store.add_samples(job.id, [*measured, sample(40, "n3")])
    found = await store.list_samples(job.id, limit=20, nodes=("n1", "n3"))
    assert Counter(one.node for one in found) == {"n1": 20, "n3": 1}


async def waiting(store: Store, priority: int | None, partition: str, at: float) -> Job:
    created_at = CREATED_AT + timedelta(seconds=at)
    job = (await store.create_job(make_job(created_at=created_at))).job
    await store.transition_job(job.id, JobState.SUBMITTING)
    changes = JobChanges(priority=priority, partition=partition)
    return await store.transition_job(job.id, JobState.QUEUED, changes)


async def test_the_place_in_line(store: Store) -> None:
    late = await waiting(store, 50, "gpu", 3)
    early = await waiting(store, 50, "gpu", 1)
    first = await waiting(store, 90, "gpu", 9)
    elsewhere = await waiting(store, 99, "debug", 0)
    unknown = await waiting(store, None, "gpu", 0)
    places = [await store.find_queue_position(job) for job in (first, early, late, elsewhere)]
    # A job without a priority yet waits too, and is last.
    assert [(at.position, at.waiting, at.partition) for at in places if at] == [
        (1, 4, "gpu"),
        (2, 4, "gpu"),
        (3, 4, "gpu"),
        (1, 1, "debug"),
    ]
    assert await store.find_queue_position(unknown) is None
    started = await store.transition_job(first.id, JobState.STARTING)
    assert await store.find_queue_position(started) is None
    place = await store.find_queue_position(late)
    assert place is not None
    assert place.position == 2


async def test_an_event_that_changes_nothing(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    await store.add_job_event(job.id, "job.ending", {"left_s": 120})
    event = (await store.list_job_events(job.id))[-1]
    assert (event.kind, event.data) == ("job.ending", {"left_s": 120})
    assert (event.owner, event.project) == (job.owner, job.project)
    assert await store.get_job(job.id) == job
    with pytest.raises(NotFound):
        await store.add_job_event(uuid4(), "job.ending", {})
