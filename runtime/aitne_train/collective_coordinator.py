"""Coordinator: the logic by which rank 0 determines which collectives all ranks execute next, and
in which order. It has no sockets or tensors.

Each rank reports its requests (collectives that it is ready to execute) in any order. A request
that all ranks of its process set have reported becomes a ``Response``; every rank executes the
responses in the order in which ``take_responses`` returns them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aitne_train.collective_request import Kind, ReduceOp, RequestMetadata, find_dtype
from aitne_train.disagreement import describe_disagreement, describe_joined_refusal

FUSION_THRESHOLD = 64 << 20
"""Maximum total bytes of small allreduces that are executed as one (``HOROVOD_FUSION_THRESHOLD``).
"""
_FUSED_AT_MOST = 4 << 20
# Larger tensors cost less alone than copied into a buffer and back.


class RequestKey(NamedTuple):
    """Key by which the requests of different ranks for the same collective are matched: number of
    the process set, kind, name, and a sequence number for requests without a name.
    """

    set_id: int
    """Number of the process set."""
    kind: str
    """Kind of the collective, such as ``allreduce``."""
    name: str
    """Name of the collective; not used if ``number`` is 0 or more."""
    number: int
    """Sequence number of a request without a name; -1 if the request has a name."""

    @property
    def row(self) -> str:
        """Return the name under which the request appears in Horovod's timeline."""
        return f"{self.kind}.{self.name if self.number < 0 else f'noname.{self.number}'}"

    def __str__(self) -> str:
        return f"{self.kind} '{self.name if self.number < 0 else f'noname.{self.number}'}'"


@dataclass
class Response:
    """Decision of the coordinator for one process set: collectives that are executed together, or
    an error.
    """

    kind: str
    """Kind of the collectives."""
    members: tuple[int, ...]
    """Ranks of the process set."""
    asks: list[RequestMetadata]
    """Metadata of the requests that this response answers; several if they are allreduces to be
    executed as one."""
    handles: list[dict[int, int]]
    """For each of ``asks``, the handle of each rank's request, by rank. A missing rank has called
    ``join`` and contributes zeros."""
    data: Any = None
    """Data whose meaning depends on the kind. Allgather: for each tensor, the length of each rank's
    first dimension. Alltoall: for each rank, the number of rows from each rank. Join: the rank that
    joined last. Process set: its number, or None if such a set exists. Channel: its number, or None
    if it cannot be connected because a rank has joined."""
    error: str | None = None
    """Reason why the request cannot be executed; None if it can. With a reason, no collective takes
    place."""
    keys: list[RequestKey] = field(default_factory=list)
    """Keys of the requests, one for each of ``asks``."""


@dataclass
class _Waiting:
    since: float
    asks: dict[int, RequestMetadata] = field(default_factory=dict)
    handles: dict[int, int] = field(default_factory=dict)


class IncompleteRequest(NamedTuple):
    """Request that some ranks of the process set have not submitted yet."""

    key: RequestKey
    since: float
    """Time of the first submission, by the coordinator's clock, in seconds."""
    present: tuple[int, ...]
    """Ranks that have submitted the request."""
    missing: tuple[int, ...]
    """Ranks that have not submitted the request."""


class CollectiveCoordinator:
    """Component on rank 0 that collects the requests of all ranks and decides which collectives are
    ready to be executed. Not thread-safe.
    """

    def __init__(
        self,
        size: int,
        fusion_threshold: int = FUSION_THRESHOLD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sets: dict[int, tuple[int, ...]] = {0: tuple(range(size))}
        self._size = size
        self._threshold = fusion_threshold
        self._clock = clock
        self._table: dict[RequestKey, _Waiting] = {}
        self._ready: list[Response] = []
        self._joined: dict[int, tuple[RequestKey, int]] = {}
        self._last_joined = -1
        self._blocked: dict[int, RequestKey] = {}
        self._next_set = 1
        self._next_channel = 0
        self._steps: dict[int, dict[int, int]] = {}
        self._channel_sets: dict[int, int] = {}

    # Requests of ranks

    def submit(self, rank: int, handle: int, ask: RequestMetadata, number: int = -1) -> None:
        """Add a request of ``rank``. ``ask`` is the request's metadata, ``handle`` the number by
        which the rank identifies it, and ``number`` the sequence number of a request without a name
        (otherwise -1).
        """
        key = RequestKey(ask.set_id, ask.kind, ask.name, number)
        self._blocked.pop(rank, None)
        members = self.sets.get(ask.set_id)
        if members is None or rank not in members:
            error = f"{key}: process set {ask.set_id} does not exist or rank {rank} is not in it."
            self._ready.append(
                Response(ask.kind, (rank,), [ask], [{rank: handle}], None, error, [key])
            )
            return
        if ask.kind == Kind.JOIN:
            self._record_join(rank, key, handle, ask)
            return
        waiting = self._table.get(key)
        if waiting is None:
            waiting = self._table[key] = _Waiting(self._clock())
        waiting.asks[rank] = ask
        waiting.handles[rank] = handle
        self._respond_if_complete(key, waiting, members)

    def record_blocked(self, rank: int, key: RequestKey | None) -> None:
        """Record that ``rank`` waits for the request ``key`` and submits nothing until it is done;
        None: the rank no longer waits.

        If all ranks wait so for requests that cannot become complete, these requests fail.
        """
        if key is None:
            self._blocked.pop(rank, None)
            return
        self._blocked[rank] = key
        if len(self._blocked) + len(self._joined) < self._size:
            return
        stuck = {r: k for r, k in self._blocked.items() if self._is_waiting(r, k)}
        stuck.update({r: k for r, (k, _) in self._joined.items()})
        if len(stuck) == self._size and self._table and not self._ready:
            waits = ", ".join(f"rank {r} waits in {stuck[r]}" for r in sorted(stuck))
            self._fail_requests(
                list(self._table), f"Ranks wait for each other in different collectives: {waits}."
            )

    def begin_step(self, rank: int, channel: int, step: int) -> list[tuple[int, int, int]]:
        """Record that ``rank`` has started the exchange step ``step`` of ``channel``.

        Returns (rank, channel, step) for each rank that has called ``join`` and must therefore take
        part in the step with zeros.
        """
        self._steps.setdefault(channel, {})[rank] = step
        return self._find_missed_steps()

    # Responses to ranks

    def take_responses(self) -> list[Response]:
        """Return all ready responses, in the order in which every rank executes them."""
        if len(self._ready) < 2:
            taken, self._ready = self._ready, []
            return taken
        taken = []
        open_at: dict[Any, tuple[Response, list[int]]] = {}
        for response in self._ready:
            kind = _fusion_key(response)
            if kind is None:
                taken.append(response)
                continue
            nbytes = _count_bytes(response.asks[0])
            into = open_at.get(kind)
            if into is not None and into[1][0] + nbytes <= self._threshold:
                into[0].asks += response.asks
                into[0].handles += response.handles
                into[0].keys += response.keys
                into[1][0] += nbytes
            else:
                open_at[kind] = (response, [nbytes])
                taken.append(response)
        self._ready = []
        return taken

    @property
    def has_joined_ranks(self) -> bool:
        """Return whether any rank has called ``join`` and waits there for the others."""
        return bool(self._joined)

    def list_missed_steps(self) -> list[tuple[int, int, int]]:
        """Return (rank, channel, step) for each rank that has called ``join`` and must take part
        with zeros in a step that other ranks have started.
        """
        return self._find_missed_steps()

    def list_pending(self) -> list[IncompleteRequest]:
        """Return the requests that some ranks have submitted and others have not, oldest first.

        ``join`` is omitted, because a rank normally waits in it as long as other ranks have data.
        """
        requests = []
        for key, waiting in self._table.items():
            members = self.sets.get(key.set_id, ())
            here = self._record_arrival(key, waiting)
            requests.append(
                IncompleteRequest(
                    key,
                    waiting.since,
                    tuple(r for r in members if r in here),
                    tuple(r for r in members if r not in here),
                )
            )
        return requests

    def has_pending(self) -> bool:
        """Return whether any rank waits in a request for another rank."""
        return bool(self._table or self._joined)

    def read_clock(self) -> float:
        """Return the current time of the clock that ``IncompleteRequest.since`` uses (by default
        monotonic), in seconds.
        """
        return self._clock()

    # Implementation

    def _record_join(self, rank: int, key: RequestKey, handle: int, ask: RequestMetadata) -> None:
        self._joined[rank] = (key, handle)
        self._last_joined = rank
        for waiting_key, waiting in list(self._table.items()):
            if waiting_key.set_id == 0:
                self._respond_if_complete(waiting_key, waiting, self.sets[0])
        if len(self._joined) == self._size:
            handles = {r: h for r, (_, h) in self._joined.items()}
            self._ready.append(
                Response(Kind.JOIN, self.sets[0], [ask], [handles], self._last_joined, None, [key])
            )
            self._joined = {}

    def _record_arrival(self, key: RequestKey, waiting: _Waiting) -> Iterable[int]:
        return {*waiting.asks, *self._joined} if key.set_id == 0 and self._joined else waiting.asks

    def _respond_if_complete(
        self, key: RequestKey, waiting: _Waiting, members: tuple[int, ...]
    ) -> None:
        # Counted first: with 1,000 ranks, sets of them for each request would take 40 ms.
        if len(waiting.asks) + len(self._joined) < len(members):
            return
        if len(waiting.asks) < len(members) and not set(members) <= set(
            self._record_arrival(key, waiting)
        ):
            return
        del self._table[key]
        for rank in members:  # one of its threads continues
            self._blocked.pop(rank, None)
        asks = [waiting.asks[rank] for rank in members if rank in waiting.asks]
        first = asks[0]
        error = describe_disagreement(str(key), members, waiting.asks)
        if error is None and len(asks) < len(members):
            error = describe_joined_refusal(str(key), first)
        response = Response(first.kind, members, [first], [waiting.handles], None, error, [key])
        if error is None:
            self._fill_response(response, first, members, waiting.asks)
        self._ready.append(response)

    def _fill_response(
        self,
        response: Response,
        first: RequestMetadata,
        members: tuple[int, ...],
        asks: dict[int, RequestMetadata],
    ) -> None:
        if first.kind == Kind.ALLGATHER:
            response.data = [
                [_count_rows(asks[rank].shapes[at]) for rank in members]
                for at in range(len(first.shapes))
            ]
        elif first.kind == Kind.ALLTOALL:
            sent = [_compute_splits(asks[rank], len(members)) for rank in members]
            response.data = [[row[to] for row in sent] for to in range(len(members))]
        elif first.kind == Kind.ADD_SET:
            ranks = tuple(int(rank) for rank in first.extra.split(","))
            if ranks not in self.sets.values():
                response.data = self._next_set
                self.sets[self._next_set] = ranks
                self._next_set += 1
        elif first.kind == Kind.REMOVE_SET:
            number = int(first.extra)
            if self.sets.pop(number, None) is not None:
                response.data = number
                orphans = [key for key in self._table if key.set_id == number]
                self._fail_requests(orphans, f"Process set {number} was removed.")
        elif first.kind == Kind.CHANNEL and len(asks) == len(members):
            response.data = self._next_channel
            self._channel_sets[self._next_channel] = first.set_id
            self._next_channel += 1

    def _fail_requests(self, keys: Sequence[RequestKey], error: str) -> None:
        for key in keys:
            waiting = self._table.pop(key, None)
            if waiting is None:
                continue
            asks = list(waiting.asks.values())
            self._ready.append(
                Response(
                    key.kind, tuple(waiting.asks), asks[:1], [waiting.handles], None, error, [key]
                )
            )

    def _is_waiting(self, rank: int, key: RequestKey) -> bool:
        waiting = self._table.get(key)
        return waiting is not None and rank in waiting.asks

    def _find_missed_steps(self) -> list[tuple[int, int, int]]:
        if not self._joined:
            return []
        behind = []
        for channel, steps in self._steps.items():
            if self._channel_sets.get(channel) != 0:
                continue
            newest = max(steps.values())
            for rank in self._joined:
                # One step at a time: others begin the next when this one has ended.
                if steps.get(rank, -1) < newest:
                    steps[rank] = newest
                    behind.append((rank, channel, newest))
        return behind


def _fusion_key(response: Response) -> Any:
    """Return the properties that allreduces must have in common to be executed as one; None if this
    response cannot be combined with others.
    """
    first = response.asks[0]
    if (
        response.error is not None
        or first.kind != Kind.ALLREDUCE
        or first.op == ReduceOp.ADASUM
        or len(set(first.dtypes)) != 1
        or _count_bytes(first) > _FUSED_AT_MOST
    ):
        return None
    return (
        first.set_id,
        first.dtypes[0],
        first.op,
        first.prescale,
        first.postscale,
        first.device,
        frozenset(response.handles[0]),
    )


def _count_bytes(ask: RequestMetadata) -> int:
    total = 0
    for dtype, shape in zip(ask.dtypes, ask.shapes, strict=True):
        count = 1
        for length in shape:
            count *= length
        total += count * find_dtype(dtype).itemsize
    return total


def _count_rows(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 1


def _compute_splits(ask: RequestMetadata, members: int) -> tuple[int, ...]:
    if ask.splits is not None:
        return ask.splits
    return (_count_rows(ask.shapes[0]) // members,) * members
