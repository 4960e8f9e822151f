"""On the whole platform: an idle session is warned of and ended, one that works or is kept is not; and
what happens arrives at a webhook, signed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from aitne.client import Client
from aitne.core.notifications.webhooks import verify_signature
from tests.support import realtime
from tests.support.platform import RunningPlatform, run_platform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

CONFIG = """
[webhooks]
http_hosts = ["127.0.0.1"]
private_networks = ["127.0.0.0/8"]
"""
IDLE_S = 12


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    with run_platform(RunningPlatform(tmp_path_factory.mktemp("platform"), CONFIG)) as running:
        yield running


@pytest.fixture
def client(platform: RunningPlatform) -> Client:
    return Client(platform.url, platform.token)


class Receiver(ThreadingHTTPServer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told: list[tuple[str, bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Receiver)
        self.server.told.append((self.headers["Aitne-Signature"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Suppress the log of requests."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def start(platform: RunningPlatform, inactivity: str) -> str:
    done = platform.aitne(
        *("session", "start", "jupyterlab", "--inactivity-duration", inactivity),
        *("--yes", "--wait", "--json"),
    )
    assert done.returncode == 0, f"{done.stderr}\n{platform.logs()}"
    return str(json.loads(done.stdout)["id"])


def kinds(client: Client, job_id: str) -> list[str]:
    return [event.kind for event in client.jobs.events(job_id)]


def test_a_session_in_which_nobody_works_is_warned_of_twice_and_ended(
    platform: RunningPlatform, client: Client
) -> None:
    job_id = start(platform, f"{IDLE_S}s")
    # Idle until warned, kept, and idle again until its end.
    eventually(
        "no warning came", lambda: client.sessions.get(job_id).idle_ends_at is not None, within_s=90
    )
    kept = client.sessions.keep(job_id)
    assert kept.idle_ends_at is None
    ended = client.jobs.wait(job_id, timeout_s=120)
    assert (ended.state, ended.reason) == ("CANCELLED", "idle"), platform.logs()
    assert ended.message == f"Ended after {IDLE_S} s without activity."
    told = kinds(client, job_id)
    assert told.count("session.idle") >= 3
    assert "session.active" in told

    def inbox() -> list[str]:
        return [each.kind for each in client.notifications.list() if each.job_id == job_id]

    eventually("its end was not told", lambda: inbox()[:1] == ["session_ended"])
    assert {"session_idle", "session_ready"} <= {*inbox()}


def test_a_busy_kernel_is_work(platform: RunningPlatform, client: Client) -> None:
    import httpx
    import websockets.sync.client

    job_id = start(platform, f"{IDLE_S}s")
    url = str(client.sessions.get(job_id).url).removesuffix("/lab")
    from tests.integration.hub.test_platform import browser

    with browser(platform) as http:
        http.get(f"{url}/lab")
        xsrf = {
            "X-XSRFToken": next(
                c.value
                for c in http.cookies.jar
                if c.name == "_xsrf" and c.path.startswith("/user")
            )
        }
        kernel = http.post(f"{url}/api/kernels", json={"name": "python3"}, headers=xsrf)
        kernel.raise_for_status()
        cookie = "; ".join(f"{each.name}={each.value}" for each in http.cookies.jar)
        channel = f"{url.replace('http:', 'ws:')}/api/kernels/{kernel.json()['id']}/channels"
        with websockets.sync.client.connect(
            channel, additional_headers={"Cookie": cookie, "Origin": platform.sessions_url}
        ) as socket:
            socket.send(_execute(f"import time; time.sleep({4 * IDLE_S})"))
            # The cell sleeps: no CPU time, no input. Only the kernel's state shows that it works.
            busy_until = time.monotonic() + 2 * IDLE_S
            while time.monotonic() < busy_until:
                now = client.sessions.get(job_id)
                assert now.state == "READY"
                assert now.idle_ends_at is None
                time.sleep(0.5)
    client.sessions.stop(job_id)
    assert isinstance(http, httpx.Client)


def _execute(code: str) -> str:
    header = {
        "msg_id": "1",
        "msg_type": "execute_request",
        "username": "",
        "session": "1",
        "version": "5.3",
        "date": "2026-01-01T00:00:00Z",
    }
    content = {
        "code": code,
        "silent": False,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": False,
    }
    return json.dumps(
        {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
            "buffers": [],
        }
    )


def test_webhook_receives_each_event_once_after_death_of_controller(
    platform: RunningPlatform, client: Client, receiver: Receiver
) -> None:
    hook = client.webhooks.create(f"http://127.0.0.1:{receiver.server_port}/hook")
    assert hook.secret is not None
    tested = client.webhooks.test(hook.id)
    eventually(
        "the test did not arrive",
        lambda: any(
            each.id == tested.id and each.state == "sent"
            for each in client.webhooks.deliveries(hook.id)
        ),
        within_s=30,
    )
    jobs = [
        client.jobs.create({"name": f"job{n}", "commands": ["exit 3" if n else "true"]})
        for n in range(3)
    ]
    platform.kill("controller")
    for job in jobs:
        client.jobs.wait(job.id, timeout_s=120)
    eventually("not all were told", lambda: len(receiver.told) >= 1 + len(jobs))
    eventually(
        "a delivery hangs",
        lambda: all(d.state == "sent" for d in client.webhooks.deliveries(hook.id)),
        within_s=60,
    )
    messages = []
    for signature, body in receiver.told:
        assert verify_signature(hook.secret, signature, body, time.time())
        messages.append(json.loads(body))
    titles = sorted(message["title"] for message in messages)
    assert titles == [
        "This is a test from Aitne",
        "job0 has finished",
        "job1 failed",
        "job2 failed",
    ]
    assert len({message["id"] for message in messages}) == len(messages)
    client.webhooks.delete(hook.id)
