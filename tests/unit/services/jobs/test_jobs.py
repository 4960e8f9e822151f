"""Tests of the actions on existing jobs, and of the users who may perform them."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.access_token import Scope
from aitne.core.models.cluster import Cluster, Partition
from aitne.core.models.job import JobChanges, JobFilter, JobType
from aitne.core.models.limits import AssociationUse, LimitUsage
from aitne.core.models.user import Actor
from tests.unit.services.conftest import ADA, BOB, EVE, ROOT, Bench, make_actor, make_node


async def test_members_read_and_strangers_do_not_know(bench: Bench) -> None:
    job = await bench.create()
    for reader in (ADA, BOB, ROOT):
        assert await bench.jobs.get(reader, job.id) == job
        assert str(job.id) in await bench.jobs.script(reader, job.id)
        assert [event.kind for event in await bench.jobs.events(reader, job.id)] == ["job.created"]
        assert await bench.jobs.samples(reader, job.id) == []
    for read in (bench.jobs.get, bench.jobs.script, bench.jobs.events, bench.jobs.samples):
        with pytest.raises(NotFound, match="does not exist"):
            await read(EVE, job.id)
        with pytest.raises(NotFound, match="does not exist"):
            await read(ADA, uuid4())


async def test_a_member_may_look_and_not_touch(bench: Bench) -> None:
    job = await bench.create()
    for act in (bench.jobs.cancel, bench.jobs.resubmit):
        with pytest.raises(NotAllowed):
            await act(BOB, job.id)
        with pytest.raises(NotFound):
            await act(EVE, job.id)
    with pytest.raises(NotAllowed):
        await bench.jobs.resubmit(ROOT, job.id)
    assert (await bench.store.get_job(job.id)).version == job.version


async def test_lists_show_what_the_actor_may_see(bench: Bench) -> None:
    mine = await bench.create()
    theirs = await bench.create(EVE)

    async def seen(actor: Actor) -> set[UUID]:
        page = await bench.jobs.list(actor, JobFilter(), cursor=None, limit=10)
        return {job.id for job in page.items}

    assert await seen(ADA) == {mine.id}
    assert await seen(BOB) == {mine.id}
    assert await seen(EVE) == {theirs.id}
    assert await seen(ROOT) == {mine.id, theirs.id}
    with pytest.raises(NotAllowed, match="scope read"):
        await seen(make_actor(scopes=frozenset({Scope.WRITE})))
    with pytest.raises(InvalidInput):
        await bench.jobs.list(ADA, JobFilter(), cursor="nonsense", limit=10)


async def test_cancel_says_by_whom(bench: Bench) -> None:
    job = await bench.create()
    ended = await bench.jobs.cancel(ROOT, job.id)
    assert (ended.state, ended.message) == (JobState.CANCELLED, "Cancelled by root.")
    assert await bench.jobs.cancel(ADA, job.id) == ended


async def test_cancel_of_a_running_job_is_a_wish(bench: Bench) -> None:
    job = await bench.create()
    await bench.walk(job, JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING)
    wished = await bench.jobs.cancel(ADA, job.id)
    assert wished.state is JobState.RUNNING
    assert wished.cancel_requested_at == bench.clock()
    assert wished.message == "Cancelled by ada."
    assert bench.jobs.actions(ADA, wished) == []


async def test_cancel_of_an_array_reaches_its_tasks(bench: Bench) -> None:
    job = await bench.create(array="0-2")
    await bench.jobs.cancel(ADA, job.id)
    tasks = await bench.store.list_array_tasks(job.id)
    assert {task.state for task in tasks} == {JobState.CANCELLED}
    assert {task.message for task in tasks} == {"Cancelled by ada."}


async def test_resubmit_runs_the_same_again(bench: Bench) -> None:
    old = await bench.create(name="x", commands=["a", "b"], env={"E": "1"}, max_duration="2h")
    await bench.walk(old, JobState.FAILED, reason=TerminationReason.FAILED)
    new = await bench.jobs.resubmit(ADA, old.id, idempotency_key="again")
    assert new.job.id != old.id
    assert (new.job.spec, new.job.state) == (old.spec, JobState.PENDING_SUBMIT)
    assert (await bench.jobs.resubmit(ADA, old.id, idempotency_key="again")).job.id == new.job.id


async def test_resubmit_of_a_task_is_that_task_alone(bench: Bench) -> None:
    array = await bench.create(array="0-9%2")
    task = (await bench.store.list_array_tasks(array.id))[3]
    new = (await bench.jobs.resubmit(ADA, task.id)).job
    assert new.spec.array == "3"
    assert [each.array_task_id for each in await bench.store.list_array_tasks(new.id)] == [3]


async def test_resubmit_keeps_to_todays_limits(bench: Bench) -> None:
    old = await bench.create(resources={"cpu": 8})
    await bench.nodes(make_node().model_copy(update={"cpu_total": 2}))
    with pytest.raises(InvalidInput, match=r"resources\.cpu: 8 requested"):
        await bench.jobs.resubmit(ADA, old.id)


async def test_actions_follow_state_and_actor(bench: Bench) -> None:
    job = await bench.create()
    assert bench.jobs.actions(ADA, job) == ["cancel", "hold"]
    assert bench.jobs.actions(ROOT, job) == ["cancel", "hold"]
    held = await bench.jobs.hold(ADA, job.id)
    assert bench.jobs.actions(ADA, held) == ["cancel", "release"]
    assert not (await bench.jobs.release(ADA, job.id)).spec.hold
    assert bench.jobs.actions(BOB, job) == []
    ended = await bench.walk(job, JobState.FAILED)
    assert bench.jobs.actions(ADA, ended) == ["resubmit", "delete"]
    assert bench.jobs.actions(ROOT, ended) == ["delete"]
    waiting = await bench.create(type="session")
    assert bench.jobs.actions(ADA, waiting) == ["stop", "hold"]
    ready = await bench.ready()
    assert bench.jobs.actions(ADA, ready) == ["open", "extend", "stop"]
    assert bench.jobs.actions(ROOT, ready) == ["extend", "stop"]
    assert bench.jobs.actions(make_actor(scopes=frozenset({Scope.READ})), ready) == []


async def test_a_ready_session_opens_for_its_owner_alone(bench: Bench) -> None:
    session = await bench.ready()
    assert await bench.sessions.get_app_url(ADA, session.id) == session.url
    for other in (BOB, ROOT):
        with pytest.raises(NotAllowed):
            await bench.sessions.get_app_url(other, session.id)
    with pytest.raises(NotFound, match=r"The session .* does not exist"):
        await bench.sessions.get_app_url(EVE, session.id)


async def test_a_session_that_is_not_ready_says_so(bench: Bench) -> None:
    session = await bench.create(type="session")
    with pytest.raises(Conflict, match="it is PENDING_SUBMIT"):
        await bench.sessions.get_app_url(ADA, session.id)
    with pytest.raises(Conflict, match="cannot be extended"):
        await bench.sessions.extend(ADA, session.id, 60)


async def test_a_job_is_no_session(bench: Bench) -> None:
    job = await bench.create()
    with pytest.raises(NotFound, match=r"The session .* does not exist"):
        await bench.sessions.get_app_url(ADA, job.id)
    with pytest.raises(NotFound, match=r"The session .* does not exist"):
        await bench.sessions.stop(ADA, job.id)


async def test_extend_asks_for_the_limit_from_the_start(bench: Bench) -> None:
    session = await bench.ready()
    await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=1e6)
    await bench.sessions.extend(ADA, session.id, 1_800)
    (item,) = await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=9)
    assert item.data == {"time_limit_s": 5_400}
    with pytest.raises(NotAllowed):
        await bench.sessions.extend(BOB, session.id, 60)


async def test_extensions_add_up_while_the_scheduler_has_not_answered(bench: Bench) -> None:
    session = await bench.ready()
    await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=1e6)
    for seconds in (7_200, 1_800):
        await bench.sessions.extend(ADA, session.id, seconds)
    items = await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=9)
    assert [item.data["time_limit_s"] for item in items] == [10_800, 12_600]
    with pytest.raises(InvalidInput) as caught:
        await bench.sessions.extend(ADA, session.id, 24 * 3_600)
    assert caught.value.problems[0].allowed == "at most 20h30m"


async def test_extend_stops_at_the_platforms_limit(bench: Bench) -> None:
    session = await bench.ready()
    with pytest.raises(InvalidInput) as caught:
        await bench.sessions.extend(ADA, session.id, 24 * 3_600)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value, problem.allowed) == ("duration", "1d", "at most 23h")
    assert "1d in all (limits.max_duration)" in problem.message
    with pytest.raises(InvalidInput, match="longer than zero"):
        await bench.sessions.extend(ADA, session.id, 0)


async def test_extend_stops_at_the_partitions_limit_and_names_it(bench: Bench) -> None:
    parts = (
        Partition(name="short", max_time_s=7_200),
        Partition(name="long", default=True, max_time_s=604_800),
    )
    cluster = Cluster(nodes=(make_node(),), partitions=parts)
    await bench.store.save_cluster(cluster, epoch=bench.epoch)
    session = await bench.ready()
    await bench.store.transition_job(session.id, JobState.READY, JobChanges(partition="short"))
    with pytest.raises(InvalidInput) as caught:
        await bench.sessions.extend(ADA, session.id, 5_400)
    (problem,) = caught.value.problems
    assert "2h in all (MaxTime of the partition short)" in problem.message
    assert problem.allowed == "at most 1h"
    await bench.sessions.extend(ADA, session.id, 3_600)
    event = (await bench.store.list_job_events(session.id))[-1]
    assert (event.kind, event.owner) == ("job.extended", "ada")
    assert event.data == {"by": "ada", "seconds": 3_600, "time_limit_s": 7_200}


async def test_running_batch_job_is_extended_as_a_session_is(bench: Bench) -> None:
    job = await bench.running()
    assert bench.jobs.actions(ADA, job) == ["extend", "cancel"]
    await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=1e6)
    await bench.extensions.extend(ADA, job.id, 1_800)
    (item,) = await bench.store.lease_outbox_items(epoch=bench.epoch, limit=9, lease_s=9)
    assert item.data == {"time_limit_s": 5_400}
    with pytest.raises(InvalidInput, match="a job may last 1d in all"):
        await bench.extensions.extend(ADA, job.id, 86_400)
    for other, error in ((BOB, NotAllowed), (EVE, NotFound)):
        with pytest.raises(error):
            await bench.extensions.extend(other, job.id, 60)
    waiting = await bench.create()
    with pytest.raises(Conflict, match="The job cannot be extended: it is PENDING_SUBMIT"):
        await bench.extensions.extend(ADA, waiting.id, 60)


async def test_array_is_extended_task_by_task(bench: Bench) -> None:
    array = await bench.running(array="0-2")
    assert "extend" not in bench.jobs.actions(ADA, array)
    with pytest.raises(Conflict, match="one by one"):
        await bench.extensions.extend(ADA, array.id, 60)


async def test_extend_stops_at_the_projects_limit(bench: Bench) -> None:
    job = await bench.running()
    account = AssociationUse(account=job.project, max_wall_s=7_200)
    user = AssociationUse(account=job.project, user=job.account or job.owner)
    look = LimitUsage(enforced=frozenset({"limits"}), associations=(account, user))
    await bench.store.save_limit_usage(look, bench.clock(), epoch=bench.epoch)
    with pytest.raises(InvalidInput) as caught:
        await bench.extensions.extend(ADA, job.id, 7_200)
    (problem,) = caught.value.problems
    assert (problem.field, problem.allowed) == ("duration", "at most 2h")
    await bench.extensions.extend(ADA, job.id, 3_600)


async def test_relaunch_is_the_same_again_and_only_after_the_end(bench: Bench) -> None:
    session = await bench.ready(name="notes", resources={"cpu": 3})
    with pytest.raises(Conflict, match="has not ended"):
        await bench.sessions.relaunch(ADA, session.id)
    await bench.store.transition_job(session.id, JobState.NODE_FAILED)
    with pytest.raises(NotAllowed):
        await bench.sessions.relaunch(BOB, session.id)
    again = (await bench.sessions.relaunch(ADA, session.id, idempotency_key="k")).job
    assert (again.spec, again.state) == (session.spec, JobState.PENDING_SUBMIT)
    assert again.id != session.id
    pressed_twice = await bench.sessions.relaunch(ADA, session.id, idempotency_key="k")
    assert (pressed_twice.job.id, pressed_twice.replayed) == (again.id, True)


async def test_stop_is_a_cancellation_with_a_name(bench: Bench) -> None:
    session = await bench.create(type="session")
    assert session.type is JobType.SESSION
    stopped = await bench.sessions.stop(ADA, session.id)
    assert (stopped.state, stopped.message) == (JobState.CANCELLED, "Stopped by ada.")


async def test_logs_of_an_array_need_a_task(bench: Bench) -> None:
    array = await bench.create(array="0-1")
    task = (await bench.store.list_array_tasks(array.id))[1]
    bench.files.write_log(task, b"hello\n")
    for job_id, index in ((array.id, 1), (task.id, None), (task.id, 1)):
        chunk = await bench.jobs.read_log(ADA, job_id, task=index, offset=-3, limit=100)
        assert (chunk.data, chunk.offset, chunk.size) == (b"lo\n", 3, 6)
    for job_id, index in ((array.id, None), (array.id, 7), (task.id, 0)):
        with pytest.raises(InvalidInput, match="task"):
            await bench.jobs.read_log(ADA, job_id, task=index, offset=0, limit=100)
    with pytest.raises(NotFound):
        await bench.jobs.read_log(EVE, array.id, task=1, offset=0, limit=100)
