"""Real faults of a platform fire its alerts, in a real Prometheus, and administrators are told by Alertmanager."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from aitne.core.platform.dev_cluster_record import DevCluster
from aitne_devcluster import faults
from tests.support import realtime
from tests.support.certificates import Authority
from tests.support.monitoring import MONITORING, alert_rules, prometheus_program, used_metrics
from tests.support.mounts import mounted
from tests.support.platform import RunningPlatform, environments_or_skip, on_cluster
from tests.support.ports import reserve_ports
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.waiting import eventually

__all__ = ["postgres_server"]

pytestmark = [
    pytest.mark.platform,
    pytest.mark.postgres,
    pytest.mark.timeout(900),
    realtime.PLATFORM,
]

WITHIN_S = 240.0
"""A health check comes every 15 s, and an action is late after a minute; the rest is for a busy machine."""
CONFIG = """
[tls]
enabled = true
certificate = "{certificate}"
key = "{key}"
[mail]
host = "127.0.0.1"
port = {closed}
security = "none"
[storage]
areas = [
  {{name = "full", path = "{full}/{{user}}"}},
  {{name = "crowded", path = "{crowded}/{{user}}"}},
]
"""
STATE_LOST_ALERT = "AitneSchedulerStateLost"
"""Alert that fires when Slurm has lost its state, which a test of faults does to a cluster of its own."""
SERVED_LATER = {"aitne_deliveries_oldest_seconds", "aitne_scheduler_state_lost_timestamp_seconds"}
"""Metrics that do not exist before their first event."""


class Monitoring:
    """Prometheus and Alertmanager with the repository's files, at short intervals."""

    def __init__(self, folder: Path, platform: RunningPlatform, authority: Path) -> None:
        self._folder = folder
        self._port = reserve_ports(2)
        self._url = f"http://127.0.0.1:{self._port}/api/v1"
        secrets = platform.data_dir / "secrets"
        rules = folder / "rules"
        rules.mkdir()
        for path in (MONITORING / "prometheus" / "rules").glob("*.yml"):
            text = re.sub(r"^ +for: .*\n", "", path.read_text(), flags=re.MULTILINE)
            (rules / path.name).write_text(text.replace("> 900", "> 2").replace("> 36 *", "> 1 *"))
        config = yaml.safe_load((MONITORING / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {
            "scrape_interval": "2s",
            "scrape_timeout": "2s",
            "evaluation_interval": "1s",
        }
        (manager,) = config["alerting"]["alertmanagers"]
        manager["static_configs"][0]["targets"] = [f"127.0.0.1:{self._port + 1}"]
        own = [one for one in config["scrape_configs"] if one["job_name"].startswith("aitne")]
        for one in own:
            one.pop("scrape_interval", None)
            one["authorization"]["credentials_file"] = str(secrets / "metrics_token")
            one["tls_config"] = {"ca_file": str(authority)}
            one["static_configs"][0]["targets"] = [f"127.0.0.1:{platform.port}"]
        config["scrape_configs"] = own
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        config = yaml.safe_load((MONITORING / "alertmanager" / "alertmanager.yml").read_text())
        config["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
        (webhook,) = config["receivers"][0]["webhook_configs"]
        webhook["url"] = f"{platform.url}/api/v1/alerts"
        webhook["http_config"] = {
            "authorization": {"credentials_file": str(secrets / "alerts_token")},
            "tls_config": {"ca_file": str(authority)},
        }
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run Prometheus and Alertmanager during the block."""
        listen = "--web.listen-address=127.0.0.1:"
        commands = [
            [
                prometheus_program("prometheus"),
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'prometheus'}",
                f"{listen}{self._port}",
            ],
            [
                prometheus_program("prometheus-alertmanager"),
                f"--config.file={self._folder / 'alertmanager.yml'}",
                f"--storage.path={self._folder / 'alertmanager'}",
                "--cluster.listen-address=",
                f"{listen}{self._port + 1}",
            ],
        ]
        with (self._folder / "log").open("wb") as log:
            started = [
                subprocess.Popen(argv, stdout=log, stderr=log, cwd=self._folder)
                for argv in commands
            ]
            try:
                yield
            finally:
                for process in started:
                    process.kill()
                    process.wait()

    def firing(self) -> dict[str, dict[str, str]]:
        """Return the labels of the alerts that fire now, by name; one of each name."""
        try:
            answer = httpx.get(f"{self._url}/alerts", trust_env=False, timeout=10)
            answer.raise_for_status()  # it answers 503 until it has read its data
        except httpx.HTTPError:
            return {}
        alerts = answer.json()["data"]["alerts"]
        return {
            one["labels"]["alertname"]: one["labels"] for one in alerts if one["state"] == "firing"
        }

    def fires(self, name: str) -> dict[str, str]:
        """Wait until the alert fires; return its labels."""
        return eventually(f"{name} fires", lambda: self.firing().get(name), WITHIN_S, 0.5)


@pytest.mark.long(third=1)
def test_real_faults_fire_every_alert_and_administrators_are_told(
    postgres_server: PostgresServer, slurm_cluster: DevCluster, tmp_path: Path
) -> None:
    environments_or_skip()
    database = postgres_server.create_database()
    authority = Authority(tmp_path)  # whose certificates expire in two days
    certificate, key = authority.issue("site", "127.0.0.1", "localhost", "*.localhost")
    with ExitStack() as stack:
        full = stack.enter_context(mounted(tmp_path / "full", "size=4m", "mode=1777"))
        crowded = stack.enter_context(mounted(tmp_path / "crowded", "nr_inodes=60", "mode=1777"))
        config = CONFIG.format(
            certificate=certificate, key=key, closed=reserve_ports(), full=full, crowded=crowded
        )
        platform = on_cluster(tmp_path / "platform", slurm_cluster, config)
        platform.env |= {
            "AITNE_DATABASE": postgres_server.url(database),
            "SSL_CERT_FILE": str(authority.path),
        }
        stack.callback(postgres_server.drop_database, database)
        stack.callback(platform.stop)
        platform.start()
        client = stack.enter_context(
            httpx.Client(
                base_url=platform.url,
                headers={"Authorization": f"Bearer {platform.token}"},
                trust_env=False,
                verify=platform_trust(authority),
                timeout=30,
            )
        )
        monitoring = Monitoring(tmp_path, platform, authority.path)
        stack.enter_context(monitoring.running())
        fired = set()

        def fires(name: str, **labels: str) -> None:
            found = monitoring.fires(name)
            assert {label: found.get(label) for label in labels} == labels
            fired.add(name)

        # A backup that was never made, and one that is made.
        fires("AitneBackupOld")
        eventually("administrators are told", lambda: "There is no recent backup" in told(client))
        created = subprocess.run(["date", "-Is"], capture_output=True, text=True, check=True).stdout
        record = {"path": "/backups/one", "created_at": created.strip(), "bytes": 1}
        (platform.data_dir / "backup.json").write_text(json.dumps(record))
        eventually(
            "the alert is closed",
            lambda: "Resolved: There is no recent backup" in told(client),
            WITHIN_S,
        )

        fires("AitneCertificateExpiring", certificate="site.pem")
        (full / "file").write_bytes(b"\0" * 4_100_000)
        fires("AitneDiskFull", area="full")
        for number in range(57):
            (crowded / str(number)).touch()
        fires("AitneInodesExhausted", area="crowded")

        # A GPU with ECC errors, as NVML's stand-in: the job's token reports what its agent would.
        job = submit(platform, authority)
        node = report_ecc_errors(client, job)
        fires("AitneGpuEccErrors", node=node, gpu="0")
        check_expressions(client, platform)

        # The mail server is away, and an administrator has an address.
        postgres_server.run("UPDATE users SET mail = 'root@example.org'", database)
        faults.crash_node(slurm_cluster, node)
        # Otherwise slurmctld would wait for its SlurmdTimeout.
        scontrol(slurm_cluster, f"nodename={node}", "state=down", "reason=crash")
        fires("AitneNodeDown", node=node)
        title = f"The node {node} is down"
        eventually("of the node too", lambda: title in told(client), WITHIN_S)
        fires("AitneMailUndeliverable")
        faults.restart_daemon(slurm_cluster, f"slurmd.{node}")

        slurmctld = faults.pid_of(slurm_cluster, "slurmctld")
        assert slurmctld is not None
        os.kill(slurmctld, signal.SIGSTOP)
        try:
            fires("AitneSchedulerDown")
            submit(platform, authority)
            fires("AitneQueueStuck")
        finally:
            os.kill(slurmctld, signal.SIGCONT)

        pids = platform.pids()
        for process in ("hub", "controller"):
            os.kill(pids[process], signal.SIGSTOP)  # the supervisor kills it after 30 s
        fires("AitneProcessDown")
        fires("AitneControllerStalled")
        fires("AitneProcessRestarted")

        postgres_server.stop()
        try:
            fires("AitneDatabaseSlow")
        finally:
            postgres_server.start()

        # An administrator of the database changes an entry.
        postgres_server.run("ALTER TABLE audit DISABLE TRIGGER audit_no_change", database)
        postgres_server.run("UPDATE audit SET actor = 'mallory' WHERE id = 1", database)
        os.kill(platform.pids()["api"], signal.SIGSTOP)
        fires("AitneApiDown")
        fires("AitneAuditChainBroken")
        assert fired == {rule["alert"] for rule in alert_rules()} - {STATE_LOST_ALERT}

        def all_told() -> bool:
            return {"The audit log was changed", "The scheduler does not answer"} <= told(client)

        eventually("administrators are told of the last one", all_told, WITHIN_S)


def platform_trust(authority: Authority) -> ssl.SSLContext:
    """Return what clients verify the platform's certificate with."""
    return ssl.create_default_context(cafile=authority.path)


def told(client: httpx.Client) -> set[str]:
    """Return the titles of the administrator's notifications."""
    try:
        answer = client.get("/api/v1/notifications", params={"limit": 100})
        answer.raise_for_status()
    except httpx.HTTPError:
        return set()
    return {item["title"] for item in answer.json()["items"]}


def submit(platform: RunningPlatform, authority: Authority) -> str:
    """Submit a job of alice's that runs until it is cancelled; return its ID."""
    headers = {"Authorization": f"Bearer {platform.token_of('alice')}"}
    body = {"commands": ["sleep 3600"], "resources": {"cpu": 1, "memory": "32M"}}
    answer = httpx.post(
        f"{platform.url}/api/v1/jobs",
        json=body,
        headers=headers,
        trust_env=False,
        verify=platform_trust(authority),
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def report_ecc_errors(client: httpx.Client, job: str) -> str:
    """Report ECC errors of the job's node with its token, and return the node."""

    def nodes() -> list[str]:
        found: list[str] = client.get(f"/api/v1/jobs/{job}").raise_for_status().json()["nodes"]
        return found

    (node,) = eventually("the job has a node", nodes, WITHIN_S)
    (token,) = eventually(
        "the job's folder is there", lambda: [*Path("/home/alice").rglob(f"{job}*/**/token")]
    )
    gpu = {"index": 0, "utilization": 0.5, "memory_bytes": 1 << 30, "ecc_errors": 4}
    sample = {"time": "2026-03-01T12:00:00Z", "node": node, "cpu": 1, "memory_bytes": 1}
    report = {"protocol": 1, "attempt": 1, "phase": "running", "node": node}
    answer = client.post(
        f"/agent/v1/jobs/{job}/report",
        json={**report, "samples": [{**sample, "gpu": [gpu]}]},
        headers={"Authorization": f"Bearer {token.read_text().strip()}"},
    )
    assert answer.status_code == 200, answer.text
    return node


def check_expressions(client: httpx.Client, platform: RunningPlatform) -> None:
    """Check that the platform serves every metric that a rule uses."""
    token = (platform.data_dir / "secrets" / "metrics_token").read_text().strip()
    served: set[str] = set()
    for path in ("/metrics", "/metrics/jobs"):
        answer = client.get(path, headers={"Authorization": f"Bearer {token}"})
        served |= set(re.findall(r"^# TYPE (\w+)", answer.text, re.MULTILINE))
    missing = used_metrics() - served - SERVED_LATER
    assert not missing, missing


def scontrol(cluster: DevCluster, *update: str) -> None:
    """Change something in Slurm, as root."""
    argv = [*cluster.command_prefix, "scontrol", "update", *update]
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(argv, env=cluster.environment | path, check=True, timeout=60)
