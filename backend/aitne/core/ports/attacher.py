"""Start of a program in the allocation of a running job, next to the job's own program and under
its account.
"""

from __future__ import annotations

import socket
from typing import Protocol

from aitne.core.models.base import Frozen
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import Run


class AttachTarget(Frozen):
    """The running attempt and the node on which a program, such as a shell, is to be started."""

    run: Run
    place: JobLocation
    """Location of the files of the attempt, which include those that the started program needs."""
    node: str
    """Name of one of the nodes of the attempt's allocation."""
    agent: tuple[str, ...]
    """Command that starts the agent, as a list of arguments without its options."""


class Attacher(Protocol):
    """Port that starts programs inside the allocation of a running job, for terminals and SSH.

    A scheduler that supports this has a class attribute ``attacher``, which creates the attacher
    from the settings and ``Tools``.
    """

    async def attach(self, target: AttachTarget) -> socket.socket:
        """Start the agent with ``--attach`` on the node, in the allocation of the running job;
        return a socket that is connected to its standard input and output.

        The agent and the program that it starts end when the job ends, or when the socket is
        closed, for example because the calling process has ended.

        Raises:
            SchedulerRejected: no such attempt runs on the node, or the scheduler does not permit it
                to the account.
            NotSupported: this scheduler cannot start programs in running jobs.
            RateLimited: too many programs were started in this way already.
            Unavailable: the scheduler or node did not answer; no connection exists.
        """
        ...

    async def close(self) -> None:
        """Release all resources; terminals that are open stay open."""
        ...
