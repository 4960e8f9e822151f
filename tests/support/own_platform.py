"""A whole platform that root starts and whose jobs run as the Unix accounts of alice and bob."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from aitne.client import Client
from tests.support.broker import remove_account
from tests.support.own_accounts import open_folder, readable_python, system_account
from tests.support.platform import SOFTWARE, RunningPlatform
from tests.support.slurm import root_or_skip

_RUNS = count(1)
_RUN_CLI = "from aitne.cli.main import run; run()"


class OwnPlatform(RunningPlatform):
    """A platform with ``accounts.mode = "own"``; ``accounts`` has the Unix account of each user."""

    def __init__(
        self,
        root: Path,
        platform: str,
        accounts: dict[str, str],
        domain: str,
        config: str,
    ) -> None:
        lines = [
            config,
            *("[accounts]", 'mode = "own"', f'platform = "{platform}"'),
            *("[local]", "cpus = 8"),
            # Made once for all tests.
            *("[slurm]", f'software_dir = "{SOFTWARE}"', "[accounts.map]"),
            *(f'{user} = "{account}"' for user, account in accounts.items()),
        ]
        super().__init__(root, "\n".join(lines), domain=domain)
        self.accounts = accounts
        self.homes = {user: root / "home-of" / account for user, account in accounts.items()}
        python = readable_python()
        self.command = [str(python), "-c", _RUN_CLI]
        self.env["PATH"] = f"{python.parent}{os.pathsep}{self.env['PATH']}"
        for name in ("AITNE_TRUSTED_USERS", "XDG_CACHE_HOME"):
            del self.env[name]

    def client(self, user: str) -> Client:
        """Return an API client of the user, who is created if missing."""
        self.aitne("admin", "user", "create", user)
        return Client(url=self.url, token=self.token_of(user))

    def printed_by(self, user: str, *commands: str) -> str:
        """Return the log of a job that runs these commands as the user."""
        client = self.client(user)
        job = client.jobs.create({"name": "prints", "commands": list(commands)})
        client.jobs.wait(job.id)
        return b"".join(client.jobs.logs(job.id)).decode()


@contextmanager
def own_platform(domain: str = "localhost", *, config: str = "") -> Iterator[OwnPlatform]:
    """Run a platform and its accounts during the block; ``config`` is added to its settings."""
    root_or_skip()
    run = f"{os.getpid()}-{next(_RUNS)}"
    accounts = {user: f"aitne-{user}-{run}" for user in ("alice", "bob")}
    with system_account() as name, open_folder() as root:
        homes = root / "home-of"
        homes.mkdir()
        running = OwnPlatform(root, name, accounts, domain, config)
        try:
            for account in accounts.values():
                base = ["--create-home", "--base-dir", str(homes), "--user-group"]
                subprocess.run(["useradd", *base, account], check=True, stderr=subprocess.PIPE)
            running.start()
            yield running
        finally:
            running.stop()
            for account in accounts.values():
                remove_account(account)
