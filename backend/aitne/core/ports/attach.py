"""Start of a program beside the job's own, in its allocation and as its account."""

from __future__ import annotations

import socket
from typing import Protocol

from aitne.core.models.base import Frozen
from aitne.core.ports.files import JobLocation
from aitne.core.ports.scheduler import Run


class AttachTarget(Frozen):
    """Running attempt and node to attach to."""

    run: Run
    place: JobLocation
    """Its files, which have what the program beside it needs."""
    node: str
    """One of the allocation's."""
    agent: tuple[str, ...]
    """The agent's argument vector, up to its options."""


class Attacher(Protocol):
    """Port for attaching. A scheduler that supports it names one as ``attacher``; it is created
    with the settings and ``Tools``."""

    async def attach(self, target: AttachTarget) -> socket.socket:
        """Start the agent with ``--attach`` on the node; return a socket to its standard input and
        output.

        The agent and its program end when the socket is closed, also by the end of this process,
        and when the job ends.

        Raises:
            SchedulerRejected: no such attempt runs there, or its account may not.
            NotSupported: this scheduler cannot attach programs.
            RateLimited: too many programs are attached already.
            Unavailable: the outcome is unknown, and nothing was started.
        """
        ...

    async def close(self) -> None:
        """Release all resources; attached terminals stay attached."""
        ...
