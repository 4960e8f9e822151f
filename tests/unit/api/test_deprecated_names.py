"""Old names of REST fields and routes: answered until release 0.3, and marked as deprecated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitne.client import admin_records, project_records, records
from tests.support.openapi import openapi_document
from tests.support.project_stage import API, ada_leads, ok
from tests.support.stage import Stage

RENAMED = {
    "AreaFacts": {"there": "available"},
    "AuditCheck": {"whole": "intact"},
    "Balance": {"spent": "exhausted"},
    "CancelResults": {"asked": "requested"},
    "Change": {"what": "kind"},
    "DeliveryView": {"tries": "attempts", "next_try_at": "next_attempt_at"},
    "Difference": {"what": "field", "portal": "platform"},
    "FactorView": {"rule": "policy"},
    "GpuCapacity": {"out": "unavailable", "without_end": "end_unknown"},
    "Impersonation": {"by": "impersonator"},
    "InvitationPreview": {"closed_because": "closed_reason"},
    "JobQueue": {"place": "position"},
    "LimitUse": {"by": "by_user", "most": "maximum"},
    "NodeDrain": {"what": "event"},
    "NodeEvent": {"what": "event"},
    "Note": {"serious": "changes_execution"},
    "PartHealth": {"says": "message"},
    "Plan": {"limits": "enforcement", "waits_for": "pending_reason"},
    "PlatformInfo": {"limits": "limits_applied"},
    "QueuePosition": {"place": "position"},
    "RevokedSignIns": {"ended": "revoked"},
    "Row": {"same": "equal"},
    "SchedulerStatus": {"answering": "responding"},
    "Section": {"same_left_out": "equal_omitted"},
    "SettingView": {"where": "location"},
    "Share": {"left": "remaining"},
    "SyncReport": {"left_alone": "unmanaged"},
    "UserWait": {"slow_s": "p90_s", "longest_s": "max_s"},
    "WaitingJob": {"asks_for": "resources", "waits_since": "pending_since"},
    "WebhookSecret": {"disabled_why": "disabled_reason"},
    "WebhookView": {"disabled_why": "disabled_reason"},
}
"""The old and the new name of each renamed field, by the schema that has it."""
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "rest-api.md"
ANNOTATIONS = ("description", "deprecated", "readOnly", "default", "examples")


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return openapi_document()


def test_openapi_marks_exactly_the_renamed_fields_as_deprecated(openapi: dict[str, Any]) -> None:
    schemas = openapi["components"]["schemas"]
    deprecated = {
        name: {
            field for field, each in schema.get("properties", {}).items() if "deprecated" in each
        }
        for name, schema in schemas.items()
    }
    assert {name: fields for name, fields in deprecated.items() if fields} == {
        name: set(names) for name, names in RENAMED.items()
    }
    for name, names in RENAMED.items():
        for old, new in names.items():
            copy, field = (schemas[name]["properties"][each] for each in (old, new))
            assert copy["deprecated"] is True
            assert copy["description"] == f"Old name of `{new}`."
            types = [
                {key: value for key, value in each.items() if key not in ANNOTATIONS}
                for each in (copy, field)
            ]
            assert types[0] == types[1], f"{name}.{old} has another type than {name}.{new}"


def test_openapi_marks_the_old_route_of_invitations_as_deprecated(openapi: dict[str, Any]) -> None:
    operations = {
        f"{method} {path}"
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
        if operation.get("deprecated")
    }
    assert operations == {"post /api/v1/invitations/look"}


def test_reference_lists_exactly_the_renamed_fields() -> None:
    rows = {
        f"| `{name}` | `{old}` | `{new}` |"
        for name, names in RENAMED.items()
        for old, new in names.items()
    }
    _, _, table = REFERENCE.read_text().partition("## Old names of fields")
    assert {line for line in table.splitlines() if line.startswith("| `")} == rows


async def test_answers_carry_the_old_names_as_well(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    job = {"name": "train", "project": "vision", "commands": ["true"]}
    async with stage.client(ada) as client:
        created = await ok(client.post(f"{API}/jobs", json=job), 201)
        plan = await ok(client.post(f"{API}/jobs:plan", json={**job, "after": [created["id"]]}))
        assert plan["waits_for"] == plan["pending_reason"] == "Waits for one other job to complete."
        [waiting] = (await ok(client.get(f"{API}/projects/vision/waiting")))["items"]
        assert waiting["asks_for"] == waiting["resources"] == "1 CPU"
        assert waiting["waits_since"] == waiting["pending_since"] == created["created_at"]
        cancelled = await ok(client.post(f"{API}/jobs:cancel", json={"ids": [created["id"]]}), 202)
        assert cancelled["asked"] == cancelled["requested"] == 1
    async with stage.client(root) as client:
        check = await ok(client.get(f"{API}/admin/audit/check"))
        assert check["whole"] is check["intact"] is True
        for part in (await ok(client.get(f"{API}/admin/health")))["parts"]:
            assert part["says"] == part["message"]


async def test_old_route_of_invitations_answers_like_the_new_one(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    async with stage.client(ada) as client:
        made = await ok(client.post(f"{API}/projects/vision/invitations", json={}), 201)
    token = {"token": made["url"].split("#")[1]}
    async with stage.client() as nobody:
        old = await ok(nobody.post(f"{API}/invitations/look", json=token))
        assert old == await ok(nobody.post(f"{API}/invitations/preview", json=token))


def test_client_records_read_the_old_and_the_new_name() -> None:
    health = admin_records.PartHealthRecord({"message": "Fine.", "says": "Fine."})
    assert health.says == health.message == "Fine."
    share = project_records.BudgetShareRecord({"remaining": 2.5, "left": 2.5})
    assert share.left == share.remaining == 2.5
    place = records.QueuePositionRecord({"position": 3, "place": 3})
    assert place.place == place.position == 3
