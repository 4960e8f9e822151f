"""Health and settings, as administrators ask for them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509

from aitne.adapters.local_probes import LocalProbes
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.core.models.cluster import Cluster, Node, NodeState, SchedulerStatus
from aitne.core.models.user import Role
from aitne.core.settings import Settings
from aitne.local_system.own_account import own_account_name
from aitne.services.platform.certificate_authorities import LIFETIME, ensure_certificates
from aitne.services.platform.doctor_report import DoctorReport, write_report
from aitne.services.users.isolation_warnings import SHARED_ORIGIN
from tests.support.certificates import Authority
from tests.support.ports import reserve_ports
from tests.support.stage import SCRAPER, Stage, open_stage
from tests.unit.operations.planted import UNUSED_PORT, tls_server


async def part(stage: Stage, token: str, name: str) -> dict[str, Any]:
    stage.clock.move(5)
    async with stage.client(token) as client:
        answer = await client.get("/api/v1/admin/health")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = next(p for p in answer.json()["parts"] if p["name"] == name)
    return found


async def test_only_administrators_see_health_and_settings(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada"))
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    for path in ("/api/v1/admin/health", "/api/v1/admin/settings", "/api/v1/admin/drains"):
        for token, status in ((None, 401), (ada, 403), (root, 200)):
            async with stage.client(token) as client:
                assert (await client.get(path)).status_code == status


async def test_each_part_says_how_it_does_and_since_when(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    gone = await part(stage, root, "controller")
    assert gone["state"] == "down"
    assert gone["advice"]
    epoch = await stage.add_node()
    there = await part(stage, root, "controller")
    assert (there["state"], there["last_problem"]) == ("ok", gone["message"])
    assert there["since"] > gone["since"]
    again = await part(stage, root, "controller")
    assert again["since"] == there["since"]
    silent = SchedulerStatus(responding=False, since=stage.clock.now, message="It burns.")
    await stage.store.save_scheduler_status(silent, epoch=epoch)
    scheduler = await part(stage, root, "scheduler")
    assert scheduler["state"] == "down"
    assert "It burns." in scheduler["message"]
    assert scheduler["facts"]["nodes"] == 1
    assert (await part(stage, root, "database"))["facts"]["kind"] == "SQLite"
    assert (await part(stage, root, "disk"))["facts"]["free_bytes"] > 0


async def test_users_of_one_origin_must_trust_each_other(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    assert SHARED_ORIGIN not in (await part(stage, root, "isolation"))["message"]
    await stage.add_user("ada")
    says = (await part(stage, root, "isolation"))["message"]
    assert says.startswith(f"All jobs run as {own_account_name()} on this machine")
    assert says.endswith(SHARED_ORIGIN)


async def test_broker_that_does_not_answer_has_advice_for_its_kind(
    tmp_path: Path, blank: Path
) -> None:
    socket = {"socket": tmp_path / "broker.sock"}
    for mode, advice in (("own", "The supervisor restarts it"), ("shared", "broker's service")):
        folder = tmp_path / mode
        folder.mkdir()
        async with open_stage(folder, blank, broker=socket, accounts={"mode": mode}) as stage:
            root = await stage.token(await stage.add_user("root", Role.ADMIN))
            broker = await part(stage, root, "broker")
        assert broker["state"] == "down"
        assert advice in broker["advice"]


async def test_nodes_that_take_no_jobs_are_named_with_their_reasons(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    assert (await part(stage, root, "nodes"))["state"] == "unknown"
    epoch = await stage.add_node()
    [node] = (await stage.store.get_cluster()).nodes
    good = await part(stage, root, "nodes")
    assert (good["state"], good["message"]) == ("ok", "1 of 1 nodes accept jobs.")

    def out(names: str, state: NodeState, reason: str | None) -> list[Node]:
        fields = {"state": state, "reason": reason}
        return [node.model_copy(update={"name": name, **fields}) for name in names.split()]

    drained = out("n1 n2 n3", NodeState.DRAINED, "Duplicate jobid [slurm@2026-03-01T11:00:00]")
    down = out("n4", NodeState.DOWN, None)
    await stage.store.save_cluster(Cluster(nodes=(node, *drained, *down)), epoch=epoch)
    some = await part(stage, root, "nodes")
    assert some["state"] == "degraded"
    assert some["message"] == (
        "4 of 5 nodes accept no jobs: n[1-3] drained (Duplicate jobid); n4 down (no reason is given)."
    )
    assert some["advice"]
    await stage.store.save_cluster(Cluster(nodes=tuple(drained)), epoch=epoch)
    assert (await part(stage, root, "nodes"))["state"] == "down"


async def test_the_worst_comes_first_and_names_the_whole(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    async with stage.client(root) as client:
        report = (await client.get("/api/v1/admin/health")).json()
    weight = {"down": 0, "degraded": 1, "unknown": 2, "ok": 3}
    states = [weight[each["state"]] for each in report["parts"]]
    assert states == sorted(states)
    assert report["state"] == report["parts"][0]["state"] == "down"


async def test_settings_come_with_their_source(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    async with stage.client(root) as client:
        items = (await client.get("/api/v1/admin/settings")).json()["items"]
    found = {each["name"]: each for each in items}
    assert found["public_url"]["value"] == '"http://portal.test:8000"'
    assert found["public_url"]["source"] == "command_line"
    assert found["limits.max_nodes"]["source"] == "default"


async def test_probes_tell_what_answers_from_what_does_not(tmp_path: Path) -> None:
    probes = LocalProbes(within_s=0.5)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split()[1]
        status = {b"/good": b"403 Forbidden", b"/bad": b"502 Bad Gateway"}.get(path)
        writer.write(b"HTTP/1.1 " + status if status else b"SSH-2.0-x")
        writer.write(b"\r\n\r\n")
        await writer.drain()
        writer.close()

    async def said(url: str) -> str:
        try:
            await probes.check_http(url)
        except Exception as error:  # noqa: BLE001 - its class is what is looked at
            return f"{type(error).__name__}: {error}"
        return "it answers"

    port = reserve_ports()
    server = await asyncio.start_server(speak, "127.0.0.1", port)
    base = f"http://127.0.0.1:{port}"
    async with server:
        assert await said(f"{base}/good") == "it answers"
        assert "502" in await said(f"{base}/bad")
        assert "does not speak HTTP" in await said(f"{base}/ssh")
    assert (await said(base)).startswith("Unavailable")
    free, total = await probes.measure_space(tmp_path)
    assert 0 < free <= total


async def test_certificates_that_end_soon_or_are_renewed_are_named(
    tmp_path: Path, blank: Path
) -> None:
    tls = {"enabled": True}
    # The platform looks at its health as soon as it starts.
    ensure_certificates(Settings.model_validate({"data_dir": tmp_path, "tls": tls}))
    async with open_stage(tmp_path, blank, tls=tls) as stage:
        root = await stage.token(await stage.add_user("root", Role.ADMIN))
        assert (await part(stage, root, "certificates"))["state"] == "ok"
        file, began = stage.settings.tls_dir / "ca.pem", time.time()
        os.utime(file, (began, began + 60))
        renewed = await part(stage, root, "certificates")
        assert renewed["state"] == "degraded"
        assert "still uses the previous one" in renewed["message"]
        os.utime(file, (began, began - 60))
        stage.clock.move(
            (datetime.now(UTC) + LIFETIME - timedelta(days=20) - stage.clock.now).total_seconds()
        )
        soon = await part(stage, root, "certificates")
        assert soon["state"] == "degraded"
        assert "api.log says why" in soon["advice"]


async def test_certificates_of_a_reverse_proxy_are_measured(tmp_path: Path, blank: Path) -> None:
    one_day_left = Authority(tmp_path).issue("portal", "localhost", ended_ago=-timedelta(days=1))
    with tls_server(one_day_left) as port:
        origins = {
            "public_url": f"https://localhost:{port}",
            "sessions_url": f"https://127.0.0.1:{UNUSED_PORT}",
        }
        async with open_stage(tmp_path, blank, **origins) as stage:
            root = await stage.token(await stage.add_user("root", Role.ADMIN))
            await part(stage, root, "certificates")
            stage.clock.move((datetime.now(UTC) - stage.clock.now).total_seconds())
            found = await part(stage, root, "certificates")
            async with stage.client() as client:
                text = (await client.get("/metrics", headers=SCRAPER)).text
    assert found["state"] == "degraded"
    assert f"The certificate of localhost:{port} expires on" in found["message"]
    assert f"127.0.0.1:{UNUSED_PORT}: Connection refused." in found["message"]
    assert "Start the reverse proxy" in found["advice"]
    series = re.findall(
        r'aitne_certificate_expiry_timestamp_seconds{certificate="(.+)"} (.+)', text
    )
    [(name, expiry)] = series
    assert name == f"localhost:{port}"
    ends = x509.load_pem_x509_certificate(one_day_left[0].read_bytes()).not_valid_after_utc
    assert float(expiry) == ends.timestamp()


async def test_certificate_of_a_reverse_proxy_that_is_valid_for_long_is_no_problem(
    tmp_path: Path, blank: Path
) -> None:
    with tls_server(Authority(tmp_path).issue("portal", "localhost")) as port:
        async with open_stage(tmp_path, blank, public_url=f"https://localhost:{port}") as stage:
            root = await stage.token(await stage.add_user("root", Role.ADMIN))
            assert (await part(stage, root, "certificates"))["state"] == "ok"


async def test_readable_secret_is_named_until_it_is_private(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    secret = stage.settings.secrets_dir / "webhook_key"
    secret.chmod(0o644)
    exposed = await part(stage, root, "secrets")
    assert (exposed["state"], "webhook_key" in exposed["message"]) == ("down", True)
    for path in (stage.settings.secrets_dir, *stage.settings.secrets_dir.iterdir()):
        path.chmod(path.stat().st_mode & 0o700)
    assert (await part(stage, root, "secrets"))["state"] == "ok"


async def test_last_backup_and_last_doctor_are_shown(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    made = stage.clock.now - timedelta(days=3)
    record = {"path": "/backups/1", "created_at": made.isoformat(), "bytes": 4}
    (stage.settings.data_dir / "backup.json").write_text(json.dumps(record))
    broken = CheckResult(name="mail", state=CheckState.FAILED, message="It burns.")
    write_report(stage.settings.data_dir, DoctorReport(as_of=made, checks=(broken,)))
    backup = await part(stage, root, "backup")
    assert (backup["state"], "3 d" in backup["message"]) == ("degraded", True)
    doctor = await part(stage, root, "doctor")
    assert (doctor["state"], "mail: It burns." in doctor["message"]) == ("degraded", True)


async def test_request_is_not_answered_with_checks_that_began_long_before_it(
    tmp_path: Path, blank: Path
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await answered.wait()
        writer.close()

    hub = reserve_ports()
    async with (
        await asyncio.start_server(hang, "127.0.0.1", hub),
        open_stage(tmp_path, blank, hub_port=hub) as stage,
    ):
        root = await stage.token(await stage.add_user("root", Role.ADMIN))
        await asked.wait()
        write_report(stage.settings.data_dir, DoctorReport(as_of=stage.clock.now, checks=()))
        doctor = asyncio.create_task(part(stage, root, "doctor"))
        await asyncio.sleep(0)
        answered.set()
        assert (await doctor)["state"] == "ok"


async def test_each_check_of_the_doctor_is_a_metric_and_its_report_becomes_old(
    stage: Stage,
) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    checks = (
        CheckResult(name="mail", state=CheckState.WARNING, message="It smokes."),
        CheckResult(name="dns", state=CheckState.OK, message="All names resolve."),
    )
    write_report(stage.settings.data_dir, DoctorReport(as_of=stage.clock.now, checks=checks))
    assert (await part(stage, root, "doctor"))["state"] == "ok"
    async with stage.client() as client:
        text = (await client.get("/metrics", headers=SCRAPER)).text
    series = re.findall(r'aitne_check_state{check="(\w+)",state="(\w+)"} (.+)', text)
    assert len(series) == len(checks) * len(CheckState)
    assert {(name, state) for name, state, value in series if float(value)} == {
        ("mail", "warning"),
        ("dns", "ok"),
    }
    stage.clock.move(timedelta(hours=49).total_seconds())
    old = await part(stage, root, "doctor")
    assert (old["state"], "2 d" in old["message"]) == ("degraded", True)
    (stage.settings.data_dir / "doctor.json").write_text("{")
    async with stage.client() as client:
        assert "aitne_check" not in (await client.get("/metrics", headers=SCRAPER)).text


async def test_each_health_check_is_a_metric(stage: Stage) -> None:
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    await part(stage, root, "controller")
    async with stage.client() as client:
        text = (await client.get("/metrics", headers=SCRAPER)).text
    assert 'aitne_part_state{part="api",state="ok"} 1.0' in text
    assert 'aitne_part_state{part="controller",state="down"} 1.0' in text
