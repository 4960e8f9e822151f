from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from aitne.adapters.broker_scheduler import BrokerFiles, BrokerScheduler
from tests.support.broker import BrokerBench, unix_users


@pytest.fixture(scope="session")
def users() -> Iterator[dict[str, str]]:
    with unix_users() as found:
        yield found


@pytest.fixture(scope="module")
def shared_bench(users: dict[str, str]) -> Iterator[BrokerBench]:
    """A broker for all tests of a module that do not change it."""
    bench = BrokerBench(users)
    bench.start()
    yield bench
    bench.stop()


@pytest.fixture
def bench(users: dict[str, str]) -> Iterator[BrokerBench]:
    """A broker that is not started yet, for one test."""
    bench = BrokerBench(users)
    yield bench
    bench.stop()


@pytest.fixture
async def scheduler(shared_bench: BrokerBench) -> AsyncIterator[BrokerScheduler]:
    found = shared_bench.scheduler()
    yield found
    await found.close()


@pytest.fixture
async def files(shared_bench: BrokerBench) -> AsyncIterator[BrokerFiles]:
    found = shared_bench.files()
    yield found
    await found.close()
