from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stage import Stage, make_blank, open_stage


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(make_blank(tmp_path_factory.mktemp("blank")))


@pytest.fixture
async def stage(tmp_path: Path, blank: Path) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path, blank) as stage:
        yield stage
