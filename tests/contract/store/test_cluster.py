from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from aitne.core.errors import StaleEpoch
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, GpuCount, Node, NodeState, Partition, SchedulerStatus
from aitne.core.models.cluster_load_history import ClusterLoad
from aitne.core.models.job import JobChanges
from aitne.store import Store
from aitne.store.new_jobs import Idempotency
from aitne.store.transitions import TransitionRequest
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_array, make_job, make_task_group


def node(clock: Clock, name: str = "n1", **overrides: object) -> Node:
    values = {
        "name": name,
        "state": NodeState.IDLE,
        "cpu_total": 8,
        "cpu_used": 0,
        "memory_total_bytes": 1 << 40,
        "memory_used_bytes": 0,
        "gpus": (GpuCount(type="a100", total=4, used=1),),
        "seen_at": clock.now,
    }
    return Node.model_validate(values | overrides)


class TestNodes:
    async def test_the_snapshot_is_replaced(self, store: Store, epoch: int, clock: Clock) -> None:
        assert await store.list_nodes() == []
        one, two = node(clock), node(clock, "n2")
        await store.save_cluster(
            Cluster(
                nodes=(
                    two,
                    one,
                )
            ),
            epoch=epoch,
        )
        assert await store.list_nodes() == [one, two]
        await store.save_cluster(Cluster(nodes=(two,)), epoch=epoch)
        assert await store.list_nodes() == [two]
        await store.save_cluster(Cluster(), epoch=epoch)
        assert await store.list_nodes() == []

    async def test_an_event_only_when_something_changed(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await store.save_cluster(
            Cluster(
                nodes=(
                    node(clock),
                    node(clock, "n2"),
                )
            ),
            epoch=epoch,
        )
        clock.pass_(2)
        seen = [node(clock), node(clock, "n2")]
        await store.save_cluster(Cluster(nodes=tuple(seen)), epoch=epoch)
        assert await store.list_nodes() == seen, "when it was last seen is kept nevertheless"
        await store.save_cluster(
            Cluster(
                nodes=(
                    seen[0],
                    node(clock, "n2", cpu_used=1),
                )
            ),
            epoch=epoch,
        )
        events = await store.list_events_after(0)
        assert [(event.kind, event.data) for event in events] == [
            ("nodes.changed", {"nodes": ["n1", "n2"]}),
            ("nodes.changed", {"nodes": ["n2"]}),
        ]

    async def test_only_the_leader(self, store: Store, epoch: int, clock: Clock) -> None:
        with pytest.raises(StaleEpoch):
            await store.save_cluster(Cluster(nodes=(node(clock),)), epoch=epoch + 1)
        assert await store.list_nodes() == []


class TestCluster:
    async def test_all_of_it_is_kept(self, store: Store, epoch: int, clock: Clock) -> None:
        assert await store.get_cluster() == Cluster()
        whole = Cluster(
            nodes=(node(clock),),
            partitions=(Partition(name="gpu", nodes=("n1",), max_time_s=60),),
            qos=("normal",),
            seen_at=clock.now,
        )
        await store.save_cluster(whole, epoch=epoch)
        assert await store.get_cluster() == whole
        clock.pass_(5)
        await store.save_cluster(whole.model_copy(update={"seen_at": clock.now}), epoch=epoch)
        await store.save_cluster(Cluster(nodes=whole.nodes, seen_at=clock.now), epoch=epoch)
        assert (await store.get_cluster()).partitions == ()
        events = [event.data for event in await store.list_events_after(0)]
        assert events == [{"nodes": ["n1"]}, {"nodes": []}], "a change of partitions is one too"

    async def test_whether_the_scheduler_answers(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        assert await store.find_scheduler_status() is None
        well = SchedulerStatus(responding=True, since=clock.now)
        await store.save_scheduler_status(well, epoch=epoch)
        await store.save_cluster(Cluster(seen_at=clock.now), epoch=epoch)
        silent = SchedulerStatus(responding=False, since=clock.now, message="it is away.")
        await store.save_scheduler_status(silent, epoch=epoch)
        await store.save_scheduler_status(silent, epoch=epoch)
        assert await store.find_scheduler_status() == silent
        kinds = [event.kind for event in await store.list_events_after(0)]
        assert kinds.count("scheduler.changed") == 2
        with pytest.raises(StaleEpoch):
            await store.save_scheduler_status(well, epoch=epoch + 1)


class TestMoves:
    async def test_many_at_once_and_those_that_cannot_be_are_left_out(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        queued, gone, other = make_job(), make_job(), make_job()
        for job in (queued, gone, other):
            await store.create_job(job)
        pending = frozenset({JobState.PENDING_SUBMIT})
        changes = JobChanges(submitted_at=clock.now)
        moves = [
            TransitionRequest(job.id, JobState.SUBMITTING, changes, since=pending)
            for job in (queued, gone)
        ]
        await store.request_cancel(gone.id, clock.now)
        items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        first, none = await store.apply_transitions(
            moves, epoch=epoch, tokens={queued.id: "hash", gone.id: "other"}, done=[items[0].id]
        )
        assert first is not None
        assert (first.state, first.submitted_at, none) == (JobState.SUBMITTING, clock.now, None)
        assert (await store.find_job_by_token("hash")) == first
        assert await store.find_job_by_token("other") is None
        assert (await store.get_outbox_depth())[0] == 1
        noted = TransitionRequest(
            other.id,
            JobState.QUEUED,
            JobChanges(scheduler_id="7"),
            since=frozenset({JobState.UNCERTAIN}),
            anyway=True,
        )
        stale = TransitionRequest(queued.id, JobState.QUEUED, version=1)
        second, late = await store.apply_transitions([noted, stale], epoch=epoch)
        assert second is not None
        assert (second.state, second.scheduler_id, late) == (JobState.PENDING_SUBMIT, "7", None)
        with pytest.raises(StaleEpoch):
            await store.apply_transitions(
                [TransitionRequest(queued.id, JobState.QUEUED)], epoch=epoch + 1
            )

    async def test_an_array_follows_all_of_its_tasks(self, store: Store, epoch: int) -> None:
        array, tasks = make_array("0-9")
        await store.create_job(array, tasks)
        rows = await store.apply_transitions(
            [TransitionRequest(row.id, JobState.SUBMITTING) for row in (*tasks, array)], epoch=epoch
        )
        assert all(rows)
        ids = [
            TransitionRequest(
                row.id, JobState.QUEUED, JobChanges(scheduler_id=f"7_{row.array_task_id}")
            )
            for row in tasks[:9]
        ]
        await store.apply_transitions(ids, epoch=epoch)
        whole = await store.get_job(array.id)
        assert whole.message == "10 tasks: 9 queued, 1 submitting."
        found = {
            job.id: job.scheduler_id for job in await store.find_jobs([each.id for each in tasks])
        }
        assert found[tasks[3].id] == "7_3"
        assert found[tasks[9].id] is None


class TestLease:
    async def test_lease_has_one_holder_until_it_expires(self, store: Store, clock: Clock) -> None:
        first = await store.acquire_lease("controller", "a", duration_s=10)
        assert first is not None
        assert first.expires_at == clock.now + timedelta(seconds=10)
        assert await store.acquire_lease("controller", "b", duration_s=10) is None
        clock.pass_(6)
        renewed = await store.acquire_lease("controller", "a", duration_s=10)
        assert renewed is not None
        assert renewed.epoch == first.epoch
        clock.pass_(9.9)
        assert await store.acquire_lease("controller", "b", duration_s=10) is None
        clock.pass_(0.1)
        second = await store.acquire_lease("controller", "b", duration_s=10)
        assert second is not None
        assert second.epoch > first.epoch
        assert await store.acquire_lease("controller", "a", duration_s=10) is None

    async def test_current_lease_names_its_holder(self, store: Store, clock: Clock) -> None:
        assert await store.find_lease("controller") is None
        taken = await store.acquire_lease("controller", "a", duration_s=10)
        assert await store.find_lease("controller") == taken
        clock.pass_(60)
        late = await store.find_lease("controller")
        assert late is not None
        assert (late.holder, late.expired) == ("a", True), "expired, but nobody else leads"
        await store.release_lease("controller", "a")
        assert await store.find_lease("controller") is None

    async def test_given_up(self, store: Store) -> None:
        first = await store.acquire_lease("controller", "a", duration_s=10)
        assert first is not None
        await store.release_lease("controller", "b")
        assert await store.acquire_lease("controller", "b", duration_s=10) is None
        await store.release_lease("controller", "a")
        with pytest.raises(StaleEpoch):
            await store.save_cluster(Cluster(), epoch=first.epoch)
        second = await store.acquire_lease("controller", "b", duration_s=10)
        assert second is not None
        assert second.epoch > first.epoch
        await store.release_lease("nothing", "a")

    async def test_an_epoch_is_one_leases_alone(self, store: Store) -> None:
        one = await store.acquire_lease("controller", "a", duration_s=10)
        two = await store.acquire_lease("prune", "a", duration_s=10)
        assert one is not None
        assert two is not None
        assert one.epoch != two.epoch

    async def test_of_many_who_want_it_one_gets_it(self, store: Store, other: Store) -> None:
        taken = await asyncio.gather(
            *(
                which.acquire_lease("controller", f"holder {n}", duration_s=10)
                for n, which in enumerate((store, other) * 5)
            )
        )
        assert sum(lease is not None for lease in taken) == 1

    async def test_a_successor_waits_for_updates_under_the_old_epoch(
        self, store: Store, other: Store, epoch: int, clock: Clock
    ) -> None:
        """No other controller can become leader between the check of an epoch and its commit."""
        job = (await store.create_job(make_job())).job
        checked, release = asyncio.Event(), asyncio.Event()
        write = store._db.write

        class Slow:
            def __init__(self) -> None:
                self.inner = write()

            async def __aenter__(self) -> object:
                return await self.inner.__aenter__()

            async def __aexit__(self, *about: object) -> object:
                checked.set()
                await release.wait()
                return await self.inner.__aexit__(*about)  # type: ignore[arg-type]

        store._db.write = Slow  # type: ignore[assignment]
        update = asyncio.create_task(store.transition_job(job.id, JobState.SUBMITTING, epoch=epoch))
        await checked.wait()
        clock.pass_(7_200)
        successor = asyncio.create_task(other.acquire_lease("controller", "two", duration_s=9))
        done, _ = await asyncio.wait([successor], timeout=0.3)
        assert not done
        release.set()
        assert (await update).state is JobState.SUBMITTING
        lease = await successor
        assert lease is not None
        assert lease.epoch > epoch


async def test_events(store: Store, clock: Clock) -> None:
    assert await store.get_last_event_id() == 0
    for n in range(5):
        await store.add_event("announcement", {"n": n, "text": "🚀 \0"})
    events = await store.list_events_after(0)
    assert [event.data["n"] for event in events] == [0, 1, 2, 3, 4]
    assert (events[0].time, events[0].owner, events[0].job_id) == (clock.now, None, None)
    assert events[0].data["text"] == "🚀 \0"
    assert await store.get_last_event_id() == events[-1].id
    assert await store.list_events_after(events[1].id, limit=2) == events[2:4]
    assert await store.list_events_after(events[-1].id) == []


async def test_prune(store: Store, clock: Clock) -> None:
    key = Idempotency(owner="ada", key="k", request_hash="h")
    old = (await store.create_job(make_job(), idempotency=key)).job
    await store.add_single_use_secret("code", "s", "ada", clock.now + timedelta(seconds=5), {})
    clock.pass_(100)
    await store.add_event("announcement", {})
    await store.add_event("announcement", {})
    last = await store.get_last_event_id()
    await store.delete_old_records(events_before=clock.now, idempotency_before=clock.now)
    assert [event.kind for event in await store.list_events_after(0)] == ["announcement"] * 2
    assert await store.get_job(old.id) == old
    assert not (await store.create_job(make_job(), idempotency=key)).replayed
    clock.pass_(100)
    await store.delete_old_records(events_before=clock.pass_(1), idempotency_before=clock.now)
    assert await store.get_last_event_id() > last, (
        "the newest stays, so that nobody's place is lost"
    )
    await store.add_event("announcement", {})
    assert await store.get_last_event_id() > last + 1


def load(clock: Clock, cpu_used: float) -> ClusterLoad:
    return ClusterLoad(
        time=clock.now,
        cpu_total=8,
        cpu_used=cpu_used,
        memory_total_bytes=1 << 40,
        memory_used_bytes=0,
        gpu_total=4,
        gpu_used=1,
        waiting_jobs=2,
    )


class TestLoad:
    async def test_load_is_summed_over_intervals_and_pruned(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        began = clock.now
        for cpu_used in (2, 4):
            await store.add_load_sample(load(clock, cpu_used), {"gpu": load(clock, 1)}, epoch=epoch)
        clock.now += timedelta(minutes=10)
        await store.add_load_sample(
            load(clock, 8), {"gpu": load(clock, 3), "cpu": load(clock, 0)}, epoch=epoch
        )
        first, second = await store.list_load_since(began - timedelta(minutes=10))
        assert (first.samples, first.sums["cpu_used"], first.sums["waiting_jobs"]) == (2, 6, 4)
        assert (second.samples, second.sums["memory_total_bytes"]) == (1, 1 << 40)
        assert second.time - first.time == timedelta(minutes=10)
        assert await store.list_load_since(second.time) == [second]
        of_gpu = await store.list_load_since(began - timedelta(minutes=10), "gpu")
        assert [(one.samples, one.sums["cpu_used"]) for one in of_gpu] == [(2, 2), (1, 3)]
        (of_cpu,) = await store.list_load_since(began - timedelta(minutes=10), "cpu")
        assert (of_cpu.time, of_cpu.sums["waiting_jobs"]) == (second.time, 2)
        clock.now += timedelta(days=31)
        await store.delete_old_records(events_before=began, idempotency_before=began)
        assert await store.list_load_since(began - timedelta(days=1)) == []
        assert await store.list_load_since(began - timedelta(days=1), "gpu") == []

    async def test_load_of_a_former_leader_is_refused(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        with pytest.raises(StaleEpoch):
            await store.add_load_sample(load(clock, 1), {}, epoch=epoch + 1)
        assert await store.list_load_since(clock.now - timedelta(days=1)) == []

    async def test_jobs_in_the_queue_are_counted_with_the_tasks_of_arrays(
        self, store: Store, clock: Clock
    ) -> None:
        assert await store.count_queued_jobs() == []
        await store.create_job(make_job(created_at=clock.now))
        array, _ = make_array("0-4")
        await store.create_job(array, [make_task_group(array)])
        waiting = make_job(state=JobState.QUEUED, partition="gpu", created_at=clock.now)
        running = make_job(state=JobState.RUNNING, partition="gpu", created_at=clock.now)
        ended = make_job(state=JobState.COMPLETED, partition="gpu", created_at=clock.now)
        for job in (waiting, running, ended):
            await store.create_job(job)
        found = {one.partition: one for one in await store.count_queued_jobs()}
        assert found.keys() == {None, "gpu"}
        assert (found[None].waiting, found[None].running) == (6, 0)
        assert (found["gpu"].waiting, found["gpu"].running) == (1, 1)
        assert found["gpu"].oldest_at == clock.now

    async def test_wait_times_are_counted_by_partition(self, store: Store, clock: Clock) -> None:
        now = clock.now
        for state, partition, wait_s, ago_s in (
            (JobState.RUNNING, "gpu", 30, 600),
            (JobState.COMPLETED, "gpu", 300, 600),
            (JobState.FAILED, "gpu", 7_200, 600),
            (JobState.COMPLETED, "gpu", 30, 200_000),
            (JobState.COMPLETED, "cpu", 59, 60),
        ):
            began = now - timedelta(seconds=ago_s)
            await store.create_job(
                make_job(
                    state=state,
                    partition=partition,
                    created_at=began - timedelta(seconds=wait_s),
                    allocated_at=began,
                    ended_at=None if state is JobState.RUNNING else began + timedelta(seconds=5),
                )
            )
        found = {
            one.partition: one
            for one in await store.sum_waits_since(now - timedelta(days=1), (60, 600))
        }
        assert found.keys() == {"gpu", "cpu"}
        assert (found["gpu"].jobs, found["gpu"].counts) == (3, (1, 1, 1))
        assert (found["gpu"].total_s, found["gpu"].longest_s) == (7_530, 7_200)
        assert (found["cpu"].jobs, found["cpu"].counts) == (1, (1, 0, 0))
