"""What a rank asks for, and what travels of it to rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import torch


class ReduceOp(IntEnum):
    """How values of ranks become one; the numbers are Horovod's."""

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


class Kind(StrEnum):
    """What a request is for. The last four carry no tensors."""

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
    """A collective that this rank is ready for. Several tensors are a group: all of them or none.

    Tensors are contiguous, on one device, and must not change until the request is done.
    """

    kind: Kind
    name: str | None
    """Requests of ranks meet by kind, set and name. None: by how many nameless ones came before."""
    tensors: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor] | None = None
    """Where results go, for allreduce and broadcast; may be the tensors themselves. None: new ones.
    The other kinds always make new ones, as sizes are not known before."""
    op: ReduceOp = ReduceOp.SUM
    root: int = 0
    """World rank that has what is broadcast."""
    splits: Sequence[int] | None = None
    """alltoall: how many rows go to each rank of the set; None: as many to each."""
    prescale: float = 1.0
    postscale: float = 1.0
    set_id: int = 0
    device: str = ""
    """Device without tensors: of a channel, or of the zeros of one who has joined. Empty: the tensors'."""
    extra: str = ""
    """What ranks must say alike besides: the members of a new set, the signature of a channel."""


class Ask(NamedTuple):
    """A request as rank 0 knows it: everything that ranks must agree on, and the sizes they may not."""

    kind: str
    set_id: int
    name: str
    """Empty: nameless; then a number travels beside it."""
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
    def of(cls, request: Request) -> Ask:
        """What travels of ``request``."""
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
            request.device or (tensors[0].device.type if tensors else "cpu"),
            request.extra,
        )

    @classmethod
    def from_wire(cls, fields: Sequence[Any]) -> Ask:
        """What ``tuple(ask)`` was before it went through JSON."""
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


def dtype_of(name: str) -> torch.dtype:
    """The element type called ``name``, such as ``float32``."""
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} is no element type of torch.")
    return found


_DTYPES: dict[torch.dtype, str] = {
    value: str(value).removeprefix("torch.")
    for value in vars(torch).values()
    if isinstance(value, torch.dtype)
}
