"""Access to terminals, each of which acts as its user."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from socket import socketpair
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from aitne.api.terminal_socket import MAX_PER_ADDRESS, MOST_WAITING
from aitne.core.errors import NotAllowed
from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Role
from aitne.core.sessions import attach_protocol
from aitne.core.sessions.attach_protocol import ShellStart, Size
from aitne.services.sessions.terminal import open_terminal
from aitne.services.sessions.terminals import MAX_PER_USER, TICKET_LIFETIME_S
from tests.support import realtime
from tests.support.stage import PASSWORD, Stage
from tests.support.terminals import Socket, connected, running_job

pytestmark = realtime.PROCESSES

SHELL = {"kind": "shell"}


def path(job: UUID) -> str:
    return f"/api/v1/jobs/{job}/terminal"


@pytest.fixture
async def job(stage: Stage) -> UUID:
    await stage.add_user("ada", project="vision")
    return await running_job(stage)


@pytest.fixture
async def token(stage: Stage, job: UUID) -> str:
    user = await stage.store.get_user("ada")
    return await stage.token(stage.actor(user.name))


async def ticket(stage: Stage, job: UUID, token: str, **body: Any) -> str:
    async with stage.client(token) as client:
        answer = await client.post(path(job), json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ticket"])


def opening(ticket: str, **start: Any) -> dict[str, Any]:
    return {"type": "open", "ticket": ticket, "start": SHELL | start}


async def refused(socket: Socket) -> Any:
    problem = (await socket.hear("error"))["problem"]
    assert await socket.wait_closed() == 4000
    return problem


# --- the ticket ----------------------------------------------------------------------------------


async def test_an_administrator_gets_no_terminal_in_anothers_job(stage: Stage, job: UUID) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as client:
        answer = await client.post(path(job), json={})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


async def test_terminal_is_refused_during_impersonation(stage: Stage, job: UUID) -> None:
    ada = stage.actor("ada").model_copy(update={"impersonator": "root"})
    with pytest.raises(NotAllowed, match="root impersonates ada"):
        await stage.platform.terminals.issue_ticket(ada, job, None)


async def test_a_token_that_only_reads_is_not_enough(stage: Stage, job: UUID) -> None:
    token = await stage.token(stage.actor("ada"), Scope.READ)
    async with stage.client(token) as client:
        assert (await client.post(path(job), json={})).status_code == 403


async def test_a_page_of_another_origin_gets_no_ticket(stage: Stage, job: UUID) -> None:
    async with stage.browser("ada") as browser:
        good = await browser.post(path(job), json={})
        assert good.status_code == 201
        for headers in ({"Origin": "http://evil.test"}, {"X-CSRF-Token": "wrong"}):
            answer = await browser.post(path(job), json={}, headers=headers)
            assert answer.status_code == 403


async def test_only_a_running_job_has_one_and_only_on_its_nodes(
    stage: Stage, job: UUID, token: str
) -> None:
    async with stage.client(token) as client:

        async def ask(node: str | None) -> httpx.Response:
            return await client.post(path(job), json={"node": node})

        unseen = await running_job(stage, nodes=())
        assert (await client.post(path(unseen), json={})).status_code == 503
        assert (await ask("node03")).status_code == 422
        assert (await ask("node02")).json()["node"] == "node02"
        await stage.store.transition_job(job, JobState.COMPLETED)
        ended = await ask(None)
        assert (ended.status_code, ended.json()["code"]) == (409, "conflict")
        assert (await client.post(path(uuid4()), json={})).status_code == 404


# --- the WebSocket -------------------------------------------------------------------------------


async def test_a_page_of_another_origin_opens_no_websocket(
    stage: Stage, job: UUID, token: str
) -> None:
    good = await ticket(stage, job, token)
    for origin in ("http://evil.test", "http://portal.test:8001", "null"):
        async with connected(stage.app, path(job), Origin=origin) as socket:
            socket.say(opening(good))
            assert await socket.wait_closed() == 403
            assert not socket.accepted
    assert stage.attacher.targets == []


async def test_neither_cookie_nor_token_opens_one_without_a_ticket(
    stage: Stage, job: UUID, token: str
) -> None:
    async with stage.browser("ada") as browser:
        cookie = f"{stage.cookie}={browser.cookies[stage.cookie]}"
    own = stage.settings.portal_url
    for headers in ({"Cookie": cookie, "Origin": own}, {"Authorization": f"Bearer {token}"}):
        for first in ({"type": "open", "start": SHELL}, opening(""), opening(token)):
            async with connected(stage.app, path(job), **headers) as socket:
                socket.say(first)
                problem = await refused(socket)
                assert problem["status"] in (401, 422)
                assert token not in problem["detail"]
    assert stage.attacher.targets == []


async def test_a_ticket_works_once_for_a_minute_and_for_its_own_job(
    stage: Stage, job: UUID, token: str
) -> None:
    other = await running_job(stage)
    used = await ticket(stage, job, token)
    async with connected(stage.app, path(job)) as socket:
        socket.say(opening(used))
        assert (await socket.hear("started"))["node"] == "node01"
    foreign = await ticket(stage, other, token)
    old = await ticket(stage, job, token)
    stage.clock.move(TICKET_LIFETIME_S + 1)
    for wrong in (used, foreign, old):
        async with connected(stage.app, path(job)) as socket:
            socket.say(opening(wrong))
            assert (await refused(socket))["status"] == 401
    assert len(stage.attacher.targets) == 1


async def test_a_disabled_account_gets_in_no_more(stage: Stage, job: UUID, token: str) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    held = await ticket(stage, job, token)
    await stage.platform.users.update(root, "ada", disabled=True)
    async with connected(stage.app, path(job)) as socket:
        socket.say(opening(held))
        assert (await refused(socket))["status"] == 401


async def test_a_job_that_ended_meanwhile_is_said_to_have(
    stage: Stage, job: UUID, token: str
) -> None:
    held = await ticket(stage, job, token)
    await stage.store.transition_job(job, JobState.COMPLETED)
    async with connected(stage.app, path(job)) as socket:
        socket.say(opening(held))
        assert (await refused(socket))["status"] == 409


async def test_terminals_of_one_user_are_limited(stage: Stage, job: UUID, token: str) -> None:
    async with asyncio.TaskGroup() as group:
        done = asyncio.Event()

        async def hold() -> None:
            async with connected(stage.app, path(job)) as socket:
                socket.say(opening(await ticket(stage, job, token)))
                await socket.hear("started")
                opened.release()
                await done.wait()

        opened = asyncio.Semaphore(0)
        for _ in range(MAX_PER_USER):
            group.create_task(hold())
        for _ in range(MAX_PER_USER):
            await opened.acquire()
        async with connected(stage.app, path(job)) as socket:
            socket.say(opening(await ticket(stage, job, token)))
            assert (await refused(socket))["status"] == 429
        done.set()
    async with connected(stage.app, path(job)) as socket:
        socket.say(opening(await ticket(stage, job, token)))
        await socket.hear("started")


async def test_idle_connections_keep_no_other_client_out(
    stage: Stage, job: UUID, token: str
) -> None:
    async with AsyncExitStack() as open_ones:

        async def connect(address: str) -> Socket:
            socket = await open_ones.enter_async_context(
                connected(stage.app, path(job), address=address)
            )
            async with asyncio.timeout(60):
                while not socket.accepted:
                    await asyncio.sleep(0)
            return socket

        async def start(socket: Socket) -> None:
            socket.say(opening(await ticket(stage, job, token)))
            await socket.hear("started")

        idle = [await connect("192.0.2.7") for _ in range(MAX_PER_ADDRESS)]
        await start(await connect("192.0.2.7"))
        assert (await refused(idle[0]))["status"] == 422
        assert all(each.closed is None for each in idle[1:])
        await start(idle[1])
        for n in range(1, MOST_WAITING // MAX_PER_ADDRESS):
            for _ in range(MAX_PER_ADDRESS):
                await connect(f"192.0.2.{100 + n}")
        await connect("192.0.2.8")
        await connect("192.0.2.8")
        await start(await connect("192.0.2.9"))
        assert (await refused(idle[2]))["status"] == 422


async def test_invalid_message_ends_terminal(stage: Stage, job: UUID, token: str) -> None:
    for wrong in (
        {"type": "resize", "rows": 0, "cols": 80},
        {"type": "resize", "rows": 10, "cols": 10_000},
        {"type": "ack", "bytes": 3},
        {"type": "unheard-of"},
        b"x" * (257 << 10),
    ):
        async with connected(stage.app, path(job)) as socket:
            socket.say(opening(await ticket(stage, job, token)))
            await socket.hear("started")
            socket.say(wrong)
            assert (await refused(socket))["status"] == 422


async def test_terminal_cannot_be_resumed_by_other_user(
    stage: Stage, job: UUID, token: str
) -> None:
    async with connected(stage.app, path(job), "hold=true") as socket:
        socket.say(opening(await ticket(stage, job, token)))
        name = (await socket.hear("started"))["terminal"]
    await stage.add_user("eve")
    theirs = await running_job(stage, owner="eve", project="eve")
    foreign = await ticket(stage, theirs, await stage.token(stage.actor("eve")))
    async with connected(stage.app, path(theirs)) as socket:
        socket.say({"type": "resume", "ticket": foreign, "terminal": name, "received": 0})
        assert (await refused(socket))["status"] == 404


async def test_terminals_end_when_administrator_ends_access_of_user(
    stage: Stage, job: UUID, token: str
) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as admin:
        for shut_out in (
            lambda: admin.delete("/api/v1/users/ada/sign-ins"),
            lambda: admin.patch("/api/v1/users/ada", json={"disabled": True}),
        ):
            async with connected(stage.app, path(job)) as socket:
                socket.say(opening(await ticket(stage, job, token), argv=["cat"]))
                await socket.hear("started")
                assert (await shut_out()).status_code == 200
                assert (await socket.hear("exit"))["code"] is None
                assert await socket.wait_closed() == 1000


async def test_terminals_end_when_user_ends_sign_ins_or_changes_password(
    stage: Stage, job: UUID
) -> None:
    """A thief of a login could have opened a terminal with it."""
    async with stage.client() as mine:
        login = {"username": "ada", "password": PASSWORD}
        csrf = (await mine.post("/api/v1/auth/login", json=login)).json()["csrf_token"]
        headers = {"X-CSRF-Token": csrf, "Origin": stage.settings.portal_url}
        token = await stage.token(stage.actor("ada"))
        change = {"password": "another good password", "current_password": PASSWORD}
        for shut_out in (
            lambda: mine.delete("/api/v1/account/sign-ins", headers=headers),
            lambda: mine.post("/api/v1/account/password", json=change, headers=headers),
        ):
            async with connected(stage.app, path(job)) as socket:
                socket.say(opening(await ticket(stage, job, token), argv=["cat"]))
                await socket.hear("started")
                assert (await shut_out()).is_success
                assert (await socket.hear("exit"))["code"] is None


async def test_a_program_that_reads_nothing_makes_no_heap_of_what_is_not_typed(
    stage: Stage, job: UUID
) -> None:
    ours, theirs = socketpair()
    with theirs:
        theirs.sendall(
            attach_protocol.encode_frame(
                attach_protocol.START, b'{"node": "node01", "where": "node"}'
            )
            + b"\n"
        )
        start = ShellStart(argv=("sleep",))
        terminal = await open_terminal(ours, start, node="node01", owner="ada", job_id=job)
        for _ in range(10_000):
            terminal.send_input(b"")
            terminal.resize(Size(rows=10, cols=10))
        assert len(terminal._input) <= 2
        await terminal.close()
