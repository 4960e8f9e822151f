"""Tests of what a site decides in Slurm: defaults, partitions, nodes and plug-ins, with every supported
release of Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.cluster.partition_defaults import QueueDefaults
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import NodeState
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import Resources
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.units import parse_duration
from aitne.local_system.settings_loader import load_settings
from tests.support import realtime
from tests.support.schedulers import Bench, slurm_tools
from tests.support.slurm import both_releases, job_submit_plugin, run_as, sbatch
from tests.support.slurm_bench import cluster_of, slurm_says

pytestmark = realtime.SLURM

HOUR_S = 3_600
PARTITION_DOWN = "The partition is down and starts no jobs."


RULE = "Projects of group X must use --qos=short. See https://wiki.site"
PLUGIN = f"""
local codes = {{[2] = slurm.ERROR, [3] = 2001, [4] = 1}}
if codes[job.min_nodes] then
    slurm.log_user("{RULE}")
    return codes[job.min_nodes]
end
return slurm.SUCCESS
"""


async def test_a_plugin_of_the_site_refuses_in_its_own_words(slurm: Bench) -> None:
    with job_submit_plugin(cluster_of(slurm), PLUGIN):
        for nodes in (2, 3, 4):
            request = slurm.request("true", resources={"nodes": nodes})
            for ask in (slurm.scheduler.forecast, slurm.scheduler.submit):
                with pytest.raises(SchedulerRejected, match=re.escape(RULE)):
                    await ask(request)
            assert not await slurm.find(request.job_id)
        number, _ = await slurm.submit("true")
    assert (await slurm.wait_ended(number)).state is JobState.COMPLETED


_AMOUNT = re.compile(r"\b(TimeLimit|Requeue|MinMemory(?:CPU|Node))=(\S+)")


async def test_slurm_decides_what_is_left_out_as_with_sbatch(slurm: Bench) -> None:
    cluster = cluster_of(slurm)
    defaults = QueueDefaults.from_options(SlurmOptions(), await slurm.scheduler.read_cluster())
    left: dict[str, Any] = {"default_time_limit": True, "max_requeues": None, "hold": True}
    for requested, words in (
        ({"memory_request": "default", "cpu": 2}, ["-c2"]),
        ({"memory_request": "all"}, ["--mem=0"]),
    ):
        number, _ = await slurm.submit("true", resources=requested, **left)
        script = "#!/bin/sh\ntrue\n"
        plain = sbatch(cluster, "alice", script, "--hold", "-o/dev/null", *words)
        here, there = (
            dict(_AMOUNT.findall(slurm_says(slurm, "scontrol", "--oneliner", "show", "job", job)))
            for job in (number, plain)
        )
        slurm_says(slurm, "scancel", number, plain)
        assert here == there
        # What the platform shows in advance.
        assert here["Requeue"] == "1"
        assert parse_duration(here["TimeLimit"]) == defaults.time_limit_s == HOUR_S
    assert defaults.memory_bytes(Resources(cpu=2)) == 200 << 20


async def test_partition_gives_jobs_with_gpus_its_cpus(slurm: Bench) -> None:
    cluster = cluster_of(slurm)
    run_as(cluster, "root", "scontrol", "update", "partition=gpu", "JobDefaults=DefCpuPerGPU=2")
    try:
        defaults = QueueDefaults.from_options(SlurmOptions(), await slurm.scheduler.read_cluster())
        jobs = []
        for more in ({}, {"tasks_per_node": 3, "cpu": 3}, {"cpu": 1, "cpus_per_task": 1}):
            resources = Resources.model_validate({"gpu": {"count": 2}, **more})
            number, _ = await slurm.submit("true", resources=resources.model_dump())
            jobs.append((number, defaults.cpus_per_node(resources)))
        for number, cpus in jobs:
            await slurm.wait_ended(number)
            said = slurm_says(slurm, "scontrol", "--oneliner", "show", "job", number)
            assert f" NumCPUs={cpus} " in said
        assert [cpus for _, cpus in jobs] == [4, 4, 1]
    finally:
        run_as(cluster, "root", "scontrol", "update", "partition=gpu", "JobDefaults=")


async def test_partition_that_is_down_takes_jobs(slurm: Bench) -> None:
    cluster = cluster_of(slurm)
    request = {"slurm": SlurmOptions(partition="debug"), "time_limit_s": 60}
    run_as(cluster, "root", "scontrol", "update", "partition=debug", "state=down")
    try:
        (debug,) = (
            p for p in (await slurm.scheduler.read_cluster()).partitions if p.name == "debug"
        )
        assert (debug.up, debug.accepts_jobs) == (False, True)
        number, _ = await slurm.submit("true", **request)
        await slurm.until(
            number, lambda rows: [row.pending_reason for row in rows] == [PARTITION_DOWN]
        )
    finally:
        run_as(cluster, "root", "scontrol", "update", "partition=debug", "state=up")
    assert (await slurm.wait_ended(number)).state is JobState.COMPLETED


async def test_no_extension_beyond_the_partition(slurm: Bench) -> None:
    number, request = await slurm.submit(
        "echo up; sleep 60", slurm=SlurmOptions(partition="debug"), time_limit_s=120
    )
    await slurm.log_says(request, "up")
    with pytest.raises(SchedulerRejected, match="partition debug allows 30m") as caught:
        await slurm.extend(number, HOUR_S)
    assert caught.value.field == "max_duration"
    await slurm.extend(number, 1_800)
    assert (await slurm.running(number)).time_limit_s == 1_800


async def test_a_forecast_says_when_and_where(slurm: Bench) -> None:
    request = slurm.request("true", resources={"nodes": 2})
    forecast = await slurm.scheduler.forecast(request)
    assert forecast is not None
    assert forecast.starts_at is not None
    assert (len(forecast.nodes), forecast.partition) == (2, "gpu")
    assert not await slurm.find(request.job_id)
    one_named = slurm.request("true", resources={"nodes": 2}, nodes=("n1",))
    assert await slurm.scheduler.forecast(one_named) is None


async def test_drain_and_resume(slurm: Bench) -> None:
    name = slurm.stand.nodes[-1]
    reason = "it's hot |\nState=IDLE"
    await slurm.scheduler.drain(name, reason)
    node = (await slurm.nodes_until(lambda nodes: nodes[-1].state is NodeState.DRAINED))[-1]
    assert node.name == name
    assert (node.reason or "").startswith("it's hot | State=IDLE [root@")
    await slurm.scheduler.resume(name)
    # It has to answer slurmctld again first.
    await slurm.nodes_until(lambda nodes: nodes[-1].state is NodeState.IDLE)
    for unknown in ("nope", "ALL", "n[1-2]", "n1 State=DOWN", ""):
        with pytest.raises(SchedulerRejected, match="has no node"):
            await slurm.scheduler.drain(unknown, "no")
    assert {node.state for node in await slurm.nodes()} == {NodeState.IDLE}


async def test_the_cluster_as_slurm_has_it(slurm: Bench) -> None:
    cluster = await slurm.scheduler.read_cluster()
    partitions = {partition.name: partition for partition in cluster.partitions}
    assert partitions["gpu"].default
    assert partitions["gpu"].nodes == slurm.stand.nodes
    assert partitions["debug"].max_time_s == 1_800
    assert "normal" in cluster.qos
    assert cluster.max_array_size == 10_001
    assert "h200" in cluster.nodes[0].features
    assert cluster.nodes[0].partitions == ("gpu", "debug")


@both_releases
async def test_operator_without_access_to_other_jobs_gets_note(
    slurm_cluster: DevCluster, tmp_path: Path
) -> None:
    def scheduler(operator: str) -> SlurmCliScheduler:
        conf = SlurmSettings(conf=slurm_cluster.slurm_conf, operator=operator)
        settings = load_settings(tmp_path, slurm=conf)
        return SlurmCliScheduler(settings, slurm_tools(slurm_cluster, settings))

    assert not await scheduler(slurm_cluster.operator).start()
    notes = await scheduler("alice").start()
    assert any("PrivateData=jobs" in note and "adminlevel=operator" in note for note in notes)


@pytest.fixture
def deserted_conf(slurm_cluster: DevCluster) -> Iterator[Path]:
    """The cluster's slurm.conf with a port without a listener; commands try for MessageTimeout."""
    text = slurm_cluster.slurm_conf.read_text()
    text, count = re.subn(r"(?m)^(SlurmctldPort|MessageTimeout)=.*$", r"\1=1", text)
    assert count == 2
    path = slurm_cluster.slurm_conf.with_name("deserted.conf")
    path.write_text(text)
    path.chmod(0o644)
    yield path
    path.unlink()


@both_releases
async def test_a_slurm_that_is_not_there_is_a_note(
    slurm_cluster: DevCluster, deserted_conf: Path, tmp_path: Path
) -> None:
    settings = load_settings(tmp_path, slurm=SlurmSettings(conf=deserted_conf))
    notes = await SlurmCliScheduler(settings, slurm_tools(slurm_cluster, settings)).start()
    assert len(notes) == 1
    assert "does not answer" in notes[0]
    assert "Unable to contact slurm controller" in notes[0]
