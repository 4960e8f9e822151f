"""Two users of one machine whose sessions run as their own Unix accounts, in Chromium."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.core.jobs.states import JobState
from aitne.supervisor import platform_control
from tests.support.browser import marks, walk
from tests.support.own_platform import OwnPlatform, own_platform
from tests.support.platform import environments_or_skip
from tests.support.waiting import eventually

pytestmark = [*marks(timeout_s=600), pytest.mark.long(third=3)]

WRITES = """
import json, os, pathlib, pwd
from jupyter_server.serverapp import list_running_servers
[server] = list_running_servers()
private = pathlib.Path.home() / "private"
private.write_text(json.dumps([pwd.getpwuid(os.getuid()).pw_name, server["port"]]))
private.chmod(0o600)
print("done")
"""
ATTACKS = """
import http.client, json, os, pathlib, pwd

home = pathlib.Path(HOME)

def attempt(work):
    try:
        return str(work())
    except OSError as error:
        return type(error).__name__

def answer():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request("GET", f"{PATH}/api/contents")
    return connection.getresponse().status

processes = [each for each in pathlib.Path("/proc").glob("[0-9]*") if each.stat().st_uid == UID]
pathlib.Path.home().joinpath("results").write_text(json.dumps({
    "account": pwd.getpwuid(os.getuid()).pw_name,
    "file": attempt((home / "private").read_text),
    "jobs": attempt(lambda: os.listdir(home / ".aitne" / "jobs")),
    "environments": sorted({attempt((each / "environ").read_bytes) for each in processes}),
    "memory": sorted({attempt(lambda: open(each / "mem", "rb")) for each in processes}),
    "answer": attempt(answer),
}))
print("done")
"""


@pytest.fixture
def platform() -> Iterator[OwnPlatform]:
    """A platform with a domain for each user."""
    environments_or_skip()
    with own_platform() as running:
        yield running


def test_sessions_of_two_users_are_closed_to_each_other(
    platform: OwnPlatform, chromium: str, tmp_path: Path
) -> None:
    tokens = {}
    for user in ("alice", "bob"):
        platform.client(user)
        tokens[user] = platform.token_of(user)
    scripts = platform.data_dir.parent
    (scripts / "writes.py").write_text(WRITES)
    runs = f"exec(open({str(scripts / 'writes.py')!r}).read())"
    walk("own_accounts.mjs", platform, tokens["alice"], chromium, tmp_path, runs, "")
    private = platform.homes["alice"] / "private"
    account, port = json.loads(private.read_text())
    assert account == platform.accounts["alice"]

    alice = platform.client("alice")
    [session] = alice.sessions.list()
    address = alice.sessions.open(session.id).removesuffix("/lab")
    values = {
        "HOME": str(platform.homes["alice"]),
        "UID": private.stat().st_uid,
        "PORT": port,
        "PATH": "/" + address.split("/", 3)[3],
    }
    attacks = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + ATTACKS
    (scripts / "attacks.py").write_text(attacks)
    runs = f"exec(open({str(scripts / 'attacks.py')!r}).read())"
    walk("own_accounts.mjs", platform, tokens["bob"], chromium, tmp_path, runs, address)
    assert json.loads((platform.homes["bob"] / "results").read_text()) == {
        "account": platform.accounts["bob"],
        "file": "PermissionError",
        "jobs": "PermissionError",
        "environments": ["PermissionError"],
        "memory": ["PermissionError"],
        "answer": "403",
    }

    broker = platform.pids()["broker"]
    os.kill(broker, signal.SIGSTOP)
    eventually(
        "the hung broker is replaced", lambda: platform.pids().get("broker", broker) != broker, 120
    )
    eventually("the platform is ready again", platform.ready)
    platform.stop(keep_jobs=True)
    assert platform_control.get_status(platform.data_dir) is None
    platform.start()
    assert alice.jobs.get(session.id).state == JobState.READY
    assert platform.printed_by("bob", "id -un").strip() == platform.accounts["bob"]
