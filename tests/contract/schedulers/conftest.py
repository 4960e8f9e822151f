"""Every test here runs once per scheduler that can run on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.schedulers import SCHEDULERS, Bench, opened


@pytest.fixture(params=sorted(SCHEDULERS))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(SCHEDULERS[request.param], tmp_path) as bench:
        yield bench
