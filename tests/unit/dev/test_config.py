"""The configuration that a development cluster is started with, read back as Slurm reads it."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aitne.dev import config
from aitne.dev.accounting import associations
from aitne.dev.plan import DevClusterPlan
from aitne.topology.hostlist import expand_hostlist

PLANS = st.builds(
    DevClusterPlan,
    name=st.just("dev"),
    release=st.sampled_from(["system", "trixie", "sid"]),
    nodes=st.integers(1, 256),
    gpus=st.integers(0, 16),
    cloud_nodes=st.sampled_from([0, 1, 1024]),
    port_base=st.integers(1_024, 30_000),
)


def records(text: str, key: str) -> list[dict[str, str]]:
    """The lines that begin with a key, as their words."""
    return [
        dict(word.split("=", 1) for word in line.split())
        for line in text.splitlines()
        if line.startswith(f"{key}=")
    ]


@given(PLANS)
def test_each_node_has_its_own_port_and_the_gpus_asked_for(plan: DevClusterPlan) -> None:
    nodes = [
        node
        for node in records(config.slurm_conf(plan, "here"), "NodeName")
        if node["NodeName"] != "DEFAULT" and node["State"] != "CLOUD"
    ]
    assert [node["NodeName"] for node in nodes] == list(plan.node_names)
    ports = [int(node["Port"]) for node in nodes]
    shared = plan.ports
    everything = {*ports, shared.slurmctld, shared.slurmdbd, shared.slurmrestd}
    assert len(everything) == plan.nodes + 3
    assert everything <= set(plan.port_range)
    for node in nodes:
        assert (f"gpu:h200:{plan.gpus}" in node.get("Gres", "").split(",")) == (plan.gpus > 0)


@given(PLANS)
def test_each_node_hangs_on_one_leaf_and_all_leaves_on_the_spine(plan: DevClusterPlan) -> None:
    switches = records(config.topology_conf(plan), "SwitchName")
    leaves = [switch for switch in switches if "Nodes" in switch]
    hanging = [node for leaf in leaves for node in expand_hostlist(leaf["Nodes"])]
    clouds = [f"c{number}" for number in range(1, plan.cloud_nodes + 1)]
    assert sorted(hanging) == sorted([*plan.node_names, *clouds])
    (spine,) = (switch for switch in switches if "Switches" in switch)
    assert expand_hostlist(spine["Switches"]) == [leaf["SwitchName"] for leaf in leaves]
    if plan.nodes > 1:
        sizes = [len(expand_hostlist(leaf["Nodes"])) for leaf in leaves[:2]]
        assert abs(sizes[0] - sizes[1]) <= 1


@given(PLANS)
def test_the_gpus_of_gres_conf_are_those_of_the_nodes(plan: DevClusterPlan) -> None:
    gres = records(config.gres_conf(plan), "NodeName")
    gpus = [line for line in gres if line["Name"] == "gpu"]
    covered = [node for line in gpus for node in expand_hostlist(line["NodeName"])]
    assert set(plan.node_names) <= set(covered) or plan.gpus == 0
    for line in gpus:
        assert len(expand_hostlist(Path(line["File"]).name)) == plan.gpus
    offered = {
        node["NodeName"]: int(match[1])
        for node in records(config.slurm_conf(plan, "here"), "NodeName")
        if (match := re.search(r"shard:(\d+)", node.get("Gres", "")))
    }
    shards = {line["NodeName"]: int(line["Count"]) for line in gres if line["Name"] == "shard"}
    assert shards == offered


def test_slurm_conf_keeps_jobs_private_and_shows_cloud_nodes_if_present() -> None:
    def private(cloud_nodes: int) -> str:
        plan = DevClusterPlan(
            name="dev",
            release="system",
            nodes=4,
            gpus=4,
            cloud_nodes=cloud_nodes,
            port_base=26_500,
        )
        (line,) = records(config.slurm_conf(plan, "here"), "PrivateData")
        return line["PrivateData"]

    assert private(0) == "jobs,usage"
    assert private(8) == "jobs,usage,cloud"


def test_members_stand_below_their_accounts() -> None:
    members: dict[str, list[str]] = {}
    parent = ""
    for line in associations("dev").splitlines():
        kind, name = re.match(r"(\w+) - '([^']+)'", line).groups()  # type: ignore[union-attr]
        if kind == "Parent":
            parent = name
        elif kind == "User":
            members.setdefault(parent, []).append(name)
    assert members == {"root": ["aitne-op"], "ml": ["alice", "bob"], "vision": ["alice"]}
