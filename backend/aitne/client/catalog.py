"""What the platform has: templates and nodes."""

from __future__ import annotations

import builtins

from aitne.client.admin_records import NodeEvent
from aitne.client.records import Node, Partition, Template, TemplateProblem
from aitne.client.session import Session, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Templates:
    """``client.templates``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[Template]:
        """All that load without an error."""
        return [Template(item) for item in self._session.json("GET", "/templates")["items"]]

    def problems(self) -> builtins.list[TemplateProblem]:
        """What is wrong with the files that were refused; only administrators are told."""
        found = self._session.json("GET", "/templates").get("problems", [])
        return [TemplateProblem(item) for item in found]

    def get(self, name: str) -> Template:
        """One template. Raises ``NotFound``."""
        return Template(self._session.json("GET", f"/templates/{segment(name)}"))


class Nodes:
    """``client.nodes``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[Node]:
        """The nodes as they were last seen."""
        return [Node(item) for item in self._session.json("GET", "/cluster/nodes")["items"]]

    def partitions(self) -> builtins.list[Partition]:
        """The queues, the default one first."""
        found = self._session.json("GET", "/cluster/partitions")["items"]
        return [Partition(item) for item in found]

    def capacity(self) -> builtins.list[dict[str, Any]]:
        """The GPUs by type: how many are free, used, and when others become free."""
        found: builtins.list[dict[str, Any]] = self._session.json("GET", "/cluster/capacity")[
            "gpus"
        ]
        return found

    def history(self, name: str, *, most: int | None = None) -> Iterator[NodeEvent]:
        """What kept the node from work, and who drained and resumed it, newest first."""
        path = f"/cluster/nodes/{segment(name)}/history"
        return map(NodeEvent, self._session.pages(path, {}, most=most))

    def drain(self, name: str, reason: str) -> Node:
        """Give the node no new work; administrators only. Raises ``NotFound``."""
        path = f"/cluster/nodes/{segment(name)}/drain"
        return Node(self._session.json("POST", path, body={"reason": reason}, repeatable=True))

    def resume(self, name: str) -> Node:
        """Let the node take work again; administrators only. Raises ``NotFound``."""
        path = f"/cluster/nodes/{segment(name)}/resume"
        return Node(self._session.json("POST", path, repeatable=True))
