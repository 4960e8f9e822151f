"""The metrics that processes without a port leave for the API, and those of live jobs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aitne.api.job_metrics_text import JOB_METRICS
from aitne.core.errors import StoreUnavailable
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, Node
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.notification import NewDelivery
from aitne.core.models.user import Role
from aitne.local_system import process_status_file
from aitne.local_system.process_status_file import ProcessStatus
from aitne.services.jobs import live_usage
from aitne.services.jobs.live_usage import LiveUsage
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_job, store_job_token
from tests.support.monitoring import prometheus_program
from tests.support.stage import SCRAPER, Stage

HOSTILE = 'evil"} 1\naitne_up{a="\\'
TOKEN = "the-jobs-own-token"
PROFILE = {"schema": 1, "written_at": "2026-03-01T12:00:00Z", "size": 2, "communicating": 0.25}
GPU = {
    "index": 0,
    "utilization": 0.5,
    "memory_bytes": 1 << 30,
    "power_w": 250.0,
    "energy_j": 900.0,
    "ecc_errors": 2,
}


async def scrape(stage: Stage, path: str = "/metrics") -> str:
    async with stage.client() as client:
        answer = await client.get(path, headers=SCRAPER)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


async def running(stage: Stage, scheduler_id: str = "4711", token: str = TOKEN) -> Job:
    epoch = await stage.add_node()
    job = make_job(name='a "quoted" job\n', spec={"resources": {"cpu": 4, "gpu": {"count": 2}}})
    await stage.store.create_job(job)
    ids = JobChanges(scheduler_id=scheduler_id, nodes=("node01",))
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
        job = await stage.store.transition_job(job.id, state, ids)
    await store_job_token(stage.store, job.id, hash_secret(token), epoch=epoch)
    return job


async def report(stage: Stage, job: Job, token: str = TOKEN, **sample: object) -> httpx.Response:
    values = {"time": "2026-03-01T12:00:00Z", "node": "node01", "cpu": 1.5, "memory_bytes": 1000}
    body = {
        "protocol": 1,
        "attempt": 1,
        "phase": "running",
        "node": "node01",
        "samples": [{**values, **sample}],
        "profile": PROFILE,
    }
    async with stage.client(token) as agent:
        return await agent.post(f"/agent/v1/jobs/{job.id}/report", json=body)


async def test_a_live_job_has_series_by_the_schedulers_id_until_it_ends(stage: Stage) -> None:
    job = await running(stage)
    await report(
        stage,
        job,
        gpu=[GPU],
        read_bytes=10,
        written_bytes=20,
        processes=3,
        cpu_energy_j=500.0,
        node_cpu_power_w=120.4,
    )
    text = await scrape(stage, "/metrics/jobs")
    for name, value in (
        ("cpus_used", "1.5"),
        ("cpus_allocated", "4"),
        ("memory_used_bytes", "1000"),
        ("processes", "3"),
        ("gpus_allocated", "2"),
        ("gpu_utilization_ratio", "0.5"),
        ("gpu_power_watts", "250.0"),
        ("gpu_energy_joules_total", "900.0"),
        ("cpu_energy_joules_total", "500.0"),
        ("read_bytes_total", "10"),
        ("written_bytes_total", "20"),
        ("communication_ratio", "0.25"),
    ):
        assert f'aitne_job_{name}{{jobid="4711"}} {value}\n' in text
    for secret in ("ada", "quoted", "vision", str(job.id)):
        assert secret not in text
    assert set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) == {m.name for m in JOB_METRICS}
    assert 'aitne_gpu_ecc_errors{gpu="0",node="node01"} 2.0' in await scrape(stage)
    assert 'aitne_node_power_watts{node="node01",source="rapl"} 120.4' in await scrape(stage)
    (node,) = (await stage.platform.cluster.get_snapshot()).cluster.nodes
    assert (node.power_w, node.cpu_power_w) == (None, 120)
    assert [(each.cpu, each.cpu_energy_j) for each in await stage.store.list_samples(job.id)] == [
        (1.5, 500.0)
    ]

    await stage.store.transition_job(job.id, JobState.COMPLETED)
    async with asyncio.timeout(60):
        while stage.platform.agents.usage.usages():
            await asyncio.sleep(0.01)
    text = await scrape(stage)
    assert "aitne_job_reports 0.0" in text
    assert "aitne_node_power_watts{" not in text


async def test_reports_of_a_hostile_job_keep_the_format_and_name_no_other_nodes(
    stage: Stage,
) -> None:
    job = await running(stage, 'x"} 1\naitne_up{a="\\')
    for energy in ({"cpu_energy_j": -1}, {"node_cpu_power_w": 1e300}):
        assert (await report(stage, job, **energy)).status_code == 422
    rubbish = {"index": 10**9, "utilization": "1\n", "power_w": -1, "energy_j": 1e300}
    await report(stage, job, gpu=[rubbish, {**GPU, "power_w": True, "ecc_errors": -3}], cpu=1e300)
    await report(stage, job, node='other"node', gpu=[GPU])
    text = await scrape(stage, "/metrics/jobs")
    assert 'aitne_job_cpus_allocated{jobid="x\\"} 1\\naitne_up{a=\\"\\\\"} 4\n' in text
    assert "gpu_power_watts{" not in text
    assert "aitne_gpu_ecc_errors{" not in await scrape(stage)
    for path in ("/metrics", "/metrics/jobs"):
        check(await scrape(stage, path))


def check(text: str) -> None:
    """Assert that `promtool check metrics` reports nothing."""
    promtool = prometheus_program("promtool")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


async def test_names_with_quotes_are_in_no_label_and_other_labels_are_read_as_they_were(
    stage: Stage,
) -> None:
    """Jobs may have such names, users not; nodes and partitions are labels, as a scheduler names them."""
    names = ('node "1"', "node\\n2", "node\n3")
    parts = tuple(name.replace("node", "partition") for name in names)
    lease = await stage.store.acquire_lease("controller", "test", duration_s=60)
    assert lease is not None
    facts = {"cpu_total": 8, "cpu_used": 2, "memory_total_bytes": 1 << 30, "memory_used_bytes": 0}
    nodes = [
        Node(name=name, state="idle", partitions=(part,), seen_at=stage.clock(), **facts)
        for name, part in zip(names, parts, strict=True)
    ]
    await stage.store.save_cluster(Cluster(nodes=tuple(nodes)), epoch=lease.epoch)
    job = make_job(name=HOSTILE)
    await stage.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
        changes = JobChanges(scheduler_id="4711", nodes=("node01",))
        job = await stage.store.transition_job(job.id, state, changes)
    await store_job_token(stage.store, job.id, hash_secret(TOKEN), epoch=lease.epoch)
    assert (await report(stage, job)).status_code == 200
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as client:
        refused = await client.post("/api/v1/users", json={"name": HOSTILE})
        assert (refused.status_code, "name" in refused.text) == (422, True)
        await client.get(f"/api/v1/jobs/{quote(HOSTILE)}")

    labels: dict[str, set[str]] = defaultdict(set)
    for path in ("/metrics", "/metrics/jobs"):
        text = await scrape(stage, path)
        check(text)
        assert "evil" not in text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                for label, value in sample.labels.items():
                    labels[label].add(value)
    assert (labels["node"], labels["partition"]) == ({*names}, {*parts})
    assert labels["jobid"] == {"4711"}


async def test_prometheus_that_is_away_is_not_missed_and_counters_continue(stage: Stage) -> None:
    """Nothing waits for it: charts, queues and health come from the platform's own database."""
    await running(stage)
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as admin, asyncio.timeout(60):
        for _ in range(2):
            for path in ("cluster/history", "cluster/queues", "cluster/nodes", "admin/health"):
                answer = await admin.get(f"/api/v1/{path}")
                assert answer.status_code == 200, path
    counted = 'seconds_count{method="GET",route="/api/v1/cluster/history",status="200"} 2.0'
    assert f"aitne_http_request_duration_{counted}" in await scrape(stage)


def test_number_of_series_of_a_job_is_the_documented_one() -> None:
    root = Path(__file__).parents[3]
    count = len(JOB_METRICS)
    handbook = (root / "docs" / "handbook" / "monitoring.md").read_text()
    assert f"at most {count} series for each of at most {live_usage.MOST_JOBS:,} jobs" in handbook
    config = (root / "monitoring" / "prometheus" / "prometheus.yml").read_text()
    assert f"{count} for each job" in config
    limit = re.search(r"sample_limit: (\d+)", config)
    assert limit is not None
    assert int(limit[1]) >= count * live_usage.MOST_JOBS


async def test_ecc_errors_of_a_node_are_forgotten_with_the_node(stage: Stage) -> None:
    await report(stage, await running(stage), gpu=[GPU])
    assert "aitne_gpu_ecc_errors{" in await scrape(stage)
    lease = await stage.store.find_lease("controller")
    assert lease is not None
    await stage.store.save_cluster(Cluster(), epoch=lease.epoch)
    await scrape(stage)
    assert "aitne_gpu_ecc_errors{" not in await scrape(stage)


async def test_series_of_jobs_are_bounded_and_the_rest_is_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_usage, "MOST_JOBS", 2)
    for number in range(3):
        await report(stage, await running(stage, str(number), str(number)), str(number))
    text = await scrape(stage)
    assert "aitne_job_reports 2.0" in text
    assert "aitne_job_reports_left_out 1.0" in text


async def test_a_job_whose_agent_is_silent_is_left_out(stage: Stage) -> None:
    now = 0.0
    usage = LiveUsage(lambda: now)
    job = await running(stage)
    usage.add_samples(job, [])
    assert not usage.usages(), "nothing was measured yet"
    stage.platform.agents.usage = usage
    await report(stage, job)
    now = 299.0
    assert len(usage.usages()) == 1
    await report(stage, job)  # an agent whose interval has grown to 299 s may be late
    now = 299.0 + 890.0
    assert len(usage.usages()) == 1
    now += 10.0
    assert not usage.usages()


async def test_processes_without_a_port_are_measured(stage: Stage) -> None:
    run_dir = stage.settings.run_dir
    run_dir.mkdir()
    mine, gone = ProcessStatus("controller", os.getpid(), 3, 1e9, answers=True), 2**22 + 1
    process_status_file.write_process_status(
        run_dir, [mine, ProcessStatus("broker", gone, 0, 1e9, answers=True)]
    )
    text = await scrape(stage)
    assert 'aitne_process_up{process="controller"} 1.0' in text
    assert 'aitne_process_restarts_total{process="controller"} 3.0' in text
    found = re.search(r'resident_memory_bytes\{process="controller"\} (\S+)', text)
    assert found is not None
    assert float(found[1]) > 1 << 20
    assert 'aitne_process_up{process="broker"} 0.0' in text
    (run_dir / "processes.json").write_text('[{"name": "controller"')
    assert "aitne_process_up" not in await scrape(stage)


async def test_the_backlog_the_backup_and_the_parts_are_measured(stage: Stage) -> None:
    await stage.add_user("ada")
    await stage.store.add_delivery(NewDelivery(channel="mail", owner="ada", message={}))
    stage.clock.move(120)
    text = await scrape(stage)
    assert 'aitne_deliveries{channel="mail",state="waiting"} 1.0' in text
    assert 'aitne_deliveries_oldest_seconds{channel="mail"} 120.0' in text
    assert "aitne_backup_last_success_timestamp_seconds 0.0" in text
    created = {"created_at": "2026-03-01T12:00:00+00:00", "path": "/x", "bytes": 1}
    (stage.settings.data_dir / "backup.json").write_text(json.dumps(created))
    await stage.platform.audit_checks.check()
    text = await scrape(stage)
    assert "aitne_backup_last_success_timestamp_seconds 1.7723664e+09" in text
    assert "aitne_audit_chain_intact 1.0" in text
    assert 'aitne_filesystem_free_bytes{area="data_dir"}' in text


async def test_a_database_that_is_away_leaves_the_other_metrics(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("The disk is full. Make room.")

    monkeypatch.setattr(stage.store, "count_jobs_by_state", away, raising=False)
    text = await scrape(stage)
    assert "aitne_jobs{" not in text
    assert "aitne_build_info" in text
    assert "aitne_filesystem_free_bytes" in text
