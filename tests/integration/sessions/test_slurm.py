"""Tests of sessions on a Slurm cluster: they run as their user and only the Hub's proxy reaches them."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support import realtime
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform
from tests.support.slurm import run_as
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(400),
    realtime.PLATFORM,
]

SMALL = {"resources": {"cpu": 1, "memory": "512M"}, "max_duration": "30m"}
WHO = "import getpass, os; print(getpass.getuser(), os.environ['SLURMD_NODENAME'])"


until = partial(eventually, within_s=60, poll_s=0.2)


@pytest.fixture(scope="module")
def alice(slurm_platform: RunningPlatform) -> Client:
    return Client(slurm_platform.url, slurm_platform.token_of("alice"))


@pytest.fixture(scope="module")
def session(slurm_platform: RunningPlatform, alice: Client) -> Iterator[dict[str, Any]]:
    """A ready session for all tests that do not change it."""
    job = alice.sessions.start("jupyterlab", job_file=SMALL)
    ready = alice.sessions.wait_ready(job.id, timeout_s=120)
    yield {"id": job.id, "nodes": ready.raw["nodes"], "url": alice.sessions.open(job.id)}
    alice.sessions.stop(job.id)


def server(session: dict[str, Any]) -> tuple[int, int]:
    """The process of the single-user server, and its port."""
    folder = f"/{session['id']}/"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            argv = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        mine = any(
            each.startswith(b"AITNE_JOB_DIR=") and folder.encode() in each for each in environ
        )
        if mine and b"launcher.py" in argv:
            said = subprocess.run(
                ["ss", "-tlnpH"], capture_output=True, text=True, check=True
            ).stdout
            for line in said.splitlines():
                if f"pid={entry.name}," in line:
                    return int(entry.name), int(line.split()[3].rpartition(":")[2])
    raise AssertionError("the server was not found")


def ask_as(cluster: DevCluster, user: str, *argv: str) -> str:
    return run_as(cluster, user, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *argv)


def test_session_runs_as_its_user_on_cluster_node(
    slurm_platform: RunningPlatform, alice: Client, session: dict[str, Any]
) -> None:
    with Notebook(slurm_platform.url, slurm_platform.token_of("alice"), session["url"]) as notebook:
        notebook.start_kernel()
        assert notebook.execute(WHO).split() == ["alice", session["nodes"][0]]


def test_single_user_server_refuses_other_users_of_its_node(
    slurm_cluster: DevCluster, slurm_platform: RunningPlatform, session: dict[str, Any]
) -> None:
    _, port = server(session)
    prefix = urlsplit(session["url"]).path.removesuffix("/lab")
    base = f"http://127.0.0.1:{port}{prefix}"
    # A page sends a stranger to log in at the Hub; the programs' interface says no.
    assert ask_as(slurm_cluster, "bob", f"{base}/lab") == "302"
    for path in ("api/kernels", "api/contents", "api/terminals"):
        assert ask_as(slurm_cluster, "bob", f"{base}/{path}") == "403"
        assert ask_as(slurm_cluster, "bob", "-X", "POST", f"{base}/{path}") == "403"
    token = slurm_platform.token_of("bob")
    for header in (f"Authorization: Bearer {token}", f"Authorization: token {token}"):
        assert ask_as(slurm_cluster, "bob", "-H", header, f"{base}/api/kernels") == "403"


def test_no_secret_lies_where_others_read(
    slurm_cluster: DevCluster, session: dict[str, Any]
) -> None:
    pid, _ = server(session)
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    assert not re.search(r"token|[0-9a-f]{32}", argv.replace(session["id"], ""))
    for name in ("environ", "fd/0"):
        with pytest.raises(subprocess.CalledProcessError):
            run_as(slurm_cluster, "bob", "cat", f"/proc/{pid}/{name}")
    # Not even in what the process began with: the token came by its standard input.
    assert b"JUPYTERHUB_API_TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()
    with pytest.raises(subprocess.CalledProcessError):
        run_as(slurm_cluster, "bob", "ls", "/home/alice/.aitne/jobs")


def test_an_agent_cannot_lead_the_hub_elsewhere(
    slurm_platform: RunningPlatform, alice: Client
) -> None:
    # What alice could do: have her agent do something else, and report what she likes with its token.
    before = alice.jobs.create({"commands": ["sleep 4"], **SMALL})
    job = alice.sessions.start("jupyterlab", job_file={**SMALL, "after": [before.id]})
    folder = Path(f"/home/alice/.aitne/jobs/{job.id}/1")
    until("its being queued", lambda: alice.jobs.get(job.id).state == "QUEUED")
    spec = json.loads((folder / "agent.json").read_text())
    spec |= {"apps": [], "commands": [["sleep", "300"]]}
    (folder / "agent.json").write_text(json.dumps(spec))
    until("its running", lambda: alice.jobs.get(job.id).state == "RUNNING")
    report = {
        "protocol": 1,
        "attempt": 1,
        "phase": "started",
        "node": "n1",
        "address": f"127.0.0.1:{slurm_platform.port + 2}",
    }
    url = f"{slurm_platform.url}/agent/v1/jobs/{job.id}/report"
    headers = {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}
    said = httpx.post(url, json=report, headers=headers, trust_env=False)
    assert said.status_code == 200
    ended = until(
        "its end", lambda: (found := alice.jobs.get(job.id)).ended and found, within_s=120
    )
    assert ended.state == "FAILED"
    assert "sessions do not use this port" in (ended.message or "")


def test_more_time_moves_slurms_limit_and_stops_at_the_partitions(
    slurm_cluster: DevCluster, alice: Client, session: dict[str, Any]
) -> None:
    before = alice.jobs.get(session["id"]).expires_at
    assert before is not None
    alice.sessions.extend(session["id"], "1h")
    moved = until(
        "the new end",
        lambda: (at := alice.jobs.get(session["id"]).expires_at) and at > before and at,
    )
    assert 3_500 < (moved - before).total_seconds() < 3_700
    number = alice.jobs.get(session["id"]).raw["scheduler_id"]
    limit = run_as(slurm_cluster, "alice", "squeue", "-h", "-j", number, "-o", "%l").strip()
    assert limit == "1:30:00"
    debug = {**SMALL, "max_duration": "20m", "slurm": {"partition": "debug"}}
    short = alice.sessions.start("jupyterlab", job_file=debug)
    alice.sessions.wait_ready(short.id, timeout_s=120)
    with pytest.raises(Exception, match="MaxTime of the partition debug"):
        alice.sessions.extend(short.id, "1h")
    alice.sessions.stop(short.id)


def test_owner_extends_a_batch_job_as_slurms_operator_does(
    slurm_cluster: DevCluster, alice: Client
) -> None:
    """Slurm lets a job's own account reduce the limit only, so the broker raises it."""
    job = alice.jobs.create(
        {
            "commands": ["sleep 600"],
            "max_duration": "20m",
            "resources": {"cpu": 1, "memory": "256M"},
        }
    )
    try:
        running = until(
            "its start", lambda: (found := alice.jobs.get(job.id)).expires_at and found, within_s=60
        )
        alice.jobs.extend(job.id, "40m")
        until("the new end", lambda: alice.jobs.get(job.id).expires_at != running.expires_at)
        number = running.raw["scheduler_id"]
        limit = run_as(slurm_cluster, "alice", "squeue", "-h", "-j", number, "-o", "%l").strip()
        assert limit == "1:00:00"
    finally:
        alice.jobs.cancel(job.id)


def test_waiting_session_shows_queue_place_and_reason(alice: Client) -> None:
    body = {**SMALL, "resources": {"cpu": 8, "memory": "512M"}}
    jobs = [alice.sessions.start("jupyterlab", job_file=body) for _ in range(6)]
    try:

        def waiting() -> list[Any]:
            rows = [alice.jobs.get(job.id).raw for job in jobs]
            queued = [row for row in rows if row["state"] == "QUEUED" and row["priority"]]
            others = [row for row in rows if row not in queued]
            return queued if len(queued) >= 2 and all(row["nodes"] for row in others) else []

        rows = until("some that wait, and none but they", waiting)

        def all_placed() -> list[Any]:
            found = [place for row in rows if (place := alice.jobs.queue_position(row["id"]))]
            numbers = sorted(place.position for place in found)
            return found if numbers == [*range(1, len(rows) + 1)] else []

        places = until("their places, from the first", all_placed)
        assert {place.partition for place in places} == {"gpu"}
        assert all(row["message"] for row in rows)
    finally:
        for job in jobs:
            alice.sessions.stop(job.id)


def test_nodes_are_drained_and_resumed_by_an_administrator(
    slurm_platform: RunningPlatform,
) -> None:
    def state() -> dict[str, Any]:
        listed = json.loads(slurm_platform.aitne("node", "ls", "--json").stdout)
        return next(node for node in listed if node["name"] == "n4")

    done = slurm_platform.aitne("admin", "node", "drain", "n4", "--reason", "fans", "--yes")
    assert done.returncode == 0, done.stderr
    drained = until("drained", lambda: (n := state())["state"] in ("drained", "draining") and n)
    assert "fans" in drained["reason"]
    done = slurm_platform.aitne("admin", "node", "resume", "n4", "--yes")
    assert done.returncode == 0, done.stderr
    until("back", lambda: state()["state"] in ("idle", "mixed"))


THIEF = """
import contextlib, socket, sys, time
end = time.monotonic() + 60
while time.monotonic() < end:
    thief = socket.socket()
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        thief.bind(("127.0.0.1", int(sys.argv[1])))
        thief.listen()
    except OSError:
        thief.close()
        time.sleep(0.01)
        continue
    while True:
        with contextlib.suppress(OSError):
            caller, _ = thief.accept()
            caller.recv(9999)
            caller.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\ngive me your cookies")
            caller.close()
"""


def test_a_port_that_another_user_took_is_never_shown(
    slurm_cluster: DevCluster, slurm_platform: RunningPlatform, alice: Client
) -> None:
    # As if bob had been quicker than alice's server: her agent waits with the port it holds.
    before = alice.jobs.create({"commands": ["sleep 4"], **SMALL})
    job = alice.sessions.start(
        "jupyterlab", job_file={**SMALL, "name": "taken", "after": [before.id]}
    )
    folder = Path(f"/home/alice/.aitne/jobs/{job.id}/1")
    until("its being queued", lambda: alice.jobs.get(job.id).state == "QUEUED")
    spec = json.loads((folder / "agent.json").read_text())
    spec["apps"][0]["argv"] = ["sleep", "300"]
    (folder / "agent.json").write_text(json.dumps(spec))
    until("its running", lambda: alice.jobs.get(job.id).state == "RUNNING")
    identity = ["setpriv", "--reuid", "bob", "--regid", "bob", "--clear-groups"]
    database = slurm_platform.data_dir / "aitne.db"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as rows:
        query = (
            "SELECT address FROM jobs WHERE name = ? AND address IS NOT NULL AND ended_at IS NULL"
        )
        addresses = until("the address", lambda: rows.execute(query, (job.name,)).fetchall())
    ports = [address.rpartition(":")[2] for (address,) in addresses]
    thieves = [
        subprocess.Popen([*identity, "/usr/bin/python3", "-c", THIEF, port]) for port in ports
    ]
    try:
        ended = until(
            "its end", lambda: (found := alice.jobs.get(job.id)).ended and found, within_s=120
        )
    finally:
        for thief in thieves:
            thief.kill()
            thief.wait()
    assert ended.state == "FAILED"
    history = alice.jobs.events(job.id)
    assert all(event.data.get("state") != "READY" for event in history)
    assert "another user on this node" in b"".join(alice.jobs.logs(job.id)).decode()
