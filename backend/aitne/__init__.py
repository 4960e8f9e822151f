"""Aitne: a multi-user, interactive machine-learning cluster platform."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client import Client

__all__ = ["Client", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The agent imports this package beside every job: what it does not use must cost it nothing.
    if name == "Client":
        from aitne.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
