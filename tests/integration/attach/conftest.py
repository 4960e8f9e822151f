from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.schedulers import (
    Bench,
    Clusters,
    opened,
    scheduler_of,
    shared_accounts,
    shared_broker,
)

__all__ = ["shared_accounts", "shared_broker"]


@pytest.fixture(
    params=["local", "local@broker", "slurm_cli@system", "slurm_cli@trixie", "slurm_cli@broker"]
)
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, slurm_clusters: Clusters
) -> AsyncIterator[Bench]:
    """A bench with each scheduler that attaches programs to jobs in its own way."""
    with scheduler_of(request, tmp_path, slurm_clusters) as (factory, stand):
        async with opened(factory, tmp_path, stand) as bench:
            yield bench
