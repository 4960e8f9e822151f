"""Reports of jobs about the nodes that they run on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from aitne.core.jobs.agent_protocol import AgentReport
from aitne.core.jobs.states import ACTIVE
from aitne.core.models.cluster_topology import StoredTopology, TopologyOrigin
from aitne.core.models.job import Job
from aitne.core.models.reported_node import ReportedNode
from aitne.core.settings import TopologySettings
from aitne.services.cluster.merged_topology import PYTHON_CONFIRMED, ClusterTopologies
from aitne.store.topologies import TopologyStore
from aitne_train.topology.node_topology import weigh_link

log = logging.getLogger(__name__)

AGAIN = timedelta(minutes=10)
"""Time within which a node is not described again, whatever its agents say about boots."""
_PARTS = ("numa_nodes", "gpus", "nics")
_DIFFERS = (
    "jobs of different users describe it differently, and the first description is used. If the node was "
    "changed, remove it by `aitne admin topology forget {node} --yes`: the next job describes it again."
)


class NodeReports:
    """Service that stores the descriptions of nodes that jobs report, once after each boot of a
    node.

    Agents run under the accounts of users and are not trusted. A job can therefore describe only
    the nodes that the scheduler has assigned to it, and cannot replace a description that the job
    of another user has reported. Because the version of Python can be a reason to refuse jobs, it
    applies to other users only after jobs of two users have reported it.
    """

    def __init__(
        self,
        store: TopologyStore,
        topologies: ClusterTopologies,
        settings: TopologySettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._topologies = topologies
        self._used = TopologyOrigin.NODES in settings.sources
        self._clock = clock
        self._lock = asyncio.Lock()

    async def receive(self, job: Job, report: AgentReport) -> bool:
        """Store the description of the node, if the report contains one. Returns whether the agent
        is to send a description: the job runs on the node, and the stored description is missing,
        from before the last boot, or has an older version of Python.
        """
        if report.topology is not None:
            await self._store_description(job, report)
        if not self._used or report.boot_id is None or report.python is None:
            return False
        if not _runs_there(job, report):
            return False
        stored = await self._topologies.find_reported_node(report.node)
        if _can_confirm_python(stored, job.owner, report.python):
            await self._confirm_python(job.owner, report.node, report.python)
        return self._is_due(stored, report.boot_id, report.python)

    async def _store_description(self, job: Job, report: AgentReport) -> None:
        """Store the description of the node in the report.

        A description that is invalid or not needed is ignored. If it differs from the description
        by another user's job, a problem is stored instead.
        """
        if not self._used or not _runs_there(job, report):
            return
        try:
            node = ReportedNode.model_validate(report.topology)
        except (ValidationError, RecursionError) as error:
            log.info("The description of %s by job %s is invalid: %s", report.node, job.id, error)
            return
        new = _make_content(node, report.node, job.owner)
        async with self._lock:
            stored = await self._store.find_topology(TopologyOrigin.NODES, report.node)
            if self._is_due(stored, node.boot_id, node.python):
                await self._store_new(report.node, stored, new)

    async def _confirm_python(self, owner: str, node: str, python: str) -> None:
        async with self._lock:
            stored = await self._store.find_topology(TopologyOrigin.NODES, node)
            if stored is not None and _can_confirm_python(stored, owner, python):
                content = {**(stored.content or {}), PYTHON_CONFIRMED: True}
                await self._store.save_topology(TopologyOrigin.NODES, node, content)

    async def _store_new(
        self, name: str, stored: StoredTopology | None, new: dict[str, Any]
    ) -> None:
        before = None if stored is None else stored.content
        second_user = before is not None and before["owner"] != new["owner"]
        if before is not None and second_user:
            both = _merge_descriptions(before, new)
            if both is None:
                log.warning(
                    "Jobs of %s and %s describe the node %s differently",
                    before["owner"],
                    new["owner"],
                    name,
                )
                problem = _DIFFERS.format(node=name)
                await self._store.record_topology_problem(TopologyOrigin.NODES, name, problem)
                return
            new = both
        if before is not None and before["python"] == new["python"]:
            new[PYTHON_CONFIRMED] = second_user or before.get(PYTHON_CONFIRMED, False)
        await self._store.save_topology(TopologyOrigin.NODES, name, new)

    def _is_due(self, stored: StoredTopology | None, boot_id: str, python: str) -> bool:
        if stored is None or stored.content is None:
            return True
        if stored.problem is not None or self._clock() - stored.read_at < AGAIN:
            return False
        known = stored.content
        return bool(known["boot_id"] != boot_id) or _parse_version(python) > _parse_version(
            known["python"]
        )


def _runs_there(job: Job, report: AgentReport) -> bool:
    return (
        job.state in ACTIVE
        and report.node in job.nodes
        and report.restart_count == job.restart_count
    )


def _can_confirm_python(stored: StoredTopology | None, owner: str, python: str) -> bool:
    """Return whether a report of ``owner`` confirms the stored version of Python, as the first
    report of a second user.
    """
    if stored is None or stored.content is None or stored.problem is not None:
        return False
    known = stored.content
    is_new = known["owner"] != owner and not known.get(PYTHON_CONFIRMED, False)
    return is_new and bool(known["python"] == python)


def _make_content(node: ReportedNode, name: str, owner: str) -> dict[str, Any]:
    """Return the database content for the description of a node, in the form that
    ``aitne_train.topology.topology_json`` reads.
    """
    facts = node.model_dump(mode="json")
    boot_id, python = facts.pop("boot_id"), facts.pop("python")
    described = {"name": name, "source": f"agent on {name}", **facts}
    return {
        "switches": [],
        "nodes": [described],
        "boot_id": boot_id,
        "python": python,
        "owner": owner,
    }


def _merge_descriptions(before: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any] | None:
    """Merge the descriptions of a node by the jobs of two users; None if they contradict each
    other.

    A job that does not see all GPUs cannot detect NVLink. If one description has an NVLink
    connection and the other a PCIe connection, they therefore do not contradict each other.
    """
    (old_node,), (new_node,) = before["nodes"], new["nodes"]
    if any(old_node[part] != new_node[part] for part in _PARTS):
        return None
    if _parse_version(new["python"]) < _parse_version(before["python"]):
        return None
    links = {(one, other): kind for one, other, kind in old_node["links"]}
    for one, other, kind in new_node["links"]:
        known = links.get((one, other), kind)
        if known != kind and known.startswith("NV") == kind.startswith("NV"):
            return None
        links[one, other] = max(known, kind, key=weigh_link)
    both = {**old_node, "links": [[*pair, kind] for pair, kind in links.items()]}
    return {**new, "nodes": [both], "owner": before["owner"]}


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
