"""The audit log: a hash chain that shows every later change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from aitne.core.audit_chain import FIRST, AuditChain
from aitne.core.errors import InvalidInput
from aitne.core.models.audit import AuditDraft, AuditEntry, AuditFilter, Outcome
from aitne.store import Store
from tests.contract.store.conftest import Clock


def draft(clock: Clock, **fields: Any) -> AuditDraft:
    given: dict[str, Any] = {"actor": "ada", "action": "cancel_job", "outcome": "allowed"}
    return AuditDraft(time=clock.now, **{**given, **fields})


async def walk(store: Store) -> AuditChain:
    chain = AuditChain()
    entries = await store.list_audit_entries_after(0, AuditFilter())
    chain.check_entries([entry.model_dump(mode="json") for entry in entries])
    return chain


async def test_each_entry_holds_the_hash_of_the_one_before(store: Store, clock: Clock) -> None:
    details = {"status": 202, "reason": "“fans” \U0001f300", "changes": [None, True, {"a": "b"}]}
    first = await store.append_audit_entry(
        draft(clock, details=details, address="::1", object="x/y")
    )
    clock.pass_(0.000_001)
    second = await store.append_audit_entry(draft(clock, impersonator="root"))
    assert (first.id, first.previous, second.id, second.previous) == (1, FIRST, 2, first.hash)
    assert await store.list_audit_entries_after(0, AuditFilter()) == [first, second]
    assert first.details == details
    found = await walk(store)
    assert (found.is_intact, found.entries, found.last_hash) == (True, 2, second.hash)


async def test_many_at_once_from_two_processes_make_one_chain(
    store: Store, other: Store, clock: Clock
) -> None:
    await asyncio.gather(
        *(
            each.append_audit_entry(draft(clock, object=str(n)))
            for n in range(10)
            for each in (store, other)
        )
    )
    found = await walk(store)
    assert (found.is_intact, found.entries) == (True, 20)


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET actor = 'eve'", "DELETE FROM audit WHERE id = 1"]
)
async def test_the_database_refuses_to_change_an_entry(
    store: Store, clock: Clock, statement: str
) -> None:
    kept = await store.append_audit_entry(draft(clock))
    with pytest.raises(DBAPIError, match="append only"):
        async with store._db.raw_write() as connection:
            await connection.execute(text(statement))
    assert await store.list_audit_entries_after(0, AuditFilter()) == [kept]


async def test_audit_log_detects_changes_that_bypass_triggers(store: Store, clock: Clock) -> None:
    for number in range(1, 6):
        await store.append_audit_entry(draft(clock, object=f"job-{number}"))
    async with store._db.raw_write() as connection:
        if connection.dialect.name == "sqlite":
            await connection.execute(text("DROP TRIGGER audit_no_update"))
            await connection.execute(text("DROP TRIGGER audit_no_delete"))
        else:
            await connection.execute(text("ALTER TABLE audit DISABLE TRIGGER audit_no_change"))
        await connection.execute(text("UPDATE audit SET actor = 'eve' WHERE id = 4"))
    found = await walk(store)
    assert found.broken is not None
    assert (found.broken.entry, found.entries) == (4, 3)
    assert "changed" in found.broken.problem
    async with store._db.raw_write() as connection:
        await connection.execute(text("DELETE FROM audit WHERE id = 2"))
    found = await walk(store)
    assert found.broken is not None
    assert (found.broken.entry, found.entries) == (3, 1)
    assert "missing" in found.broken.problem


async def test_entries_are_found_by_who_what_and_when(store: Store, clock: Clock) -> None:
    started = clock.now
    made: list[AuditEntry] = []
    for fields in (
        {"object": "vision/ada"},
        {"object": "vision", "action": "update_project", "outcome": "denied"},
        {"object": "visionary", "actor": "eve"},
        {"object": "Vision/x", "actor": "ada", "impersonator": "root"},
    ):
        made.append(await store.append_audit_entry(draft(clock, **fields)))
        clock.pass_(60)

    async def ids(**where: Any) -> list[int]:
        page = await store.list_audit_entries(AuditFilter(**where))
        assert page.total == len(page.items)
        ascending = await store.list_audit_entries_after(0, AuditFilter(**where))
        assert [entry.id for entry in ascending] == [entry.id for entry in page.items][::-1]
        return [entry.id for entry in page.items]

    assert await ids() == [4, 3, 2, 1]
    assert await ids(actor="ada") == [4, 2, 1]
    assert await ids(actor="root") == [4]
    assert await ids(object="vision") == [2, 1]
    assert await ids(action="update_project") == [2]
    assert await ids(outcome=Outcome.DENIED) == [2]
    assert await ids(since=made[1].time, until=made[3].time) == [3, 2]
    assert await ids(until=started) == []


async def test_pages_go_on_where_the_last_one_ended(store: Store, clock: Clock) -> None:
    for _ in range(5):
        await store.append_audit_entry(draft(clock))
    first = await store.list_audit_entries(AuditFilter(), limit=2)
    await store.append_audit_entry(draft(clock))
    second = await store.list_audit_entries(AuditFilter(), limit=2, cursor=first.next_cursor)
    last = await store.list_audit_entries(AuditFilter(), limit=2, cursor=second.next_cursor)
    assert [[e.id for e in page.items] for page in (first, second, last)] == [[5, 4], [3, 2], [1]]
    assert last.next_cursor is None
    with pytest.raises(InvalidInput, match="cursor"):
        await store.list_audit_entries(AuditFilter(), cursor="bm9uc2Vuc2U")
