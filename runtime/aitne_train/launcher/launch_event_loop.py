"""Main loop of the launcher, which processes signals, ended ranks, and messages between nodes and
coordinator."""

from __future__ import annotations

import json
import queue
import signal
import socket
import threading
import time

from aitne_train.launcher import frames
from aitne_train.launcher.launch_coordinator import LOST, LaunchCoordinator
from aitne_train.launcher.output_relay import print_message
from aitne_train.launcher.rendezvous_store_server import RendezvousServer

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from typing import Any

    from aitne_train.launcher.launch_node import LaunchNode

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ASKING = (signal.SIGINT,)
"""Signals that kill the ranks if they are received again. SIGTERM is not one of them: a scheduler
sends it to all processes, and the parent of this process forwards it too."""
_NEVER_S = 3600.0


class LaunchSupervisor:
    """Main loop of a launcher, on its main thread: runs a node's ranks, coordinates all nodes, or
    both.

    It is created before its node and its coordinator, because they send messages through it.
    """

    def __init__(self) -> None:
        # Its put may be called by a signal handler that has interrupted another put.
        self._events: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._asked = 0
        self.node: LaunchNode | None = None
        self.index = 0
        self.coordinator: LaunchCoordinator | None = None
        self.server: RendezvousServer | None = None
        self.line: socket.socket | None = None
        self.passed_on = range(0)
        """Numbers of the nodes to which signals received by this process are forwarded."""

    # --- interface -------------------------------------------------------------------------------

    def queue_message(self, name: str, payload: bytes | None) -> None:
        """Queue a message from another node, whose connection is named ``name``; None: the
        connection has ended. Called on the server's thread."""
        message = None if payload is None else json.loads(payload)
        self._events.put(("report", int(name), message))

    def queue_rank_end(self, generation: int, rank: int, code: int) -> None:
        """Queue the end of a rank with its exit code. Called on a thread of the rank.
        ``generation`` is the number of the start to which the rank belongs."""
        self._events.put(("rank", generation, rank, code))

    def queue_child_end(self, node: int, code: int) -> None:
        """Queue that the command which started a node's launcher has ended, with its exit code."""
        self._events.put(("child", node, code))

    def report_to_coordinator(self, message: dict[str, Any]) -> None:
        """Send a message of this node to the coordinator, which is in this process or on the first
        node."""
        if self.line is None:
            self._events.put(("report", self.index, message))
            return
        try:
            self.line.sendall(frames.encode_frame(json.dumps(message).encode()))
        except OSError:
            self._events.put(("order", None))

    def send_order(self, node: int, message: dict[str, Any]) -> None:
        """Send an order of the coordinator, which is in this process, to a node."""
        if self.node is not None and node == self.index:
            self._events.put(("order", message))
        elif self.server is not None:
            self.server.send(str(node), json.dumps(message).encode())

    def listen(self, line: socket.socket) -> None:
        """Receive orders of the coordinator on another node over the connection ``line``, in a
        separate thread."""
        self.line = line
        threading.Thread(
            target=self._read_orders, args=(line,), name="aitne-orders", daemon=True
        ).start()

    def forward_signals(self) -> None:
        """Forward signals to the ranks from now on; they no longer end the launcher directly."""
        for number in FORWARDED:
            if (
                signal.getsignal(number) != signal.SIG_IGN
            ):  # ignored by nohup or for a background job
                signal.signal(number, self._on_signal)

    # --- the loop --------------------------------------------------------------------------------

    def run(self) -> int:
        """Process events until the run has ended, and return its exit code."""
        try:
            while True:
                code = self._handle_next_event()
                if code is not None:
                    return code
        finally:
            if self.node is not None:
                self.node.clean_up()

    def _handle_next_event(self) -> int | None:
        deadlines = [
            part.deadline
            for part in (self.node, self.coordinator)
            if part is not None and part.deadline is not None
        ]
        wait_s = min([*deadlines, time.monotonic() + _NEVER_S]) - time.monotonic()
        try:
            event = self._events.get(timeout=max(0.0, wait_s))
        except queue.Empty:
            event = ("time",)
        now = time.monotonic()
        if event[0] == "order":
            if event[1] is None:
                print_message("the first node is lost: the ranks of this one are terminated")
                return LOST
            if event[1]["kind"] == "over":
                return int(event[1]["code"])
            if self.node is not None:
                self.node.handle_order(event[1])
        elif event[0] == "report" and self.coordinator is not None:
            self.coordinator.handle_message(event[1], event[2], now)
        elif event[0] == "rank" and self.node is not None:
            self.node.rank_ended(*event[1:])
        elif event[0] == "child" and self.coordinator is not None:
            self.coordinator.handle_message(event[1], None, now)
        elif event[0] == "signal":
            self._report_signal(event[1])
        for part in (self.node, self.coordinator):
            if part is not None:
                part.tick(now)
        if self.node is None and self.coordinator is not None:
            return self.coordinator.code  # a node carries out its orders first
        return None

    def _on_signal(self, number: int, _frame: object) -> None:
        if number in _ASKING:
            self._asked += 1
            if self._asked > 1:
                number = signal.SIGKILL  # a second request is not to wait
        if self.node is not None:
            self.node.signal_ranks(number)
        self._events.put(("signal", number))

    def _report_signal(self, number: int) -> None:
        for index in self.passed_on:
            self.send_order(index, {"kind": "signal", "number": int(number)})
        if number != signal.SIGKILL:
            self.report_to_coordinator({"kind": "told", "number": int(number)})

    def _read_orders(self, line: socket.socket) -> None:
        try:
            while True:
                self._events.put(("order", json.loads(frames.receive_frame(line))))
        except OSError:
            self._events.put(("order", None))
