"""A platform on one machine whose jobs run as the Unix accounts of their users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aitne.core.errors import AitneError
from aitne.core.jobs.states import JobState
from tests.support import realtime
from tests.support.own_platform import OwnPlatform, own_platform
from tests.support.platform import environments_or_skip
from tests.support.waiting import eventually

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300), realtime.PLATFORM]


@pytest.fixture(scope="module")
def platform() -> Iterator[OwnPlatform]:
    """A platform for all tests of this module."""
    environments_or_skip()
    with own_platform() as running:
        yield running


def test_jobs_of_each_user_run_as_the_users_account(platform: OwnPlatform) -> None:
    alice, home = platform.client("alice"), platform.homes["alice"]
    private, pid_file = home / "private", home / "pid"
    waits = ["umask 077", f"echo mine > {private}", "id -un", f"echo $$ > {pid_file}", "sleep 600"]
    job = alice.jobs.create({"name": "waits", "commands": ["\n".join(waits)]})
    try:
        pid = eventually("alice's job", lambda: pid_file.exists() and pid_file.read_text().strip())
        tries = [
            f"cat {private}",
            f"cat /proc/{pid}/environ",
            f"kill {pid}",
            f"cat {home}/.aitne/jobs/{job.id}/1/token",
            f"ls {platform.data_dir}",
            f"cat {platform.data_dir}-broker/broker.toml",
            f"echo more >> {platform.data_dir}-broker/broker.sock.lock",
        ]
        printed = platform.printed_by("bob", "id -un", *(f"{command} || true" for command in tries))
        assert printed.splitlines()[0] == platform.accounts["bob"]
        refused = printed.count("Permission denied") + printed.count("not permitted")
        assert refused == len(tries), printed
        assert alice.jobs.get(job.id).state == JobState.RUNNING
    finally:
        alice.jobs.cancel(job.id)
    assert alice.jobs.wait(job.id).state == JobState.CANCELLED
    log = b"".join(alice.jobs.logs(job.id)).decode()
    assert log.splitlines()[0] == platform.accounts["alice"]


def test_user_without_an_account_is_told_so(platform: OwnPlatform) -> None:
    carol = platform.client("carol")
    with pytest.raises(AitneError, match="carol has no Unix account that jobs may run as"):
        carol.jobs.create({"name": "none", "commands": ["true"]})
