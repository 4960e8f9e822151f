"""Logouts at the portal end logins at JupyterHub, also after it was down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aitne.core.errors import HubUnavailable
from aitne.services.users.hub_logouts import HubLogouts
from tests.support.hub import RecordingLogins
from tests.support.stage import Stage


async def ended(hub: RecordingLogins, *users: str) -> None:
    """Wait until the Hub has ended the logins of these users, in this order, and of no others."""
    async with asyncio.timeout(30):
        while hub.ended != list(users):
            await asyncio.sleep(0.01)


@pytest.fixture
def hub() -> RecordingLogins:
    """The Hub that is told."""
    return RecordingLogins()


@pytest.fixture
async def logouts(stage: Stage, hub: RecordingLogins) -> AsyncIterator[HubLogouts]:
    """The running loop that logs users out of the Hub."""
    running = HubLogouts(stage.store, hub, stage.clock)
    await running.start()
    yield running
    await running.stop()


async def test_logins_end_when_the_sign_ins_do(
    stage: Stage, hub: RecordingLogins, logouts: HubLogouts
) -> None:
    await stage.add_user("ada")
    await stage.add_user("eve")
    await stage.store.revoke_sign_ins("ada")
    logouts.wake()
    await ended(hub, "ada")
    logouts.wake()
    await stage.store.set_password("eve", "hash", keep=None)
    logouts.wake()
    await ended(hub, "ada", "eve")


async def test_silent_hub_is_asked_again(
    stage: Stage, hub: RecordingLogins, logouts: HubLogouts
) -> None:
    hub.failures = [HubUnavailable("It restarts."), HubUnavailable("Still.")]
    await stage.add_user("ada")
    await stage.store.update_user("ada", disabled=True)
    logouts.wake()
    await ended(hub, "ada")


async def test_logins_that_ended_before_a_restart_are_not_forgotten(stage: Stage) -> None:
    await stage.add_user("ada")
    await stage.store.revoke_sign_ins("ada")
    hub = RecordingLogins()
    later = HubLogouts(stage.store, hub, stage.clock)
    await later.start()
    await ended(hub, "ada")
    await later.stop()
