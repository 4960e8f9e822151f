"""Assignment of TCP ports to clusters."""

from __future__ import annotations

from aitne.core.errors import SetupError
from aitne_devcluster import processes
from aitne_devcluster.plan import HOME, PLAN, list_ports, read_plan

FIRST, LAST = 26_500, 32_767
"""Range of ports that are assigned by default: above those of services, and below those that the
kernel assigns to clients (ip_local_port_range).
"""
_STEP = 20


def choose_first_port(nodes: int, base: int | None) -> int:
    """Return the first port of a new cluster with ``nodes`` nodes: ``base``, or if that is None the
    start of a free range. The caller must hold the lock ``locks.ALL``.

    Raises:
        SetupError: a requested port is in use, or there is no free range.
    """
    taken = processes.list_listening_ports() | _list_planned_ports()
    if base is not None:
        if list_ports(base, nodes)[-1] > 65_535:
            raise SetupError(
                f"--port-base {base} leaves no room for {nodes} nodes below port 65536."
            )
        used = sorted(taken & set(list_ports(base, nodes)))
        if used:
            raise SetupError(
                f"Port {used[0]} is in use; the cluster would use {base} to "
                f"{list_ports(base, nodes)[-1]}. Choose another --port-base, or omit it."
            )
        return base
    for first in range(FIRST, LAST, _STEP):
        candidates = list_ports(first, nodes)
        if candidates[-1] <= LAST and taken.isdisjoint(candidates):
            return first
    raise SetupError(f"No {len(list_ports(0, nodes))} ports in a row are free below {LAST + 1}.")


def _list_planned_ports() -> set[int]:
    plans = [read_plan(path.parent.name) for path in HOME.glob(f"*/{PLAN}")]
    return {port for plan in plans if plan is not None for port in plan.port_range}
