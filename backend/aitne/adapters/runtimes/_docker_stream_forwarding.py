"""Forwarding of a container's streams and signals to and from this process's own."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import docker
from docker.errors import APIError, DockerException

_HEADER = 8
"""Length in bytes of the header of each piece of output: the stream's number, three zeros, the
length of the data.
"""
_CHUNK = 65536
_BEGIN_S, _DRAIN_S = 2.0, 10.0
_POLL_S = 0.005


def write_to_log(sentence: str) -> None:
    """Write a line to the job's log."""
    _write_all(2, f"aitne: {sentence}.\n".encode("utf-8", "replace"))


class ContainerStream:
    """Connection to a container's standard streams. It is attached before the container starts, so
    that no output is missed.
    """

    def __init__(self, client: docker.APIClient, url: str, name: str, wake: int) -> None:
        self._client, self._url, self._name, self._wake = client, url, name, wake
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._held = client.attach_socket(name, params=params)
        self._socket: socket.socket = getattr(self._held, "_sock", self._held)
        self._socket.settimeout(None)
        self._pending = b""
        self._answer: int | None = None

    def signals(self) -> list[int]:
        """Return the numbers of the signals that arrived since the last call."""
        try:
            return list(os.read(self._wake, 4096))
        except BlockingIOError:
            return []

    def forward_until_end(self, pid: int, early: Sequence[int]) -> int:
        """Forward input, output and signals until the container has ended; return its exit code.

        ``pid`` is the PID of the container's first process on this machine. ``early`` contains the
        signals that arrived before the container existed.
        """
        exit_pipe, teller = os.pipe()
        threading.Thread(target=self._wait_for_exit, args=(teller,), daemon=True).start()
        threading.Thread(target=self._forward_input, daemon=True).start()
        self._forward_signals(pid, early)
        watched: list[Any] = [self._socket, self._wake, exit_pipe]
        give_up: float | None = None
        while self._socket in watched or exit_pipe in watched:
            remaining_s = None if give_up is None else max(0.0, give_up - time.monotonic())
            ready, _, _ = select.select(watched, [], [], remaining_s)
            if not ready and give_up is not None:
                break  # something else holds its output open
            if self._wake in ready:
                self._forward_signals(pid, self.signals())
            if self._socket in ready and not self._forward_output():
                watched.remove(self._socket)
            if exit_pipe in ready:
                watched.remove(exit_pipe)
                give_up = time.monotonic() + _DRAIN_S
        if self._answer is None:
            write_to_log("Docker's daemon went away while the program ran")
            return 125
        return self._answer

    def _wait_for_exit(self, teller: int) -> None:
        try:
            # A separate client, because two threads cannot share one.
            client = docker.APIClient(self._url, version=self._client.api_version, timeout=None)
            self._answer = int(client.wait(self._name)["StatusCode"])
        except (DockerException, OSError):
            return  # the daemon has stopped: there is no answer
        finally:
            os.close(teller)

    def _forward_input(self) -> None:
        try:
            while chunk := os.read(0, _CHUNK):
                self._socket.sendall(chunk)
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the program has ended, or reads no more

    def _forward_output(self) -> bool:
        """Forward the output that has arrived; return False at the end of the stream."""
        try:
            data = self._socket.recv(_CHUNK)
        except OSError:
            return False
        self._pending += data
        while len(self._pending) >= _HEADER:
            end = _HEADER + int.from_bytes(self._pending[4:_HEADER], "big")
            if len(self._pending) < end:
                break
            _write_all(2 if self._pending[0] == 2 else 1, self._pending[_HEADER:end])
            self._pending = self._pending[end:]
        return bool(data)

    def _forward_signals(self, pid: int, numbers: Sequence[int]) -> None:
        if numbers:
            _wait_for_child(pid)
        for number in numbers:
            try:
                self._client.kill(self._name, signal=number)
            except APIError:
                continue  # it has ended


def _wait_for_child(pid: int) -> None:
    """Wait, at most ``_BEGIN_S`` seconds, until process 1 of the container has started the program.
    Signals that arrive earlier would be lost.
    """
    give_up = time.monotonic() + _BEGIN_S
    while time.monotonic() < give_up:
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                if file.read().strip():
                    return
        except OSError:
            return  # it has ended, or runs where we cannot see it
        time.sleep(_POLL_S)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError:
            return  # a full disk must not change how the job ends
