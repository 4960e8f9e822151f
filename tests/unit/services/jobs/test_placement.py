"""The ``placement`` part of a job: what is refused, and what reaches the scheduler."""

from __future__ import annotations

import pytest

from aitne.core.errors import InvalidInput
from aitne.core.jobs.job_to_file import job_to_file
from tests.unit.services.conftest import ADA, Bench, make_node

NODES = [make_node(f"n{number}") for number in (1, 2, 3, 4, 10)]


async def refused(bench: Bench, **fields: object) -> dict[str, str]:
    """Return the messages of the problems of a job, by field."""
    with pytest.raises(InvalidInput) as caught:
        await bench.create(**fields)
    assert await bench.jobs.list(ADA) == []
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
    assert said == {"placement.mesh": "it has 3 ranks, and the job has 4"}
    said = await refused(bench, **mesh)
    assert said == {
        "placement.mesh": "it has 3 ranks, and the job has none: it lacks distributed"
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
    assert said == {
        "placement.nodes": "n3 cannot provide what the job requests on each node"
    }
    said = await refused(bench, placement={"exclude": "n2"}, resources={"nodes": 2, "gpu": 2})
    assert said == {"resources.nodes": "2 requested; 1 node has that much"}
    said = await refused(bench, placement={"exclude": "n[1-3]"})
    assert said == {"placement.exclude": "no node is left"}


async def test_job_waits_for_its_named_node(bench: Bench) -> None:
    await bench.nodes(NODES[0], make_node("n2", cpu_used=8))
    file = {"commands": ["true"], "placement": {"nodes": "n2"}}
    plan = await bench.plan(file)
    assert not plan.starts_now
    assert plan.pending_reason == "Waits for 1 CPU to become free."
    assert (await bench.plan({"commands": ["true"]})).starts_now
