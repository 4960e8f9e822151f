"""Tests of the audit log over HTTP: recorded requests, readers, detection of changes."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from aitne.api.audit_middleware import READS
from aitne.core.audit_chain import AuditChain
from aitne.core.models.access_token import Scope
from aitne.core.models.audit import AuditFilter
from aitne.core.models.user import Role
from tests.support.jobs import make_job
from tests.support.openapi import openapi_document
from tests.support.stage import Stage

AUDIT = "/api/v1/admin/audit"


async def entries(stage: Stage) -> list[dict[str, Any]]:
    found = await stage.store.list_audit_entries_after(0, AuditFilter())
    return [
        entry.model_dump(include={"actor", "action", "object", "outcome", "address", "details"})
        for entry in found
    ]


async def administrator(stage: Stage) -> str:
    return await stage.token(await stage.add_user("root", Role.ADMIN))


async def test_every_change_is_recorded_with_who_what_and_how_it_ended(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada", project="vision"))
    eve = await stage.token(await stage.add_user("eve", project="vision"))
    job = make_job(owner="ada", project="vision")
    await stage.store.create_job(job)
    address = f"/api/v1/jobs/{job.id}/cancel"
    async with stage.client(eve) as client:
        assert (await client.post(address)).status_code == 403
        assert (await client.get(f"/api/v1/jobs/{job.id}")).status_code == 200
    async with stage.client(ada) as client:
        assert (await client.post(address)).status_code == 202
        assert (await client.post(address.replace(str(job.id)[:8], "0" * 8))).status_code == 404
    common = {"action": "cancel_job", "address": "127.0.0.1"}
    mine = {**common, "object": str(job.id)}
    assert await entries(stage) == [
        {**mine, "actor": "eve", "outcome": "denied", "details": {"status": 403}},
        {**mine, "actor": "ada", "outcome": "allowed", "details": {"status": 202}},
        {
            **common,
            "actor": "ada",
            "object": "0" * 8 + str(job.id)[8:],
            "outcome": "failed",
            "details": {"status": 404},
        },
    ]


async def test_created_object_is_audited_without_its_password(stage: Stage) -> None:
    root = await administrator(stage)
    async with stage.client(root) as client:
        made = await client.post(
            "/api/v1/users", json={"name": "ada", "password": "only ada knows this"}
        )
        assert made.status_code == 201
    async with stage.browser("root") as browser:
        assert (await browser.post("/api/v1/auth/login-links")).status_code == 201
    found = await entries(stage)
    assert ("create_user", "ada") in [(each["action"], each["object"]) for each in found]
    assert "create_login_link" in [each["action"] for each in found]
    assert "only ada knows" not in json.dumps(found)


async def test_a_list_names_the_jobs_and_may_leave_out_preferences(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada", project="vision"))
    job = make_job(owner="ada", project="vision", name="train")
    await stage.store.create_job(job)
    gone = "00000000-0000-4000-8000-000000000000"
    async with stage.client(ada) as client:
        for key in ("portal", "templates"):
            assert (await client.put(f"/api/v1/me/preferences/{key}", json={})).status_code == 200
        for id_ in (job.id, gone):
            await client.post(f"/api/v1/jobs/{id_}/cancel")
    async with stage.client(await administrator(stage)) as client:
        everything = (await client.get(AUDIT)).json()
        assert everything["total"] == 4
        assert everything["job_names"] == {str(job.id): "train"}
        less = (await client.get(f"{AUDIT}?preferences=false")).json()
        assert [entry["object"] for entry in less["items"]] == [gone, str(job.id)]


async def test_targets_are_recorded_with_their_names(stage: Stage) -> None:
    async with stage.client(await administrator(stage)) as client:
        created = await client.post("/api/v1/announcements", json={"text": "New image"})
        address = created.headers["location"]
        assert (await client.delete(address)).status_code == 204
        token = (await client.post("/api/v1/tokens", json={"name": "laptop"})).json()
        assert (await client.delete(f"/api/v1/tokens/{token['id']}")).status_code == 204
        hook = await client.post("/api/v1/webhooks", json={"url": "https://93.184.216.34/secret"})
        assert hook.status_code == 201, hook.text
        assert (await client.delete(hook.headers["location"])).status_code == 204
    found = await entries(stage)
    assert [(entry["action"], entry["details"].get("name")) for entry in found] == [
        ("create_announcement", "New image"),
        ("delete_announcement", "New image"),
        ("create_token", "laptop"),
        ("delete_token", "laptop"),
        ("create_webhook", "93.184.216.34"),
        ("delete_webhook", "93.184.216.34"),
    ]


async def test_reads_and_unauthenticated_requests_are_not_audited(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.token(await stage.add_user("ada"))
    async with stage.client(ada) as client:
        plan = await client.post("/api/v1/jobs:plan", json={"commands": ["true"]})
        assert plan.status_code == 200
    async with stage.client() as client:
        assert (await client.post("/api/v1/jobs", json={})).status_code == 401
    assert await entries(stage) == []
    operations = {
        operation["operationId"]
        for path in openapi_document()["paths"].values()
        for operation in path.values()
    }
    assert operations >= READS


@pytest.mark.parametrize("path", ["", "/export", "/check"])
async def test_only_administrators_read_it(stage: Stage, path: str) -> None:
    ada = await stage.token(await stage.add_user("ada"))
    root = await stage.add_user("root", Role.ADMIN)
    narrow = await stage.token(root, Scope.READ)
    for token, status in ((ada, 403), (narrow, 403), (None, 401), (await stage.token(root), 200)):
        async with stage.client(token) as client:
            assert (await client.get(AUDIT + path)).status_code == status


async def test_audit_log_is_filtered_and_paged(stage: Stage) -> None:
    root = await administrator(stage)
    for number in range(5):
        await stage.platform.audit.record(
            actor="ada" if number % 2 else "bob",
            action="drain_node",
            object=f"gpu{number:02}",
            outcome="allowed",
            address=None,
        )
        stage.clock.move(60)
    async with stage.client(root) as client:
        first = (await client.get(AUDIT, params={"actor": "bob", "limit": 2})).json()
        assert [each["object"] for each in first["items"]] == ["gpu04", "gpu02"]
        assert first["total"] == 3
        rest = await client.get(AUDIT, params={"actor": "bob", "cursor": first["next_cursor"]})
        assert [each["object"] for each in rest.json()["items"]] == ["gpu00"]
        until = {"until": "2026-03-01T12:01:30Z", "since": "2026-03-01T12:00:30Z"}
        between = (await client.get(AUDIT, params=until)).json()
        assert [each["object"] for each in between["items"]] == ["gpu01"]
        wrong = await client.get(AUDIT, params={"outcome": "perhaps"})
        assert wrong.status_code == 422


async def test_an_export_is_checked_without_the_platform(stage: Stage) -> None:
    root = await administrator(stage)
    for number in range(1_100):
        await stage.platform.audit.record(
            actor="ada", action="cancel_job", object=str(number), outcome="allowed", address=None
        )
    async with stage.client(root) as client:
        answer = await client.get(f"{AUDIT}/export")
        assert answer.headers["content-disposition"] == 'attachment; filename="aitne-audit.jsonl"'
        part = await client.get(f"{AUDIT}/export", params={"object": "7"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    chain = AuditChain()
    assert chain.check_entries(lines)
    assert (chain.is_intact, chain.entries) == (True, 1_100)
    filtered = AuditChain()
    assert filtered.check_entries([json.loads(part.text)], filtered=True)
    lines[600] = {**lines[600], "outcome": "denied"}
    forged = AuditChain()
    assert not forged.check_entries(lines)
    assert forged.broken is not None
    assert forged.broken.entry == 601


async def test_a_spreadsheet_takes_no_cell_for_a_formula(stage: Stage) -> None:
    root = await administrator(stage)
    await stage.platform.audit.record(
        actor="ada", action="delete_token", object="=1+1", outcome="failed", address=None
    )
    async with stage.client(root) as client:
        text = (await client.get(f"{AUDIT}/export", params={"format": "csv"})).text
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["id"], row["actor"], row["object"]) == ("1", "ada", "'=1+1")


async def test_a_changed_row_of_the_database_file_is_named(stage: Stage) -> None:
    root = await administrator(stage)
    for name in ("one", "two", "three"):
        await stage.platform.audit.record(
            actor=name, action="drain_node", object=None, outcome="allowed", address=None
        )
    async with stage.client(root) as client:
        before = (await client.get(f"{AUDIT}/check")).json()
        assert (before["intact"], before["entries"]) == (True, 3)
        with closing(sqlite3.connect(stage.settings.data_dir / "aitne.db")) as file:
            with pytest.raises(sqlite3.IntegrityError, match="append only"):
                file.execute("UPDATE audit SET actor = 'eve' WHERE id = 2")
            file.execute("DROP TRIGGER audit_no_update")
            file.execute("UPDATE audit SET actor = 'eve' WHERE id = 2")
            file.commit()
        after = (await client.get(f"{AUDIT}/check")).json()
    assert (after["intact"], after["entries"], after["broken_entry"]) == (False, 1, 2)
    assert "changed" in after["problem"]


async def test_hostile_texts_are_stored_as_harmless_ones(stage: Stage) -> None:
    await stage.platform.audit.record(
        actor="a\0b\ud800",
        action="x" * 300,
        object="o" * 5_000,
        outcome="denied",
        address=None,
        details={"weight": 1.5, "names": {"b"}, "n\0": "\0"},
    )
    (entry,) = await entries(stage)
    assert entry["actor"] == "a\ufffdb\\ud800"
    assert len(entry["action"]) == 100
    assert len(entry["object"]) == 500
    assert entry["details"] == {"weight": "1.5", "names": ["b"], "n\ufffd": "\ufffd"}


async def test_the_end_of_many_jobs_names_them(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada", project="vision"))
    job = make_job(owner="ada", project="vision")
    await stage.store.create_job(job)
    async with stage.client(ada) as client:
        answer = await client.post("/api/v1/jobs:cancel", json={"ids": [str(job.id)]})
    assert answer.status_code == 202
    (entry,) = await entries(stage)
    assert entry["details"] == {"status": 202, "asked": {"ids": [str(job.id)]}}
