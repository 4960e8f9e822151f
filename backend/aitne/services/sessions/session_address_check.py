"""Check that a session listens on a node of its job.

JupyterHub's proxy connects to the address that the agent reports. The agent runs as the user, so
that address is only a claim. It is compared with the nodes that the scheduler assigned to the job.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aitne.core.errors import Unavailable
from aitne.core.models.cluster import Node
from aitne.core.models.job import Job
from aitne.core.settings import Settings
from aitne.store.nodes_and_leases import ClusterStore

LOWEST_PORT = 1_024
Resolve = Callable[[str], Awaitable[Sequence[str]]]


async def resolve_host(name: str) -> Sequence[str]:
    """Return the network addresses of a host name; empty if this machine cannot resolve it."""
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return [str(entry[4][0]) for entry in infos]


class NodeAddresses:
    """Check that the address which a session's agent reported belongs to the first of the session's
    nodes, which runs its app.
    """

    def __init__(
        self, store: ClusterStore, settings: Settings, resolve: Resolve = resolve_host
    ) -> None:
        self._store = store
        self._settings = settings
        self._resolve = resolve

    async def find_problem(self, job: Job) -> str | None:
        """Return why JupyterHub must not connect to the address that the session ``job`` has
        reported; None if it may.

        Raises:
            Unavailable: the nodes of the job are not known yet.
        """
        if self._settings.capabilities.trusts_agents or job.address is None:
            return None
        if not job.nodes:
            raise Unavailable(f"The nodes of session {job.id} are not known yet; try again.")
        host, _, port = job.address.rpartition(":")
        host = host.strip("[]")
        allowed = await self._list_allowed_hosts(job)
        if not self._is_allowed_host(host, allowed):
            return (
                f"the agent reports that it listens at {job.address}, which is not an address of "
                f"{job.nodes[0]} ({', '.join(sorted(allowed))}). If the nodes have several "
                "networks, an administrator sets agent_host in the [slurm] section to the right one."
            )
        if not LOWEST_PORT <= int(port) <= 65_535 or (
            int(port) in self._own_ports() and _is_own_address(host)
        ):
            return (
                f"the agent reports that it listens at {job.address}, but sessions do not use "
                "this port."
            )
        return None

    def _is_allowed_host(self, host: str, allowed: Iterable[str]) -> bool:
        if host in allowed:
            return True
        agent_host = self._settings.session_listen_address
        if "/" not in agent_host:
            return host == agent_host
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(agent_host, strict=False)
        except ValueError:
            return False

    async def _list_allowed_hosts(self, job: Job) -> set[str]:
        if not self._settings.capabilities.remote:
            return {self._settings.session_listen_address}  # all nodes are this machine
        nodes_by_name = {node.name: node for node in await self._store.list_nodes()}
        hosts = _list_host_names(job.nodes[:1], nodes_by_name)
        for addresses in await asyncio.gather(*map(self._resolve, sorted(hosts))):
            hosts |= set(addresses)
        return hosts

    def _own_ports(self) -> tuple[int, ...]:
        settings = self._settings
        return (
            settings.port,
            settings.port_of_sessions,
            settings.port_of_hub,
            settings.port_of_proxy_api,
            settings.port_of_internal,
        )


def _list_host_names(nodes: Iterable[str], nodes_by_name: dict[str, Node]) -> set[str]:
    """Return the names and network addresses of the nodes."""
    hosts = set(nodes)
    for name in nodes:
        if name in nodes_by_name and (address := nodes_by_name[name].address):
            hosts.add(address)
    return hosts


def _is_own_address(host: str) -> bool:
    """Return whether the host is an address of this machine itself."""
    try:
        infos = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        family, kind, _, _, address = infos[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
