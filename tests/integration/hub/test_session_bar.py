"""The bar in JupyterLab: the server tells its page about changes of the session."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any
from uuid import uuid4

import httpx
import pytest

import aitne
from aitne.core.models.job_file import JobFile
from aitne.supervisor import software_environments
from tests.support import realtime
from tests.support.platform import environments_or_skip
from tests.support.ports import reserve_ports
from tests.support.waiting import eventually

pytestmark = realtime.BROWSER

SERVER = Path(aitne.__file__).parent / "session_server" / "lab" / "server"
SESSION = str(uuid4())
TOKEN = "the-session-token"
LOGIN = {"Authorization": "token of-the-page"}
PROGRAM = """
import sys

server_extensions, port = sys.argv[1:]
sys.path.append(server_extensions)
import aitne_session_bar
from jupyter_server.serverapp import ServerApp

aitne_session_bar.configure("http://127.0.0.1:9", "of-the-job", None)
ServerApp.launch_instance(argv=[
    "--ServerApp.jpserver_extensions=aitne_session_bar=True", "--IdentityProvider.token=of-the-page",
    "--ServerApp.port=" + port, "--ServerApp.port_retries=0", "--no-browser", "--allow-root",
])
"""


class Platform:
    """A platform that sends the events that the test puts into ``events``, or refuses the stream
    with ``refusal``.
    """

    def __init__(self) -> None:
        self.events: Queue[tuple[str, dict[str, Any]] | None] = Queue()
        self.refusal: int | None = None
        self.answers: dict[str, Any] = {}
        self.submitted: list[dict[str, Any]] = []
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Send the events until None."""
                if (answer := platform.answers.get(self.path)) is not None:
                    self.answer(answer)
                    return
                known = self.headers["Authorization"] == f"Bearer {TOKEN}"
                if platform.refusal is not None or not known:
                    self.send_response(platform.refusal or 401)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while (event := platform.events.get()) is not None:
                    kind, data = event
                    text = f"id: 1\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
                    self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
                self.wfile.write(b"0\r\n\r\n")

            def do_POST(self) -> None:
                """Record a job that is submitted."""
                size = int(self.headers["Content-Length"])
                platform.submitted.append(json.loads(self.rfile.read(size)))
                self.answer({"id": str(uuid4()), "name": platform.submitted[-1]["name"]})

            def answer(self, content: Any) -> None:
                body = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Suppress the log of requests."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def platform() -> Iterator[Platform]:
    """A platform for the server of a session."""
    started = Platform()
    yield started
    started.events.put(None)
    started.http.shutdown()
    started.http.server_close()


@pytest.fixture
def page(platform: Platform, tmp_path: Path) -> Iterator[httpx.Client]:
    """A page of JupyterLab in a session of ``platform``."""
    environments_or_skip()
    port = reserve_ports()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AITNE_SESSION": SESSION}
    env |= {"AITNE_URL": platform.url, "AITNE_TOKEN": TOKEN}
    python = software_environments.session_env_dir() / "bin/python"
    command = [str(python), "-c", PROGRAM, str(SERVER), str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, headers=LOGIN, timeout=60, trust_env=False) as client:

        def answers() -> bool:
            assert server.poll() is None, (tmp_path / "log").read_text()
            try:
                return client.get("/api/status").is_success
            except httpx.TransportError:
                return False

        try:
            eventually("the server answers", answers)
            yield client
        finally:
            server.kill()
            server.wait()


def test_page_is_told_of_its_session_and_its_ranks_only(
    platform: Platform, page: httpx.Client
) -> None:
    other = {"id": 2, "job_id": str(uuid4()), "data": {"session_id": str(uuid4())}}
    of_session = {"id": 3, "job_id": SESSION, "data": {}}
    of_ranks = {"id": 4, "job_id": str(uuid4()), "data": {"session_id": SESSION}}
    platform.events.put(("hello", {"last_event_id": 1}))
    with page.stream("GET", "/aitne/changes") as answer:
        lines = answer.iter_lines()
        # An open page begins with what it may have missed.
        assert next(lines) == "changed"
        told = ((other, ""), (of_session, "changed"), (other, ""), (of_ranks, "changed"))
        for event, line in told:
            platform.events.put(("job.created", event))
            assert next(lines) == line
        platform.events.put(None)
        assert list(lines) == []
    platform.refusal = 401
    assert page.get("/aitne/changes").status_code == 401
    assert httpx.get(f"{page.base_url}/aitne/changes", trust_env=False).status_code == 403


def test_notebook_runs_as_a_job_with_name_parameters_and_the_attached_ranks(
    platform: Platform, page: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "train.ipynb").write_text("{}")
    group = str(uuid4())
    own = {"project": "vision", "resources": {"cpu": 2, "memory": "1.5G"}, "max_duration": "4h"}
    attached = {
        "resources": {
            "nodes": 2,
            "cpu": 4,
            "memory_bytes": 8 << 30,
            "gpu": {"count": 2, "type": "a100"},
        },
        "distributed": {"ranks_per_node": 2},
    }
    platform.answers = {
        f"/api/v1/jobs/{SESSION}/file": own,
        f"/api/v1/jobs/{group}": attached,
    }
    chosen: dict[str, Any] = {
        "path": "train.ipynb",
        "name": "night",
        "nodes": 2,
        "ranks_per_node": 3,
        "group": group,
        "parameters": "lr=.5\n\nname = a b\nsteps=[1, .nan]\nlast=True\nid=010\ntext='1'",
    }
    answer = page.post("/aitne/batch", json=chosen)
    assert answer.json()["name"] == "night", answer.text
    (job,) = platform.submitted
    memory = (3 << 29) + (12 << 30)
    assert job["resources"] == {"cpu": 8, "memory": f"{memory}B", "nodes": 2, "gpu": "a100:3"}
    assert job["distributed"] == {"ranks_per_node": 3}
    path = str(tmp_path / "train.ipynb")
    assert job["notebook"] == {
        "path": path,
        "parameters": {
            "lr": 0.5,
            "name": "a b",
            "steps": [1, {"$float": "nan"}],
            "last": True,
            "id": 10,
            "text": "1",
        },
    }
    assert JobFile.model_validate(job).resources.memory == memory
    refused = page.post("/aitne/batch", json={**chosen, "parameters": "lr 0.1"})
    assert refused.status_code == 422
    assert refused.json()["detail"] == "Not submitted: the parameter lr 0.1 is not NAME=VALUE."
    page.post("/aitne/batch", json={"path": "train.ipynb"})
    alone = platform.submitted[-1]
    assert (alone["name"], alone["resources"]) == ("train.ipynb", own["resources"])
    assert "distributed" not in alone
    assert "parameters" not in alone["notebook"]
