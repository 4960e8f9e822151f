"""Tests of the broker's socket: permitted accounts, checked requests, and lost connections."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from aitne.adapters._broker_connection import BrokerConnection
from aitne.adapters.broker_scheduler import BrokerFiles, BrokerScheduler
from aitne.core.broker.protocol import MAX_REQUEST_BYTES
from aitne.core.broker.protocol_versions import PROTOCOL
from aitne.core.errors import (
    InvalidInput,
    NotAllowed,
    SchedulerRejected,
    SchedulerUnavailable,
    SetupError,
    SubmitUncertain,
    Unavailable,
)
from aitne.core.jobs.states import JobState
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import Resources
from aitne.core.ports.scheduler import Run
from tests.support import realtime
from tests.support.broker import REPOSITORY, BrokerBench, as_uid, processes_of

pytestmark = realtime.PROCESSES

T = TypeVar("T")


def speak(path: Path) -> list[dict[str, Any]]:
    """Send a greeting and a poll as the calling account; return all answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        lines = [{"protocol": PROTOCOL, "release": "x"}, {"id": 1, "verb": "poll", "args": {}}]
        try:
            connection.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it hung up already; what it said is still there
        with connection.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


async def test_connection_of_other_uid_is_refused_and_audited(shared_bench: BrokerBench) -> None:
    uid = shared_bench.uid("ben")

    def speak_in_the_group() -> Any:
        return as_uid(uid, lambda: speak(shared_bench.socket), gid=0)

    answers = await asyncio.to_thread(speak_in_the_group)
    again = await asyncio.to_thread(speak_in_the_group)

    assert [answer["error"]["code"] for answer in [*answers, *again]] == ["not_allowed"] * 2
    assert f"uid {uid}" in answers[0]["error"]["message"]
    refusals = shared_bench.audited(verb="connect", outcome="refused", peer_uid=uid)
    assert len(refusals) == 1, "nobody can fill the disk with refusals"


async def test_the_platforms_own_account_need_not_be_root(bench: BrokerBench) -> None:
    bench.write_config(peers=f'["{bench.users["ben"]}"]')
    bench.start()

    answers = await asyncio.to_thread(as_uid, bench.uid("ben"), lambda: speak(bench.socket))
    as_root = await asyncio.to_thread(speak, bench.socket)

    assert answers[1]["ok"]["full"] is True
    assert as_root[0]["error"]["code"] == "not_allowed"
    found = bench.socket.stat()
    owners = (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))
    assert owners == (0, bench.gid("ben"), 0o660)


async def test_platform_waits_for_room_among_new_connections(bench: BrokerBench) -> None:
    bench.start()
    assert bench.process is not None
    line = BrokerConnection(bench.socket)
    with ExitStack() as strangers:
        bench.process.send_signal(signal.SIGSTOP)
        os.seteuid(bench.uid("ben"))  # the kernel notes the account at connect()
        try:
            with suppress(BlockingIOError):
                while True:
                    other = strangers.enter_context(socket.socket(socket.AF_UNIX))
                    other.setblocking(False)
                    other.connect(str(bench.socket))
        finally:
            os.seteuid(0)
        asking = asyncio.create_task(line.read_welcome())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asking.done()
    bench.process.send_signal(signal.SIGCONT)
    assert (await asking).protocol == PROTOCOL
    await line.close()


async def test_a_platform_that_is_refused_is_told_at_start(
    bench: BrokerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aitne.adapters.broker_scheduler._START_TIMEOUT_S", 0.3)
    bench.write_config(peers="[1]")
    bench.start()
    scheduler = bench.scheduler()

    with pytest.raises(SetupError, match="uid 0 may not use the broker"):
        await scheduler.start()
    with pytest.raises(SchedulerUnavailable):
        await scheduler.submit(bench.request())


async def test_scheduler_start_returns_notes_and_refuses_other_scheduler(
    shared_bench: BrokerBench,
) -> None:
    scheduler = shared_bench.scheduler()
    assert await scheduler.start() == [f"jobs lie in {shared_bench.pattern}"]
    assert scheduler.settle_s == 15.0
    scheduler.settle_s = 1.0  # as learnt from a broker that had not reached Slurm yet
    await scheduler.find_records([])
    assert scheduler.settle_s == 15.0
    await scheduler.close()
    other = BrokerScheduler(shared_bench.settings().model_copy(update={"scheduler": "slurm"}))
    with pytest.raises(SetupError, match="'fake'"):
        await other.start()
    await other.close()


async def test_lines_that_are_no_requests(shared_bench: BrokerBench) -> None:
    welcome, *answers = await shared_bench.lines(
        b'{"id": 1, "verb": "run", "args": {"argv": ["id"]}}\n',
        b"}{\n",
        b'{"id": 2, "verb": "ping", "args": {}, "as": "root"}\n',
        b'{"id": 3, "verb": "resume", "args": {"node": 1, "x": 1}}\n',
        b'{"id": 4, "verb": "ping"}\n',
    )
    assert welcome["protocol"] == PROTOCOL
    assert sorted(str(answer["id"]) for answer in answers) == ["1", "3", "4", "None", "None"]
    said = {answer["id"]: answer.get("error") for answer in answers}
    assert said[4] is None
    assert {said[each]["code"] for each in (1, 3, None)} == {"invalid_input"}
    assert {problem[0] for problem in said[3]["problems"]} == {"node", "x"}
    assert shared_bench.audited(verb="run", outcome="refused", detail="unknown verb")


async def test_a_line_that_never_ends(shared_bench: BrokerBench, files: BrokerFiles) -> None:
    answers = await shared_bench.lines(b"x" * (MAX_REQUEST_BYTES + 10))
    assert answers[-1]["error"]["code"] == "invalid_input"
    assert str(MAX_REQUEST_BYTES) in answers[-1]["error"]["message"]
    with pytest.raises(InvalidInput, match="bytes"):
        await files.create_attempt_folder(
            shared_bench.place("anna", uuid4()), {"token": b"x" * (MAX_REQUEST_BYTES)}
        )


async def test_unknown_protocol_is_refused(shared_bench: BrokerBench) -> None:
    (refused,) = await shared_bench.lines(b'{"protocol": 99, "release": "9.0"}\n', hello=False)
    assert refused["error"]["code"] == "setup_error"
    assert "release 9.0" in refused["error"]["message"]
    (not_one,) = await shared_bench.lines(b"GET / HTTP/1.1\r\n\r\n", hello=False)
    assert not_one["error"]["code"] == "invalid_input"


@pytest.mark.parametrize(
    "changes",
    [
        {"slurm": SlurmOptions.model_construct(partition="gpu\n#SBATCH --uid=0")},
        {"slurm": SlurmOptions.model_construct(extra=("--uid=0",))},
        {"slurm": SlurmOptions.model_construct(extra=("--chdir=/etc",))},
        {"slurm": SlurmOptions.model_construct(qos="a b")},
        {"resources": Resources(gres={"gpu:x --uid": 1})},
        {"after": ("1;2",)},
        {"afterany": ("1;2",)},
        {"aftercorr": ("1",) * 101},
        {"slurm": SlurmOptions.model_construct(licenses="a b")},
        {"slurm": SlurmOptions.model_construct(exclude="n1 --uid=0")},
        {"array": "0-3; id"},
        {"project": "../x"},
        {"files": {"../../.bashrc": b""}},
        {"files": {"fence": b""}},
        {"attempt": 0},
        {"time_limit_s": 86_401},
    ],
    ids=str,
)
async def test_every_field_is_looked_at_again(
    shared_bench: BrokerBench, scheduler: BrokerScheduler, changes: dict[str, Any]
) -> None:
    request = shared_bench.request(**changes)
    with pytest.raises(SchedulerRejected):
        await scheduler.submit(request)
    assert await scheduler.find_records([Run(job_id=request.job_id, attempt=1)]) == []


async def test_an_option_that_the_site_allows(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    spec = SlurmOptions(extra=("--mail-type=END",), partition="gpu,cpu")
    assert await scheduler.submit(shared_bench.request(slurm=spec))


async def test_waiting_job_is_held_released_and_throttled(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    account = shared_bench.users["ben"]
    run = Run(job_id=uuid4(), attempt=1, account=account, scheduler_id="4711")
    with pytest.raises(SchedulerRejected, match="Job 4711 does not wait any more"):
        await scheduler.hold(run)
    await scheduler.throttle(run, None)
    with pytest.raises(SchedulerRejected):
        await scheduler.throttle(run, 0)


async def test_ids_and_names_that_nothing_can_have(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    run = Run(job_id=uuid4(), attempt=1, account=shared_bench.users["ben"])
    for wrong in ("", "; rm", "../1", "--user=root", "1" * 400):
        await scheduler.cancel(run.model_copy(update={"scheduler_id": wrong}))
        with pytest.raises(SchedulerRejected):
            await scheduler.extend(run.model_copy(update={"scheduler_id": wrong}), 60)
        for change in (scheduler.hold, scheduler.release):
            with pytest.raises(SchedulerRejected, match="no job with this ID"):
                await change(run.model_copy(update={"scheduler_id": wrong}))
        with pytest.raises(SchedulerRejected, match="no job with this ID"):
            await scheduler.throttle(run.model_copy(update={"scheduler_id": wrong}), 2)
        with pytest.raises(SchedulerRejected, match="no node"):
            await scheduler.drain(f"n[1-2]{wrong}", "x")


async def test_errors_come_back_as_what_they_are(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    with pytest.raises(SchedulerRejected, match="Invalid partition") as refused:
        await scheduler.submit(shared_bench.request(name="refused"))
    assert refused.value.field == "slurm.partition"
    with pytest.raises(SubmitUncertain, match="RuntimeError"):
        await scheduler.submit(shared_bench.request(name="bug"))
    run = Run(job_id=uuid4(), attempt=1, account=shared_bench.users["ben"], scheduler_id="9999")
    with pytest.raises(SchedulerRejected, match="does not run"):
        await scheduler.extend(run, 600)


async def test_an_unchanged_record_is_the_very_same_object(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    requests = [shared_bench.request() for _ in range(3)]
    ids = [await scheduler.submit(request) for request in requests]
    first = {record.scheduler_id: record for record in await scheduler.poll()}

    run = Run(
        job_id=requests[1].job_id,
        attempt=1,
        account=requests[1].account,
        scheduler_id=ids[1],
    )
    await scheduler.cancel(run)
    # Polls are cached for a while, but not across a change by the same client.
    second = {record.scheduler_id: record for record in await scheduler.poll()}

    assert first.keys() == second.keys()
    assert second[ids[0]] is first[ids[0]]
    assert second[ids[2]] is first[ids[2]]
    assert second[ids[1]].state is JobState.CANCELLED
    assert shared_bench.audited(verb="cancel", account=requests[1].account, outcome="done")


async def test_all_who_ask_at_once_share_one_query(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    others = [shared_bench.scheduler() for _ in range(5)]
    await asyncio.sleep(0.6)
    before = (await scheduler.read_cluster()).nodes[0].cpu_used

    polls = await asyncio.gather(*(other.poll() for other in others))

    await asyncio.sleep(0.6)
    assert (await scheduler.read_cluster()).nodes[0].cpu_used == before + 1
    assert all(poll == polls[0] for poll in polls)
    for other in others:
        await other.close()


async def test_scheduler_client_receives_jobs_missed_between_polls(
    shared_bench: BrokerBench,
) -> None:
    here, away = shared_bench.scheduler(), shared_bench.scheduler()
    kept = {record.scheduler_id: record for record in await away.poll()}
    new = [await here.submit(shared_bench.request()) for _ in range(2)]
    for _ in range(2):
        await asyncio.sleep(0.6)
        await here.poll()
    found = {record.scheduler_id: record for record in await away.poll()}
    assert found.keys() == kept.keys() | set(new)
    assert all(found[each] is kept[each] for each in kept)
    await here.close()
    await away.close()


async def test_a_broker_that_dies_while_it_submits(bench: BrokerBench) -> None:
    bench.start()
    scheduler = bench.scheduler()
    with pytest.raises(SubmitUncertain):
        await scheduler.submit(bench.request(name="dies"))
    with pytest.raises(SchedulerUnavailable) as known:
        await scheduler.submit(bench.request())
    assert not isinstance(known.value, SubmitUncertain), "nobody got that one"
    await scheduler.close()


async def test_a_broker_that_is_killed_and_comes_back(bench: BrokerBench) -> None:
    bench.start()
    scheduler, files = bench.scheduler(), bench.files()
    place = bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {"token": b"kept"})
    slow = asyncio.create_task(scheduler.submit(bench.request(name="slow")))
    await asyncio.sleep(0.3)
    assert len(await scheduler.poll()) == 1, "others are served while one is slow"

    bench.kill()

    with pytest.raises(SubmitUncertain):
        await slow
    with pytest.raises(SchedulerUnavailable):
        await scheduler.poll()
    with pytest.raises(Unavailable):
        await files.read_log(place, None, offset=0, limit=1)
    bench.start()
    assert await until_answered(scheduler.poll) == ()
    await until_answered(lambda: files.create_attempt_folder(place, {}))
    assert Path(place.directory, "token").read_bytes() == b"kept"
    await scheduler.close()
    await files.close()


async def test_a_file_system_that_hangs_holds_up_its_own_user_alone(bench: BrokerBench) -> None:
    bench.start()
    files = bench.files()
    places = {user: bench.place(user, uuid4()) for user in ("anna", "ben")}
    for place in places.values():
        await files.create_attempt_folder(place, {})
    stopped = processes_of(bench.uid("anna"))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    stuck = asyncio.create_task(files.read_log(places["anna"], None, offset=0, limit=1))
    await asyncio.sleep(0.1)

    begun = asyncio.get_running_loop().time()
    await files.read_log(places["ben"], None, offset=0, limit=1)
    assert asyncio.get_running_loop().time() - begun < 2

    with pytest.raises(Unavailable, match="does not answer"):
        await stuck
    await until_answered(lambda: files.read_log(places["anna"], None, offset=0, limit=1))
    await files.close()
    for pid in stopped:
        # One that an earlier test's broker left is not this broker's to end.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request until the broker answers, for 10 s at most."""
    until = asyncio.get_running_loop().time() + 10
    while True:
        try:
            return await ask()
        except Unavailable:
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.1)


async def test_request_is_refused_when_audit_log_cannot_be_written(bench: BrokerBench) -> None:
    bench.start()
    scheduler = bench.scheduler()
    await scheduler.submit(bench.request())
    log = bench.audit
    log.rename(log.with_suffix(".1"))  # as log rotation does
    await scheduler.submit(bench.request())
    assert len(bench.audited(verb="submit", outcome="done")) == 1
    assert stat.S_IMODE(log.stat().st_mode) == 0o600

    log.unlink()
    log.symlink_to("/dev/full")
    await scheduler.submit(bench.request())  # done before anybody could know
    with pytest.raises(Unavailable, match="cannot log"):
        await scheduler.submit(bench.request())
    assert len(await scheduler.poll()) == 3

    log.unlink()
    await scheduler.submit(bench.request())
    await scheduler.close()


@pytest.mark.parametrize(
    ("mode", "owner", "text", "said"),
    [
        (0o666, 0, None, "other than root"),
        (0o620, 0, None, "other than root"),
        (0o600, 65534, None, "other than root"),
        (0o600, 0, 'peers = ["no-such-account"]', "no-such-account"),
        (0o600, 0, "peers = []", "peers"),
        (0o600, 0, "peers = [0]\ncommands = 1", "commands"),
        (0o600, 0, "peers", "not TOML"),
    ],
)
def test_settings_that_the_broker_does_not_start_with(
    bench: BrokerBench, mode: int, owner: int, text: str | None, said: str
) -> None:
    if text is not None:
        bench.config.write_text(f'socket = "{bench.socket}"\naudit = "{bench.audit}"\n{text}\n')
    bench.config.chmod(mode)
    os.chown(bench.config, owner, owner)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fake_broker", "--config", str(bench.config)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, "a sentence, no traceback"


def test_service_manager_is_notified_by_the_broker(
    bench: BrokerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(bench.root / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(address)
        bench.start()
        assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"WATCHDOG=1"


def test_a_second_broker_leaves_the_first_alone(shared_bench: BrokerBench) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fake_broker", "--config", str(shared_bench.config)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Another broker serves" in done.stderr
    assert speak(shared_bench.socket)[1]["ok"]


async def test_a_job_from_before_there_was_a_broker(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("anna", uuid4()).model_copy(update={"account": None})
    with pytest.raises(NotAllowed, match="no broker"):
        await files.read_log(place, None, offset=0, limit=1)
