"""Connections to SQLite that are cut off."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from aitne.store.aiosqlite_connector import BEGIN, OneTripConnection, SqliteConnector


async def test_a_close_ends_though_the_connection_is_stopped_meanwhile(tmp_path: Path) -> None:
    connector = SqliteConnector(tmp_path / "a.db", 1)
    connection = await connector.connect()
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    connection.stop()
    async with asyncio.timeout(60):
        await closing
    await connector.wait_for_threads(within_s=30)


async def test_the_thread_of_a_connection_that_was_cut_off_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on, connect = threading.Event(), threading.Event(), sqlite3.connect

    def slowly(*arguments: object, **options: object) -> sqlite3.Connection:
        opening.set()
        assert go_on.wait(30)
        return connect(*arguments, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", slowly)
    before = set(threading.enumerate())
    connector = SqliteConnector(tmp_path / "a.db", 1)
    task = asyncio.create_task(connector.connect())
    await asyncio.to_thread(opening.wait, 30)
    [thread] = [each for each in set(threading.enumerate()) - before if each.daemon]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    await connector.wait_for_threads(within_s=30)
    assert not thread.is_alive()


async def count(connection: OneTripConnection) -> int:
    cursor = connection.cursor()
    await cursor.execute("SELECT count(*) FROM t")
    ((rows,),) = await cursor.fetchall()
    return int(rows)


async def test_deferred_statements_run_in_order_before_the_next_one(tmp_path: Path) -> None:
    connector = SqliteConnector(tmp_path / "a.db", 1)
    connection = await connector.connect()
    other = await connector.connect()
    await connection.cursor().execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    await connection.cursor().execute(BEGIN)
    assert not connection.in_transaction, "a transaction begins with its first statement"
    connection.deferring = True
    await connection.cursor().executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
    await connection.cursor().execute("DELETE FROM t WHERE id = 1")
    connection.deferring = False
    for brief in (False, True):
        connection.brief = brief
        assert await count(connection) == 1
    assert await count(other) == 0
    await connection.commit()
    assert await count(other) == 1
    for each in (connection, other):
        await each.close()


async def test_an_error_of_a_deferred_statement_is_raised_by_the_commit_and_nothing_stays(
    tmp_path: Path,
) -> None:
    connector = SqliteConnector(tmp_path / "a.db", 1)
    connection = await connector.connect()
    await connection.cursor().execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    await connection.cursor().execute(BEGIN)
    connection.deferring = True
    await connection.cursor().executemany("INSERT INTO t VALUES (?)", [(1,), (1,)])
    connection.deferring = False
    with pytest.raises(sqlite3.IntegrityError):
        await connection.commit()
    await connection.rollback()
    assert await count(connection) == 0
    await connection.cursor().execute(BEGIN)
    await connection.commit()
    assert not connection.in_transaction, "a transaction without statements takes no lock"
    await connection.close()


async def test_a_brief_statement_waits_for_what_a_cancelled_task_left_in_the_thread(
    tmp_path: Path,
) -> None:
    connector = SqliteConnector(tmp_path / "a.db", 1)
    connection = await connector.connect()
    await connection.cursor().execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    entered, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        entered.set()
        assert go_on.wait(30)

    left = asyncio.create_task(connection.run_in_connection_thread(slowly))
    await asyncio.to_thread(entered.wait, 30)
    left.cancel()
    connection.brief = True
    assert not connection.can_run_in_caller
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert await count(connection) == 0
    assert connection.can_run_in_caller
    await connection.close()
