"""The platform that modules share is given to each without what the last one left."""

from __future__ import annotations

import pytest

from aitne.client import Client
from aitne.core.errors import AitneError
from tests.support import realtime
from tests.support.shared_platform import SharedPlatform
from tests.support.waiting import eventually

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300), realtime.PLATFORM]

SMALL = {"cpu": 1, "memory": "64M"}


def test_shared_platform_has_nothing_of_the_module_before(shared_platform: SharedPlatform) -> None:
    with shared_platform.lend() as platform:
        client = Client(platform.url, platform.token)
        first = client.jobs.create({"commands": ["sleep 600"], "resources": SMALL})
        client.jobs.create({"commands": ["true"], "resources": SMALL, "after": [first.id]})
        eventually("the job runs", lambda: client.jobs.get(first.id).state == "RUNNING")
        client.secrets.put("KEY", "value")
        (platform.home / "left").write_text("")
        client.users.create("guest")
        guest = Client(platform.url, platform.token_of("guest"))
        before = platform.pids()
    with shared_platform.lend() as platform:
        client = Client(platform.url, platform.token)
        assert platform.pids() == before
        assert [*client.jobs.list()] == []
        assert client.secrets.list() == []
        assert not (platform.home / "left").exists()
        with pytest.raises(AitneError):
            guest.me()


def test_shared_platform_is_stopped_after_a_process_was_killed(
    shared_platform: SharedPlatform,
) -> None:
    with shared_platform.lend() as platform:
        before = platform.pids()["controller"]
        platform.kill("controller")
        eventually("it runs again", lambda: platform.pids().get("controller", before) != before)
    assert platform.pids() == {}
