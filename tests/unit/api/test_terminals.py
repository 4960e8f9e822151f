"""Terminals over the WebSocket: what goes which way, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from aitne.core.errors import SchedulerRejected
from aitne.services.sessions.terminal import WINDOW_BYTES
from tests.support.stage import Stage
from tests.support.terminals import Socket, connected, running_job


@pytest.fixture
async def job(stage: Stage) -> UUID:
    await stage.add_user("ada", project="vision")
    return await running_job(stage)


class Door:
    """Tickets and WebSockets of one job."""

    def __init__(self, stage: Stage, job: UUID) -> None:
        self._stage = stage
        self.path = f"/api/v1/jobs/{job}/terminal"

    async def ticket(self, node: str | None = None) -> str:
        token = await self._stage.token(self._stage.actor("ada"))
        async with self._stage.client(token) as client:
            return str((await client.post(self.path, json={"node": node})).json()["ticket"])

    async def open(self, socket: Socket, **start: Any) -> Any:
        first = {"type": "open", "ticket": await self.ticket(), "start": {"kind": "shell", **start}}
        socket.say(first)
        return await socket.hear("started")


@pytest.fixture
def door(stage: Stage, job: UUID) -> Door:
    return Door(stage, job)


async def none_live(stage: Stage) -> None:
    async with asyncio.timeout(60):
        while stage.attacher.live:
            await asyncio.sleep(0.01)


async def test_terminal_carries_input_and_output(stage: Stage, door: Door) -> None:
    async with connected(stage.app, door.path) as socket:
        started = await door.open(socket, argv=["cat"], rows=30, cols=90)
        assert (started["where"], started["window"]) == ("node", WINDOW_BYTES)
        socket.say("größer\0\n".encode())
        assert await socket.hear("bytes") == b"\x01" + "größer\0\n".encode()
        socket.say({"type": "resize", "rows": 50, "cols": 120})
        assert await socket.hear("bytes") == b"\x0150x120"
        socket.say(b"exit 7")
        assert await socket.hear("exit") == {"type": "exit", "code": 7, "reason": None}
        assert await socket.wait_closed() == 1000
    (start,) = stage.attacher.starts
    assert (start["argv"], start["rows"], start["node"]) == (["cat"], 30, "node01")
    (target,) = stage.attacher.targets
    assert (target.run.scheduler_id, target.node) == ("17", "node01")
    events = await stage.store.list_job_events(target.run.job_id)
    assert events[-1].kind == "job.attached"
    await none_live(stage)


async def test_the_end_of_the_input_is_passed_on(stage: Stage, door: Door) -> None:
    async with connected(stage.app, door.path) as socket:
        await door.open(socket, tty=False)
        socket.say({"type": "eof"})
        assert (await socket.hear("exit"))["code"] == 0


async def test_no_more_is_sent_than_was_taken(stage: Stage, door: Door) -> None:
    async with connected(stage.app, door.path) as socket:
        await door.open(socket)
        socket.say(b"flood\n")
        got = 0
        while got < WINDOW_BYTES:
            got += len(await socket.hear("bytes"))
        await asyncio.sleep(0.3)  # nothing may come in this time
        waiting = socket.unread()
        assert got + waiting * 16_001 < WINDOW_BYTES + (1 << 17)
        while got < 200 * 16_001:
            socket.say({"type": "ack", "bytes": got})
            got += len(await socket.hear("bytes"))
        socket.say(b"exit 0")
        await socket.hear("exit")


async def test_input_is_acknowledged_when_it_has_arrived(stage: Stage, door: Door) -> None:
    async with connected(stage.app, door.path) as socket:
        await door.open(socket)
        assert (await socket.hear("ack"))["bytes"] == 0
        socket.say(b"12345")
        assert (await socket.hear("ack"))["bytes"] == 5


async def test_resumed_terminal_loses_and_repeats_nothing(stage: Stage, door: Door) -> None:
    async with connected(stage.app, door.path, "hold=true") as socket:
        name = (await door.open(socket))["terminal"]
        for text in (b"one", b"two", b"three"):
            socket.say(text)
        received = len(await socket.hear("bytes"))
        socket.say({"type": "ack", "bytes": received})
        await socket.hear("bytes")
        await socket.hear("bytes")
    assert stage.attacher.live == 1
    async with connected(stage.app, door.path, "hold=true") as socket:
        ticket = await door.ticket()
        first = {"type": "resume", "ticket": ticket, "terminal": name, "received": received}
        socket.say(first)
        assert (await socket.hear("started"))["received"] == 11
        assert await socket.hear("bytes") == b"\x01two"
        assert await socket.hear("bytes") == b"\x01three"
        socket.say(b"exit 3")
        assert (await socket.hear("exit"))["code"] == 3
    await none_live(stage)


async def test_a_second_connection_takes_a_terminal_over(stage: Stage, door: Door) -> None:
    async with (
        connected(stage.app, door.path, "hold=true") as older,
        connected(stage.app, door.path, "hold=true") as newer,
    ):
        name = (await door.open(older))["terminal"]
        ticket = await door.ticket()
        newer.say({"type": "resume", "ticket": ticket, "terminal": name, "received": 0})
        await newer.hear("started")
        newer.say(b"mine")
        assert await newer.hear("bytes") == b"\x01mine"
        older.drop()
        newer.say(b"still mine")
        assert await newer.hear("bytes") == b"\x01still mine"


async def test_terminal_without_hold_ends_at_once(stage: Stage, door: Door) -> None:
    async with connected(stage.app, door.path) as socket:
        await door.open(socket)
        assert stage.attacher.live == 1
    await none_live(stage)
    async with connected(stage.app, door.path, "hold=true") as socket:
        await door.open(socket)
        socket.say({"type": "close"})
        await none_live(stage)


async def test_why_nothing_was_started_is_told(stage: Stage, door: Door) -> None:
    stage.attacher.refusal = SchedulerRejected("Job 17 does not run.")
    async with connected(stage.app, door.path) as socket:
        ticket = await door.ticket()
        socket.say({"type": "open", "ticket": ticket, "start": {"kind": "shell"}})
        problem = (await socket.hear("error"))["problem"]
        assert (problem["status"], problem["detail"]) == (409, "Job 17 does not run.")


async def test_ssh_is_told_its_account(stage: Stage, job: UUID) -> None:
    async with stage.client(await stage.token(stage.actor("ada"))) as client:
        assert (await client.get("/api/v1/ssh")).json()["account"]
