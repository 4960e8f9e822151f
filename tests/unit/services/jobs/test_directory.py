"""A slow directory service."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from aitne.core.models.job_file import JobFile
from aitne.core.ports.unix_account_mapping import UnixAccount
from tests.unit.services.conftest import ADA


class Slow:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def get_account(self, user: str) -> UnixAccount:
        """Return the account after the test permits it."""
        self.asked.set()
        assert self.go.wait(10), "nobody else was served meanwhile"
        return UnixAccount(
            name=user, home=f"/home/{user}", folder=f"/home/{user}/jobs", user=user, uid=1000
        )


async def test_slow_directory_does_not_block_other_requests(bench: Any) -> None:
    slow = bench.jobs._admission._accounts = Slow()
    making = asyncio.create_task(bench.jobs.create(ADA, JobFile(commands=["true"])))
    while not slow.asked.is_set():
        await asyncio.sleep(0)
    slow.go.set()
    assert (await making).job.account == "ada"
