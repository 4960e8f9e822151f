"""Store of the topology of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from aitne.core.models.cluster_topology import StoredTopology, TopologyOrigin
from aitne.store.admin_tables import topologies as _topologies
from aitne.store.portable_sql import upsert
from aitne.store.store_part import StorePart, require_epoch

TOPOLOGY_CHANGED = "topology.changed"


class TopologyStore(StorePart):
    """Storage of what each source says about the topology, one row for each."""

    async def list_topologies_after(self, version: int) -> Sequence[StoredTopology]:
        """Return the rows that changed after ``version``, in the order of their changes."""
        columns = _topologies.c
        query = select(_topologies).where(columns.version > version).order_by(columns.version)
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [StoredTopology.model_validate(dict(row)) for row in rows]

    async def find_topology(self, origin: TopologyOrigin, name: str) -> StoredTopology | None:
        """Return one row; None if the source was never read."""
        query = select(_topologies).where(
            _topologies.c.origin == origin, _topologies.c.name == name
        )
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else StoredTopology.model_validate(dict(row))

    async def save_topology(
        self,
        origin: TopologyOrigin,
        name: str,
        content: Mapping[str, Any] | None,
        *,
        epoch: int | None = None,
    ) -> None:
        """Store what a source says; None: that it has no topology. Add the event
        ``topology.changed`` if that is something else than before.

        Raises ``StaleEpoch`` if ``epoch`` is given and another controller is the leader.
        """
        stored = None if content is None else dict(content)
        await self._save(origin, name, {"content": stored, "problem": None}, epoch)

    async def record_topology_problem(
        self, origin: TopologyOrigin, name: str, problem: str, *, epoch: int | None = None
    ) -> None:
        """Store why a source could not be read. What it said before is kept.

        Raises ``StaleEpoch`` if ``epoch`` is given and another controller is the leader.
        """
        await self._save(origin, name, {"problem": problem}, epoch)

    async def _save(
        self, origin: TopologyOrigin, name: str, values: dict[str, Any], epoch: int | None
    ) -> None:
        columns = _topologies.c
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            # Versions increase in the order of the commits, so that a reader misses none.
            await tx.acquire_lock("topologies")
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
