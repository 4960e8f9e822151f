"""Aitne: a multi-user, interactive machine-learning cluster platform."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client import AsyncClient, Client
    from aitne.client.function_shortcuts import (
        Future,
        FutureArray,
        as_completed,
        future,
        futures,
        job,
        map,  # noqa: A004 - as concurrent.futures calls it
        notify,
        submit,
    )

__all__ = [
    "AsyncClient",
    "Client",
    "Future",
    "FutureArray",
    "__version__",
    "as_completed",
    "future",
    "futures",
    "job",
    "map",
    "notify",
    "submit",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The agent imports this package beside every job: what it does not use must cost it nothing.
    if name in ("AsyncClient", "Client"):
        import aitne.client

        return getattr(aitne.client, name)
    if name in __all__:
        import aitne.client.function_shortcuts

        return getattr(aitne.client.function_shortcuts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
