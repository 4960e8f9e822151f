"""Readings of the topology by the controller, and the topology that the service puts together from
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitne.bootstrap.topology_reader import read_part
from aitne.core.errors import NotSupported, SchedulerUnavailable
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.settings import Settings, TopologySettings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.services.controller.topology_source_reader import TopologyConfig, TopologyWatch
from tests.support.fakes import FakeScheduler
from tests.unit.controller.conftest import Bench

SHOWN = """\
SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=core Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[0-1]
"""
OTHER = "SwitchName=top Nodes=n[1-4]\n"


class Switched(FakeScheduler):
    """A scheduler that knows the switches between its nodes."""

    name = "switched"
    capabilities = FakeScheduler.capabilities.model_copy(update={"topology": True})

    def __init__(self, text: str = SHOWN) -> None:
        super().__init__()
        self.text = text
        self.error: Exception | None = None
        self.asked = 0

    async def read_topology(self) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.text


def watch(b: Bench, scheduler: FakeScheduler, settings: TopologySettings | None = None) -> Any:
    config = TopologyConfig(settings or TopologySettings(), read_part)
    return TopologyWatch(b.store, scheduler, config, b.leader, b.clock)


def service(b: Bench, settings: TopologySettings | None = None) -> ClusterTopologies:
    cluster = ClusterService(b.store, None, Settings(), b.clock, fresh_s=0)
    return ClusterTopologies(b.store, cluster, settings or TopologySettings(), fresh_s=0)


async def see(b: Bench, *names: str, started_s: int = 0) -> None:
    nodes = tuple(
        Node(
            name=name,
            state=NodeState.IDLE,
            cpu_total=8,
            cpu_used=0,
            memory_total_bytes=1 << 30,
            memory_used_bytes=0,
            seen_at=b.clock.now,
        )
        for name in names
    )
    started_at = b.clock.now.replace(hour=0, minute=0, second=started_s)
    cluster = Cluster(nodes=nodes, started_at=started_at, seen_at=b.clock.now)
    await b.store.save_cluster(cluster, epoch=b.leader.epoch)


async def leaves(topologies: ClusterTopologies) -> dict[str, str]:
    tree = (await topologies.get_topology()).tree
    return {} if tree is None else dict(tree.leaf_of)


async def test_topology_of_the_scheduler_is_served_with_the_source_of_each_edge(bench: Any) -> None:
    b: Bench = await bench()
    topologies = service(b)
    assert (await topologies.get_topology()).tree is None
    await watch(b, Switched()).refresh()
    tree = (await topologies.get_topology()).tree
    assert tree is not None
    assert tree.leaf_of == {"n1": "leaf0", "n2": "leaf0", "n3": "leaf1", "n4": "leaf1"}
    assert str(tree.find_source("n3")) == "scontrol show topology, line 2"
    assert (await topologies.get_known_topology()).network_from == {TopologyOrigin.SCHEDULER}
    assert (await topologies.get_topology()).tree is tree  # nothing has changed


async def test_scheduler_is_asked_again_when_it_restarted_or_its_nodes_changed_and_hourly(
    bench: Any,
) -> None:
    b: Bench = await bench()
    scheduler = Switched()
    task = watch(b, scheduler)
    await see(b, "n1", "n2")
    for _ in range(3):
        await task.refresh()
    assert scheduler.asked == 1
    await see(b, "n1", "n2", "n3")
    await task.refresh()
    assert scheduler.asked == 2
    await see(b, "n1", "n2", "n3", started_s=9)
    await task.refresh()
    assert scheduler.asked == 3
    b.clock.advance(3_599)
    await task.refresh()
    assert scheduler.asked == 3
    b.clock.advance(1)
    await task.refresh()
    assert scheduler.asked == 4


async def test_scheduler_that_does_not_answer_is_asked_again_and_its_topology_kept(
    bench: Any,
) -> None:
    b: Bench = await bench()
    scheduler = Switched()
    topologies, task = service(b), watch(b, scheduler)
    await task.refresh()
    b.clock.advance(3_600)
    scheduler.error = SchedulerUnavailable("it is down")
    await task.refresh()
    await task.refresh()
    assert scheduler.asked == 3
    assert len(await leaves(topologies)) == 4
    assert [source.problem for source in (await topologies.get_known_topology()).sources] == [None]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SHOWN.replace("leaf[0-1]", "leaf[0-2]"), "line 3: the switch leaf2 below core is not"),
        (SHOWN.replace("leaf1", "leaf0", 1), "line 2: the switch leaf0 is defined again"),
        ("SwitchName=a Nodes=n[1-999999999]\n", "line 1: the range"),
        (SHOWN[:40], "line 1: 'Nod' is not a value"),
    ],
    ids=["no such switch", "twice", "endless list", "truncated"],
)
async def test_invalid_topology_of_the_scheduler_is_named_and_the_last_valid_one_served(
    bench: Any, text: str, problem: str
) -> None:
    b: Bench = await bench()
    scheduler = Switched()
    topologies, task = service(b), watch(b, scheduler)
    await task.refresh()
    scheduler.text = text
    b.clock.advance(3_600)
    await task.refresh()
    assert len(await leaves(topologies)) == 4
    (source,) = (await topologies.get_known_topology()).sources
    assert problem in str(source.problem)


async def test_topology_that_the_scheduler_does_not_use_any_more_is_removed(bench: Any) -> None:
    b: Bench = await bench()
    scheduler = Switched()
    topologies, task = service(b), watch(b, scheduler)
    await task.refresh()
    assert await leaves(topologies)
    scheduler.text = "No topology information available\n"
    b.clock.advance(3_600)
    await task.refresh()
    assert not await leaves(topologies)
    assert (await topologies.get_known_topology()).sources == ()
    scheduler.text = SHOWN
    await watch(b, scheduler).refresh()
    without = TopologySettings(sources=[TopologyOrigin.FILE])
    await watch(b, scheduler, without).refresh()
    assert not await leaves(service(b))


async def test_broker_of_an_older_release_is_served_without_a_topology(bench: Any) -> None:
    b: Bench = await bench()
    scheduler = Switched()
    scheduler.error = NotSupported("The broker is of release 0.1.0, which has no verb `topology`.")
    task = watch(b, scheduler)
    await task.refresh()
    await task.refresh()
    assert scheduler.asked == 1
    (source,) = (await service(b).get_known_topology()).sources
    assert "has no verb" in str(source.problem)


async def test_file_in_the_settings_is_read_when_it_changes(bench: Any, tmp_path: Path) -> None:
    b: Bench = await bench()
    path = tmp_path / "topology.conf"
    settings = TopologySettings(file=path)
    topologies, task = service(b, settings), watch(b, FakeScheduler(), settings)
    await task.refresh()
    (source,) = (await topologies.get_known_topology()).sources
    assert (source.name, source.origin) == (str(path), TopologyOrigin.FILE)
    assert "cannot be read" in str(source.problem)
    path.write_text(OTHER)
    await task.refresh()
    assert await leaves(topologies) == dict.fromkeys(["n1", "n2", "n3", "n4"], "top")
    path.write_text(OTHER.replace("4", "5"))
    await task.refresh()
    assert len(await leaves(topologies)) == 5
    path.write_text(OTHER + OTHER)
    await task.refresh()
    assert len(await leaves(topologies)) == 5
    (source,) = (await topologies.get_known_topology()).sources
    assert "line 2: the switch top is defined again" in str(source.problem)


async def test_source_that_contradicts_an_earlier_one_is_left_out_and_named(
    bench: Any, tmp_path: Path
) -> None:
    b: Bench = await bench()
    path = tmp_path / "topology.conf"
    path.write_text(OTHER)
    settings = TopologySettings(file=path)
    await watch(b, Switched(), settings).refresh()
    topologies = service(b, settings)
    assert set((await leaves(topologies)).values()) == {"top"}
    known = await topologies.get_known_topology()
    assert known.network_from == {TopologyOrigin.FILE}
    file, scheduler = known.sources
    assert file.problem is None
    assert "the node n1 is on leaf0, and on top in" in str(scheduler.problem)
    turned = settings.model_copy(update={"sources": [*reversed(settings.sources)]})
    assert set((await leaves(service(b, turned))).values()) == {"leaf0", "leaf1"}
