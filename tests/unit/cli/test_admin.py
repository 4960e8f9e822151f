"""The audit log, announcements, maintenance and health on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aitne.core.models.audit import AuditDraft, AuditEntry, Outcome
from tests.support.fake_api import Answer, FakeApi, page
from tests.unit.cli.conftest import Aitne


def entries(count: int) -> list[AuditEntry]:
    made: list[AuditEntry] = []
    for number in range(count):
        draft = AuditDraft(
            time=datetime(2026, 3, 1, 12, number, tzinfo=UTC),
            actor="ada",
            action="drain_node",
            object=f"gpu0{number}",
            outcome=Outcome.ALLOWED,
            address="192.0.2.1",
        )
        made.append(AuditEntry.from_draft(number, made[-1].hash if made else None, draft))
    return made


def lines(found: list[AuditEntry]) -> bytes:
    return "".join(f"{entry.to_line()}\n" for entry in found).encode()


def pieces(data: bytes) -> Answer:
    """Return an answer in pieces that end in the middle of lines."""
    return Answer(200, [data[at : at + 100] for at in range(0, len(data), 100)])


def test_the_log_is_listed_with_who_and_what(aitne: Aitne, api: FakeApi) -> None:
    (entry,) = entries(1)
    raw = {**entry.model_dump(mode="json"), "impersonator": "root"}
    api.on("GET", "/admin/audit", page(raw))
    shown = aitne("admin", "audit", "ls", "--object", "gpu00", "--since", "2026-03-01T00:00:00Z")
    assert "root as ada" in shown.out
    assert "192.0.2.1" in shown.out
    (asked,) = api.sent("GET", "/admin/audit")
    assert asked.query["object"] == ["gpu00"]
    assert datetime.fromisoformat(asked.query["since"][0]) == datetime(2026, 3, 1, tzinfo=UTC)
    assert aitne("admin", "audit", "ls", "--json").json == [raw]
    assert aitne("admin", "audit", "ls", "--since", "yesterday").status == 2


def test_verify_counts_the_hashes_itself(aitne: Aitne, api: FakeApi, tmp_path: Path) -> None:
    found = entries(5)
    api.on("GET", "/admin/audit/export", pieces(lines(found)))
    good = aitne("admin", "audit", "verify")
    assert good.status == 0
    assert "All 5 entries are in order" in good.err
    assert found[-1].hash in good.err
    forged = [*found[:2], found[2].model_copy(update={"actor": "eve"}), *found[3:]]
    api.on("GET", "/admin/audit/export", pieces(lines(forged)))
    bad = aitne("admin", "audit", "verify")
    assert bad.status == 1
    assert "Entry 3 is wrong. The entry was changed" in bad.err
    api.on("GET", "/admin/audit/export", pieces(lines([*found[:2], *found[3:]])))
    assert "from 3 on are missing" in aitne("admin", "audit", "verify").err
    told = aitne("admin", "audit", "verify", "--json")
    assert (told.status, told.json["broken_entry"], told.json["entries"]) == (1, 4, 2)


def test_an_export_is_verified_without_a_platform(
    aitne: Aitne, api: FakeApi, tmp_path: Path
) -> None:
    found = entries(4)
    api.on("GET", "/admin/audit/export", pieces(lines(found)))
    file = tmp_path / "audit.jsonl"
    assert aitne("admin", "audit", "export", "-o", str(file)).status == 0
    assert file.read_bytes() == lines(found)
    asked = len(api.requests)
    assert aitne("admin", "audit", "verify", str(file)).status == 0
    file.write_bytes(lines([found[1], found[3]]))
    part = aitne("admin", "audit", "verify", str(file))
    assert part.status == 0
    assert "between or before them are missing" in part.err
    file.write_bytes(lines(found).replace(b"gpu02", b"gpu99"))
    assert "Entry 3 is wrong" in aitne("admin", "audit", "verify", str(file)).err
    file.write_text("id,time\n1,2026\n")
    wrong = aitne("admin", "audit", "verify", str(file))
    assert wrong.status == 1
    assert "not an entry" in wrong.err
    assert len(api.requests) == asked


def announcement(**fields: Any) -> dict[str, Any]:
    return {
        "id": "5f2d",
        "severity": "warning",
        "text": "Slow until noon.",
        "projects": [],
        "starts_at": "2026-03-01T08:00:00Z",
        "ends_at": None,
        "created_at": "2026-03-01T08:00:00Z",
        "created_by": "root",
        "updated_at": "2026-03-01T08:00:00Z",
        "dismissed": False,
        "dismissible": True,
        **fields,
    }


def test_announcements_are_read_made_changed_and_deleted(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/announcements", page(announcement()))
    api.on("GET", "/announcements/5f2d", announcement())
    api.on("POST", "/announcements", announcement())
    api.on("PATCH", "/announcements/5f2d", announcement(severity="critical"))
    api.on("DELETE", "/announcements/5f2d", Answer(204))
    api.on("PUT", "/announcements/5f2d/dismissal", Answer(204))
    assert "Slow until noon." in aitne("announce", "ls").out
    refused = aitne("announce", "create", "Slow until noon.", "--until", "4h")
    assert refused.status == 2
    assert not api.sent("POST", "/announcements")
    assert aitne("announce", "create", "Slow.", "--project", "vision", "--yes").status == 0
    assert api.sent("POST", "/announcements")[0].json == {
        "text": "Slow.",
        "severity": "info",
        "projects": ["vision"],
    }
    assert aitne("announce", "edit", "5f2d", "--severity", "critical").status == 0
    assert api.sent("PATCH", "/announcements/5f2d")[0].json == {"severity": "critical"}
    assert aitne("announce", "dismiss", "5f2d").status == 0
    assert aitne("announce", "delete", "5f2d", "--yes", "--json").json["deleted"] is True


def test_maintenance_is_set_ended_and_shown(aitne: Aitne, api: FakeApi) -> None:
    on = {
        "phase": "on",
        "starts_at": "2026-03-01T08:00:00Z",
        "ends_at": None,
        "message": "New switches.",
    }
    api.on("GET", "/maintenance", on)
    api.on("PUT", "/maintenance", on)
    api.on("DELETE", "/maintenance", {"phase": "off", "message": ""})
    shown = aitne("admin", "maintenance", "status").out
    assert "until it is turned off. New switches." in shown
    assert aitne("admin", "maintenance", "on", "--message", "New switches.").status == 2
    assert aitne("admin", "maintenance", "on", "--until", "2h", "--yes").status == 0
    sent = api.sent("PUT", "/maintenance")[0].json
    assert set(sent) == {"message", "ends_at"}
    assert datetime.fromisoformat(sent["ends_at"]) > datetime.now(UTC)
    assert "new jobs start" in aitne("admin", "maintenance", "off", "--yes").out


def test_health_fails_when_something_is_down(aitne: Aitne, api: FakeApi) -> None:
    part = {
        "name": "hub",
        "state": "degraded",
        "message": "It is slow.",
        "advice": "Wait.",
        "since": "2026-03-01T08:00:00Z",
        "facts": {},
    }
    report = {"state": "degraded", "version": "1", "as_of": "2026-03-01T08:00:00Z", "parts": [part]}
    api.on("GET", "/admin/health", report)
    degraded = aitne("admin", "health")
    assert degraded.status == 0
    assert "It is slow." in degraded.out
    assert "hub: Wait." in degraded.err
    api.on("GET", "/admin/health", {**report, "state": "down"})
    down = aitne("admin", "health", "--json")
    assert (down.status, down.json["state"]) == (1, "down")


def test_settings_say_where_they_are_from(aitne: Aitne, api: FakeApi) -> None:
    both = [
        {"name": "port", "value": "9000", "source": "file", "location": "/etc/aitne.toml:2"},
        {"name": "bind", "value": '"127.0.0.1"', "source": "default", "location": None},
    ]
    api.on("GET", "/admin/settings", {"items": both})
    shown = aitne("admin", "settings").out
    assert "/etc/aitne.toml:2" in shown
    assert "bind" not in shown
    assert aitne("admin", "settings", "--all", "--json").json == both


def test_a_nodes_history_names_who_drained_it(aitne: Aitne, api: FakeApi) -> None:
    drain = {
        "id": 1,
        "time": "2026-03-01T08:00:00Z",
        "event": "drain",
        "reason": "new fans",
        "actor": "root",
    }
    api.on("GET", "/cluster/nodes/gpu01/history", page(drain))
    shown = aitne("admin", "node", "history", "gpu01").out
    assert "root" in shown
    assert "new fans" in shown
    assert json.loads(aitne("admin", "node", "history", "gpu01", "--json").out) == [drain]
