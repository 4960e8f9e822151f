"""Requests of a rank for collectives, and the metadata of requests that rank 0 gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import torch


class ReduceOp(IntEnum):
    """Operation by which the values of ranks are reduced. The numbers are those of Horovod."""

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


class Kind(StrEnum):
    """Kind of a request: a collective, or another operation of all ranks. The last four kinds have
    no tensors.
    """

    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"
    BROADCAST = "broadcast"
    ALLTOALL = "alltoall"
    REDUCESCATTER = "reducescatter"
    BARRIER = "barrier"
    JOIN = "join"
    ADD_SET = "add_process_set"
    REMOVE_SET = "remove_process_set"
    CHANNEL = "channel"


@dataclass(eq=False)
class Request:
    """A collective that this rank is ready to execute, with its tensors and options.

    Several tensors are a group, which is executed completely or not at all. Tensors must be
    contiguous and on one device, and must not change until the request is done.
    """

    kind: Kind
    name: str | None
    """Name; the requests of the ranks are matched by kind, process set and name. None: they are
    matched by the order of requests without a name."""
    tensors: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor] | None = None
    """Tensors into which an allreduce or broadcast writes its results; they may be the inputs.
    None: new tensors are created, as always for other kinds, whose output sizes are not known in
    advance."""
    op: ReduceOp = ReduceOp.SUM
    root: int = 0
    """Rank whose tensor is broadcast, counted among all ranks."""
    splits: Sequence[int] | None = None
    """For alltoall: number of rows (slices along the first dimension) for each rank of the process
    set; None for the same number for each."""
    prescale: float = 1.0
    postscale: float = 1.0
    set_id: int = 0
    device: str = ""
    """Device for requests without tensors: of a channel, or of the zeros of a joined rank. Empty:
    the device of the tensors."""
    extra: str = ""
    """More data that must be equal on all ranks: the ranks of a new process set, or the signature
    of a channel."""


class RequestMetadata(NamedTuple):
    """The part of a request that is sent to rank 0: everything on which the ranks must agree, and
    sizes that may differ between ranks.
    """

    kind: str
    set_id: int
    name: str
    """Name of the request; empty if it has none, and then a sequence number is sent too."""
    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    op: int = ReduceOp.SUM
    root: int = 0
    splits: tuple[int, ...] | None = None
    prescale: float = 1.0
    postscale: float = 1.0
    device: str = "cpu"
    extra: str = ""

    @classmethod
    def from_request(cls, request: Request) -> RequestMetadata:
        """Return the metadata of ``request``, which contains no tensors."""
        tensors = request.tensors
        return cls(
            str(request.kind),
            request.set_id,
            request.name or "",
            tuple([_DTYPES[tensor.dtype] for tensor in tensors]),
            tuple([tuple(tensor.shape) for tensor in tensors]),
            int(request.op),
            request.root,
            None if request.splits is None else tuple(request.splits),
            request.prescale,
            request.postscale,
            # The type alone: ranks of a node use different GPUs.
            (request.device or (tensors[0].device.type if tensors else "cpu")).partition(":")[0],
            request.extra,
        )

    @classmethod
    def from_wire(cls, fields: Sequence[Any]) -> RequestMetadata:
        """Return the metadata of a request from the list of its fields, as received in JSON."""
        (
            kind,
            set_id,
            name,
            dtypes,
            shapes,
            op,
            root,
            splits,
            prescale,
            postscale,
            device,
            extra,
        ) = fields
        return cls(
            kind,
            set_id,
            name,
            tuple(dtypes),
            tuple(tuple(shape) for shape in shapes),
            op,
            root,
            None if splits is None else tuple(splits),
            prescale,
            postscale,
            device,
            extra,
        )


def find_dtype(name: str) -> torch.dtype:
    """Return the element type with this name, such as ``float32``."""
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is not an element type of torch.")
    return dtype


_DTYPES: dict[torch.dtype, str] = {
    value: str(value).removeprefix("torch.")
    for value in vars(torch).values()
    if isinstance(value, torch.dtype)
}
