"""Operations on templates and nodes."""

from __future__ import annotations

import builtins

from aitne.client.admin_records import NodeEventRecord
from aitne.client.api_session import ApiSession, quote_segment
from aitne.client.deprecated_names import resolve_deprecated_limit
from aitne.client.records import Node, PartitionRecord, Template, TemplateProblemRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Templates:
    """Operations on templates, as ``client.templates``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> list[Template]:
        """Return the job templates that have no errors."""
        return [Template(item) for item in self._session.request_json("GET", "/templates")["items"]]

    def problems(self) -> builtins.list[TemplateProblemRecord]:
        """Return the template files that were rejected, with the reasons; empty unless the user is
        an administrator."""
        problems = self._session.request_json("GET", "/templates").get("problems", [])
        return [TemplateProblemRecord(item) for item in problems]

    def get(self, name: str) -> Template:
        """Return one template. Raises ``NotFound``."""
        return Template(self._session.request_json("GET", f"/templates/{quote_segment(name)}"))


class Nodes:
    """Operations on nodes and partitions, as ``client.nodes``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> list[Node]:
        """Return the nodes in their last known state."""
        return [Node(item) for item in self._session.request_json("GET", "/cluster/nodes")["items"]]

    def partitions(self) -> builtins.list[PartitionRecord]:
        """Return the partitions, the default one first."""
        partitions = self._session.request_json("GET", "/cluster/partitions")["items"]
        return [PartitionRecord(item) for item in partitions]

    def capacity(self) -> builtins.list[dict[str, Any]]:
        """Return for each type of GPU the number of free and used ones, and when others become
        free."""
        gpus: builtins.list[dict[str, Any]] = self._session.request_json(
            "GET", "/cluster/capacity"
        )["gpus"]
        return gpus

    def load(self, period: str = "day", partition: str | None = None) -> dict[str, Any]:
        """Return the load of the cluster, or of one partition, over the last ``day``, ``week`` or
        ``month``.

        ``items`` has averages over intervals of ``interval_s`` seconds: allocated CPUs, memory and
        GPUs, and the number of pending jobs. Raises ``NotFound`` if there is no such partition.
        """
        query = {"period": period, "partition": partition}
        history: dict[str, Any] = self._session.request_json("GET", "/cluster/history", query=query)
        return history

    def queues(self, period: str = "day") -> dict[str, Any]:
        """Return the queue of each partition, with the wait times of the jobs that started in the
        last ``day``, ``week`` or ``month``.

        ``items`` has for each partition the numbers of pending and running jobs, and the numbers of
        started jobs by wait time.
        """
        queues: dict[str, Any] = self._session.request_json(
            "GET", "/cluster/queues", query={"period": period}
        )
        return queues

    def topology(self) -> dict[str, Any]:
        """Return the ``switches`` or blocks of the network, the ``nodes`` with their place in it and
        their use, the ``sources`` of that, and the ``unknown_nodes``, whose place is not known."""
        topology: dict[str, Any] = self._session.request_json("GET", "/cluster/topology")
        return topology

    def history(
        self, name: str, *, limit: int | None = None, most: int | None = None
    ) -> Iterator[NodeEventRecord]:
        """Iterate over the history of a node, newest first: outages, drains and resumes. ``limit``
        is the maximum number of events; ``most`` is its deprecated alias."""
        path = f"/cluster/nodes/{quote_segment(name)}/history"
        return map(
            NodeEventRecord,
            self._session.list_pages(path, {}, limit=resolve_deprecated_limit(limit, most)),
        )

    def drain(self, name: str, reason: str) -> Node:
        """Drain a node, so that it starts no new jobs; administrators only. Raises ``NotFound``."""
        path = f"/cluster/nodes/{quote_segment(name)}/drain"
        return Node(
            self._session.request_json("POST", path, body={"reason": reason}, repeatable=True)
        )

    def resume(self, name: str) -> Node:
        """Resume a drained node, so that it starts jobs again; administrators only. Raises
        ``NotFound``."""
        path = f"/cluster/nodes/{quote_segment(name)}/resume"
        return Node(self._session.request_json("POST", path, repeatable=True))
