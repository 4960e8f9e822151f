"""Aitne: a multi-user, interactive machine-learning cluster platform."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The agent imports this package beside every job: what it does not use must cost it nothing.
    if name in ("AsyncClient", "Client"):
        import aitne.client

        return getattr(aitne.client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
