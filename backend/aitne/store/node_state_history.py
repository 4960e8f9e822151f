"""History of each node's state, written when a poll of the cluster finds a change.

Changes between idle and allocated are not recorded. Changes to and from states in which a node
accepts no jobs are recorded with their reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert

from aitne.core.models.cluster import NodeState
from aitne.store.admin_tables import node_history
from aitne.store.database import Transaction

UP = "up"
GONE = "gone"
_AT_WORK = frozenset({NodeState.IDLE, NodeState.MIXED, NodeState.ALLOCATED})
_Key = tuple[str, str]


def find_state_changes(
    old_nodes: Mapping[_Key, Mapping[str, Any]],
    new_nodes: Mapping[_Key, Mapping[str, Any]],
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the rows to add to the history of nodes: one for each node whose state or reason
    differs between ``old_nodes`` and ``new_nodes``.
    """
    rows = []
    for key in sorted(old_nodes.keys() | new_nodes.keys()):
        before, after = (
            _to_recorded_state(old_nodes.get(key)),
            _to_recorded_state(new_nodes.get(key)),
        )
        if before != after:
            what, reason = after or (GONE, None)
            row = {"cluster": key[0], "node": key[1], "time": now, "actor": None}
            rows.append({**row, "what": what, "reason": reason})
    return rows


async def insert_state_changes(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows into the history of nodes' states; do nothing if there are none."""
    if rows:
        await tx.execute(insert(node_history), rows)


def _to_recorded_state(data: Mapping[str, Any] | None) -> tuple[str, str | None] | None:
    if data is None:
        return None
    state = NodeState(data["state"])
    return (UP, None) if state in _AT_WORK else (state.value, data.get("reason"))
