"""Platforms with several nodes: this machine standing for all, and a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aitne.client import Client
from tests.support.platform import RunningPlatform, on_interleaved_nodes, run_platform
from tests.support.waiting import eventually

SAY = """\
import os
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "HOROVOD_RANK", "HOROVOD_CROSS_RANK",
         "AITNE_NODE_RANK", "SLURMD_NODENAME", "AITNE_RUN_RESTARTS", "AITNE_TRANSPORT")
line = " ".join(f"{name}={os.environ[name]}" for name in names)
os.write(1, f"{line}\\n".encode())
"""
"""One write, so that lines of several ranks stay whole."""


def two_by_two(*commands: str, **fields: Any) -> dict[str, Any]:
    """Return a job file with two ranks on each of two nodes."""
    return {
        "commands": list(commands),
        "resources": {"nodes": 2, "cpu": 1, "memory": "700M"},
        "max_duration": "10m",
        "distributed": {"ranks_per_node": 2, "backend": "gloo"},
        **fields,
    }


def log_of(client: Client, job_id: str) -> str:
    """Return the log of a job: the output of all ranks so far."""
    return b"".join(client.jobs.logs(job_id)).decode()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform whose four nodes are this machine, on two leaves that their names interleave."""
    root = tmp_path_factory.mktemp("platform")
    running = on_interleaved_nodes(root, "cpus = 8")
    # Programs in jobs find the platform as without XDG_STATE_HOME.
    (running.home / ".local").mkdir()
    (running.home / ".local" / "state").symlink_to(root / "state")
    with run_platform(running):
        yield running


@pytest.fixture(scope="module")
def owner(here: RunningPlatform) -> Client:
    """A client of the user who started the platform, which has read the topology.

    Jobs on two nodes therefore get the nodes of one leaf switch.
    """
    client = Client(here.url, here.token)
    eventually("the topology is read", lambda: client.nodes.topology()["switches"] != [])
    return client


@pytest.fixture(scope="module")
def alice(slurm_platform: RunningPlatform) -> Client:
    """A user of the cluster."""
    return Client(slurm_platform.url, slurm_platform.token_of("alice"))
