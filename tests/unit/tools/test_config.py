"""The configuration that a development cluster is started with, read back as Slurm reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.errors import InvalidInput, SetupError
from aitne_devcluster import config
from aitne_devcluster.accounting import format_associations
from aitne_devcluster.plan import DevClusterPlan, names_of_nodes
from aitne_devcluster.topology import ARRANGEMENTS, DevTopology, from_file, make_arranged_topology
from aitne_train.topology.hostlist import expand_hostlist
from aitne_train.topology.slurm import parse_conf
from aitne_train.topology.switch_tree import TopologyTree


def planned(
    nodes: int, cloud_nodes: int, arrangement: str | None, **facts: object
) -> DevClusterPlan:
    """Return the plan of a cluster as `up` makes it."""
    topology = make_arranged_topology(
        arrangement, names_of_nodes(nodes), names_of_nodes(cloud_nodes, "c")
    )
    given = {"nodes": nodes, "cloud_nodes": cloud_nodes, "topology": topology, **facts}
    return DevClusterPlan.model_validate(given)


PLANS = st.builds(
    planned,
    name=st.just("dev"),
    release=st.sampled_from(["system", "trixie", "sid"]),
    nodes=st.integers(1, 256),
    gpus=st.integers(0, 16),
    cloud_nodes=st.sampled_from([0, 1, 1024]),
    arrangement=st.sampled_from([None, *ARRANGEMENTS]),
    port_base=st.integers(1_024, 30_000),
)


def records(text: str, key: str) -> list[dict[str, str]]:
    """Return the words of the lines that begin with a key."""
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
def test_topology_conf_connects_each_node_once(plan: DevClusterPlan) -> None:
    tree = TopologyTree(parse_conf(plan.topology.text, plan.topology.file))
    clouds = names_of_nodes(plan.cloud_nodes, "c")
    assert sorted(tree.leaf_of) == sorted([*plan.node_names, *clouds])
    for leaf, nodes in plan.topology.leaves.items():
        assert tree.switches[leaf].nodes == nodes
    sizes = [len(nodes) for nodes in plan.topology.leaves.values() if nodes[0] in plan.node_names]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("arrangement", "lines"),
    [
        (
            None,
            ["SwitchName=leaf1 Nodes=n[1-4]", "SwitchName=leaf2 Nodes=n[5-8]"],
        ),
        (
            "interleaved",
            [
                *("SwitchName=leaf1 Nodes=n[1,5]", "SwitchName=leaf2 Nodes=n[2,6]"),
                *("SwitchName=leaf3 Nodes=n[3,7]", "SwitchName=leaf4 Nodes=n[4,8]"),
                "SwitchName=spine Switches=leaf[1-4]",
            ],
        ),
        (
            "cyclic",
            [
                "SwitchName=leaf4 Nodes=n[4,8]",
                *("SwitchName=pod1 Switches=leaf1,leaf2", "SwitchName=pod2 Switches=leaf3,leaf4"),
                "SwitchName=core Switches=pod[1-2]",
            ],
        ),
        ("block", ["BlockName=block1 Nodes=n[1-2]", "BlockSizes=2,4,8"]),
    ],
)
def test_arrangements_of_eight_nodes(arrangement: str | None, lines: list[str]) -> None:
    topology = make_arranged_topology(arrangement, names_of_nodes(8), ())
    assert set(lines) <= set(topology.text.splitlines())
    plan = planned(8, 0, arrangement, name="dev", release="trixie", gpus=2, port_base=26_500)
    conf = config.slurm_conf(plan, "here")
    assert f"TopologyPlugin=topology/{'block' if arrangement == 'block' else 'tree'}\n" in conf
    features = {node["NodeName"]: node.get("Feature") for node in records(conf, "NodeName")}
    assert features["n1"] == f"h200,{'block1' if arrangement == 'block' else 'leaf1'}"


def test_from_file_takes_a_topology_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("# two of three nodes\nBlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n")
    topology = from_file(path, names_of_nodes(3))
    assert topology.text == path.read_text()
    assert (topology.file, topology.plugin) == ("topology.conf", "block")
    plan = planned(3, 0, None, name="dev", release="sid", gpus=1, port_base=26_500)
    plan = plan.model_copy(update={"topology": topology})
    features = [
        node.get("Feature") for node in records(config.slurm_conf(plan, "here"), "NodeName")
    ]
    assert features == [None, "h200,b1", "h200,b1", "h200"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SwitchName=s Nodes=n[1-4],gpu[01-20]\n", "names nodes that the cluster does not have"),
        ("SwitchName=s Nodes=n1\nSwitchName=s Nodes=n2\n", "line 2: the switch s is defined again"),
        (None, "it cannot be read"),
    ],
)
def test_from_file_refuses_what_slurm_could_not_use(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    path = tmp_path / "topology.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        from_file(path, names_of_nodes(4))


@pytest.mark.parametrize(
    ("topology", "oldest"),
    [
        (make_arranged_topology("block", names_of_nodes(4), ()), (23, 11)),
        (DevTopology(file="topology.yaml"), (25, 5)),
        (make_arranged_topology("cyclic", names_of_nodes(4), ()), (22, 5)),
    ],
)
def test_check_names_releases_that_read_a_topology(
    topology: DevTopology, oldest: tuple[int, int]
) -> None:
    for version in ((22, 5, 8), (24, 11, 5), (26, 5, 1)):
        if version >= oldest:
            topology.check(version)
        else:
            with pytest.raises(SetupError, match=r"--slurm"):
                topology.check(version)


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
        plan = planned(4, cloud_nodes, None, name="dev", release="system", gpus=4, port_base=26_500)
        (line,) = records(config.slurm_conf(plan, "here"), "PrivateData")
        return line["PrivateData"]

    assert private(0) == "jobs,usage"
    assert private(8) == "jobs,usage,cloud"


def test_members_stand_below_their_accounts() -> None:
    members: dict[str, list[str]] = {}
    parent = ""
    for line in format_associations("dev").splitlines():
        kind, name = re.match(r"(\w+) - '([^']+)'", line).groups()  # type: ignore[union-attr]
        if kind == "Parent":
            parent = name
        elif kind == "User":
            members.setdefault(parent, []).append(name)
    assert members == {"root": ["aitne-op"], "ml": ["alice", "bob"], "vision": ["alice"]}
