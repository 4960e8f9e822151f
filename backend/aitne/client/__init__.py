"""Typed HTTP client of the platform: the Python SDK.

::

    from aitne import Client

    with Client() as aitne:                       # finds the platform as the command line does
        job = aitne.jobs.create({"name": "hello", "commands": ["echo hello"]})
        for chunk in aitne.jobs.follow_logs(job.id):
            print(chunk.decode(), end="")
        print(aitne.jobs.wait(job.id).state)

It uses the standard library alone: importing it takes a fraction of the time of an HTTP framework,
and commands such as `aitne ps` run often. Errors are those of ``aitne.core.errors`` and
``aitne.client.errors``. ``AsyncClient`` has the same methods for programs with an event loop.
"""

from __future__ import annotations

from aitne.client.client import Client
from aitne.client.platform_discovery import Platform, find_platform
from aitne.client.records import Event, Job, Node, Plan, Template, Token, User

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client.aio import AsyncClient

__all__ = [
    "AsyncClient",
    "Client",
    "Event",
    "Job",
    "Node",
    "Plan",
    "Platform",
    "Template",
    "Token",
    "User",
    "find_platform",
]


def __getattr__(name: str) -> object:
    # The command line does without: it shall not wait for asyncio.
    if name == "AsyncClient":
        from aitne.client.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
