from __future__ import annotations

import pytest

from aitne.client import Client, Platform
from tests.support.fake_api import FakeApi


class Clock:
    """A clock that advances only when the client sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(api: FakeApi, clock: Clock) -> Client:
    found = Client(platform=Platform("http://aitne.test", "secret"), transport=api)
    found._session.sleep = clock.sleep
    found._session.clock = clock
    return found
