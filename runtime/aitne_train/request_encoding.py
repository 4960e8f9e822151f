"""Encoding of the messages about requests between each rank and rank 0. A request's metadata is
sent once; when the rank repeats the request, only a number is sent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from aitne_train.collective_coordinator import Response
from aitne_train.collective_request import Kind, RequestMetadata

_CAPACITY = int(os.environ.get("HOROVOD_CACHE_CAPACITY", "1024"))
"""Maximum number of requests whose metadata is cached (``HOROVOD_CACHE_CAPACITY``). The metadata of
others is sent each time."""


class RequestEncoder:
    """Encoder of the requests that a rank sends to rank 0. For a request with the same metadata as
    an earlier one, it sends only the number of the metadata in a cache.
    """

    def __init__(self) -> None:
        self._known: dict[RequestMetadata, int] = {}

    def pack_request(self, handle: int, number: int, ask: RequestMetadata) -> list[Any]:
        """Return the message for one request: its handle, its sequence number (-1 if it has a
        name), the number of its metadata ``ask`` in the cache, and, unless rank 0 knows it already,
        ``ask`` itself.

        The cache number is -1 if the metadata is not cached.
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
    """Decoder of the requests that rank 0 gets from one rank, with the same cache as that rank's
    encoder.
    """

    def __init__(self) -> None:
        self._known: dict[int, RequestMetadata] = {}

    def unpack_request(self, message: Sequence[Any]) -> tuple[int, int, RequestMetadata]:
        """Return the handle, the sequence number and the metadata of the request in a message."""
        handle, number, index = message[:3]
        if len(message) == 3:
            return handle, number, self._known[index]
        ask = RequestMetadata.from_wire(message[3])
        if index >= 0:
            self._known[index] = ask
        return handle, number, ask


def encode_response(rank: int, response: Response) -> list[Any]:
    """Return the message that sends a response to rank ``rank``.

    It contains kind, process set, this rank's handles (-1: the rank has joined), the metadata of
    the requests for which it has no handle, data and error.
    """
    handles = [handles_by_rank.get(rank, -1) for handles_by_rank in response.handles]
    asks = [ask for ask, handle in zip(response.asks, handles, strict=True) if handle < 0]
    data = response.data
    if response.kind == Kind.ALLTOALL and data is not None:
        data = data[response.members.index(rank)]
    return [response.kind, response.asks[0].set_id, handles, asks, data, response.error]


def is_common_to_ranks(response: Response) -> bool:
    """Return whether the message for this response is the same for all ranks of the process set, so
    that it can be encoded once.
    """
    if response.kind == Kind.ALLTOALL:
        return False
    members = len(response.members)
    return all(
        len(handles) == members and len(set(handles.values())) == 1 for handles in response.handles
    )


def format_ranks(numbers: Sequence[int]) -> str:
    """Return the ranks as text, such as ``rank 3`` or ``ranks 1, 2``."""
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(map(str, numbers))}"
