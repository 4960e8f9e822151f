"""The ``placement`` part of a job: what is refused, and what reaches the scheduler."""

from __future__ import annotations

from datetime import timedelta

import pytest

from aitne.core.errors import InvalidInput
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, GpuCount
from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import Resources
from aitne.services.jobs.placement_checks import placement_problems
from aitne_train.topology.slurm import parse_conf
from aitne_train.topology.switch_tree import TopologyTree
from tests.unit.services.conftest import ADA, Bench, make_node

NODES = [make_node(f"n{number}") for number in (1, 2, 3, 4, 10)]
INTERLEAVED = TopologyTree(
    parse_conf(
        "SwitchName=a Nodes=n[1,3]\nSwitchName=b Nodes=n[2,4]\nSwitchName=c Nodes=n10\n"
        "SwitchName=core Switches=a,b,c\n",
        "topology.conf",
    )
)


async def refused(bench: Bench, **fields: object) -> dict[str, str]:
    """Return the messages of the problems of a job, by field."""
    with pytest.raises(InvalidInput) as caught:
        await bench.create(**fields)
    assert await bench.store.count_live_jobs(ADA.name) == 0
    return {problem.field: problem.message for problem in caught.value.problems}


async def test_placement_is_kept_and_submitted(bench: Bench) -> None:
    await bench.nodes(*NODES)
    placement = {
        "order": "file:~/order.txt",
        "mesh": {"tensor": 2, "data": 2},
        "nodes": ["n[3-4]"],
        "exclude": "n10",
        "bind": False,
    }
    resources = {"nodes": 2, "gpu": 2}
    job = await bench.create(placement=placement, resources=resources, distributed={})
    assert job.spec.placement.mesh is not None
    assert job.spec.placement.mesh.sizes == (2, 1, 2)
    assert job_to_file(job.spec)["placement"] == {
        "order": "file:~/order.txt",
        "mesh": {"tensor": 2, "data": 2},
        "nodes": ["n[3-4]"],
        "exclude": ["n10"],
        "bind": "off",
    }
    request = bench.renderer.submit_request(job, {}, "token")
    assert (request.nodes, request.exclude) == (("n3", "n4"), ("n10",))
    assert (await bench.create()).spec.placement.nodes == ()


async def test_mesh_has_as_many_ranks_as_the_job(bench: Bench) -> None:
    await bench.nodes(*NODES)
    mesh = {"placement": {"mesh": {"tensor": 3}}}
    said = await refused(bench, **mesh, resources={"nodes": 2, "gpu": 2}, distributed={})
    assert said == {"placement.mesh": "the mesh has 3 ranks, but the job has 4"}
    said = await refused(bench, **mesh)
    assert said == {
        "placement.mesh": "the mesh has 3 ranks, but the job is not distributed (add `distributed`)"
    }


async def test_unknown_nodes_are_refused(bench: Bench) -> None:
    await bench.nodes(*NODES)
    said = await refused(bench, placement={"nodes": "n7", "exclude": "n[2,8-9]"})
    assert said == {
        "placement.nodes": "there is no node n7",
        "placement.exclude": "there are no nodes n[8-9]",
    }


async def test_named_nodes_must_hold_the_job(bench: Bench) -> None:
    await bench.nodes(*NODES[:2], make_node("n3", gpus=1))
    said = await refused(bench, placement={"nodes": "n[1-2]"})
    assert said == {"placement.nodes": "2 nodes are named, and the job requests 1"}
    said = await refused(bench, placement={"nodes": "n3"}, resources={"gpu": 2})
    assert said == {"placement.nodes": "n3 cannot provide what the job requests on each node"}
    said = await refused(bench, placement={"exclude": "n2"}, resources={"nodes": 2, "gpu": 2})
    assert said == {
        "resources.nodes": "2 nodes requested; 1 node has the requested CPUs, memory and GPUs"
    }
    said = await refused(bench, placement={"exclude": "n[1-3]"})
    assert said == {"placement.exclude": "no node is left"}


async def test_job_waits_for_its_named_node(bench: Bench) -> None:
    await bench.nodes(NODES[0], make_node("n2", cpu_used=8))
    file = {"commands": ["true"], "placement": {"nodes": "n2"}}
    plan = await bench.plan(file)
    assert not plan.starts_now
    assert plan.pending_reason == "Waits for 1 CPU to become free."
    assert (await bench.plan({"commands": ["true"]})).starts_now


async def test_plan_shows_nodes_leaves_and_order(bench: Bench) -> None:
    await bench.nodes(*NODES)
    four: dict[str, object] = {"commands": ["true"], "resources": {"nodes": 4}}
    assert (await bench.plan(four)).placement is None
    bench.topology.tree = INTERLEAVED
    plan = (await bench.plan(four)).placement
    assert plan is not None
    assert plan.nodes == ("n1", "n2", "n3", "n4")
    assert plan.order == ("n1", "n3", "n2", "n4")
    assert [(leaf.name, leaf.nodes) for leaf in plan.leaves] == [("a", 2), ("b", 2)]
    assert plan.crossings is not None
    assert (plan.crossings.given, plan.crossings.chosen) == (4, 2)
    assert plan.reason == "2 leaves below core hold the job."
    given = (await bench.plan({**four, "placement": {"order": "given"}})).placement
    assert given is not None
    assert given.order == given.nodes
    assert given.crossings is not None
    assert given.crossings.chosen == 4
    one = {"commands": ["true"], "placement": {"nodes": "n10"}, "resources": {"nodes": 2}}
    named = (await bench.plan(one)).placement
    assert named is not None
    assert named.nodes == ("n1", "n10")
    assert named.reason == "The job file names 1 of 2 nodes."


async def test_plan_keeps_a_job_on_one_fabric(bench: Bench) -> None:
    await bench.nodes(*NODES)
    text = "SwitchName=ib Nodes=n[1,3]\nSwitchName=eth Nodes=n[2,4,10].example.org\n"
    bench.topology.tree = TopologyTree(parse_conf(text, "topology.conf"))
    three: dict[str, object] = {"commands": ["true"], "resources": {"nodes": 3}}
    plan = (await bench.plan(three)).placement
    assert plan is not None
    assert plan.nodes == ("n2", "n4", "n10")
    plan = (await bench.plan({**three, "resources": {"nodes": 4}})).placement
    assert plan is not None
    assert plan.reason == (
        "No fabric has 4 nodes for the job, which would span ib, eth; Slurm refuses that "
        "(Requested node configuration is not available)."
    )
    assert len(plan.nodes) == 4
    job = await bench.create(placement={"compact": "require"}, resources={"nodes": 3})
    assert job.spec.leaves is not None
    assert job.spec.leaves.count == 1


async def test_plan_names_the_requested_nodes_that_are_not_free(bench: Bench) -> None:
    await bench.nodes(*NODES[:2], make_node("n3", cpu_used=8), make_node("n4", cpu_used=8))
    bench.topology.tree = INTERLEAVED
    for nodes, reason in (("n3", "Node n3 is not free."), ("n[3-4]", "Nodes n[3-4] are not free.")):
        two: dict[str, object] = {"commands": ["true"], "resources": {"nodes": 2}}
        plan = (await bench.plan({**two, "placement": {"nodes": nodes}})).placement
        assert plan is not None
        assert plan.reason == reason


async def test_plan_names_what_is_missing(bench: Bench) -> None:
    await bench.nodes(*NODES[:3], make_node("n4", cpu_used=8))
    bench.topology.tree = INTERLEAVED
    four: dict[str, object] = {"commands": ["true"], "resources": {"nodes": 4}}
    plan = (await bench.plan(four)).placement
    assert plan is not None
    assert plan.nodes == ()
    assert plan.reason == "4 nodes with 0 free GPUs are requested, and 3 are free."
    assert plan.changes == ("3 nodes",)


async def test_plan_has_busy_nodes_with_their_wait_among_the_alternatives(bench: Bench) -> None:
    bench.topology.tree = INTERLEAVED
    await bench.nodes(*NODES)
    running = await bench.create(resources={"nodes": 2, "gpu": 4})
    ends_at = bench.clock() + timedelta(minutes=10)
    states = (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
    await bench.walk(running, *states, nodes=("n2", "n4"), expires_at=ends_at)
    used = (GpuCount(type="a100", total=4, used=4),)
    busy = [make_node(name).model_copy(update={"gpus": used}) for name in ("n2", "n4")]
    await bench.nodes(*(node for node in NODES if node.name not in ("n2", "n4")), *busy)
    four: dict[str, object] = {"commands": ["true"], "resources": {"nodes": 4, "gpu": 4}}
    plan = (await bench.plan(four)).placement
    assert plan is not None
    assert (plan.nodes, plan.changes) == ((), ("3 nodes",))
    first = plan.alternatives[0]
    assert [(leaf.name, leaf.nodes) for leaf in first.leaves] == [("a", 2), ("b", 2)]
    assert (first.wait_s, first.score) == (600, 14)  # four uplinks and ten minutes
    two: dict[str, object] = {"commands": ["true"], "resources": {"nodes": 2, "gpu": 4}}
    plan = (await bench.plan(two)).placement
    assert plan is not None
    assert plan.nodes == ("n1", "n3")
    waits = {each.leaves[0].name: each.wait_s for each in plan.alternatives}
    assert waits == {"b": 600}
    elsewhere = make_node("n5").model_copy(update={"gpus": used})  # nothing is known about its jobs
    await bench.nodes(elsewhere, make_node("n10"))
    plan = (await bench.plan(two)).placement
    assert plan is not None
    assert plan.alternatives == ()


async def test_compact_job_waits_for_the_fewest_leaves(bench: Bench) -> None:
    nodes = (*NODES, make_node("n5"))
    await bench.store.save_cluster(Cluster(nodes=nodes, max_switch_wait_s=300), epoch=bench.epoch)
    file = {"placement": {"compact": "require"}, "resources": {"nodes": 2}}
    plan = await bench.plan({"commands": ["true"], **file})
    assert plan.warnings[-1].endswith("because the topology of the cluster is not known.")
    bench.topology.tree = INTERLEAVED
    job = await bench.create(**file)
    request = bench.renderer.submit_request(job, {}, "token")
    assert (request.max_leaves, request.max_leaves_wait_s) == (1, 300)
    assert request.node_paths == {
        **dict.fromkeys(("n1", "n3"), ("core", "a")),
        **dict.fromkeys(("n2", "n4"), ("core", "b")),
        "n10": ("core", "c"),
    }
    file = {"placement": {"compact": "prefer", "wait": "10m"}, "resources": {"nodes": 3}}
    plan = await bench.plan({"commands": ["true"], **file})
    assert plan.placement is not None
    assert (plan.placement.max_leaves, plan.placement.max_leaves_wait_s) == (2, 300)
    assert (
        "The scheduler waits at most 5m for nodes on 2 leaves (max_switch_wait), and then starts the job "
        "on more." in plan.warnings
    )
    assert "#   switches    at most 2, waits 5m for that\n" in plan.script


async def test_plan_script_names_nodes(bench: Bench) -> None:
    await bench.nodes(*NODES)
    placement = {"nodes": ["n3", "n4"], "exclude": "n10"}
    plan = await bench.plan(
        {"commands": ["true"], "placement": placement, "resources": {"nodes": 2}}
    )
    assert "#   nodelist    n[3-4]\n#   exclude     n10\n" in plan.script


@pytest.mark.parametrize(
    ("placement", "slurm", "field"),
    [
        ({"exclude": "n1"}, {"exclude": "n2"}, "placement.exclude"),
        ({"nodes": "n1"}, {"exclude": "n[1-2]"}, "placement.nodes"),
        ({"nodes": "n1"}, {"extra": ["--nodelist=n2"]}, "placement.nodes"),
        ({"compact": "prefer"}, {"extra": ["--switches=2"]}, "placement.compact"),
        ({"order": "given"}, {"extra": ["--distribution=cyclic"]}, "placement.order"),
        ({}, {"exclude": "n[1"}, "slurm.exclude"),
    ],
)
def test_contradiction_of_the_slurm_section_is_refused(
    placement: dict[str, object], slurm: dict[str, object], field: str
) -> None:
    file = JobFile.model_validate({"placement": placement, "slurm": slurm})
    (problem,) = placement_problems(file.placement, file.slurm, Resources(), None)
    assert problem.field == field


def test_slurm_section_may_say_the_same() -> None:
    file = JobFile.model_validate(
        {"placement": {"exclude": "n[1-2]"}, "slurm": {"exclude": "n2,n1"}}
    )
    assert list(placement_problems(file.placement, file.slurm, Resources(), None)) == []
