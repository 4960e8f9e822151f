"""A platform on a remote scheduler of another distribution, which the platform's code never names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aitne.bootstrap.adapters import make_accounting, make_attacher
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import SetupError
from aitne.core.ports.scheduler import SCHEDULERS, get_scheduler_capabilities
from aitne.core.settings import Settings
from aitne.services.sessions.session_address_check import NodeAddresses
from aitne.supervisor import start_checks
from aitne.supervisor.plan_creation import make_plan
from tests.support import memory_scheduler
from tests.support.jobs import make_session
from tests.support.stage import Stage, open_stage
from tests.unit.api.test_agents import STARTING, report, send, stored

JOB = {"name": "train", "commands": ["true"]}


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[None]:
    """The distribution with the scheduler."""
    with memory_scheduler.installed(tmp_path / "site-packages"):
        yield


@pytest.fixture
async def remote(tmp_path: Path, blank: Path, plugin: None) -> AsyncIterator[Stage]:
    """A platform on it."""
    async with open_stage(tmp_path, blank, scheduler="memory", trusted_users=False) as stage:
        yield stage


def test_nodes_reach_the_platform_over_the_network(tmp_path: Path, plugin: None) -> None:
    settings = Settings(
        data_dir=tmp_path,
        scheduler="memory",
        public_url="https://aitne.example.org",
        slurm=SlurmSettings(software_dir=tmp_path / "software"),
    )
    assert settings.agents_url == "https://aitne.example.org"
    assert settings.hub_connect_url == settings.sessions_origin
    assert settings.session_listen_address == settings.slurm.agent_host != "127.0.0.1"
    assert not make_plan(settings).drain, "its jobs outlive the platform"
    assert make_plan(Settings(data_dir=tmp_path)).drain
    assert start_checks.list_notes(settings.model_copy(update={"public_url": None})), (
        "nodes reach loopback?"
    )


def test_scheduler_without_accounting_and_attacher_has_none(tmp_path: Path, plugin: None) -> None:
    settings = Settings(data_dir=tmp_path, scheduler="memory")
    assert make_accounting(settings) is None
    assert make_attacher(settings) is None


async def test_agents_of_a_remote_scheduler_are_not_trusted(remote: Stage) -> None:
    job = await stored(remote, make_session(), *STARTING)
    await send(remote, job, report(node="node99", address="node99:40123"))
    claimed = await remote.store.get_job(job.id)
    assert claimed.nodes == ()
    allocated = claimed.model_copy(update={"nodes": ("node01",)})
    problem = await NodeAddresses(remote.store, remote.settings).find_problem(allocated)
    assert "node99:40123" in str(problem)


async def test_agents_of_the_local_scheduler_are_trusted(stage: Stage) -> None:
    job = await stored(stage, make_session(), *STARTING)
    await send(stage, job, report(node="node99"))
    assert (await stage.store.get_job(job.id)).nodes == ("node99",)


async def test_each_user_of_a_remote_scheduler_has_an_account(remote: Stage) -> None:
    ada, _ = await remote.add_user("ada"), await remote.add_user("bob")
    async with remote.client(await remote.token(ada)) as client:
        platform = (await client.get("/api/v1/me")).json()["platform"]
    assert (platform["shared_account"], platform["can_drain"]) == (None, True)


async def test_slurm_section_needs_a_scheduler_that_applies_it(remote: Stage) -> None:
    await remote.add_node()
    ada = await remote.add_user("ada")
    async with remote.client(await remote.token(ada)) as client:
        refused = await client.post("/api/v1/jobs", json=JOB | {"slurm": {"qos": "high"}})
        plan = await client.post("/api/v1/jobs:plan", json=JOB)
    assert refused.status_code == 422
    assert "memory, not Slurm" in refused.text
    assert "the memory scheduler" in plan.text


def test_scheduler_without_capabilities_is_refused(
    tmp_path: Path, plugin: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(memory_scheduler.MemoryScheduler, "capabilities")
    assert "memory" in SCHEDULERS.names()
    with pytest.raises(SetupError, match="'memory' has no class attribute `capabilities`"):
        get_scheduler_capabilities("memory")
