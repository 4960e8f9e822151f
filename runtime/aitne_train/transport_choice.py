"""Choice of the transport that connects a group of ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from aitne_train.launcher import horovod_import
from aitne_train.launcher.errors import LaunchError
from aitne_train.plugin_registry import PluginError, PluginRegistry
from aitne_train.transport.base import Transport, TransportError

TRANSPORTS: PluginRegistry[Transport] = PluginRegistry(
    "transport", "aitne_train.transport", "aitne_train.transports"
)
"""Available transports: the modules of ``aitne_train.transport``, and those that other
distributions register as entry points."""


def choose_transport(nodes: Sequence[int], device: str, requested: str = "auto") -> type[Transport]:
    """Return the transport class to use for ranks on these nodes. The result depends on the
    arguments only, so that all ranks choose equally.

    ``auto`` selects shared memory inside a node, NCCL or gloo between nodes, and both if several
    nodes have several ranks. It never selects MPI: if the MPI library does not match the launcher
    of the ranks, it ends the process, so ``mpi`` must be requested explicitly.

    Args:
        nodes: for each rank, the number of its node.
        device: ``cpu`` or ``cuda``.
        requested: name of a transport, or ``auto``.

    Raises:
        TransportError: the transport is unknown, cannot connect these ranks, or is the real Horovod
            in a run of ``aitne-run --horovod``; the message states the reason.
    """
    try:
        horovod_import.check_transport({**os.environ, "AITNE_TRANSPORT": requested})
    except LaunchError as error:
        raise TransportError(f"{error}.") from error
    if requested != "auto":
        transport = _load_transport(requested)
        if reason := transport.refusal(nodes, device):
            raise TransportError(f"The transport {requested!r} cannot be used: {reason}.")
        return transport
    refused = []
    for name in _list_candidates(nodes, device):
        transport = _load_transport(name)
        reason = transport.refusal(nodes, device)
        if reason is None:
            return transport
        refused.append(f"{name}: {reason}")
    raise TransportError(f"No transport can serve these ranks on {device} ({'; '.join(refused)}).")


def _load_transport(name: str) -> type[Transport]:
    try:
        return TRANSPORTS.get(name)  # type: ignore[return-value]
    except PluginError as error:
        raise TransportError(f"{error} ('auto' chooses one.)") from error


def _list_candidates(nodes: Sequence[int], device: str) -> tuple[str, ...]:
    count = len(set(nodes))
    if device != "cpu":
        return ("torch_pg",)
    if count == 1:
        return "shm", "torch_pg"
    return ("hierarchical", "torch_pg") if count < len(nodes) else ("torch_pg",)
