"""The asynchronous client says what the synchronous one says, and lets others go on meanwhile."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator

import pytest

from aitne import AsyncClient
from aitne.client import Client, Platform
from aitne.client.thread_calls import call_in_thread, iterate_in_thread
from aitne.core.errors import NotFound
from tests.support.fake_api import JOB_ID, FakeApi, job, page, problem


@pytest.fixture
def asynchronous(api: FakeApi) -> AsyncClient:
    return AsyncClient(platform=Platform("http://aitne.test", "secret"), transport=api)


async def test_a_call(api: FakeApi, asynchronous: AsyncClient) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"))
    async with asynchronous as aitne:
        assert (await aitne.jobs.get(JOB_ID)).state == "RUNNING"


async def test_an_error_is_the_same(api: FakeApi, asynchronous: AsyncClient) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", problem(404, "not_found", "There is no such job."))
    with pytest.raises(NotFound, match="no such job"):
        await asynchronous.jobs.get(JOB_ID)


async def test_pages_are_fetched_as_they_are_asked_for(
    api: FakeApi, asynchronous: AsyncClient
) -> None:
    api.on("GET", "/jobs", page(job(), job(), next_cursor="2"), page(job()))
    found = asynchronous.jobs.list()
    assert (await anext(found)).id == JOB_ID
    assert len(api.sent("GET", "/jobs")) == 1
    assert len([each async for each in found]) == 2
    assert len(api.sent("GET", "/jobs")) == 2


async def test_asynchronous_call_does_not_block_other_tasks() -> None:
    waits = threading.Event()
    waiting = asyncio.create_task(call_in_thread(waits.wait, 20))
    await asyncio.sleep(0)
    waits.set()
    assert await waiting


async def test_cancelled_task_does_not_wait_for_call() -> None:
    waits = threading.Event()
    waiting = asyncio.create_task(call_in_thread(waits.wait, 20))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    waits.set()


async def test_a_stream_that_is_left_is_closed() -> None:
    closed = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            closed.append(True)

    found = iterate_in_thread(numbers)
    assert await anext(found) == 0
    await found.aclose()  # type: ignore[attr-defined]
    assert closed == [True]


def test_asynchronous_client_has_all_members_of_client(
    client: Client, asynchronous: AsyncClient
) -> None:
    def public(thing: object) -> set[str]:
        return {name for name in dir(thing) if not name.startswith("_")}

    assert public(asynchronous) == public(client)
    for name in public(client):
        twin, own = getattr(asynchronous, name), getattr(client, name)
        if not inspect.ismethod(own):
            assert public(own) <= public(twin) | set(vars(own)), name
