from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
import time
from contextvars import Context
from pathlib import Path

import pytest
from sqlalchemy import text

from aitne.core.jobs.states import JobState
from aitne.core.models.job import JobFilter
from aitne.store import Store
from aitne.store.change_feed import Feed, PostgresFeed, SqliteFeed
from aitne.store.database import Transaction
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_job
from tests.support.postgres import PostgresServer

HOUR_S = 3_600.0
"""Longer than a test may take: only a commit ends such a wait in time."""

WRITER = """
import asyncio, sys
from aitne.store import Store

async def main(url, writer, count):
    store = Store(url)
    await store.start()
    for n in range(int(count)):
        await store.add_event("announcement", {"writer": int(writer), "n": n})
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def settle(store: Store) -> None:
    """Wait until everything that was committed so far has been told."""
    while await store.wait_for_change(0.3):
        await store.get_last_event_id()


class TestCommitOrder:
    """A reader that asks for what comes after the last id it saw must never miss one."""

    async def test_a_tailing_reader_sees_every_event_of_many_writers(
        self, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finish, rng = Transaction.flush_events, random.Random(5)

        async def dawdle(self: Transaction) -> None:
            """Delay the commit, after events have got their ids."""
            await finish(self)
            await asyncio.sleep(rng.choice([0, 0, 0.005, 0.01]))

        monkeypatch.setattr(Transaction, "flush_events", dawdle)
        processes, tasks, each = 2, 4, 25
        children = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", WRITER, url, str(100 + n), str(each)
            )
            for n in range(processes)
        ]
        own = Store(url)
        await own.start()

        async def write(writer: int) -> None:
            for n in range(each):
                await own.add_event("announcement", {"writer": writer, "n": n})

        writers = asyncio.gather(
            *(write(n) for n in range(tasks)), *(child.wait() for child in children)
        )
        seen: list[tuple[int, int, int]] = []
        last = 0
        deadline = time.monotonic() + 60
        while len(seen) < (processes + tasks) * each and time.monotonic() < deadline:
            await store.wait_for_change(1)
            for event in await store.list_events_after(last, limit=7):
                last = event.id
                seen.append((event.id, event.data["writer"], event.data["n"]))
        await writers
        await own.close()
        assert [id_ for id_, _, _ in seen] == sorted({id_ for id_, _, _ in seen})
        for writer in (*range(tasks), *range(100, 100 + processes)):
            assert [n for _, of, n in seen if of == writer] == list(range(each))

    async def test_uncommitted_event_holds_back_later_events(
        self, store: Store, other: Store, clock: Clock
    ) -> None:
        async with store._db.raw_write() as connection:
            slow = Transaction(connection, clock)
            slow.append_event("slow", {})
            await slow.flush_events()
            await slow.execute(
                text("SELECT 1")
            )  # SQLite begins with the first result that is needed
            quick = asyncio.create_task(other.add_event("quick", {}))
            await asyncio.wait([quick], timeout=0.3)
            early = await other.list_events_after(0)
        await quick
        late = await other.list_events_after(0)
        assert [event.kind for event in late] == ["slow", "quick"]
        assert late[: len(early)] == early, "one appeared before what had been seen"

    async def test_random_jobs_at_once(self, store: Store, other: Store) -> None:
        jobs = [(await store.create_job(make_job(state="RUNNING"))).job for _ in range(4)]
        rng = random.Random(7)

        async def churn(which: Store) -> None:
            for n in range(25):
                job = rng.choice(jobs)
                await which.transition_job(job.id, JobState.RUNNING, message=f"{id(which)} {n}")

        done = asyncio.gather(*(churn(which) for which in (store, other) * 3))
        last, versions = 0, {job.id: 0 for job in jobs}
        while True:
            over = done.done()
            events = await store.list_events_after(last)
            for event in events:
                assert event.id > last
                last = event.id
                assert event.job_id is not None
                assert event.data["version"] == versions[event.job_id] + 1
                versions[event.job_id] += 1
            if over and not events:
                break
            await asyncio.sleep(0)
        await done
        for job in jobs:
            assert versions[job.id] == (await store.get_job(job.id)).version


class TestWaiting:
    async def test_wait_without_changes_times_out(self, store: Store) -> None:
        await settle(store)
        before = time.monotonic()
        assert not await store.wait_for_change(0.2)
        assert time.monotonic() - before >= 0.15

    @pytest.mark.parametrize("who", ["this store", "another store"])
    async def test_a_commit_ends_the_wait(self, store: Store, other: Store, who: str) -> None:
        await settle(store)
        waiting = asyncio.create_task(store.wait_for_change(HOUR_S))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await (store if who == "this store" else other).add_event("announcement", {})
        assert await waiting

    async def test_commit_of_other_process_ends_wait(self, store: Store, url: str) -> None:
        await settle(store)
        waiting = asyncio.create_task(store.wait_for_change(HOUR_S))
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, url, "1", "1")
        assert await waiting
        assert await child.wait() == 0

    async def test_single_commit_ends_wait_of_all_readers(self, store: Store) -> None:
        await settle(store)
        waiting = [asyncio.create_task(store.wait_for_change(HOUR_S)) for _ in range(50)]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in waiting)
        await store.add_event("announcement", {})
        assert all(await asyncio.gather(*waiting))

    async def test_event_between_read_and_first_wait_ends_wait(
        self, store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # However long it takes from the one to the other.
        monkeypatch.setattr(Feed, "RECENT_S", 0)
        await settle(store)

        async def reader() -> bool:
            assert await store.list_events_after(0) == []
            await other.add_event("announcement", {})
            await asyncio.create_task(settle(store))
            return await store.wait_for_change(HOUR_S)

        # A context of its own, in which no task has waited or read yet.
        assert await asyncio.create_task(reader(), context=Context())

    @pytest.mark.parametrize("read_in", ["the loop", "a task"])
    async def test_a_loop_that_waits_in_a_task_misses_nothing_and_does_not_spin(
        self, store: Store, other: Store, read_in: str
    ) -> None:
        """As one does who waits for one of several things."""
        await settle(store)
        turns, seen = 0, 0

        async def loop() -> None:
            nonlocal turns, seen
            while True:
                turns += 1
                reading = store.list_events_after(0)
                if read_in == "a task":
                    seen = len(await asyncio.create_task(reading))
                else:
                    seen = len(await reading)
                if seen == 5:
                    return
                await asyncio.wait([asyncio.create_task(store.wait_for_change(HOUR_S))])

        looping = asyncio.create_task(loop())
        for _ in range(5):
            await asyncio.sleep(0.15)
            await other.add_event("announcement", {})
        await looping
        assert turns < 100

    async def test_a_cancelled_waiter_leaves_nothing_behind(self, store: Store) -> None:
        await settle(store)
        waiting = asyncio.create_task(store.wait_for_change(HOUR_S))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not store._db.feed._waiters

    async def test_idle_costs_next_to_nothing(self, store: Store) -> None:
        await settle(store)
        before = time.process_time()
        await asyncio.gather(*(store.wait_for_change(1) for _ in range(100)))
        assert time.process_time() - before < 0.2


@pytest.mark.postgres
async def test_the_database_server_restarts(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool and the notifications are there again by themselves."""
    monkeypatch.setattr(PostgresFeed, "RETRY_S", 0.1)
    store = Store(postgres_url)
    await store.start()
    await settle(store)
    waiting = asyncio.create_task(store.wait_for_change(HOUR_S))
    await asyncio.sleep(0.05)
    postgres_server.stop()
    postgres_server.start()
    assert await waiting, "whoever waited looks again: something may have been missed"
    assert (await store.list_jobs(JobFilter(), visible_to=None)).total == 0
    await settle(store)
    waiting = asyncio.create_task(store.wait_for_change(HOUR_S))
    await asyncio.sleep(0.05)
    await store.add_event("announcement", {})
    assert await waiting
    await store.close()


async def test_sqlite_is_not_looked_at_when_nobody_waits(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'aitne.db'}")
    await store.start()
    await settle(store)
    feed = store._db.feed
    assert isinstance(feed, SqliteFeed)
    await asyncio.sleep(feed.INTERVAL_S * 3)
    assert feed._timer is None
    await store.close()


def test_data_version_sees_other_connections_of_the_same_process(tmp_path: Path) -> None:
    """SQLite reports changes of other connections, on which the feed depends."""
    path = tmp_path / "x.db"
    watcher, writer = (sqlite3.connect(path, isolation_level=None) for _ in range(2))
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t (x)")
    (before,) = watcher.execute("PRAGMA data_version").fetchone()
    writer.execute("INSERT INTO t VALUES (1)")
    (after,) = watcher.execute("PRAGMA data_version").fetchone()
    assert after != before
    watcher.close()
    writer.close()
