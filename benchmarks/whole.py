"""A complete platform as a user starts it, with a home and a data directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.ports import reserve_ports

from aitne.local_system.platform_folders import cache_dir
from benchmarks.processes import BenchmarkError, Http

AITNE = Path(sys.executable).with_name("aitne")
UP_S = 900.0
"""The first start on a machine creates the environments."""
DOWN_S = 90.0


@dataclass(frozen=True, slots=True)
class Whole:
    """A running platform with its data directory and administrator token."""

    port: int
    folder: Path
    data_dir: Path
    env: dict[str, str]
    token: str

    def http(self) -> Http:
        """Return a connection to the API as the administrator."""
        return Http(self.port, {"Authorization": f"Bearer {self.token}"})

    def secret(self, name: str) -> str:
        """Return one of the platform's secrets."""
        return (self.data_dir / "secrets" / name).read_text().strip()

    def status(self) -> dict[str, Any]:
        """Return the supervisor's status, as `aitne status --json` prints it."""
        answer = _aitne(self.env, "status", "--data-dir", str(self.data_dir), "--json")
        found: dict[str, Any] = json.loads(answer)
        return found


@contextmanager
def platform(**settings: str) -> Iterator[Whole]:
    """Run a platform during the block; ``settings`` are ``AITNE_*`` variables without the prefix."""
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        folder = Path(name)
        home, data_dir, port = folder / "home", folder / "data", reserve_ports(4)
        home.mkdir()
        env = {name: text for name, text in os.environ.items() if not name.startswith("AITNE_")}
        env |= {
            "HOME": str(home),
            # The environments are shared, what is running now is not.
            "XDG_CACHE_HOME": str(cache_dir().parent),
            "XDG_STATE_HOME": str(folder / "state"),
            **{f"AITNE_{key.upper()}": text for key, text in settings.items()},
        }
        where = ("--data-dir", str(data_dir))
        try:
            _aitne(env, "up", *where, "--port", str(port), "--detach", within_s=UP_S)
            token = (data_dir / "secrets" / "cli_token").read_text().strip()
            yield Whole(port, folder, data_dir, env, token)
        finally:
            if data_dir.exists():
                _aitne(env, "down", *where, within_s=DOWN_S)


def _aitne(env: dict[str, str], *arguments: str, within_s: float = 60.0) -> str:
    done = subprocess.run(
        [AITNE, *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(
            f"aitne {arguments[0]} ended with {done.returncode}: {done.stderr[-500:]}"
        )
    return done.stdout
