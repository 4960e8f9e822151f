"""Transport for several nodes with several ranks each: shared memory inside nodes, the network
between them.

If every node has the same number of ranks, an allreduce consists of a reducescatter inside each
node, an allreduce of each part among the ranks that hold this part, and an allgather inside each
node. Each part then crosses the network once, and all ranks transfer data. Otherwise, and for most
other collectives, one rank of each node exchanges data with other nodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from aitne_train.transport.base import Group, Reduction, Transport, TransportError
from aitne_train.transport_choice import TRANSPORTS

ACROSS = "AITNE_TRANSPORT_ACROSS"
"""Name of the environment variable that selects the transport between nodes."""
_INSIDE = ("shm", "torch_pg")


class Hierarchical:
    """Transport that combines two others: one connects the ranks of each node, the other connects
    the nodes.
    """

    name: ClassVar[str] = "hierarchical"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def __init__(self, group: Group, device: str, inside: Transport, across: Transport | None):
        self.rank = group.rank
        self.size = group.size
        self._group = group
        self._device = device
        self._inside = inside
        self._across = across
        self._all_ranks: Transport | None = None
        numbers = sorted(set(group.nodes))
        self._per_node = [group.nodes.count(node) for node in numbers]
        self._node = numbers.index(group.nodes[group.rank])
        self._even = len(set(self._per_node)) == 1
        self._space = torch.empty(0, dtype=torch.uint8)
        self._aborted = ""

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why this transport cannot be used for these ranks; None if it can. Ranks must be
        numbered node by node. ``nodes`` contains the number of each rank's node.
        """
        if device not in cls.devices:
            return f"it takes tensors on cpu, not on {device}"
        if list(nodes) != sorted(nodes):
            return "the ranks are not numbered node by node"
        representatives = sorted(set(nodes))
        across = _choose_outer_transport()
        if reason := across.refusal(representatives, device):
            return f"between nodes {across.name} cannot serve: {reason}"
        for node in representatives:
            _choose_inner_transport([number for number in nodes if number == node], device)
        return None

    @classmethod
    def connect(cls, group: Group, device: str) -> Hierarchical:
        """Connect the ranks inside each node first, then the nodes.

        Raises ``TransportError`` if a rank does not connect in time.
        """
        if reason := cls.refusal(group.nodes, device):
            raise TransportError(f"hierarchical: {reason}")
        here = group.nodes[group.rank]
        members = [rank for rank, node in enumerate(group.nodes) if node == here]
        local = members.index(group.rank)
        inner = _make_subgroup(group, members, f"in{here}")
        inside = _choose_inner_transport(inner.nodes, device).connect(inner, device)
        peers = _list_peers(group.nodes, local)
        across = None
        if group.rank in peers:
            try:
                across = _choose_outer_transport().connect(
                    _make_subgroup(group, peers, f"across{local}"), device
                )
            except TransportError as error:
                inside.abort(str(error))
                inside.close()
                raise
        return cls(group, device, inside, across)

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether both transports support this reduction of this element type."""
        across = self._across
        return self._inside.reduces(dtype, op) and (across is None or across.reduces(dtype, op))

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place. If all nodes have the same number of ranks, all
        ranks exchange parts between nodes; otherwise one rank of each node does.
        """
        self._run_collective(
            lambda: (
                self._reduce_parts(flat, op) if self._even else self._reduce_by_leaders(flat, op)
            )
        )

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce the values of all ranks as ``allreduce`` does, and copy this rank's part to
        ``out``.
        """
        self.allreduce(flat, op)
        before = sum(counts[: self.rank])
        out.copy_(flat[before : before + counts[self.rank]])

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Gather the elements of all ranks inside the nodes, then between nodes.

        Ranks are numbered node by node, so that the data of a node is contiguous in ``out``.
        """
        first = sum(self._per_node[: self._node])
        node_counts = counts[first : first + self._per_node[self._node]]
        nodes, at = [], 0
        for many in self._per_node:
            nodes.append(sum(counts[at : at + many]))
            at += many
        begin = sum(nodes[: self._node])

        def gather() -> None:
            # The transport between nodes must not read its own output.
            piece = self._allocate_room(nodes[self._node], out.dtype)
            self._inside.allgather(piece, flat, node_counts)
            if self._is_leader():
                self._find_leaders().allgather(out, piece, nodes)
            else:
                out[begin : begin + nodes[self._node]].copy_(piece)
            self._inside.broadcast(out, 0)

        self._run_collective(gather)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Broadcast the values of ``root`` inside its node, then between nodes, then inside the
        other nodes.
        """
        node, first = 0, 0
        while root >= first + self._per_node[node]:
            first += self._per_node[node]
            node += 1

        def spread() -> None:
            if self._node == node:
                self._inside.broadcast(flat, root - first)
            if self._is_leader():
                self._find_leaders().broadcast(flat, node)
            if self._node != node:
                self._inside.broadcast(flat, 0)

        self._run_collective(spread)

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange the parts directly between ranks, over the transport for use between nodes."""
        transport = self._connect_directly()
        self._run_collective(lambda: transport.alltoall(out, flat, send_counts, receive_counts))

    def barrier(self) -> None:
        """Wait for all ranks on this node, then for all nodes."""

        def meet() -> None:
            self._inside.barrier()
            if self._is_leader():
                self._find_leaders().barrier()
            self._inside.barrier()

        self._run_collective(meet)

    def abort(self, reason: str) -> None:
        """Abort all transports that are connected."""
        self._aborted = self._aborted or reason
        for part in (self._inside, self._across, self._all_ranks):
            if part is not None:
                part.abort(reason)

    def close(self) -> None:
        """Close all transports that are connected."""
        for part in (self._all_ranks, self._across, self._inside):
            if part is not None:
                part.close()

    def _reduce_parts(self, flat: torch.Tensor, op: Reduction) -> None:
        parts = self._inside.size
        even, more = divmod(flat.numel(), parts)
        counts = [even + (1 if part < more else 0) for part in range(parts)]
        local_part = self._allocate_room(counts[self._inside.rank], flat.dtype)
        self._inside.reducescatter(local_part, flat, counts, op)
        self._find_leaders().allreduce(local_part, op)
        self._inside.allgather(flat, local_part, counts)

    def _reduce_by_leaders(self, flat: torch.Tensor, op: Reduction) -> None:
        self._inside.allreduce(flat, op)
        if self._is_leader():
            self._find_leaders().allreduce(flat, op)
        self._inside.broadcast(flat, 0)

    def _is_leader(self) -> bool:
        return self._inside.rank == 0

    def _find_leaders(self) -> Transport:
        if self._across is None:
            raise TransportError("hierarchical: another rank represents this node")
        return self._across

    def _connect_directly(self) -> Transport:
        """Return a transport that connects all ranks directly. The first call connects it, so that
        every rank must make it.
        """
        if self._all_ranks is None:
            self.barrier()
            group = replace(self._group, name=f"{self._group.name}/all")
            self._all_ranks = _choose_outer_transport().connect(group, self._device)
            if self._aborted:
                self._all_ranks.abort(self._aborted)
        return self._all_ranks

    def _allocate_room(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor of ``count`` elements in memory that is reused between calls."""
        size = count * dtype.itemsize
        if self._space.numel() < size:
            self._space = torch.empty(size, dtype=torch.uint8)
        return self._space[:size].view(dtype)

    def _run_collective(self, collective: Callable[[], None]) -> None:
        try:
            collective()
        except TransportError as error:
            # Some ranks wait inside the node and some across nodes: an error must reach all.
            self.abort(str(error))
            raise


def _choose_outer_transport() -> type[Transport]:
    return TRANSPORTS.get(os.environ.get(ACROSS) or "torch_pg")  # type: ignore[return-value]


def _choose_inner_transport(nodes: Sequence[int], device: str) -> type[Transport]:
    for name in _INSIDE:
        transport: type[Transport] = TRANSPORTS.get(name)  # type: ignore[assignment]
        if transport.refusal(nodes, device) is None:
            return transport
    raise TransportError(f"hierarchical: none of {', '.join(_INSIDE)} can serve inside a node")


def _make_subgroup(group: Group, members: Sequence[int], name: str) -> Group:
    return Group(
        f"{group.name}/{name}",
        members.index(group.rank),
        tuple(group.ranks[member] for member in members),
        tuple(group.nodes[member] for member in members),
        group.store,
        group.timeout_s,
    )


def _list_peers(nodes: Sequence[int], local: int) -> list[int]:
    """Return the ranks on all nodes that have the local rank ``local``, one for each node. If nodes
    differ in their number of ranks, return an empty list for local ranks other than 0.
    """
    peers = []
    even = len({nodes.count(node) for node in nodes}) == 1
    if even or local == 0:
        for node in sorted(set(nodes)):
            peers.append(nodes.index(node) + local)
    return peers
