"""Fixtures of the agent's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import Job, Platform


@pytest.fixture
def platform() -> Iterator[Platform]:
    found = Platform()
    yield found
    found.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    found = Job(tmp_path)
    yield found
    if found.process is not None and found.process.poll() is None:
        # Asked to end, the agent ends its program too; killed, it would leave it behind.
        found.process.terminate()
        found.process.wait()
