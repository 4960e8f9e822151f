"""Process sets as in Horovod: subsets of the ranks that can execute collectives among themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import torch

from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import Kind, ReduceOp, Request
from aitne_train.context import require_context


class ProcessSet:
    """Subset of the ranks, which collectives take as the argument ``process_set``.

    It is created from a list of ranks or, for ``init`` only, from an mpi4py communicator, whose
    members become the ranks. It can be used after ``init(process_sets=...)`` or ``add_process_set``
    has assigned its number.
    """

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Any) -> None:
        if hasattr(ranks_or_comm, "Get_group"):
            self.mpi_comm = ranks_or_comm
            return
        if isinstance(ranks_or_comm, (str, bytes)) or not hasattr(ranks_or_comm, "__iter__"):
            raise ValueError("A ProcessSet is made from a list of ranks or an mpi4py communicator.")
        ranks = list(ranks_or_comm)
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError("A ProcessSet is made from a list of ranks or an mpi4py communicator.")
        self.ranks = sorted(ranks)

    def _invalidate(self) -> None:
        self.process_set_id = None

    def size(self) -> int | None:
        """Return the number of ranks in the set; None before the set has a number."""
        if self.process_set_id is None:
            return None
        return len(_list_members(self.process_set_id))

    def rank(self) -> int | None:
        """Return the position of this rank in the set; None before the set has a number.

        Raises:
            ValueError: this rank is not in the set.
        """
        if self.process_set_id is None:
            return None
        members = _list_members(self.process_set_id)
        rank = require_context().world.rank
        if rank not in members:
            raise ValueError("Process is not part of provided process set.")
        return members.index(rank)

    def included(self) -> bool | None:
        """Return whether this rank is in the set; None before the set's ranks are known."""
        if self.ranks is None:
            return None
        return require_context().world.rank in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


global_process_set = ProcessSet([])
"""Process set of all ranks; ``init`` fills its list of ranks."""
global_process_set.process_set_id = 0


@mark_collective("add_process_set")
def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Create a process set after ``init``. All ranks must call this with the same list, including
    ranks that are not in the set.

    Raises:
        ValueError: a set of these ranks exists, or ``HOROVOD_DYNAMIC_PROCESS_SETS=1`` is not set.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks is None:
        raise NotImplementedError(
            "A set from an MPI communicator can only be given to init(); name its ranks instead."
        )
    _require_dynamic("adding")
    number = register_set(process_set.ranks)
    if number is None:
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    process_set.process_set_id = number
    return process_set


@mark_collective("remove_process_set")
def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set; return whether it existed. All ranks must call this.

    Raises:
        ValueError: ``HOROVOD_DYNAMIC_PROCESS_SETS=1`` is not set.
    """
    number = process_set.process_set_id
    if not number:  # it has no number, or is the set of all ranks
        return False
    _require_dynamic("removing")
    process_set._invalidate()
    engine = require_context().engine
    return bool(engine.run_for_data(Request(Kind.REMOVE_SET, None, (), extra=str(number))))


def register_set(ranks: Sequence[int]) -> int | None:
    """Create a process set of these ranks and return its number, which is equal on all ranks;
    return None if a set of these ranks exists.
    """
    context = require_context()
    wrong = [rank for rank in ranks if not 0 <= rank < context.world.size]
    if wrong or not ranks or len(set(ranks)) != len(ranks):
        raise ValueError(f"{list(ranks)} is no set of the {context.world.size} ranks.")
    extra = ",".join(str(rank) for rank in sorted(ranks))
    return context.engine.run_for_data(Request(Kind.ADD_SET, None, (), extra=extra))


def number_initial_sets(process_sets: Sequence[ProcessSet]) -> None:
    """Assign numbers to the process sets passed to ``init``; every rank passes the same sets in the
    same order.

    Only sets made of mpi4py communicators may differ by rank: each rank passes those of which it is
    a member.

    Raises:
        ValueError: a set occurs twice.
    """
    global_process_set.ranks = list(range(require_context().world.size))
    numbers: dict[tuple[int, ...], int | None] = {}
    if process_sets and _is_on_some_rank(
        [process_set for process_set in process_sets if process_set.ranks is None]
    ):
        numbers = {ranks: register_set(ranks) for ranks in _gather_communicator_ranks(process_sets)}
    taken: set[int | None] = {0, None}
    for place, process_set in enumerate(process_sets):
        ranks = tuple(process_set.ranks or ())
        number = numbers[ranks] if ranks in numbers else register_set(ranks)
        if number in taken:
            process_set._invalidate()
            raise ValueError(
                "Horovod could not be initialized because process_sets entry number "
                f"{place} is a duplicate: {process_set}"
            )
        taken.add(number)
        process_set.process_set_id = number


def _is_on_some_rank(process_sets: Sequence[ProcessSet]) -> bool:
    has = torch.tensor([len(process_sets)])
    (maximum,) = require_context().engine.run(Request(Kind.ALLREDUCE, None, [has], op=ReduceOp.MAX))
    return bool(maximum.item())


def _gather_communicator_ranks(process_sets: Sequence[ProcessSet]) -> list[tuple[int, ...]]:
    """Return the ranks of all sets that any rank has made of communicators, without duplicates.
    Every rank must call this. It also sets the attribute ``ranks`` of the given sets.
    """
    context = require_context()
    local_ranks = []
    for process_set in process_sets:
        if process_set.ranks is None:
            process_set.ranks = sorted(process_set.mpi_comm.allgather(context.world.rank))
            local_ranks.append(process_set.ranks)
    text = torch.frombuffer(bytearray(json.dumps(local_ranks).encode() + b"\n"), dtype=torch.uint8)
    (every,) = context.engine.run(Request(Kind.ALLGATHER, None, [text]))
    lists = [json.loads(line) for line in bytes(every.tolist()).splitlines()]
    return sorted({tuple(ranks) for part in lists for ranks in part})


def _list_members(number: int) -> tuple[int, ...]:
    members = require_context().sets.get(number)
    if members is None:
        raise ValueError("Process set does not exist or has not been registered.")
    return members


def _require_dynamic(what: str) -> None:
    require_context()
    if os.environ.get("HOROVOD_DYNAMIC_PROCESS_SETS", "0") not in {"1", "true", "True"}:
        raise ValueError(
            f"Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow {what} process sets after Horovod initialization."
        )
