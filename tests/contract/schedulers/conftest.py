"""Benches of all schedulers that can run on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.schedulers import (
    SCHEDULERS,
    SLURM,
    Bench,
    Clusters,
    opened,
    scheduler_of,
    shared_accounts,
    shared_broker,
)
from tests.support.schedulers import local as make_local

__all__ = ["shared_accounts", "shared_broker"]


@pytest.fixture(params=sorted(SCHEDULERS))
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, slurm_clusters: Clusters
) -> AsyncIterator[Bench]:
    """A bench with each of the schedulers."""
    with scheduler_of(request, tmp_path, slurm_clusters) as (factory, stand):
        async with opened(factory, tmp_path, stand) as bench:
            yield bench


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench with the local scheduler."""
    async with opened(make_local, tmp_path) as bench:
        yield bench


@pytest.fixture(params=sorted(SLURM))
async def slurm(
    request: pytest.FixtureRequest, tmp_path: Path, slurm_clusters: Clusters
) -> AsyncIterator[Bench]:
    """A real Slurm, through each adapter and of each release."""
    with scheduler_of(request, tmp_path, slurm_clusters) as (factory, stand):
        async with opened(factory, tmp_path, stand) as bench:
            yield bench
