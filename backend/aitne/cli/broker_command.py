"""Entry point of the command ``aitne-broker``. The broker is a part of the server, which an
installation of the client does not have."""

from __future__ import annotations

import sys

from aitne.cli import server_package_check

CLIENT_ONLY = (
    "aitne-broker: This installation is the client, and the broker belongs to the server. Install it on Slurm's "
    'submission host: pip install "aitne[server]"'
)


def run_broker() -> None:
    """Run the broker and exit with its status. Without the server's packages, print how to install
    them, and exit with status 1."""
    if not server_package_check.is_server_installed():
        sys.exit(CLIENT_ONLY)
    from aitne.broker.main import main

    sys.exit(main())
