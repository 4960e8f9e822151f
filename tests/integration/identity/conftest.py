from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.stage import make_blank


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(make_blank(tmp_path_factory.mktemp("blank")))
