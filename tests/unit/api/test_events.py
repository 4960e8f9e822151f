from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema_rs
import pytest

from aitne.api import streaming
from aitne.core.models.user import Actor, Role
from aitne.services.platform.event_hub import EventHub
from tests.support.asgi import SOON_S, OpenAnswer, open_answer
from tests.support.jobs import make_job
from tests.support.openapi import openapi_document
from tests.support.stage import SCRAPER, Stage

DATA = "data: "


def events_in(text: bytes) -> list[dict[str, object]]:
    return [
        json.loads(line.removeprefix(DATA))
        for line in text.decode().splitlines()
        if line.startswith(DATA)
    ]


@asynccontextmanager
async def listening(
    stage: Stage, actor: Actor, last_event_id: int | None = None
) -> AsyncIterator[OpenAnswer]:
    headers = {"Authorization": f"Bearer {await stage.token(actor)}"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = str(last_event_id)
    async with open_answer(stage.app, "/api/v1/events", headers) as answer:
        yield answer


async def test_a_stream_begins_with_hello_and_tells_what_happens(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with listening(stage, ada) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        hello = await answer.until(b"\n\n")
        assert b"event: hello" in hello
        job = make_job(owner="ada", project="ada")
        await stage.store.create_job(job)
        told = await answer.until(b"event: job.created")
        event = events_in(told)[0]
        assert event["job_id"] == str(job.id)
        assert event["owner"] == "ada"
        assert event["data"]["state"] == "PENDING_SUBMIT"  # type: ignore[index]


async def test_messages_match_their_schema_in_the_openapi_document(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    spec = openapi_document()
    answers = spec["paths"]["/api/v1/events"]["get"]["responses"]
    schema = answers["200"]["content"]["text/event-stream"]["schema"]
    controls, events = schema["oneOf"]
    for last_event_id in (None, 999_999_999):  # the second one cannot be resumed
        async with listening(stage, ada, last_event_id) as answer:
            await stage.store.create_job(make_job(owner="ada", project="ada"))
            text = await answer.until(b"event: job.created")
        messages = [
            dict(line.split(": ", 1) for line in message.splitlines())
            for message in text.decode().split("\n\n")
            if message and not message.startswith(":")
        ]
        assert messages[0]["event"] in controls["properties"]["event"]["enum"]
        assert messages[-1]["event"] == "job.created"
        for message in messages:
            _validate(message, schema, spec)
            [branch] = [each for each in (controls, events) if _matches(message, each, spec)]
            content = branch["properties"]["data"]["contentSchema"]
            _validate(json.loads(message["data"]), content, spec)


def _validate(value: object, schema: dict[str, Any], spec: dict[str, Any]) -> None:
    jsonschema_rs.validator_for({**schema, "components": spec["components"]}).validate(value)


def _matches(value: object, schema: dict[str, Any], spec: dict[str, Any]) -> bool:
    root = {**schema, "components": spec["components"]}
    return jsonschema_rs.validator_for(root).is_valid(value)


async def test_event_stream_contains_only_events_of_its_user(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    bob = await stage.add_user("bob", project="vision")
    root = await stage.add_user("root", Role.ADMIN)
    async with (
        listening(stage, ada) as of_ada,
        listening(stage, bob) as of_bob,
        listening(stage, root) as of_root,
    ):
        for owner, project in (("ada", "ada"), ("cyd", "vision"), ("cyd", "secret")):
            await stage.store.create_job(make_job(owner=owner, project=project))
        await stage.store.add_event("announcement", {"text": "lunch"})
        heard = [await each.until(b"announcement") for each in (of_ada, of_bob, of_root)]
    projects = [
        [event["project"] for event in events_in(text) if event.get("kind") == "job.created"]
        for text in heard
    ]
    assert projects == [["ada"], ["vision"], ["ada", "vision", "secret"]]


async def test_event_stream_continues_after_reconnection(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    seen = await stage.store.get_last_event_id()
    jobs = [make_job(owner="ada", project="ada") for _ in range(3)]
    for job in jobs:
        await stage.store.create_job(job)
    async with listening(stage, ada) as answer:
        await answer.until(b"hello")
    async with listening(stage, ada, seen) as answer:
        text = await answer.until(str(jobs[-1].id).encode())
    missed = [event["job_id"] for event in events_in(text) if "job_id" in event]
    assert missed == [str(job.id) for job in jobs]
    assert b"reset" not in text


@pytest.mark.parametrize("bogus", ["999999999", "nonsense", "-1"])
async def test_an_event_id_that_cannot_be_resumed_is_no_error(stage: Stage, bogus: str) -> None:
    ada = await stage.add_user("ada")
    headers = {"Authorization": f"Bearer {await stage.token(ada)}", "Last-Event-ID": bogus}
    async with open_answer(stage.app, "/api/v1/events", headers) as answer:
        expected = b"event: reset" if bogus.isdecimal() else b"event: hello"
        assert expected in await answer.until(expected)


async def test_a_stream_that_is_left_frees_its_place(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with listening(stage, ada) as answer:
        await answer.until(b"hello")
        async with stage.client() as client:
            assert "aitne_sse_clients 1.0" in (await client.get("/metrics", headers=SCRAPER)).text
    async with stage.client() as client:
        assert "aitne_sse_clients 0.0" in (await client.get("/metrics", headers=SCRAPER)).text


async def test_the_streams_of_a_user_are_bounded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_STREAMS_PER_USER", 2)
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    async with stage.client(await stage.token(ada)) as client:
        async with listening(stage, ada) as first, listening(stage, ada) as second:
            await first.until(b"hello")
            await second.until(b"hello")
            refused = await client.get("/api/v1/events")
            assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
            async with listening(stage, bob) as other:
                await other.until(b"hello")
        async with listening(stage, ada) as again:
            await again.until(b"hello")


async def test_the_end_of_the_server_ends_the_streams(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with listening(stage, ada) as answer:
        await answer.until(b"hello")
        stage.app.state.streams.close()
        async with asyncio.timeout(SOON_S):
            await answer.task
        assert answer.ended


async def test_streams_end_when_a_token_is_revoked(stage: Stage) -> None:
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    async with (
        listening(stage, ada) as of_ada,
        listening(stage, bob) as of_bob,
        stage.browser("ada") as browser,
    ):
        for answer in (of_ada, of_bob):
            await answer.until(b"event: hello")
        (token,) = [each["id"] for each in (await browser.get("/api/v1/tokens")).json()["items"]]
        assert (await browser.delete(f"/api/v1/tokens/{token}")).status_code == 204
        async with asyncio.timeout(SOON_S):
            await of_ada.task
        assert of_ada.ended
        await stage.store.create_job(make_job(owner="bob", project="bob"))
        await of_bob.until(b"event: job.created")


async def test_without_a_login_there_is_no_stream(stage: Stage) -> None:
    async with stage.client() as client:
        answer = await client.get("/api/v1/events")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_slow_listener_is_reset_and_goes_on(stage: Stage) -> None:
    ada = stage.actor("ada")
    hub = EventHub(stage.store, backlog=3)
    await hub.start()
    try:
        with hub.subscribe(ada) as slow, hub.subscribe(ada) as quick:
            await stage.store.add_event("announcement", {"n": 0})
            assert len((await quick.get()).events) == 1
            for n in range(1, 6):
                await stage.store.add_event("announcement", {"n": n})
                messages = await quick.get()
                assert not messages.reset
                assert len(messages.events) == 1
            messages = await slow.get()
            assert messages.reset
            assert len(messages.events) <= 3
            await stage.store.add_event("announcement", {"n": 6})
            following = await slow.get()
            assert b'"n":6' in following.events[-1].replace(b" ", b"")
    finally:
        await hub.stop()


async def test_event_stream_is_reset_after_missing_too_many_events(stage: Stage) -> None:
    start = await stage.store.get_last_event_id()
    for n in range(10):
        await stage.store.add_event("announcement", {"n": n})
    hub = EventHub(stage.store, history=4)
    await hub.start()
    try:
        actor = stage.actor("ada")
        with hub.subscribe(actor, after=start + 5) as late:
            assert (await late.get()).reset
        with hub.subscribe(actor, after=start + 6) as in_time:
            messages = await in_time.get()
            assert not messages.reset
            assert len(messages.events) == 4
    finally:
        await hub.stop()


async def test_a_thousand_listeners_cost_what_one_costs(stage: Stage) -> None:
    queries = 0
    read = stage.store.list_events_after

    async def counted(event_id: int, *, limit: int = 1_000) -> object:
        nonlocal queries
        queries += 1
        return await read(event_id, limit=limit)

    stage.store.list_events_after = counted  # type: ignore[method-assign,assignment]
    hub = EventHub(stage.store)
    await hub.start()
    try:
        actor = stage.actor("ada")
        subscriptions = [hub.subscribe(actor) for _ in range(1_000)]
        listeners = [each.__enter__() for each in subscriptions]
        await stage.store.add_event("announcement", {})
        messages = await asyncio.gather(*(each.get() for each in listeners))
        assert len({id(each.events[0]) for each in messages}) == 1
        assert queries < 10
        for each in subscriptions:
            each.__exit__(None, None, None)
    finally:
        await hub.stop()
