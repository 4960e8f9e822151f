"""Start of a program beside the job's own, in its allocation and as its account."""

from __future__ import annotations

import socket
from typing import Protocol

from aitne.core.models.base import Frozen
from aitne.core.ports.files import JobLocation
from aitne.core.ports.scheduler import Run


class AttachTarget(Frozen):
    """The running attempt and the node on which a program, such as a shell, is to be started."""

    run: Run
    place: JobLocation
    """Location of the attempt's files, which include what the started program needs."""
    node: str
    """Name of one of the nodes of the attempt's allocation."""
    agent: tuple[str, ...]
    """Argument vector that starts the agent, without its options."""


class Attacher(Protocol):
    """Port that starts programs inside the allocation of a running job, for terminals and SSH.

    A scheduler that supports this has a class attribute ``attacher``, which creates the attacher
    from the settings and ``Tools``.
    """

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
