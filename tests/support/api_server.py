"""The API as a process of its own, on a database of its own, with an administrator's token."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.ports import reserve_ports
from tests.support.waiting import eventually


class Server:
    """One platform without its controller."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.port = port = reserve_ports()
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.environment = {
            **os.environ,
            "AITNE_DATA_DIR": str(folder),
            "AITNE_PORT": str(port),
            **variables,
        }

    def prepare(self) -> None:
        """Make the database, the first administrator and the token."""
        subprocess.run(
            [sys.executable, "-m", "aitne.controller", "init"],
            env=self.environment,
            check=True,
            capture_output=True,
            timeout=60,
        )

    def start(self, *, most_files: int | None = None) -> subprocess.Popen[bytes]:
        """Start it, with a limit of open files unless that is None; see ``wait``."""
        limit = [] if most_files is None else ["prlimit", f"--nofile={most_files}"]
        return subprocess.Popen(
            [*limit, sys.executable, "-m", "aitne.api"],
            env=self.environment,
            stderr=subprocess.PIPE,
        )

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the server answers its health check, as long as a test may take."""

        def is_healthy() -> bool:
            assert process.poll() is None, process.communicate()[1].decode()
            try:
                return httpx.get(f"{self.url}/healthz").status_code == 200
            except httpx.TransportError:
                return False

        eventually("the API answers", is_healthy, within_s=110, poll_s=0.1)

    @property
    def token(self) -> str:
        """The administrator's API token."""
        return (self.folder / "secrets" / "cli_token").read_text().strip()

    def headers(self) -> dict[str, str]:
        """Return the headers of the administrator's requests."""
        return {"Authorization": f"Bearer {self.token}"}
