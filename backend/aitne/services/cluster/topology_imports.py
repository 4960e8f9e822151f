"""Files with a topology that administrators import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from aitne.core.errors import InvalidInput, NotFound
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.store.topologies import TopologyStore
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.switch_tree import SourceLine
from aitne_train.topology.topology_json import part_from_record, part_to_record
from aitne_train.topology.topology_parts import TopologyPart, combine_parts

ReadFile = Callable[[Path], TopologyPart]
"""Function that reads a file or folder in any format. It raises ``TopologyError``."""


class TopologyImports:
    """Service that stores and removes the topologies that administrators import."""

    def __init__(self, store: TopologyStore, read_file: ReadFile) -> None:
        self._store = store
        self._read_file = read_file

    async def save(self, actor: Actor, name: str, text: str, node: str | None) -> None:
        """Store the topology in a file, replacing an earlier import with this name.

        Args:
            name: name of the file; its suffix may determine the format.
            text: content of the file.
            node: name of the node that the file describes; None: the file itself names its nodes.

        Raises:
            NotAllowed: the actor is not an administrator.
            InvalidInput: the file is invalid or contradicts another import. Nothing is stored then.
        """
        require_permission(PolicyAction.NODE_ADMINISTER, actor, "topology", name)
        others = [
            row
            for row in await self._store.list_topologies_after(0)
            if row.origin is TopologyOrigin.IMPORT and row.name != name and row.content is not None
        ]
        try:
            part = await asyncio.to_thread(self._parse_file, name, text, node)
            parts = [part_from_record(row.content) for row in others if row.content is not None]
            await asyncio.to_thread(combine_parts, [*parts, part])
        except TopologyError as error:
            raise InvalidInput(str(error)) from error
        await self._store.save_topology(TopologyOrigin.IMPORT, name, part_to_record(part))

    async def remove(self, actor: Actor, name: str) -> None:
        """Remove an import. If there is no import with this name, remove the description that jobs
        have reported for the node ``name``; jobs then report it again.

        Raises:
            NotAllowed: the actor is not an administrator.
            NotFound: nothing with this name was imported or reported.
        """
        require_permission(PolicyAction.NODE_ADMINISTER, actor, "topology", name)
        for origin in (TopologyOrigin.IMPORT, TopologyOrigin.NODES):
            stored = await self._store.find_topology(origin, name)
            if stored is not None and stored.content is not None:
                await self._store.save_topology(origin, name, None)
                return
        raise NotFound("topology", name)

    def _parse_file(self, name: str, text: str, node: str | None) -> TopologyPart:
        """Parse the content of a file; ``name`` becomes the source of its entries. Raises
        ``TopologyError`` if it is invalid.
        """
        with TemporaryDirectory(prefix="aitne-topology-") as folder:
            path = Path(folder, name)
            path.write_text(text, encoding="utf-8")
            try:
                part = self._read_file(path)
            except TopologyError as error:
                raise TopologyError(
                    error.problem, error.remedy, file=name, line=error.line
                ) from error
        nodes = tuple(replace(each, name=each.name or node, source=name) for each in part.nodes)
        if any(each.name is None for each in nodes):
            raise TopologyError(
                "the file does not say which node it describes",
                "Name the node: aitne admin topology import FILE --node NAME.",
                file=name,
            )
        switches = tuple(
            replace(switch, source=SourceLine(name, switch.source.line)) for switch in part.switches
        )
        return TopologyPart(switches, nodes)
