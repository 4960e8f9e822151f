"""Connection of a kernel to the ranks of a group, with ipyparallel's client. Results and output are
not stored in the client.

Requests go through the broadcast scheduler, a single process, so that requests of several kernels
reach all ranks in the same order. Only code that uses a rank group imports this module.
"""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any, NamedTuple

from ipyparallel import Client
from ipyparallel.client.client import unpack_message

from aitne_train.notebook.rank_group_connection_files import CLIENT, Rank, read_ranks

_CONNECT_S = 20.0
_SUBSCRIBED_S = 5.0
_LOOK_S = 0.2
_KINDS = ("execute_reply", "push_reply", "pull_reply", "reconnect_reply")
_NOTICES = ("death_notification", "end_notification", "idle_notification")


class RankAnswerError(Exception):
    """Error: the controller of the group does not answer, or refuses a request."""


class RankEvent(NamedTuple):
    """Event of a request on one rank."""

    kind: str
    """``busy``, ``idle``, ``output``, ``reply``, ``lost`` (the rank has ended) or ``interrupt`` (of
    this kernel)."""
    rank: int
    """Number of the rank; -1 for ``interrupt``."""
    message: Mapping[str, Any]
    """Message of the rank; empty for ``interrupt``."""


class RankRequest:
    """A request to several ranks, with a queue of its events."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = tuple(ranks)
        self.message_ids: dict[int, str] = {}
        self._events: queue.SimpleQueue[RankEvent] = queue.SimpleQueue()

    def put(self, event: RankEvent) -> None:
        """Add an event. May be called on any thread, and by a signal handler."""
        self._events.put(event)

    def wait_for_event(self, timeout_s: float) -> RankEvent | None:
        """Return the next event; None if there is none within ``timeout_s`` seconds."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None


class _RankClient(Client):
    """ipyparallel's client, except that replies and output become events of their request."""

    def _connect(self, *arguments: Any) -> None:
        self._requests: dict[str, tuple[RankRequest, int]] = {}
        self._notify: Callable[[str, Mapping[str, Any]], None] = lambda _kind, _content: None
        for kind in _KINDS:
            self._queue_handlers[kind] = self._on_reply
        for kind in _NOTICES:
            self._notification_handlers[kind] = self._on_notice
        super()._connect(*arguments)

    def activate(self, *_arguments: Any, **_named: Any) -> None:
        """Do nothing: ipyparallel's own magics are not registered."""

    def start(
        self,
        kind: str,
        content: Mapping[str, Any],
        ranks: Sequence[int],
        buffers: Sequence[Any],
    ) -> RankRequest:
        request = RankRequest(ranks)
        present = [rank for rank in ranks if rank in self._engines]
        targets = [(self._engines[rank], rank) for rank in present]
        metadata = {"targets": targets, "is_broadcast": True, "is_coalescing": False}
        message = self.session.msg(kind, content=dict(content), metadata=metadata)
        for engine, rank in targets:
            message_id = f"{message['header']['msg_id']}_{engine}"
            request.message_ids[rank] = message_id
            self._requests[message_id] = (request, rank)
        if present:
            self._io_loop.add_callback(
                lambda: self.session.send(self._broadcast_socket, message, buffers=list(buffers))
            )
        for rank in set(ranks) - set(present):
            request.put(RankEvent("lost", rank, {}))
        return request

    def forget(self, request: RankRequest) -> None:
        for message_id in request.message_ids.values():
            self._requests.pop(message_id, None)

    def _on_reply(self, message: Mapping[str, Any]) -> None:
        found = self._requests.get(message["parent_header"].get("msg_id", ""))
        if found is not None:
            found[0].put(RankEvent("reply", found[1], message))

    def _on_notice(self, message: Mapping[str, Any]) -> None:
        self._notify(message["header"]["msg_type"], message["content"])

    def _handle_stranded_msgs(self, eid: int, uuid: str) -> None:
        for request, rank in list(self._requests.values()):
            if rank == eid:
                request.put(RankEvent("lost", rank, {}))

    @unpack_message
    def _dispatch_iopub(self, message: Mapping[str, Any]) -> None:
        kind = message["header"]["msg_type"]
        if kind.startswith("comm_"):
            Client._dispatch_iopub.__wrapped__(self, message)
            return
        found = self._requests.get(message["parent_header"].get("msg_id", ""))
        if found is None:
            return
        if kind == "status":
            kind = message["content"]["execution_state"]
        elif kind != "execute_input":
            kind = "output"
        found[0].put(RankEvent(kind, found[1], message))


class GroupConnection:
    """Connection of this kernel to a rank group.

    Args:
        folder: folder of the group.
        info: content of ``client.json``.
        notify: called on another thread with the kind of a notice of the controller (``death``,
            ``end`` or ``idle``) and its content.

    Raises:
        RankAnswerError: the controller does not answer.
    """

    def __init__(
        self,
        folder: Path,
        info: Mapping[str, Any],
        notify: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._folder = folder
        self.ranks: dict[int, Rank] = {rank.rank: rank for rank in read_ranks(info)}
        self.client_id = ""
        self.deaths: dict[int, str] = {}
        self.message = ""
        """Why the group ends; empty before."""
        self._listener = notify
        try:
            self._client = _RankClient(dict(info), timeout=_CONNECT_S)
        except (TimeoutError, OSError) as error:
            raise RankAnswerError(
                "the ranks do not answer: their node may be lost, or a firewall separates it from this one"
            ) from error
        self._client._notify = self._on_notice
        self.client_id = self._client.session.session
        self._wait_for_subscription()

    @property
    def is_removed(self) -> bool:
        """Return whether the connection files of the group were removed, which happens when the
        group ends."""
        return not (self._folder / CLIENT).exists()

    @property
    def alive_ranks(self) -> list[int]:
        """Return the ranks that have not ended."""
        return sorted(self._client.ids)

    def start(
        self,
        kind: str,
        content: Mapping[str, Any],
        ranks: Sequence[int],
        buffers: Sequence[Any] = (),
    ) -> RankRequest:
        """Send a request to ranks, and return the request, which receives the events. Call
        ``finish`` afterwards.

        Args:
            kind: type of the message.
            content: content of the message.
            ranks: receivers.
            buffers: binary buffers of the message.
        """
        return self._client.start(kind, content, ranks, buffers)

    def finish(self, request: RankRequest) -> None:
        """Unregister a request. Messages that arrive for it later are ignored."""
        self._client.forget(request)

    def cancel(self, request: RankRequest) -> None:
        """Cancel a request on all ranks that have not begun to execute it."""
        for rank, message_id in request.message_ids.items():
            self._send_to_engine("abort_request", rank, {"msg_ids": [message_id]})

    def signal(self, number: signal.Signals, ranks: Sequence[int]) -> None:
        """Ask the controller to send a signal to ranks. Does not wait until it is delivered."""
        content = {"number": int(number), "ranks": list(ranks)}
        self._client._send(self._client._query_socket, "signal_request", content=content)

    def ask_controller(
        self, kind: str, content: Mapping[str, Any] | None = None, timeout_s: float = _CONNECT_S
    ) -> dict[str, Any]:
        """Send a request to the controller and return the content of its answer.

        Args:
            kind: type of the request, such as ``release_request``.
            content: content of the request; None: empty.
            timeout_s: maximum number of seconds to wait.

        Raises:
            RankAnswerError: the controller does not answer in time, or returns an error.
        """
        future = self._client._send(self._client._query_socket, kind, content=dict(content or {}))
        try:
            answer = future.result(timeout_s)
        except (TimeoutError, FutureTimeoutError) as error:
            raise RankAnswerError("the controller of the ranks does not answer") from error
        found: dict[str, Any] = answer["content"]
        if found.get("status") == "error":
            raise RankAnswerError(str(found.get("evalue")))
        return found

    def ping_controller(self) -> Callable[[], bool]:
        """Send a request to the controller without waiting, to check that it is alive. The returned
        function returns True after the answer has arrived."""
        future = self._client._send(self._client._query_socket, "ranks_request", content={})
        done: Callable[[], bool] = future.done
        return done

    def locate_ranks(
        self, ranks: Sequence[int], timeout_s: float = 2.0
    ) -> dict[int, dict[str, Any]]:
        """Return the position of each rank in the running cell, by rank.

        A position has ``line`` (line number in the cell; None: no cell is running), ``text``
        (source of this line), ``called`` (name of the innermost called function) and ``exchanges``
        (whether the rank may wait for others there). Ranks that do not answer within ``timeout_s``
        seconds are omitted.
        """
        return self.ask_ranks("where_request", ranks, timeout_s)

    def ask_ranks(
        self,
        kind: str,
        ranks: Sequence[int],
        timeout_s: float,
        content: Mapping[str, Any] | None = None,
    ) -> dict[int, dict[str, Any]]:
        """Send a request that ranks answer while they execute a cell, and return the content of the
        answers by rank. Ranks that do not answer within ``timeout_s`` seconds are omitted.
        """
        asked = {rank: self._send_to_engine(kind, rank, content or {}) for rank in ranks}
        give_up = time.monotonic() + timeout_s
        answers = {}
        for rank, future in asked.items():
            if future is None:
                continue
            try:
                answer = future.result(max(0.0, give_up - time.monotonic()))
            except (TimeoutError, FutureTimeoutError):
                continue
            answers[rank] = answer["content"]
        return answers

    def close(self) -> None:
        """Close the connection to the group, which continues."""
        self._client.close(linger=0)

    def _send_to_engine(self, kind: str, rank: int, content: Mapping[str, Any]) -> Any:
        engine = self._client._engines.get(rank)
        if engine is None:
            return None
        return self._client._send(
            self._client._control_socket, kind, content=dict(content), ident=engine.encode()
        )

    def _wait_for_subscription(self) -> None:
        """Wait at most ``_SUBSCRIBED_S`` seconds until this client receives the output of ranks.
        A subscription does not take effect immediately, and earlier output would be lost."""
        alive = self.alive_ranks
        give_up = time.monotonic() + _SUBSCRIBED_S
        while alive and time.monotonic() < give_up:
            probe = RankRequest(alive[:1])
            future = self._send_to_engine("where_request", alive[0], {})
            message_id = future.msg_id
            self._client._requests[message_id] = (probe, alive[0])
            event = probe.wait_for_event(_LOOK_S)
            self._client._requests.pop(message_id, None)
            if event is not None:
                return

    def _on_notice(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "death_notification":
            self.deaths[content["rank"]] = content["text"]
        elif kind == "end_notification":
            self.message = content["message"]
        self._listener(kind.removesuffix("_notification"), content)
