"""Sessions on other machines than the portal's, from the browser's side of the network."""

from __future__ import annotations

import pytest

from aitne.client import Client
from tests.machines.machine import Machine
from tests.machines.platform import MachinesPlatform
from tests.support import realtime
from tests.support.notebook import Notebook

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(900),
    realtime.MACHINES,
]

READY_WITHIN_S = 120
WHERE_AND_WHO = "import getpass, socket; print(socket.gethostname(), getpass.getuser())"
JOB = {"resources": {"cpu": 1, "memory": "1G"}, "max_duration": "30m"}


def listeners(node: Machine, user: str) -> list[int]:
    """Return the TCP ports at which a user's processes listen on other addresses than loopback."""
    listed = node.run(["ss", "--tcp", "--listening", "--numeric", "--no-header", "--extended"])
    uid = node.run(["id", "-u", user]).stdout.strip()
    rows = [line.split() for line in listed.stdout.splitlines() if f"uid:{uid}" in line.split()]
    addresses = [row[3].rpartition(":") for row in rows]
    return [int(port) for address, _, port in addresses if address not in ("127.0.0.1", "[::1]")]


def test_a_session_runs_on_a_node_and_only_the_proxy_gets_to_it(platform: MachinesPlatform) -> None:
    cluster = platform.cluster
    token = platform.token("alice")
    alice = Client(platform.url, token)

    session = alice.sessions.start("jupyterlab", job_file=JOB)

    ready = alice.sessions.wait_ready(session.id, timeout_s=READY_WITHIN_S)
    (name,) = ready.raw["nodes"]
    node = cluster.nodes[name]
    with Notebook(platform.url, token, alice.sessions.open(session.id)) as notebook:
        notebook.start_kernel()
        assert notebook.execute(WHERE_AND_WHO) == f"{name} alice\n"
    path = alice.sessions.open(session.id).partition("/user/")[2].removesuffix("/lab")
    answers = []
    for port in listeners(node, "alice"):
        url = f"http://{node.address}:{port}/user/{path}/api/kernels"
        asked = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", url]
        answers.append(cluster.portal.run(asked, user="bob", check=False).stdout)
    assert "403" in answers  # the server itself
    assert set(answers) <= {"403", "000"}  # and nothing beside it speaks to strangers
    alice.sessions.stop(session.id)
    cluster.wait(lambda: alice.jobs.get(session.id).ended, 60, "the session has ended")


def test_a_session_whose_node_dies_says_so_and_starts_again_elsewhere(
    platform: MachinesPlatform,
) -> None:
    cluster = platform.cluster
    token = platform.token("alice")
    alice = Client(platform.url, token)
    session = alice.sessions.start("jupyterlab", job_file=JOB)
    ready = alice.sessions.wait_ready(session.id, timeout_s=READY_WITHIN_S)
    (name,) = ready.raw["nodes"]
    node = cluster.nodes[name]

    node.power_cut()
    try:
        cluster.wait(lambda: alice.jobs.get(session.id).ended, 150, "the session has ended")
        assert alice.jobs.get(session.id).state == "NODE_FAILED"

        again = alice.sessions.relaunch(session.id)
        ready = alice.sessions.wait_ready(again.id, timeout_s=READY_WITHIN_S)
        (other,) = ready.raw["nodes"]
        assert other != name
        with Notebook(platform.url, token, alice.sessions.open(again.id)) as notebook:
            notebook.start_kernel()
            assert notebook.execute(WHERE_AND_WHO) == f"{other} alice\n"
        alice.sessions.stop(again.id)
    finally:
        node.boot()
        node.wait_ready()
    cluster.wait_idle(within_s=120)
