"""Tests of the order in which the API runs the requests of several users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.api.edge_middleware import MAX_BODY_BYTES
from aitne.api.request_fairness import (
    ACTIVE_S,
    HEAVY_S,
    LONGEST_WAIT_S,
    MOST_HELD_BYTES,
    MOST_RUNNING,
    MOST_WAITING,
    FairShare,
    RequestQueue,
    RunningRequest,
)
from aitne.core.errors import RateLimited
from tests.support.stage import Stage


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(3):
        await asyncio.sleep(0)


async def spend(queue: RequestQueue, user: str, seconds: float) -> None:
    """Have a user's request take so much of the event loop."""
    request = await queue.wait_for_turn(user)
    request.loop_s = seconds
    queue.finish(request)


async def test_heavy_user_waits_while_others_are_served() -> None:
    queue = RequestQueue(Clock())
    await spend(queue, "eve", 2 * HEAVY_S)
    ada = await queue.wait_for_turn("ada")
    eve = asyncio.create_task(queue.wait_for_turn("eve"))
    await settle()
    assert not eve.done()
    bob = await queue.wait_for_turn("bob")
    queue.finish(ada)
    await settle()
    assert not eve.done()
    queue.finish(bob)
    await settle()
    assert eve.done()


async def test_heavy_user_has_one_request_at_a_time_while_others_are_active() -> None:
    clock = Clock()
    queue = RequestQueue(clock)
    await spend(queue, "eve", 4 * HEAVY_S)
    await spend(queue, "ada", 0.0)
    first = await queue.wait_for_turn("eve")
    second = asyncio.create_task(queue.wait_for_turn("eve"))
    await settle()
    assert not second.done()
    queue.finish(first)
    await settle()
    assert second.done()
    clock.now += ACTIVE_S
    alone = [await queue.wait_for_turn("eve") for _ in range(MOST_RUNNING - 1)]
    assert len(alone) == MOST_RUNNING - 1


async def test_heavy_user_gets_a_turn_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aitne.api.request_fairness.LONGEST_WAIT_S", 0.0)
    queue = RequestQueue(Clock())
    await spend(queue, "eve", 2 * HEAVY_S)
    await queue.wait_for_turn("ada")
    async with asyncio.timeout(60):
        assert (await queue.wait_for_turn("eve")).user == "eve"


async def test_use_is_forgotten_with_time() -> None:
    clock = Clock()
    queue = RequestQueue(clock)
    await spend(queue, "eve", 2 * HEAVY_S)
    clock.now += 60
    await queue.wait_for_turn("ada")
    assert not (await queue.wait_for_turn("eve")).heavy


async def test_too_many_waiting_requests_are_refused() -> None:
    queue = RequestQueue(Clock())
    running = [await queue.wait_for_turn("eve") for _ in range(MOST_RUNNING)]
    waiting = [asyncio.create_task(queue.wait_for_turn("eve")) for _ in range(MOST_WAITING)]
    await settle()
    with pytest.raises(RateLimited):
        await queue.wait_for_turn("eve")
    assert (await queue.wait_for_turn("ada")).user == "ada"
    queue.finish(running[0])
    await settle()
    assert [each.done() for each in waiting] == [True] + [False] * (MOST_WAITING - 1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "end", "pause", "resume", "cancel", "spend", "wait"]),
            st.sampled_from(["ada", "bob", "eve"]),
        ),
        max_size=80,
    )
)
def test_every_request_gets_its_turn(steps: Sequence[tuple[str, str]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: Sequence[tuple[str, str]]) -> None:
    clock = Clock()
    queue = RequestQueue(clock)
    running: list[RunningRequest] = []
    waiting: list[asyncio.Task[RunningRequest]] = []

    async def collect() -> None:
        await settle()
        for task in [each for each in waiting if each.done()]:
            waiting.remove(task)
            running.append(task.result())

    for step, user in steps:
        mine = [each for each in running if each.user == user]
        if step == "begin":
            waiting.append(asyncio.create_task(queue.wait_for_turn(user)))
        elif step == "spend":
            for request in mine:
                request.loop_s += HEAVY_S
        elif step == "wait":
            clock.now += LONGEST_WAIT_S / 2
        elif step == "cancel":
            if not waiting:
                continue
            task = waiting.pop()
            task.cancel()
            with suppress(asyncio.CancelledError):
                running.append(await task)
        elif mine and step == "end":
            queue.finish(mine[0])
            running.remove(mine[0])
        elif mine:
            getattr(queue, step)(mine[0])
        await collect()
    while running:
        queue.finish(running.pop())
        clock.now += LONGEST_WAIT_S
        await collect()
    assert not waiting
    await spend(queue, "ada", 0.0)


async def test_slow_bodies_take_no_turn(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    token = await stage.token(ada)
    held = asyncio.Event()

    async def slow() -> Any:
        yield b"{"
        await held.wait()
        yield b"}"

    async with stage.client(token) as client, asyncio.TaskGroup() as group:
        for _ in range(2 * MOST_RUNNING):
            group.create_task(
                client.post(
                    "/api/v1/jobs", content=slow(), headers={"Content-Type": "application/json"}
                )
            )
        await settle()
        async with asyncio.timeout(60):
            assert (await client.get("/api/v1/me")).status_code == 200
        held.set()


async def test_unfinished_bodies_of_a_user_take_limited_memory(stage: Stage) -> None:
    tokens = [await stage.token(await stage.add_user(name)) for name in ("ada", "bob")]
    size = MAX_BODY_BYTES // 2 - len(b"{}")
    number = MOST_HELD_BYTES // size
    arrived, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def slow() -> Any:
        yield b" " * size
        arrived.release()
        await go_on.wait()
        yield b"{}"

    def send(client: httpx.AsyncClient) -> Any:
        headers = {"Content-Type": "application/json"}
        return client.post("/api/v1/jobs", content=slow(), headers=headers)

    async with stage.client(tokens[0]) as ada, stage.client(tokens[1]) as bob:
        for client in (ada, bob):
            assert (await client.get("/api/v1/me")).status_code == 200
        slowly = [asyncio.create_task(send(ada)) for _ in range(number)]
        for _ in slowly:
            await arrived.acquire()
        refused = await send(ada)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        other = asyncio.create_task(send(bob))
        await arrived.acquire()
        go_on.set()
        assert {answer.status_code for answer in await asyncio.gather(*slowly, other)} == {422}
        assert (await send(ada)).status_code == 422


async def test_a_user_is_known_by_any_credential(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    tokens = [await stage.token(ada), await stage.token(ada)]
    layer = FairShare(stage.app, cookie=stage.cookie)
    transport = httpx.ASGITransport(layer)
    for token in (*tokens, "unknown"):
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            transport=transport, base_url=stage.settings.portal_url, headers=headers
        ) as client:
            await client.get("/api/v1/me")
    assert set(layer._users.values()) == {"ada"}
    assert len(layer._users) == 2
