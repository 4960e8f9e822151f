"""Fixtures of stages: the API over a database of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.catalog_stage import Catalogue, open_catalogue
from tests.support.stage import Stage, make_begun, make_blank, open_stage


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without content."""
    return asyncio.run(make_blank(tmp_path_factory.mktemp("blank")))


@pytest.fixture
async def stage(tmp_path: Path, blank: Path) -> AsyncIterator[Stage]:
    """A stage with an empty database."""
    async with open_stage(tmp_path, blank) as stage:
        yield stage


@pytest.fixture
async def catalogue(
    tmp_path: Path, blank: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Catalogue]:
    """A stage with images and datasets."""
    async with open_catalogue(tmp_path, blank, monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def people_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, blank: Path
) -> tuple[Path, dict[str, str]]:
    """A database with the users that the module's function ``people`` creates, and their tokens."""
    return asyncio.run(make_begun(tmp_path_factory.mktemp("people"), blank, request.module.people))


@pytest.fixture
async def peopled(
    tmp_path: Path, people_database: tuple[Path, dict[str, str]]
) -> AsyncIterator[Stage]:
    """A stage with these users."""
    async with open_stage(tmp_path, people_database[0]) as stage:
        yield stage


@pytest.fixture
def tokens(people_database: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """The tokens of these users."""
    return people_database[1]
