"""Messages between ranks and rank 0 about requests: complete the first time, a number later."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from aitne.distrib.coordinator import Response
from aitne.distrib.types import Kind, RequestMetadata

_CAPACITY = int(os.environ.get("HOROVOD_CACHE_CAPACITY", "1024"))
"""Number of asks that a rank caches as sent. Later ones are sent completely each time."""


class RequestEncoder:
    """Encoder of the requests that a rank sends to rank 0. A request that repeats an earlier one is
    sent as its number in a cache.
    """

    def __init__(self) -> None:
        self._known: dict[RequestMetadata, int] = {}

    def pack(self, handle: int, number: int, ask: RequestMetadata) -> list[Any]:
        """Return the message for one request: its handle, its number, and the number of its
        metadata ``ask`` in the cache.

        ``ask`` itself is appended until rank 0 knows it. The cache number -1 means that it is not
        cached.
        """
        index = self._known.get(ask)
        if index is not None:
            return [handle, number, index]
        index = len(self._known)
        if index >= _CAPACITY:
            return [handle, number, -1, ask]
        self._known[ask] = index
        return [handle, number, index, ask]


class RequestDecoder:
    """Decoder of the requests that one rank sends to rank 0, with the same cache as the rank's
    encoder.
    """

    def __init__(self) -> None:
        self._known: dict[int, RequestMetadata] = {}

    def unpack(self, message: Sequence[Any]) -> tuple[int, int, RequestMetadata]:
        """Return handle, number and metadata of the request in a message."""
        handle, number, index = message[:3]
        if len(message) == 3:
            return handle, number, self._known[index]
        ask = RequestMetadata.from_wire(message[3])
        if index >= 0:
            self._known[index] = ask
        return handle, number, ask


def response_for(rank: int, response: Response) -> list[Any]:
    """Return the message that sends a response to one rank.

    It contains kind, process set, this rank's handles (-1: it has joined), the metadata of the
    requests without a handle, data and error.
    """
    handles = [handles_by_rank.get(rank, -1) for handles_by_rank in response.handles]
    asks = [ask for ask, handle in zip(response.asks, handles, strict=True) if handle < 0]
    data = response.data
    if response.kind == Kind.ALLTOALL and data is not None:
        data = data[response.members.index(rank)]
    return [response.kind, response.asks[0].set_id, handles, asks, data, response.error]


def is_common(response: Response) -> bool:
    """Return whether all members get the same message, as they do if the program makes the same
    requests on each rank.
    """
    if response.kind == Kind.ALLTOALL:
        return False
    members = len(response.members)
    return all(
        len(handles) == members and len(set(handles.values())) == 1 for handles in response.handles
    )


def ranks(numbers: Sequence[int]) -> str:
    """Return a list of ranks such as ``rank 3`` or ``ranks 1, 2``."""
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(map(str, numbers))}"
