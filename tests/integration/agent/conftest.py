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
def folder(tmp_path: Path) -> Path:
    """The folder of ``job``."""
    return tmp_path


@pytest.fixture
def job(folder: Path) -> Iterator[Job]:
    job = Job(folder)
    yield job
    if job.process is not None and job.process.poll() is None:
        # Asked to end, the agent ends its program too; killed, it would leave it behind.
        job.process.terminate()
        job.process.wait()
