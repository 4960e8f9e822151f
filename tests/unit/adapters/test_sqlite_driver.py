"""Connections to SQLite that are cut off."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from aitne.adapters.store.sqlite_driver import SqliteConnector


async def test_a_close_ends_though_the_connection_is_stopped_meanwhile(tmp_path: Path) -> None:
    connector = SqliteConnector(tmp_path / "a.db", 1)
    connection = await connector.connect()
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    connection.stop()
    async with asyncio.timeout(10):
        await closing
    await connector.ended(within_s=30)


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
    await connector.ended(within_s=30)
    assert not thread.is_alive()
