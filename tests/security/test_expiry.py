"""Credentials that expire: their connections end as with a revocation, and no others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.user import Actor, Role
from aitne.services.users.account_service import IMPERSONATION_S
from aitne.services.users.expired_credential_watch import LOOK_EVERY_S, ExpiryWatch
from aitne.services.users.hub_logouts import HubLogouts
from tests.security.test_terminals import opening, path, refused, ticket
from tests.support.asgi import SOON_S, OpenAnswer, open_answer
from tests.support.hub import RecordingLogins
from tests.support.jobs import make_job
from tests.support.session_tokens import hand_over, start_session
from tests.support.stage import Stage
from tests.support.terminals import connected, running_job


@pytest.fixture
async def ada(stage: Stage) -> Actor:
    return await stage.add_user("ada", project="vision")


@asynccontextmanager
async def events(stage: Stage, headers: dict[str, str]) -> AsyncIterator[OpenAnswer]:
    """Open the stream of events with these headers."""
    async with open_answer(stage.app, "/api/v1/events", headers) as answer:
        await answer.until(b"event: hello")
        yield answer


async def open_stream(stage: Stage, browser: httpx.AsyncClient) -> None:
    """Open the stream of events as a page does whose connection broke."""
    async with events(stage, cookie(stage, browser)):
        pass


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cookie(stage: Stage, browser: httpx.AsyncClient) -> dict[str, str]:
    return {"Cookie": f"{stage.cookie}={browser.cookies[stage.cookie]}"}


async def ended(answer: OpenAnswer) -> bool:
    async with asyncio.timeout(SOON_S):
        await answer.task
    return answer.ended


async def pass_time(stage: Stage, seconds: float) -> None:
    stage.clock.move(seconds)
    await stage.app.state.expiry.report_expired()


async def test_token_that_expires_ends_its_streams_and_terminals_alone(
    stage: Stage, ada: Actor
) -> None:
    job = await running_job(stage)
    short, long = await stage.token(ada, lifetime_s=60), await stage.token(ada)
    async with (
        events(stage, bearer(short)) as over,
        events(stage, bearer(long)) as kept,
        connected(stage.app, path(job)) as gone,
        connected(stage.app, path(job)) as going_on,
    ):
        for socket, token in ((gone, short), (going_on, long)):
            socket.say(opening(await ticket(stage, job, token), argv=["cat"]))
            await socket.hear("started")
        await pass_time(stage, 59)
        gone.say(b"still\n")
        assert await gone.hear("bytes")
        await pass_time(stage, 1)
        assert await ended(over)
        assert (await gone.hear("exit"))["code"] is None
        going_on.say(b"kept\n")
        assert await going_on.hear("bytes")
        await stage.store.create_job(make_job(owner="ada"))
        await kept.until(b"event: job.created")


async def test_ticket_for_a_terminal_ends_with_the_token_that_asked_for_it(
    stage: Stage, ada: Actor
) -> None:
    job = await running_job(stage)
    token = await stage.token(ada, lifetime_s=60)
    early = await ticket(stage, job, token)
    await pass_time(stage, 59)
    late = await ticket(stage, job, token)
    await pass_time(stage, 1)
    for each in (early, late):
        async with connected(stage.app, path(job)) as socket:
            socket.say(opening(each))
            assert (await refused(socket))["code"] == "not_authenticated"


async def test_login_that_expires_or_is_ended_closes_what_its_browser_opened(
    stage: Stage, ada: Actor
) -> None:
    lifetime_s = stage.settings.auth.session_lifetime
    async with stage.browser("ada") as first:
        stage.clock.move(60)
        async with (
            stage.browser("ada") as second,
            events(stage, cookie(stage, first)) as of_first,
            events(stage, cookie(stage, second)) as of_second,
        ):
            for _ in range(8):
                for browser in (first, second):
                    await browser.post("/api/v1/auth/activity")
                await pass_time(stage, (lifetime_s - 60) / 8)
            assert await ended(of_first)
            await stage.store.create_job(make_job(owner="ada"))
            await of_second.until(b"event: job.created")
            assert (await second.post("/api/v1/auth/logout")).status_code == 204
            assert await ended(of_second)


async def test_login_ends_when_its_user_does_nothing_although_a_page_is_open(
    stage: Stage, ada: Actor
) -> None:
    idle_s = stage.settings.auth.inactivity_duration
    async with (
        stage.browser("ada") as browser,
        events(stage, cookie(stage, browser)) as stream,
    ):
        stage.clock.move(idle_s - 60)
        job = {"name": "n", "project": "vision", "commands": ["true"]}
        assert (await browser.post("/api/v1/jobs", json=job)).status_code == 201
        for _ in range(2):
            await pass_time(stage, idle_s / 4)
            assert (await browser.get("/api/v1/me")).status_code == 200
            await open_stream(stage, browser)
        assert (await browser.post("/api/v1/auth/activity")).status_code == 204
        await pass_time(stage, idle_s - 1)
        assert (await browser.get("/api/v1/me")).status_code == 200
        assert not stream.ended
        await pass_time(stage, 1)
        assert await ended(stream)
        assert (await browser.get("/api/v1/me")).status_code == 401
        assert (await browser.post("/api/v1/auth/activity")).status_code == 401
        # Sessions have an inactivity duration of their own: the work in them is not seen here.
        assert not await stage.store.list_hub_logouts(stage.clock.now)
        stage.clock.move(stage.settings.auth.session_lifetime)
        (due,) = await stage.store.list_hub_logouts(stage.clock.now)
        assert (due.owner, len(due.expired)) == ("ada", 1)


@pytest.mark.parametrize("by_time", [True, False])
async def test_impersonation_that_ends_closes_the_streams_of_the_other_user(
    stage: Stage, ada: Actor, by_time: bool
) -> None:
    await stage.add_user("root", Role.ADMIN)
    async with stage.browser("root") as browser, stage.browser("ada") as own:
        assert (await browser.post("/api/v1/users/ada/impersonate")).status_code == 200
        me = (await browser.get("/api/v1/me")).json()
        browser.headers["X-CSRF-Token"] = me["csrf_token"]
        async with (
            events(stage, cookie(stage, browser)) as seen,
            events(stage, cookie(stage, own)) as of_ada,
        ):
            if by_time:
                await pass_time(stage, IMPERSONATION_S)
            else:
                await browser.post("/api/v1/auth/end-impersonation")
            assert await ended(seen)
            await stage.store.create_job(make_job(owner="ada"))
            await of_ada.until(b"event: job.created")


async def test_session_that_ends_closes_the_streams_of_its_token(stage: Stage, ada: Actor) -> None:
    session = await start_session(stage, "ada")
    token = (await hand_over(stage, session.id))["AITNE_TOKEN"]
    async with events(stage, bearer(token)) as stream:
        await stage.store.transition_job(session.id, JobState.CANCELLED)
        assert await ended(stream)


async def test_lab_opened_by_a_login_that_expires_closes_and_others_stay(
    stage: Stage, ada: Actor
) -> None:
    hub = RecordingLogins()
    logouts = HubLogouts(stage.store, hub, stage.clock)
    async with stage.browser("ada"), stage.browser("ada"):
        stage.clock.move(60)
        async with stage.browser("ada") as later:
            listed = (await later.get("/api/v1/account/sign-ins")).json()["items"]
            (current,) = (each["id"] for each in listed if each["current"])
            stage.clock.move(stage.settings.auth.session_lifetime - 60)
            # Also what has expired while no process ran.
            await logouts.start()
            async with asyncio.timeout(SOON_S):
                while await stage.store.list_hub_logouts(stage.clock.now):
                    await asyncio.sleep(0.01)
            await logouts.stop()
    assert (hub.ended, hub.kept) == (["ada"], [frozenset({current})])


async def test_watch_wakes_at_the_next_expiry(stage: Stage, ada: Actor) -> None:
    reported: list[frozenset[str]] = []
    woken = asyncio.Event()

    async def note(ended: object) -> None:
        reported.append(ended.ids)  # type: ignore[attr-defined]
        woken.set()

    watch = ExpiryWatch(stage.store, stage.clock, note)
    assert await watch.report_expired() == LOOK_EVERY_S
    token = await stage.token(ada, lifetime_s=3)
    assert await watch.report_expired() == 3
    stage.clock.move(3)
    await watch.start()
    async with asyncio.timeout(SOON_S):
        await woken.wait()
    await watch.stop()
    async with stage.client(token) as client:
        assert (await client.get("/api/v1/me")).status_code == 401
    assert [len(ids) for ids in reported] == [1]
