"""Sessions that continue one another: only one of a lineage lives at a time."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from aitne.core.errors import Conflict
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.store import Store
from tests.support.jobs import make_session


def follower(old: Job) -> Job:
    lineage = old.spec.lineage or old.id
    spec = old.spec.model_copy(update={"continues": old.id, "lineage": lineage})
    return make_session().model_copy(update={"spec": spec})


async def ended(store: Store, job: Job) -> Job:
    return await store.transition_job(job.id, JobState.CANCELLED)


async def test_of_many_that_continue_it_at_once_one_does(store: Store) -> None:
    first = (await store.create_job(make_session())).job
    await ended(store, first)
    wishes = [follower(first) for _ in range(4)]
    made = await asyncio.gather(
        *(store.create_job(wish) for wish in wishes), return_exceptions=True
    )
    refused = [str(each) for each in made if isinstance(each, Conflict)]
    (one,) = [each for each in made if not isinstance(each, BaseException)]
    assert len(refused) == 3
    assert all(str(one.job.id) in each for each in refused), "it says which one does"


async def test_an_older_one_of_the_lineage_is_not_continued_beside_it(store: Store) -> None:
    first = (await store.create_job(make_session())).job
    with pytest.raises(Conflict, match=str(first.id)):
        await store.create_job(follower(first))
    await ended(store, first)
    second = (await store.create_job(follower(first))).job
    with pytest.raises(Conflict, match=str(second.id)):
        await store.create_job(follower(first))
    await ended(store, second)
    third = (await store.create_job(follower(second))).job
    assert (third.spec.continues, third.spec.lineage) == (second.id, first.id)
    assert isinstance((await store.create_job(make_session())).job.id, UUID), "others are free"
