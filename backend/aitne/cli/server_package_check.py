"""Check for the packages that are needed to run a platform; a client can be installed without
them."""

from __future__ import annotations

from importlib.util import find_spec

CLIENT_ONLY = (
    "This installation is the client: it works with a platform on another machine "
    "(`aitne login URL`). To run a platform on this machine, install the server: "
    'pip install "aitne[server]"'
)


def is_server_installed() -> bool:
    """Return whether the server's packages are installed."""
    return find_spec("fastapi") is not None


def require_server() -> None:
    """Check that the server's packages are installed. Raises ``SetupError``."""
    if not is_server_installed():
        from aitne.core.errors import SetupError

        raise SetupError(CLIENT_ONLY)
