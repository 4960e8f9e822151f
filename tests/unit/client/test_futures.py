"""Futures of jobs: when they are done, and what they raise."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import queue
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import cloudpickle
import pytest

from aitne.client import Client, function_errors
from aitne.client.errors import WaitTimeout
from aitne.client.function_errors import JobNotCompleted
from aitne.client.function_packaging import FunctionCall
from aitne.core.errors import InvalidInput, NotAllowed
from aitne.core.jobs.array_job_state import task_id
from tests.support.fake_api import JOB_ID, Answer, FakeApi, job, page

OTHER_ID = JOB_ID[:-1] + "2"
ARRAY_ID = "3b7a1f00-0000-4000-8000-000000000000"
WAIT_S = 60.0


def content(value: object, kind: str = "value", **more: Any) -> bytes:
    """Return a result file as a job writes it."""
    data = cloudpickle.dumps(value)
    header = {"format": 1, "kind": kind, "python": sys.version_info[:2], "bytes": len(data)}
    return json.dumps({**header, **more}).encode() + b"\n" + data


class Stream:
    """An event stream that a test feeds."""

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes | None] = queue.Queue()

    def __iter__(self) -> Iterator[bytes]:
        yield b'event: hello\ndata: {"last_event_id": 7}\n\n'
        while (piece := self._queue.get()) is not None:
            yield piece

    def say(self, job_id: str, state: str, **data: Any) -> None:
        """Send an event about a job's new state."""
        fact = {"id": 8, "time": "2026-11-21T04:00:00Z", "kind": "job.state", "job_id": job_id}
        fact |= {"owner": "ada", "project": "ada", "data": {"state": state, **data}}
        self._queue.put(f"event: job.state\ndata: {json.dumps(fact)}\n\n".encode())

    def end(self) -> None:
        """End the stream of events."""
        self._queue.put(None)


@pytest.fixture
def stream(api: FakeApi) -> Iterator[Stream]:
    made = Stream()
    api.on("GET", "/me", {"user": {"name": "ada"}, "projects": []})
    api.on("GET", "/events", Answer(200, made))
    yield made
    made.end()


def answers(api: FakeApi, *jobs: dict[str, Any], result: bytes | Answer | None = None) -> None:
    api.on("GET", f"/jobs/{jobs[0]['id']}", *jobs)
    if result is not None:
        api.on("GET", f"/jobs/{jobs[0]['id']}/result", result)


def test_futures_share_a_stream(client: Client, api: FakeApi, stream: Stream) -> None:
    ids = [JOB_ID, OTHER_ID]
    for number, job_id in enumerate(ids):
        running, ended = job(id=job_id), job("COMPLETED", id=job_id)
        answers(api, running, running, ended, result=content(number))
    futures = [client.functions.future(job_id) for job_id in ids]
    assert "pending" in repr(futures[0])
    assert JOB_ID in repr(futures[0])
    heard: list[object] = []
    futures[1].add_done_callback(heard.append)
    for job_id in reversed(ids):
        for state in ("SUSPENDED", "RUNNING", "COMPLETED"):
            stream.say(job_id, state)
    assert [future.result(WAIT_S) for future in futures] == [0, 1]
    assert set(concurrent.futures.as_completed(futures, WAIT_S)) == set(futures)
    assert heard == [futures[1]]
    assert len(api.sent("GET", "/events")) == 1
    assert len(api.sent("GET", f"/jobs/{JOB_ID}")) <= 3
    assert futures[0].done()
    assert futures[0].exception() is None
    assert not futures[0].cancelled()


def test_unknown_state_is_not_the_end(client: Client, api: FakeApi, stream: Stream) -> None:
    unknown = job("UNKNOWN")
    answers(api, unknown, unknown, job("COMPLETED"), result=content("at last"))
    future = client.functions.future(JOB_ID)
    stream.say(JOB_ID, "UNKNOWN")
    with pytest.raises(WaitTimeout, match="It continues"):
        future.result(0.01)
    assert not future.done()
    stream.say(JOB_ID, "COMPLETED")
    assert future.result(WAIT_S) == "at last"


def test_job_that_is_started_again_is_waited_for(
    client: Client, api: FakeApi, stream: Stream
) -> None:
    retry = {"max": 1, "on": ["failed"]}
    first = job("FAILED", reason="failed", retry=retry)
    running = job("RUNNING", retry=retry, attempt=2)
    answers(api, first, first, running, job("COMPLETED", retry=retry, attempt=2))
    api.on("GET", f"/jobs/{JOB_ID}/result", content("second"))
    future = client.functions.future(JOB_ID)
    for state in ("RUNNING", "COMPLETED", "COMPLETED"):
        stream.say(JOB_ID, state)
    assert future.result(WAIT_S) == "second"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("FAILED", "JobNotCompleted"),
        ("CANCELLED", "JobCancelled"),
        ("TIMED_OUT", "JobTimedOut"),
        ("OUT_OF_MEMORY", "JobOutOfMemory"),
        ("NODE_FAILED", "JobNodeFailed"),
        ("PREEMPTED", "JobPreempted"),
        ("LOST", "JobLost"),
    ],
)
@pytest.mark.usefixtures("stream")
def test_end_of_a_job_is_an_error_that_quotes_reason_and_log(
    client: Client, api: FakeApi, state: str, kind: str
) -> None:
    answers(api, job(state, message="Its time was up."))
    api.on("GET", f"/jobs/{JOB_ID}/logs", b"first\nlast words\n")
    future = client.functions.future(JOB_ID)
    error = future.exception(WAIT_S)
    assert type(error) is getattr(function_errors, kind)
    assert isinstance(error, JobNotCompleted)
    assert "Its time was up." in error.message
    assert error.message.endswith("first\nlast words")
    assert (error.job.state, error.log) == (state, "first\nlast words")
    assert future.cancelled() is (state == "CANCELLED")
    assert isinstance(error, concurrent.futures.CancelledError) is (state == "CANCELLED")


@pytest.mark.usefixtures("stream")
def test_exception_of_the_function_is_raised_each_time(client: Client, api: FakeApi) -> None:
    raised = content(ValueError("no"), "exception", traceback="Traceback: line 7\n")
    answers(api, job("FAILED"), result=raised)
    future = client.functions.future(JOB_ID)
    for _ in range(2):
        with pytest.raises(ValueError, match="no") as caught:
            future.result(WAIT_S)
        assert "Traceback: line 7" in str(caught.value.__cause__)
    assert len(api.sent("GET", f"/jobs/{JOB_ID}/result")) == 1


@pytest.mark.usefixtures("stream")
def test_a_missing_module_names_the_way_to_another_python(client: Client, api: FakeApi) -> None:
    missing = ModuleNotFoundError("No module named 'torch'", name="torch")
    answers(api, job("FAILED"), result=content(missing, "exception", traceback="line 1\n"))
    future = client.functions.future(JOB_ID)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError) as caught:
            future.result(WAIT_S)
    (note,) = caught.value.__notes__
    assert "python=" in note
    assert "image=" in note


@pytest.mark.usefixtures("stream")
def test_future_can_be_awaited(client: Client, api: FakeApi) -> None:
    answers(api, job("COMPLETED"), result=content(42))

    async def main() -> object:
        return await client.functions.future(JOB_ID)

    assert asyncio.run(main()) == 42


@pytest.mark.usefixtures("stream")
def test_all_ranks_have_results(client: Client, api: FakeApi) -> None:
    facts = {"distributed": {"ranks_per_node": 2}}
    answers(api, job("COMPLETED", **facts))
    api.on("GET", f"/jobs/{JOB_ID}/result", content("zero"), content("one"))
    assert client.functions.future(JOB_ID).results(WAIT_S) == ["zero", "one"]
    assert api.requests[-1].query == {"rank": ["1"]}


def test_result_of_another_user_is_not_loaded(client: Client, api: FakeApi) -> None:
    api.on("GET", "/me", {"user": {"name": "bob"}, "projects": []})
    answers(api, job("COMPLETED"), result=content("a trap"))
    with pytest.raises(NotAllowed, match="belongs to ada"):
        client.functions.future(JOB_ID)
    assert api.sent("GET", f"/jobs/{JOB_ID}/result") == []


def test_tasks_of_an_array_are_futures(client: Client, api: FakeApi, stream: Stream) -> None:
    array = job(id=ARRAY_ID, array="0-2%2")
    ids = [str(task_id(UUID(ARRAY_ID), index)) for index in range(3)]
    facts = {"array": "0-2%2", "array_job_id": ARRAY_ID}
    ended = [job("COMPLETED", id=ids[i], array_task_id=i, **facts) for i in range(3)]
    waiting = [{**task, "state": "QUEUED"} for task in ended]
    answers(api, array)
    for index, task in enumerate(ended):
        answers(api, task, result=content(index))
    api.on("GET", "/jobs", page(*waiting), page(ended[0], *ended[1:]))
    futures = client.functions.futures(ARRAY_ID)
    assert [future.job_id for future in futures] == ids
    assert ARRAY_ID in repr(futures)
    stream.say(ids[0], "COMPLETED", array_job_id=ARRAY_ID)
    assert futures[0].result(WAIT_S) == 0
    group = ARRAY_ID[:-8] + "ffffffff"
    stream.say(group, "CANCELLED", array_job_id=ARRAY_ID, task_group=True)
    assert futures.results(WAIT_S) == [0, 1, 2]
    with pytest.raises(InvalidInput, match="`futures`"):
        client.functions.future(ARRAY_ID)


def test_job_inherits_from_its_session(
    client: Client, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNE_SESSION", OTHER_ID)
    session = {
        "type": "session",
        "name": "lab",
        "template": "jupyterlab",
        "project": "vision",
        "image": "train:1.0",
        "datasets": ["digits:2"],
        "env": {"SEED": "1"},
        "resources": {"cpu": 2},
    }
    api.on("GET", f"/jobs/{OTHER_ID}/file", {"yaml": "", "file": session})
    call = FunctionCall(len, ("abc",), {})
    same = call.make_job_file(
        client._session, {"nodes": 2, "gpus": "a100:2", "ranks_per_node": None}
    )
    assert same == {
        "name": "len",
        "type": "job",
        "project": "vision",
        "image": "train:1.0",
        "datasets": ["digits:2"],
        "env": {"SEED": "1"},
        "distributed": {"ranks_per_node": None},
        "resources": {"nodes": 2, "gpu": "a100:2"},
        "commands": [f"exec {sys.executable} .aitne-function/run.py"],
    }
    other = call.make_job_file(client._session, {"nodes": 1, "environment": {"venv": "~/v"}})
    assert "image" not in other
    assert other["commands"] == ["exec python3 .aitne-function/run.py"]
    ranks = {"nodes": 1, "ranks_per_node": 2}
    assert call.make_job_file(client._session, ranks)["resources"] == {"cpu": 2}
    wide = call.make_job_file(client._session, {**ranks, "resources": {"cpu": 8}})
    assert wide["resources"] == {"cpu": 8}
    with pytest.raises(InvalidInput, match="commands cannot be set"):
        call.make_job_file(client._session, {"nodes": 1, "commands": ["true"]})


def test_call_that_cannot_travel_submits_nothing(client: Client, api: FakeApi) -> None:
    limits = {"max_files": 10, "max_bytes": 1 << 20, "quota_bytes": 1_000}
    api.on("GET", "/trees:limits", limits)
    for call, words in (
        (lambda: client.functions.submit(len, iter(sys.stdout)), r"args\[0\]"),
        (lambda: client.functions.submit(len, b"x" * (2 << 20)), "Write large values to a file"),
        (lambda: client.functions.map(len, []), "no items"),
        (lambda: client.functions.submit(3), "no function"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
    assert {request.method for request in api.requests} <= {"GET"}
