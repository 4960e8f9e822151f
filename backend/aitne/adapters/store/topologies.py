"""Store of the topology of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from typing_extensions import override

from aitne.adapters.store.admin_tables import topologies as _topologies
from aitne.adapters.store.base import StorePart, require_epoch
from aitne.adapters.store.portable import upsert
from aitne.core.models.topology import StoredTopology, TopologyOrigin
from aitne.core.ports.store.topology import TopologyStore

TOPOLOGY_CHANGED = "topology.changed"


class TopologyRecords(StorePart, TopologyStore):
    """Implementation of ``TopologyStore`` in SQL."""

    @override
    async def topologies_after(self, version: int) -> Sequence[StoredTopology]:
        columns = _topologies.c
        query = select(_topologies).where(columns.version > version).order_by(columns.version)
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [StoredTopology.model_validate(dict(row)) for row in rows]

    @override
    async def topology(self, origin: TopologyOrigin, name: str) -> StoredTopology | None:
        query = select(_topologies).where(
            _topologies.c.origin == origin, _topologies.c.name == name
        )
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else StoredTopology.model_validate(dict(row))

    @override
    async def save_topology(
        self,
        origin: TopologyOrigin,
        name: str,
        content: Mapping[str, Any] | None,
        *,
        epoch: int | None = None,
    ) -> None:
        stored = None if content is None else dict(content)
        await self._save(origin, name, {"content": stored, "problem": None}, epoch)

    @override
    async def note_topology_problem(
        self, origin: TopologyOrigin, name: str, problem: str, *, epoch: int | None = None
    ) -> None:
        await self._save(origin, name, {"problem": problem}, epoch)

    async def _save(
        self, origin: TopologyOrigin, name: str, values: dict[str, Any], epoch: int | None
    ) -> None:
        columns = _topologies.c
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            # Versions increase in the order of the commits, so that a reader misses none.
            await tx.take("topologies")
            key = {"origin": origin.value, "name": name}
            query = select(_topologies).where(columns.origin == origin, columns.name == name)
            before = (await tx.execute(query)).mappings().first()
            newest = (await tx.execute(select(func.max(columns.version)))).scalar() or 0
            row = {"content": None, **(before or {}), **key, **values}
            row |= {"version": newest + 1, "read_at": self._clock()}
            await tx.execute(upsert(tx.dialect, _topologies, row, ["origin", "name"]))
            was = dict.fromkeys(values) if before is None else before
            if any(was[field] != value for field, value in values.items()):
                tx.append_event(TOPOLOGY_CHANGED, {"origin": origin.value})
