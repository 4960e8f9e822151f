"""Sessions on a complete platform, also after its processes were killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.session_server.launcher import LOGIN_CACHED_S
from tests.support import local_names, realtime
from tests.support.platform import AITNE, RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]


BRIEF_S = 20


@pytest.fixture(scope="module")
def platform(separate_platform: RunningPlatform) -> RunningPlatform:
    """A platform of the module's own: tests kill and restart it."""
    return separate_platform


@contextmanager
def browser(platform: RunningPlatform, token: str | None = None) -> Iterator[httpx.Client]:
    """A browser that is logged in at the portal by a one-time link, made with ``token``."""
    with local_names.browser() as client:
        login = client.post(
            f"{platform.url}/api/v1/auth/login-link",
            json={"token": platform.login_link(token).partition("#link=")[2]},
            headers={"Origin": platform.url},
        )
        login.raise_for_status()
        yield client


def session(platform: RunningPlatform) -> dict[str, Any]:
    done = platform.aitne("session", "start", "jupyterlab", "--yes", "--wait", "--json")
    assert done.returncode == 0, f"{done.stderr}\n{platform.logs()}"
    found = json.loads(done.stdout)
    assert found["state"] == "READY"
    return dict(found)


def test_a_session_opens_for_whom_the_portal_logged_in(platform: RunningPlatform) -> None:
    job = session(platform)
    base = job["url"].removesuffix("/lab")
    assert job["url"].startswith(f"{platform.sessions_url}/user/")
    with browser(platform) as client:
        lab = client.get(job["url"])
        assert lab.status_code == 200
        assert "jupyter-config-data" in lab.text
        before = client.get(f"{base}/api/status?no_track_activity=1").json()["last_activity"]
        status = client.get(f"{base}/aitne/session").json()
        assert status["portal_url"] == f"{platform.url}/jobs/{job['id']}"
        assert status["expires_at"] is not None
        assert status["ranks"] == []
        # The bar asks on its own; only Extend is the user's work.
        after = client.get(f"{base}/api/status?no_track_activity=1").json()["last_activity"]
        assert after == before
        for path in ("extend", "ranks", "ranks/release", "batch"):
            done = client.post(f"{base}/aitne/{path}", json={})
            assert done.status_code == 403, "without the page's token"
    with httpx.Client(follow_redirects=True, trust_env=False) as stranger:
        assert stranger.get(f"{base}/aitne/session").status_code == 403
        assert str(stranger.get(job["url"]).url).startswith(f"{platform.url}/login")
        assert stranger.get(f"{base}/api/status").status_code == 403
    assert platform.aitne("stop", job["id"], "--yes").returncode == 0
    eventually(
        "the route is gone", lambda: httpx.get(job["url"], trust_env=False).status_code == 404
    )


def test_the_status_that_scripts_lean_on(platform: RunningPlatform) -> None:
    done = platform.aitne("status", "--json")
    assert done.returncode == 0
    status = json.loads(done.stdout)
    assert status["url"] == platform.url
    assert {process["name"] for process in status["processes"]} == {
        "api",
        "controller",
        "hub",
        "proxy",
    }
    assert all(process["memory_bytes"] > 0 for process in status["processes"])


def test_a_second_up_leaves_the_first_alone(platform: RunningPlatform) -> None:
    before = platform.pids()
    platform.start()
    assert platform.pids() == before


def test_a_session_outlives_the_whole_platform(platform: RunningPlatform) -> None:
    job = session(platform)
    status_url = job["url"].removesuffix("/lab") + "/api/status"
    with browser(platform) as client:
        client.get(job["url"])
        began = client.get(status_url).json()["started"]
        platform.kill("supervisor")
        eventually("all have ended", lambda: not platform.pids())
        assert platform.aitne("status", "--json").returncode != 0
        platform.start()
        assert client.get(status_url).json()["started"] == began
        platform.stop(keep_jobs=True)
        assert "share one origin" not in platform.start()
        made = platform.aitne("admin", "user", "create", "eve")
        assert made.returncode == 0, made.stderr
        platform.stop(keep_jobs=True)
        assert "share one origin" in platform.start()
        assert client.get(status_url).json()["started"] == began
        listed = json.loads(platform.aitne("ps", "--json").stdout)
        assert [one["state"] for one in listed if one["id"] == job["id"]] == ["READY"]
    assert platform.aitne("stop", job["id"], "--yes").returncode == 0


def test_expiry_of_a_token_and_log_out_everywhere_end_what_a_browser_had_opened(
    platform: RunningPlatform,
) -> None:
    before, bearer = session(platform), {"Authorization": f"Bearer {platform.token}"}
    made = httpx.post(
        f"{platform.url}/api/v1/tokens",
        headers=bearer,
        json={"name": "brief", "scopes": ["read", "write", "admin"], "expires_in": f"{BRIEF_S}s"},
        trust_env=False,
    )
    assert made.status_code == 201, made.text
    lab, status = before["url"], before["url"].removesuffix("/lab") + "/api/status"
    with browser(platform) as client, browser(platform, made.json()["token"]) as brief:
        for each in (client, brief):
            assert each.get(lab).status_code == 200
        eventually(
            "the token has expired, and its lab is closed",
            lambda: brief.get(status).status_code == 403,
            within_s=BRIEF_S + LOGIN_CACHED_S / 3,
        )
        assert client.get(status).status_code == 200, "another login opened it"
        done = client.delete(
            f"{platform.url}/api/v1/account/sign-ins?keep_current=false", headers=bearer
        )
        assert done.status_code == 200

        def contents(job: dict[str, Any]) -> int:
            return client.get(job["url"].removesuffix("/lab") + "/api/contents").status_code

        eventually("it is refused", lambda: contents(before) == 403, within_s=LOGIN_CACHED_S / 3)
        after = session(platform)
        assert contents(after) == 403
        for job in (before, after):
            assert str(client.get(job["url"]).url).startswith(f"{platform.url}/login")
    with browser(platform) as client:
        assert client.get(before["url"]).status_code == 200
    for job in (before, after):
        assert platform.aitne("stop", job["id"], "--yes").returncode == 0


def test_secrets_are_in_programs_and_in_no_file(platform: RunningPlatform) -> None:
    value = "s3cr3t-of-the-owner"
    stored = platform.aitne("secret", "set", "API_KEY", stdin=value + "\n")
    assert stored.returncode == 0, stored.stderr
    file = platform.home / "job.aitne.yml"
    file.write_text(
        "name: secrets\nsecrets: [API_KEY]\nresources: {memory: 64M}\n"
        'commands: [\'test "$API_KEY" = s3cr3t-of-"the"-owner\']\n'
    )
    done = platform.aitne("apply", "-f", str(file), "--yes", "--wait", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    holders = [
        str(path)
        for path in platform.data_dir.rglob("*")
        if path.is_file() and value.encode() in path.read_bytes()
    ]
    assert holders == []
    assert json.loads(platform.aitne("secret", "ls", "--json").stdout)[0]["name"] == "API_KEY"
    assert platform.aitne("secret", "rm", "API_KEY", "--yes").returncode == 0
    refused = platform.aitne("apply", "-f", str(file), "--yes")
    assert refused.returncode != 0
    assert "aitne secret set API_KEY" in refused.stderr


def test_token_in_the_database_of_jupyterhub_opens_nothing(platform: RunningPlatform) -> None:
    job = session(platform)
    database = next((platform.data_dir / "hub").glob("*.sqlite"))
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT state FROM spawners WHERE state IS NOT NULL"
        states = [json.loads(row[0]) for row in connection.execute(query)]
    stored = next(state["api_token"] for state in states if state.get("job_id") == job["id"])
    answer = httpx.get(
        f"{platform.sessions_url}/hub/api/user",
        headers={"Authorization": f"token {stored}"},
        trust_env=False,
    )
    assert answer.status_code == 403
    assert platform.aitne("stop", job["id"], "--yes").returncode == 0


def test_labs_shut_down_ends_the_session(platform: RunningPlatform) -> None:
    job = session(platform)
    base = job["url"].removesuffix("/lab")
    with browser(platform) as client:
        client.get(job["url"])
        path = base.removeprefix(platform.sessions_url) + "/"
        xsrf = client.cookies.get("_xsrf", path=path) or ""
        done = client.post(f"{base}/api/shutdown", headers={"X-XSRFToken": xsrf})
        assert done.status_code == 200

    def state() -> str:
        listed = json.loads(platform.aitne("ps", "--all", "--json").stdout)
        return str(next(one["state"] for one in listed if one["id"] == job["id"]))

    eventually("it completed", lambda: state() == "COMPLETED")


def test_kernel_of_a_session_uses_the_api_with_the_session_token(
    platform: RunningPlatform, tmp_path: Path
) -> None:
    job = session(platform)
    base = job["url"].removesuffix("/lab")
    with browser(platform) as client:
        client.get(job["url"])
        xsrf = client.cookies.get("_xsrf", path=base.removeprefix(platform.sessions_url) + "/")
        made = client.post(f"{base}/api/kernels", headers={"X-XSRFToken": xsrf or ""})
        assert made.status_code == 201, made.text
    argv, environ = process_of(made.json()["id"])
    assert "--InteractiveShellApp.extra_extensions=aitne_kernel" in argv
    program = (
        "import os; from aitne import Client; client = Client(); print(client.platform.source, "
        "client.sessions.get(os.environ['AITNE_SESSION']).project == os.environ['AITNE_PROJECT']);"
        "client.tokens.list()"
    )
    # Another home: there, no other credential of this platform is known.
    own = {name: value for name, value in environ.items() if name.startswith("AITNE_")}
    env = {**own, "HOME": str(tmp_path), "PYTHONPATH": environ["AITNE_NOTEBOOK"]}
    ran = subprocess.run([argv[0], "-c", program], env=env, capture_output=True, text=True)
    assert ran.stdout == "this session True\n", ran.stderr
    assert "The token of a session does not permit this (list_tokens)" in ran.stderr
    assert platform.aitne("stop", job["id"], "--yes").returncode == 0


def process_of(kernel_id: str) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment of a kernel's process."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            argv = (entry / "cmdline").read_text().split("\0")
            if any(f"kernel-{kernel_id}.json" in part for part in argv):
                assert (entry / "environ").stat().st_mode & 0o077 == 0
                pairs = (entry / "environ").read_text().split("\0")
                return argv, dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    raise AssertionError("the kernel was not found")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[RunningPlatform]:
    """A platform that the test starts itself."""
    running = RunningPlatform(tmp_path)
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("number", "exit_status", "kept"), [(signal.SIGINT, 0, False), (signal.SIGTERM, 0, True)]
)
def test_in_the_foreground_it_ends_by_signals(
    other: RunningPlatform, number: signal.Signals, exit_status: int, kept: bool
) -> None:
    where = ["--data-dir", str(other.data_dir), "--port", str(other.port)]
    log = other.home / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen([AITNE, "up", *where], env=other.env, stdout=output, stderr=output)
    eventually(
        "it says its address",
        lambda: up.poll() is not None or "#link=" in log.read_text(),
        within_s=120,
    )
    job = other.aitne("session", "start", "jupyterlab", "--yes", "--json")
    assert job.returncode == 0, f"{job.stderr}\n{log.read_text()}"
    up.send_signal(number)
    assert up.wait(60) == exit_status, log.read_text()
    assert not other.pids()
    assert ("Ending sessions and jobs." not in log.read_text()) is kept
    assert (other.data_dir / "run" / "live").exists() is kept


def test_taken_port_and_unusable_data_directory_are_reported(
    platform: RunningPlatform, tmp_path: Path
) -> None:
    where = ["--data-dir", str(tmp_path / "data"), "--port", str(platform.port)]
    done = platform.aitne("up", "--detach", *where)
    assert done.returncode == 1
    assert f"Port {platform.port} on 127.0.0.1, meant for the portal, is in use" in done.stderr
    (tmp_path / "file").write_text("")
    done = platform.aitne("up", "--detach", "--data-dir", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "is a file. Choose another data directory" in done.stderr


def test_a_damaged_database_is_said_in_a_sentence(other: RunningPlatform) -> None:
    (other.data_dir / "aitne.db").write_bytes(b"This is not SQLite. " * 1_000)
    where = ["--data-dir", str(other.data_dir), "--port", str(other.port)]
    done = other.aitne("up", "--detach", *where)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "aitne.db" in done.stderr
    assert not other.pids()
