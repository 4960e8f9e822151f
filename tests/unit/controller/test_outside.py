"""The rows of jobs that were submitted past the platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from aitne.adapters.schedulers._slurm import outside_job_records
from aitne.core.errors import InvalidInput, SchedulerUnavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobFilter, JobOrigin
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.core.ports.outside_jobs import MOST_OF_ACCOUNT, OutsideAction, OutsideLog, OutsideRun
from aitne.services.controller import outside_job_watch as module
from aitne.services.controller.outbox_actions import OutboxActions
from aitne.services.controller.outside_job_watch import OutsideConfig, OutsideWatch
from tests.support.outside import SUBMITTED_AT, MemoryOutside, make_record
from tests.unit.controller.conftest import Bench
from tests.unit.slurm_cli.test_outside import MARK, line

STARTED = {"state": JobState.RUNNING, "started_at": SUBMITTED_AT, "nodes": ("n1",)}
ENDED_AT = SUBMITTED_AT + timedelta(minutes=1)


@dataclass
class Stand:
    """A controller's watch, and a scheduler with jobs of its own."""

    bench: Bench
    outside: MemoryOutside
    watch: OutsideWatch

    async def look(self, *records: Any, times: int = 1) -> None:
        self.outside.records = list(records)
        for _ in range(times):
            await self.watch.update_jobs(self.outside)

    async def jobs(self) -> list[Job]:
        where = JobFilter(origin=JobOrigin.OUTSIDE)
        return list((await self.bench.store.list_jobs(where, visible_to=None, limit=1_000)).items)

    async def job(self) -> Job:
        [job] = await self.jobs()
        return job


@pytest.fixture
async def stand(bench: Any) -> AsyncIterator[Stand]:
    made = await bench()
    for name, project in (("ada", "vision"), ("grace", "speech")):
        user = User(name=name, display_name=name, default_project=project, created_at=SUBMITTED_AT)
        project_row = Project(name=project, title=project, created_at=SUBMITTED_AT)
        await made.store.create_user(user, None, project_row)
    outside = MemoryOutside()
    config = OutsideConfig(outside, "hpc", {"grace": "ghopper"})
    return Stand(made, outside, OutsideWatch(made.store, config, made.leader, made.clock))


async def test_job_appears_with_its_owner_and_follows_the_scheduler(stand: Stand) -> None:
    await stand.look(make_record(pending_reason="Waits for nodes to become free.", array=None))
    job = await stand.job()
    assert (job.owner, job.project, job.account, job.cluster) == ("ada", "vision", "ada", "hpc")
    assert (job.state, job.message) == (JobState.QUEUED, "Waits for nodes to become free.")
    assert (job.scheduler_id, job.created_at) == ("7", SUBMITTED_AT)
    await stand.look(make_record(**STARTED, time_limit_s=600))
    job = await stand.job()
    assert (job.state, job.nodes, job.message) == (JobState.RUNNING, ("n1",), None)
    assert job.expires_at == SUBMITTED_AT + timedelta(minutes=10)
    end = {"state": JobState.FAILED, "reason": TerminationReason.FAILED, "exit_code": 3}
    await stand.look(make_record(**STARTED | end, ended_at=ENDED_AT))
    job = await stand.job()
    assert (job.state, job.exit_code, job.ended_at) == (JobState.FAILED, 3, ENDED_AT)
    # The scheduler reports it for some minutes more, and a new leader knows nothing of it.
    watch = OutsideWatch(
        stand.bench.store, OutsideConfig(stand.outside), stand.bench.leader, stand.bench.clock
    )
    await watch.update_jobs(stand.outside)
    assert (await stand.job()).version == job.version
    events = await stand.bench.store.list_job_events(job.id)
    assert [event.data["state"] for event in events] == ["QUEUED", "RUNNING", "FAILED"]


async def test_log_named_by_its_node_appears_when_the_job_starts(stand: Stand) -> None:
    await stand.look(make_record())
    assert (await stand.job()).log_path is None
    run = {name: getattr(make_record(), name) for name in OutsideRun.model_fields}
    log = OutsideLog(**run, path="/home/ada/n1.out", seal="a seal")
    await stand.look(make_record(**STARTED, log=log))
    job = await stand.job()
    assert (job.log_path, job.log_seal) == (log.path, log.seal)
    end = {"state": JobState.COMPLETED, "reason": TerminationReason.COMPLETED}
    await stand.look(make_record(**STARTED | end, ended_at=ENDED_AT))
    assert (await stand.job()).log_path == log.path


async def test_only_users_of_the_platform_have_jobs_by_their_accounts(stand: Stand) -> None:
    await stand.look(
        make_record(1, account="ghopper", charged_account="vision"),
        make_record(2, account="grace"),
        make_record(3, account="stranger"),
    )
    job = await stand.job()
    # Not a member of the charged project, whose members must not see the job.
    assert (job.owner, job.account, job.project) == ("grace", "ghopper", "speech")


async def test_unchanged_answer_writes_nothing(stand: Stand) -> None:
    records = [make_record(number, **STARTED) for number in range(1, 4)]
    await stand.look(*records)
    before = await stand.bench.store.get_last_event_id()
    await stand.look(*records, times=3)
    assert await stand.bench.store.get_last_event_id() == before


async def test_outside_jobs_are_invisible_to_submission_and_poll(stand: Stand) -> None:
    await stand.look(make_record())
    bench = stand.bench
    await bench.live.catch_up()
    await bench.outbox.drain()
    for _ in range(9):
        bench.clock.advance(60)
        await bench.poller.poll()
    assert len(bench.live) == 0
    assert bench.scheduler.requests == []
    assert (await stand.job()).state is JobState.QUEUED


async def test_cancellation_reaches_the_scheduler_as_the_account_of_the_job(stand: Stand) -> None:
    bench = stand.bench
    await stand.look(make_record(array="0-9", tasks={JobState.QUEUED: 10}))
    job = await stand.job()
    await bench.store.request_cancel(job.id, bench.clock(), "Cancelled by ada.")
    actions = OutboxActions(bench.store, bench.scheduler, bench.leader, bench.clock, stand.outside)
    await actions.process_due_items()
    assert stand.outside.actions == [("ada:7", OutsideAction.CANCEL)]
    assert bench.scheduler.cancelled == []
    await stand.look(make_record(array="0-9", tasks={JobState.QUEUED: 10}))
    assert (await stand.job()).message == "Cancelled by ada."
    end = {"state": JobState.CANCELLED, "reason": TerminationReason.CANCELLED}
    await stand.look(make_record(**end, array="0-9", tasks={JobState.CANCELLED: 10}))
    assert (await stand.job()).state is JobState.CANCELLED


@pytest.mark.parametrize("array", [None, "0-9"])
async def test_hold_and_release_reach_the_scheduler_as_the_account_of_the_job(
    stand: Stand, array: str | None
) -> None:
    bench = stand.bench
    await stand.look(make_record(array=array, tasks={JobState.QUEUED: 10} if array else {}))
    job = await stand.job()
    actions = OutboxActions(bench.store, bench.scheduler, bench.leader, bench.clock, stand.outside)
    for hold in (True, False):
        await bench.store.request_hold(job.id, hold)
        await actions.process_due_items()
    assert stand.outside.actions == [
        ("ada:7", OutsideAction.HOLD),
        ("ada:7", OutsideAction.RELEASE),
    ]


async def test_job_that_left_the_queue_ends_as_accounting_says(stand: Stand) -> None:
    await stand.look(make_record(**STARTED, partition="gpu"))
    end = {"state": JobState.TIMED_OUT, "reason": TerminationReason.TIMED_OUT, "raw": {}}
    stand.outside.accounting = [make_record(**STARTED | end, ended_at=ENDED_AT)]
    await stand.look(times=module.ABSENCES - 1)
    assert (await stand.job()).state is JobState.RUNNING
    await stand.look()
    job = await stand.job()
    assert (job.state, job.ended_at, job.partition) == (JobState.TIMED_OUT, ENDED_AT, "gpu")
    assert stand.outside.searched == [["7"]]


async def test_silence_ends_no_job(stand: Stand) -> None:
    await stand.look(make_record(**STARTED))
    stand.outside.silent = True
    for _ in range(5):
        with pytest.raises(SchedulerUnavailable):
            await stand.look()
    stand.outside.silent = False
    # Accounting does not know its end: it is searched again, but not with every answer.
    await stand.look(times=module.ABSENCES + 5)
    assert len(stand.outside.searched) == 1
    stand.bench.clock.advance(61)
    await stand.look()
    assert len(stand.outside.searched) == 2
    assert (await stand.job()).state is JobState.RUNNING


async def test_broker_without_the_verb_does_not_end_the_watch(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    looks = 0

    async def list_(accounts: object) -> list[Any]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise InvalidInput("verb: the broker has no such verb")
        return [make_record()]

    monkeypatch.setattr(stand.outside, "list_jobs", list_)
    watch = asyncio.create_task(stand.watch.run())
    async with asyncio.timeout(60):
        while not await stand.jobs():
            await asyncio.sleep(0)
    watch.cancel()


async def test_job_without_any_record_is_lost_if_there_is_no_accounting(stand: Stand) -> None:
    stand.outside.accounting = None
    await stand.look(make_record(**STARTED))
    await stand.look(times=module.ABSENCES)
    job = await stand.job()
    assert (job.state, job.reason) == (JobState.LOST, TerminationReason.LOST)
    assert "not known" in (job.message or "")


async def test_requeue_stays_the_same_job_and_a_reused_id_is_another(stand: Stand) -> None:
    await stand.look(make_record(**STARTED))
    later = SUBMITTED_AT + timedelta(hours=1)
    await stand.look(make_record(submitted_at=later, restart_count=1))
    job = await stand.job()
    assert (job.state, job.restart_count, job.submitted_at) == (JobState.QUEUED, 1, later)
    await stand.look(make_record(submitted_at=later + timedelta(hours=1), name="other"))
    assert {job.name for job in await stand.jobs()} == {"train", "other"}


async def test_states_in_an_unusual_order_are_followed(stand: Stand) -> None:
    await stand.look(make_record(**STARTED | {"state": JobState.COMPLETING}))
    running = make_record(**STARTED, restart_count=1)
    await stand.look(running, times=2)
    assert (await stand.job()).state is JobState.RUNNING


async def test_message_of_an_array_counts_its_tasks(stand: Stand) -> None:
    tasks = {JobState.QUEUED: 98, JobState.RUNNING: 2}
    await stand.look(make_record(**STARTED, array="0-99", tasks=tasks))
    job = await stand.job()
    assert job.is_array
    assert job.message == "100 tasks: 2 running, 98 queued."


async def test_work_is_bounded_whatever_other_users_submit(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's array of 100,000 tasks that all run, a large one of ada's, and many jobs."""
    running = {"State": "RUNNING", "NodeList": "n1", "StartTime": "1795633731"}
    lines = [line(1, "0", UserName="stranger", **running)] * 100_000
    lines += [line(2, "0", **running)] * 10_000
    lines += [line(number, State="PENDING") for number in range(10, 10 + 2 * MOST_OF_ACCOUNT)]
    reader = outside_job_records.OutsideReader(outside_job_records.FIELDS)
    parsed: list[str] = []
    parse = outside_job_records.parse_squeue_record
    monkeypatch.setattr(
        outside_job_records,
        "parse_squeue_record",
        lambda text, fields: parsed.append(text) or parse(text, fields),
    )
    records = reader.read("".join(lines), MARK, {"ada"})
    assert len(parsed) == len(records) == MOST_OF_ACCOUNT
    before = await stand.bench.store.get_last_event_id()
    await stand.look(*records, times=2)
    jobs = await stand.jobs()
    assert await stand.bench.store.get_last_event_id() - before == MOST_OF_ACCOUNT
    assert {job.owner for job in jobs} == {"ada"}
    [array] = [job for job in jobs if job.is_array]
    assert array.message == "10000 tasks: 10000 running."


async def test_new_jobs_of_one_user_are_limited_in_an_hour(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_NEW", 5)
    await stand.look(*(make_record(number) for number in range(1, 9)))
    await stand.look(make_record(20), make_record(21, account="ghopper"))
    assert sorted(job.owner for job in await stand.jobs()) == ["ada"] * 5 + ["grace"]
    stand.bench.clock.advance(3_601)
    await stand.look(make_record(20))
    assert len(await stand.jobs()) == 7
